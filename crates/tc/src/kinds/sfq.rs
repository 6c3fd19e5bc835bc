//! `sfq`.

use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Bytes, Item};
use tautline_qdisc::red::Params;
use tautline_qdisc::sfq::{Config, FlowRed};
use tautline_qdisc::{Sfq, units};

use crate::discipline::{Configured, configured};
use crate::report::{Report, Value};
use crate::words::Options;
use crate::words::parameter::*;

impl<P: Item> Configured for Sfq<P> {
    configured!(Config, |sfq, config, _now, drops| sfq
        .reconfigure(config, drops));

    /// Includes the derived RED parameters, as `tc` does.
    fn shown(&self) -> Vec<(&'static str, Value)> {
        let mut config = self.config().clone();
        if let Some(FlowRed { red, limit, .. }) = &mut config.red {
            *red = red.derived(*limit);
        }
        config.options()
    }

    fn details(&self) -> Report {
        let stats = *self.stats();
        let red = [
            ("prob_mark", Value::Count(stats.prob_mark)),
            ("prob_mark_head", Value::Count(stats.prob_mark_head)),
            ("prob_drop", Value::Count(stats.prob_drop)),
            ("forced_mark", Value::Count(stats.forced_mark)),
            ("forced_mark_head", Value::Count(stats.forced_mark_head)),
            ("forced_drop", Value::Count(stats.forced_drop)),
        ];
        let red = red.into_iter().filter(|_| self.config().red.is_some());
        let others = [
            ("drop_depth", Value::Count(stats.drop_depth)),
            ("drop_overlimit", Value::Count(stats.drop_overlimit)),
            ("perturbed", Value::Count(stats.perturbed)),
        ];
        Report {
            overlimits: stats.overlimits,
            counters: red.chain(others).collect(),
            ..Report::default()
        }
    }
}

impl Parameters for Config {
    const KIND: &'static str = "sfq";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("limit", PACKETS, limit),
        unless_zero!("quantum", SIZE, quantum),
        unless_zero!("depth", DEPTH, depth),
        flag!("headdrop", "taildrop", headdrop),
        unless_zero!("flows", number::<u32>(), flows),
        unless_zero!("divisor", number::<u32>(), divisor),
        custom!(
            "perturb",
            ["SECONDS"],
            |config, option, words| {
                let expected = "a number of seconds, e.g. 10";
                let period = words.value(option, parse_seconds, expected)?;
                config.perturb = (!period.is_zero()).then_some(period);
            },
            |config| Some(("perturb", Value::Time(config.perturb?)))
        ),
        custom!(
            "redflowlimit",
            ["SIZE"],
            |config, option, words| {
                let limit = words.read(option, &SIZE)?;
                let red = config.red.take().unwrap_or_default();
                config.red = (limit > Bytes::ZERO).then_some(FlowRed { limit, ..red });
            },
            |config| Some(("redflowlimit", Value::Size(config.red.as_ref()?.limit)))
        ),
        Parameter::Part {
            usage: FlowRed::usages,
            set: |config, option, words| {
                let mut red = config.red.clone().unwrap_or_default();
                let known = red.set(option, words)?;
                if known {
                    config.red = Some(red);
                }
                Ok(known)
            },
            show: |config| config.red.as_ref().map_or_else(Vec::new, Options::options),
        },
        optional!("seed", INTEGER, seed),
    ];
}

/// Without `limit`, which `sfq` reads itself because it also turns RED off.
impl Parameters for FlowRed {
    const KIND: &'static str = "sfq";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        part!(red: Params),
        flag!("gentle", "nogentle", red.gentle),
        flag!("ecn", "noecn", ecn),
        flag!("harddrop", "noharddrop", harddrop),
    ];
}

/// Shown without a unit, as by `tc`.
const DEPTH: Syntax<u32> = Syntax {
    show: |packets| Value::Count((*packets).into()),
    ..PACKETS
};

/// Parses a time; a bare number is in seconds, in `tc` only for `perturb`.
fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds = units::parse_c_integer(text).map(Duration::from_secs);
    seconds.or_else(|| units::parse_time(text))
}
