//! A qdisc over your own packet type: `cargo run --example own_packet`.
//!
//! All a queue needs to know of a packet is [`Item`]: its length and where its time of arrival is
//! kept. Everything else has a default.

use tautline_base::{Bytes, Instant, Item};
use tautline_qdisc::{Drops, FqCodel, Qdisc, fq_codel};
use tautline_rt::Clock;

/// An entry of a VPN's queue: an encrypted datagram and its flow.
struct Datagram {
    payload: Vec<u8>,
    flow: u64,
    enqueued: Instant,
}

impl Item for Datagram {
    fn len(&self) -> Bytes {
        Bytes::new(self.payload.len() as u64)
    }

    fn enqueued(&self) -> Instant {
        self.enqueued
    }

    fn set_enqueued(&mut self, now: Instant) {
        self.enqueued = now;
    }

    fn flow_hash(&self) -> u64 {
        self.flow
    }
}

fn main() -> Result<(), tautline_qdisc::ConfigError> {
    let mut queue = FqCodel::new(fq_codel::Config::default())?;
    // The time is yours: nanoseconds since whatever moment; in a test any numbers you like.
    let (clock, mut drops) = (Clock::start(), Drops::new());
    let now = || clock.now();
    for flow in [1, 1, 1, 2] {
        queue.enqueue(
            Datagram {
                payload: vec![0; 1200],
                flow,
                enqueued: Instant::ZERO,
            },
            now(),
            &mut drops,
        );
    }
    while let Some(datagram) = queue.dequeue(now(), &mut drops) {
        println!(
            "send {} bytes of flow {} after {:?}",
            datagram.payload.len(),
            datagram.flow,
            now() - datagram.enqueued
        );
    }
    println!("{} dropped", drops.drain().count());
    Ok(())
}
