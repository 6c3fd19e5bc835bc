//! `pie`, and PIE's parameters for `fq_pie`.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::Pie;
use tautline_qdisc::pie::{Config, Counters, DelaySource, Law, Params, Stats};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, Part, SIZE, TIME, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "pie"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, target TIME, tupdate TIME, alpha SIXTEENTHS, beta SIXTEENTHS, ecn, noecn, bytemode, nobytemode, \
         dq_rate_estimator, no_dq_rate_estimator, dq_threshold SIZE, ecn_prob PERCENT, max_burst TIME, mtu SIZE, law rfc8033|rfc8034|linux, \
         active_above SIZE, hz N, first_update TIME, seed N, linux (all as Linux does), docsis (all as RFC 8034 does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "linux" => {
                self.pie = Params {
                    seed: self.pie.seed,
                    ..Params::linux()
                }
            }
            "docsis" => {
                self.pie = Params {
                    seed: self.pie.seed,
                    ..Self::docsis(self.limit).pie
                }
            }
            _ => return self.pie.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("limit", Value::Packets(self.limit.into()))];
        options.extend(self.pie.options());
        options
    }
}

impl<P> Inspect for Pie<P> {
    fn report(&self) -> Report {
        let Stats { dropped, ecn_mark } = *self.stats();
        let Counters {
            packets_in,
            max_queue,
        } = *self.counters();
        let counters = vec![
            ("prob", Value::Share(self.state().probability())),
            ("delay", Value::Time(self.delay())),
            ("avg_dq_rate", Value::Count(self.departure_rate())),
            ("pkts_in", Value::Count(packets_in)),
            ("overlimit", Value::Count(self.drop_overlimit())),
            ("dropped", Value::Count(dropped + self.drop_overlimit())),
            ("maxq", Value::Count(max_queue as u64)),
            ("ecn_mark", Value::Count(ecn_mark)),
        ];
        Report {
            kind: "pie",
            options: self.config().options(),
            counters,
            ..Report::default()
        }
    }
}

impl Part for Params {
    /// Sets `option`, if it is one of these parameters.
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "target" => self.target = words.value(option, units::parse_time, TIME)?,
            "tupdate" => self.tupdate = words.value(option, units::parse_time, TIME)?,
            "alpha" => self.alpha = words.value(option, parse_weight, WEIGHT)?,
            "beta" => self.beta = words.value(option, parse_weight, WEIGHT)?,
            "max_burst" => self.max_burst = words.value(option, units::parse_time, TIME)?,
            "ecn" => self.ecn = true,
            "noecn" => self.ecn = false,
            "ecn_prob" => {
                self.ecn_prob =
                    words.value(option, |text| text.parse().ok(), "a percentage, e.g. 10")?
            }
            "bytemode" => self.bytemode = true,
            "nobytemode" => self.bytemode = false,
            "dq_rate_estimator" => self.delay = DelaySource::DepartureRate,
            "no_dq_rate_estimator" => self.delay = DelaySource::Timestamp,
            "dq_threshold" => self.dq_threshold = words.value(option, units::parse_size, SIZE)?,
            "mtu" => self.mtu = words.value(option, units::parse_size, SIZE)?,
            "law" => self.law = words.value(option, parse_law, "rfc8033, rfc8034 or linux")?,
            "active_above" => self.active_above = words.value(option, units::parse_size, SIZE)?,
            "hz" => {
                self.hz = words.value(
                    option,
                    parse_hz,
                    "ticks per second, e.g. 250, or 0 for none",
                )?
            }
            "first_update" => self.first_update = words.value(option, units::parse_time, TIME)?,
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let flag = |on: bool, yes, no| (if on { yes } else { no }, Value::Flag(true));
        vec![
            ("target", Value::Time(self.target)),
            ("tupdate", Value::Time(self.tupdate)),
            ("alpha", Value::Share(self.alpha * SIXTEENTHS)),
            ("beta", Value::Share(self.beta * SIXTEENTHS)),
            flag(self.ecn, "ecn", "noecn"),
            flag(self.bytemode, "bytemode", "nobytemode"),
            flag(
                self.delay == DelaySource::DepartureRate,
                "dq_rate_estimator",
                "no_dq_rate_estimator",
            ),
            ("dq_threshold", Value::Size(self.dq_threshold)),
            ("ecn_prob", Value::Count(self.ecn_prob.into())),
            ("max_burst", Value::Time(self.max_burst)),
            ("mtu", Value::Size(self.mtu)),
            ("law", Value::Word(self.law.to_string())),
            ("active_above", Value::Size(self.active_above)),
            (
                "hz",
                Value::Count(self.hz.map_or(0, NonZeroU32::get).into()),
            ),
            ("first_update", Value::Time(self.first_update)),
            ("seed", Value::Count(self.seed)),
        ]
    }
}

fn parse_weight(text: &str) -> Option<f64> {
    Some(text.parse::<f64>().ok()? / SIXTEENTHS)
}

fn parse_law(text: &str) -> Option<Law> {
    [Law::Rfc8033, Law::Rfc8034, Law::Linux]
        .into_iter()
        .find(|law| law.to_string() == text)
}

fn parse_hz(text: &str) -> Option<Option<NonZeroU32>> {
    text.parse().ok().map(NonZeroU32::new)
}

impl<P: Item> Change<P> for Pie<P> {
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

const WEIGHT: &str = "a number of sixteenths per second, e.g. 2";
/// Sixteenths: the unit of `alpha` and `beta` in words.
const SIXTEENTHS: f64 = 16.0;
