//! 002-F2.5: an echo message with priority (AF42) overtakes everything in `pfifo_fast`, and nothing
//! in the ring.

use crate::load::Load;
use crate::rings::{AF42, Bottleneck, Table, load};

fn check(place: Bottleneck) {
    let title = format!("002-F2.5, {place:?}: pfifo_fast, echo in band 0");
    let table = Table::of(&title, |ring, limit| Load {
        echo_tos: AF42,
        ..load(place, "pfifo_fast", ring, limit)
    });
    table.keep_throughput();
    table.rings_full_without_and_short_with();
    table.only_the_ring_delays();
}

#[test]
fn behind_a_router_priority_ends_at_the_ring() {
    check(Bottleneck::Router);
}

#[test]
fn at_a_host_priority_ends_at_the_ring() {
    check(Bottleneck::Host);
}
