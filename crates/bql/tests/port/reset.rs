//! A reset loses no packet and no account.

use std::time::Duration;

use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Item, Rate};
use tautline_bql::{Dql, Limit, Port, Ring};
use tautline_qdisc::{DropReason, Drops};

use crate::wire::{Fifo, Wire, packet};

#[test]
fn a_reset_gives_up_the_ring_and_keeps_the_queue() {
    let mut port = Port::new(
        Fifo::new(),
        Ring::new(Wire::new(Rate::gbit(1), 4), Dql::default()),
    );
    let mut drops = Drops::new();
    (0..3).for_each(|number| port.enqueue(packet(number), Instant::ZERO, &mut drops));
    port.transmit(Instant::ZERO, 64, &mut drops, |_| {});
    assert!(port.ring().stopped(Instant::ZERO).is_some());

    port.reset(&mut drops);
    let lost: Vec<_> = drops
        .drain()
        .map(|(packet, reason)| (packet.flow_hash(), reason))
        .collect();
    assert_eq!(lost, [(0, DropReason::Reset)]);
    assert_eq!(
        (port.ring().in_flight(), port.ring().limit().in_flight()),
        (0, Bytes::ZERO)
    );
    assert_eq!(port.backlog().packets, 2);
    assert!(
        port.ring().stopped(Instant::ZERO).is_none(),
        "the limit counts nothing that is gone"
    );
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue(u64),
    Transmit(usize),
    Reap,
    Wait(u64),
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..20_u64).prop_map(Step::Enqueue),
        4 => (0..20_usize).prop_map(Step::Transmit),
        4 => Just(Step::Reap),
        4 => (0..500_u64).prop_map(Step::Wait),
        1 => Just(Step::Reset),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_waiting_in_flight_done_or_dropped(steps in prop::collection::vec(step(), 1..300)) {
        let mut port = Port::new(Fifo::new(), Ring::new(Wire::new(Rate::mbit(100), 8), Dql::default()));
        let (mut drops, mut done) = (Drops::new(), Vec::new());
        let (mut now, mut born) = (Instant::ZERO, 0);
        let mut ended = Vec::new();
        for step in steps {
            match step {
                Step::Enqueue(count) => {
                    (born..born + count).for_each(|number| port.enqueue(packet(number), now, &mut drops));
                    born += count;
                }
                Step::Transmit(budget) => {
                    port.transmit(now, budget, &mut drops, |_| {});
                }
                Step::Reap => port.reap(now, &mut done),
                Step::Wait(micros) => now += Duration::from_micros(micros),
                Step::Reset => port.reset(&mut drops),
            }
            ended.extend(done.drain(..).map(|packet| packet.flow_hash()));
            ended.extend(drops.drain().map(|(packet, _)| packet.flow_hash()));
            prop_assert_eq!(born as usize, port.backlog().packets + port.ring().in_flight() + ended.len());
            prop_assert_eq!(port.ring().limit().in_flight(), Bytes::new(1514) * port.ring().in_flight() as u64);
            prop_assert_eq!(port.ring().limit().snapshot().overruns, 0);
        }
        prop_assert!(ended.iter().copied().eq(0..ended.len() as u64), "each once, in order");
        // Left alone, everything leaves.
        while !port.backlog().is_empty() || port.ring().in_flight() > 0 {
            port.transmit(now, 64, &mut drops, |_| {});
            now += Duration::from_millis(1);
            port.reap(now, &mut done);
            prop_assert!(!done.is_empty(), "stuck");
            done.clear();
        }
    }
}
