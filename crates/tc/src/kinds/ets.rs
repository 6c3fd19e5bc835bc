//! `ets`.

use alloc::vec::Vec;

use tautline_base::{Bytes, Drops, Instant, Item, Qdisc};
use tautline_qdisc::ets::{ClassConfig, Config};
use tautline_qdisc::pfifo::{self, Pfifo};
use tautline_qdisc::{ClassId, Classful, Common, Ets};

use super::class_report;
use crate::discipline::{
    Change, Configured, Inspect, Target, change_child, configured, reconfigure,
};
use crate::report::{Report, Value};
use crate::words::parameter::*;
use crate::words::{Options, ParseError, Word, Words};

impl Parameters for Config {
    const KIND: &'static str = "ets";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        computed!("bands", decimal::<u8>(), bands),
        changed!("strict", decimal::<u8>(), strict),
        custom!(
            "quanta",
            ["SIZE ..."],
            |config, option, words| config.quanta = list(option, words, &SIZE)?,
            |config| sizes(config.quanta.iter().copied())
        ),
        custom!(
            "priomap",
            ["BAND0 ... BAND15"],
            |config, option, words| config.priomap = list(option, words, &decimal())?,
            |config| numbers("priomap", config.priomap.iter().map(|&band| band.into()))
        ),
    ];
}

impl Parameters for ClassConfig {
    const KIND: &'static str = "ets";
    const PARAMETERS: &'static [Parameter<Self>] = &[optional!("quantum", SIZE, quantum)];
}

/// The values of `option`, at least one.
fn list<T>(
    option: Word<'_>,
    words: &mut Words<'_>,
    syntax: &Syntax<T>,
) -> Result<Vec<T>, ParseError> {
    let mut values = Vec::from([words.read(option, syntax)?]);
    while let Some(value) = words.optional(syntax.parse) {
        values.push(value);
    }
    Ok(values)
}

/// `name` and its values, if it has any.
fn numbers(name: &'static str, values: impl Iterator<Item = u64>) -> Option<(&'static str, Value)> {
    let values: Vec<u64> = values.collect();
    (!values.is_empty()).then_some((name, Value::List(values)))
}

/// The quanta, without units as in `tc`.
fn sizes(quanta: impl Iterator<Item = Bytes>) -> Option<(&'static str, Value)> {
    numbers("quanta", quanta.map(Bytes::get))
}

impl<P, Q> Configured for Ets<P, Q>
where
    P: Item,
    Q: Qdisc<P> + Inspect + Change<P> + From<Pfifo<P>>,
{
    configured!(Config, |ets, config, _now, drops| {
        let fifo = || Pfifo::new(pfifo::Config::default()).into();
        ets.reconfigure(config, fifo, drops)
    });

    fn details(&self) -> Report {
        let class = |class: (ClassId, &Q, Common)| {
            Some(Report {
                options: self.class(class.0)?.options(),
                ..class_report("ets", class)
            })
        };
        Report {
            id: Some(ClassId::new(self.handle(), 0)),
            classes: self.classes().filter_map(class).collect(),
            ..Report::default()
        }
    }

    /// With the defaults filled in, as `tc` shows them.
    fn shown(&self) -> Vec<(&'static str, Value)> {
        let (config, bands) = (self.config(), self.config().bands());
        let strict = (config.strict > 0).then(|| ("strict", Value::Count(config.strict.into())));
        let quanta = (0..bands).filter_map(|band| config.quantum(band));
        let priomap = config.bands_of_priorities().map(u64::from);
        let bands = Some(("bands", Value::Count(bands.into())));
        let priomap = numbers("priomap", priomap.into_iter());
        [bands, strict, sizes(quanta), priomap]
            .into_iter()
            .flatten()
            .collect()
    }

    fn change_below(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if let Target::Class(class) = target
            && let Some(config) = self.class(class)
        {
            return reconfigure(config, words, |config| {
                self.change_class_config(class, config, now)
            });
        }
        change_child(self, target, words, now, drops)
    }
}
