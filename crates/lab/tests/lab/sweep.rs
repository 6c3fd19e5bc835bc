//! Sweeps: planned, split, run, interrupted, joined.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use proptest::prelude::*;
use tautline_lab::Document;
use tautline_lab::{Manifest, Shard, manifest, results, table};
use tautline_lab::{PlanOptions, plan};
use tautline_lab::{Scenario, ScenarioDir};
use tempfile::TempDir;

use super::home::home;
use super::text;

/// An upload over 2 Mbit/s for half a second.
const SMALL: &str = r#"
id = "S-1"
title = "A small one"
paper = "000"
claim = "Nothing."
table = ["goodput.total"]

[run]
duration = "500ms"
warm_up = "100ms"
repetitions = 2
sample = "50ms"

[[host]]
name = "client"

[[host]]
name = "server"

[[link]]
between = ["client", "server"]
rate = "2mbit"
delay = "5ms"
loss = "1%"

[[flow]]
name = "upload"
kind = "tcp"
from = "client"
to = "server"
spread = "20ms"

[[axis]]
name = "cc"

[[axis.value]]
name = "reno"
set = { "tcp.congestion" = "reno" }

[[axis.value]]
name = "cubic"
set = { "tcp.congestion" = "cubic" }

[[shape]]
says = "there is some"
check = 'cell["reno"].goodput.total > 0'
"#;

fn directory() -> TempDir {
    home(&[("small.toml", SMALL)])
}

