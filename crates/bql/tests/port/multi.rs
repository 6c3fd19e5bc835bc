//! Several device queues under one root queueing discipline.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Item, Packet, Rate};
use tautline_bql::{Dql, Limit, MultiPort, Ring, TxStats, Unlimited, Waking};
use tautline_qdisc::{DropReason, Drops, Mq};

use crate::wire::{Fifo, Wire, packet};

const NOW: Instant = Instant::from_secs(1);
const LATER: Instant = Instant::from_secs(2);

type Choose = fn(&Packet<()>, usize) -> usize;
type Multi<L> = MultiPort<Mq<Packet<()>, Fifo<()>, Choose>, Wire<()>, L>;

/// A packet's flow hash modulo the number of queues is its queue.
fn port<L: Limit>(rings: &[usize], waking: Waking, limit: impl Fn() -> L) -> Multi<L> {
    let choose: Choose = |packet, queues| packet.flow_hash() as usize % queues;
    let root =
        Mq::choosing(1, rings.iter().map(|_| Fifo::new()).collect(), choose).expect("at least one");
    let rings = rings
        .iter()
        .map(|room| Ring::new(Wire::new(Rate::gbit(1), *room), limit()))
        .collect();
    MultiPort::new(root, rings, waking).expect("a ring for each child")
}

fn fill<L: Limit>(port: &mut Multi<L>, numbers: impl IntoIterator<Item = u64>) {
    numbers
        .into_iter()
        .for_each(|number| port.enqueue(packet(number), NOW, &mut Drops::new()));
}

/// The packets moved, by queue.
fn transmit<L: Limit>(port: &mut Multi<L>, budget: usize) -> BTreeMap<usize, Vec<u64>> {
    let mut seen = BTreeMap::<usize, Vec<u64>>::new();
    let moved = port.transmit(NOW, budget, &mut Drops::new(), |queue, packet| {
        seen.entry(queue).or_default().push(packet.flow_hash());
    });
    assert_eq!(moved, seen.values().map(Vec::len).sum::<usize>());
    seen
}

#[test]
fn there_is_a_ring_for_each_child() {
    let root = Mq::new(1, vec![Fifo::<()>::new(), Fifo::new()]).expect("two");
    assert!(
        MultiPort::new(
            root,
            vec![Ring::new(Wire::new(Rate::gbit(1), 4), Dql::default())],
            Waking::Child
        )
        .is_none()
    );
}

#[test]
fn a_full_queue_holds_up_nobody_when_it_wakes_its_child() {
    let mut port = port(&[1, 4], Waking::Child, Unlimited::default);
    fill(&mut port, 0..6);
    assert_eq!(
        transmit(&mut port, 64),
        BTreeMap::from([(0, vec![0]), (1, vec![1, 3, 5])])
    );
    assert_eq!(port.backlog().packets, 2);
    assert_eq!(
        (port.ready_at(), port.ready_at_of(0), port.ready_at_of(9)),
        (None, None, None),
        "only a completion helps"
    );
    fill(&mut port, [7]);
    assert_eq!(
        (port.ready_at(), port.ready_at_of(0)),
        (Some(Instant::ZERO), None)
    );
}

#[test]
fn a_full_queue_holds_up_all_when_it_wakes_the_root() {
    let mut port = port(&[2, 4], Waking::Root, Unlimited::default);
    fill(&mut port, [0, 2, 4, 1, 3, 5]);
    // In turn, a packet each: queue 0 is full after its second, and queue 1 stops with room for
    // more.
    assert_eq!(
        transmit(&mut port, 64),
        BTreeMap::from([(0, vec![0, 2]), (1, vec![1])])
    );
    assert_eq!((port.backlog().packets, port.ready_at()), (3, None));
    let mut done = Vec::new();
    port.reap(0, LATER, &mut done);
    assert_eq!(done.len(), 2);
    assert_eq!(port.ready_at(), Some(Instant::ZERO));
    let moved = port.transmit_from(1, LATER, 64, &mut Drops::new(), |_, _| {});
    assert_eq!(moved, 3, "whoever is served, the root is");
}

#[test]
fn one_queue_is_served_alone() {
    let mut port = port(&[4, 4], Waking::Child, Unlimited::default);
    fill(&mut port, 0..6);
    assert_eq!(
        port.transmit_from(1, NOW, 2, &mut Drops::new(), |queue, _| assert_eq!(
            queue,
            1
        )),
        2
    );
    assert_eq!(
        port.transmit_from(7, NOW, 2, &mut Drops::new(), |_, _| {}),
        0,
        "there is no such queue"
    );
    assert_eq!(port.backlog().packets, 4);
    assert_eq!(
        [0, 1].map(|number| port.ring(number).map(Ring::in_flight)),
        [Some(0), Some(2)]
    );
}

