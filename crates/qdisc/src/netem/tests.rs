//! netem against the worked examples of `net/sched/sch_netem.c` and, one by one, what it promises.

use super::*;
use crate::dialect::*;
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use alloc::string::ToString;
use alloc::vec::Vec;
use std::boxed::Box;
use std::vec;
use tautline_base::Rate;
use tautline_testkit::{Probe, ids};

type Path = Ledger<Netem<Probe, Box<dyn DynQdisc<Probe>>>>;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn path(config: Config) -> Path {
    Ledger::new(Netem::new(config).expect("valid"))
}

fn words(words: &str) -> Path {
    let Ok(Kind::Netem(config)) = words.parse() else {
        panic!("{words} are netem's")
    };
    path(config)
}

/// Sends `packets` of `len` at once and returns what was dropped.
fn put(
    path: &mut impl Qdisc<Probe>,
    packets: u32,
    len: u32,
    now: Instant,
) -> Vec<(u32, DropReason)> {
    let mut drops = Drops::new();
    for id in 0..packets {
        path.enqueue(Probe::new(id).sized(len), now, &mut drops);
    }
    drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect()
}

/// The packets that leave and their times, woken as `ready_at` says.
fn run(path: &mut impl Qdisc<Probe>, mut now: Instant) -> Vec<(u64, Probe)> {
    let mut left = Vec::new();
    while let Some(ready) = path.ready_at() {
        now = now.max(ready);
        left.extend(
            core::iter::from_fn(|| path.dequeue(now, &mut Drops::new()))
                .map(|packet| (now.as_nanos(), packet)),
        );
    }
    left
}

fn times(path: &mut impl Qdisc<Probe>) -> Vec<u64> {
    run(path, ms(0))
        .into_iter()
        .map(|(time, _)| time / 1000)
        .collect()
}

/// Worked: 1 Mbit, 10 ms, three 1250-byte packets at 0 leave at 20, 30, 40 ms.
#[test]
fn the_link_takes_its_time_and_waiting_counts_as_delay() {
    let mut path = words("netem delay 10ms rate 1mbit");
    put(&mut path, 3, 1250, ms(0));
    assert_eq!(path.ready_at(), Some(ms(20)));
    assert_eq!(times(&mut path), [20_000, 30_000, 40_000]);
    // Idle again: nothing is left of the past.
    put(&mut path, 1, 1250, ms(100));
    assert_eq!(path.ready_at(), Some(ms(120)));
}

/// 100 bytes and 20 are three cells of 48 and 5: 159 bytes.
#[test]
fn overhead_and_cells_count() {
    for (rate, micros) in [
        ("8mbit", 100),
        ("8mbit 20", 120),
        ("8mbit -20", 80),
        ("8mbit 20 48 5", 159),
        ("8mbit -200", 0),
    ] {
        let mut path = words(&["netem rate ", rate].concat());
        put(&mut path, 1, 100, ms(0));
        assert_eq!(times(&mut path), [micros], "{rate}");
    }
    let shrunk = Link {
        rate: Rate::mbit(8),
        packet_overhead: 0,
        cells: Some(Cells {
            size: 5,
            overhead: -9,
        }),
    };
    assert_eq!(shrunk.time(Bytes::MAX), Duration::ZERO);
}

#[test]
fn a_fixed_delay_keeps_the_order() {
    let mut path = words("netem delay 20ms");
    for id in 0..3u32 {
        path.enqueue(Probe::new(id), ms(id.into()), &mut Drops::new());
    }
    assert_eq!(
        run(&mut path, ms(0))
            .iter()
            .map(|(time, packet)| (*time / 1_000_000, packet.id))
            .collect::<Vec<_>>(),
        [(20, 0), (21, 1), (22, 2)]
    );
}

/// Packets leave when their delays end, so jitter reorders them; a link keeps them in line.
#[test]
fn jitter_reorders_but_not_on_a_link() {
    for (options, in_order) in [("", false), (" rate 1gbit", true)] {
        let mut path = words(&["netem delay 20ms 5ms", options].concat());
        put(&mut path, 100, 1000, ms(0));
        let left = run(&mut path, ms(0));
        assert!(
            left.iter()
                .all(|(time, _)| (15_000_000..26_000_000).contains(time))
        );
        assert_eq!(
            left.iter().map(|(_, packet)| packet.id).is_sorted(),
            in_order
        );
        assert!(left.is_sorted_by_key(|(time, _)| *time));
    }
}

