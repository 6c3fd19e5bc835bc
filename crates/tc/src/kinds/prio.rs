//! `prio`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item, Qdisc};
use tautline_qdisc::pfifo::{self, Pfifo};
use tautline_qdisc::prio::Config;
use tautline_qdisc::{ClassId, Classful, Prio};

use super::class_report;
use crate::discipline::{Change, Inspect, Target, change_below, reconfigure};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, ParseError, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "prio"
    }

    fn help(&self) -> &'static str {
        "bands N, priomap BAND0 ... BAND15"
    }

    /// A priomap may be cut short, as in `tc`: the other priorities keep their bands.
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "bands" => self.bands = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "priomap" => {
                let is_number = |words: &Words<'_>| {
                    words
                        .peek()
                        .is_some_and(|word| word.text.parse::<u8>().is_ok())
                };
                for (priority, band) in self.priomap.iter_mut().enumerate() {
                    if priority == 0 || is_number(words) {
                        *band = words.value(option, |text| text.parse().ok(), NUMBER)?;
                    } else {
                        break;
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let priomap = self.priomap.iter().map(|&band| band.into()).collect();
        vec![
            ("bands", Value::Count(self.bands.into())),
            ("priomap", Value::List(priomap)),
        ]
    }
}

impl<P: Item, Q: Qdisc<P> + Inspect> Inspect for Prio<P, Q> {
    fn report(&self) -> Report {
        Report {
            kind: "prio",
            id: Some(ClassId::new(self.handle(), 0)),
            options: self.config().options(),
            classes: self
                .classes()
                .map(|class| class_report("prio", class))
                .collect(),
            ..Report::default()
        }
    }
}

impl<P: Item, Q: Qdisc<P> + Change<P> + From<Pfifo<P>>> Change<P> for Prio<P, Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if target != Target::Root {
            return change_below(self, "prio", target, words, now, drops);
        }
        let fifo = || Pfifo::new(pfifo::Config::default()).into();
        reconfigure(self.config().clone(), words, |config| {
            self.reconfigure(config, fifo, drops)
        })
    }
}
