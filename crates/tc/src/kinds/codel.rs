//! `codel`, and CoDel's parameters and counters for `fq_codel`.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use tautline_qdisc::codel::{CeThreshold, Config, Control, Law, Params, Phase, Stats};
use tautline_qdisc::{Codel, units};

use super::aqm_fifo::Counters;
use crate::report::Value;
use crate::words::Options;
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "codel";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        unless_zero!("limit", PACKETS, limit),
        part!(codel: Params),
        preset!("linux", "(all as Linux does)", |config| *config = Self {
            limit: config.limit,
            ..Self::linux()
        }),
    ];
}

impl Parameters for Params {
    const KIND: &'static str = "codel";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        unless_zero!("target", TIME, target),
        unless_zero!("interval", TIME, interval),
        value!("mtu", SIZE, mtu),
        choice!("law", law, "rfc8289" => Law::Rfc8289, "linux" => Law::Linux),
        switch!(ecn, "ecn" => true, "noecn" => false),
        custom!(
            "ce_threshold",
            ["TIME"],
            |codel, option, words| {
                let delay = words.read(option, &TIME)?;
                // The packets that were selected stay selected, as in Linux.
                let before = codel.ce_threshold;
                let before = before.unwrap_or_else(|| CeThreshold::all(delay));
                codel.ce_threshold = Some(CeThreshold { delay, ..before });
            },
            |codel| Some(("ce_threshold", Value::Time(codel.ce_threshold?.delay)))
        ),
        custom!(
            "ce_threshold_selector",
            ["VALUE/MASK"],
            |codel, option, words| {
                let selector = words.value(option, parse_selector, "VALUE/MASK, e.g. 0x1/0x3")?;
                let threshold = codel.ce_threshold.as_mut();
                let threshold = threshold.ok_or_else(|| option.needs("ce_threshold"))?;
                (threshold.selector, threshold.mask) = selector;
            },
            |codel| {
                let CeThreshold { selector, mask, .. } = codel.ce_threshold?;
                let text = format!("{selector:#x}/{mask:#x}");
                (mask != 0).then_some(("ce_threshold_selector", Value::Word(text)))
            }
        ),
    ];
}

fn parse_selector(text: &str) -> Option<(u8, u8)> {
    let (selector, mask) = text.split_once('/')?;
    let byte = |text| u8::try_from(units::parse_integer(text)?).ok();
    Some((byte(selector)?, byte(mask)?))
}

impl Counters for Control {
    fn counters<P>(codel: &Codel<P>) -> Vec<(&'static str, Value)> {
        let dropping = matches!(codel.state().phase(), Phase::Dropping { .. });
        let mut values = vec![
            ("count", Value::Count(codel.state().count().into())),
            ("dropping", Value::Flag(dropping)),
        ];
        values.extend(counters(codel.stats()));
        values.push(("drop_overlimit", Value::Count(codel.drop_overlimit())));
        values
    }
}

/// The counters in `tc`'s names.
pub(super) fn counters(stats: &Stats) -> [(&'static str, Value); 5] {
    [
        ("ldelay", Value::Time(stats.delay())),
        ("maxpacket", Value::Count(stats.max_packet.get())),
        ("drop_target", Value::Count(stats.dropped)),
        ("ecn_mark", Value::Count(stats.ecn_mark)),
        ("ce_mark", Value::Count(stats.ce_mark)),
    ]
}
