//! The program `tautline` as users meet it: help, version, manual pages, completions.

use std::process::{Command, Output};

/// Runs `tautline` with these arguments to its end.
fn tautline(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tautline"))
        .args(words)
        .output()
        .expect("the program starts")
}

/// Standard output of a run that succeeds.
#[track_caller]
fn printed(words: &[&str]) -> String {
    let output = tautline(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = printed(&["--help"]);
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    listed
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

#[test]
fn every_command_has_help_a_manual_page_and_completions() {
    let directory = tempfile::tempdir().expect("a directory");
    let pages = directory.path().join("man1");
    printed(&["man", pages.to_str().expect("text")]);
    let completions = printed(&["completions", "bash"]);
    let commands = commands();
    assert!(commands.iter().any(|name| name == "send"), "{commands:?}");
    for name in commands.iter().filter(|name| *name != "help") {
        assert!(printed(&[name, "--help"]).contains("Usage: tautline"));
        let page = pages.join(format!("tautline-{name}.1"));
        let text = std::fs::read_to_string(&page).expect("a manual page");
        assert!(text.contains(".TH"), "{name}");
        assert!(
            completions.contains(&format!("tautline__subcmd__{name}")),
            "{name}"
        );
    }
}

#[test]
fn the_version_begins_with_the_package() {
    let expected = concat!("tautline ", env!("CARGO_PKG_VERSION"));
    assert!(printed(&["--version"]).starts_with(expected));
}

#[test]
fn a_command_line_that_cannot_work_is_one_line() {
    for words in [&["sned"][..], &["send", "--iface", "none"]] {
        let output = tautline(words);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
    }
}

#[test]
fn doctor_has_a_finding_per_line_and_a_status() {
    let output = tautline(&["doctor", "--json"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let findings: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let missing = findings.iter().any(|finding| finding["level"] == "missing");
    assert_eq!(output.status.code(), Some(i32::from(missing)));
    assert!(
        findings
            .iter()
            .any(|finding| finding["subject"] == "kernel")
    );
    let absent = tautline(&["doctor", "--iface", "no-such-if"]);
    assert_eq!(absent.status.code(), Some(1));
}
