//! Words of `dualpi2`.

use super::*;
use tautline_base::{Drops, Instant, Qdisc};
use tautline_qdisc::DualPi2;
use tautline_qdisc::dualpi2::{Config, DropAt, Identifier, Native, Overload};

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (words, parameter) in [
        ("dualpi2 tupdate 0", "tupdate"),
        ("dualpi2 alpha -1", "alpha"),
        ("dualpi2 alpha nan", "alpha"),
        ("dualpi2 beta 257", "beta"),
        ("dualpi2 coupling_factor 0", "coupling_factor"),
        ("dualpi2 classic_protection 101", "classic_protection"),
        ("dualpi2 mtu 0", "mtu"),
    ] {
        let Ok(Kind::DualPi2(config)) = words.parse() else {
            panic!("{words} parses")
        };
        assert_eq!(
            DualPi2::<Probe>::new(config)
                .err()
                .map(|error| error.parameter),
            Some(parameter),
            "{words}"
        );
    }
    for words in [
        "dualpi2 max_rtt 0",
        "dualpi2 typical_rtt 0",
        "dualpi2 step_thresh 5q",
        "dualpi2 step_thresh",
    ] {
        assert!(words.parse::<Kind>().is_err(), "{words}");
    }
}

#[test]
fn words_set_every_parameter_and_come_back() {
    let words = "dualpi2 limit 7p memlimit 5Kb target 1ms tupdate 2ms alpha 0.5 beta 4 step_thresh 5p min_qlen_step 3 \
                 coupling_factor 4 overflow drop_enqueue any_ect nqb classic_protection 20% no_split_gso mtu 100 seed 9";
    let Ok(Kind::DualPi2(config)) = words.parse() else {
        panic!("dualpi2 parses")
    };
    let expected = Config {
        limit: 7,
        memory_limit: Some(Bytes::kib(5)),
        target: Duration::from_millis(1),
        tupdate: Duration::from_millis(2),
        alpha: 0.5,
        beta: 4.0,
        native: Native::Packets(5),
        min_qlen_step: 3,
        coupling: 4,
        overload: Overload::Overflow,
        drop_at: DropAt::Enqueue,
        identifier: Identifier::AnyEct,
        nqb: true,
        classic_protection: 20,
        split_gso: false,
        mtu: Bytes::new(100),
        seed: 9,
    };
    assert_eq!(config, expected);
    let back = "dualpi2 overflow drop_on_overload drop_enqueue drop_dequeue any_ect l4s_ect nqb no_nqb no_split_gso split_gso step_thresh 1ms";
    for words in [
        words,
        back,
        "dualpi2",
        "dualpi2 rfc9332",
        "dualpi2 ramp_range 1ms ramp_min 2ms",
        "dualpi2 max_rtt 200ms",
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
    }
    assert_eq!(back.parse(), Ok(Kind::DualPi2(Config::default())));
    assert_eq!(
        "dualpi2 rfc9332".parse(),
        Ok(Kind::DualPi2(Config::rfc9332()))
    );
}

/// RFC 9332 §A.1: for round trips of 15 ms, at most 100 ms, and as `tc` takes them in either order.
#[test]
fn weights_follow_from_round_trips() {
    let Ok(Kind::DualPi2(config)) = "dualpi2 max_rtt 100ms typical_rtt 15ms".parse() else {
        panic!("dualpi2 parses")
    };
    assert_eq!(
        (config.target, config.tupdate),
        (Duration::from_millis(15), Duration::from_millis(15))
    );
    assert!((config.alpha - 0.15).abs() < 1e-12 && (config.beta - 3.0).abs() < 1e-12);
    assert_eq!(
        "dualpi2 typical_rtt 15ms max_rtt 100ms".parse(),
        Ok(Kind::DualPi2(config.clone()))
    );
    assert_eq!(
        "dualpi2 typical_rtt 15ms".parse(),
        Ok(Kind::DualPi2(config.clone()))
    );
    assert_eq!("dualpi2 max_rtt 100ms".parse(), Ok(Kind::DualPi2(config)));
    let Ok(Kind::DualPi2(short)) = "dualpi2 max_rtt 30ms".parse() else {
        panic!("dualpi2 parses")
    };
    assert_eq!(
        short.tupdate,
        Duration::from_millis(10),
        "a third of the longest"
    );
}

#[test]
fn a_report_shows_kind_options_and_counters() {
    let kind: Kind = "dualpi2 memlimit 4542".parse().expect("valid");
    let (mut queue, mut drops) = (kind.build::<Probe>().expect("valid"), Drops::new());
    for (id, tos) in [(0, 1), (1, 1), (2, 0)] {
        queue.enqueue(Probe::new(id).tos(tos), Instant::ZERO, &mut drops);
    }
    let report = queue.report();
    for (name, expected) in [
        ("pkts_in_c", 1),
        ("pkts_in_l", 2),
        ("maxq", 3),
        ("max_memory_used", 3 * 1514),
        ("memory_used", 3 * 1514),
    ] {
        let counter = (name, Value::Count(expected));
        assert!(report.counters.contains(&counter), "{name}");
    }
}
