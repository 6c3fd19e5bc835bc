//! The wrappers around qdiscs that `tc`'s words describe: peek through a deep tree, the ledger over
//! a change below, the report of the statistics.

use std::time::Duration;

use tautline_base::{Drops, Instant, Qdisc};
use tautline_qdisc::codel::{self, CeThreshold, Params};
use tautline_qdisc::{Codel, Ledger, Stats};
use tautline_tc::{Inspect, build, change_tree};

use tautline_testkit::Probe;

/// A peek makes as many calls at the bottom however deep it lies: a parent that asked twice would
/// double them at every level.
#[test]
fn peeking_costs_no_more_than_the_depth() {
    let root = "qdisc handle 1: tbf rate 1gbit burst 1mb limit 1mb".to_string();
    let below = |tree, above: u32| {
        format!(
            "{tree}; qdisc parent {above:x}:1 handle {:x}: prio",
            above + 1
        )
    };
    let deep = (1..16).fold(root, below);
    let mut queue = build::<Probe>(&deep).expect("a tree");
    let mut drops = Drops::new();
    for id in 0..100 {
        queue.enqueue(Probe::new(id).with_priority(6), Instant::ZERO, &mut drops);
    }
    let left =
        std::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut drops)).map(|packet| packet.id);
    assert!(left.eq(0..100));
}

#[test]
fn drops_of_a_change_below_are_booked() {
    let queue = build("prio; qdisc parent 1:2 fq_codel").expect("valid");
    let (mut ledger, mut drops) = (Ledger::new(queue), Drops::new());
    for id in 0..10 {
        ledger.enqueue(Probe::new(id), Instant::ZERO, &mut drops);
    }
    change_tree(
        &mut ledger,
        "qdisc change parent 1:2 fq_codel limit 3",
        Instant::ZERO,
        &mut drops,
    )
    .expect("valid");
    assert_eq!(
        (ledger.backlog().packets, ledger.dropped().packets),
        (2, 8),
        "half of ten, then half of five"
    );
    ledger.dequeue(Instant::ZERO, &mut drops).expect("queued");
}

/// One packet over the limit; the others leave 0 ms, 2 ms and 4 ms after they came.
#[test]
fn statistics_are_reported() {
    let codel = Params {
        ce_threshold: Some(CeThreshold::all(Duration::from_millis(1))),
        ..Params::default()
    };
    let queue = Codel::new(codel::Config { limit: 3, codel }).expect("valid");
    let (mut stats, mut drops) = (Stats::new(queue), Drops::new());
    for (id, tos) in [(0, 3), (1, 2), (2, 0), (3, 0)] {
        let packet = Probe::new(id).sized(100).tos(tos);
        stats.enqueue(packet, Instant::from_millis(1), &mut drops);
    }
    for millis in [1, 3, 5] {
        stats
            .dequeue(Instant::from_millis(millis), &mut drops)
            .expect("queued");
    }
    let report = stats.report();
    assert_eq!(
        (report.kind, report.common.expect("counted").drops),
        ("codel", 1)
    );
    assert_eq!(report.sojourn.as_ref(), Some(&stats.stats().sojourn));
    assert_eq!(stats.stats().sojourn.max, Duration::from_millis(4));
}
