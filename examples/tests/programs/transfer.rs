//! A transfer between the built programs that cannot come to a good end: both ends say so in time.

use std::time::Duration;

use super::namespaces::{Pair, Running, ip};

const SENDER: &str = env!("CARGO_BIN_EXE_sender");
const RECEIVER: &str = env!("CARGO_BIN_EXE_receiver");
/// A loaded machine may be late by a lot; a program that hangs is later.
const SOON: Duration = Duration::from_secs(20);

fn receiver(pair: &Pair, more: &str) -> Running {
    let words = format!("--iface v --ip 10.7.0.2/24 --listen 5001 --silence 60 {more}");
    pair.start(1, RECEIVER, &words, "listening")
}

fn sender(pair: &Pair, more: &str) -> Running {
    let words = format!("--iface v --ip 10.7.0.1/24 --to 10.7.0.2:5001 {more}");
    pair.start(0, SENDER, &words, "sending")
}

/// It failed, and its last line says `why`.
#[track_caller]
fn failed(running: Running, why: &str) {
    let (good, said) = running.end_within(SOON);
    let last = said.lines().last().unwrap_or_default();
    assert!(!good && last.contains(why), "{said}");
}

#[test]
fn a_stored_file_is_confirmed() {
    let Some(pair) = Pair::new() else { return };
    let path = std::env::temp_dir().join(format!("tautline-stored-{}", std::process::id()));
    let receiver = receiver(&pair, &format!("--out {}", path.display()));
    let (sent, said) = sender(&pair, "--bytes 3M").end_within(SOON);
    let (received, _) = receiver.end_within(SOON);
    let stored = std::fs::metadata(&path).expect("a file").len();
    std::fs::remove_file(&path).expect("it is ours");
    assert!(sent && received, "{said}");
    assert_eq!(stored, 3 << 20);
}

#[test]
fn defect_16_14_a_full_disk_at_the_receiver_fails_the_sender() {
    for keep in ["512M", "0"] {
        let Some(pair) = Pair::new() else { return };
        let receiver = receiver(&pair, &format!("--out /dev/full --keep {keep}"));
        failed(sender(&pair, "--bytes 3M"), "reset the connection");
        failed(receiver, "No space left on device");
    }
}

#[test]
fn defect_16_14_a_removed_interface_ends_both() {
    let Some(pair) = Pair::new() else { return };
    let receiver = receiver(&pair, "");
    let sender = sender(&pair, "--seconds 60 --silence 60");
    std::thread::park_timeout(Duration::from_secs(1));
    ip(&format!("-n {} link del v", pair.namespaces[0]));
    failed(sender, "the interface is gone");
    failed(receiver, "the interface is gone");
}

#[test]
fn defect_16_14_a_silent_peer_ends_the_sender() {
    let Some(pair) = Pair::new() else { return };
    let receiver = receiver(&pair, "");
    let sender = sender(&pair, "--seconds 60 --silence 2");
    std::thread::park_timeout(Duration::from_secs(1));
    receiver.signal("-STOP");
    failed(sender, "silent for 2s");
    receiver.signal("-KILL");
}

#[test]
fn defect_16_14_nobody_there_ends_the_sender() {
    let Some(pair) = Pair::new() else { return };
    failed(sender(&pair, "--bytes 1 --silence 1"), "no answer for 1s");
}

#[test]
fn defect_16_17_an_mtu_too_small_for_the_family_is_refused() {
    let Some(pair) = Pair::new() else { return };
    ip(&format!("-n {} link set v mtu 1000", pair.namespaces[0]));
    let words = "--iface v --ip fd07::1/64 --to [fd07::2]:5001 --bytes 1";
    let sender = pair.start(0, SENDER, words, "");
    failed(sender, "its MTU of 1000 is below 1280");
}
