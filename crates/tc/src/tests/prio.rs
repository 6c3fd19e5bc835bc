//! Words of `prio`, and changes below it.

use super::*;
use alloc::vec;
use tautline_base::{Drops, Instant, Qdisc};
use tautline_qdisc::ClassId;

#[test]
fn parameters_are_refused_by_name() {
    for (words, message) in [
        ("prio bands 1", "prio: `bands` must be from 2 to 16, not 1"),
        (
            "prio bands 17",
            "prio: `bands` must be from 2 to 16, not 17",
        ),
        (
            "prio priomap 3",
            "prio: `priomap` must be less than `bands`, not 3",
        ),
        (
            "prio priomap",
            "`priomap` lacks its value: a whole number, e.g. 64",
        ),
        (
            "prio priomap x",
            "`x` is no value for `priomap`: give a whole number, e.g. 64",
        ),
    ] {
        assert_eq!(build::<Probe>(words).expect_err(words).to_string(), message);
    }
}

#[test]
fn words_are_those_of_tc() {
    let kind: Kind = "prio".parse().expect("known");
    assert_eq!(
        kind.to_string(),
        "prio bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"
    );
    let Ok(Kind::Prio(config)) = "prio priomap 0 1 bands 2".parse() else {
        panic!("prio parses")
    };
    assert_eq!(
        (config.bands, config.priomap[..4].to_vec()),
        (2, vec![0, 1, 2, 2])
    );
    let kind: Kind = "prio bands 5 priomap 0 1 2 3 4 4 3 2 1 0 0 1 2 3 4 4"
        .parse()
        .expect("known");
    assert_eq!(kind.to_string().parse(), Ok(kind));
}

#[test]
fn bands_are_decimal() {
    let printed = |words: &str| words.parse().map(|kind: Kind| kind.to_string()).ok();
    let expected = "prio bands 10 priomap 8 9 2 2 1 2 0 0 1 1 1 1 1 1 1 1";
    assert_eq!(
        printed("prio bands 010 priomap 08 09").as_deref(),
        Some(expected)
    );
    assert_eq!(printed("prio bands 0x10"), None);
    let expected = "ets bands 10 strict 8 priomap 9 8";
    assert_eq!(
        printed("ets bands 010 strict 08 priomap 09 08").as_deref(),
        Some(expected)
    );
    assert_eq!(printed("ets bands 0x10"), None);
}

#[test]
fn a_change_reaches_two_levels_down() {
    let tree = "qdisc root handle 1: prio; qdisc parent 1:1 handle 10: tbf rate 1mbit burst 1514 latency 50ms
        qdisc parent 10:1 pfifo; qdisc parent 1:2 handle 2: drr; class classid 2:1 drr";
    let (mut queue, mut drops, now) = (
        build::<Probe>(tree).expect("a tree"),
        Drops::new(),
        Instant::ZERO,
    );
    let below = Target::Below(ClassId::new(0x10, 1));
    queue
        .change(below, &mut Words::new("limit 1"), now, &mut drops)
        .expect("a pfifo two levels down");
    let class = Target::Class(ClassId::new(2, 1));
    queue
        .change(class, &mut Words::new("quantum 100"), now, &mut drops)
        .expect("a class two levels down");
    let text = queue.report().to_string();
    assert!(
        text.contains("limit 1p") && text.contains("quantum 100b"),
        "{text}"
    );
}

#[test]
fn bands_come_and_go_by_words() {
    let (mut queue, mut drops, now) = (
        build::<Probe>("prio").expect("valid"),
        Drops::new(),
        Instant::ZERO,
    );
    for (id, priority) in [(0, 0), (1, 1), (2, 2), (6, 6)] {
        queue.enqueue(Probe::new(id).with_priority(priority), now, &mut drops);
    }
    let mut change = |words| queue.change(Target::Root, &mut Words::new(words), now, &mut drops);
    let error = change("bands 2").expect_err("the priomap needs a third");
    assert_eq!(
        (error.at.clone(), error.to_string().as_str()),
        (0..7, "prio: `priomap` must be less than `bands`, not 2")
    );
    change("bands 2 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1").expect("valid");
    change("bands 4 priomap 3").expect("valid");
    assert_eq!(drops.len(), 2, "those of the third band");
    let report = queue.report();
    assert_eq!(
        (report.classes.len(), report.classes[3].children[0].kind),
        (4, "pfifo")
    );
    let class = Target::Class(ClassId::new(report.classes[0].id.expect("named").major, 1));
    let error = queue.change(class, &mut Words::new("x"), now, &mut drops);
    assert!(
        error
            .expect_err("no options")
            .to_string()
            .starts_with("prio has no class"),
    );
}
