//! 002-F2.6: FQ-CoDel lets a sparse flow pass at once, and cannot help it in the ring.

use crate::rings::{Bottleneck, Table, load};

fn check(place: Bottleneck) {
    let title = format!("002-F2.6, {place:?}: fq_codel");
    let table = Table::of(&title, |ring, limit| load(place, "fq_codel", ring, limit));
    table.keep_throughput();
    table.rings_full_without_and_short_with();
    table.only_the_ring_delays();
}

#[test]
fn behind_a_router_a_sparse_flow_waits_for_the_ring_alone() {
    check(Bottleneck::Router);
}

#[test]
fn at_a_host_a_sparse_flow_waits_for_the_ring_alone() {
    check(Bottleneck::Host);
}