/// Mean and deviation of delays, for each distribution: sums of 10 000.
#[test]
fn delays_have_their_mean_and_deviation() {
    for (distribution, mean, deviation) in [
        ("uniform", 50.0, 10.0 / 3f64.sqrt()),
        ("normal", 50.0, 10.0),
        ("pareto", 49.7, 8.2),
        ("paretonormal", 49.8, 8.5),
    ] {
        let mut path = words(
            &[
                "netem limit 10000 delay 50ms 10ms distribution ",
                distribution,
            ]
            .concat(),
        );
        put(&mut path, 10_000, 100, ms(0));
        let delays: Vec<f64> = run(&mut path, ms(0))
            .iter()
            .map(|(time, _)| *time as f64 / 1e6)
            .collect();
        let average = delays.iter().sum::<f64>() / 1e4;
        let variance = delays
            .iter()
            .map(|delay| (delay - average) * (delay - average))
            .sum::<f64>()
            / 1e4;
        assert!((average - mean).abs() < 0.4, "{distribution}: {average}");
        assert!(
            (variance.sqrt() - deviation).abs() < 0.5,
            "{distribution}: {}",
            variance.sqrt()
        );
    }
}

/// Correlated delays: neighbors are alike, unless numbers become delays by their remainder.
#[test]
fn correlation_makes_neighbors_alike() {
    let step = |options: &str| {
        let mut path = words(&["netem limit 10000 delay 50ms 10ms ", options].concat());
        let mut last = None;
        let mut steps = 0;
        for _ in 0..2000 {
            put(&mut path, 1, 100, ms(0));
            let (time, _) = run(&mut path, ms(0))[0];
            steps += last
                .replace(time)
                .map_or(0, |last: u64| last.abs_diff(time));
        }
        steps / 2_000_000
    };
    let [independent, correlated, linux] = ["", "90%", "90% linux"].map(step);
    assert!(
        (6_000..7_300).contains(&independent) && correlated < 1000,
        "{independent} {correlated}"
    );
    assert!((6_000..7_300).contains(&linux), "{linux}");
}

#[test]
fn lost_packets_come_out_as_drops() {
    let mut path = words("netem limit 10000 loss 10%");
    let dropped = put(&mut path, 10_000, 100, ms(0));
    assert!(
        (880..1120).contains(&dropped.len())
            && dropped
                .iter()
                .all(|(_, reason)| *reason == DropReason::Loss)
    );
    assert_eq!(times(&mut path).len() + dropped.len(), 10_000);
}

#[test]
fn with_ecn_losses_become_marks() {
    let (mut path, mut drops) = (words("netem loss 100% ecn"), Drops::new());
    for tos in 0..4 {
        path.enqueue(Probe::new(tos.into()).tos(tos), ms(0), &mut drops);
    }
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(0, DropReason::Loss)]
    );
    assert_eq!(
        run(&mut path, ms(0))
            .iter()
            .map(|(_, packet)| (packet.id, packet.tos))
            .collect::<Vec<_>>(),
        [(1, 3), (2, 3), (3, 3)]
    );
    assert_eq!(
        path.report().counters[..2],
        [("lost", Value::Count(1)), ("ecn_mark", Value::Count(3))]
    );
}

#[test]
fn duplicates_come_once_more_and_are_born() {
    let mut path = words("netem duplicate 100%");
    assert!(put(&mut path, 3, 100, ms(0)).is_empty());
    assert_eq!(
        ids(run(&mut path, ms(0)).into_iter().map(|(_, packet)| packet)),
        [0, 0, 1, 1, 2, 2]
    );
    // The loss of one of two leaves one.
    let mut path = words("netem duplicate 100% loss 100%");
    assert!(put(&mut path, 3, 100, ms(0)).is_empty());
    assert_eq!(times(&mut path).len(), 3);
    let mut path = words("netem duplicate 100% limit 3");
    assert_eq!(put(&mut path, 2, 100, ms(0)), [(1, DropReason::Overlimit)]);
    assert_eq!(
        ids(run(&mut path, ms(0)).into_iter().map(|(_, packet)| packet)),
        [0, 0, 1]
    );
}

