//! Output and exit code of each command.

use std::fs;
use std::process::Command;

use tautline_lab::{Quantity, Run};

use super::home::home;
use super::{SMALL, directory, files, lab, text};

#[test]
fn a_row_that_holds_returns_0_and_shows_its_numbers() {
    let home = directory(SMALL);
    let output = lab(home.path(), &["run", "S-1"]);
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{said}{}",
        text(&output.stderr)
    );
    for part in [
        "S-1  A small one",
        "holds: the queue is short with TSQ",
        "NoTSQ.ping.p50 = ",
        "ping.mean over tsq : F ",
        "2 of 2 shapes hold",
    ] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
    assert!(home.path().join("lab-out/S-1/result.json").is_file());
}

#[test]
fn a_shape_that_does_not_hold_returns_1_and_is_named() {
    let home = directory(&SMALL.replace("> 3 * cell", "> 3000 * cell"));
    let output = lab(
        home.path(),
        &["run", "S-1", "--quick", "--verdicts", "verdicts.txt"],
    );
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("DOES NOT HOLD: the queue is short with TSQ"),
        "{said}"
    );
    assert!(
        said.contains("1 of 2 shapes hold\n  not S-1: the queue is short with TSQ"),
        "{said}"
    );
    let verdicts = fs::read(home.path().join("verdicts.txt")).expect("they are written");
    assert_eq!(
        text(&verdicts),
        "S-1 1 does not hold: the queue is short with TSQ\nS-1 2 holds: the bottleneck is full\n"
    );
}

#[test]
fn output_that_cannot_be_written_is_one_line() {
    let home = directory(SMALL);
    let full = fs::File::options().write(true).open("/dev/full");
    let output = Command::new(env!("CARGO_BIN_EXE_lab"))
        .current_dir(home.path())
        .args(["list", "--scenarios", "scenarios"])
        .stdout(full.expect("a device of Linux"))
        .output();
    let output = output.expect("lab starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("lab: standard output: No space left"),
        "{said}"
    );
}

