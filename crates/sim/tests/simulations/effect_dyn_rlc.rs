//! DynRLC (experimental) keeps what a slow bearer stores at the target's worth of its rate; without
//! it the buffer is as long as it is.

use std::time::Duration;

use crate::common::ms;
use crate::load::{Edge, Load};
use crate::rings::{Bottleneck, load, show};
use tautline_base::Rate;
use tautline_bql::LimitKind;
use tautline_sim::{LinkNicConfig, RingLimit, dyn_rlc};

/// A bearer of `rate` behind PIE, with a buffer of 500 KB.
fn with(name: &str, rate: Rate, limit: RingLimit) -> Edge {
    let mut load = load(
        Bottleneck::Router,
        "pie limit 1000",
        330,
        LimitKind::Unlimited,
    );
    let way_out = load.egress();
    way_out.rate = rate;
    way_out.nic = way_out.nic.map(|nic| LinkNicConfig { limit, ..nic });
    let edge = Load {
        flows: 10,
        warm_up: ms(1200),
        duration: ms(400),
        echo_every: ms(10),
        ..load
    }
    .run();
    show(format_args!("  {rate} {name}"), &edge);
    edge
}

fn to(target: Duration) -> RingLimit {
    dyn_rlc::Config {
        target,
        ..dyn_rlc::Config::default()
    }
    .into()
}

#[test]
fn the_target_is_kept_at_any_rate_and_without_it_the_buffer_is_full() {
    println!("DynRLC over a bearer");
    for rate in [Rate::mbit(20), Rate::mbit(50)] {
        let off = with("no limit", rate, LimitKind::Unlimited.into());
        let dql = with("DQL", rate, RingLimit::default());
        let stored = |edge: &Edge| {
            Duration::from_secs_f64(edge.ring_bytes() / rate.as_bytes_per_sec() as f64)
        };
        assert!(stored(&off) > ms(70), "{:?}", stored(&off));
        for target in [ms(20), ms(40)] {
            let on = with(&format!("target {target:?}"), rate, to(target));
            let ratio = stored(&on).as_secs_f64() / target.as_secs_f64();
            assert!(
                (0.7..1.3).contains(&ratio),
                "{:?} for {target:?}",
                stored(&on)
            );
            assert!(
                on.carried >= off.carried.percent(98),
                "{} against {}",
                on.carried,
                off.carried
            );
            assert!(
                stored(&dql) < stored(&on),
                "dynamic queue limits store less, without a target: {:?}",
                stored(&dql)
            );
        }
        assert!(
            dql.carried >= off.carried.percent(98),
            "{} against {}",
            dql.carried,
            off.carried
        );
    }
}
