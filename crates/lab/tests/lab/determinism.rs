//! The same scenario and seed give the same bytes: again, on another number of threads, after an
//! interruption, in another build.

use std::fs;
use std::path::Path;
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

#[test]
fn debug_and_release_builds_write_the_same_bytes() {
    let home = directory(&SMALL.replace("duration = \"3s\"", "duration = \"2s\""));
    for profile in ["dev", "release"] {
        let output = Command::new(env!("CARGO"))
            .args([
                "run",
                "--quiet",
                "--package",
                "tautline-lab",
                "--bin",
                "lab",
                "--profile",
                profile,
                "--",
                "run",
                "S-1",
                "--quick",
            ])
            .arg("--scenarios")
            .arg(home.path().join("scenarios"))
            .arg("--out")
            .arg(home.path().join(profile))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs, it has built this test");
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{}",
            text(&output.stderr)
        );
    }
    let [dev, release] = ["dev", "release"].map(|profile| files(&home.path().join(profile)));
    assert!(!dev.is_empty());
    assert!(dev == release, "{:?} {:?}", dev.keys(), release.keys());
}
