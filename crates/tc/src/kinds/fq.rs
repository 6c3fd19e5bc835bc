//! `fq`.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use tautline_base::{Bytes, Drops, Instant, Item, Rate};
use tautline_qdisc::Fq;
use tautline_qdisc::fq::{BANDS, BeyondHorizon, Config, Priorities, Weighted};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, RATE, SIZE, TIME, Word, Words};

impl<P> Inspect for Fq<P> {
    fn report(&self) -> Report {
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
            let packets = stats.band_packets.map(|packets| packets as u64);
            counters.push(("band_drops", Value::List(stats.band_drops.into())));
            counters.push(("band_pkt_count", Value::List(packets.into())));
        }
        Report {
            kind: "fq",
            options: self.config().options(),
            counters,
            ..Report::default()
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "fq"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, flow_limit PACKETS, buckets N, orphan_mask N|none, bands 3, priomap BAND (16 times), weights N N N, pacing, \
         nopacing, quantum SIZE, initial_quantum SIZE, maxrate RATE|unlimited, low_rate_threshold RATE, refill_delay TIME, hz N, \
         timer_slack TIME, horizon TIME, horizon_drop, horizon_cap, offload_horizon TIME, ce_threshold TIME|none, linux (all as Linux 6.1 does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "flow_limit" => self.flow_limit = words.value(option, units::parse_packets, PACKETS)?,
            "buckets" => self.buckets = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "orphan_mask" => {
                self.orphan_mask =
                    words.value(option, parse_mask, "a whole number, e.g. 1023, or none")?
            }
            "bands" | "priomap" | "weights" => set_bands(self, option, words)?,
            "pacing" => self.pacing = true,
            "nopacing" => self.pacing = false,
            "quantum" => self.quantum = words.value(option, units::parse_size, SIZE)?,
            "initial_quantum" => {
                self.initial_quantum = words.value(option, units::parse_size, SIZE)?
            }
            "maxrate" => self.maxrate = words.value(option, parse_maxrate, RATE)?,
            "low_rate_threshold" => {
                self.low_rate_threshold = words.value(option, units::parse_rate, RATE)?
            }
            "refill_delay" => self.refill_delay = words.value(option, units::parse_time, TIME)?,
            "hz" => self.hz = words.value(option, parse_hz, HZ)?,
            "timer_slack" => self.timer_slack = words.value(option, units::parse_time, TIME)?,
            "horizon" => self.horizon = words.value(option, units::parse_time, TIME)?,
            "horizon_drop" => self.beyond_horizon = BeyondHorizon::Drop,
            "horizon_cap" => self.beyond_horizon = BeyondHorizon::Cap,
            "offload_horizon" => {
                self.offload_horizon = words.value(option, units::parse_time, TIME)?
            }
            "ce_threshold" => self.ce_threshold = words.value(option, parse_ce_threshold, TIME)?,
            "linux" => {
                let Self {
                    priorities,
                    orphan_mask,
                    hz,
                    ..
                } = Self::linux();
                (self.priorities, self.orphan_mask, self.hz) = (priorities, orphan_mask, hz);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mask = self
            .orphan_mask
            .map_or_else(|| Value::word("none"), |mask| Value::Count(mask.into()));
        let mut options = vec![
            ("linux", Value::Flag(self.priorities == Priorities::Control)),
            ("limit", Value::Packets(self.limit.into())),
            ("flow_limit", Value::Packets(self.flow_limit.into())),
            ("buckets", Value::Count(self.buckets.into())),
            ("orphan_mask", mask),
        ];
        if let Priorities::Bands(Weighted { priomap, weights }) = &self.priorities {
            options.push(("bands", Value::Count(BANDS as u64)));
            options.push((
                "priomap",
                Value::List(priomap.iter().copied().map(u64::from).collect()),
            ));
            options.push((
                "weights",
                Value::List(weights.iter().map(|weight| weight.get()).collect()),
            ));
        }
        options.extend([
            ("nopacing", Value::Flag(!self.pacing)),
            ("quantum", Value::Size(self.quantum)),
            ("initial_quantum", Value::Size(self.initial_quantum)),
        ]);
        options.extend(self.maxrate.map(|rate| ("maxrate", Value::Rate(rate))));
        options.extend([
            ("low_rate_threshold", Value::Rate(self.low_rate_threshold)),
            ("refill_delay", Value::Time(self.refill_delay)),
            ("timer_slack", Value::Time(self.timer_slack)),
            ("offload_horizon", Value::Time(self.offload_horizon)),
            ("horizon", Value::Time(self.horizon)),
        ]);
        let beyond = match self.beyond_horizon {
            BeyondHorizon::Drop => "horizon_drop",
            BeyondHorizon::Cap => "horizon_cap",
        };
        options.push((beyond, Value::Flag(true)));
        if self.priorities == Priorities::Control || self.hz.is_some() {
            options.push((
                "hz",
                Value::Count(self.hz.map_or(0, NonZeroU32::get).into()),
            ));
        }
        options.extend(
            self.ce_threshold
                .map(|threshold| ("ce_threshold", Value::Time(threshold))),
        );
        options
    }
}

/// Sets what `option` says of the bands.
fn set_bands(
    config: &mut Config,
    option: Word<'_>,
    words: &mut Words<'_>,
) -> Result<(), ParseError> {
    const BAND: &str = "sixteen bands from 0 to 2";
    const WEIGHT: &str = "three numbers of bytes";
    let three = |text: &str| (text == "3").then_some(());
    let weight = |text: &str| text.parse().ok().map(Bytes::new);
    match option.text {
        "priomap" => {
            for band in &mut weighted(config).priomap {
                *band = words.value(option, |text| text.parse().ok(), BAND)?;
            }
        }
        "weights" => {
            for bytes in &mut weighted(config).weights {
                *bytes = words.value(option, weight, WEIGHT)?;
            }
        }
        _ => words.value(option, three, "3, there is no other number of them")?,
    }
    Ok(())
}

const HZ: &str = "ticks per second, e.g. 250, or 0 for none";

fn parse_hz(text: &str) -> Option<Option<NonZeroU32>> {
    text.parse().ok().map(NonZeroU32::new)
}

fn parse_mask(text: &str) -> Option<Option<u32>> {
    if text == "none" {
        return Some(None);
    }
    units::parse_integer(text)
        .and_then(|mask| u32::try_from(mask).ok())
        .map(Some)
}

fn parse_maxrate(text: &str) -> Option<Option<Rate>> {
    if text == "unlimited" {
        Some(None)
    } else {
        units::parse_rate(text).map(Some)
    }
}

fn parse_ce_threshold(text: &str) -> Option<Option<Duration>> {
    if text == "none" {
        Some(None)
    } else {
        units::parse_time(text).map(Some)
    }
}

/// The bands, for a word that sets them: they replace [`Priorities::Control`].
fn weighted(config: &mut Config) -> &mut Weighted {
    if config.priorities == Priorities::Control {
        config.priorities = Priorities::Bands(Weighted::default());
    }
    match &mut config.priorities {
        Priorities::Bands(weighted) => weighted,
        Priorities::Control => unreachable!("just replaced"),
    }
}

impl<P: Item> Change<P> for Fq<P> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        _now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        reconfigure_leaf(self.config().clone(), target, words, |config| {
            self.reconfigure(config, drops)
        })
    }
}
