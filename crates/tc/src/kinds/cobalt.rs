//! `cobalt`.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::Cobalt;
use tautline_qdisc::cobalt::{Config, Params, Start, Stats};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, Part, TIME, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "cobalt"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, target TIME, interval TIME, mtu_time TIME, increment SHARE, decrement SHARE, blue_threshold TIME, \
         no_blue_threshold, ecn, noecn, start patient|linux, seed N, linux (all as Linux does), ns3 (all as ns-3 does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            "linux" => self.cobalt = Self::linux().cobalt,
            "ns3" => self.cobalt = Self::ns3().cobalt,
            _ => return self.cobalt.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("limit", Value::Packets(self.limit.into()))];
        options.extend(self.cobalt.options());
        options.push(("seed", Value::Count(self.seed)));
        options
    }
}

impl<P> Inspect for Cobalt<P> {
    fn report(&self) -> Report {
        let Stats {
            drop_target,
            drop_blue,
            ecn_mark,
        } = *self.stats();
        let counters = vec![
            ("count", Value::Count(self.state().count().into())),
            ("dropping", Value::Flag(self.state().is_dropping())),
            ("p_drop", Value::Share(self.state().drop_probability())),
            ("drop_target", Value::Count(drop_target)),
            ("drop_blue", Value::Count(drop_blue)),
            ("drop_overlimit", Value::Count(self.drop_overlimit())),
            ("ecn_mark", Value::Count(ecn_mark)),
        ];
        Report {
            kind: "cobalt",
            options: self.config().options(),
            counters,
            ..Report::default()
        }
    }
}

impl Part for Params {
    /// Sets `option`, if it is one of these parameters.
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        let share = "a share, e.g. 0.01 or 1%";
        match option.text {
            "target" => self.target = words.value(option, units::parse_time, TIME)?,
            "interval" => self.interval = words.value(option, units::parse_time, TIME)?,
            "mtu_time" => self.mtu_time = words.value(option, units::parse_time, TIME)?,
            "increment" => self.increment = words.value(option, units::parse_share, share)?,
            "decrement" => self.decrement = words.value(option, units::parse_share, share)?,
            "blue_threshold" => {
                self.blue_threshold = Some(words.value(option, units::parse_time, TIME)?)
            }
            "no_blue_threshold" => self.blue_threshold = None,
            "ecn" => self.ecn = true,
            "noecn" => self.ecn = false,
            "start" => self.start = words.value(option, parse_start, "patient or linux")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let threshold = match self.blue_threshold {
            Some(threshold) => ("blue_threshold", Value::Time(threshold)),
            None => ("no_blue_threshold", Value::Flag(true)),
        };
        vec![
            ("target", Value::Time(self.target)),
            ("interval", Value::Time(self.interval)),
            ("mtu_time", Value::Time(self.mtu_time)),
            ("increment", Value::Share(self.increment)),
            ("decrement", Value::Share(self.decrement)),
            threshold,
            (if self.ecn { "ecn" } else { "noecn" }, Value::Flag(true)),
            ("start", Value::Word(self.start.to_string())),
        ]
    }
}

fn parse_start(text: &str) -> Option<Start> {
    [Start::Patient, Start::Linux]
        .into_iter()
        .find(|start| start.to_string() == text)
}

impl<P: Item> Change<P> for Cobalt<P> {
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
