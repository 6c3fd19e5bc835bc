//! The FIFO family against the worked examples of `net/sched/sch_fifo.c`, and a plain model.

use super::*;
use crate::ledger::Ledger;
use crate::{Bfifo, Pfifo, PfifoHeadDrop, bfifo, pfifo, pfifo_head_drop};
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use tautline_testkit::{Probe, ids};

/// Offers packets of `lens`; the ids of those dropped.
fn offer(queue: &mut impl Qdisc<Probe>, lens: &[u32]) -> Vec<u32> {
    let mut drops = Drops::new();
    for (id, &len) in (0..).zip(lens) {
        queue.enqueue(
            Probe::new(id).sized(len),
            Instant::from_millis(id.into()),
            &mut drops,
        );
    }
    assert!(
        drops
            .iter()
            .all(|(_, reason)| *reason == DropReason::Overlimit)
    );
    ids(drops.drain().map(|(packet, _)| packet))
}

fn drain(queue: &mut impl Qdisc<Probe>) -> Vec<u32> {
    ids(core::iter::from_fn(|| {
        queue.dequeue(Instant::ZERO, &mut Drops::new())
    }))
}

/// `net/sched/sch_fifo.c`, worked by hand: limit 2, three packets of 100 bytes.
#[test]
fn the_packet_above_the_limit_is_dropped() {
    let mut fifo = Pfifo::new(pfifo::Config { limit: 2 });
    assert_eq!(offer(&mut fifo, &[100, 100, 100]), [2]);
    assert_eq!(
        fifo.backlog(),
        Backlog {
            packets: 2,
            bytes: Bytes::new(200)
        }
    );
    assert_eq!(drain(&mut fifo), [0, 1]);
    assert_eq!(fifo.ready_at(), None);
}

/// `net/sched/sch_fifo.c`, worked by hand: limit 3000 accepts 1514 + 1486, and not a byte more; an
/// empty packet always fits.
#[test]
fn bytes_are_counted_to_the_last() {
    let mut fifo = Bfifo::new(bfifo::Config {
        limit: Bytes::new(3000),
    });
    assert_eq!(offer(&mut fifo, &[1514, 1486, 1, 0]), [2]);
    assert_eq!(
        fifo.backlog(),
        Backlog {
            packets: 3,
            bytes: Bytes::new(3000)
        }
    );
    assert_eq!(drain(&mut fifo), [0, 1, 3]);
    assert_eq!(bfifo::Config::default().limit, Bytes::new(1_514_000));
}

/// `net/sched/sch_fifo.c`: a full queue drops the oldest; with limit 0 the newcomer.
#[test]
fn the_head_is_dropped_for_a_newcomer() {
    let mut fifo = PfifoHeadDrop::new(pfifo_head_drop::Config { limit: 2 });
    assert_eq!(offer(&mut fifo, &[100, 200, 300, 400]), [0, 1]);
    assert_eq!(
        fifo.backlog(),
        Backlog {
            packets: 2,
            bytes: Bytes::new(700)
        }
    );
    assert_eq!(drain(&mut fifo), [2, 3]);
    let mut none = PfifoHeadDrop::new(pfifo_head_drop::Config { limit: 0 });
    assert_eq!(offer(&mut none, &[100]), [0]);
}

#[test]
fn the_tighter_of_two_limits_holds() {
    for (packets, bytes, held) in [
        (Some(3), Some(10_000), 3),
        (Some(100), Some(499), 4),
        (None, Some(500), 5),
        (Some(0), Some(500), 0),
        (Some(6), None, 6),
        (None, None, 7),
    ] {
        let mut fifo = Fifo::new(Config {
            packets,
            bytes: bytes.map(Bytes::new),
            victim: Victim::Newcomer,
        });
        let dropped = offer(&mut fifo, &[100; 7]);
        assert_eq!((fifo.backlog().packets, dropped.len()), (held, 7 - held));
    }
}

