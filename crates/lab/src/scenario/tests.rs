//! Scenario files as they are read; mistakes in them are in `mistakes`, in their expressions and names
//! of measurements in `expressions`.

mod expressions;
mod mistakes;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// A small scenario that is right.
const GOOD: &str = r#"id = "001-F4"
title = "A title"
paper = "001"
claim = "A claim"
table = ["goodput.upload.total"]

[run]
duration = "10s"
warm_up = "1s"

[[host]]
name = "client"
qdisc = "pfifo_fast"

[[host]]
name = "server"

[[router]]
name = "router"

[[link]]
between = ["client", "router"]
rate = "1gbit"

[[link]]
between = ["router", "server"]
rate = "100mbit"
qdisc = "fq_codel"

[tcp]
congestion = "cubic"

[[flow]]
name = "upload"
kind = "tcp"
from = "client"
to = "server"

[[flow]]
name = "ping"
kind = "ping"
from = "client"
to = "server"
every = "200ms"

[[axis]]
name = "rate"

[[axis.value]]
name = "slow"
set = { "link.router-server.rate" = "10mbit", "tcp.tsq" = "off" }

[[axis.value]]
name = "fast"

[[shape]]
says = "fast is faster"
check = 'cell["fast"].goodput.total > cell["slow"].goodput.total'
"#;

/// A directory with these files.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("a file");
    }
    directory
}

fn load(text: &str) -> Result<Scenario, ScenarioError> {
    let directory = directory(&[("it.toml", text)]);
    Scenario::load(&ScenarioDir::Directory(directory.path().into()), "it.toml")
}

/// The error without its directory.
fn error(files: &[(&str, &str)]) -> String {
    let directory = directory(files);
    let scenario_dir = ScenarioDir::Directory(directory.path().into());
    let error = Scenario::load(&scenario_dir, files[0].0).expect_err("something is wrong");
    error
        .to_string()
        .replace(&format!("{}/", directory.path().display()), "")
}

/// The error when `from` is written as `to`.
fn broken(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from:?} occurs once");
    error(&[("it.toml", &GOOD.replace(from, to))])
}

