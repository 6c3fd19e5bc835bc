//! `dualpi2`.

use alloc::vec;
use core::time::Duration;

use tautline_base::Item;
use tautline_qdisc::dualpi2::{Config, DropAt, Identifier, Native, Overload, Stats};
use tautline_qdisc::{DualPi2, units};

use crate::discipline::{Configured, configured};
use crate::report::{Report, Value};
use crate::words::parameter::*;
use crate::words::{Expected, ParseError, Word, Words};

impl<P: Item> Configured for DualPi2<P> {
    configured!(Config, |dualpi2, config, _now, drops| dualpi2
        .reconfigure(config, drops));

    fn details(&self) -> Report {
        let Stats {
            packets_in,
            max_queue,
            max_memory,
            ecn_mark,
            step_mark,
            overlimits,
            delays,
        } = *self.stats();
        let counters = vec![
            ("prob", Value::Share(self.probability())),
            ("delay_c", Value::Time(delays[0])),
            ("delay_l", Value::Time(delays[1])),
            ("pkts_in_c", Value::Count(packets_in[0])),
            ("pkts_in_l", Value::Count(packets_in[1])),
            ("maxq", Value::Count(max_queue as u64)),
            ("ecn_mark", Value::Count(ecn_mark)),
            ("step_mark", Value::Count(step_mark)),
            ("credit", Value::Signed(self.credit())),
            ("memory_used", Value::Count(self.memory().get())),
            ("max_memory_used", Value::Count(max_memory.get())),
        ];
        Report {
            overlimits,
            counters,
            ..Report::default()
        }
    }
}

impl Parameters for Config {
    const KIND: &'static str = "dualpi2";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("limit", PACKETS, limit),
        optional!("memlimit", SIZE, memory_limit),
        value!("coupling_factor", number::<u8>(), coupling),
        switch!(
            overload,
            "drop_on_overload" => Overload::Drop, "overflow" => Overload::Overflow,
        ),
        custom!(
            "step_thresh",
            ["TIME", "PACKETSp"],
            |config, option, words| {
                config.native =
                    words.value(option, parse_step, "a time or packets, e.g. 1ms, 5p")?;
            },
            |config| match config.native {
                Native::Delay(delay) => Some(("step_thresh", Value::Time(delay))),
                Native::Packets(count) => Some(("step_thresh", Value::Packets(count.into()))),
                Native::Ramp { .. } => None,
            }
        ),
        custom!(
            "ramp_min",
            ["TIME"],
            |config, option, words| {
                let (min, range) = (words.read(option, &TIME)?, config.ramp().1);
                config.native = Native::Ramp { min, range };
            },
            |config| match config.native {
                Native::Ramp { min, .. } => Some(("ramp_min", Value::Time(min))),
                _ => None,
            }
        ),
        custom!(
            "ramp_range",
            ["TIME"],
            |config, option, words| {
                let (min, range) = (config.ramp().0, words.read(option, &TIME)?);
                config.native = Native::Ramp { min, range };
            },
            |config| match config.native {
                Native::Ramp { range, .. } => Some(("ramp_range", Value::Time(range))),
                _ => None,
            }
        ),
        value!("min_qlen_step", PACKETS, min_qlen_step),
        switch!(
            drop_at,
            "drop_enqueue" => DropAt::Enqueue, "drop_dequeue" => DropAt::Dequeue,
        ),
        switch!(
            identifier,
            "l4s_ect" => Identifier::L4sEct, "any_ect" => Identifier::AnyEct,
        ),
        switch!(nqb, "nqb" => true, "no_nqb" => false),
        value!("classic_protection", PERCENT, classic_protection),
        value!("target", TIME, target),
        value!("tupdate", TIME, tupdate),
        value!("alpha", PER_SECOND, alpha),
        value!("beta", PER_SECOND, beta),
        switch!(split_gso, "split_gso" => true, "no_split_gso" => false),
        value!("mtu", SIZE, mtu),
        value!("seed", INTEGER, seed),
        custom!(
            "max_rtt" | "typical_rtt",
            ["TIME"],
            |config, option, words| set_round_trips(config, option, words)?,
            |_| None
        ),
        preset!("rfc9332", "(all as its appendix A does)", |config| {
            *config = Self {
                limit: config.limit,
                memory_limit: config.memory_limit,
                seed: config.seed,
                ..Self::rfc9332()
            }
        }),
    ];
}

const PERCENT: Syntax<u8> = Syntax {
    name: "PERCENT",
    expected: Expected::Text("a percentage, e.g. 10"),
    parse: |text| text.strip_suffix('%').unwrap_or(text).parse().ok(),
    show: |percent| Value::Word(alloc::format!("{percent}%")),
};

const PER_SECOND: Syntax<f64> = Syntax {
    name: "PER_SECOND",
    expected: Expected::Text("a number per second, e.g. 0.16"),
    parse: |text| text.parse().ok(),
    show: |weight| Value::Share(*weight),
};

fn parse_step(text: &str) -> Option<Native> {
    match text.strip_suffix('p') {
        Some(packets) => packets.parse().ok().map(Native::Packets),
        None => units::parse_time(text).map(Native::Delay),
    }
}

/// Sets what follows from the round-trip times: `max_rtt TIME`, `typical_rtt TIME` or both in
/// either order. Where one is missing, it is 100 ms or 15 ms, as in `tc`.
fn set_round_trips(
    config: &mut Config,
    option: Word<'_>,
    words: &mut Words<'_>,
) -> Result<(), ParseError> {
    let read = |option, words: &mut Words<'_>| {
        let above_0 = |text: &str| units::parse_time(text).filter(|time| !time.is_zero());
        words.value(option, above_0, "a time above 0, e.g. 100ms")
    };
    let (mut max, mut typical) = (Duration::from_millis(100), Duration::from_millis(15));
    let (time, other_word, other) = match option.text {
        "max_rtt" => (&mut max, "typical_rtt", &mut typical),
        _ => (&mut typical, "max_rtt", &mut max),
    };
    *time = read(option, words)?;
    if let Some(option) = words.peek().filter(|word| word.text == other_word) {
        words.word();
        *other = read(option, words)?;
    }
    *config = config.clone().for_round_trips(typical, max);
    Ok(())
}
