//! mq: both ways of waking, spreading, sums, and children that come and go.

use super::*;
use crate::dialect::*;
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use crate::stats::Stats;
use proptest::collection::vec;
use proptest::prelude::*;
use std::string::ToString;
use tautline_base::{Bytes, DropReason};
use tautline_testkit::{Probe, ids};

fn fifos(queues: usize, limit: u32) -> Vec<Pfifo<Probe>> {
    (0..queues)
        .map(|_| Pfifo::new(pfifo::Config { limit }))
        .collect()
}

/// Four queues, chosen by mark.
fn by_mark(limit: u32) -> Mq<Probe, Pfifo<Probe>> {
    Mq::choosing(
        1,
        fifos(4, limit),
        (|packet, _| packet.mark() as usize) as ByFlow<Probe>,
    )
    .expect("valid")
}

fn put(mq: &mut impl Qdisc<Probe>, marks: &[u32]) -> Vec<u32> {
    let mut drops = Drops::new();
    for (id, &mark) in (0..).zip(marks) {
        mq.enqueue(Probe::new(id).marked(mark), Instant::ZERO, &mut drops);
    }
    ids(drops.drain().map(|(packet, _)| packet))
}

/// Wake-root: in turn, a packet each, whatever the others hold.
#[test]
fn the_root_serves_its_children_in_turn() {
    let mut mq = Ledger::new(by_mark(9));
    // Five is one, modulo the number of queues.
    assert!(put(&mut mq, &[0, 0, 0, 3, 3, 5]).is_empty());
    assert_eq!(
        ids(core::iter::from_fn(
            || mq.dequeue(Instant::ZERO, &mut Drops::new())
        )),
        [0, 5, 3, 1, 4, 2]
    );
    assert_eq!(mq.ready_at(), None);
}

/// Wake-child: a device queue gets what is for it, and a queue that is not served holds nobody up.
#[test]
fn each_device_queue_is_served_by_its_child() {
    let (mut mq, mut drops) = (by_mark(9), Drops::new());
    put(&mut mq, &[0, 1, 1, 0]);
    assert_eq!((mq.queues(), mq.queue_of(&Probe::new(0).marked(6))), (4, 2));
    assert_eq!(
        (mq.ready_at_of(1), mq.ready_at_of(2), mq.ready_at_of(4)),
        (Some(Instant::ZERO), None, None)
    );
    assert_eq!(
        ids(core::iter::from_fn(|| mq.dequeue_from(
            1,
            Instant::ZERO,
            &mut drops
        ))),
        [1, 2]
    );
    assert!(
        mq.dequeue_from(2, Instant::ZERO, &mut drops).is_none()
            && mq.dequeue_from(4, Instant::ZERO, &mut drops).is_none()
    );
    assert_eq!(
        mq.backlog(),
        Backlog {
            packets: 2,
            bytes: Bytes::new(2 * 1514)
        }
    );
    assert_eq!(
        mq.dequeue_from(0, Instant::ZERO, &mut drops)
            .map(|packet| packet.id),
        Some(0)
    );
    assert_eq!(
        (
            mq.backlog().packets,
            mq.child(0).map(|child| child.backlog().packets)
        ),
        (1, Some(1))
    );
    assert!(mq.child(4).is_none());
}

#[test]
fn statistics_are_the_sums_of_the_children() {
    let mut mq = by_mark(2);
    assert_eq!(put(&mut mq, &[0, 0, 0, 1, 2]), [2]);
    for queue in [0, 2] {
        mq.dequeue_from(queue, Instant::ZERO, &mut Drops::new())
            .expect("queued");
    }
    let report = mq.report();
    let expected = Common {
        sent_bytes: Bytes::new(3028),
        sent_packets: 2,
        drops: 1,
        backlog: mq.backlog(),
    };
    assert_eq!(report.common, Some(expected));
    assert_eq!(
        (report.classes.len(), report.classes[2].id),
        (4, Some(ClassId::new(1, 3)))
    );
    assert_eq!(expected.backlog.packets, 2);
}

/// All packets of a flow go to one queue, and flows go to all of them alike.
#[test]
fn flows_are_spread_over_the_queues() {
    let mq = Mq::new(1, fifos(5, 1)).expect("valid");
    let mut flows = [0; 5];
    for flow in 0..5000u64 {
        let queue = mq.queue_of(&Probe::new(0).flow(flow));
        assert_eq!(mq.queue_of(&Probe::new(1).flow(flow)), queue);
        flows[queue] += 1;
    }
    assert!(
        flows.iter().all(|flows| (900..1100).contains(flows)),
        "{flows:?}"
    );
}

