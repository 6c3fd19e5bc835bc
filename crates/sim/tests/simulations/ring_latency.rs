//! 002-F2.4: an echo message without priority behind many flows in one FIFO, by ring and limit.

use std::time::Duration;

use crate::common::ms;
use crate::load::Load;
use crate::rings::{Bottleneck, Table, load};
use tautline_base::Bytes;
use tautline_stack::TcpConfig;

/// `pfifo` in place of `pfifo_fast`: one queue for all.
fn table(place: Bottleneck) -> Table {
    let title = format!("002-F2.4, {place:?}: one FIFO, echo without priority");
    let table = Table::of(&title, |ring, limit| {
        let load = load(place, "pfifo limit 1000", ring, limit);
        // The window is open: every second segment is acknowledged, as in a long transfer.
        let load = Load {
            tcp: TcpConfig {
                receive_start: Bytes::mib(6),
                ..load.tcp
            },
            ..load
        };
        // Above a router the flows fill, overflow and fill again, a round trip of up to 18 ms at a
        // time.
        if place == Bottleneck::Router {
            Load {
                warm_up: ms(60),
                duration: ms(60),
                echo_every: ms(3),
                ..load
            }
        } else {
            load
        }
    });
    table.keep_throughput();
    table.rings_full_without_and_short_with();
    table
}

/// A full qdisc stays full, so what is in the ring comes on top.
#[test]
fn behind_a_router_latency_grows_with_the_ring_unless_it_is_limited() {
    let table = table(Bottleneck::Router);
    let [short, middle, long] = table.off().map(|edge| edge.delay(50));
    assert!(
        middle > short + ms(1) / 2 && long > middle + ms(1),
        "{short:?}, {middle:?}, {long:?}"
    );
    let [limited_short, limited_long] = table.on().map(|edge| edge.delay(50));
    assert!(
        limited_short.abs_diff(limited_long) < Duration::from_micros(500),
        "{limited_short:?}, {limited_long:?}"
    );
    assert!(
        limited_long < short,
        "{limited_long:?} against {short:?} in the shortest ring"
    );
}

/// TSQ bounds what is below the sockets; ring and limit only move it between qdisc and ring.
#[test]
fn at_a_host_ring_and_limit_only_move_what_waits() {
    let table = table(Bottleneck::Host);
    let all: Vec<Duration> = table
        .off()
        .iter()
        .chain(&table.on())
        .map(|edge| edge.delay(50))
        .collect();
    let (least, most) = (
        all.iter().min().expect("five"),
        all.iter().max().expect("five"),
    );
    assert!(*most < *least * 115 / 100, "{all:?}");
    let [short, middle, long] = table.off().map(|edge| (edge.ring_bytes(), edge.backlog()));
    assert!(
        short.0 < middle.0 && middle.0 < long.0,
        "rings {short:?}, {middle:?}, {long:?}"
    );
    assert!(
        short.1 > middle.1 && middle.1 > long.1,
        "disciplines {short:?}, {middle:?}, {long:?}"
    );
    assert!(
        table.on().iter().all(|edge| edge.backlog() > short.1),
        "with the limit all waits in the discipline"
    );
}
