//! Strictness, bands that hold back, bands that come and go.

use super::*;
use crate::dialect::*;
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use crate::tbf::{self, Tbf};
use alloc::boxed::Box;
use proptest::collection::vec;
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use tautline_base::{Bytes, Rate};
use tautline_testkit::{Probe, ids};

type Queue = Prio<Probe, Box<dyn DynQdisc<Probe>>>;

fn fifo() -> Box<dyn DynQdisc<Probe>> {
    Pfifo::new(pfifo::Config::default()).into()
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
    let words = &mut Words::new("limit 1");
    queue
        .change(
            Target::Below(ClassId::new(10, 1)),
            words,
            Instant::ZERO,
            &mut drops,
        )
        .expect("a pfifo two levels down");
    let drr = build::<Probe>("qdisc root handle 2: drr; class classid 2:1 drr").expect("valid");
    queue
        .inner_mut()
        .graft(ClassId::new(1, 2), drr, &mut drops)
        .expect("a band");
    let words = &mut Words::new("quantum 100");
    queue
        .change(
            Target::Class(ClassId::new(2, 1)),
            words,
            Instant::ZERO,
            &mut drops,
        )
        .expect("a class two levels down");
}

/// `net/sched/sch_prio.c`: a class that is no band means the band of priority 0.
#[test]
fn filters_choose_the_band() {
    let mut queue = prio(Config::default());
    let mut filters = Filters::default();
    for (mark, class) in [(1, "1:1"), (2, "1:3"), (3, "1:4"), (4, "1:0")] {
        let words = std::format!("handle {mark} fw classid {class}");
        filters
            .add(read_filter(&mut Words::new(&words)).expect("a rule"))
            .expect("new");
    }
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
fn bands_come_and_go() {
    let (mut queue, mut drops) = (prio(Config::default()), Drops::new());
    fill(&mut queue, &[0, 1, 2, 6]);
    let mut change = |words| {
        queue.change(
            Target::Root,
            &mut Words::new(words),
            Instant::ZERO,
            &mut drops,
        )
    };
    let error = change("bands 2").expect_err("the priomap needs a third");
    assert_eq!(
        (error.at.clone(), error.to_string().as_str()),
        (0..7, "prio: `priomap` must be less than `bands`, not 2")
    );
    change("bands 2 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1").expect("valid");
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(1, DropReason::Reset), (2, DropReason::Reset)]
    );
    queue
        .change(
            Target::Root,
            &mut Words::new("bands 4 priomap 3"),
            Instant::ZERO,
            &mut drops,
        )
        .expect("valid");
    fill(&mut queue, &[0, 1]);
    assert_eq!(drain(&mut queue), [6, 0, 1, 0]);
    let report = queue.inner().report();
    assert_eq!(
        (report.classes.len(), report.classes[3].children[0].kind),
        (4, "pfifo")
    );
    assert_eq!(report.classes[3].id, Some(ClassId::new(1, 4)));
    assert_eq!(
        report.classes[3].common.map(|common| common.sent_packets),
        Some(1)
    );
    let error = queue.change(
        Target::Class(ClassId::new(1, 1)),
        &mut Words::new("x"),
        Instant::ZERO,
        &mut drops,
    );
    assert_eq!(
        error.expect_err("no options").to_string(),
        "prio has no class 1:1"
    );
    assert_eq!(
        queue
            .inner_mut()
            .graft(ClassId::new(1, 5), fifo(), &mut drops)
            .expect_err("no band")
            .parameter,
        "parent"
    );
}

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
        assert_eq!(
            build::<Probe>(words).err().expect(words).to_string(),
            message
        );
    }
    let error = Queue::new(1, Config::default(), vec![fifo()])
        .err()
        .expect("three are needed");
    assert_eq!(
        error.to_string(),
        "`bands` must be the number of disciplines given, not 3"
    );
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