#[test]
fn corruption_flips_one_bit() {
    let (mut path, mut drops) = (words("netem corrupt 100%"), Drops::new());
    let bits: Vec<u32> = (0..50)
        .map(|id| {
            path.enqueue(Probe::new(id).with_headers(vec![0; 40]), ms(0), &mut drops);
            let packet = path.dequeue(ms(0), &mut drops).expect("queued");
            let bytes = packet.headers();
            assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
            bytes.iter().position(|&byte| byte != 0).expect("flipped") as u32
        })
        .collect();
    assert!(bits.iter().min() < Some(&8) && bits.iter().max() > Some(&31));
    put(&mut path, 1, 0, ms(0));
    assert_eq!(times(&mut path).len(), 1);
    assert_eq!(
        path.report().counters[3],
        ("corrupted", Value::Count(50)),
        "what is empty has no bit"
    );
}

/// A packet of three segments becomes three packets, which weigh what it did.
#[test]
fn only_the_first_segment_is_corrupted() {
    let (mut path, mut drops) = (words("netem corrupt 100% delay 5ms limit 2"), Drops::new());
    path.enqueue(
        Probe::new(7).sized(3 * (54 + 1000)).of_segments(3),
        ms(0),
        &mut drops,
    );
    assert_eq!(
        path.backlog(),
        Backlog {
            packets: 2,
            bytes: Bytes::new(2 * 1054)
        }
    );
    let births = drops.births();
    assert_eq!((births.packets, births.bytes), (2, Bytes::ZERO));
    assert_eq!(path.report().counters[5], ("split", Value::Count(1)));
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [7]);
    assert_eq!(times(&mut path), [5000, 5000]);
}

/// `reorder 100% gap 3`: every third packet overtakes, at once.
#[test]
fn with_a_gap_packets_overtake_in_turn() {
    let mut path = words("netem delay 10ms reorder 100% gap 3");
    put(&mut path, 7, 100, ms(0));
    let left: Vec<(u64, u32)> = run(&mut path, ms(0))
        .iter()
        .map(|(time, packet)| (*time / 1_000_000, packet.id))
        .collect();
    assert_eq!(
        left,
        [(0, 5), (0, 2), (10, 0), (10, 1), (10, 3), (10, 4), (10, 6)]
    );
    assert_eq!(path.report().requeues, 2);
    let mut path = words("netem limit 10000 delay 10ms reorder 25% 0%");
    put(&mut path, 10_000, 100, ms(0));
    assert!((2300..2700).contains(&path.report().requeues));
}

/// Packets on the path and packets queued below count against the limit.
#[test]
fn the_limit_counts_everything() {
    let mut path = words("netem limit 2 delay 10ms");
    assert_eq!(put(&mut path, 3, 100, ms(0)), [(2, DropReason::Overlimit)]);
    assert_eq!(
        put(&mut words("netem limit 0"), 1, 100, ms(0)),
        [(0, DropReason::Overlimit)]
    );
}

/// Two packets or 2500 bytes a window; a window opens 10 ms after the one before was used up.
#[test]
fn packets_leave_in_windows() {
    for (slots, expected) in [
        ("packets 2", [0, 0, 10_000, 10_000, 20_000]),
        ("bytes 2500", [0, 0, 0, 10_000, 10_000]),
        ("packets 9 bytes 1", [0, 10_000, 20_000, 30_000, 40_000]),
    ] {
        let mut path = words(&["netem slot 10ms ", slots].concat());
        put(&mut path, 5, 1000, ms(0));
        assert_eq!(times(&mut path), expected, "{slots}");
    }
    // Who arrives after a window opened waits for the next one.
    let mut path = words("netem slot 800us 10ms");
    put(&mut path, 2, 1000, ms(100));
    assert!(path.dequeue(ms(100), &mut Drops::new()).is_none());
    let left = times(&mut path);
    assert!(
        (100_800..110_000).contains(&left[0]) && left[0] == left[1],
        "{left:?}"
    );
    let mut path = words("netem slot distribution normal 10ms 1ms packets 1");
    put(&mut path, 1000, 1000, ms(0));
    let left = times(&mut path);
    assert!(
        (9_900_000..10_100_000).contains(&left[999]),
        "{}",
        left[999]
    );
}

