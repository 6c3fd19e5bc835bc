//! Words of `netem`, and changes below it.

use super::*;
use alloc::boxed::Box;
use tautline_base::{Drops, Instant, Qdisc, Rate};
use tautline_qdisc::netem::*;
use tautline_qdisc::{ClassId, Netem};
use tautline_testkit::ids;

#[test]
fn words_have_the_grammar_of_tc() {
    let words = "netem delay 20ms 2ms 25% distribution normal loss random 1% 25% duplicate 0.3% corrupt 0.1% 2% reorder 25% 50% gap 5 \
                 rate 1mbit 20 100 5 slot 800us 10ms packets 42 bytes 64k limit 9 ecn seed 0x10";
    let Ok(Kind::Netem(config)) = words.parse() else {
        panic!("{words} parse")
    };
    let expected = Config {
        limit: 9,
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(2),
        delay_correlation: 0.25,
        distribution: Distribution::Normal,
        draw: Draw::Scaled,
        loss: Loss::Random(Chance {
            probability: 0.01,
            correlation: 0.25,
        }),
        ecn: true,
        duplicate: Chance::of(0.003),
        corrupt: Chance {
            probability: 0.001,
            correlation: 0.02,
        },
        reorder: Some(Reorder {
            chance: Chance {
                probability: 0.25,
                correlation: 0.5,
            },
            gap: 5,
        }),
        link: Some(Link {
            rate: Rate::mbit(1),
            packet_overhead: 20,
            cells: Some(Cells {
                size: 100,
                overhead: 5,
            }),
        }),
        slots: Some(Slots {
            every: Spacing::Range {
                min: Duration::from_micros(800),
                max: Duration::from_millis(10),
            },
            packets: Some(42),
            bytes: Some(Bytes::kib(64)),
        }),
        seed: 16,
    };
    assert_eq!(config, expected);
    assert_eq!(
        Kind::Netem(config).to_string(),
        "netem limit 9p delay 20ms 2ms 25% distribution normal loss 1% 25% ecn duplicate 0.3% reorder 25% 50% gap 5 corrupt 0.1% 2% \
         rate 1Mbit 20 100 5 slot 800us 10ms packets 42 bytes 65536 seed 16"
    );
    assert_eq!(
        "netem".parse::<Kind>().map(|kind| kind.to_string()),
        Ok("netem limit 1000p delay 0ns distribution uniform loss 0% duplicate 0% corrupt 0% seed 0".into())
    );
    for words in [
        "netem linux",
        "netem loss gemodel 1% 10% 70% 0.1%",
        "netem loss gemodel 7%",
        "netem loss state 0.07% 30% 1% 2% 3%",
        "netem drop 12.345678% delay 1 noecn",
        "netem latency 3s 0 7%",
        "netem rate 8mbit -7",
        "netem gap 3 delay 1ms",
        "netem slot distribution pareto 1ms 2us bytes 7",
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
    }
    let model = |words: &str| match words.parse() {
        Ok(Kind::Netem(config)) => config.loss,
        _ => panic!("{words} parse"),
    };
    let states = States {
        p13: 0.25,
        p31: 0.75,
        p32: 0.0,
        p23: 1.0,
        p14: 0.0,
    };
    assert_eq!(model("netem loss state 25%"), Loss::States(states));
    let channel = GilbertElliott {
        to_bad: 0.25,
        to_good: 0.75,
        bad_loss: 1.0,
        good_loss: 0.0,
    };
    assert_eq!(
        model("netem loss gemodel 25"),
        Loss::GilbertElliott(channel)
    );
    for words in [
        "netem loss",
        "netem loss 101%",
        "netem loss -1%",
        "netem loss %",
        "netem loss x",
        "netem slot x",
        "netem distribution x",
        "netem delay 1ms x",
    ] {
        words.parse::<Kind>().expect_err(words);
    }
}

/// Recorded from `tc` of iproute2 6.1.
#[test]
fn numbers_are_read_as_tc_does() {
    for (words, same) in [
        ("netem loss 1e-1%", "netem loss 0.1%"),
        ("netem loss 0x10% 1e1", "netem loss 16% 10%"),
        ("netem duplicate +5%", "netem duplicate 5%"),
        ("netem loss state 1e-2 5E1%", "netem loss state 0.01% 50%"),
        ("netem delay 1ms 1ms 1e-1%", "netem delay 1ms 1ms 0.1%"),
        ("netem limit 100k", "netem limit 102400"),
        ("netem limit 1.5Kb", "netem limit 1536p"),
        ("netem limit 010", "netem limit 10"),
        ("netem rate 0x14kbit", "netem rate 20kbit"),
        ("netem rate 1mbit 0x14 0X10 010", "netem rate 1mbit 20 16 8"),
        ("netem rate 1mbit -0x10 5 -010", "netem rate 1mbit -16 5 -8"),
    ] {
        let [read, expected] = [words, same].map(|words| words.parse::<Kind>().expect(words));
        assert_eq!(read, expected, "{words}");
    }
    for (words, message) in [
        (
            "netem loss 5% 5%%",
            "`5%%` is no value for `loss`: give a percentage, e.g. 1% or 0.5%",
        ),
        (
            "netem delay 5ms 1x",
            "`1x` is no value for `delay`: give a time, e.g. 10us; without a unit in ns",
        ),
        (
            "netem rate 1mbit 08",
            "`08` is no value for `rate`: give bytes, e.g. 14 or -14",
        ),
    ] {
        assert_eq!(words.parse::<Kind>().expect_err(words).to_string(), message);
    }
}

