//! The same seed gives the same packets in a debug build and in a release build.

use std::process::Command;

/// Output of the `trace_hash` example when built with `profile`.
fn trace_hash(profile: &str) -> String {
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--package",
            "tautline-sim",
            "--example",
            "trace_hash",
            "--profile",
            profile,
            "--",
            "7",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs, it has built this test");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn debug_and_release_builds_give_the_same_packets() {
    let (debug, release) = (trace_hash("dev"), trace_hash("release"));
    assert!(debug.contains("events"), "{debug}");
    assert_eq!(debug, release);
}
