//! Words of the FIFO family.

use super::*;
use tautline_base::{Drops, Instant};

#[test]
fn words_are_read_and_written() {
    for (words, printed) in [
        ("fifo", "fifo packets 1000p bytes unlimited drop tail"),
        (
            "fifo packets unlimited bytes 64Kb drop head",
            "fifo packets unlimited bytes 64Kb drop head",
        ),
        (
            "fifo drop head drop tail bytes 1 bytes unlimited",
            "fifo packets 1000p bytes unlimited drop tail",
        ),
        ("bfifo", "bfifo limit 1514000b"),
        ("bfifo limit 10k", "bfifo limit 10Kb"),
        ("pfifo_head_drop limit 7", "pfifo_head_drop limit 7p"),
        // `tc` reads a number of packets as a size.
        ("pfifo_head_drop limit 1Kb", "pfifo_head_drop limit 1024p"),
        ("pfifo limit 1.5k", "pfifo limit 1536p"),
        ("pfifo limit 010", "pfifo limit 10p"),
        ("pfifo limit 0x10p", "pfifo limit 16p"),
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(alloc::format!("{kind}"), printed);
        assert_eq!(printed.parse(), Ok(kind));
    }
    for words in [
        "fifo packets x",
        "fifo bytes",
        "fifo drop middle",
        "bfifo limit 3p",
        "pfifo limit 4294967296",
        "fifo limit 1",
    ] {
        assert!(words.parse::<Kind>().is_err(), "{words}");
    }
}

#[test]
fn a_change_that_cannot_be_read_changes_nothing() {
    let (mut queue, mut drops) = (
        build::<Probe>("pfifo limit 2").expect("valid"),
        Drops::new(),
    );
    let refused = queue.change(
        Target::Root,
        &mut Words::new("limit x"),
        Instant::ZERO,
        &mut drops,
    );
    refused.expect_err("no number");
    assert_eq!(queue.report().options, [("limit", Value::Packets(2))]);
}
