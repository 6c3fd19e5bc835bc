//! The effect of the limit: the same work with it and without.

use std::time::Duration;

use tautline_base::{Bytes, Instant, Item, Rate};
use tautline_bql::{Dql, Limit, Port, Ring, Unlimited, dql};
use tautline_qdisc::Drops;

use crate::wire::{Fifo, Wire, packet};

const RATE: Rate = Rate::gbit(1);
const INTERRUPT_EVERY: Duration = Duration::from_micros(64);
const RING: usize = 256;
const HOLD_TIME: Duration = Duration::from_millis(100);
/// Long enough for the cold start and the first shrinking, which takes a hold time.
const WARM_UP: Instant = Instant::from_millis(300);
const END: Instant = Instant::from_millis(800);

#[derive(Debug)]
struct Outcome {
    delivered: Bytes,
    mean_in_ring: f64,
    limit: Bytes,
}

/// A saturated port; completions come in batches, one per interrupt. Measured from `WARM_UP` to
/// `END`.
fn saturate(limit: impl Limit) -> Outcome {
    let mut port = Port::new(Fifo::new(), Ring::new(Wire::new(RATE, RING), limit));
    let (mut drops, mut done) = (Drops::new(), Vec::new());
    let (mut delivered, mut in_ring, mut looks) = (Bytes::ZERO, 0, 0_u32);
    let mut now = Instant::ZERO;
    while now < END {
        port.reap(now, &mut done);
        let completed: Bytes = done.drain(..).map(|packet| packet.len()).sum();
        while port.backlog().packets < RING {
            port.enqueue(packet(0), now, &mut drops);
        }
        while port.transmit(now, 64, &mut drops, |_| {}) == 64 {}
        if now >= WARM_UP {
            delivered += completed;
            in_ring += port.ring().in_flight();
            looks += 1;
        }
        now += INTERRUPT_EVERY;
    }
    Outcome {
        delivered,
        mean_in_ring: in_ring as f64 / f64::from(looks),
        limit: port.ring().limit().limit(),
    }
}

#[test]
fn dql_empties_the_ring_and_keeps_the_link_busy() {
    let config = dql::Config {
        hold_time: HOLD_TIME,
        ..dql::Config::default()
    };
    let with = saturate(Dql::new(config).expect("defaults are valid"));
    let without = saturate(Unlimited::default());
    assert_eq!(
        without.mean_in_ring, RING as f64,
        "the ring is all there is to fill"
    );
    // Two interrupts' worth: 16 000 bytes, 11 frames.
    assert!(with.mean_in_ring < 16.0, "{with:?}");
    assert!(
        with.limit >= RATE * INTERRUPT_EVERY
            && with.limit <= RATE * INTERRUPT_EVERY * 2 + Bytes::new(1514),
        "{with:?}"
    );
    let line = RATE * (END - WARM_UP);
    for outcome in [with, without] {
        assert!(
            outcome.delivered >= line - line / 1000,
            "{outcome:?} of {line}"
        );
    }
}