/// Runs `lab sweep` with these words and this input, outside of any job array.
fn sweep(home: &Path, words: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lab"))
        .current_dir(home)
        .arg("sweep")
        .args(words)
        .env_remove("SLURM_ARRAY_TASK_ID")
        .env_remove("JOB_COMPLETION_INDEX")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("lab starts");
    // It may refuse its words before it reads.
    let _refused = child
        .stdin
        .take()
        .expect("piped")
        .write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

/// Its standard output, if all went well.
fn good(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The error message.
fn bad(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

const PLAN: [&str; 4] = [
    "plan",
    "small.toml",
    "--set",
    "link.client-server.rate=1mbit,2mbit",
];

#[test]
fn a_plan_is_the_same_every_time_and_each_line_is_complete() {
    let home = directory();
    let one = good(&sweep(home.path(), &PLAN, ""));
    assert_eq!(one, good(&sweep(home.path(), &PLAN, "")));
    assert_eq!(one.lines().count(), 2 * 2 * 2);
    assert!(
        one.contains(r#""cell":[["cc","reno"],["rate","1mbit"]]"#),
        "{one}"
    );
    let other = good(&sweep(
        home.path(),
        &[&PLAN[..], &["--seed", "2", "--repetitions", "1"]].concat(),
        "",
    ));
    assert_eq!(other.lines().count(), 4);
    assert!(sorted(&other).iter().all(|line| !one.contains(line)));
    // The file is not needed any more.
    fs::remove_file(home.path().join("small.toml")).expect("it was there");
    let last = one.lines().next_back().expect("a line");
    let result = good(&sweep(home.path(), &["run", "-"], last));
    assert!(
        result.contains(r#""goodput.total":"#) && result.lines().count() == 1,
        "{result}"
    );
}

#[test]
fn a_point_has_the_id_that_lab_run_gives_it() {
    let home = directory();
    let lines = good(&sweep(home.path(), &["plan", "small.toml"], ""));
    let scenario = Scenario::load(&ScenarioDir::Directory(home.path().into()), "small.toml")
        .expect("a good file");
    let read: Vec<_> = lines
        .lines()
        .map(|line| manifest::read(line).expect("a line").point.id)
        .collect();
    let planned: Vec<_> = plan(&scenario, PlanOptions::default())
        .expect("a plan")
        .into_iter()
        .map(|point| point.id)
        .collect();
    assert_eq!(read, planned);
}

#[test]
fn shards_together_are_the_whole_and_merge_to_the_same_table() {
    let home = directory();
    let points = good(&sweep(home.path(), &PLAN, ""));
    fs::write(home.path().join("points.jsonl"), &points).expect("a file");
    let whole = good(&sweep(
        home.path(),
        &["run", "points.jsonl", "--out", "whole", "--jobs", "2"],
        "",
    ));
    let mut parts = String::new();
    for shard in ["1/3", "2/3", "3/3"] {
        parts += &good(&sweep(
            home.path(),
            &["run", "points.jsonl", "--out", "parts", "--shard", shard],
            "",
        ));
    }
    assert_eq!(sorted(&whole), sorted(&parts));
    fs::remove_file(home.path().join("parts/results-2-of-3.jsonl")).expect("a shard's file");
    let missing = bad(&sweep(
        home.path(),
        &["merge", "parts", "--points", "points.jsonl"],
        "",
    ));
    assert!(
        missing.contains("points.jsonl:2: 3 of 8 points have no result"),
        "{missing}"
    );
    good(&sweep(
        home.path(),
        &["run", "points.jsonl", "--out", "parts"],
        "",
    ));
    good(&sweep(
        home.path(),
        &["merge", "parts", "--points", "points.jsonl"],
        "",
    ));
    let table = good(&sweep(
        home.path(),
        &["merge", "whole", "--numbers", "goodput.total"],
        "",
    ));
    assert_eq!(
        table,
        good(&sweep(
            home.path(),
            &["merge", "parts", "--numbers", "goodput.total"],
            ""
        ))
    );
    let heads: Vec<_> = table.lines().next().expect("a head").split(',').collect();
    assert_eq!(
        heads,
        [
            "id",
            "scenario",
            "cc",
            "rate",
            "path",
            "seed",
            "goodput.total"
        ]
    );
    assert_eq!(table.lines().count(), 9);
    assert!(
        table
            .lines()
            .nth(1)
            .expect("a row")
            .contains(",S-1,reno,1mbit,sim,10000,"),
        "{table}"
    );
    let cells = good(&sweep(home.path(), &["merge", "whole", "--cells"], ""));
    assert!(
        cells.starts_with("scenario,cc,rate,path,number,mean,lo,hi,count\nS-1,reno,1mbit,sim,"),
        "{cells}"
    );
    assert_eq!(
        cells
            .lines()
            .filter(|line| line.contains(",goodput.total,") && line.ends_with(",2"))
            .count(),
        4
    );
}

#[test]
fn what_was_interrupted_goes_on_where_it_stopped() {
    let home = directory();
    let points = good(&sweep(home.path(), &["plan", "small.toml"], ""));
    let run = |lines: &str| sweep(home.path(), &["run", "-", "--out", "out"], lines);
    let half: String = points
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    let before = good(&run(&half));
    let file = home.path().join("out/results.jsonl");
    let kept = fs::read_to_string(&file).expect("results");
    fs::write(&file, format!("{kept}{}", &kept[..40])).expect("an interrupted line");
    let rest = run(&points);
    assert!(
        text(&rest.stderr).contains("4 points: 2 run before, 2 run now"),
        "{}",
        text(&rest.stderr)
    );
    let all = before + &good(&rest);
    assert_eq!(
        sorted(&all),
        sorted(&good(&sweep(home.path(), &["run", "-"], &points)))
    );
    assert_eq!(
        sorted(&all),
        sorted(&fs::read_to_string(&file).expect("results"))
    );
    assert_eq!(good(&run(&points)), "");
}

#[test]
fn what_is_wrong_is_refused_with_its_line_and_the_remedy() {
    let home = directory();
    let points = good(&sweep(home.path(), &["plan", "small.toml"], ""));
    let second = points.lines().nth(1).expect("a line");
    let with = |line: &str| points.replace(second, line);
    let version = format!(r#""lab":"{}""#, env!("CARGO_PKG_VERSION"));
    for (line, message) in [
        (
            second.replace(&version, r#""lab":"0.0.1""#),
            "planned by lab 0.0.1",
        ),
        (
            second.replace("2mbit", "3mbit"),
            "changed after it was planned",
        ),
        (second.replace("2mbit", "2mbt"), "link.client-server.rate: "),
        (
            second.replace(r#""seed""#, r#""sead""#),
            "unknown field `sead`",
        ),
        ("{}".to_owned(), "it has no `lab`"),
        (second[..second.len() / 2].to_owned(), "not a line of JSON"),
    ] {
        fs::write(home.path().join("points.jsonl"), with(&line)).expect("a file");
        let told = bad(&sweep(home.path(), &["run", "points.jsonl"], ""));
        assert!(
            told.contains("points.jsonl:2: ") && told.contains(message),
            "{told}"
        );
    }
    for (words, message) in [
        (
            &["plan", "small.toml", "--set", "tcp.tsq"][..],
            "--set tcp.tsq: write --set KEY=VALUE",
        ),
        (
            &["plan", "small.toml", "--set", "tcp.tsq=1mz"],
            "--set tcp.tsq=1mz: ",
        ),
        (
            &["plan", "small.toml", "--set", "cc:tcp.tsq=1ms"],
            "another axis has this name",
        ),
        (
            &["plan", "small.toml", "--set", "tcp.tsg=1ms"],
            "there is no key `tsg` here",
        ),
        (&["run", "nowhere.jsonl"], "nowhere.jsonl: "),
        (&["run", "-", "--shard", "4/3"], "write --shard I/N"),
        (&["merge", "nowhere"], "nowhere: "),
        (
            &["merge", "small.toml"],
            "small.toml:2: no line that `lab sweep run` writes",
        ),
    ] {
        let told = bad(&sweep(home.path(), words, ""));
        assert!(told.contains(message), "{words:?}: {told}");
    }
}

#[test]
fn two_results_of_one_point_must_agree() {
    let home = directory();
    let points = good(&sweep(
        home.path(),
        &["plan", "small.toml", "--repetitions", "1"],
        "",
    ));
    let lines = good(&sweep(home.path(), &["run", "-"], &points));
    let read =
        |text: &str, file: &str| (file.to_owned(), results::read(text, file).expect("results"));
    let twice =
        table::Results::join([read(&lines, "one"), read(&lines, "two")]).expect("they agree");
    assert_eq!(
        twice,
        table::Results::join([read(&lines, "one")]).expect("each once")
    );
    let other = lines.replace(r#""goodput.total":"#, r#""goodput.total":1"#);
    let error =
        table::Results::join([read(&lines, "one"), read(&other, "two")]).expect_err("they do not");
    assert!(
        error.to_string().starts_with("two:1: point ") && error.to_string().contains("one:"),
        "{error}"
    );
}

/// Two rows may have a cell of the same settings: its points have one id, and both rows have it in the
/// table.
#[test]
fn a_cell_that_two_rows_share_is_in_the_table_of_each() {
    let home = directory();
    let twin = SMALL.replace("id = \"S-1\"", "id = \"S-2\"");
    fs::write(home.path().join("twin.toml"), twin).expect("written");
    let plan = ["plan", "small.toml", "twin.toml", "--repetitions", "1"];
    let points = good(&sweep(home.path(), &plan, ""));
    fs::write(home.path().join("points.jsonl"), &points).expect("written");
    for left in [4, 0] {
        let run = ["run", "points.jsonl", "--out", "results"];
        let lines = good(&sweep(home.path(), &run, ""));
        assert_eq!(lines.lines().count(), left);
    }
    let merge = ["merge", "results", "--points", "points.jsonl"];
    let table = good(&sweep(home.path(), &merge, ""));
    for named in ["S-1,reno", "S-1,cubic", "S-2,reno", "S-2,cubic"] {
        let named = format!(",{named},sim,");
        assert_eq!(table.matches(&named).count(), 1, "{named} in\n{table}");
    }
}

/// The axis of `flow.upload.count` is called as the number of repetitions is.
#[test]
fn columns_of_a_table_have_different_names() {
    let home = directory();
    let plan = ["plan", "small.toml", "--repetitions", "1"];
    let axes = [
        "--set",
        "flow.upload.count=1,2",
        "--set",
        "seed:flow.upload.size=9kib,8kib",
    ];
    let points = good(&sweep(home.path(), &[&plan[..], &axes].concat(), ""));
    good(&sweep(
        home.path(),
        &["run", "-", "--out", "results"],
        &points,
    ));
    let head = |words: &[&str]| {
        let table = good(&sweep(home.path(), words, ""));
        table.lines().next().expect("a head").to_owned()
    };
    let few = ["--numbers", "goodput.total"];
    assert_eq!(
        head(&[&["merge", "results", "--cells"], &few[..]].concat()),
        "scenario,cc,axis.count,seed,path,number,mean,lo,hi,count"
    );
    assert_eq!(
        head(&[&["merge", "results"], &few[..]].concat()),
        "id,scenario,cc,count,axis.seed,path,seed,goodput.total"
    );
}

/// A good line.
fn line() -> String {
    let home = directory();
    let scenario = Scenario::grid(
        &ScenarioDir::Directory(home.path().into()),
        "small.toml",
        &[],
    )
    .expect("a good file");
    let mut lines = Vec::new();
    let points = plan(&scenario, PlanOptions::default()).expect("a plan");
    manifest::write(&points[..1], &mut lines).expect("written");
    text(&lines)
}

#[test]
fn lines_of_all_rows_are_their_points_again() {
    let mut lines = 0;
    for name in ScenarioDir::Shipped.names().expect("the program has them") {
        let scenario = ScenarioDir::Shipped.read(&name).expect("it is listed");
        if Scenario::ids_of(&scenario, &name)
            .expect("it is TOML")
            .is_empty()
        {
            continue;
        }
        let scenario =
            Scenario::load(&ScenarioDir::Shipped, &name).unwrap_or_else(|error| panic!("{error}"));
        if scenario.header().elsewhere.is_some() {
            continue;
        }
        let points = plan(
            &scenario,
            PlanOptions {
                repetitions: Some(1),
                ..PlanOptions::default()
            },
        )
        .expect("a plan");
        let mut written = Vec::new();
        manifest::write(&points, &mut written).expect("written");
        for (point, line) in points.iter().zip(text(&written).lines()) {
            let again = manifest::read(line)
                .unwrap_or_else(|error| panic!("{name}: {error}"))
                .point;
            assert_eq!(
                (&again.id, &again.cell, again.seed),
                (&point.id, &point.cell, point.seed)
            );
            let parts = |document: &Document| {
                let Document {
                    run,
                    host,
                    router,
                    link,
                    wifi,
                    lte,
                    tcp,
                    flow,
                    ..
                } = document.clone();
                (run, host, router, link, wifi, lte, tcp, flow)
            };
            assert!(
                parts(&again.document) == parts(&point.document),
                "{name} {}",
                point.cell
            );
            lines += 1;
        }
    }
    assert!(lines > 0);
}

proptest! {
    #[test]
    fn no_mutation_of_a_line_panics(cuts in prop::collection::vec((any::<usize>(), 0usize..4, any::<u8>()), 1..4)) {
        let mut bytes = line().into_bytes();
        for (at, kind, byte) in cuts {
            let at = at % bytes.len().max(1);
            match kind {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if !bytes.is_empty() => { bytes.remove(at); }
                2 => bytes.insert(at, b"0123456789-.eE{}[]\",:"[usize::from(byte) % 21]),
                _ => bytes.truncate(at),
            }
        }
        let changed = String::from_utf8_lossy(&bytes);
        let _refused = manifest::read(&changed);
        let _refused = Manifest::read(&changed, "points", Shard::WHOLE);
        let _refused = results::read(&changed, "results");
    }

    #[test]
    fn every_line_is_in_exactly_one_shard(count in 1usize..40, places in 1usize..200) {
        let shards: Vec<_> = (0..count).filter_map(|index| Shard::new(index, count)).collect();
        let seen: BTreeSet<_> = shards.iter().flat_map(|shard| (0..places).filter(|place| shard.has(*place))).collect();
        prop_assert_eq!(seen.len(), places);
        let held: usize = shards.iter().map(|shard| (0..places).filter(|place| shard.has(*place)).count()).sum();
        prop_assert_eq!(held, places);
    }
}
