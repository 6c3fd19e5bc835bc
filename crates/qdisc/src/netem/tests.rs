//! netem against the worked examples of `net/sched/sch_netem.c` and, one by one, what it promises.

use super::*;
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use crate::testing::Edit;
use alloc::vec::Vec;
use std::boxed::Box;
use std::vec;
use tautline_base::Rate;
use tautline_testkit::{Probe, ids};

type Path = Ledger<Netem<Probe, Box<dyn Qdisc<Probe>>>>;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn path(config: Config) -> Path {
    Ledger::new(Netem::new(config).expect("valid"))
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

/// A link of `rate`, which adds `packet_overhead` to each packet.
fn link(rate: Rate, packet_overhead: i32, cells: Option<Cells>) -> Option<Link> {
    Some(Link {
        rate,
        packet_overhead,
        cells,
    })
}

/// A fixed delay.
fn delayed(delay: u64) -> Config {
    Config {
        delay: millis(delay),
        ..Config::default()
    }
}

/// A delay of 50 ms with a jitter of 10 ms, for many packets.
fn jittery() -> Config {
    Config {
        limit: 10_000,
        jitter: millis(10),
        ..delayed(50)
    }
}

/// Every packet meets it.
const ALWAYS: Chance = Chance::of(1.0);

/// Worked: 1 Mbit, 10 ms, three 1250-byte packets at 0 leave at 20, 30, 40 ms.
#[test]
fn the_link_takes_its_time_and_waiting_counts_as_delay() {
    let mut path = self::path(Config {
        link: link(Rate::mbit(1), 0, None),
        ..delayed(10)
    });
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
    let atm = Cells {
        size: 48,
        overhead: 5,
    };
    for (overhead, cells, micros) in [
        (0, None, 100),
        (20, None, 120),
        (-20, None, 80),
        (20, Some(atm), 159),
        (-200, None, 0),
    ] {
        let mut path = self::path(Config {
            link: link(Rate::mbit(8), overhead, cells),
            ..Config::default()
        });
        put(&mut path, 1, 100, ms(0));
        assert_eq!(times(&mut path), [micros], "{overhead} {cells:?}");
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
    let mut path = self::path(delayed(20));
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
    for (link, in_order) in [(None, false), (link(Rate::gbit(1), 0, None), true)] {
        let mut path = self::path(Config {
            jitter: millis(5),
            link,
            ..delayed(20)
        });
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
        (Distribution::Uniform, 50.0, 10.0 / 3f64.sqrt()),
        (Distribution::Normal, 50.0, 10.0),
        (Distribution::Pareto, 49.7, 8.2),
        (Distribution::ParetoNormal, 49.8, 8.5),
    ] {
        let mut path = self::path(Config {
            distribution,
            ..jittery()
        });
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
        assert!((average - mean).abs() < 0.4, "{distribution:?}: {average}");
        assert!(
            (variance.sqrt() - deviation).abs() < 0.5,
            "{distribution:?}: {}",
            variance.sqrt()
        );
    }
}

/// Correlated delays: neighbors are alike, unless numbers become delays by their remainder.
#[test]
fn correlation_makes_neighbors_alike() {
    let step = |(delay_correlation, draw)| {
        let mut path = self::path(Config {
            delay_correlation,
            draw,
            ..jittery()
        });
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
    let [independent, correlated, linux] = [
        (0.0, Draw::Scaled),
        (0.9, Draw::Scaled),
        (0.9, Draw::Remainder),
    ]
    .map(step);
    assert!(
        (6_000..7_300).contains(&independent) && correlated < 1000,
        "{independent} {correlated}"
    );
    assert!((6_000..7_300).contains(&linux), "{linux}");
}

#[test]
fn lost_packets_come_out_as_drops() {
    let mut path = self::path(Config {
        limit: 10_000,
        loss: Loss::Random(Chance::of(0.1)),
        ..Config::default()
    });
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
    let (mut path, mut drops) = (
        self::path(Config {
            loss: Loss::Random(ALWAYS),
            ecn: true,
            ..Config::default()
        }),
        Drops::new(),
    );
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
    let Stats { lost, ecn_mark, .. } = *path.inner().stats();
    assert_eq!((lost, ecn_mark), (1, 3));
}

#[test]
fn duplicates_come_once_more_and_are_born() {
    let mut path = self::path(Config {
        duplicate: ALWAYS,
        ..Config::default()
    });
    assert!(put(&mut path, 3, 100, ms(0)).is_empty());
    assert_eq!(
        ids(run(&mut path, ms(0)).into_iter().map(|(_, packet)| packet)),
        [0, 0, 1, 1, 2, 2]
    );
    // The loss of one of two leaves one.
    let mut path = self::path(Config {
        duplicate: ALWAYS,
        loss: Loss::Random(ALWAYS),
        ..Config::default()
    });
    assert!(put(&mut path, 3, 100, ms(0)).is_empty());
    assert_eq!(times(&mut path).len(), 3);
    let mut path = self::path(Config {
        duplicate: ALWAYS,
        limit: 3,
        ..Config::default()
    });
    assert_eq!(put(&mut path, 2, 100, ms(0)), [(1, DropReason::Overlimit)]);
    assert_eq!(
        ids(run(&mut path, ms(0)).into_iter().map(|(_, packet)| packet)),
        [0, 0, 1]
    );
}

#[test]
fn corruption_flips_one_bit() {
    let (mut path, mut drops) = (
        self::path(Config {
            corrupt: ALWAYS,
            ..Config::default()
        }),
        Drops::new(),
    );
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
        path.inner().stats().corrupted,
        50,
        "what is empty has no bit"
    );
}

/// A packet of three segments becomes three packets, which weigh what it did.
#[test]
fn only_the_first_segment_is_corrupted() {
    let (mut path, mut drops) = (
        self::path(Config {
            corrupt: ALWAYS,
            limit: 2,
            ..delayed(5)
        }),
        Drops::new(),
    );
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
    assert_eq!(path.inner().stats().split, 1);
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [7]);
    assert_eq!(times(&mut path), [5000, 5000]);
}

/// `reorder 100% gap 3`: every third packet overtakes, at once.
#[test]
fn with_a_gap_packets_overtake_in_turn() {
    let mut path = self::path(Config {
        reorder: Some(Reorder {
            chance: ALWAYS,
            gap: 3,
        }),
        ..delayed(10)
    });
    put(&mut path, 7, 100, ms(0));
    let left: Vec<(u64, u32)> = run(&mut path, ms(0))
        .iter()
        .map(|(time, packet)| (*time / 1_000_000, packet.id))
        .collect();
    assert_eq!(
        left,
        [(0, 5), (0, 2), (10, 0), (10, 1), (10, 3), (10, 4), (10, 6)]
    );
    assert_eq!(path.inner().stats().reordered, 2);
    let mut path = self::path(Config {
        limit: 10_000,
        reorder: Some(Reorder {
            chance: Chance::of(0.25),
            gap: 1,
        }),
        ..delayed(10)
    });
    put(&mut path, 10_000, 100, ms(0));
    assert!((2300..2700).contains(&path.inner().stats().reordered));
}

/// Packets on the path and packets queued below count against the limit.
#[test]
fn the_limit_counts_everything() {
    let mut path = self::path(Config {
        limit: 2,
        ..delayed(10)
    });
    assert_eq!(put(&mut path, 3, 100, ms(0)), [(2, DropReason::Overlimit)]);
    let mut none = self::path(Config {
        limit: 0,
        ..Config::default()
    });
    assert_eq!(put(&mut none, 1, 100, ms(0)), [(0, DropReason::Overlimit)]);
}

/// Two packets or 2500 bytes a window; a window opens 10 ms after the one before was used up.
#[test]
fn packets_leave_in_windows() {
    let slotted = |every, packets, bytes: Option<u64>| {
        let slots = Some(Slots {
            every,
            packets,
            bytes: bytes.map(Bytes::new),
        });
        self::path(Config {
            slots,
            ..Config::default()
        })
    };
    let ten = Spacing::Range {
        min: millis(10),
        max: millis(10),
    };
    for (packets, bytes, expected) in [
        (Some(2), None, [0, 0, 10_000, 10_000, 20_000]),
        (None, Some(2500), [0, 0, 0, 10_000, 10_000]),
        (Some(9), Some(1), [0, 10_000, 20_000, 30_000, 40_000]),
    ] {
        let mut path = slotted(ten, packets, bytes);
        put(&mut path, 5, 1000, ms(0));
        assert_eq!(times(&mut path), expected, "{packets:?} {bytes:?}");
    }
    // Who arrives after a window opened waits for the next one.
    let range = Spacing::Range {
        min: Duration::from_micros(800),
        max: millis(10),
    };
    let mut path = slotted(range, None, None);
    put(&mut path, 2, 1000, ms(100));
    assert!(path.dequeue(ms(100), &mut Drops::new()).is_none());
    let left = times(&mut path);
    assert!(
        (100_800..110_000).contains(&left[0]) && left[0] == left[1],
        "{left:?}"
    );
    let normal = Spacing::Spread {
        distribution: Distribution::Normal,
        delay: millis(10),
        jitter: millis(1),
    };
    let mut path = slotted(normal, Some(1), None);
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
    let below = |child: &mut Pfifo<Probe>, _: &mut Drops<Probe>| {
        child.reconfigure(pfifo::Config { limit: 9 });
    };
    path.inner_mut()
        .with_child(ClassId::new(0, 1), &mut drops, below)
        .expect("a child");
    assert_eq!(
        path.inner().child().map(|child| child.config().limit),
        Some(9)
    );
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
    let fifo = |limit| Pfifo::new(pfifo::Config { limit });
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
    let other = path.with_child(ClassId::new(1, 2), &mut drops, |_, _| ());
    assert_eq!(other, None, "no such class");
}

#[test]
fn a_live_change_leaves_packets_on_their_way() {
    let (mut path, mut drops) = (self::path(delayed(10)), Drops::new());
    put(&mut path, 2, 100, ms(0));
    let slots = Slots {
        every: Spacing::Range {
            min: millis(1),
            max: millis(1),
        },
        packets: None,
        bytes: None,
    };
    path.edit(ms(0), &mut drops, |config| {
        (config.delay, config.limit, config.slots) = (millis(1), 1, Some(slots));
        config.loss = Loss::Random(ALWAYS);
    })
    .expect("valid");
    assert_eq!(put(&mut path, 1, 100, ms(0)), [(0, DropReason::Loss)]);
    path.edit(ms(0), &mut drops, |config| {
        (config.loss, config.seed, config.slots) = (Loss::Random(Chance::of(0.0)), 5, None);
    })
    .expect("valid");
    assert_eq!(put(&mut path, 1, 100, ms(0)), [(0, DropReason::Overlimit)]);
    path.edit(ms(0), &mut drops, |config| {
        config.distribution = Distribution::Normal;
    })
    .expect_err("no jitter");
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
        put(&mut self::path(config), 100, 100, ms(0))
    };
    assert_eq!(fates(1), fates(1));
    assert_ne!(fates(1), fates(2));
}

#[test]
fn contradictions_are_named() {
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
            Netem::<Probe, Box<dyn Qdisc<Probe>>>::new(config)
                .err()
                .map(|error| error.parameter),
            Some(parameter)
        );
    }
}
