//! 002-F2.8: the later completions are found, the more must be in the ring; the limit learns it.

use std::time::Duration;

use crate::common::ms;
use crate::load::{Edge, Load};
use crate::rings::{Bottleneck, DQL, load, show};
use tautline_base::Rate;
use tautline_bql::{LimitKind, dql};
use tautline_sim::LinkNicConfig;

/// A router whose driver answers interrupts up to `late` late. The limit may fall every 2 ms, not
/// every second: the run is as much shorter than the thesis'.
fn with(late: Duration) -> Edge {
    let limit = LimitKind::Dql(dql::Config {
        hold_time: ms(2),
        ..dql::Config::default()
    });
    let mut load = load(Bottleneck::Router, "fq_codel", 512, limit);
    let way_out = load.egress();
    way_out.nic = way_out.nic.map(|nic| LinkNicConfig { late, ..nic });
    let edge = Load {
        duration: ms(60),
        ..load
    }
    .run();
    show(format_args!("  up to {late:?} late"), &edge);
    edge
}

/// Lateness is random, but a run is not.
#[test]
fn the_same_seed_gives_the_same_lateness() {
    let seeds = |seed| {
        let nic = LinkNicConfig {
            late: ms(1),
            ..LinkNicConfig::default()
        };
        let mut load = load(Bottleneck::Router, "fq_codel", 512, DQL);
        load.egress().nic = Some(nic);
        Load {
            seed,
            flows: 10,
            warm_up: ms(10),
            duration: ms(10),
            ..load
        }
        .run()
        .samples
    };
    assert_eq!(seeds(1), seeds(1));
    assert_ne!(seeds(1), seeds(2));
}

#[test]
fn the_limit_and_its_spread_rise_when_the_processor_is_busy() {
    println!("002-F2.8: fq_codel, ring 512");
    let [idle, busy] = [Duration::ZERO, ms(1)].map(|late| {
        let edge = with(late);
        assert!(edge.carried > Rate::mbit(970), "{}", edge.carried);
        edge.mean(|sample| sample.limit.get() as f64)
    });
    assert!(
        busy.0 > 3.0 * idle.0 && busy.1 > 3.0 * idle.1,
        "busy {busy:?}, idle {idle:?}"
    );
}
