//! Command lines that cannot work are refused in one line, before anything is opened: the interface
//! they name does not exist, and nobody gets as far as to notice.

use super::{message, run};

const SENDER: &str = env!("CARGO_BIN_EXE_sender");
const RECEIVER: &str = env!("CARGO_BIN_EXE_receiver");
const TALK: &str = env!("CARGO_BIN_EXE_talk");
const DATAGRAMS: &str = env!("CARGO_BIN_EXE_datagrams");
const MIDDLEBOX: &str = env!("CARGO_BIN_EXE_middlebox");

/// `words` are refused with a line that has `cause` in it.
#[track_caller]
fn refused(program: &str, words: &str, cause: &str) {
    let words: Vec<_> = words.split_whitespace().collect();
    let output = run(program, &words);
    let said = message(&output);
    assert!(!output.status.success(), "{words:?}: {said}");
    assert!(said.contains(cause), "{words:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
}

#[test]
fn defect_16_17_peers_that_nobody_can_call_are_refused() {
    for (ip, to, cause) in [
        ("10.7.0.1/24", "10.7.0.2:0", "name a port from 1 to 65535"),
        ("10.7.0.1/24", "224.0.0.5:5001", "a multicast address"),
        ("10.7.0.1/24", "0.0.0.0:5001", "the unspecified address"),
        ("10.7.0.1/24", "127.0.0.1:5001", "a loopback address"),
        (
            "10.7.0.1/24",
            "255.255.255.255:5001",
            "the broadcast address",
        ),
        (
            "10.7.0.1/24",
            "10.7.0.255:5001",
            "the broadcast address of 10.7.0.1/24",
        ),
        ("10.7.0.1/24", "10.7.0.1:5001", "our own address"),
        ("10.7.0.1/24", "[::ffff:10.7.0.1]:5001", "our own address"),
        (
            "10.7.0.1/24",
            "10.8.0.2:5001",
            "not on the network of 10.7.0.1/24; add --gateway",
        ),
        ("10.7.0.1/32", "10.7.0.2:5001", "add --gateway"),
        ("10.7.0.1/24", "[fd07::2]:5001", "no --ip is of its family"),
        ("fd07::1/64", "[ff02::1]:5001", "a multicast address"),
        ("fd07::1/64", "[fd08::1]:5001", "add --gateway"),
    ] {
        let stack = format!("--iface none --ip {ip}");
        refused(SENDER, &format!("{stack} --bytes 1 --to {to}"), cause);
        refused(TALK, &format!("ours {stack} call --to {to}"), cause);
        refused(DATAGRAMS, &format!("ours {stack} call --to {to}"), cause);
    }
}

#[test]
fn defect_16_17_addresses_that_no_host_has_are_refused() {
    for (words, cause) in [
        ("--ip 0.0.0.0/0", "the unspecified address"),
        ("--ip ::/0", "the unspecified address"),
        ("--ip 224.0.0.1/4", "a multicast address"),
        ("--ip 127.0.0.1/8", "a loopback address"),
        ("--ip 10.7.0.255/24", "the broadcast address of its network"),
        ("--ip 10.7.0.0/24", "the address of the network itself"),
        ("--ip 10.7.0.1/24 --ip 10.7.0.1/16", "given twice"),
        ("--ip 10.7.0.1", "10.0.0.1/24"),
        ("--ip 10.7.0.1/24 --gateway 10.7.0.1", "our own address"),
        ("--ip 10.7.0.1/24 --gateway 0.0.0.0", "the unspecified"),
        (
            "--ip 10.7.0.1/24 --gateway fd07::1",
            "no --ip is of its family",
        ),
        (
            "--ip 10.7.0.1/24 --gateway 10.7.0.3 --gateway 10.7.0.4",
            "the second of its family",
        ),
        ("--ip 10.7.0.1/24 --silence 0", "above 0"),
        (
            "--ip 10.7.0.1/24 --device packet --offload",
            "an option of --device tap or af_xdp",
        ),
        (
            "--ip 10.7.0.1/24 --device tap --queue 3",
            "an option of --device af_xdp",
        ),
    ] {
        let words = format!("--iface none --listen 5001 {words}");
        refused(RECEIVER, &words, cause);
    }
    let listen = "--iface none --ip 10.7.0.1/24 --listen 0";
    refused(RECEIVER, listen, "0 is not in 1..=65535");
    refused(
        MIDDLEBOX,
        "--left none --right none",
        "the left interface too",
    );
    // A subnet of two addresses has neither (RFC 3021), and a router may be outside of a /32.
    let said = message(&run(
        SENDER,
        &[
            "--iface",
            "none",
            "--ip",
            "10.7.0.0/31",
            "--gateway",
            "10.9.0.1",
            "--to",
            "192.0.2.1:5001",
            "--bytes",
            "1",
        ],
    ));
    assert!(
        said.contains("none"),
        "the interface is what is missing: {said}"
    );
}