/// The budget is shared by bulks of 16, and the next call goes on with the next queue.
#[test]
fn a_budget_is_spent_in_turns() {
    let mut port = port(&[256; 3], Waking::Child, Unlimited::default);
    fill(&mut port, 0..300);
    let counts = |moved: BTreeMap<usize, Vec<u64>>| {
        [0, 1, 2].map(|queue| moved.get(&queue).map_or(0, Vec::len))
    };
    assert_eq!(counts(transmit(&mut port, 20)), [16, 4, 0]);
    assert_eq!(counts(transmit(&mut port, 40)), [16, 8, 16]);
    assert_eq!(
        counts(transmit(&mut port, usize::MAX)),
        [68, 88, 84],
        "all the rest"
    );
}

#[test]
fn each_queue_counts_for_itself() {
    let mut port = port(&[2, 4], Waking::Child, Unlimited::default);
    fill(&mut port, 0..8);
    transmit(&mut port, 64);
    transmit(&mut port, 64);
    let stats = |packets, bulks, ring_full| {
        let bytes = Bytes::new(1514 * packets);
        TxStats {
            packets,
            bytes,
            bulks,
            ring_full,
            limit_reached: 0,
        }
    };
    assert_eq!(port.stats(0), Some(&stats(2, 1, 1)), "it stays stopped");
    assert_eq!(
        port.stats(1),
        Some(&stats(4, 1, 0)),
        "full, but nothing waits"
    );
    assert_eq!(port.ring(0).map(|ring| ring.device().doorbells), Some(1));
    port.reap(0, LATER, &mut Vec::new());
    port.transmit(LATER, 1, &mut Drops::new(), |_, _| {});
    assert_eq!(port.stats(0), Some(&stats(3, 2, 1)), "open again");
    assert_eq!(port.stats(2), None);
}

/// A limit is its queue's own.
#[test]
fn a_limit_stops_its_queue_alone() {
    let mut port = port(&[64, 64], Waking::Child, Dql::default);
    fill(&mut port, 0..8);
    assert_eq!(
        transmit(&mut port, 64),
        BTreeMap::from([(0, vec![0]), (1, vec![1])]),
        "a limit of zero lets one through"
    );
    let stopped = [0, 1].map(|number| {
        port.stats(number)
            .map(|stats| (stats.ring_full, stats.limit_reached))
    });
    assert_eq!(stopped, [Some((0, 1)); 2]);
    port.reap(1, LATER, &mut Vec::new());
    assert_eq!(
        port.transmit(LATER, 64, &mut Drops::new(), |queue, _| assert_eq!(
            queue,
            1
        )),
        2
    );
}

#[test]
fn a_reset_gives_up_the_rings_and_keeps_what_waits() {
    let mut port = port(&[1, 1], Waking::Child, Unlimited::default);
    fill(&mut port, 0..6);
    transmit(&mut port, 64);
    let mut drops = Drops::new();
    port.reset(&mut drops);
    let lost: Vec<_> = drops
        .drain()
        .map(|(packet, reason)| (packet.flow_hash(), reason))
        .collect();
    assert_eq!(lost, [(0, DropReason::Reset), (1, DropReason::Reset)]);
    assert_eq!(
        transmit(&mut port, 64),
        BTreeMap::from([(0, vec![2]), (1, vec![3])])
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// After any operations in any order: each packet is waiting, in its own ring, or done; each
    /// queue keeps its order; and `ready_at` says whether a `transmit` would move something.
    #[test]
    fn nothing_is_lost_misled_or_overtaken(steps in prop::collection::vec((0..4u8, 0..64u64), 1..200), root: bool) {
        let waking = if root { Waking::Root } else { Waking::Child };
        let mut port = port(&[3, 5, 8], waking, Dql::default);
        let (mut now, mut born, mut done) = (NOW, 0, Vec::new());
        let mut sent = [const { Vec::new() }; 3];
        for (step, size) in steps {
            match step {
                0 => {
                    (born..born + size).for_each(|number| port.enqueue(packet(number), now, &mut Drops::new()));
                    born += size;
                }
                1 => {
                    let ready = port.ready_at().is_some_and(|at| at <= now);
                    let moved = port.transmit(now, size as usize, &mut Drops::new(), |queue, packet| {
                        sent[queue].push(packet.flow_hash());
                    });
                    prop_assert_eq!(moved > 0, ready && size > 0);
                }
                2 => port.reap(size as usize % 3, now, &mut done),
                _ => now += Duration::from_micros(size),
            }
            let in_flight: usize = (0..3).filter_map(|number| port.ring(number)).map(Ring::in_flight).sum();
            prop_assert_eq!(born as usize, port.backlog().packets + in_flight + done.len());
        }
        for (number, sent) in sent.iter().enumerate() {
            let expected: Vec<u64> = (0..born).filter(|packet| *packet as usize % 3 == number).take(sent.len()).collect();
            prop_assert_eq!(sent, &expected);
            prop_assert_eq!(port.stats(number).map(|stats| stats.packets), Some(sent.len() as u64));
        }
    }
}
