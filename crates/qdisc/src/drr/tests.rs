//! Turns, shares, blocked classes, classes that come and go.

use super::*;
use crate::classful::Classful;
use crate::fq_codel::{self, FqCodel};
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use crate::tbf::{self, Tbf};
use crate::testing::by_mark;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use proptest::collection::vec;
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use tautline_base::Rate;
use tautline_testkit::{Probe, ids};

type Queue = Drr<Probe, Box<dyn Qdisc<Probe>>>;

/// Puts each packet into the class that its mark names, as a filter would.
struct ByMark(Queue);

impl Qdisc<Probe> for ByMark {
    fn enqueue(&mut self, packet: Probe, now: Instant, drops: &mut Drops<Probe>) {
        match self.0.children.find(ClassId::new(1, packet.mark() as u16)) {
            Some(at) => self.0.enqueue_to(at, packet, now, drops),
            None => self.0.enqueue(packet, now, drops),
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<Probe>) -> Option<Probe> {
        self.0.dequeue(now, drops)
    }

    fn ready_at(&self) -> Option<Instant> {
        self.0.ready_at()
    }

    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

fn fifo() -> Box<dyn Qdisc<Probe>> {
    Box::new(Pfifo::new(pfifo::Config::default()))
}

fn class(minor: u16) -> ClassId {
    ClassId::new(1, minor)
}

fn quantum(bytes: u64) -> ClassConfig {
    ClassConfig {
        quantum: Bytes::new(bytes),
    }
}

/// Classes 1, 2, … with these quanta.
fn drr(quanta: &[u64]) -> Ledger<ByMark> {
    let mut drr = Queue::new(1);
    for (minor, &bytes) in (1..).zip(quanta) {
        drr.add_class(class(minor), quantum(bytes), fifo())
            .expect("new");
    }
    Ledger::new(ByMark(drr))
}

fn fill(queue: &mut Ledger<ByMark>, packets: &[(u32, u32)]) {
    for &(minor, len) in packets {
        queue.enqueue(
            Probe::new(minor).marked(minor).sized(len),
            Instant::ZERO,
            &mut Drops::new(),
        );
    }
}

fn deficit(queue: &Ledger<ByMark>, at: usize) -> u64 {
    queue.inner().0.rounds.deficit(at).get()
}

/// `net/sched/sch_drr.c`, worked by hand: quantum 1514, A of 1514 bytes, B of 500: A BBB A BBB,
/// with B's deficits.
#[test]
fn turns_are_the_classic_ones() {
    let (mut queue, mut drops) = (drr(&[1514, 1514]), Drops::new());
    fill(&mut queue, &[(1, 1514); 4]);
    fill(&mut queue, &[(2, 500); 12]);
    let expected = [
        (1, 0),
        (2, 1014),
        (2, 514),
        (2, 14),
        (1, 14),
        (2, 1028),
        (2, 528),
        (2, 28),
        (1, 28),
        (2, 1042),
    ];
    for (id, left) in expected {
        let packet = queue
            .dequeue(Instant::ZERO, &mut drops)
            .expect("backlogged");
        assert_eq!(
            (packet.id, if id == 2 { deficit(&queue, 1) } else { left }),
            (id, left)
        );
    }
}

/// The rest of a deficit is lost when a class runs empty; it comes back at the end of the line with
/// one quantum.
#[test]
fn an_idle_class_saves_nothing() {
    let (mut queue, mut drops) = (drr(&[1000, 1000]), Drops::new());
    fill(&mut queue, &[(1, 100), (2, 600), (2, 600)]);
    assert_eq!(
        queue.dequeue(Instant::ZERO, &mut drops).expect("queued").id,
        1
    );
    fill(&mut queue, &[(1, 1000), (1, 1)]);
    assert_eq!(
        ids(core::iter::from_fn(
            || queue.dequeue(Instant::ZERO, &mut drops)
        )),
        [2, 1, 2, 1]
    );
    assert_eq!(queue.ready_at(), None);
}

/// A quantum of one byte, a packet of 4 GiB: the rounds between are skipped, their outcome is not.
#[test]
fn many_rounds_pass_at_once() {
    let (mut queue, mut drops) = (drr(&[1, 2]), Drops::new());
    fill(&mut queue, &[(1, u32::MAX), (2, u32::MAX), (2, u32::MAX)]);
    assert_eq!(
        queue.dequeue(Instant::ZERO, &mut drops).expect("queued").id,
        2
    );
    assert_eq!(deficit(&queue, 0), u64::from(u32::MAX / 2) + 1 + 1);
    assert_eq!(
        ids(core::iter::from_fn(
            || queue.dequeue(Instant::ZERO, &mut drops)
        )),
        [1, 2]
    );
    fill(&mut queue, &[(1, 0), (2, 0)]);
    assert_eq!(
        ids(core::iter::from_fn(
            || queue.dequeue(Instant::ZERO, &mut drops)
        )),
        [1, 2]
    );
}

/// In Linux a class that holds its packets back stops all the others.
#[test]
fn a_shaped_class_is_passed_over() {
    let (mut queue, mut drops) = (drr(&[1514, 1514]), Drops::new());
    let config = tbf::Config {
        rate: Rate::mbit(1),
        burst: Bytes::new(1514),
        ..tbf::Config::default()
    };
    let shaped = Tbf::new(config, fifo()).expect("valid");
    queue
        .inner_mut()
        .0
        .graft(class(1), Box::new(shaped), &mut drops)
        .expect("exists");
    fill(&mut queue, &[(1, 1250), (1, 1250), (2, 1000), (2, 1000)]);
    assert_eq!(
        ids(core::iter::from_fn(
            || queue.dequeue(Instant::ZERO, &mut drops)
        )),
        [1, 2, 2]
    );
    // 1514 − 1250 bytes are left in the bucket; 986 are wanting, 8 µs each.
    let opens = Instant::from_micros(986 * 8);
    assert_eq!(queue.ready_at(), Some(opens));
    fill(&mut queue, &[(2, 7)]);
    assert_eq!(queue.ready_at(), Some(Instant::ZERO));
    assert_eq!(
        queue
            .dequeue(Instant::ZERO, &mut drops)
            .expect("not shaped")
            .id,
        2
    );
    assert!(queue.dequeue(Instant::ZERO, &mut drops).is_none());
    assert_eq!(queue.dequeue(opens, &mut drops).expect("open").id, 1);
}

/// `drr_graft_class` empties the class, which leaves the list (`drr_qlen_notify`): its next packet
/// comes last, with a whole quantum.
#[test]
fn a_class_with_another_qdisc_begins_anew() {
    let (mut queue, mut drops) = (drr(&[1000, 1000]), Drops::new());
    fill(&mut queue, &[(1, 400), (1, 400), (2, 1000)]);
    let first = queue.dequeue(Instant::ZERO, &mut drops);
    assert_eq!((first.expect("queued").id, deficit(&queue, 0)), (1, 600));
    queue
        .with_inner("graft", Instant::ZERO, &mut drops, |queue, drops| {
            queue.0.graft(class(1), fifo(), drops)
        })
        .expect("exists");
    assert_eq!(drops.len(), 1);
    fill(&mut queue, &[(1, 500)]);
    assert_eq!(deficit(&queue, 0), 1000);
    let sent = ids(core::iter::from_fn(|| {
        queue.dequeue(Instant::ZERO, &mut drops)
    }));
    assert_eq!(sent, [2, 1]);
}

#[test]
fn what_has_no_class_is_dropped() {
    let (mut queue, mut drops) = (drr(&[1]), Drops::new());
    queue.enqueue(Probe::new(7).marked(7), Instant::ZERO, &mut drops);
    assert!(
        drops
            .drain()
            .all(|(packet, reason)| (packet.id, reason) == (7, DropReason::Filter))
    );
    assert_eq!(
        (queue.ready_at(), queue.backlog()),
        (None, Backlog::default())
    );
}

#[test]
fn classes_come_and_go_while_others_wait() {
    let (mut queue, mut drops) = (drr(&[1514; 3]), Drops::new());
    queue
        .inner_mut()
        .0
        .add_class(class(9), quantum(1514), fifo())
        .expect("new");
    fill(
        &mut queue,
        &[(9, 100), (1, 100), (2, 200), (2, 200), (3, 300)],
    );
    let drr = &mut queue.inner_mut().0;
    drr.add_class(class(5), quantum(1), fifo())
        .expect("between the others");
    drr.remove_class(class(2), &mut drops).expect("exists");
    assert_eq!(
        drops
            .iter()
            .map(|(packet, reason)| (packet.id, *reason))
            .collect::<Vec<_>>(),
        [(2, DropReason::Reset); 2]
    );
    assert_eq!(
        drr.backlog(),
        Backlog {
            packets: 3,
            bytes: Bytes::new(500)
        }
    );
    assert_eq!(
        ids(core::iter::from_fn(
            || drr.dequeue(Instant::ZERO, &mut drops)
        )),
        [9, 1, 3]
    );
    let refused = |result: Result<(), ConfigError>| result.expect_err("refused").to_string();
    assert_eq!(
        refused(drr.remove_class(class(2), &mut drops)),
        "`classid` must be an existing class, not 1:2"
    );
    assert_eq!(
        refused(drr.add_class(class(3), quantum(1), fifo())),
        "`classid` must be a class that does not exist yet, not 1:3"
    );
    let other = ClassId::new(2, 1);
    assert!(
        refused(drr.add_class(other, quantum(1), fifo()))
            .starts_with("`classid` must be a class of the qdisc")
    );
    assert_eq!(
        refused(drr.add_class(class(4), quantum(0), fifo())),
        "`quantum` must be at least 1b, not 0b"
    );
    assert_eq!(
        refused(drr.graft(class(4), fifo(), &mut drops)),
        "`parent` must be an existing class, not 1:4"
    );
}

#[test]
fn a_class_takes_another_quantum() {
    let (mut queue, mut drops) = (drr(&[1, 1]), Drops::new());
    let (drr, now) = (&mut queue.inner_mut().0, Instant::ZERO);
    drr.change_class_config(class(1), quantum(2000), now)
        .expect("valid");
    let refused = drr.change_class_config(class(1), quantum(0), now);
    assert_eq!(refused.expect_err("too small").parameter, "quantum");
    let unknown = drr.change_class_config(ClassId::new(3, 1), quantum(1), now);
    assert_eq!(unknown.expect_err("unknown").parameter, "classid");
    let quantum_of = |minor| drr.class(class(minor)).map(|(config, _)| config.clone());
    assert_eq!(
        (quantum_of(1), quantum_of(2)),
        (Some(quantum(2000)), Some(quantum(1)))
    );
    let other = drr.with_child(ClassId::new(1, 3), &mut drops, |_, _| ());
    assert_eq!(other, None, "no such class");
}

/// A child that drops when it is changed: the parent's backlog is right at once and later.
#[test]
fn a_change_below_is_accounted() {
    let limit = |limit| fq_codel::Config {
        limit,
        perturbation: Some(0),
        ..fq_codel::Config::default()
    };
    let fair = || FqCodel::new(limit(10)).expect("valid");
    let (mut queue, mut drops) = (Drr::new(1), Drops::new());
    queue
        .add_class(class(1), quantum(1514), fair())
        .expect("new");
    queue
        .add_class(class(2), quantum(1514), fair())
        .expect("new");
    queue.set_filters(by_mark((1..3).map(|minor| (minor, class(minor as u16)))));
    for id in 0..10 {
        queue.enqueue(Probe::new(id).marked(1 + id % 2), Instant::ZERO, &mut drops);
    }
    queue
        .with_child(class(1), &mut drops, |child, drops| {
            child.reconfigure(limit(1), drops)
        })
        .expect("its class")
        .expect("valid");
    assert_eq!((queue.backlog().packets, drops.len()), (6, 4));
    assert_eq!(
        ids(core::iter::from_fn(
            || queue.dequeue(Instant::ZERO, &mut drops)
        ))
        .len(),
        6
    );
    assert_eq!(queue.backlog(), Backlog::default());
}

proptest! {
    /// |S_i/Q_i − S_j/Q_j| ≤ 1 + Lmax/Q_i + Lmax/Q_j while both are backlogged.
    #[test]
    fn bytes_are_shared_by_quantum(
        classes in vec((1..4000u64, 1..1515u32), 2..6), turns in 1..300usize,
    ) {
        let quanta: Vec<u64> = classes.iter().map(|(quantum, _)| *quantum).collect();
        let (mut queue, mut drops) = (drr(&quanta), Drops::new());
        for (minor, &(_, len)) in (1..).zip(&classes) {
            fill(&mut queue, &vec![(minor, len); 301]);
        }
        let mut sent = vec![0.0; classes.len()];
        for _ in 0..turns {
            let packet = queue.dequeue(Instant::ZERO, &mut drops).expect("backlogged");
            sent[packet.id as usize - 1] += packet.len().get() as f64;
            for (i, &one) in sent.iter().enumerate() {
                for (j, &other) in sent.iter().enumerate() {
                    let (qi, qj) = (quanta[i] as f64, quanta[j] as f64);
                    let longest = classes.iter().map(|(_, len)| *len).max().map_or(0.0, f64::from);
                    let bound = 1.0 + longest / qi + longest / qj;
                    prop_assert!((one / qi - other / qj).abs() <= bound, "{sent:?}");
                }
            }
        }
    }

    /// Beside a scheduler that walks through every round: the same packets in the same order. An
    /// empty packet costs a byte.
    #[test]
    fn skipping_rounds_changes_nothing(
        quanta in vec(1..40u64, 1..5), events in vec((0..5u32, 0..2000u32, 0..3u8), 0..200),
    ) {
        let (mut queue, mut drops) = (drr(&quanta), Drops::new());
        let mut model: VecDeque<(usize, u64, VecDeque<u64>)> = VecDeque::new();
        for (minor, len, takes) in events {
            let minor = minor as usize % quanta.len() + 1;
            fill(&mut queue, &[(minor as u32, len)]);
            match model.iter_mut().find(|(other, ..)| *other == minor) {
                Some((_, _, held)) => held.push_back(len.into()),
                None => model.push_back((minor, quanta[minor - 1], VecDeque::from([len.into()]))),
            }
            for _ in 0..takes {
                let expected = loop {
                    let Some((minor, deficit, held)) = model.front_mut() else { break None };
                    if held[0].max(1) <= *deficit {
                        let (minor, len) = (*minor, held.pop_front().expect("held"));
                        *deficit -= len.max(1);
                        if held.is_empty() {
                            model.pop_front();
                        }
                        break Some((minor as u32, len));
                    }
                    *deficit += quanta[*minor - 1];
                    model.rotate_left(1);
                };
                let got = queue.dequeue(Instant::ZERO, &mut drops).map(|packet| (packet.id, packet.len().get()));
                prop_assert_eq!(got, expected);
            }
        }
    }
}

/// A class of empty packets has its turn like any other, not forever.
#[test]
fn empty_packets_end_their_turn() {
    let (mut queue, mut drops) = (drr(&[10, 10]), Drops::new());
    for id in 0..200 {
        queue.enqueue(
            Probe::new(id).marked(1 + id / 100).sized(0),
            Instant::ZERO,
            &mut drops,
        );
    }
    let left = ids((0..40).map_while(|_| queue.dequeue(Instant::ZERO, &mut drops)));
    assert_eq!(left.iter().filter(|&&id| id >= 100).count(), 20);
}
