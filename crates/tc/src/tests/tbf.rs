//! Words of `tbf`, and changes below it.

use super::*;
use tautline_base::{Drops, Instant, Qdisc, Rate};
use tautline_qdisc::{Bfifo, ClassId, Tbf, bfifo, tbf};

#[test]
fn parameters_are_refused_by_name() {
    for (words, message) in [
        (
            "tbf burst 2000",
            "tbf: `rate` must be at least 8bit, not 0bit",
        ),
        (
            "tbf rate 1mbit burst 1513",
            "tbf: `burst` must be at least one frame (1514b, or what `frame` says), not 1513b",
        ),
        (
            "tbf rate 1mbit linux",
            "tbf: `burst` must be at least one frame (1514b, or what `frame` says), not 0b",
        ),
        (
            "tbf rate 1mbit burst 1514 frame 0",
            "tbf: `frame` must be at least 1b, not 0b",
        ),
        (
            "tbf rate 1mbit burst 2000 peakrate 1mbit mtu 1514",
            "tbf: `peakrate` must be above `rate`, not 1Mbit",
        ),
        (
            "tbf rate 1mbit burst 2000 peakrate 2mbit mtu 1513",
            "tbf: `mtu` must be at least one frame (1514b, or what `frame` says), not 1513b",
        ),
    ] {
        assert_eq!(build::<Probe>(words).expect_err(words).to_string(), message);
    }
}

#[test]
fn words_are_those_of_tc() {
    let words = "tbf rate 1Mbit burst 5000b peakrate 2Mbit minburst 2000b lat 70ms mpu 64b overhead 4 linklayer atm frame 1b";
    let typed = "tbf linux rate 1mbit maxburst 5000 peakrate 2mbit mtu 2000 latency 70ms mpu 64 overhead 4 linklayer adsl";
    let kind: Kind = typed.parse().expect("known");
    assert_eq!(kind.to_string(), words);
    assert_eq!(words.parse(), Ok(kind.clone()));
    let cells = typed
        .replace("maxburst 5000", "maxburst 5000/8")
        .replace("mtu 2000", "mtu 2000/16");
    assert_eq!(
        cells.parse(),
        Ok(kind.clone()),
        "cell sizes are read and ignored"
    );
    let kind: Kind = "tbf rate 8bit buffer 1514 limit 3000"
        .parse()
        .expect("known");
    assert_eq!(
        kind.to_string(),
        "tbf rate 8bit burst 1514b limit 3000b frame 1514b"
    );
    assert_eq!(
        "tbf rate 8bit burst 1514 limit 3000 linklayer ethernet".parse(),
        Ok(kind),
        "as always"
    );
}

/// A change below may drop what the shaper waited for: then nothing is queued and no moment named.
#[test]
fn a_change_below_is_noticed() {
    let mut queue = build::<Probe>("tbf rate 1mbit burst 2kb limit 100kb; prio").expect("a tree");
    let mut drops = Drops::new();
    (0..2).for_each(|id| queue.enqueue(Probe::new(id).with_priority(2), Instant::ZERO, &mut drops));
    assert!(
        queue.dequeue(Instant::ZERO, &mut drops).is_some()
            && queue.dequeue(Instant::ZERO, &mut drops).is_none()
    );
    assert!(queue.ready_at() > Some(Instant::ZERO));
    let words = "qdisc change parent 1:1 prio bands 2 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1";
    change_tree(&mut *queue, words, Instant::ZERO, &mut drops).expect("valid");
    assert_eq!((queue.backlog().packets, queue.ready_at()), (0, None));
}

#[test]
fn a_change_reaches_the_discipline_below() {
    let (mut drops, now) = (Drops::new(), Instant::ZERO);
    let mut queue = build::<Probe>(
        "qdisc root handle 1: tbf rate 1mbit burst 2000 limit 9000; qdisc parent 1:1 codel",
    )
    .expect("a tree");
    assert_eq!(queue.report().id, Some(ClassId::new(1, 0)));
    let mut below = |class| {
        let words = &mut Words::new("limit 1");
        queue.change(Target::Below(class), words, now, &mut drops)
    };
    below(ClassId::new(1, 1)).expect("its class");
    below(ClassId::new(2, 1)).expect_err("no such class");
    assert_eq!(
        queue.report().children[0].options[0],
        ("limit", Value::Packets(1))
    );
    let class = Target::Class(ClassId::new(1, 1));
    let error = queue.change(class, &mut Words::new("x"), now, &mut drops);
    assert_eq!(
        error.expect_err("no options").to_string(),
        "tbf has no class 1:1"
    );
}

/// The FIFO of the shaper follows its limit.
#[test]
fn a_lowered_limit_is_the_fifos() {
    let mut queue = build::<Probe>("tbf rate 1mbit burst 5000 limit 9000").expect("valid");
    change_tree(&mut *queue, "limit 1000", Instant::ZERO, &mut Drops::new()).expect("valid");
    let report = queue.report();
    assert_eq!(
        report.children[0].options,
        [("limit", Value::Size(Bytes::new(1000)))]
    );
}

#[test]
fn a_shaper_without_handle_has_no_name() {
    let config = tbf::Config {
        rate: Rate::mbit(1),
        burst: Bytes::new(2000),
        ..tbf::Config::default()
    };
    let limit = config.limit();
    let fifo = Bfifo::<Probe>::new(bfifo::Config { limit });
    let queue = Tbf::new(config, fifo).expect("valid");
    assert_eq!(queue.report().id, None);
    assert_eq!(queue.with_handle(1).report().id, Some(ClassId::new(1, 0)));
}
