//! `cobalt`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_qdisc::Cobalt;
use tautline_qdisc::cobalt::{Config, Control, Params, Start};

use super::aqm_fifo::Counters;
use crate::report::Value;
use crate::words::Options;
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "cobalt";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("limit", PACKETS, limit),
        part!(cobalt: Params),
        value!("seed", INTEGER, seed),
        preset!("linux", "(all as Linux does)", |config| config.cobalt =
            Self::linux().cobalt),
        preset!("ns3", "(all as ns-3 does)", |config| config.cobalt =
            Self::ns3().cobalt),
    ];
}

impl Parameters for Params {
    const KIND: &'static str = "cobalt";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("target", TIME, target),
        value!("interval", TIME, interval),
        value!("mtu_time", TIME, mtu_time),
        value!("increment", SHARE, increment),
        value!("decrement", SHARE, decrement),
        optional!("blue_threshold", TIME, blue_threshold),
        switch!(blue_threshold, "no_blue_threshold" => None),
        switch!(ecn, "ecn" => true, "noecn" => false),
        choice!("start", start, "patient" => Start::Patient, "linux" => Start::Linux),
    ];
}

impl Counters for Control {
    fn counters<P>(cobalt: &Cobalt<P>) -> Vec<(&'static str, Value)> {
        let (state, stats) = (cobalt.state(), cobalt.stats());
        vec![
            ("count", Value::Count(state.count().into())),
            ("dropping", Value::Flag(state.is_dropping())),
            ("p_drop", Value::Share(state.drop_probability())),
            ("drop_target", Value::Count(stats.drop_target)),
            ("drop_blue", Value::Count(stats.drop_blue)),
            ("drop_overlimit", Value::Count(cobalt.drop_overlimit())),
            ("ecn_mark", Value::Count(stats.ecn_mark)),
        ]
    }
}
