//! Strict bands, shares, bands that change their nature, come and go.

use super::*;
use crate::classful::Classful;
use crate::fq_codel::{self, FqCodel};
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use crate::tbf::{self, Tbf};
use crate::testing::by_mark;
use alloc::boxed::Box;
use proptest::collection::vec;
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use tautline_base::{Bytes, Rate};
use tautline_testkit::{Probe, ids};

type Queue = Ets<Probe, Box<dyn Qdisc<Probe>>>;

fn fifo() -> Box<dyn Qdisc<Probe>> {
    Box::new(Pfifo::new(pfifo::Config::default()))
}

fn config(strict: u8, quanta: &[u64]) -> Config {
    Config {
        strict,
        quanta: quanta.iter().copied().map(Bytes::new).collect(),
        ..Config::default()
    }
}

/// Bands chosen by mark: mark *n* is band *n* - 1.
fn ets(config: Config) -> Ledger<Queue> {
    let children = (0..config.bands()).map(|_| fifo()).collect();
    let mut ets = Ets::new(1, config, children).expect("valid");
    ets.set_filters(by_mark((1..17).map(|n| (n.into(), ClassId::new(1, n)))));
    Ledger::new(ets)
}

fn fill(queue: &mut Ledger<Queue>, packets: &[(u32, u32)]) {
    for &(band, len) in packets {
        let packet = Probe::new(band).marked(band).sized(len);
        queue.enqueue(packet, Instant::ZERO, &mut Drops::new());
    }
}

fn take(queue: &mut Ledger<Queue>, packets: usize) -> Vec<u32> {
    let sent = core::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut Drops::new()));
    ids(sent.take(packets))
}

/// Changes the parameters. Returns the number of drops.
fn reconfigure(queue: &mut Ledger<Queue>, config: Config) -> usize {
    let mut drops = Drops::new();
    queue
        .with_inner("reconfigure", Instant::ZERO, &mut drops, |ets, drops| {
            ets.reconfigure(config, fifo, drops)
        })
        .expect("valid");
    drops.len()
}

/// `ets_qdisc_dequeue`, worked by hand: bands 1 and 2 are strict, 3 and 4 have a quantum of 1514 and
/// 500, packets of 1000. Band 3 sends one (514 are left), then has 2028; band 4 has 500, then 1000.
/// Band 3 sends two (28 are left), then has 1542; band 4 sends one.
#[test]
fn strict_bands_come_first_and_the_others_share() {
    let mut queue = ets(config(2, &[1514, 500]));
    fill(&mut queue, &[(3, 1000); 9]);
    fill(&mut queue, &[(4, 1000); 9]);
    assert_eq!(take(&mut queue, 1), [3]);
    assert_eq!(queue.inner().rounds.deficit(2), Bytes::new(514));
    fill(&mut queue, &[(2, 1000), (1, 1000), (2, 1000)]);
    assert_eq!(take(&mut queue, 3), [1, 2, 2]);
    assert_eq!(take(&mut queue, 3), [3, 3, 4]);
    fill(&mut queue, &[(1, 1)]);
    assert_eq!(take(&mut queue, 2), [1, 3]);
    assert_eq!(take(&mut queue, 99).len(), 13);
    assert_eq!(queue.ready_at(), None);
}

/// `ets_qdisc_change`: quanta that are not given are those of a frame, priorities that are not given
/// go to the last band.
#[test]
fn what_is_not_given_is_as_in_linux() {
    let config = Config {
        bands: Some(5),
        priomap: vec![3, 1],
        ..config(2, &[700])
    };
    let quanta: Vec<_> = (0..5).map(|band| config.quantum(band)).collect();
    let quantum = |bytes| Some(Bytes::new(bytes));
    assert_eq!(
        quanta,
        [None, None, quantum(700), quantum(1514), quantum(1514)]
    );
    let bands = config.bands_of_priorities();
    assert_eq!((bands[0], bands[1], &bands[2..]), (3, 1, &[4; 14][..]));
    let children = (0..5).map(|_| fifo()).collect();
    let (mut queue, mut drops) = (Ets::new(1, config, children).expect("valid"), Drops::new());
    for priority in [0, 1, 2, 15] {
        let packet = Probe::new(priority.into()).with_priority(priority);
        queue.enqueue(packet, Instant::ZERO, &mut drops);
    }
    let backlogs = queue.classes().map(|(.., common)| common.backlog.packets);
    assert_eq!(backlogs.collect::<Vec<_>>(), [0, 1, 0, 1, 2]);
}

