//! `prio`.

use tautline_base::{Item, Qdisc};
use tautline_qdisc::pfifo::{self, Pfifo};
use tautline_qdisc::prio::Config;
use tautline_qdisc::{ClassId, Classful, Prio};

use super::class_report;
use crate::discipline::{Change, Configured, Inspect, change_children, configured};
use crate::report::{Report, Value};
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "prio";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("bands", decimal::<u8>(), bands),
        // A priomap may be cut short, as in `tc`: the other priorities keep their bands.
        custom!(
            "priomap",
            ["BAND0 ... BAND15"],
            |config, option, words| {
                let [first, others @ ..] = &mut config.priomap;
                *first = words.read(option, &decimal())?;
                for band in others {
                    match words.optional(decimal().parse) {
                        Some(given) => *band = given,
                        None => break,
                    }
                }
            },
            |config| {
                let bands = config.priomap.iter().map(|&band| band.into());
                Some(("priomap", Value::List(bands.collect())))
            }
        ),
    ];
}

impl<P, Q> Configured for Prio<P, Q>
where
    P: Item,
    Q: Qdisc<P> + Inspect + Change<P> + From<Pfifo<P>>,
{
    configured!(Config, |prio, config, _now, drops| {
        let fifo = || Pfifo::new(pfifo::Config::default()).into();
        prio.reconfigure(config, fifo, drops)
    });

    fn details(&self) -> Report {
        let classes = self.classes().map(|class| class_report("prio", class));
        Report {
            id: Some(ClassId::new(self.handle(), 0)),
            classes: classes.collect(),
            ..Report::default()
        }
    }

    change_children!();
}
