//! `blue`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_qdisc::Blue;
use tautline_qdisc::blue::{Config, Control, Stats};

use super::aqm_fifo::Counters;
use crate::report::Value;
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "blue";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("limit", PACKETS, limit),
        optional!("threshold", PACKETS, threshold, "none"),
        value!("d1", SHARE, d1),
        value!("d2", SHARE, d2),
        value!("freeze_time", TIME, freeze_time),
        flag!("ecn", "noecn", ecn),
        value!("seed", INTEGER, seed),
    ];
}

impl Counters for Control {
    fn counters<P>(blue: &Blue<P>) -> Vec<(&'static str, Value)> {
        let Stats { marked, early } = *blue.stats();
        vec![
            ("probability", Value::Share(blue.aqm().probability())),
            ("marked", Value::Count(marked)),
            ("early", Value::Count(early)),
            ("drop_overlimit", Value::Count(blue.drop_overlimit())),
        ]
    }
}
