//! Words of `pie`.

use super::*;
use tautline_base::{Drops, Instant};
use tautline_qdisc::Pie;
use tautline_qdisc::pie::{Config, DelaySource, Law, Params};

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (words, parameter) in [
        ("pie tupdate 0ms", "tupdate"),
        ("pie alpha -1", "alpha"),
        ("pie alpha nan", "alpha"),
        ("pie beta 2049", "beta"),
        ("pie linux beta 2.5", "beta"),
        ("pie mtu 0", "mtu"),
        ("pie ecn_prob 101", "ecn_prob"),
        ("pie hz 2000000000", "hz"),
    ] {
        let Ok(Kind::Pie(config)) = words.parse() else {
            panic!("{words} parses")
        };
        assert_eq!(
            Pie::<Probe>::new(config).err().map(|error| error.parameter),
            Some(parameter),
            "{words}"
        );
    }
    let mut queue = Pie::<Probe>::new(Config::default()).expect("valid");
    let error = queue
        .change(
            Target::Root,
            &mut Words::new("linux"),
            Instant::ZERO,
            &mut Drops::new(),
        )
        .expect_err("another arithmetic");
    assert!(
        error
            .to_string()
            .contains("`law` must be what it was at creation"),
        "{error}"
    );
}

#[test]
fn words_set_every_parameter_and_come_back() {
    let words = "pie limit 7p target 1ms tupdate 2ms alpha 3 beta 4.5 ecn bytemode dq_rate_estimator dq_threshold 10000b ecn_prob 20 max_burst 5ms \
                 mtu 100 law rfc8034 active_above 6Kb hz 1000 first_update 8ms seed 9";
    let Ok(Kind::Pie(config)) = words.parse() else {
        panic!("pie parses")
    };
    let pie = Params {
        target: Duration::from_millis(1),
        tupdate: Duration::from_millis(2),
        alpha: 3.0 / 16.0,
        beta: 4.5 / 16.0,
        max_burst: Duration::from_millis(5),
        ecn: true,
        ecn_prob: 20,
        bytemode: true,
        mtu: Bytes::new(100),
        delay: DelaySource::DepartureRate,
        dq_threshold: Bytes::new(10_000),
        law: Law::Rfc8034,
        active_above: Bytes::kib(6),
        hz: core::num::NonZeroU32::new(1000),
        first_update: Duration::from_millis(8),
        seed: 9,
    };
    assert_eq!(config, Config { limit: 7, pie });
    for words in [
        words,
        "pie",
        "pie linux",
        "pie limit 50 docsis noecn nobytemode no_dq_rate_estimator",
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
    }
    assert_eq!("pie linux".parse(), Ok(Kind::Pie(Config::linux())));
    assert_eq!(
        "pie limit 50 docsis".parse(),
        Ok(Kind::Pie(Config::docsis(50)))
    );
}

/// `tc`'s `dropped` includes the packets that the limit refused.
#[test]
fn a_report_counts_drops_at_the_limit() {
    let (mut queue, mut drops) = (build::<Probe>("pie limit 1").expect("valid"), Drops::new());
    (0..3).for_each(|id| queue.enqueue(Probe::new(id), Instant::ZERO, &mut drops));
    let counters = queue.report().counters;
    for name in ["overlimit", "dropped"] {
        assert!(counters.contains(&(name, Value::Count(2))), "{counters:?}");
    }
}
