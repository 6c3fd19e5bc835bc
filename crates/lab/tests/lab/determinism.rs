//! The same scenario and seed give the same bytes: again, on another number of threads, after an
//! interruption, in another build.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{SMALL, directory, files, lab, text};

fn run(home: &Path, words: &[&str]) {
    let output = lab(home, &[&["run", "S-1"], words].concat());
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let home = directory(SMALL);
    run(home.path(), &["--out", "one", "--jobs", "1"]);
    run(home.path(), &["--out", "two", "--jobs", "3"]);
    run(home.path(), &["--out", "other", "--seed", "2"]);
    let [one, two, other] = ["one", "two", "other"].map(|out| files(&home.path().join(out)));
    assert!(
        one.len() >= 5,
        "two cells with two seeds, and a result: {:?}",
        one.keys()
    );
    assert_eq!(
        one.keys().collect::<Vec<_>>(),
        two.keys().collect::<Vec<_>>()
    );
    for (name, bytes) in &one {
        assert!(two[name] == *bytes, "{} differs", name.display());
        assert!(
            other.get(name).is_none_or(|other| other != bytes),
            "{} does not depend on the seed",
            name.display()
        );
    }
}

#[test]
fn what_was_interrupted_goes_on_and_ends_the_same() {
    let home = directory(SMALL);
    run(home.path(), &["--out", "out"]);
    let whole = files(&home.path().join("out"));
    let file = |name: &str| home.path().join("out/S-1").join(name);
    fs::remove_file(file("TSQ/10000.json")).expect("it was there");
    fs::write(file("NoTSQ/10001.json"), "{\"scenario\":\"S-1\",").expect("it can be damaged");
    let output = lab(home.path(), &["run", "s-1", "--out", "out"]);
    let told = text(&output.stderr);
    assert_eq!(told.matches("run before").count(), 2, "{told}");
    assert_eq!(files(&home.path().join("out")), whole);
    let output = lab(home.path(), &["run", "S-1", "--out", "out", "--fresh"]);
    assert!(
        !text(&output.stderr).contains("run before"),
        "asked to run all again"
    );
}

#[test]
fn what_changed_is_run_again() {
    let home = directory(SMALL);
    run(home.path(), &["--out", "out", "--quick"]);
    fs::write(
        home.path().join("scenarios/small.toml"),
        SMALL.replace("tcp.tsq\" = \"1ms\"", "tcp.tsq\" = \"2ms\""),
    )
    .expect("a file");
    let told = text(&lab(home.path(), &["run", "S-1", "--out", "out", "--quick"]).stderr);
    assert_eq!(
        told.matches("run before").count(),
        1,
        "only the cell that changed: {told}"
    );
}

/// The files without the commit that a report names: a commit since this test was built changes it.
fn without_commit(mut files: BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    let report = files.get_mut(Path::new("report.html")).expect("a report");
    let page = text(report);
    let (before, after) = page.split_once(", commit ").unwrap_or((&page, ""));
    let rest = after.find(|c: char| !c.is_ascii_alphanumeric() && !" -".contains(c));
    *report = format!("{before}{}", &after[rest.unwrap_or(0)..]).into();
    files
}

#[test]
fn debug_and_release_builds_write_the_same_bytes() {
    let home = directory(&SMALL.replace("duration = \"3s\"", "duration = \"2s\""));
    let own = Path::new(env!("CARGO_BIN_EXE_lab"));
    // The profile that this test is not built with.
    let is_debug = own.iter().any(|part| part == "debug");
    let (profile, built) = if is_debug {
        ("release", "../release/lab")
    } else {
        ("dev", "../debug/lab")
    };
    // scripts/test has built it, with the features of the workspace; cargo would compile 42 crates once more, with those of the lab.
    let mut other = if env::var_os("TAUTLINE_BUILT").is_some() {
        Command::new(own.with_file_name(built))
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", "tautline-lab"]);
        cargo.args(["--bin", "lab", "--profile", profile, "--"]);
        cargo
    };
    let mut own = Command::new(own);
    for (command, out) in [(&mut own, "own"), (&mut other, "other")] {
        let output = command
            .args(["run", "S-1", "--quick", "--scenarios"])
            .arg(home.path().join("scenarios"))
            .arg("--out")
            .arg(home.path().join(out))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("lab starts, and cargo, which has built this test");
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{}",
            text(&output.stderr)
        );
    }
    let [own, other] = ["own", "other"].map(|out| without_commit(files(&home.path().join(out))));
    assert!(!own.is_empty());
    assert_eq!(
        own.keys().collect::<Vec<_>>(),
        other.keys().collect::<Vec<_>>()
    );
    for (name, bytes) in &own {
        assert!(other[name] == *bytes, "{} differs", name.display());
    }
}
