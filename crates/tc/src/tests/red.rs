//! Words of `red`.

use super::*;
use tautline_base::{Drops, Instant, Qdisc, Rate};
use tautline_qdisc::Red;
use tautline_qdisc::red::{Config, IdleDecay, Params};

#[test]
fn words_are_read_and_written() {
    let all = "red limit 1Mb min 20Kb max 60Kb avpkt 500b burst 30 probability 0.1 bandwidth 100Mbit gentle idle linux adaptive ecn \
               harddrop nodrop seed 5";
    let kind: Kind = all.parse().expect(all);
    assert_eq!(kind.to_string(), all);
    let Kind::Red(config) = kind else {
        panic!("red parses")
    };
    let red = Params {
        min: Some(Bytes::kib(20)),
        max: Some(Bytes::kib(60)),
        avpkt: Bytes::new(500),
        burst: Some(30),
        probability: 0.1,
        bandwidth: Rate::mbit(100),
        gentle: true,
        idle: IdleDecay::Linux,
    };
    let limit = Bytes::mib(1);
    assert_eq!(
        config,
        Config {
            limit,
            red,
            ecn: true,
            harddrop: true,
            nodrop: true,
            adaptive: true,
            seed: 5
        }
    );
    for (words, printed) in [
        (
            "red",
            "red limit 400000b avpkt 1000b probability 0.02 bandwidth 10Mbit idle exact seed 0",
        ),
        (
            "red gentle nogentle ecn noecn harddrop noharddrop nodrop drop adaptative noadaptive idle never",
            "red limit 400000b avpkt 1000b probability 0.02 bandwidth 10Mbit idle never seed 0",
        ),
        (
            "red gentle linux adaptative",
            "red limit 400000b avpkt 1000b probability 0.02 bandwidth 10Mbit idle linux adaptive seed 0",
        ),
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string(), printed);
        assert_eq!(printed.parse(), Ok(kind));
    }
    assert_eq!("red linux".parse(), Ok(Kind::Red(Config::linux())));
}

#[test]
fn contradictions_are_refused_by_name() {
    for (words, parameter) in [
        ("limit 0", "limit"),
        ("limit 4Gb", "limit"),
        ("min 10k max 5k", "max"),
        ("max 5Gb", "max"),
        ("avpkt 0", "avpkt"),
        ("probability 0", "probability"),
        ("bandwidth 0bit", "bandwidth"),
        ("burst 4294967295", "burst"),
        ("bandwidth 8bit linux", "bandwidth"),
        ("nodrop", "nodrop"),
    ] {
        let Kind::Red(config) = ["red ", words].concat().parse().expect(words) else {
            panic!("red parses")
        };
        assert_eq!(
            Red::<Probe>::new(config).expect_err(words).parameter,
            parameter
        );
    }
    for words in [
        "red probability 1.5",
        "red idle slowly",
        "red burst -1",
        "red min",
    ] {
        assert!(words.parse::<Kind>().is_err(), "{words}");
    }
}

/// `tc`: max from the limit; the derived values are shown.
#[test]
fn a_report_shows_what_is_derived() {
    let report = build::<Probe>("red").expect("valid").report();
    let max = ("max", Value::Size(Bytes::new(100_000)));
    assert!(report.options.contains(&max));
    assert_eq!(report.children[0].kind, "bfifo");
}

#[test]
fn the_child_is_part_of_the_report() {
    let tree = "red; qdisc parent 1:1 handle 2: fq_codel";
    let report = build::<Probe>(tree).expect("a tree").report();
    assert_eq!(report.children[0].kind, "fq_codel");
}

/// A change reaches the classes of a qdisc below, as through any other parent.
#[test]
fn classes_below_can_be_changed() {
    let tree = "red limit 400kb avpkt 1000; qdisc parent 1:1 handle 2: drr; class parent 2: classid 2:1 drr";
    let mut queue = build::<Probe>(tree).expect("a tree");
    let words = "class change classid 2:1 drr quantum 99";
    change_tree(&mut *queue, words, Instant::ZERO, &mut Drops::new()).expect("its class");
    assert!(queue.report().to_string().contains("quantum 99b"));
}

/// `tc`'s `marked` and `early` include what probability chose and what was above `max`.
#[test]
fn a_report_adds_the_chosen_and_the_forced() {
    let config = Config {
        limit: Bytes::mib(1),
        red: Params {
            min: Some(Bytes::new(3000)),
            max: Some(Bytes::new(30_000)),
            burst: Some(8),
            probability: 0.5,
            ..Params::default()
        },
        ecn: true,
        ..Config::default()
    };
    let (mut queue, mut drops) = (Red::<Probe>::new(config).expect("valid"), Drops::new());
    for id in 0..200 {
        let ecn_capable = u8::from(id % 2 == 0) * 2;
        queue.enqueue(Probe::new(id).tos(ecn_capable), Instant::ZERO, &mut drops);
    }
    let stats = *queue.stats();
    let counters = queue.report().counters;
    for (name, chosen, forced) in [
        ("marked", stats.prob_mark, stats.forced_mark),
        ("early", stats.prob_drop, stats.forced_drop),
    ] {
        assert!(chosen > 0 && forced > 2, "{stats:?}");
        let sum = (name, Value::Count(chosen + forced));
        assert!(counters.contains(&sum), "{counters:?}");
    }
}
