//! `pfifo_fast`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::Item;
use tautline_qdisc::PfifoFast;
use tautline_qdisc::pfifo_fast::{Config, PRIOMAP, Places};

use crate::discipline::{Configured, Inspect, configured};
use crate::report::{Report, Value};
use crate::words::Options;
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "pfifo_fast";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("limit", PACKETS, limit),
        choice!("places", places, "at-once" => Places::AtOnce, "batched" => Places::Batched),
        preset!("linux", "(places as Linux frees them)", |config| config
            .places =
            Places::Batched),
    ];
}

impl<P: Item> Configured for PfifoFast<P> {
    configured!(Config, |pfifo_fast, config, _now, _drops| {
        pfifo_fast.reconfigure(config);
        Ok(())
    });

    /// Bands and priomap are fixed but shown, as in Linux.
    fn shown(&self) -> Vec<(&'static str, Value)> {
        let priomap = PRIOMAP.iter().map(|&band| band.into()).collect();
        let mut options = vec![
            ("bands", Value::Count(3)),
            ("priomap", Value::List(priomap)),
        ];
        options.extend(self.config().options());
        options
    }

    fn details(&self) -> Report {
        Report {
            children: self.bands().iter().map(Inspect::report).collect(),
            ..Report::default()
        }
    }
}
