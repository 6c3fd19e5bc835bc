//! `drr`.

use alloc::vec;

use tautline_base::{ConfigError, Drops, Instant, Item, Qdisc};
use tautline_qdisc::drr::{ClassConfig, Config};
use tautline_qdisc::{ClassId, Classful, Common, Drr};

use super::class_report;
use crate::discipline::{Change, Configured, Inspect, Target, change_child, reconfigure};
use crate::report::{Report, Value};
use crate::words::parameter::*;
use crate::words::{Options, ParseError, Words};

impl Parameters for Config {
    const KIND: &'static str = "drr";
    const PARAMETERS: &'static [Parameter<Self>] = &[];
}

impl Parameters for ClassConfig {
    const KIND: &'static str = "drr";
    const PARAMETERS: &'static [Parameter<Self>] = &[value!("quantum", SIZE, quantum)];
}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P>> Configured for Drr<P, Q> {
    type Packet = P;
    type Config = Config;

    fn parameters(&self) -> Config {
        Config {}
    }

    fn set_parameters(
        &mut self,
        _: Config,
        _: Instant,
        _: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        Ok(())
    }

    fn details(&self) -> Report {
        let class = |class: (ClassId, &Q, Common)| {
            let (config, deficit) = self.class(class.0)?;
            Some(Report {
                options: config.options(),
                counters: vec![("deficit", Value::Count(deficit.get()))],
                ..class_report("drr", class)
            })
        };
        Report {
            id: Some(ClassId::new(self.handle(), 0)),
            classes: self.classes().filter_map(class).collect(),
            ..Report::default()
        }
    }

    fn change_below(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if let Target::Class(class) = target
            && let Some((config, _)) = self.class(class)
        {
            return reconfigure(config.clone(), words, |config| {
                self.change_class_config(class, config, now)
            });
        }
        change_child(self, target, words, now, drops)
    }
}