#[test]
fn children_can_be_replaced_and_changed() {
    let (mut mq, mut drops) = (Ledger::new(by_mark(5)), Drops::new());
    put(&mut mq, &[2, 2]);
    let class = ClassId::new(1, 3);
    let change = |mq: &mut Ledger<Mq<Probe, Pfifo<Probe>>>, words: &str| {
        mq.change(
            Target::Root,
            &mut Words::new(words),
            Instant::ZERO,
            &mut Drops::new(),
        )
        .map_err(|error| error.to_string())
    };
    assert_eq!(change(&mut mq, "queues 4"), Ok(()));
    assert_eq!(
        change(&mut mq, "queues 5"),
        Err("mq: `queues` must be what it was at creation, not 5".into())
    );
    mq.change(
        Target::Below(class),
        &mut Words::new("limit 2"),
        Instant::ZERO,
        &mut drops,
    )
    .expect("a class");
    assert_eq!(put(&mut mq, &[2]), [0]);
    for class in [class, ClassId::new(7, 1)] {
        mq.change(
            Target::Class(class),
            &mut Words::new("limit 2"),
            Instant::ZERO,
            &mut drops,
        )
        .expect_err("no options");
    }
    let mut mq = mq.into_inner();
    mq.graft(ClassId::new(1, 5), fifos(1, 1).remove(0), &mut drops)
        .expect_err("no such queue");
    mq.graft(class, fifos(1, 1).remove(0), &mut drops)
        .expect("a queue");
    let dropped: Vec<_> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(dropped, [(0, DropReason::Reset), (1, DropReason::Reset)]);
    assert!(mq.backlog().is_empty());
}

#[test]
fn words_say_how_many_queues() {
    let kind: Kind = "mq queues 3".parse().expect("valid");
    assert_eq!(
        (kind.to_string().as_str(), kind.clone()),
        ("mq queues 3", Kind::Mq(Config { queues: 3 }))
    );
    assert_eq!(
        kind.build::<Probe>().expect("valid").report().classes.len(),
        3
    );
    for queues in [0, 4097] {
        let refused = Kind::Mq(Config { queues })
            .build::<Probe>()
            .err()
            .expect("refused")
            .to_string();
        assert!(
            refused.contains("`queues` must be from 1 to 4096"),
            "{refused}"
        );
    }
    assert_eq!(
        Mq::new(1, fifos(0, 1)).err().map(|error| error.parameter),
        Some("queues")
    );
}

proptest! {
    /// Driven both ways at once, with children that drop and one that holds packets back: no packet
    /// is lost, flows keep their order, and everything leaves.
    #[test]
    fn every_packet_leaves_once(steps in vec((0..6u64, 0..7usize, 0..2_000_000u64), 0..300)) {
        let child = |words: &str| build(words).expect("valid");
        let children = ["fq_codel limit 5", "tbf rate 10mbit burst 3000 limit 9000", "pfifo limit 3"].map(child);
        let mut mq = Stats::new(Ledger::new(Mq::new(1, children.into()).expect("valid")));
        let (mut drops, mut now, mut last) = (Drops::new(), Instant::ZERO, [0; 6]);
        let mut check = |packet: Option<Probe>| {
            if let Some(packet) = packet {
                let last = &mut last[packet.flow as usize];
                assert!(packet.id > *last, "flows keep their order");
                *last = packet.id;
            }
        };
        for (id, (flow, action, nanos)) in (1..).zip(steps) {
            now += core::time::Duration::from_nanos(nanos);
            if action < 4 {
                mq.enqueue(Probe::new(id).flow(flow), now, &mut drops);
            }
            check(if action % 2 == 0 { mq.dequeue(now, &mut drops) } else { None });
        }
        for _ in 0..4 * mq.backlog().packets {
            now = now.max(mq.ready_at().unwrap_or_default());
            check(mq.dequeue(now, &mut drops));
        }
        prop_assert!(mq.backlog().is_empty() && mq.ready_at().is_none());
        let counted = mq.report().common.expect("counted");
        let stats = mq.stats();
        prop_assert_eq!((counted.sent_packets, counted.drops), (stats.dequeued.packets, stats.drops()));
    }
}

#[test]
fn a_script_fills_the_queues() {
    let words = "qdisc root handle 1: mq queues 2; qdisc parent 1:2 handle 9: fq_codel";
    let report = build::<Probe>(words).expect("valid").report();
    let kinds: Vec<_> = report
        .classes
        .iter()
        .map(|class| class.children[0].kind)
        .collect();
    assert_eq!(kinds, ["pfifo_fast", "fq_codel"]);
    let error = build::<Probe>("qdisc root handle 1: mq queues 2; qdisc parent 1:3 pfifo").err();
    assert!(error.is_some(), "there is no third queue");
}
