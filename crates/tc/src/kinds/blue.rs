//! `blue`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::Blue;
use tautline_qdisc::blue::{Config, Stats};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, TIME, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "blue"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, threshold PACKETS|none, d1 SHARE, d2 SHARE, freeze_time TIME, ecn, noecn, seed N"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        const STEP: &str = "a share of one, e.g. 0.02";
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "threshold" => {
                let parse = |text: &str| {
                    if text == "none" {
                        Some(None)
                    } else {
                        units::parse_packets(text).map(Some)
                    }
                };
                self.threshold =
                    words.value(option, parse, "a number of packets, e.g. 200, or none")?;
            }
            "d1" => self.d1 = words.value(option, units::parse_share, STEP)?,
            "d2" => self.d2 = words.value(option, units::parse_share, STEP)?,
            "freeze_time" => self.freeze_time = words.value(option, units::parse_time, TIME)?,
            "ecn" => self.ecn = true,
            "noecn" => self.ecn = false,
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("limit", Value::Packets(self.limit.into()))];
        options.extend(
            self.threshold
                .map(|packets| ("threshold", Value::Packets(packets.into()))),
        );
        options.extend([
            ("d1", Value::Share(self.d1)),
            ("d2", Value::Share(self.d2)),
            ("freeze_time", Value::Time(self.freeze_time)),
            ("ecn", Value::Flag(self.ecn)),
            ("seed", Value::Count(self.seed)),
        ]);
        options
    }
}

impl<P> Inspect for Blue<P> {
    fn report(&self) -> Report {
        let Stats { marked, early } = *self.stats();
        Report {
            kind: "blue",
            options: self.config().options(),
            counters: vec![
                ("probability", Value::Share(self.aqm().probability())),
                ("marked", Value::Count(marked)),
                ("early", Value::Count(early)),
                ("drop_overlimit", Value::Count(self.drop_overlimit())),
            ],
            ..Report::default()
        }
    }
}

impl<P: Item> Change<P> for Blue<P> {
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