#[test]
fn filters_decide_and_a_class_that_is_no_band_means_priority_zero() {
    let mut queue = ets(Config {
        bands: Some(3),
        priomap: vec![1],
        ..config(0, &[])
    });
    fill(&mut queue, &[(3, 1), (9, 1), (0, 1)]);
    let backlogs = |queue: &Ledger<Queue>| {
        let backlogs = queue.inner().classes();
        backlogs
            .map(|(.., common)| common.backlog.packets)
            .collect::<Vec<_>>()
    };
    assert_eq!(backlogs(&queue), [0, 2, 1]);
}

#[test]
fn values_outside_their_range_are_refused() {
    let cases = [
        (Config::default(), "`bands` must be from 1 to 16, not 0"),
        (config(17, &[]), "`bands` must be from 1 to 16, not 17"),
        (
            config(200, &[1; 100]),
            "`bands` must be from 1 to 16, not 255",
        ),
        (
            Config {
                bands: Some(2),
                ..config(1, &[1, 1])
            },
            "`bands` must be at least `strict` and the number of `quanta` together, not 2",
        ),
        (
            config(1, &[1, 0]),
            "`quanta` must be at least 1b each, not 0b",
        ),
        (
            Config {
                priomap: vec![2],
                ..config(1, &[1])
            },
            "`priomap` must be less than `bands`, not 2",
        ),
        (
            Config {
                priomap: vec![0; 17],
                ..config(1, &[1])
            },
            "`priomap` must be at most 16 bands, not 17",
        ),
    ];
    for (config, message) in cases {
        let error = Queue::new(1, config, Vec::new()).map(drop);
        assert_eq!(error.expect_err(message).to_string(), message);
    }
    assert!(
        Queue::new(1, config(2, &[]), vec![fifo()]).is_err(),
        "one child too few"
    );
}

/// A strict band that takes turns has one quantum and comes last; a band that becomes strict has no
/// turn any more.
#[test]
fn bands_change_their_nature_with_packets_queued() {
    let mut queue = ets(config(2, &[1000]));
    for band in 1..=3 {
        fill(&mut queue, &[(band, 500); 8]);
    }
    assert_eq!(take(&mut queue, 2), [1, 1]);
    assert_eq!(reconfigure(&mut queue, config(0, &[1000, 500, 1000])), 0);
    // The third band was active, the first two come behind it.
    assert_eq!(take(&mut queue, 10), [3, 3, 1, 1, 2, 3, 3, 1, 1, 2]);
    assert_eq!(reconfigure(&mut queue, config(3, &[])), 0);
    assert_eq!(take(&mut queue, 99), [1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3]);
    assert_eq!(queue.ready_at(), None);
    assert_eq!(reconfigure(&mut queue, config(1, &[500, 500])), 0);
    fill(&mut queue, &[(2, 500), (3, 500), (1, 500), (2, 500)]);
    assert_eq!(take(&mut queue, 99), [1, 2, 3, 2]);
}

#[test]
fn bands_come_and_go_with_packets_queued() {
    let mut queue = ets(config(1, &[1000, 1000]));
    for band in 1..=3 {
        fill(&mut queue, &[(band, 500); 4]);
    }
    let few = Config {
        bands: Some(2),
        ..config(1, &[1000])
    };
    assert_eq!(reconfigure(&mut queue, few), 4, "those of the third");
    assert_eq!(queue.backlog().packets, 8);
    assert_eq!(
        reconfigure(&mut queue, config(1, &[1000, 1000, 1000])),
        0,
        "nothing is dropped"
    );
    fill(&mut queue, &[(4, 500); 2]);
    assert_eq!(take(&mut queue, 99), [1, 1, 1, 1, 2, 2, 4, 4, 2, 2]);
    let before = queue.inner().config().clone();
    let mut drops = Drops::new();
    let refused = queue.with_inner("reconfigure", Instant::ZERO, &mut drops, |ets, drops| {
        ets.reconfigure(config(17, &[]), fifo, drops)
    });
    assert!(refused.is_err());
    assert_eq!(queue.inner().config(), &before);
}

