//! 002-F5.8 and F5.9: a ring that pulls is always full; one that the qdisc pushes into holds
//! what it should.
//!
//! PIE stands above, as in the thesis; 100 Mbit/s, 60 flows and 1.4 s are enough to see it settle.

use std::time::Duration;

use crate::common::ms;
use crate::load::{Edge, Load};
use crate::rings::{Bottleneck, load, show};
use tautline_base::{Bytes, Rate};
use tautline_bql::{LimitKind, push};

/// 15 full frames.
const DESIRED: Bytes = Bytes::new(15 * 1514);

fn with(name: &str, limit: LimitKind) -> Edge {
    let mut load = load(Bottleneck::Router, "pie limit 1000", 500, limit);
    load.egress().rate = Rate::mbit(100);
    let edge = Load {
        flows: 60,
        warm_up: ms(800),
        duration: ms(600),
        echo_every: ms(10),
        ..load
    }
    .run();
    show(format_args!("  {name}"), &edge);
    edge
}

#[test]
fn pushing_keeps_the_ring_at_what_is_desired_and_pie_as_it_was() {
    println!("002-F5.8, F5.9: PIE over a ring of 500 at 100 Mbit/s");
    let pull = with("pulled", LimitKind::Unlimited);
    let push = with(
        "pushed",
        LimitKind::Push(push::Config {
            desired: Some(DESIRED),
            ..push::Config::default()
        }),
    );
    assert!(
        pull.ring_bytes() > 0.95 * 500.0 * 1514.0,
        "{}",
        pull.ring_bytes()
    );
    let ratio = push.ring_bytes() / DESIRED.get() as f64;
    assert!(
        (0.7..1.3).contains(&ratio),
        "{} bytes in flight, {DESIRED} desired",
        push.ring_bytes()
    );
    assert!(
        push.carried >= pull.carried.percent(98),
        "{} against {}",
        push.carried,
        pull.carried
    );
    assert!(
        pull.drops > 0 && push.drops > 0,
        "PIE works above both: {} and {}",
        pull.drops,
        push.drops
    );
    assert!(
        push.delay(50) + Duration::from_millis(40) < pull.delay(50),
        "{:?} against {:?}",
        push.delay(50),
        pull.delay(50)
    );
    println!(
        "  backlogs {:.0} and {:.0} packets, drops {} and {}",
        pull.backlog(),
        push.backlog(),
        pull.drops,
        push.drops
    );
}
