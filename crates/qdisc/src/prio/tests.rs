//! Strictness, bands that hold back, bands that come and go.

use super::*;
use crate::classful::Classful;
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

type Queue = Prio<Probe, Box<dyn Qdisc<Probe>>>;

fn fifo() -> Box<dyn Qdisc<Probe>> {
    Box::new(Pfifo::new(pfifo::Config::default()))
}

fn prio(config: Config) -> Ledger<Queue> {
    let children = (0..config.bands).map(|_| fifo()).collect();
    Ledger::new(Prio::new(1, config, children).expect("valid"))
}

fn fill(queue: &mut Ledger<Queue>, priorities: &[u8]) {
    for &priority in priorities {
        queue.enqueue(
            Probe::new(priority.into()).with_priority(priority),
            Instant::ZERO,
            &mut Drops::new(),
        );
    }
}

fn drain(queue: &mut Ledger<Queue>) -> Vec<u32> {
    ids(core::iter::from_fn(|| {
        queue.dequeue(Instant::ZERO, &mut Drops::new())
    }))
}

#[test]
fn bands_leave_in_strict_priority() {
    let mut queue = prio(Config::default());
    fill(&mut queue, &[0, 2, 6, 1, 7, 4]);
    assert_eq!(drain(&mut queue), [6, 7, 0, 4, 2, 1]);
    assert_eq!(queue.ready_at(), None);
    let mut queue = prio(Config {
        bands: 16,
        priomap: core::array::from_fn(|priority| 15 - priority as u8),
    });
    fill(&mut queue, &[0, 1, 15, 14, 7]);
    assert_eq!(drain(&mut queue), [15, 14, 7, 1, 0]);
}

#[test]
fn a_band_that_holds_back_is_passed_over() {
    let (mut queue, mut drops) = (prio(Config::default()), Drops::new());
    let config = tbf::Config {
        rate: Rate::mbit(1),
        burst: Bytes::new(1514),
        ..tbf::Config::default()
    };
    let shaped = Box::new(Tbf::new(config, fifo()).expect("valid").with_handle(10));
    queue
        .inner_mut()
        .graft(ClassId::new(1, 1), shaped, &mut drops)
        .expect("a band");
    fill(&mut queue, &[6, 6, 0, 2]);
    assert_eq!(drain(&mut queue), [6, 0, 2]);
    assert_eq!(queue.ready_at(), Some(Instant::from_micros(1514 * 8)));
    fill(&mut queue, &[2]);
    assert_eq!(queue.ready_at(), Some(Instant::ZERO));
    assert_eq!(drain(&mut queue), [2]);
    assert_eq!(
        queue
            .dequeue(Instant::from_micros(1514 * 8), &mut drops)
            .expect("open")
            .id,
        6
    );
}

/// `net/sched/sch_prio.c`: a class that is no band means the band of priority 0.
#[test]
fn filters_choose_the_band() {
    let mut queue = prio(Config::default());
    let classes = [(1, 1), (2, 3), (3, 4), (4, 0)];
    let filters = by_mark(classes.map(|(mark, minor)| (mark, ClassId::new(1, minor))));
    queue.inner_mut().set_filters(filters);
    for (mark, band) in [(1, 0), (2, 2), (3, 1), (4, 1), (0, 1)] {
        queue.enqueue(Probe::new(0).marked(mark), Instant::ZERO, &mut Drops::new());
        let held: Vec<usize> = (0..3)
            .map(|band| queue.inner().bands.child(band).backlog().packets)
            .collect();
        assert_eq!(
            held.iter().position(|&packets| packets == 1),
            Some(band),
            "mark {mark}"
        );
        assert_eq!(drain(&mut queue), [0]);
    }
}

/// A shaper above peeks at the packet that leaves next: one that comes late into a higher band is
/// before the others.
#[test]
fn the_first_of_the_highest_band_is_looked_at() {
    let (mut queue, mut drops) = (prio(Config::default()), Drops::new());
    assert_eq!(queue.peek_len(Instant::ZERO, &mut drops), None);
    for (priority, len) in [(2, 100), (6, 200)] {
        queue.enqueue(
            Probe::new(0).with_priority(priority).sized(len),
            Instant::ZERO,
            &mut drops,
        );
        assert_eq!(
            queue.peek_len(Instant::ZERO, &mut drops),
            Some(Bytes::new(len.into()))
        );
    }
}

#[test]
fn each_band_needs_a_child() {
    let error = Queue::new(1, Config::default(), vec![fifo()])
        .err()
        .expect("three are needed");
    assert_eq!(
        error.to_string(),
        "`bands` must be the number of disciplines given, not 3"
    );
}

/// Replaces the parameters; new bands hold FIFOs.
fn change(
    queue: &mut Ledger<Queue>,
    config: Config,
    drops: &mut Drops<Probe>,
) -> Result<(), ConfigError> {
    queue.with_inner("reconfigure", Instant::ZERO, drops, |prio, drops| {
        prio.reconfigure(config, fifo, drops)
    })
}

#[test]
fn bands_come_and_go() {
    let (mut queue, mut drops) = (prio(Config::default()), Drops::new());
    fill(&mut queue, &[0, 1, 2, 6]);
    let two = Config {
        bands: 2,
        ..Config::default()
    };
    let error = change(&mut queue, two.clone(), &mut drops).expect_err("the priomap needs a third");
    assert_eq!(error.parameter, "priomap");
    let priomap = [1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
    change(&mut queue, Config { priomap, ..two }, &mut drops).expect("valid");
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(1, DropReason::Reset), (2, DropReason::Reset)]
    );
    let mut four = Config {
        bands: 4,
        ..queue.inner().config().clone()
    };
    four.priomap[0] = 3;
    change(&mut queue, four, &mut drops).expect("valid");
    fill(&mut queue, &[0, 1]);
    assert_eq!(drain(&mut queue), [6, 0, 1, 0]);
    let classes: Vec<_> = queue.inner().classes().collect();
    assert_eq!((classes.len(), classes[3].0), (4, ClassId::new(1, 4)));
    assert_eq!(classes[3].2.sent_packets, 1);
    assert_eq!(
        queue
            .inner_mut()
            .graft(ClassId::new(1, 5), fifo(), &mut drops)
            .expect_err("no band")
            .parameter,
        "parent"
    );
}

proptest! {
    /// No packet leaves a band while a lower-numbered one holds any; each band keeps its order.
    #[test]
    fn no_band_overtakes(events in vec(proptest::option::of(0..16u8), 0..300)) {
        let (mut queue, mut drops) = (prio(Config::default()), Drops::new());
        let mut held = [const { alloc::collections::VecDeque::new() }; 3];
        for (id, event) in (0..).zip(events) {
            if let Some(priority) = event {
                queue.enqueue(Probe::new(id).with_priority(priority), Instant::ZERO, &mut drops);
                held[usize::from(PRIOMAP[usize::from(priority)])].push_back(id);
            } else {
                let expected = held.iter_mut().find_map(alloc::collections::VecDeque::pop_front);
                prop_assert_eq!(queue.dequeue(Instant::ZERO, &mut drops).map(|packet| packet.id), expected);
            }
        }
    }
}
