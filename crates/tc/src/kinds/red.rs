//! `red`, and RED's parameters for `sfq`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Item, Qdisc};
use tautline_qdisc::red::{Config, IdleDecay, Params};
use tautline_qdisc::{Classful, Red};

use super::named;
use crate::discipline::{Change, Configured, Inspect, change_children, configured};
use crate::report::{Report, Value};
use crate::words::Options;
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "red";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("limit", SIZE, limit),
        part!(red: Params),
        unless_zero!("bandwidth", RATE, red.bandwidth),
        flag!("gentle", "nogentle", red.gentle),
        choice!(
            "idle", red.idle,
            "exact" => IdleDecay::Exact, "linux" => IdleDecay::Linux, "never" => IdleDecay::Never,
        ),
        custom!(
            "adaptive" | "adaptative" | "noadaptive",
            [],
            |config, option, _words| config.adaptive = option.text != "noadaptive",
            |config| Some(("adaptive", Value::Flag(config.adaptive)))
        ),
        flag!("ecn", "noecn", ecn),
        flag!("harddrop", "noharddrop", harddrop),
        flag!("nodrop", "drop", nodrop),
        value!("seed", INTEGER, seed),
        preset!("linux", "(all as Linux does)", |config| {
            (config.red.idle, config.red.gentle) = (IdleDecay::Linux, false);
        }),
    ];
}

/// Shared with `sfq`.
impl Parameters for Params {
    const KIND: &'static str = "red";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        computed!("min", SIZE, min),
        computed!("max", SIZE, max),
        value!("avpkt", SIZE, avpkt),
        computed!("burst", number::<u32>(), burst),
        value!("probability", SHARE, probability),
    ];
}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P>> Configured for Red<P, Q> {
    configured!(Config, |red, config, _now, _drops| red.reconfigure(config));

    /// Includes the derived parameters, as `tc` does.
    fn shown(&self) -> Vec<(&'static str, Value)> {
        let config = self.config();
        let red = config.red.derived(config.limit);
        Config {
            red,
            ..config.clone()
        }
        .options()
    }

    fn details(&self) -> Report {
        let stats = self.stats();
        let (marked, early) = (
            stats.prob_mark + stats.forced_mark,
            stats.prob_drop + stats.forced_drop,
        );
        Report {
            id: named(self.handle()),
            overlimits: stats.overlimits,
            counters: vec![
                ("marked", Value::Count(marked)),
                ("early", Value::Count(early)),
                ("pdrop", Value::Count(stats.pdrop)),
                ("other", Value::Count(0)),
                ("average", Value::Size(self.average())),
                ("max_p", Value::Share(self.max_probability())),
            ],
            children: vec![self.child().report()],
            ..Report::default()
        }
    }

    change_children!();
}
