//! `drr`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item, Qdisc};
use tautline_qdisc::drr::{ClassConfig, Config};
use tautline_qdisc::units;
use tautline_qdisc::{ClassId, Classful, Common, Drr};

use super::class_report;
use crate::discipline::{Change, Inspect, Target, change_below, reconfigure};
use crate::report::{Report, Value};
use crate::words::{Options, ParseError, SIZE, Word, Words};

impl<P: Item, Q: Qdisc<P> + Inspect> Inspect for Drr<P, Q> {
    fn report(&self) -> Report {
        let class = |class: (ClassId, &Q, Common)| {
            let (config, deficit) = self.class(class.0)?;
            Some(Report {
                options: config.options(),
                counters: vec![("deficit", Value::Count(deficit.get()))],
                ..class_report("drr", class)
            })
        };
        Report {
            kind: "drr",
            id: Some(ClassId::new(self.handle(), 0)),
            classes: self.classes().filter_map(class).collect(),
            ..Report::default()
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "drr"
    }

    fn help(&self) -> &'static str {
        "nothing; its classes take: quantum SIZE"
    }

    fn set(&mut self, _option: Word<'_>, _words: &mut Words<'_>) -> Result<bool, ParseError> {
        Ok(false)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

impl Options for ClassConfig {
    fn kind(&self) -> &'static str {
        "drr"
    }

    fn help(&self) -> &'static str {
        "quantum SIZE"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "quantum" => self.quantum = words.value(option, units::parse_size, SIZE)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![("quantum", Value::Size(self.quantum))]
    }
}

impl<P: Item, Q: Qdisc<P> + Change<P>> Change<P> for Drr<P, Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if target == Target::Root {
            return words.apply(&mut Config {});
        }
        if let Target::Class(class) = target
            && let Some((config, _)) = self.class(class)
        {
            return reconfigure(config.clone(), words, |config| {
                self.change_class_config(class, config, now)
            });
        }
        change_below(self, "drr", target, words, now, drops)
    }
}
