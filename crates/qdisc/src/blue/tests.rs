//! BLUE over its queue: what moves the probability, what it does to packets.

use super::*;
use crate::ledger::Ledger;
use crate::testing::Edit;
use proptest::collection::vec;
use proptest::prelude::*;
use tautline_base::Qdisc;
use tautline_testkit::Probe;

const ECT0: u8 = 2;
const CE: u8 = 3;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn blue(config: Config) -> Ledger<Blue<Probe>> {
    Ledger::new(Blue::new(config).expect("valid"))
}

fn probability(blue: &Ledger<Blue<Probe>>) -> f64 {
    (blue.inner().aqm().probability() * 1e6).round() / 1e6
}

#[test]
fn overflow_raises_and_emptiness_lowers_it() {
    let (mut queue, mut drops) = (
        blue(Config {
            limit: 2,
            ..Config::default()
        }),
        Drops::new(),
    );
    for (id, (at, expected)) in (0..).zip([(0, 0.0), (0, 0.0), (0, 0.02), (50, 0.02), (101, 0.04)])
    {
        queue.enqueue(Probe::new(id), ms(at), &mut drops);
        assert_eq!(probability(&queue), expected, "packet {id}");
    }
    assert_eq!((queue.inner().drop_overlimit(), drops.len()), (3, 3));
    // One packet left: not empty yet. Then empty, but frozen; and after the pause, and after each
    // further one.
    for (at, expected) in [
        (150, 0.04),
        (151, 0.04),
        (202, 0.038),
        (250, 0.038),
        (310, 0.036),
    ] {
        queue.dequeue(ms(at), &mut drops);
        assert_eq!(probability(&queue), expected, "at {at} ms");
    }
    queue.enqueue(Probe::new(9), ms(1000), &mut drops);
    assert_eq!(probability(&queue), 0.024, "six pauses later");
}

/// A link that asks only when there is something lets the probability fall all the same.
#[test]
fn a_silent_queue_recovers_from_certainty() {
    let config = Config {
        limit: 1,
        d1: 1.0,
        d2: 0.25,
        ..Config::default()
    };
    let (mut queue, mut drops) = (blue(config), Drops::new());
    queue.enqueue(Probe::new(0), ms(0), &mut drops);
    queue.enqueue(Probe::new(1), ms(0), &mut drops);
    assert_eq!(probability(&queue), 1.0);
    queue.dequeue(ms(1), &mut drops);
    queue.enqueue(Probe::new(2), ms(90), &mut drops);
    assert_eq!(
        (drops.len(), queue.inner().stats().early),
        (2, 1),
        "certain to be dropped"
    );
    queue.enqueue(Probe::new(3), ms(500), &mut drops);
    assert_eq!((probability(&queue), queue.backlog().packets), (0.0, 1));
}

#[test]
fn a_threshold_counts_as_overflow() {
    let config = Config {
        threshold: Some(2),
        ..Config::default()
    };
    let (mut queue, mut drops) = (blue(config), Drops::new());
    for (id, expected) in (0..).zip([0.0, 0.0, 0.0, 0.02]) {
        queue.enqueue(Probe::new(id), ms(0), &mut drops);
        assert_eq!(probability(&queue), expected, "packet {id} finds {id}");
    }
    assert!(drops.is_empty());
}

/// With its probability at
/// `p`, that share of packets is signaled: marked where possible with `ecn`.
#[test]
fn the_share_signalled_is_the_probability() {
    for (ecn, tos, marks) in [(false, ECT0, false), (true, ECT0, true), (true, 0, false)] {
        let config = Config {
            limit: 1,
            d1: 0.3,
            ecn,
            ..Config::default()
        };
        let (mut queue, mut drops) = (blue(config), Drops::new());
        queue.enqueue(Probe::new(0), ms(0), &mut drops);
        queue.enqueue(Probe::new(1), ms(0), &mut drops);
        queue
            .edit(ms(0), &mut drops, |config| config.limit = 100_000)
            .expect("valid");
        for id in 0..10_000 {
            queue.enqueue(Probe::new(id).tos(tos), ms(50), &mut drops);
        }
        let Stats { marked, early } = *queue.inner().stats();
        assert_eq!(queue.inner().drop_overlimit(), 1);
        let (signals, none) = if marks {
            (marked, early)
        } else {
            (early, marked)
        };
        assert!(none == 0 && (2800..3200).contains(&signals), "{signals}");
        let out = core::iter::from_fn(|| queue.dequeue(ms(60), &mut drops))
            .filter(|packet| packet.tos == CE)
            .count();
        assert_eq!(out as u64, marked);
        assert!(
            drops
                .drain()
                .skip(1)
                .all(|(packet, reason)| packet.tos == tos && reason == DropReason::Unresponsive)
        );
    }
}