/// The qdisc below sees packets when they have passed the path.
#[test]
fn the_child_gets_what_is_due() {
    let config = Config {
        delay: millis(10),
        ..Config::default()
    };
    let child = Pfifo::new(pfifo::Config { limit: 2 });
    let (mut path, mut drops) = (
        Ledger::new(Netem::with_child(config, child).expect("valid")),
        Drops::new(),
    );
    for id in 0..3 {
        path.enqueue(Probe::new(id), ms(0), &mut drops);
    }
    assert!(path.dequeue(ms(9), &mut drops).is_none() && drops.is_empty());
    assert_eq!(path.ready_at(), Some(ms(10)));
    let first = path.dequeue(ms(11), &mut drops).expect("due");
    assert_eq!((first.id, first.enqueued()), (0, ms(11)));
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [2]);
    assert_eq!(
        (path.ready_at(), path.backlog().packets),
        (Some(Instant::ZERO), 1)
    );
    path.change(
        Target::Below(ClassId::new(0, 1)),
        &mut Words::new("limit 9"),
        ms(1),
        &mut Drops::new(),
    )
    .expect("a child");
    assert_eq!(path.report().children.len(), 1);
}

#[test]
fn a_child_can_be_grafted() {
    let mut path = Netem::new(Config {
        delay: millis(1),
        ..Config::default()
    })
    .expect("valid")
    .with_handle(1);
    let mut drops = Drops::new();
    let fifo =
        |limit| -> Box<dyn DynQdisc<Probe>> { Box::new(Pfifo::new(pfifo::Config { limit })) };
    path.graft(ClassId::new(1, 2), fifo(5), &mut drops)
        .expect_err("no such class");
    path.graft(ClassId::new(1, 1), fifo(5), &mut drops)
        .expect("its class");
    put(&mut path, 3, 100, ms(0));
    assert!(path.dequeue(ms(1), &mut drops).is_some());
    path.graft(ClassId::new(1, 1), fifo(5), &mut drops)
        .expect("its class");
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(1, DropReason::Reset), (2, DropReason::Reset)]
    );
    path.change(
        Target::Below(ClassId::new(1, 1)),
        &mut Words::new("limit 1"),
        ms(1),
        &mut drops,
    )
    .expect("a child");
    assert_eq!(
        path.child().expect("a child").report().options,
        [("limit", Value::Packets(1))]
    );
    let drr = build("qdisc root handle 2: drr; class classid 2:1 drr").expect("valid");
    path.graft(ClassId::new(1, 1), drr, &mut drops)
        .expect("its class");
    let mut change = |class| {
        path.change(
            Target::Class(class),
            &mut Words::new("quantum 100"),
            ms(1),
            &mut drops,
        )
    };
    change(ClassId::new(2, 1)).expect("a class below");
    assert_eq!(
        change(ClassId::new(1, 1))
            .expect_err("no options")
            .to_string(),
        "netem has no class 1:1"
    );
}

#[test]
fn a_live_change_leaves_packets_on_their_way() {
    let (mut path, mut drops) = (words("netem delay 10ms"), Drops::new());
    put(&mut path, 2, 100, ms(0));
    path.change(
        Target::Root,
        &mut Words::new("delay 1ms limit 1 slot 1ms loss 100%"),
        ms(0),
        &mut drops,
    )
    .expect("valid");
    assert_eq!(put(&mut path, 1, 100, ms(0)), [(0, DropReason::Loss)]);
    path.change(
        Target::Root,
        &mut Words::new("loss 0% seed 5 slot 0"),
        ms(0),
        &mut drops,
    )
    .expect("valid");
    assert_eq!(put(&mut path, 1, 100, ms(0)), [(0, DropReason::Overlimit)]);
    path.change(
        Target::Root,
        &mut Words::new("distribution normal"),
        ms(0),
        &mut drops,
    )
    .expect_err("no jitter");
    path.change(
        Target::Class(ClassId::new(0, 1)),
        &mut Words::new("x"),
        ms(0),
        &mut drops,
    )
    .expect_err("no options");
    assert_eq!(times(&mut path), [10_000, 10_000]);
}

