//! Words of `htb` and its classes, and changes below it.

use super::*;
use crate::words::Options;
use tautline_base::{Drops, Instant, Rate};
use tautline_qdisc::ClassId;
use tautline_qdisc::htb::ClassConfig;

fn parsed(words: &str) -> ClassConfig {
    let mut config = ClassConfig::default();
    Words::new(words).apply(&mut config).expect(words);
    config
}

/// `tc` reads them with `get_unsigned` of base 10.
#[test]
fn numbers_are_decimal() {
    let tree = "htb r2q 010 direct_qlen 08; class classid 1:1 htb rate 1mbit prio 09 overhead 010";
    let same = "htb r2q 10 direct_qlen 8; class classid 1:1 htb rate 1mbit prio 9 overhead 10";
    assert_eq!(tree.parse::<Tree>(), same.parse());
    for words in ["htb r2q 0x10", "htb direct_qlen 0x10", "htb r2q -1"] {
        words.parse::<Kind>().expect_err(words);
    }
}

#[test]
fn words_are_those_of_tc() {
    let kind: Kind = "htb".parse().expect("known");
    assert_eq!(
        kind.to_string(),
        "htb r2q 10 default 0 direct_qlen 1000 depth exact hz 1000000000"
    );
    let kind: Kind = "htb linux default 1a r2q 5 direct_qlen 7p hz 100"
        .parse()
        .expect("known");
    assert_eq!(
        kind.to_string(),
        "htb r2q 5 default 0x1a direct_qlen 7 depth ticks hz 100"
    );
    assert_eq!(kind.to_string().parse(), Ok(kind));
    let config = parsed(
        "rate 1mbit ceil 2mbit burst 15k/8 cburst 3k prio 9 quantum 1514 mtu 9000 mpu 64 overhead 4 linklayer atm",
    );
    let words: Vec<_> = config
        .options()
        .iter()
        .map(|(name, value)| std::format!("{name} {value}"))
        .collect();
    let words = words.join(" ");
    assert_eq!(
        words,
        "prio 9 quantum 1514b rate 1Mbit mpu 64b overhead 4 linklayer atm ceil 2Mbit burst 15Kb cburst 3Kb mtu 9000b"
    );
    assert_eq!(parsed(&words), config);
    for words in ["burst 15k/", "burst 15k/7", "burst /8", "burst 15k/8/8"] {
        let refused = Words::new(words).apply(&mut ClassConfig::default());
        assert!(refused.is_err(), "{words}: a cell is a power of two");
    }
}

#[test]
fn classes_change_by_words() {
    let tree = "qdisc root handle 1: htb; class classid 1:1 htb rate 1mbit; class classid 1:2 htb rate 1mbit
        qdisc parent 1:1 handle 10: tbf rate 1mbit burst 1514 latency 50ms; qdisc parent 10:1 pfifo";
    let (mut queue, mut drops, now) = (
        build::<Probe>(tree).expect("a tree"),
        Drops::new(),
        Instant::ZERO,
    );
    let mut change = |target, words| queue.change(target, &mut Words::new(words), now, &mut drops);
    let class = |minor| Target::Class(ClassId::new(1, minor));
    assert_eq!(
        change(class(1), "prio 1 rate 1bit")
            .expect_err("no byte a second")
            .at,
        12..16
    );
    assert_eq!(
        change(class(3), "rate 1kbit")
            .expect_err("unknown")
            .to_string(),
        "htb has no class 1:3"
    );
    change(class(1), "ceil 3mbit quantum 20").expect("valid");
    change(Target::Below(ClassId::new(0x10, 1)), "limit 1").expect("a pfifo two levels down");
    change(Target::Below(ClassId::new(1, 3)), "limit 1").expect_err("no such class");
    let report = queue.report();
    let options = &report.classes[0].options;
    assert!(
        options.contains(&("ceil", Value::Rate(Rate::mbit(3))))
            && options.contains(&("burst", Value::Size(Bytes::new(1600))))
    );
    let fifo = &report.classes[0].children[0].children[0];
    assert_eq!(fifo.options, [("limit", Value::Packets(1))]);
}

/// The burst covers one packet. The second one waits for tokens: both class and qdisc count it.
#[test]
fn waiting_for_tokens_counts_in_the_reports() {
    let tree = "qdisc root handle 1: htb default 1
        class classid 1:1 htb rate 1mbit burst 1000b cburst 1000b";
    let (mut queue, mut drops) = (build::<Probe>(tree).expect("a tree"), Drops::new());
    (0..3).for_each(|id| queue.enqueue(Probe::new(id), Instant::ZERO, &mut drops));
    while queue.dequeue(Instant::ZERO, &mut drops).is_some() {}
    let report = queue.report();
    assert_eq!((report.overlimits, report.classes[0].overlimits), (1, 1));
}
