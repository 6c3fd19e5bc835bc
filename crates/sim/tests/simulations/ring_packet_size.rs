//! 002-F2.7: a ring is as long as its packets are large; a limit in bytes is not.
//!
//! The thesis sends messages of 700, 1400 and 2800 bytes; here the MTU makes packets of 500, 1000
//! and 2000 bytes, and 100 flows have to do.

use std::time::Duration;

use crate::common::ms;
use crate::load::Load;
use crate::rings::{AF42, Bottleneck, DQL, load, show};
use tautline_bql::LimitKind;

/// The median delay of echo messages with priority among packets of `mtu` bytes.
fn delay(mtu: usize, limit: LimitKind) -> Duration {
    let mut load = load(Bottleneck::Host, "pfifo_fast", 256, limit);
    load.topology
        .hosts
        .iter_mut()
        .for_each(|host| host.nic.mtu = mtu);
    let edge = Load {
        echo_tos: AF42,
        warm_up: ms(25),
        duration: ms(15),
        ..load
    }
    .run();
    show(
        format_args!(
            "  {mtu} bytes, BQL {}",
            if limit == DQL { "on" } else { "off" }
        ),
        &edge,
    );
    edge.delay(50)
}

#[test]
fn latency_grows_with_the_packets_unless_the_ring_is_limited() {
    println!("002-F2.7: ring 256, pfifo_fast, echo in band 0");
    let [small, middle, large] = [500, 1000, 2000].map(|mtu| delay(mtu, LimitKind::Unlimited));
    assert!(
        middle > small * 15 / 10 && large > middle * 15 / 10,
        "{small:?}, {middle:?}, {large:?}"
    );
    let limited = [500, 1000, 2000].map(|mtu| delay(mtu, DQL));
    assert!(
        limited.iter().all(|delay| *delay < ms(1) / 2),
        "{limited:?}"
    );
}
