//! 002-F5.5: a device that stops when its ring is full and starts again some packets later empties
//! a qdisc in bursts. PIE's estimator of the departure rate then measures how fast a burst is
//! copied, and PIE never drops; queue limits smooth the bursts away. PIE that goes by timestamps
//! needs neither.

use std::time::Duration;

use crate::common::ms;
use crate::load::{Edge, Load};
use crate::rings::{Bottleneck, load, show};
use tautline_base::Rate;
use tautline_bql::LimitKind;
use tautline_sim::LinkNicConfig;

/// 25 flows, 64 KiB each and so not enough to fill the qdisc, through 100 Mbit/s behind
/// `qdisc`, over a nic that wants `restart` free descriptors of 256 before it goes on.
fn with(name: &str, qdisc: &str, restart: usize, limit: LimitKind) -> Edge {
    let mut load = load(Bottleneck::Router, qdisc, 256, limit);
    let way_out = load.egress();
    way_out.rate = Rate::mbit(100);
    way_out.nic = way_out.nic.map(|nic| LinkNicConfig {
        restart,
        copy: Duration::from_nanos(30),
        ..nic
    });
    let edge = Load {
        flows: 25,
        warm_up: ms(3000),
        duration: ms(600),
        echo_every: ms(10),
        ..load
    }
    .run();
    show(format_args!("  {name}"), &edge);
    edge
}

#[test]
fn bursts_blind_the_estimator_of_the_departure_rate() {
    const RATE: &str = "pie limit 1000 linux dq_rate_estimator";
    const STAMP: &str = "pie limit 1000 linux no_dq_rate_estimator";
    println!("002-F5.5: PIE over a ring of 256");
    let bursts = with("rate, bursts of 20", RATE, 20, LimitKind::Unlimited);
    let limited = with("rate, bursts of 20, DQL", RATE, 20, LimitKind::default());
    let stamps = with("timestamps, bursts of 20", STAMP, 20, LimitKind::Unlimited);
    assert!(
        bursts.drops < limited.drops / 4,
        "{} and {} drops",
        bursts.drops,
        limited.drops
    );
    for works in [&limited, &stamps] {
        assert!(
            works.backlog() * 3.0 < bursts.backlog(),
            "{} against {}",
            works.backlog(),
            bursts.backlog()
        );
        assert!(works.carried >= Rate::mbit(95), "{}", works.carried);
    }
}
