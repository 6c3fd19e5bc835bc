//! 002-F2.3: with coalesced completions a short ring runs dry before its packets are given back.

use crate::common::ms;
use crate::rings::{Bottleneck, load, show};
use tautline_base::Rate;
use tautline_bql::LimitKind;
use tautline_sim::Coalesce;

/// An interrupt 1 ms after the first completion. The NICs of paper 002 waited for 200 µs, and one
/// of its TSO packets took up to sixteen descriptors; ours take one.
fn goodput(ring: usize) -> Rate {
    let coalesce = Coalesce {
        frames: u32::MAX,
        time: ms(1),
    };
    let mut load = load(Bottleneck::Host, "pfifo_fast", ring, LimitKind::Unlimited);
    load.topology.hosts[0].nic.coalesce = coalesce;
    let edge = load.run();
    show(format_args!("  ring {ring}"), &edge);
    edge.goodput
}

#[test]
fn a_ring_shorter_than_the_interrupts_are_apart_loses_throughput() {
    println!("002-F2.3: interrupts 1 ms apart, 81 full frames at 1 Gbit/s");
    let [short, middle, long] = [64, 96, 128].map(goodput);
    // The ring's 64 packets take 0.79 ms of each 1.01.
    assert!(
        short < long.percent(85) && short > long.percent(70),
        "{short}, {middle}, {long}"
    );
    assert!(middle >= long.percent(98), "{middle}, {long}");
    assert!(long > Rate::mbit(900), "{long}");
}
