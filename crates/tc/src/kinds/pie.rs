//! `pie`, and PIE's parameters for `fq_pie`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_qdisc::pie::{Config, Control, DelaySource, Law, Params};
use tautline_qdisc::{Pie, units};

use super::aqm_fifo::Counters;
use crate::report::Value;
use crate::words::parameter::*;
use crate::words::{Expected, Options};

impl Parameters for Config {
    const KIND: &'static str = "pie";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        unless_zero!("limit", PACKETS, limit),
        part!(pie: Params),
        preset!("linux", "(all as Linux does)", |config| config.pie =
            Params {
                seed: config.pie.seed,
                ..Params::linux()
            }),
        preset!("docsis", "(all as RFC 8034 does)", |config| config.pie =
            Params {
                seed: config.pie.seed,
                ..Self::docsis(config.limit).pie
            }),
    ];
}

impl Parameters for Params {
    const KIND: &'static str = "pie";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        unless_zero!("target", TIME, target),
        unless_zero!("tupdate", TIME, tupdate),
        value!("alpha", SIXTEENTHS, alpha),
        value!("beta", SIXTEENTHS, beta),
        switch!(ecn, "ecn" => true, "noecn" => false),
        switch!(bytemode, "bytemode" => true, "nobytemode" => false),
        switch!(
            delay,
            "dq_rate_estimator" => DelaySource::DepartureRate,
            "no_dq_rate_estimator" => DelaySource::Timestamp,
        ),
        value!("dq_threshold", SIZE, dq_threshold),
        value!("ecn_prob", PERCENT, ecn_prob),
        value!("max_burst", TIME, max_burst),
        value!("mtu", SIZE, mtu),
        choice!(
            "law", law,
            "rfc8033" => Law::Rfc8033, "rfc8034" => Law::Rfc8034, "linux" => Law::Linux,
        ),
        value!("active_above", SIZE, active_above),
        value!("hz", HZ, hz),
        value!("first_update", TIME, first_update),
        value!("seed", INTEGER, seed),
    ];
}

/// Weights in words are 16 times those of [`Params`]. Zero is a weight; `tc` passes none on then.
const SIXTEENTHS: Syntax<f64> = Syntax {
    name: "SIXTEENTHS",
    expected: Expected::Text("a number of sixteenths per second, e.g. 2"),
    parse: |text| {
        let whole = units::parse_c_integer(text).map(|whole| whole as f64);
        Some(whole.or_else(|| text.parse().ok())? / 16.0)
    },
    show: |weight| Value::Share(weight * 16.0),
};

const PERCENT: Syntax<u8> = Syntax {
    name: "PERCENT",
    expected: Expected::Text("a percentage, e.g. 10"),
    ..number()
};

impl Counters for Control {
    fn counters<P>(pie: &Pie<P>) -> Vec<(&'static str, Value)> {
        let (stats, counters) = (pie.stats(), pie.counters());
        let dropped = stats.dropped + pie.drop_overlimit();
        let mut all = vec![
            ("prob", Value::Share(pie.state().probability())),
            ("delay", Value::Time(pie.delay())),
            ("avg_dq_rate", Value::Count(pie.departure_rate())),
            ("pkts_in", Value::Count(counters.packets_in)),
            ("overlimit", Value::Count(pie.drop_overlimit())),
            ("dropped", Value::Count(dropped)),
            ("maxq", Value::Count(counters.max_queue as u64)),
            ("ecn_mark", Value::Count(stats.ecn_mark)),
        ];
        // Not of Linux's `tc`: how many measurements took 1, 2 to 3, 4 to 7... nanoseconds.
        if let Some(longest) = stats.cycles.counts().iter().rposition(|count| *count > 0) {
            let counts = stats.cycles.counts()[..=longest].to_vec();
            all.push(("dq_cycles", Value::List(counts)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use tautline_base::{Drops, Instant, Packet, Qdisc};

    use super::*;

    fn counters(delay: DelaySource) -> Vec<(&'static str, Value)> {
        let config = Config {
            pie: Params {
                delay,
                ..Params::default()
            },
            ..Config::default()
        };
        let (mut pie, mut drops) = (Pie::new(config).expect("valid"), Drops::new());
        for _ in 0..40 {
            pie.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
        }
        for n in 0..20 {
            pie.dequeue(Instant::ZERO + Duration::from_nanos(n), &mut drops);
        }
        Control::counters(&pie)
    }

    #[test]
    fn durations_of_measurements_are_reported_where_there_are_any() {
        let of = |delay| {
            counters(delay)
                .into_iter()
                .find(|(of, _)| *of == "dq_cycles")
        };
        assert_eq!(of(DelaySource::Timestamp), None);
        // 11 packets are 16 KiB: one measurement, of 10 ns.
        let expected = Value::List(vec![0, 0, 0, 0, 1]);
        assert_eq!(
            of(DelaySource::DepartureRate),
            Some(("dq_cycles", expected))
        );
    }
}