/// Effect: senders that slow down when told keep overflowing a plain buffer; BLUE learns how often
/// to tell them, and it ends.
#[test]
fn blue_learns_to_prevent_overflow() {
    let overflows = |d1| {
        let (mut queue, mut drops) = (
            blue(Config {
                limit: 100,
                d1,
                d2: d1 / 10.0,
                ..Config::default()
            }),
            Drops::new(),
        );
        let (mut share, mut rate) = (0.0, 3.0f64);
        let mut late = 0;
        for millis in 0..100_000 {
            share += rate;
            while share >= 1.0 {
                share -= 1.0;
                let before = queue.inner().drop_overlimit();
                queue.enqueue(Probe::new(0), ms(millis), &mut drops);
                late += if millis > 50_000 {
                    queue.inner().drop_overlimit() - before
                } else {
                    0
                };
                // Ten senders, of which one halves.
                rate = if drops.drain().count() > 0 {
                    rate * 0.95
                } else {
                    rate + 0.003
                };
            }
            queue.dequeue(ms(millis), &mut drops);
        }
        late
    };
    let (learning, plain) = (overflows(0.02), overflows(0.0));
    assert!(plain > 1000 && learning < plain / 10, "{learning} {plain}");
}

#[test]
fn values_out_of_range_are_refused() {
    for (config, parameter) in [
        (
            Config {
                d1: 1.5,
                ..Config::default()
            },
            "d1",
        ),
        (
            Config {
                d2: f64::NAN,
                ..Config::default()
            },
            "d2",
        ),
        (
            Config {
                freeze_time: Duration::ZERO,
                ..Config::default()
            },
            "freeze_time",
        ),
    ] {
        assert_eq!(
            Blue::<Probe>::new(config).expect_err("refused").parameter,
            parameter
        );
    }
}

#[test]
fn a_live_change_keeps_the_probability() {
    let (mut queue, mut drops) = (
        blue(Config {
            limit: 3,
            ..Config::default()
        }),
        Drops::new(),
    );
    for id in 0..4 {
        queue.enqueue(Probe::new(id), ms(0), &mut drops);
    }
    drops = Drops::new();
    queue
        .edit(ms(1), &mut drops, |config| {
            (config.limit, config.d1) = (1, 0.5)
        })
        .expect("valid");
    assert_eq!(
        tautline_testkit::ids(drops.drain().map(|(packet, _)| packet)),
        [0, 1]
    );
    assert_eq!((probability(&queue), queue.backlog().packets), (0.02, 1));
    queue.enqueue(Probe::new(9).sized(0), ms(200), &mut drops);
    assert!(drops.len() == 1 && [0.02, 0.52].contains(&probability(&queue)));
    queue
        .edit(ms(1), &mut drops, |config| {
            (config.limit, config.seed) = (9, 1)
        })
        .expect_err("the random sequence has begun");
    assert_eq!(queue.inner().config.limit, 1);
}

proptest! {
    /// The limit holds, the probability stays within its bounds and moves at most once in a freeze
    /// time, nothing is lost unseen.
    #[test]
    fn the_invariants_hold(
        limit in 0..6u32,
        threshold in proptest::option::of(0..6u32),
        steps in (0.0..=1.0f64, 0.0..=1.0f64),
        freeze in 1..200_000_000u64,
        ecn: bool,
        events in vec((0..8u8, 0..300_000_000u64), 0..300),
    ) {
        let freeze_time = Duration::from_nanos(freeze);
        let config = Config { limit, threshold, d1: steps.0, d2: steps.1, freeze_time, ecn, seed: 1 };
        let (mut queue, mut drops, mut now) = (blue(config), Drops::new(), ms(1000));
        let mut rose = None;
        for (id, (what, nanos)) in (0..).zip(events) {
            let before = queue.inner().aqm().probability();
            match what {
                0 | 1 => { queue.dequeue(now, &mut drops); }
                2 | 3 => now += Duration::from_nanos(nanos),
                _ => queue.enqueue(Probe::new(id).tos(ECT0), now, &mut drops),
            }
            let after = queue.inner().aqm().probability();
            prop_assert!((0.0..=1.0).contains(&after) && queue.backlog().packets <= limit as usize);
            if after > before {
                prop_assert!(rose.replace(now).is_none_or(|last| now - last > freeze_time));
            }
        }
        while queue.dequeue(now, &mut drops).is_some() {}
        prop_assert!(queue.backlog().is_empty());
    }
}