/// A packet longer than the whole queue displaces no other; one that fits displaces as many as
/// needed.
#[test]
fn room_is_made_only_where_it_helps() {
    let config = Config {
        packets: None,
        bytes: Some(Bytes::new(1000)),
        victim: Victim::Oldest,
    };
    let mut fifo = Fifo::new(config);
    assert_eq!(offer(&mut fifo, &[400, 400, 1001, 700]), [2, 0, 1]);
    assert_eq!(drain(&mut fifo), [3]);
}

/// A lowered limit drops nothing by itself; a head-dropping FIFO shrinks with the next packet.
#[test]
fn a_lowered_limit_is_kept_from_the_next_packet_on() {
    let (mut tail, mut head) = (
        Pfifo::new(pfifo::Config { limit: 5 }),
        PfifoHeadDrop::new(pfifo_head_drop::Config { limit: 5 }),
    );
    offer(&mut tail, &[100; 5]);
    offer(&mut head, &[100; 5]);
    tail.reconfigure(pfifo::Config { limit: 2 });
    head.reconfigure(pfifo_head_drop::Config { limit: 2 });
    assert!(tail.backlog().packets == 5 && head.backlog().packets == 5);
    assert_eq!(
        (offer(&mut tail, &[100]), tail.backlog().packets),
        (vec![0], 5)
    );
    assert_eq!(
        (offer(&mut head, &[100]), head.backlog().packets),
        (vec![0, 1, 2, 3], 2)
    );
    assert_eq!((tail.config().limit, head.drop_overlimit()), (2, 4));
}

/// A plain model: a list of lengths.
fn model(config: &Config, held: &mut VecDeque<(u32, u32)>, id: u32, len: u32) {
    let fits = |held: &VecDeque<(u32, u32)>| {
        let bytes: u64 = held.iter().map(|&(_, len)| u64::from(len)).sum();
        config.packets.is_none_or(|most| held.len() < most as usize)
            && config
                .bytes
                .is_none_or(|most| bytes + u64::from(len) <= most.get())
    };
    while config.victim == Victim::Oldest && !fits(held) && fits(&VecDeque::new()) {
        held.pop_front();
    }
    if fits(held) {
        held.push_back((id, len));
    }
}

proptest! {
    /// Under all limits and their changes the FIFO holds the same packets as the model, in order.
    #[test]
    fn a_fifo_is_a_list(
        configs in vec((proptest::option::of(0..6u32), proptest::option::of(0..4000u64), any::<bool>()), 1..4),
        steps in vec((0..3u8, prop_oneof![Just(0u32), Just(1514), 1..2000u32, Just(u32::MAX)]), 0..200),
    ) {
        let configs: Vec<Config> = configs
            .into_iter()
            .map(|(packets, bytes, head)| {
                let victim = if head { Victim::Oldest } else { Victim::Newcomer };
                Config { packets, bytes: bytes.map(Bytes::new), victim }
            })
            .collect();
        let (mut drops, mut held) = (Drops::<Probe>::new(), VecDeque::new());
        let mut fifo = Ledger::new(Fifo::<Probe, Config>::new(configs[0].clone()));
        let mut config = &configs[0];
        for (id, (what, len)) in (0..).zip(steps) {
            match what {
                0 => {
                    let packet = fifo.dequeue(Instant::ZERO, &mut drops).map(|packet| packet.id);
                    prop_assert_eq!(packet, held.pop_front().map(|(id, _)| id));
                }
                _ => {
                    fifo.enqueue(Probe::new(id).sized(len), Instant::ZERO, &mut drops);
                    model(config, &mut held, id, len);
                }
            }
            let bytes: u64 = held.iter().map(|&(_, len)| u64::from(len)).sum();
            prop_assert_eq!(fifo.backlog(), Backlog { packets: held.len(), bytes: Bytes::new(bytes) });
            prop_assert_eq!(fifo.ready_at().is_some(), !held.is_empty());
            if len % 7 == 0 {
                config = &configs[id as usize % configs.len()];
                fifo.inner_mut().reconfigure(config.clone());
            }
        }
        prop_assert_eq!(drain(&mut fifo), held.iter().map(|&(id, _)| id).collect::<Vec<_>>());
    }
}
