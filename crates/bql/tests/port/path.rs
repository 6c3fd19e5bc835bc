//! The way of a packet through a port.

use tautline_base::{Bytes, Frame, HeapFrame, Instant, Item, Packet, Rate};
use tautline_bql::{Dql, Limit, Port, Ring, TxStats, Unlimited, dql};
use tautline_qdisc::Drops;

use crate::wire::{Fifo, Wire, packet};

const NOW: Instant = Instant::from_secs(1);
const LATER: Instant = Instant::from_secs(2);

/// A port with a backlog of `backlog` packets over a ring of four.
fn port<L: Limit>(backlog: u64, limit: L) -> Port<Fifo<()>, Wire<()>, L> {
    let mut port = Port::new(Fifo::new(), Ring::new(Wire::new(Rate::gbit(1), 4), limit));
    (0..backlog).for_each(|number| port.enqueue(packet(number), NOW, &mut Drops::new()));
    port
}

/// A limit of exactly `limit` bytes.
fn fixed(limit: u64) -> Dql {
    let limit = Bytes::new(limit);
    Dql::new(dql::Config {
        limit_min: limit,
        limit_max: limit,
        ..dql::Config::default()
    })
    .expect("equal bounds are valid")
}

fn transmit<L: Limit>(port: &mut Port<Fifo<()>, Wire<()>, L>, budget: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    let moved = port.transmit(NOW, budget, &mut Drops::new(), |packet| {
        seen.push(packet.flow_hash())
    });
    assert_eq!(moved, seen.len());
    seen
}

#[test]
fn transmit_stops_at_the_budget_the_ring_the_limit_and_the_backlog() {
    assert_eq!(
        transmit(&mut port(9, Unlimited::default()), 3),
        [0, 1, 2],
        "budget"
    );
    assert_eq!(
        transmit(&mut port(9, Unlimited::default()), 9),
        [0, 1, 2, 3],
        "ring"
    );
    assert_eq!(transmit(&mut port(9, fixed(2000)), 9), [0, 1], "limit");
    assert_eq!(
        transmit(&mut port(2, Unlimited::default()), 9),
        [0, 1],
        "backlog"
    );
}

#[test]
fn nothing_leaves_the_discipline_without_room() {
    let mut port = port(9, Unlimited::default());
    transmit(&mut port, 9);
    assert_eq!(transmit(&mut port, 9), []);
    assert_eq!(port.backlog().packets, 5);
}

#[test]
fn the_doorbell_rings_once_per_burst_and_never_for_nothing() {
    let mut port = port(6, Unlimited::default());
    transmit(&mut port, 4);
    transmit(&mut port, 4);
    assert_eq!(port.ring().device().doorbells, 1);
    port.reap(LATER, &mut Vec::new());
    transmit(&mut port, 4);
    assert_eq!(port.ring().device().doorbells, 2);
}

#[test]
fn a_closed_ring_wants_no_wake() {
    let mut port = port(9, fixed(2000));
    assert_eq!(port.ready_at(), Some(Instant::ZERO));
    transmit(&mut port, 9);
    assert_eq!(port.ready_at(), None, "only a completion helps");
    port.reap(LATER, &mut Vec::new());
    assert_eq!(port.ready_at(), Some(Instant::ZERO));
}

#[test]
fn an_empty_discipline_wants_no_wake() {
    assert_eq!(port(0, Unlimited::default()).ready_at(), None);
}

/// Counts packets and stops by ring and by limit; each stop once, however often `transmit` meets it.
#[test]
fn it_counts_what_passed_and_what_stopped_it() {
    let stats = |packets, bulks, ring_full, limit_reached| {
        let bytes = Bytes::new(1514 * packets);
        TxStats {
            packets,
            bytes,
            bulks,
            ring_full,
            limit_reached,
        }
    };
    let mut full = port(9, Unlimited::default());
    transmit(&mut full, 3);
    assert_eq!(*full.stats(), stats(3, 1, 0, 0), "there is room left");
    transmit(&mut full, 9);
    transmit(&mut full, 9);
    assert_eq!(*full.stats(), stats(4, 2, 1, 0));
    full.reap(LATER, &mut Vec::new());
    full.transmit(LATER, 9, &mut Drops::new(), |_| {});
    assert_eq!(*full.stats(), stats(8, 3, 2, 0), "it was open in between");
    full.reset(&mut Drops::new());
    transmit(&mut full, 9);
    assert_eq!(
        (*full.stats(), full.backlog().packets),
        (stats(9, 4, 2, 0), 0),
        "counters outlive a reset"
    );

    let mut limited = port(9, fixed(2000));
    transmit(&mut limited, 9);
    transmit(&mut limited, 9);
    assert_eq!(
        (*limited.stats(), limited.stats().stops()),
        (stats(2, 1, 0, 1), 1)
    );
    let mut both = *full.stats();
    both += *limited.stats();
    assert_eq!(both, stats(11, 5, 2, 1), "the counters of two queues");

    let mut empty = port(4, Unlimited::default());
    transmit(&mut empty, 9);
    assert_eq!(*empty.stats(), stats(4, 1, 0, 0), "full, but nothing waits");
}

/// Counts what it is told and limits nothing.
#[derive(Default)]
struct Listener {
    queued: Vec<u64>,
    completed: Vec<u64>,
}

impl Limit for Listener {
    fn opens_at(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }

    fn queued(&mut self, bytes: Bytes, _now: Instant) {
        self.queued.push(bytes.get());
    }

    fn completed(&mut self, bytes: Bytes, _now: Instant) {
        self.completed.push(bytes.get());
    }

    fn reset(&mut self) {}

    fn limit(&self) -> Bytes {
        Bytes::MAX
    }

    fn in_flight(&self) -> Bytes {
        Bytes::ZERO
    }
}

#[test]
fn a_limit_hears_of_each_packet_and_of_each_batch() {
    let mut port = port(3, Listener::default());
    transmit(&mut port, 9);
    let mut done = vec![packet(99)];
    port.reap(NOW, &mut done);
    port.reap(LATER, &mut done);
    assert_eq!(
        done.len(),
        4,
        "what was there before stays and is not counted"
    );
    assert_eq!(port.ring().limit().queued, [1514; 3]);
    assert_eq!(
        port.ring().limit().completed,
        [3 * 1514],
        "one batch, and none for nothing"
    );
}

#[test]
fn a_mark_is_in_the_bytes_when_the_packet_is_shown_and_on_the_wire() {
    let mut frame = HeapFrame::new();
    frame.bytes_mut()[12..14].copy_from_slice(&[0x08, 0x00]);
    frame.bytes_mut()[14] = 0x45;
    frame.bytes_mut()[15] = 0b10;
    let mut packet = Packet::new(frame, 64).with_tos(0b10, 0);
    assert!(packet.set_ce());

    let mut port = Port::new(
        Fifo::new(),
        Ring::new(Wire::new(Rate::gbit(1), 4), Unlimited::default()),
    );
    let (mut drops, mut done) = (Drops::new(), Vec::new());
    port.enqueue(packet, NOW, &mut drops);
    port.transmit(NOW, 1, &mut drops, |packet| {
        assert_eq!(packet.bytes()[15], 0b11)
    });
    port.reap(LATER, &mut done);
    assert_eq!(done[0].bytes()[15], 0b11);
}
