//! `sfq`.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Bytes, Drops, Instant, Item};
use tautline_qdisc::Sfq;
use tautline_qdisc::sfq::{Config, FlowRed};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, Part, SIZE, Word, Words};

impl<P> Inspect for Sfq<P> {
    fn report(&self) -> Report {
        let stats = *self.stats();
        let counters = [
            ("prob_mark", stats.prob_mark),
            ("prob_mark_head", stats.prob_mark_head),
            ("prob_drop", stats.prob_drop),
            ("forced_mark", stats.forced_mark),
            ("forced_mark_head", stats.forced_mark_head),
            ("forced_drop", stats.forced_drop),
            ("drop_depth", stats.drop_depth),
            ("drop_overlimit", stats.drop_overlimit),
            ("perturbed", stats.perturbed),
        ];
        Report {
            kind: "sfq",
            options: shown(self.config()),
            overlimits: stats.overlimits,
            counters: counters
                .map(|(name, count)| (name, Value::Count(count)))
                .into(),
            ..Report::default()
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "sfq"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, quantum SIZE, depth PACKETS, headdrop, taildrop, flows N, divisor N, perturb SECONDS, redflowlimit SIZE, \
         min SIZE, max SIZE, avpkt SIZE, burst N, probability SHARE, gentle, nogentle, ecn, noecn, harddrop, noharddrop, seed N"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "quantum" => self.quantum = words.value(option, units::parse_size, SIZE)?,
            "depth" => self.depth = words.value(option, units::parse_packets, PACKETS)?,
            "headdrop" => self.headdrop = true,
            "taildrop" => self.headdrop = false,
            "flows" => self.flows = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "divisor" => self.divisor = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "perturb" => {
                let period = words.value(option, parse_seconds, "a number of seconds, e.g. 10")?;
                self.perturb = (!period.is_zero()).then_some(period);
            }
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            _ => return set_red(self, option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("limit", Value::Packets(self.limit.into())),
            ("quantum", Value::Size(self.quantum)),
            ("depth", Value::Count(self.depth.into())),
            ("headdrop", Value::Flag(self.headdrop)),
            ("flows", Value::Count(self.flows.into())),
            ("divisor", Value::Count(self.divisor.into())),
        ];
        options.extend(self.perturb.map(|period| ("perturb", Value::Time(period))));
        if let Some(FlowRed {
            limit,
            red,
            ecn,
            harddrop,
        }) = &self.red
        {
            options.push(("redflowlimit", Value::Size(*limit)));
            options.extend(
                red.options()
                    .into_iter()
                    .filter(|(name, _)| !matches!(*name, "bandwidth" | "idle")),
            );
            options.extend([
                ("ecn", Value::Flag(*ecn)),
                ("harddrop", Value::Flag(*harddrop)),
            ]);
        }
        options.push(("seed", Value::Count(self.seed)));
        options
    }
}

/// Sets `option`, if it is one of RED's.
fn set_red(
    config: &mut Config,
    option: Word<'_>,
    words: &mut Words<'_>,
) -> Result<bool, ParseError> {
    if option.text == "redflowlimit" {
        let limit = words.value(option, units::parse_size, SIZE)?;
        let red = config.red.take().unwrap_or_default();
        config.red = (limit > Bytes::ZERO).then_some(FlowRed { limit, ..red });
        return Ok(true);
    }
    let mut changed = config.red.clone().unwrap_or_default();
    match option.text {
        "ecn" => changed.ecn = true,
        "noecn" => changed.ecn = false,
        "harddrop" => changed.harddrop = true,
        "noharddrop" => changed.harddrop = false,
        "min" | "max" | "avpkt" | "burst" | "probability" | "gentle" | "nogentle" => {
            changed.red.set(option, words)?;
        }
        _ => return Ok(false),
    }
    config.red = Some(changed);
    Ok(true)
}

/// The options with everything derived written out, as `tc` shows them.
fn shown(config: &Config) -> Vec<(&'static str, Value)> {
    let red = config.red.as_ref().map(|red| FlowRed {
        red: red.red.derived(red.limit),
        ..red.clone()
    });
    Config {
        red,
        ..config.clone()
    }
    .options()
}

/// Reads a time; a bare number counts seconds, as `tc` has it here alone.
fn parse_seconds(text: &str) -> Option<Duration> {
    text.parse()
        .map(Duration::from_secs)
        .ok()
        .or_else(|| units::parse_time(text))
}

impl<P: Item> Change<P> for Sfq<P> {
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