/// Each line: what is written in place of what, and how the error begins.
fn check_errors(lines: &[(&str, &str, &str)]) {
    let wrong = lines.iter().filter_map(|(from, to, expected)| {
        let error = broken(from, to);
        (!error.starts_with(expected))
            .then(|| format!("{to:?}\n  gives  {error}\n  not    {expected}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn axes_multiply_and_set_what_they_name() {
    let scenario = load(GOOD).expect("it is right");
    assert_eq!(
        scenario.axes,
        [(
            "rate".to_owned(),
            vec!["slow".to_owned(), "fast".to_owned()]
        )]
    );
    let [slow, fast] = &scenario.cells[..] else {
        panic!("two cells")
    };
    let rate = |variation: &Variation| variation.document.link[1].rate.expect("it is written").0;
    assert_eq!(
        (rate(slow), rate(fast)),
        (
            tautline_base::Rate::mbit(10),
            tautline_base::Rate::mbit(100)
        )
    );
    assert_eq!(
        (slow.cell.to_string(), fast.document.tcp.tsq),
        ("slow".to_owned(), None)
    );
    assert_eq!(scenario.shapes[0].line, 58, "the line of the expression");
    assert_ne!(slow.resolved, fast.resolved);
}

#[test]
fn what_a_run_depends_on_is_not_changed_by_words() {
    let [one, other] = [
        GOOD,
        &GOOD
            .replace("A claim", "Another")
            .replace("[run]\n", "[run]\n# why\n"),
    ];
    let [one, other] = [one, other].map(|text| load(text).expect("it is right"));
    assert_eq!(one.cells[0].resolved, other.cells[0].resolved);
}

#[test]
fn the_quick_form_has_times_of_its_own() {
    let with = |quick: &str, form| {
        let directory = directory(&[("it.toml", &format!("{GOOD}\n[quick]\n{quick}\n"))]);
        let directory = ScenarioDir::Directory(directory.path().into());
        Scenario::load_in(&directory, "it.toml", form)
    };
    let quick = Form {
        quick: true,
        ..Form::default()
    };
    let seconds = |form| {
        let scenario = with("duration = \"4s\"", form).expect("it is right");
        let run = scenario.header().run.as_ref().expect("it is written");
        (run.duration.0.as_secs(), run.warm_up.0.as_secs())
    };
    assert_eq!(seconds(Form::default()), (10, 1));
    assert_eq!(seconds(quick), (4, 1));
    let refused = |quick, form| with(quick, form).expect_err("it is wrong").to_string();
    let short = refused("duration = \"1s\"", quick);
    assert!(short.contains("less than the duration"), "{short}");
    for form in [Form::default(), quick] {
        let unknown = refused("sample = \"1s\"", form);
        assert!(unknown.contains("quick"), "{unknown}");
    }
}

#[test]
fn a_base_gives_what_is_not_said() {
    let own = "id = \"002\"\nbase = \"base.toml\"\ntitle = \"Other\"\n[run]\nduration = \"5s\"\n\
               [[host]]\nname = \"server\"\nring = 64\n[[flow]]\nname = \"more\"\nkind = \"tcp\"\nfrom = \"server\"\nto = \"client\"\n\
               [[link]]\nbetween = [\"router\", \"server\"]\nring = 128\n";
    let base = GOOD.replace("id = \"001-F4\"\n", "");
    let directory = directory(&[("it.toml", own), ("base.toml", &base)]);
    let scenario = Scenario::load(&ScenarioDir::Directory(directory.path().into()), "it.toml")
        .expect("it is right");
    let header = scenario.header();
    let run = header.run.as_ref().expect("it is written");
    assert_eq!(
        (
            header.id.as_str(),
            header.title.as_str(),
            header.claim.as_str()
        ),
        ("002", "Other", "A claim")
    );
    assert_eq!(
        (run.duration.0.as_secs(), run.warm_up.0.as_secs()),
        (5, 1),
        "tables merge"
    );
    let hosts: Vec<_> = header
        .host
        .iter()
        .map(|host| (host.name.as_str(), host.ring))
        .collect();
    assert_eq!(
        hosts,
        [("client", None), ("server", Some(64))],
        "entries of one name merge"
    );
    assert_eq!(
        (
            header.link[1].ring,
            header.link[1].rate.is_some(),
            header.link.len()
        ),
        (Some(128), true, 2)
    );
    assert_eq!(
        header
            .flow
            .iter()
            .map(|flow| flow.name.as_str())
            .collect::<Vec<_>>(),
        ["upload", "ping", "more"]
    );
    assert!(
        scenario.shapes[0].file.ends_with("base.toml"),
        "{}",
        scenario.shapes[0].file
    );
    let ids = |text| Scenario::ids_of(text, "x").expect("it is TOML");
    assert_eq!((ids(own), ids(&base)), (vec!["002".to_owned()], Vec::new()));
    assert_eq!(ids("id = \"1\"\naliases = [\"2\", \"3\"]"), ["1", "2", "3"]);
}

#[test]
fn files_that_are_missing_or_their_own_base_are_named() {
    let with_base = |base: &str| format!("base = \"{base}\"\n{GOOD}");
    let missing = error(&[("it.toml", &with_base("nowhere.toml"))]);
    assert!(
        missing.starts_with("it.toml:1:8: base: nowhere.toml: No such file"),
        "{missing}"
    );
    let own = error(&[("it.toml", &with_base("it.toml"))]);
    assert_eq!(own, "it.toml:1:8: base: it.toml would be its own base");
    let there = Scenario::load(&ScenarioDir::Directory("/nowhere".into()), "it.toml")
        .expect_err("no such directory");
    assert!(
        there
            .to_string()
            .starts_with("/nowhere/it.toml: No such file"),
        "{there}"
    );
    let shipped = Scenario::load(&ScenarioDir::Shipped, "it.toml").expect_err("no such file");
    assert_eq!(
        shipped.to_string(),
        "scenarios/it.toml: no such file came with the program"
    );
}

/// The first scenario of `docs/lab.md` can be copied as it stands. The package does not contain that
/// file, only the workspace does.
#[test]
fn the_first_scenario_of_the_documentation_is_right() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !workspace.join("ARCHITECTURE.md").exists() {
        return println!(
            "skipped: no workspace is around this package, so there is no docs/lab.md"
        );
    }
    let text = fs::read_to_string(workspace.join("docs/lab.md")).expect("the documentation");
    let after = text.split("```toml\n").nth(1).expect("a scenario");
    let example = after.split("```").next().expect("its end");
    let directory = directory(&[("mine.toml", example)]);
    let directory = ScenarioDir::Directory(directory.path().into());
    let scenario = Scenario::load(&directory, "mine.toml").expect("it is right");
    assert_eq!((scenario.cells.len(), scenario.shapes.len()), (2, 1));
}

#[test]
fn a_base_may_have_come_with_the_program() {
    let own =
        "id = \"mine\"\nbase = \"001-f4.toml\"\ntitle = \"Mine\"\n[tcp]\ncongestion = \"bbr\"\n";
    let directory = directory(&[("it.toml", own)]);
    let mine = Scenario::load(&ScenarioDir::Directory(directory.path().into()), "it.toml")
        .expect("a base that is not beside the file is looked for in the program");
    let theirs = Scenario::load(&ScenarioDir::Shipped, "001-f4.toml").expect("it came with it");
    assert_eq!(
        (mine.header().id.as_str(), mine.cells.len()),
        ("mine", theirs.cells.len())
    );
    assert!(mine.header().tcp.congestion.is_some() && theirs.header().tcp != mine.header().tcp);
}

#[test]
fn errors_in_a_base_name_the_base() {
    let own = GOOD
        .replace("[tcp]\ncongestion = \"cubic\"\n", "")
        .replace("id =", "base = \"base.toml\"\nid =");
    let error = error(&[
        ("it.toml", &own),
        ("base.toml", "\n[tcp]\ncongestion = \"cubik\"\n"),
    ]);
    assert!(
        error.starts_with("base.toml:3:14: tcp.congestion: unknown congestion control"),
        "{error}"
    );
}

#[test]
fn every_scenario_that_comes_with_the_program_is_right() {
    let names = ScenarioDir::Shipped.names().expect("the program has them");
    assert!(!names.is_empty());
    let wrong = |name: &String| {
        let text = ScenarioDir::Shipped.read(name).expect("it is listed");
        match Scenario::ids_of(&text, name) {
            Ok(ids) if ids.is_empty() => None,
            Ok(_) => Scenario::load(&ScenarioDir::Shipped, name)
                .err()
                .map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    };
    let errors: Vec<_> = names.iter().filter_map(wrong).collect();
    assert!(errors.is_empty(), "{}", errors.join("; "));
}

#[test]
fn a_candidate_takes_the_place_of_the_one_in_the_file() {
    let with = |cc| {
        let form = Form {
            candidate: Some(cc),
            ..Form::default()
        };
        Scenario::load_in(&ScenarioDir::Shipped, "rfc9743.toml", form)
    };
    let scenario = with("bbr").expect("a controller");
    let resolved: serde_json::Value =
        serde_json::from_str(&scenario.cells[0].resolved).expect("JSON");
    assert_eq!(resolved["flow"][0]["tcp"]["congestion"], "bbr");
    let unknown = with("bbr9").expect_err("no such controller").to_string();
    assert!(
        unknown.starts_with("--cc bbr9: flow.candidate") && unknown.contains("bbr3"),
        "{unknown}"
    );
    let form = Form {
        candidate: Some("bbr"),
        ..Form::default()
    };
    let other = Scenario::load_in(&ScenarioDir::Shipped, "001-f4.toml", form);
    let other = other.expect_err("it has another flow").to_string();
    assert_eq!(
        other,
        "--cc bbr: 001-f4.toml has no flow `candidate`; rfc9743 has one"
    );
}