#[test]
fn a_directory_without_scenarios_is_named() {
    let home = home(&[("scenarios/base.toml", "title = \"a base\"\n")]);
    let output = lab(home.path(), &["run", "S-1"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "lab: scenarios/: there is no scenario here: no file *.toml has an `id`\n"
    );
}

/// Two threads would write the same files, and each shape would count twice.
#[test]
fn a_row_that_is_named_twice_runs_once() {
    let alias = "id = \"S-1\"\naliases = [\"S-2\"]";
    let home = directory(&SMALL.replace("id = \"S-1\"", alias));
    let output = lab(home.path(), &["run", "S-1", "s-2", "S-1", "--quick"]);
    let said = text(&output.stdout);
    assert!(said.ends_with("2 of 2 shapes hold\n"), "{said}");
    let copy = SMALL.replace("A small one", "Its copy");
    fs::write(home.path().join("copy.toml"), copy).expect("written");
    let output = lab(home.path(), &["run", "S-1", "copy.toml", "--quick"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("copy.toml both have the id S-1"), "{error}");
}

#[test]
fn what_is_wrong_returns_2_and_says_where() {
    let home = directory(&SMALL.replace("count = 2", "cuont = 2"));
    for words in [
        &["run", "S-1"][..],
        &["run", "--all"],
        &["show", "S-1"],
        &["list"],
    ] {
        let output = lab(home.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            text(&output.stderr)
                .contains("small.toml:39:1: flow.upload: there is no key `cuont` here; keys: "),
            "{words:?}"
        );
    }
    let home = directory(SMALL);
    let unknown = lab(home.path(), &["run", "S-2"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("no scenario has the id `S-2`; there are S-1"));
    for words in [
        &["run"][..],
        &["run", "S-1", "--repetitions", "0"],
        &["run", "S-1", "--jobs", "0"],
        &["walk"],
    ] {
        assert_eq!(lab(home.path(), words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn rows_are_listed_and_shown() {
    let elsewhere = "id = \"S-2\"\ntitle = \"Another\"\npaper = \"000\"\nclaim = \"…\"\n\
                     elsewhere = { needs = \"a Linux peer\", command = \"scripts/thing\" }\n";
    let home = directory(SMALL);
    std::fs::write(home.path().join("scenarios/other.toml"), elsewhere).expect("a file");
    let list = text(&lab(home.path(), &["list"]).stdout);
    assert!(
        list.contains("S-1") && list.contains("S-2  Another  a Linux peer  scripts/thing"),
        "{list}"
    );
    let shown = text(&lab(home.path(), &["show", "S-1"]).stdout);
    for part in [
        "flow.upload.count = 2",
        "link.client-router.delay = \"1ms\"",
        "tcp.tsq = \"off\"",
        "cell[\"NoTSQ\"].ping.p50 > 3",
    ] {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
    let all = lab(home.path(), &["run", "--all", "--quick"]);
    assert!(
        text(&all.stdout)
            .contains("S-2  Another\n  not run here: it needs a Linux peer: scripts/thing")
    );
}

#[test]
fn some_cells_are_run_and_the_rest_completes_the_row() {
    let home = directory(SMALL);
    let whole = lab(home.path(), &["run", "S-1", "--out", "whole"]);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stdout));
    let part = lab(home.path(), &["run", "S-1", "--cell", "TSQ"]);
    let said = text(&part.stdout);
    assert_eq!(part.status.code(), Some(3), "{said}{}", text(&part.stderr));
    for line in [
        "\nnot run: NoTSQ\n",
        "not judged: cells not run: NoTSQ: the queue is short with TSQ\n",
        "not judged: cells not run: NoTSQ: the bottleneck is full\n",
        "0 of 2 shapes hold\n  not judged S-1: the queue is short with TSQ\n",
    ] {
        assert!(said.contains(line), "{line:?} in\n{said}");
    }
    assert!(
        !said.contains("holds:") && !said.contains("F-crit"),
        "{said}"
    );
    assert!(!home.path().join("lab-out/S-1/NoTSQ").exists());
    let rest = lab(home.path(), &["run", "S-1", "--cell", "tsq=notsq"]);
    assert_eq!(rest.status.code(), Some(0), "{}", text(&rest.stdout));
    assert!(
        text(&rest.stdout).contains("2 of 2 shapes hold"),
        "{}",
        text(&rest.stdout)
    );
    assert_eq!(
        text(&rest.stderr).matches("NoTSQ seed").count(),
        2,
        "only what was asked for is run or read again"
    );
    assert!(!text(&rest.stderr).contains(" TSQ seed"));
    assert_eq!(
        files(&home.path().join("whole")),
        files(&home.path().join("lab-out")),
        "in parts or at once: the same"
    );
    // Half of a cell's repetitions is no cell.
    let more = lab(
        home.path(),
        &["run", "S-1", "--cell", "TSQ", "--repetitions", "3"],
    );
    assert_eq!(more.status.code(), Some(3), "{}", text(&more.stdout));
    for words in [
        &["run", "S-1", "--cell", "nothing"][..],
        &["run", "--all", "--cell", "TSQ"],
    ] {
        assert_eq!(lab(home.path(), words).status.code(), Some(2), "{words:?}");
    }
    let unknown = text(&lab(home.path(), &["run", "S-1", "--cell", "nothing"]).stderr);
    assert!(
        unknown.contains("S-1 has no cell `nothing`; tsq is TSQ, NoTSQ"),
        "{unknown}"
    );
    assert!(
        text(&lab(home.path(), &["show", "S-1"]).stdout).contains("runs some\n  TSQ\n  NoTSQ\n")
    );
}

#[test]
fn results_are_compared() {
    let home = directory(SMALL);
    lab(home.path(), &["run", "S-1", "--out", "one"]);
    lab(home.path(), &["run", "S-1", "--out", "two", "--seed", "2"]);
    let compare = |one: &str, two: &str| lab(home.path(), &["compare", one, two]);
    let whole = compare("one", "two");
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    assert!(
        text(&whole.stdout).contains("NoTSQ  ping.p50"),
        "{}",
        text(&whole.stdout)
    );
    let cells = text(&compare("one/S-1/TSQ", "one/S-1/NoTSQ").stdout);
    assert!(
        cells.contains("S-1 TSQ  against  S-1 NoTSQ") && cells.contains(" *"),
        "{cells}"
    );
    for (one, two) in [
        ("one", "one/S-1/TSQ"),
        ("nowhere", "one"),
        ("one/S-1/x", "one"),
    ] {
        assert_eq!(compare(one, two).status.code(), Some(2), "{one} {two}");
    }
}

#[test]
fn watching_needs_a_terminal_and_a_cell_that_there_is() {
    let home = directory(SMALL);
    for (words, why) in [
        (&["watch", "S-1"][..], "needs a terminal"),
        (
            &["watch", "S-1", "--cell", "nothing"],
            "S-1 has no cell `nothing`",
        ),
        (&["watch", "S-1", "--speed", "0"], "from 0.0001 to 10000"),
    ] {
        let output = lab(home.path(), words);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(why),
            "{words:?}: {said}"
        );
    }
}

/// Echo replies do not count as goodput.
#[test]
fn replies_to_pings_are_no_goodput() {
    let home = directory(SMALL);
    assert!(
        lab(home.path(), &["run", "S-1", "--quick", "--out", "out"])
            .status
            .code()
            .is_some_and(|code| code < 2)
    );
    let report = std::fs::read_to_string(home.path().join("out/report.html")).expect("a report");
    assert!(
        report.contains("lab run S-1 --quick\n"),
        "how to run it again"
    );
    let runs: Vec<Run> = files(&home.path().join("out"))
        .iter()
        .filter(|(name, _)| {
            name.extension().is_some_and(|kind| kind == "json") && !name.ends_with("result.json")
        })
        .map(|(_, bytes)| serde_json::from_slice(bytes).expect("a run"))
        .collect();
    assert!(!runs.is_empty());
    for run in &runs {
        assert!(
            run.get(Quantity::Ping, "ping").is_some(),
            "{}: the ping was answered",
            run.cell
        );
        assert!(
            run.of(Quantity::Goodput)
                .all(|series| series.group() == "upload"),
            "{}",
            run.cell
        );
    }
}

#[test]
fn defect_16_17_a_directory_of_results_that_cannot_be_written_is_refused_before_anything_runs() {
    let home = directory(SMALL);
    std::fs::write(home.path().join("taken"), "a file").expect("written");
    let mut refused = vec!["taken", "taken/below"];
    if std::path::Path::new("/proc/version").exists() {
        refused.push("/proc/lab-out");
    }
    for out in refused {
        let output = lab(home.path(), &["run", "S-1", "--out", out]);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{out}: {said}");
        assert!(said.contains(&format!("--out {out}: ")), "{said}");
        assert_eq!(said.lines().count(), 1, "no run reports progress: {said}");
    }
}
