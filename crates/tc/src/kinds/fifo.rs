//! `fifo`, and the reports and changes of every FIFO.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::fifo::{Bound, Config, Fifo, Victim};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{Options, ParseError, Word, Words};

impl<P, B: Bound + Options> Inspect for Fifo<P, B> {
    fn report(&self) -> Report {
        Report {
            kind: self.config().kind(),
            options: self.config().options(),
            counters: vec![("drop_overlimit", Value::Count(self.drop_overlimit()))],
            ..Report::default()
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "fifo"
    }

    fn help(&self) -> &'static str {
        "packets N|unlimited, bytes SIZE|unlimited, drop head|tail"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "packets" => {
                let packets = |text: &str| unless_unlimited(text, units::parse_packets);
                self.packets = words.value(
                    option,
                    packets,
                    "a number of packets, e.g. 1000, or unlimited",
                )?;
            }
            "bytes" => {
                let bytes = |text: &str| unless_unlimited(text, units::parse_size);
                self.bytes = words.value(option, bytes, "a size, e.g. 32Mb, or unlimited")?;
            }
            "drop" => self.victim = words.value(option, parse_victim, "head or tail")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let unlimited = || Value::word(UNLIMITED);
        let victim = if self.victim == Victim::Oldest {
            "head"
        } else {
            "tail"
        };
        vec![
            (
                "packets",
                self.packets
                    .map_or_else(unlimited, |most| Value::Packets(most.into())),
            ),
            ("bytes", self.bytes.map_or_else(unlimited, Value::Size)),
            ("drop", Value::word(victim)),
        ]
    }
}

/// Reads a limit that may be absent.
fn unless_unlimited<T>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text == UNLIMITED {
        Some(None)
    } else {
        parse(text).map(Some)
    }
}

fn parse_victim(text: &str) -> Option<Victim> {
    match text {
        "head" => Some(Victim::Oldest),
        "tail" => Some(Victim::Newcomer),
        _ => None,
    }
}

impl<P: Item, B: Bound + Options + Clone> Change<P> for Fifo<P, B> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        _now: Instant,
        _drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        reconfigure_leaf(self.config().clone(), target, words, |config| {
            self.reconfigure(config);
            Ok(())
        })
    }
}

/// The word for no limit.
const UNLIMITED: &str = "unlimited";