/// `ets_class_change`: a strict band has no quantum.
#[test]
fn the_quantum_of_a_class_changes() {
    let mut queue = ets(Config {
        bands: Some(4),
        ..config(1, &[])
    });
    let mut change = |minor, quantum: Option<u64>| {
        let class = ClassConfig {
            quantum: quantum.map(Bytes::new),
        };
        let mut drops = Drops::new();
        queue.with_inner("change", Instant::ZERO, &mut drops, |ets, _| {
            ets.change_class_config(ClassId::new(1, minor), class, Instant::ZERO)
        })
    };
    change(3, Some(300)).expect("valid");
    change(3, None).expect("nothing to change");
    assert_eq!(
        change(1, Some(1)).expect_err("strict").to_string(),
        "`quantum` must be left out: a strict band has none, not 1b"
    );
    assert_eq!(
        change(2, Some(0)).expect_err("zero").to_string(),
        "`quantum` must be at least 1b, not 0b"
    );
    change(5, Some(1)).expect_err("no such class");
    let quantum = |minor| queue.inner().class(ClassId::new(1, minor));
    let some = |bytes| {
        Some(ClassConfig {
            quantum: Some(Bytes::new(bytes)),
        })
    };
    assert_eq!(
        [1, 2, 3, 4, 5].map(quantum),
        [
            Some(ClassConfig::default()),
            some(1514),
            some(300),
            some(1514),
            None
        ]
    );
    fill(&mut queue, &[(2, 300); 6]);
    fill(&mut queue, &[(3, 300); 2]);
    assert_eq!(take(&mut queue, 99), [2, 2, 2, 2, 2, 3, 2, 3]);
}

/// A shaper in a strict band and one in a band in turn: both are passed over, and the qdisc says when
/// the first of them opens.
#[test]
fn bands_that_hold_back_are_passed_over() {
    let mut queue = ets(config(1, &[1514, 1514]));
    for (minor, rate) in [(1, 1), (2, 2)] {
        let config = tbf::Config {
            rate: Rate::mbit(rate),
            burst: Bytes::new(1514),
            ..tbf::Config::default()
        };
        let shaped = Box::new(Tbf::new(config, fifo()).expect("valid").with_handle(10));
        let mut drops = Drops::new();
        queue
            .with_inner("graft", Instant::ZERO, &mut drops, |ets, drops| {
                ets.graft(ClassId::new(1, minor), shaped, drops)
            })
            .expect("a band");
    }
    fill(
        &mut queue,
        &[(1, 1514), (1, 1514), (2, 1514), (2, 1514), (3, 1514)],
    );
    assert_eq!(take(&mut queue, 99), [1, 2, 3]);
    let (opens, mut drops) = (Instant::from_micros(1514 * 4), Drops::new());
    assert_eq!(queue.ready_at(), Some(opens));
    assert_eq!(queue.dequeue(opens, &mut drops).expect("open").id, 2);
    assert!(queue.dequeue(opens, &mut drops).is_none());
    let opens = Instant::from_micros(1514 * 8);
    assert_eq!(queue.ready_at(), Some(opens));
    fill(&mut queue, &[(3, 1514)]);
    assert_eq!(queue.ready_at(), Some(Instant::ZERO));
    assert_eq!(queue.dequeue(opens, &mut drops).expect("open").id, 1);
    assert_eq!(queue.dequeue(opens, &mut drops).expect("queued").id, 3);
}

/// `ets_class_qlen_notify`: a band that is emptied from outside has lost its turn.
#[test]
fn a_band_with_another_qdisc_begins_anew() {
    let (mut queue, mut drops) = (ets(config(0, &[1000, 1000])), Drops::new());
    fill(&mut queue, &[(1, 400), (1, 400), (2, 1000)]);
    assert_eq!(take(&mut queue, 1), [1]);
    queue
        .with_inner("graft", Instant::ZERO, &mut drops, |ets, drops| {
            ets.graft(ClassId::new(1, 1), fifo(), drops)
        })
        .expect("a band");
    fill(&mut queue, &[(1, 500)]);
    assert_eq!(queue.inner().rounds.deficit(0), Bytes::new(1000));
    assert_eq!(take(&mut queue, 2), [2, 1]);
}

