//! The program's exit status: 0 only if something was played.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of the test called `name` with these files.
fn folder(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    for (name, content) in files {
        fs::write(folder.join(name), content).expect("a file");
    }
    folder
}

fn play(path: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_packetdrill");
    Command::new(program).arg(path).output().expect("it runs")
}

fn refused(path: &Path, why: &str) {
    let output = play(path);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(why), "{said}");
}

#[test]
fn nothing_to_play_is_an_error() {
    let empty = folder("packetdrill-empty", &[("notes.txt", b"no script")]);
    refused(&empty, "packetdrill-empty: no script (.pkt) is in it");
    refused(&empty.join("nowhere"), "nowhere: No such file");
}

#[test]
fn a_script_that_cannot_be_read_is_an_error() {
    let folder = folder("packetdrill-bytes", &[("bytes.pkt", b"\xff\xfe")]);
    refused(&folder, "bytes.pkt: stream did not contain valid UTF-8");
}

#[test]
fn a_script_that_needs_more_is_skipped_and_one_that_differs_fails() {
    let skipped = folder(
        "packetdrill-skipped",
        &[("tc.pkt", b"`tc qdisc add dev tun0 root fq`\n")],
    );
    let output = play(&skipped);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("0 passed, 0 failed, 1 skipped\n"));
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
        +0 bind(3, ..., ...) = 0
        +0 listen(3, 1) = 0
        +0 < S 0:0(0) win 32792 <mss 1000>
        +0 > S. 0:0(0) ack 2 <...>";
    let differs = folder("packetdrill-differs", &[("ack.pkt", text.as_bytes())]);
    assert_eq!(play(&differs).status.code(), Some(1));
}
