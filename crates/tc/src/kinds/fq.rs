//! `fq`.

use alloc::vec;

use tautline_base::{Bytes, Item};
use tautline_qdisc::Fq;
use tautline_qdisc::fq::{BANDS, BeyondHorizon, Config, Priorities, Weighted};
use tautline_qdisc::units;

use crate::discipline::{Configured, configured};
use crate::report::{Report, Value};
use crate::words::Expected;
use crate::words::parameter::*;

impl<P: Item> Configured for Fq<P> {
    configured!(Config, |fq, config, _now, drops| fq
        .reconfigure(config, drops));

    fn details(&self) -> Report {
        let count = |number: usize| Value::Count(number as u64);
        let stats = self.stats();
        let bands = matches!(self.config().priorities, Priorities::Bands(_));
        let passed_by = if bands { "fastpath" } else { "highprio" };
        let mut counters = vec![
            ("flows", count(stats.flows)),
            ("inactive", count(stats.inactive)),
            ("throttled_flows", count(stats.throttled_flows)),
            ("next_packet_delay", Value::Time(stats.next_packet_delay)),
            ("gc", Value::Count(stats.forgotten)),
            (passed_by, Value::Count(stats.internal)),
            ("throttled", Value::Count(stats.throttled)),
            ("latency", Value::Time(stats.latency)),
            ("ce_mark", Value::Count(stats.ce_mark)),
            ("flows_plimit", Value::Count(stats.flows_plimit)),
            ("pkts_too_long", Value::Count(stats.pkts_too_long)),
            ("horizon_drops", Value::Count(stats.horizon_drops)),
            ("horizon_caps", Value::Count(stats.horizon_caps)),
        ];
        if bands {
            // Since 6.7 Linux shows it, too, although nothing counts there.
            counters.push(("highprio", Value::Count(0)));
            let packets = stats.band_packets.map(|packets| packets as u64);
            counters.push(("band_drops", Value::List(stats.band_drops.into())));
            counters.push(("band_pkt_count", Value::List(packets.into())));
        }
        Report {
            counters,
            ..Report::default()
        }
    }
}

impl Parameters for Config {
    const KIND: &'static str = "fq";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        custom!(
            "linux",
            ["(all as Linux 6.1 does)"],
            |config, _option, _words| {
                let linux = Self::linux();
                (config.priorities, config.hz) = (linux.priorities, linux.hz);
                config.orphan_mask = linux.orphan_mask;
            },
            |config| {
                let bandless = config.priorities == Priorities::Control;
                Some(("linux", Value::Flag(bandless)))
            }
        ),
        value!("limit", PACKETS, limit),
        value!("flow_limit", PACKETS, flow_limit),
        unless_zero!("buckets", number::<u32>(), buckets),
        or_word!("orphan_mask", MASK, orphan_mask, "none"),
        custom!(
            "bands",
            ["3"],
            |_config, option, words| {
                let three = |text: &str| (text == "3").then_some(());
                words.value(option, three, "3, there is no other number of them")?
            },
            |config| weighted(config).map(|_| ("bands", Value::Count(BANDS as u64)))
        ),
        custom!(
            "priomap",
            ["BAND (16 times)"],
            |config, option, words| {
                let mut bands = weighted(config).cloned().unwrap_or_default();
                for band in &mut bands.priomap {
                    let expected = "sixteen bands from 0 to 2";
                    *band = words.value(option, |text| text.parse().ok(), expected)?;
                }
                config.priorities = Priorities::Bands(bands);
            },
            |config| {
                let bands = weighted(config)?.priomap.iter().map(|&band| band.into());
                Some(("priomap", Value::List(bands.collect())))
            }
        ),
        custom!(
            "weights",
            ["N N N"],
            |config, option, words| {
                let mut bands = weighted(config).cloned().unwrap_or_default();
                for weight in &mut bands.weights {
                    let bytes = |text: &str| text.parse().ok().map(Bytes::new);
                    *weight = words.value(option, bytes, "three numbers of bytes")?;
                }
                config.priorities = Priorities::Bands(bands);
            },
            |config| {
                let weights = weighted(config)?.weights.iter().map(|weight| weight.get());
                Some(("weights", Value::List(weights.collect())))
            }
        ),
        custom!(
            "pacing" | "nopacing",
            [],
            |config, option, _words| config.pacing = option.text == "pacing",
            |config| Some(("nopacing", Value::Flag(!config.pacing)))
        ),
        value!("quantum", QUANTUM, quantum),
        value!("initial_quantum", QUANTUM, initial_quantum),
        optional!("maxrate", RATE, maxrate, "unlimited"),
        // It has had no effect for long; `tc` still takes it.
        custom!(
            "defrate",
            ["RATE"],
            |_config, option, words| {
                words.read(option, &RATE)?;
            },
            |_| None
        ),
        value!("low_rate_threshold", RATE, low_rate_threshold),
        value!("refill_delay", TIME, refill_delay),
        value!("timer_slack", TIME64, timer_slack),
        value!("offload_horizon", TIME, offload_horizon),
        value!("horizon", TIME, horizon),
        switch!(
            beyond_horizon,
            "horizon_drop" => BeyondHorizon::Drop, "horizon_cap" => BeyondHorizon::Cap,
        ),
        custom!(
            "hz",
            ["N"],
            |config, option, words| config.hz = words.read(option, &HZ)?,
            |config| {
                let shown = weighted(config).is_none() || config.hz.is_some();
                shown.then(|| ("hz", (HZ.show)(&config.hz)))
            }
        ),
        optional!("ce_threshold", TIME, ce_threshold, "none"),
    ];
}

const MASK: Syntax<u32> = Syntax {
    expected: Expected::Text("a whole number, e.g. 1023, or none"),
    parse: |text| u32::try_from(units::parse_c_integer(text)?).ok(),
    ..number()
};

/// The bands; words that set them replace [`Priorities::Control`].
fn weighted(config: &Config) -> Option<&Weighted> {
    match &config.priorities {
        Priorities::Bands(weighted) => Some(weighted),
        Priorities::Control => None,
    }
}
