//! The index of scripts in `README.md` says what the scripts' first lines say.

use crate::script::Script;
use crate::{home, scripts};

/// The rows of the table that the scripts make.
fn rows() -> Vec<String> {
    let row = |(name, text): &(String, String)| {
        let script =
            Script::parse(text).unwrap_or_else(|(line, why)| panic!("{name}:{line}: {why}"));
        format!(
            "| [`{}`](scripts/{name}) | {} | {} |",
            name.trim_end_matches(".script"),
            script.section,
            script.shows
        )
    };
    scripts().iter().map(row).collect()
}

#[test]
fn the_index_lists_every_script() {
    let readme = std::fs::read_to_string(home().join("README.md")).expect("README.md");
    let listed: Vec<&str> = readme
        .lines()
        .filter(|line| line.starts_with("| [`"))
        .collect();
    let rows = rows();
    assert!(
        listed == rows,
        "the table of README.md should read:\n{}",
        rows.join("\n")
    );
}

#[test]
fn there_are_a_hundred_and_their_folders_are_those_of_their_rfcs() {
    let scripts = scripts();
    assert!(scripts.len() >= 100, "{} scripts", scripts.len());
    for (name, text) in &scripts {
        let folder = name.split('/').next().unwrap_or("");
        let rfc = folder.strip_prefix("rfc").unwrap_or("");
        assert!(
            text.starts_with(&format!("# RFC {rfc} §")),
            "{name} begins with its section"
        );
    }
}

#[test]
fn a_script_that_is_none_is_told_where_and_why() {
    for (text, line, why) in [
        ("0.0 listen", 1, "first line"),
        ("# RFC 1 §1: x.\n0.1 listen\n0.0 close", 3, "backwards"),
        ("# RFC 1 §1: x.\n0.0 < S 0 ack 1", 2, "go together"),
        ("# RFC 1 §1: x.\n0.0 < S 0 <mss>", 2, "no option"),
        ("# RFC 1 §1: x.\n0.0 juggle", 2, "nothing a script can say"),
        ("# RFC 1 §1: x.\n0.0 < Q 0", 2, "no flag"),
        ("# RFC 1 §1: x.\n0.0 established rtt 5", 2, "no duration"),
    ] {
        let Err((at, reason)) = Script::parse(text).map(|_| ()) else {
            panic!("{text:?} was taken")
        };
        assert_eq!(at, line, "{reason}");
        assert!(reason.contains(why), "{reason}");
    }
}
