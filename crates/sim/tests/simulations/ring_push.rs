//! 002-F5.8 and F5.9: a ring that pulls is always full; one that the discipline pushes into holds what it should.
//!
//! PIE stands above, as in the thesis; 100 Mbit/s, 60 flows and 1.4 s are enough to see it settle.

use std::time::Duration;

use crate::common::ms;
use crate::rings::{Place, backlog, load, ring_bytes, run, show};
use tautline_base::{Bytes, Rate};
use tautline_bql::{LimitKind, push};
use tautline_sim::{Edge, LinkConfig, Load};

/// 15 full frames.
const DESIRED: Bytes = Bytes::new(15 * 1514);

fn with(name: &str, limit: LimitKind) -> Edge {
    let load = load(Place::Router, "pie limit 1000", 500, limit);
    let [there, back] = load.links;
    let links = [LinkConfig { rate: Rate::mbit(100), ..there }, back];
    let edge = run(&Load { flows: 60, links, warm_up: ms(800), duration: ms(600), echo_every: ms(10), ..load });
    show(format_args!("  {name}"), &edge);
    edge
}

#[test]
fn pushing_keeps_the_ring_at_what_is_desired_and_pie_as_it_was() {
    println!("002-F5.8, F5.9: PIE over a ring of 500 at 100 Mbit/s");
    let pull = with("pulled", LimitKind::Unlimited);
    let push = with("pushed", LimitKind::Push(push::Config { desired: Some(DESIRED), ..push::Config::default() }));
    assert!(ring_bytes(&pull) > 0.95 * 500.0 * 1514.0, "{}", ring_bytes(&pull));
    let ratio = ring_bytes(&push) / DESIRED.get() as f64;
    assert!((0.7..1.3).contains(&ratio), "{} bytes in flight, {DESIRED} desired", ring_bytes(&push));
    assert!(push.carried >= pull.carried.percent(98), "{} against {}", push.carried, pull.carried);
    assert!(pull.drops > 0 && push.drops > 0, "PIE works above both: {} and {}", pull.drops, push.drops);
    assert!(
        push.delay(50) + Duration::from_millis(40) < pull.delay(50),
        "{:?} against {:?}",
        push.delay(50),
        pull.delay(50)
    );
    println!("  backlogs {:.0} and {:.0} packets, drops {} and {}", backlog(&pull), backlog(&push), pull.drops, push.drops);
}
