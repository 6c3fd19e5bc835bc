//! Words of `fq_pie`.

use super::*;
use crate::words::Options;
use tautline_base::{Drops, Instant, Qdisc};
use tautline_qdisc::FqPie;
use tautline_qdisc::fq_pie::{Config, Emptied};
use tautline_qdisc::pie::Params;

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (words, parameter) in [
        ("fq_pie flows 65537", "flows"),
        ("fq_pie quantum 63", "quantum"),
        ("fq_pie quantum 2Mb", "quantum"),
        ("fq_pie tupdate 0ms", "tupdate"),
    ] {
        let Ok(Kind::FqPie(config)) = words.parse() else {
            panic!("{words} parses")
        };
        assert_eq!(
            FqPie::<Probe>::new(config)
                .err()
                .map(|error| error.parameter),
            Some(parameter),
            "{words}"
        );
    }
    let mut queue = FqPie::<Probe>::new(Config::default()).expect("valid");
    for (words, parameter) in [
        ("flows 7", "flows"),
        ("perturbation 7", "perturbation"),
        ("law linux", "law"),
    ] {
        let error = queue
            .change(
                Target::Root,
                &mut Words::new(words),
                Instant::ZERO,
                &mut Drops::new(),
            )
            .expect_err(words)
            .to_string();
        assert!(
            error.contains(&std::format!(
                "`{parameter}` must be what it was at creation"
            )),
            "{error}"
        );
        assert_eq!(*queue.config(), Config::default(), "nothing changed");
    }
}

#[test]
fn words_set_every_parameter_and_come_back() {
    let words = "fq_pie limit 7p flows 3 quantum 300 memory_limit 5Kb emptied forgotten perturbation 0x2a target 1ms \
                 tupdate 2ms ecn ecn_prob 20";
    let Ok(Kind::FqPie(config)) = words.parse() else {
        panic!("fq_pie parses")
    };
    let pie = Params {
        target: Duration::from_millis(1),
        tupdate: Duration::from_millis(2),
        ecn: true,
        ecn_prob: 20,
        ..Params::default()
    };
    let expected = Config {
        limit: 7,
        flows: 3,
        quantum: Bytes::new(300),
        memory_limit: Bytes::kib(5),
        pie,
        emptied: Emptied::Forgotten,
        perturbation: Some(42),
    };
    assert_eq!(config, expected);
    assert!(
        config.options().iter().all(|(name, _)| config
            .usage()
            .iter()
            .any(|usage| usage.words.contains(name))),
        "the help names every option"
    );
    assert_eq!(
        config.options()[..5].len() + config.pie.options().len(),
        config.options().len()
    );
    for words in [
        "fq_pie",
        "fq_pie linux hz 100",
        "fq_pie limit 50 quantum 300 bytemode",
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
    }
    assert_eq!("fq_pie linux".parse(), Ok(Kind::FqPie(Config::linux())));
    let Ok(Kind::FqPie(config)) = "fq_pie seed 9 linux".parse() else {
        panic!("fq_pie parses")
    };
    assert_eq!(
        config.pie,
        Params {
            seed: 9,
            ..Params::linux()
        },
        "a seed is kept"
    );
}

#[test]
fn a_report_shows_options_and_counters() {
    let kind: Kind = "fq_pie limit 5".parse().expect("valid");
    let (mut queue, mut drops) = (kind.build::<Probe>().expect("valid"), Drops::new());
    for id in 0..7 {
        queue.enqueue(Probe::new(id), Instant::ZERO, &mut drops);
    }
    let report = queue.report();
    for counter in [
        ("pkts_in", 5),
        ("dropped", 2),
        ("overlimit", 2),
        ("overmemory", 0),
    ] {
        let (name, count) = counter;
        assert!(
            report.counters.contains(&(name, Value::Count(count))),
            "{name}"
        );
    }
}