/// The same seed gives the same fates, another one others.
#[test]
fn the_seed_decides() {
    let fates = |seed: u64| {
        let config = Config {
            loss: Loss::Random(Chance::of(0.5)),
            seed,
            ..Config::default()
        };
        put(&mut path(config), 100, 100, ms(0))
    };
    assert_eq!(fates(1), fates(1));
    assert_ne!(fates(1), fates(2));
}

#[test]
fn contradictions_are_named() {
    for (words, parameter) in [
        ("distribution normal", "distribution"),
        ("reorder 25%", "reorder"),
        ("delay 1ms gap 0", "gap"),
        ("loss state 60% 50% 0% 0% 50%", "loss"),
        ("slot 2ms 1ms", "slot"),
        ("slot 1ms packets 0", "packets"),
        ("slot 1ms bytes 0", "bytes"),
    ] {
        let Ok(Kind::Netem(config)) = ["netem ", words].concat().parse() else {
            panic!("{words} parse")
        };
        assert_eq!(
            Netem::<Probe, Box<dyn DynQdisc<Probe>>>::new(config)
                .err()
                .map(|error| error.parameter),
            Some(parameter),
            "{words}"
        );
    }
    let stopped = Link {
        rate: Rate::ZERO,
        packet_overhead: 0,
        cells: None,
    };
    let empty = Link {
        rate: Rate::MAX,
        packet_overhead: 0,
        cells: Some(Cells {
            size: 0,
            overhead: 0,
        }),
    };
    let bad = Chance {
        probability: 0.5,
        correlation: 1.5,
    };
    let reorder = Some(Reorder {
        chance: bad,
        gap: 1,
    });
    for (config, parameter) in [
        (
            Config {
                link: Some(stopped),
                ..Config::default()
            },
            "rate",
        ),
        (
            Config {
                link: Some(empty),
                ..Config::default()
            },
            "rate",
        ),
        (
            Config {
                delay_correlation: f64::NAN,
                ..Config::default()
            },
            "delay",
        ),
        (
            Config {
                loss: Loss::Random(bad),
                ..Config::default()
            },
            "loss",
        ),
        (
            Config {
                duplicate: bad,
                ..Config::default()
            },
            "duplicate",
        ),
        (
            Config {
                corrupt: bad,
                ..Config::default()
            },
            "corrupt",
        ),
        (
            Config {
                reorder,
                delay: millis(1),
                ..Config::default()
            },
            "reorder",
        ),
    ] {
        assert_eq!(
            Netem::<Probe, Box<dyn DynQdisc<Probe>>>::new(config)
                .err()
                .map(|error| error.parameter),
            Some(parameter)
        );
    }
}

#[test]
fn words_have_the_grammar_of_tc() {
    let words = "netem delay 20ms 2ms 25% distribution normal loss random 1% 25% duplicate 0.3% corrupt 0.1% 2% reorder 25% 50% gap 5 \
                 rate 1mbit 20 100 5 slot 800us 10ms packets 42 bytes 64k limit 9 ecn seed 0x10";
    let Ok(Kind::Netem(config)) = words.parse() else {
        panic!("{words} parse")
    };
    let expected = Config {
        limit: 9,
        delay: millis(20),
        jitter: millis(2),
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
                max: millis(10),
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
        "netem loss x",
        "netem slot x",
        "netem distribution x",
        "netem delay 1ms x",
    ] {
        words.parse::<Kind>().expect_err(words);
    }
}

#[test]
fn a_script_puts_a_discipline_at_the_end() {
    let mut path = build::<Probe>("netem delay 10ms; pfifo limit 2").expect("valid");
    assert!(put(&mut path, 3, 100, ms(0)).is_empty());
    let mut drops = Drops::new();
    assert_eq!(
        path.dequeue(ms(10), &mut drops).map(|packet| packet.id),
        Some(0)
    );
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [2]);
    assert_eq!(path.report().children[0].kind, "pfifo");
}
