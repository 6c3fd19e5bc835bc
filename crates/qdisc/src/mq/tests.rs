//! mq: both ways of waking, spreading, sums, and children that come and go.

use super::*;
use crate::bfifo::{self, Bfifo};
use crate::classful::Classful;
use crate::fq_codel::{self, FqCodel};
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use crate::stats::Stats;
use crate::tbf::{self, Tbf};
use alloc::boxed::Box;
use proptest::collection::vec;
use proptest::prelude::*;
use std::string::ToString;
use tautline_base::{Bytes, DropReason, Rate};
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

/// The sum of the counters of all children.
fn sum<Q: Qdisc<Probe>>(mq: &Mq<Probe, Q>) -> Common {
    mq.classes().fold(Common::default(), |sum, (_, _, child)| {
        let Common { backlog, .. } = sum;
        Common {
            sent_bytes: sum.sent_bytes + child.sent_bytes,
            sent_packets: sum.sent_packets + child.sent_packets,
            drops: sum.drops + child.drops,
            backlog: Backlog {
                packets: backlog.packets + child.backlog.packets,
                bytes: backlog.bytes + child.backlog.bytes,
            },
        }
    })
}

#[test]
fn statistics_are_the_sums_of_the_children() {
    let mut mq = by_mark(2);
    assert_eq!(put(&mut mq, &[0, 0, 0, 1, 2]), [2]);
    for queue in [0, 2] {
        mq.dequeue_from(queue, Instant::ZERO, &mut Drops::new())
            .expect("queued");
    }
    let expected = Common {
        sent_bytes: Bytes::new(3028),
        sent_packets: 2,
        drops: 1,
        backlog: mq.backlog(),
    };
    assert_eq!(sum(&mq), expected);
    let classes: Vec<ClassId> = mq.classes().map(|(class, ..)| class).collect();
    assert_eq!((classes.len(), classes[2]), (4, ClassId::new(1, 3)));
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
    let inner = mq.inner_mut();
    inner.reconfigure(&Config { queues: 4 }).expect("as it is");
    let refused = inner.reconfigure(&Config { queues: 5 });
    assert_eq!(
        refused.expect_err("fixed").to_string(),
        "`queues` must be what it was at creation, not 5"
    );
    inner
        .with_child(class, &mut drops, |child, _| {
            child.reconfigure(pfifo::Config { limit: 2 });
        })
        .expect("a class");
    assert_eq!(put(&mut mq, &[2]), [0]);
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
fn no_queue_is_too_few() {
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
        let fair = FqCodel::new(fq_codel::Config { limit: 5, ..fq_codel::Config::default() }).expect("valid");
        let (rate, burst, limit) = (Rate::mbit(10), Bytes::new(3000), Bytes::new(9000));
        let shaper = tbf::Config { rate, burst, limit: tbf::Limit::Bytes(limit), ..tbf::Config::default() };
        let shaped = Tbf::new(shaper, Bfifo::new(bfifo::Config { limit })).expect("valid");
        let fifo = Pfifo::new(pfifo::Config { limit: 3 });
        let children: [Box<dyn Qdisc<Probe>>; 3] = [Box::new(fair), Box::new(shaped), Box::new(fifo)];
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
        let counted = sum(mq.inner().inner());
        let stats = mq.stats();
        prop_assert_eq!((counted.sent_packets, counted.drops), (stats.dequeued.packets, stats.drops()));
    }
}
