//! `tbf`.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Bytes, Item, Qdisc, Rate};
use tautline_qdisc::tbf::{Config, Limit, Peak};
use tautline_qdisc::{Classful, Framing, Tbf};

use super::named;
use crate::discipline::{Change, Configured, Inspect, Target, change_children, configured};
use crate::report::{Report, Value};
use crate::words::parameter::*;
use crate::words::{Options, Words};

impl Parameters for Config {
    const KIND: &'static str = "tbf";
    const SHORTENED: &'static [&'static str] = &[
        "limit",
        "latency",
        "burst",
        "peakrate",
        "overhead",
        "linklayer",
    ];

    /// Without a peak rate, `mtu` has no effect (`tbf_parse_opt` in iproute2).
    fn complete(&mut self) {
        self.peak = self.peak.filter(|peak| peak.rate > Rate::ZERO);
    }

    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("rate", RATE, rate),
        value!("burst" | "buffer" | "maxburst", BURST, burst),
        custom!(
            "peakrate",
            ["RATE"],
            |config, option, words| peak_mut(config).rate = words.read(option, &RATE)?,
            |config| Some(("peakrate", Value::Rate(config.peak.as_ref()?.rate)))
        ),
        custom!(
            "mtu" | "minburst",
            ["SIZE"],
            |config, option, words| peak_mut(config).mtu = words.read(option, &BURST)?,
            |config| Some(("minburst", Value::Size(config.peak.as_ref()?.mtu)))
        ),
        custom!(
            "limit",
            ["SIZE"],
            |config, option, words| config.limit = Limit::Bytes(words.read(option, &SIZE)?),
            |config| match config.limit {
                Limit::Bytes(bytes) => Some(("limit", Value::Size(bytes))),
                Limit::Latency(_) => None,
            }
        ),
        custom!(
            "latency" | "lat",
            ["TIME"],
            |config, option, words| config.limit = Limit::Latency(words.read(option, &TIME)?),
            |config| match config.limit {
                Limit::Bytes(_) => None,
                Limit::Latency(latency) => Some(("lat", Value::Time(latency))),
            }
        ),
        part!(framing: Framing),
        value!("frame", SIZE, frame),
        preset!("linux", "(all as Linux does)", |config| config.frame =
            Self::linux().frame),
    ];
}

/// How long the packets of a queue of `limit` bytes take that find their bucket full, in whole
/// microseconds (`tbf_print_opt` in iproute2).
fn latency(config: &Config, limit: Bytes) -> Duration {
    let after = |rate: Rate, bucket: Bytes| {
        let bytes = limit.saturating_sub(bucket).get();
        let micros = u128::from(bytes) * 1_000_000 / u128::from(rate.as_bytes_per_sec()).max(1);
        Duration::from_micros(micros.try_into().unwrap_or(u64::MAX))
    };
    let peak = config.peak.map(|peak| after(peak.rate, peak.mtu));
    after(config.rate, config.burst).max(peak.unwrap_or_default())
}

fn peak_mut(config: &mut Config) -> &mut Peak {
    config.peak.get_or_insert(Peak {
        rate: Rate::ZERO,
        mtu: Bytes::ZERO,
    })
}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P>> Configured for Tbf<P, Q> {
    configured!(Config, |tbf, config, now, drops| {
        tbf.reconfigure(config)?;
        if tbf.child().report().kind == "bfifo" {
            let limit = format!("limit {}", tbf.config().limit().get());
            for class in tbf.leaves() {
                // A FIFO takes any limit.
                let _ = tbf.with_child(class, drops, |child, drops| {
                    child.change(Target::Root, &mut Words::new(&limit), now, drops)
                });
            }
        }
        Ok(())
    });

    /// With the time that a full queue lasts, which `tc` shows in place of the limit.
    fn shown(&self) -> Vec<(&'static str, Value)> {
        let config = self.config();
        let mut shown = config.options();
        if let Limit::Bytes(limit) = config.limit {
            shown.push(("lat", Value::Time(latency(config, limit))));
        }
        shown
    }

    fn details(&self) -> Report {
        let stats = self.stats();
        let (tokens, peak_tokens) = self.tokens();
        let mut counters = vec![
            ("drop_too_long", Value::Count(stats.too_long)),
            ("split", Value::Count(stats.split)),
            ("tokens", Value::Size(tokens)),
        ];
        counters.extend(peak_tokens.map(|tokens| ("peak_tokens", Value::Size(tokens))));
        Report {
            id: named(self.handle()),
            overlimits: stats.overlimits,
            counters,
            children: vec![self.child().report()],
            ..Report::default()
        }
    }

    change_children!();
}