#[test]
fn reports_name_the_parts_that_tc_names() {
    for (words, shown) in [
        ("slot 1ms 2ms bytes 5k", "slot 1ms 2ms bytes 5120"),
        (
            "slot 1ms 2ms packets 7 bytes 5k",
            "slot 1ms 2ms packets 7 bytes 5120",
        ),
        (
            "slot distribution normal 1ms 2ms packets 7",
            "slot distribution 1ms 2ms packets 7",
        ),
        ("rate 1mbit 0 10", "rate 1Mbit cellsize 10"),
        // As many digits as `tc` prints.
        ("delay 1s 1234567us 12.3456789%", "delay 1s 1.23s 12.3457%"),
        ("loss 33.3333333% 12.3456789%", "loss 33.3333% 12.3457%"),
        ("rate 1234567890bit 0 48", "rate 1234Mbit cellsize 48"),
        (
            "slot distribution normal 1500ms 123456us",
            "slot distribution 1.5s 123ms",
        ),
        ("rate 1mbit 5", "rate 1Mbit packetoverhead 5"),
    ] {
        let qdisc = build::<Probe>(&["netem ", words].concat()).expect(words);
        let report = qdisc.report().to_string();
        let start = ["limit 1000 ", shown, " distribution uniform"].concat();
        assert!(report.contains(&start), "{words}: {report}");
    }
}

#[test]
fn a_gap_of_zero_is_none() {
    for (words, same) in [
        ("delay 1ms gap 0", "delay 1ms"),
        ("gap 0", ""),
        ("delay 1ms reorder 25% gap 0", "delay 1ms reorder 25% gap 1"),
        ("delay 1ms gap 0 reorder 25%", "delay 1ms reorder 25%"),
    ] {
        let [read, expected] =
            [words, same].map(|words| ["netem ", words].concat().parse::<Kind>());
        assert_eq!(read, expected, "{words}");
        read.expect(words).build::<Probe>().expect(words);
    }
}

#[test]
fn contradictions_are_named() {
    for (words, parameter) in [
        ("distribution normal", "distribution"),
        ("reorder 25%", "reorder"),
        ("loss state 60% 50% 0% 0% 50%", "loss"),
        ("slot 2ms 1ms", "slot"),
        ("slot 1ms packets 0", "packets"),
        ("slot 1ms bytes 0", "bytes"),
    ] {
        let Ok(Kind::Netem(config)) = ["netem ", words].concat().parse() else {
            panic!("{words} parse")
        };
        assert_eq!(
            Netem::<Probe, Box<dyn Qdisc<Probe>>>::new(config)
                .err()
                .map(|error| error.parameter),
            Some(parameter),
            "{words}"
        );
    }
}

#[test]
fn a_script_puts_a_discipline_at_the_end() {
    let mut path = build::<Probe>("netem delay 10ms; pfifo limit 2").expect("valid");
    let mut drops = Drops::new();
    for id in 0..3 {
        path.enqueue(Probe::new(id), Instant::ZERO, &mut drops);
    }
    assert!(drops.is_empty());
    assert_eq!(
        path.dequeue(Instant::from_millis(10), &mut drops)
            .map(|packet| packet.id),
        Some(0)
    );
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [2]);
    assert_eq!(path.report().children[0].kind, "pfifo");
}

#[test]
fn changes_reach_the_child_and_leave_packets_on_their_way() {
    let tree = "qdisc root handle 1: netem delay 10ms; qdisc parent 1:1 handle 2: drr; class classid 2:1 drr";
    let (mut path, mut drops, now) = (
        build::<Probe>(tree).expect("a tree"),
        Drops::new(),
        Instant::ZERO,
    );
    let mut change = |target, words| path.change(target, &mut Words::new(words), now, &mut drops);
    let class = |major| Target::Class(ClassId::new(major, 1));
    change(class(2), "quantum 100").expect("a class below");
    assert_eq!(
        change(class(1), "x").expect_err("no options").to_string(),
        "netem has no class 1:1"
    );
    let mut path = build::<Probe>("netem delay 10ms; pfifo").expect("a tree");
    path.enqueue(Probe::new(0), now, &mut drops);
    let mut change = |target, words| path.change(target, &mut Words::new(words), now, &mut drops);
    change(Target::Root, "delay 1ms limit 1 slot 1ms loss 100%").expect("valid");
    change(Target::Root, "loss 0% seed 5 slot 0").expect("valid");
    change(Target::Root, "distribution normal").expect_err("no jitter");
    let report = path.report();
    let below = Target::Below(report.children[0].parent.unwrap_or(ClassId::new(1, 1)));
    assert_eq!(path.ready_at(), Some(Instant::from_millis(10)));
    let limited = path.change(below, &mut Words::new("limit 1"), now, &mut drops);
    limited.expect("a child");
    assert_eq!(
        path.report().children[0].options,
        [("limit", Value::Packets(1))]
    );
}