/// A band whose qdisc drops everything has no turn.
#[test]
fn a_band_that_drops_everything_stays_idle() {
    let mut queue = ets(config(0, &[1514, 1514]));
    let codel = fq_codel::Config {
        memory_limit: Bytes::new(1),
        perturbation: Some(1),
        ..fq_codel::Config::default()
    };
    let mut drops = Drops::new();
    let child = Box::new(FqCodel::new(codel).expect("valid"));
    queue
        .with_inner("graft", Instant::ZERO, &mut drops, |ets, drops| {
            ets.graft(ClassId::new(1, 1), child, drops)
        })
        .expect("a band");
    fill(&mut queue, &[(1, 100), (2, 100), (1, 100)]);
    assert_eq!(take(&mut queue, 99), [2]);
    assert!(queue.backlog().is_empty());
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    Enqueue(u32, u32),
    Dequeue,
    Change(Config),
}

fn any_config() -> impl Strategy<Value = Config> {
    let quantum = prop_oneof![Just(1u64), 1..3000u64, Just(u64::MAX)];
    (0..5u8, vec(quantum, 0..5), 0..4u8, vec(any::<u8>(), 0..17)).prop_map(
        |(strict, quanta, more, priomap)| {
            let mut config = config(strict, &quanta);
            let bands = config.bands() + more;
            config.bands = Some(bands.max(1));
            config.priomap = priomap.iter().map(|band| band % bands.max(1)).collect();
            config
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let len = prop_oneof![
        Just(0u32),
        Just(1),
        40..1515u32,
        Just(65_535),
        Just(u32::MAX)
    ];
    prop_oneof![
        8 => (0..10u32, len).prop_map(|(band, len)| Event::Enqueue(band, len)),
        6 => Just(Event::Dequeue),
        1 => any_config().prop_map(Event::Change),
    ]
}

proptest! {
    /// Live changes with packets queued: the account balances, a strict band leaves before all
    /// behind it, an active band has packets, one with packets is active, and everything comes out.
    #[test]
    fn nothing_is_lost_or_stuck(start in any_config(), events in vec(event(), 0..200)) {
        let (mut queue, mut drops) = (ets(start), Drops::new());
        for event in events {
            match event {
                Event::Enqueue(band, len) => fill(&mut queue, &[(band, len)]),
                Event::Dequeue => {
                    let before: Vec<bool> =
                        queue.inner().classes().map(|(.., common)| !common.backlog.is_empty()).collect();
                    let sent = queue.dequeue(Instant::ZERO, &mut drops);
                    prop_assert_eq!(sent.is_some(), before.contains(&true));
                    let strict = usize::from(queue.inner().config().strict);
                    let first = before.iter().take(strict).position(|has| *has);
                    let after: Vec<bool> =
                        queue.inner().classes().map(|(.., common)| !common.backlog.is_empty()).collect();
                    // No other band changed.
                    if let Some(first) = first {
                        let same = before.iter().zip(&after).enumerate();
                        prop_assert!(same.filter(|(band, _)| *band != first).all(|(_, (one, other))| one == other));
                    }
                }
                Event::Change(config) => {
                    reconfigure(&mut queue, config);
                }
            }
            prop_assert_eq!(queue.ready_at().is_some(), !queue.backlog().is_empty());
        }
        while queue.dequeue(Instant::ZERO, &mut drops).is_some() {}
        prop_assert!(queue.backlog().is_empty() && queue.ready_at().is_none());
    }

    /// Backlogged bands get bytes in proportion to their quanta, but for a quantum and a packet.
    #[test]
    fn the_shares_are_those_of_the_quanta(quanta in vec(100..4000u64, 2..6), len in 40..1515u32, turns in 1..600usize) {
        let mut queue = ets(config(1, &quanta));
        for band in 0..quanta.len() as u32 {
            fill(&mut queue, &vec![(band + 2, len); 1000]);
        }
        let mut sent = vec![0u64; quanta.len()];
        for band in take(&mut queue, turns) {
            sent[band as usize - 2] += u64::from(len);
        }
        let longest = u64::from(len);
        for (one, other) in (0..quanta.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let rounds = |at: usize| (sent[at] as f64 / quanta[at] as f64, 1.0 + longest as f64 / quanta[at] as f64);
            let ((served, slack), (others, others_slack)) = (rounds(one), rounds(other));
            prop_assert!((served - others).abs() <= slack.max(others_slack) + 1e-9, "{sent:?} for {quanta:?}");
        }
    }
}
