//! `codel`, and CoDel's parameters and counters for `fq_codel`.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::Codel;
use tautline_qdisc::codel::{CeThreshold, Config, Law, Params, Phase, Stats};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{Options, PACKETS, ParseError, Part, Problem, SIZE, TIME, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "codel"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, target TIME, interval TIME, mtu SIZE, ecn, noecn, ce_threshold TIME, ce_threshold_selector \
         VALUE/MASK, law rfc8289|linux, linux (all as Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "linux" => {
                *self = Self {
                    limit: self.limit,
                    ..Self::linux()
                }
            }
            _ => return self.codel.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("limit", Value::Packets(self.limit.into()))];
        options.extend(self.codel.options());
        options
    }
}

impl<P> Inspect for Codel<P> {
    fn report(&self) -> Report {
        let dropping = matches!(self.state().phase(), Phase::Dropping { .. });
        let mut values = vec![
            ("count", Value::Count(self.state().count().into())),
            ("dropping", Value::Flag(dropping)),
        ];
        values.extend(counters(self.stats()));
        values.push(("drop_overlimit", Value::Count(self.drop_overlimit())));
        Report {
            kind: "codel",
            options: self.config().options(),
            counters: values,
            ..Report::default()
        }
    }
}

impl Part for Params {
    /// Sets `option`, if it is one of these parameters.
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "target" => self.target = words.value(option, units::parse_time, TIME)?,
            "interval" => self.interval = words.value(option, units::parse_time, TIME)?,
            "mtu" => self.mtu = words.value(option, units::parse_size, SIZE)?,
            "law" => self.law = words.value(option, parse_law, "rfc8289 or linux")?,
            "ecn" => self.ecn = true,
            "noecn" => self.ecn = false,
            "ce_threshold" => {
                self.ce_threshold = Some(CeThreshold::all(words.value(
                    option,
                    units::parse_time,
                    TIME,
                )?));
            }
            "ce_threshold_selector" => {
                let (selector, mask) =
                    words.value(option, parse_selector, "VALUE/MASK, e.g. 0x1/0x3")?;
                let missing = || {
                    let problem = Problem::MissingBefore {
                        option: option.text.into(),
                        needed: "ce_threshold",
                    };
                    ParseError {
                        at: option.span(),
                        problem,
                    }
                };
                let threshold = self.ce_threshold.as_mut().ok_or_else(missing)?;
                (threshold.selector, threshold.mask) = (selector, mask);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("target", Value::Time(self.target)),
            ("interval", Value::Time(self.interval)),
            ("mtu", Value::Size(self.mtu)),
            ("law", Value::Word(self.law.to_string())),
            (if self.ecn { "ecn" } else { "noecn" }, Value::Flag(true)),
        ];
        if let Some(CeThreshold {
            delay,
            mask,
            selector,
        }) = self.ce_threshold
        {
            options.push(("ce_threshold", Value::Time(delay)));
            if mask != 0 {
                options.push((
                    "ce_threshold_selector",
                    Value::Word(alloc::format!("{selector:#x}/{mask:#x}")),
                ));
            }
        }
        options
    }
}

fn parse_law(text: &str) -> Option<Law> {
    [Law::Rfc8289, Law::Linux]
        .into_iter()
        .find(|law| law.to_string() == text)
}

fn parse_selector(text: &str) -> Option<(u8, u8)> {
    let (selector, mask) = text.split_once('/')?;
    let byte = |text| u8::try_from(units::parse_integer(text)?).ok();
    Some((byte(selector)?, byte(mask)?))
}

/// The counters in `tc`'s names.
pub(super) fn counters(stats: &Stats) -> [(&'static str, Value); 5] {
    [
        ("ldelay", Value::Time(stats.delay())),
        ("maxpacket", Value::Count(stats.max_packet.get())),
        ("drop_target", Value::Count(stats.dropped)),
        ("ecn_mark", Value::Count(stats.ecn_mark)),
        ("ce_mark", Value::Count(stats.ce_mark)),
    ]
}

impl<P: Item> Change<P> for Codel<P> {
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
