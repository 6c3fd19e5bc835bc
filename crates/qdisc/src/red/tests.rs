//! RED against the worked examples of `include/net/red.h`, its modes, and its invariants.

use core::time::Duration;

use super::*;
use crate::codel::{self, Codel};
use crate::fq_codel::{self, FqCodel};
use crate::ledger::Ledger;
use crate::parked::Parked;
use crate::testing::Edit;
use alloc::vec::Vec;
use proptest::collection::vec;
use proptest::prelude::*;
use tautline_testkit::Probe;

const ECT0: u8 = 2;
const CE: u8 = 3;
const START: Instant = Instant::from_secs(1);

/// The parameters of the worked examples: min 30000 max 90000 avpkt 1000 burst 55.
fn worked() -> Params {
    Params {
        min: Some(Bytes::new(30_000)),
        max: Some(Bytes::new(90_000)),
        burst: Some(55),
        ..Params::default()
    }
}

fn aqm(params: &Params) -> Aqm {
    Aqm::new(params, Bytes::new(400_000)).expect("valid")
}

/// The decisions about `count` packets that arrive at a constant backlog.
fn arrivals(aqm: &Aqm, backlog: u64, count: usize) -> Vec<Congestion> {
    let (mut state, mut random) = (aqm.settled(backlog.min(1 << 32)), Random::new(7));
    (0..count)
        .map(|_| aqm.arrive(&mut state, Bytes::new(backlog), START, &mut random))
        .collect()
}

/// The numbers of packets from one signal to the next.
fn gaps(met: &[Congestion]) -> Vec<usize> {
    let at: Vec<usize> = (0..met.len())
        .filter(|&at| met[at] == Congestion::Probable)
        .collect();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// `include/net/red.h`, worked by hand.
#[test]
fn the_average_approaches_a_constant_backlog() {
    let (aqm, mut state, mut random) = (aqm(&worked()), State::default(), Random::new(0));
    assert_eq!(aqm.parts().0, 5);
    let averages: Vec<u64> = (0..500)
        .map(|_| {
            aqm.arrive(&mut state, Bytes::new(60_000), START, &mut random);
            aqm.average(&state).get()
        })
        .collect();
    for (arrival, average) in [
        (1, 1875),
        (2, 3691),
        (3, 5451),
        (10, 16_321),
        (50, 47_733),
        (100, 57_492),
        (200, 59_895),
        (500, 60_000),
    ] {
        assert_eq!(averages[arrival - 1], average, "after {arrival}");
    }
}

/// `red_peek` in `net/sched/sch_red.c`: a packet that a parent peeks at stays in the child's count.
#[test]
fn a_packet_peeked_at_counts_in_the_limit_of_the_child() {
    let config = codel::Config {
        limit: 2,
        ..codel::Config::default()
    };
    let red = Red::over(Config::default(), Codel::new(config).expect("valid")).expect("valid");
    let (mut queue, mut drops) = (Ledger::new(Parked::new(red)), Drops::new());
    (0..2).for_each(|id| queue.enqueue(Probe::new(id), START, &mut drops));
    assert!(queue.peek_len(START, &mut drops).is_some());
    queue.enqueue(Probe::new(2), START, &mut drops);
    assert_eq!((queue.backlog().packets, drops.len()), (2, 1));
}

/// `include/net/red.h`, worked by hand: probability 1 %, gaps spread evenly from 1 to 101.
#[test]
fn signals_are_spread_evenly() {
    let aqm = aqm(&worked());
    assert_eq!(aqm.parts(), (5, 85_899_345, 1431));
    assert!((aqm.probability(60_000) - 0.01).abs() < 1e-9);
    let met = arrivals(&aqm, 60_000, 200_000);
    let gaps = gaps(&met);
    assert!(gaps.iter().min() == Some(&1) && gaps.iter().max() >= Some(&100));
    assert!(
        !aqm.exceeds(100, 60_000, u32::MAX) && aqm.exceeds(101, 60_000, u32::MAX),
        "never more than 101"
    );
    // Geometric gaps would have 63 % below the mean of 100, and a fifth beyond 160.
    let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
    assert!((48.0..54.0).contains(&mean), "{mean}");
    let low = gaps.iter().filter(|&&gap| gap <= 25).count() as f64 / gaps.len() as f64;
    assert!((0.22..0.28).contains(&low), "{low}");
}

/// The packet with which the average comes between the thresholds only draws a gap, however likely
/// a signal is.
#[test]
fn the_first_packet_between_the_thresholds_passes() {
    let met = arrivals(
        &aqm(&Params {
            gentle: true,
            ..worked()
        }),
        179_999,
        100,
    );
    assert_eq!(met[0], Congestion::None);
    assert!(
        met[1..]
            .iter()
            .all(|congestion| *congestion == Congestion::Probable)
    );
}

/// `include/net/red.h`: a return between the thresholds begins a gap anew.
#[test]
fn a_gap_ends_outside_the_thresholds() {
    let quick = Params {
        gentle: true,
        burst: Some(30),
        ..worked()
    };
    let (aqm, mut random) = (aqm(&quick), Random::new(0));
    assert_eq!(aqm.parts().0, 1, "an average that follows at once, nearly");
    let mut state = aqm.settled(179_000);
    for _ in 0..50 {
        let met = [0, 0, 0, 335_000].map(|backlog| {
            let met = aqm.arrive(&mut state, Bytes::new(backlog), START, &mut random);
            (met, aqm.average(&state).get() < 30_000)
        });
        assert!(met[2].1 && met[3] == (Congestion::None, false), "{met:?}");
    }
}

/// `include/net/red.h`: nothing below the lower threshold, everything from the upper one on; and
/// the count of a gap starts anew.
#[test]
fn the_thresholds_are_sharp() {
    let aqm = aqm(&worked());
    for (backlog, met) in [
        (0, Congestion::None),
        (29_999, Congestion::None),
        (90_000, Congestion::Forced),
        (u64::MAX, Congestion::Forced),
    ] {
        assert!(
            arrivals(&aqm, backlog, 1000)
                .iter()
                .all(|congestion| *congestion == met),
            "{backlog}"
        );
    }
    let at_min = arrivals(&aqm, 30_000, 1000);
    assert!(
        at_min
            .iter()
            .all(|congestion| *congestion == Congestion::None),
        "zero bytes above weigh nothing"
    );
    // As wide as nothing: a step, as DCTCP wants it.
    let step = self::aqm(&Params {
        max: Some(Bytes::new(30_000)),
        ..worked()
    });
    assert!(
        arrivals(&step, 29_999, 100)
            .iter()
            .all(|congestion| *congestion == Congestion::None)
    );
    assert!(
        arrivals(&step, 30_000, 100)
            .iter()
            .all(|congestion| *congestion == Congestion::Forced)
    );
}

/// `include/net/red.h`, worked by hand: gentle at 90000: 0.02; 135000: 0.51; 180000: 1.
#[test]
fn gentle_rises_to_one_at_twice_the_maximum() {
    let aqm = aqm(&Params {
        gentle: true,
        ..worked()
    });
    for (average, probability) in [
        (60_000, 0.01),
        (90_000, 0.02),
        (135_000, 0.51),
        (180_000, 1.0),
    ] {
        assert!(
            (aqm.probability(average) - probability).abs() < 1e-6,
            "{average}"
        );
    }
    for (backlog, longest) in [(90_000, 50), (135_000, 2), (179_999, 1)] {
        let gaps = gaps(&arrivals(&aqm, backlog, 20_000));
        assert_eq!(gaps.iter().max(), Some(&longest), "{backlog}");
    }
    assert!(
        arrivals(&aqm, 180_000, 100)
            .iter()
            .all(|congestion| *congestion == Congestion::Forced)
    );
}

/// `include/net/red.h`, worked by hand: the probability at a high, a low and a middling average,
/// every half second.
#[test]
fn the_adaptive_probability_takes_the_worked_steps() {
    let steps = |backlog, count: u64| -> Vec<f64> {
        let mut aqm = aqm(&worked());
        let state = aqm.settled(backlog);
        aqm.adapt(&state, START);
        let mut at = |half_seconds: u64| {
            aqm.adapt(
                &state,
                START + PERIOD * u32::try_from(half_seconds).expect("few")
                    - Duration::from_nanos(1),
            );
            let before = aqm.max_probability();
            aqm.adapt(
                &state,
                START + PERIOD * u32::try_from(half_seconds).expect("few"),
            );
            (before, aqm.max_probability())
        };
        let pairs: Vec<(f64, f64)> = (1..=count).map(&mut at).collect();
        assert!(
            pairs.windows(2).all(|pair| pair[0].1 == pair[1].0),
            "nothing moves in between"
        );
        pairs.into_iter().map(|(_, after)| after).collect()
    };
    let close = |steps: Vec<f64>, expected: &[f64]| {
        assert!(
            steps
                .iter()
                .zip(expected)
                .all(|(step, expected)| (step - expected).abs() < 1e-6),
            "{steps:?}"
        );
    };
    close(
        steps(66_001, 6),
        &[0.025, 0.03125, 0.039063, 0.048828, 0.058828, 0.068828],
    );
    close(
        steps(53_999, 8),
        &[
            0.018, 0.0162, 0.01458, 0.013122, 0.01181, 0.010629, 0.009566, 0.009566,
        ],
    );
    close(steps(66_000, 2), &[0.02, 0.02]);
    close(steps(54_000, 2), &[0.02, 0.02]);
    // One step beyond a half, and no further.
    let top = steps(89_000, 100);
    assert!(
        top[99] > 0.5 && top[99] < 0.51 && top[99] == top[98],
        "{}",
        top[99]
    );
}

const PERIOD: Duration = Duration::from_millis(500);

/// Updates missed while nothing arrived are made up for, by the average as it fell meanwhile.
#[test]
fn adaptation_catches_up_over_a_pause() {
    let moved = |idle| {
        let mut aqm = aqm(&Params { idle, ..worked() });
        let mut state = aqm.settled(80_000);
        aqm.adapt(&state, START);
        state.begin_idle(START);
        aqm.adapt(&state, START + PERIOD * 4);
        (aqm.max_probability() * 1e6).round()
    };
    assert_eq!(moved(IdleDecay::Never), 48_828.0);
    assert_eq!(
        moved(IdleDecay::Exact),
        (0.02 * 0.9f64.powi(4) * 1e6).round()
    );
    let mut aqm = aqm(&worked());
    let state = aqm.settled(80_000);
    for now in [START, Instant::from_nanos(u64::MAX), START, START + PERIOD] {
        aqm.adapt(&state, now);
    }
    assert!(
        aqm.max_probability() > 0.5,
        "a clock that leaps does not hang it"
    );
    let mut aqm = self::aqm(&worked());
    for now in [Instant::from_secs(1000), START, START + PERIOD] {
        aqm.adapt(&state, now);
    }
    assert_eq!(
        aqm.parts(),
        (5, 107_374_181, 1790),
        "one that steps back does not stop it"
    );
}

/// The probability is moved if asked, by packets as they come.
#[test]
fn red_adapts_only_if_asked() {
    for (adaptive, expected) in [(false, 0.02), (true, 0.025)] {
        let config = Config {
            red: worked(),
            adaptive,
            ..Config::default()
        };
        let (mut red, mut drops) = (Red::new(config).expect("valid"), Drops::new());
        red.enqueue(Probe::new(0), START, &mut drops);
        red.state = red.aqm.settled(80_000);
        red.enqueue(Probe::new(1), START + PERIOD, &mut drops);
        assert!((red.max_probability() - expected).abs() < 1e-6);
    }
}

/// The fate of 40 packets at an average of 59 000 bytes, where a signal is all but certain.
fn treated(ecn: bool, harddrop: bool, nodrop: bool, forced: bool, tos: u8) -> (Stats, u64) {
    let red = if forced {
        Params {
            max: Some(Bytes::new(2)),
            ..certain()
        }
    } else {
        certain()
    };
    let config = Config {
        red,
        ecn,
        harddrop,
        nodrop,
        ..Config::default()
    };
    let (mut red, mut drops) = (Red::new(config).expect("valid"), Drops::new());
    red.state = red.aqm.settled(59_000);
    for id in 0..40 {
        red.enqueue(Probe::new(id).sized(100).tos(tos), START, &mut drops);
    }
    assert!(
        drops
            .iter()
            .all(|(packet, reason)| packet.tos == tos && *reason == DropReason::Early)
    );
    let passed = red.backlog().packets as u64;
    assert_eq!(passed + drops.len() as u64, 40);
    (red.stats, passed)
}

/// Nearly every packet is signaled, and the average hardly moves.
fn certain() -> Params {
    let (min, max) = (Some(Bytes::new(2)), Some(Bytes::new(60_000)));
    Params {
        min,
        max,
        avpkt: Bytes::new(1),
        burst: Some(1000),
        probability: 1.0,
        ..Params::default()
    }
}

/// `include/net/red.h`: the fate of packets that meet congestion, in every mode.
#[test]
fn signals_follow_the_flags() {
    for forced in [false, true] {
        for (ecn, harddrop, nodrop, tos, marked, kept) in [
            (false, false, false, 0, false, false),
            (false, false, false, ECT0, false, false),
            (false, true, false, ECT0, false, false),
            (true, false, false, 0, false, false),
            (true, false, false, ECT0, true, true),
            (true, true, false, ECT0, !forced, !forced),
            (true, false, true, 0, false, true),
            (true, false, true, ECT0, true, true),
            (true, true, true, 0, false, !forced),
        ] {
            let case = alloc::format!(
                "forced {forced} ecn {ecn} harddrop {harddrop} nodrop {nodrop} tos {tos}"
            );
            let (stats, passed) = treated(ecn, harddrop, nodrop, forced, tos);
            let Stats {
                prob_mark,
                forced_mark,
                prob_drop,
                forced_drop,
                pdrop,
                overlimits,
            } = stats;
            assert!(
                overlimits > 20 && (!forced || overlimits == 40),
                "{case}: {stats:?}"
            );
            assert_eq!(pdrop, 0, "{case}");
            let (marks, drops) = if forced {
                (forced_mark, forced_drop)
            } else {
                (prob_mark, prob_drop)
            };
            assert_eq!(
                prob_mark + prob_drop + forced_mark + forced_drop,
                marks + drops,
                "{case}"
            );
            assert_eq!(marks, if marked { overlimits } else { 0 }, "{case}");
            assert_eq!(drops, if kept { 0 } else { overlimits }, "{case}");
            assert_eq!(passed, if kept { 40 } else { 40 - overlimits }, "{case}");
        }
    }
}

/// A step at `threshold` with an average of weight one half.
fn step(threshold: u64) -> Config {
    let (bytes, burst) = (
        Some(Bytes::new(threshold)),
        u32::try_from(threshold / 100).ok(),
    );
    let red = Params {
        min: bytes,
        max: bytes,
        avpkt: Bytes::new(100),
        burst,
        ..Params::default()
    };
    Config {
        limit: Bytes::new(5000),
        red,
        ..Config::default()
    }
}

/// `include/net/red.h`: packets that are dropped count for the average too. And the child refuses
/// what exceeds the limit.
#[test]
fn the_average_is_updated_by_every_arrival() {
    let (mut red, mut drops) = (Red::new(step(700)).expect("valid"), Drops::new());
    let mut averages = Vec::new();
    for id in 0..4 {
        red.enqueue(Probe::new(id).sized(1000), START, &mut drops);
        averages.push(red.average().get());
    }
    assert_eq!(
        averages,
        [0, 500, 1250, 1625],
        "backlog 0, 1000, 2000, 2000"
    );
    assert_eq!(
        (
            red.stats().forced_drop,
            red.stats().pdrop,
            red.backlog().packets
        ),
        (2, 0, 2)
    );
    let mut red = Red::new(step(5000)).expect("valid");
    for id in 0..8 {
        red.enqueue(Probe::new(id).sized(1000), START, &mut drops);
    }
    assert_eq!(
        (
            red.stats().pdrop,
            red.stats().overlimits,
            red.backlog().bytes
        ),
        (3, 0, Bytes::new(5000))
    );
}

/// The average falls while the queue is empty, from the dequeue that emptied it.
#[test]
fn a_pause_lets_the_average_fall() {
    let after_pause = |idle, pause| {
        let config = Config {
            red: Params { idle, ..worked() },
            ..Config::default()
        };
        let (mut red, mut drops) = (Red::new(config).expect("valid"), Drops::new());
        for id in 0..20 {
            red.enqueue(Probe::new(id).sized(1000), START, &mut drops);
        }
        (0..20).for_each(|_| drop(red.dequeue(START, &mut drops)));
        red.dequeue(START + Duration::from_millis(5), &mut drops);
        red.enqueue(Probe::new(20), START + pause, &mut drops);
        red.average().get()
    };
    let before = after_pause(IdleDecay::Exact, Duration::ZERO);
    assert!(before > 4000, "{before}");
    assert_eq!(
        after_pause(IdleDecay::Never, Duration::from_secs(5)),
        before
    );
    let ten_packets = Duration::from_millis(8);
    let left = (before as f64 * (31.0f64 / 32.0).powi(10)) as u64;
    assert!(after_pause(IdleDecay::Exact, ten_packets).abs_diff(left) <= 1);
    let linux = after_pause(IdleDecay::Linux, ten_packets);
    assert!(linux > left && linux < before);
}

/// Effect: on a link 10 % overloaded by senders that halve when told, RED holds the queue near its
/// thresholds; without it the buffer stands full.
#[test]
fn red_keeps_the_buffer_from_filling() {
    let standing = |red: Params| {
        let (mut red, mut drops) = (
            Red::new(Config {
                red,
                ..Config::default()
            })
            .expect("valid"),
            Drops::new(),
        );
        let (mut interval, mut sent_at, mut samples) = (400.0f64, 0.0, Vec::new());
        for id in 0..200_000u32 {
            let now = START + Duration::from_micros(u64::from(id) * 800);
            red.dequeue(now, &mut drops);
            while sent_at <= 800.0 * f64::from(id) {
                red.enqueue(Probe::new(id).sized(1000), now, &mut drops);
                sent_at += interval;
                let told = drops.drain().count();
                interval = if told > 0 {
                    interval * 1.2
                } else {
                    (interval * 0.9995).max(100.0)
                };
            }
            samples.push(red.backlog().bytes.get());
        }
        samples[100_000..].iter().sum::<u64>() / 100_000
    };
    let governed = standing(worked());
    let neutral = standing(Params {
        min: Some(Bytes::new(400_000)),
        max: Some(Bytes::new(400_000)),
        ..worked()
    });
    assert!((10_000..100_000).contains(&governed), "{governed}");
    assert!(neutral > 200_000, "{neutral}");
}

/// `tc`: max from min or the limit, min from max, burst from both.
#[test]
fn what_is_not_given_is_derived() {
    let limit = Bytes::new(400_000);
    let derived = |limit, red: Params| {
        let Params {
            min, max, burst, ..
        } = red.derived(limit);
        (
            min.expect("derived").get(),
            max.expect("derived").get(),
            burst.expect("derived"),
        )
    };
    let given = Params::default;
    assert_eq!(derived(limit, given()), (33_333, 100_000, 55));
    let min = Some(Bytes::new(30_000));
    assert_eq!(
        derived(limit, Params { min, ..given() }),
        (30_000, 90_000, 50)
    );
    let (max, avpkt) = (Some(Bytes::new(90_000)), Bytes::new(500));
    assert_eq!(
        derived(
            limit,
            Params {
                max,
                avpkt,
                ..given()
            }
        ),
        (30_000, 90_000, 100)
    );
    let burst = Some(7);
    assert_eq!(
        derived(Bytes::new(40_000), Params { burst, ..given() }),
        (3333, 10_000, 7)
    );
}

/// A change keeps the average and what is queued; one that is refused changes nothing.
#[test]
fn a_live_change_keeps_the_average() {
    let (mut red, mut drops) = (Red::new(Config::default()).expect("valid"), Drops::new());
    for id in 0..50 {
        red.enqueue(Probe::new(id).sized(1000), START, &mut drops);
    }
    let before = (red.average(), red.backlog());
    red.edit(START, &mut drops, |config| {
        config.limit = Bytes::new(40_000);
        config.red.burst = Some(200);
        config.ecn = true;
    })
    .expect("valid");
    assert_eq!((red.average(), red.backlog()), before);
    assert_ne!(
        red.aqm.parts().0,
        aqm(&Params::default()).parts().0,
        "another weight"
    );
    red.enqueue(Probe::new(50), START, &mut drops);
    assert_eq!(
        red.stats().pdrop + red.stats().overlimits,
        1,
        "the new limit holds for newcomers"
    );
    let refused: [fn(&mut Config); 2] = [
        |config| {
            config.limit = Bytes::new(50_000);
            (config.red.min, config.red.max) = (Some(Bytes::kib(10)), Some(Bytes::kib(5)));
        },
        |config| config.seed = 3,
    ];
    for edit in refused {
        red.edit(START, &mut drops, edit).expect_err("refused");
    }
    assert_eq!(
        (red.config.limit, red.child().config().limit),
        (Bytes::new(40_000), Bytes::new(40_000))
    );
}

/// Any qdisc can stand behind it, and keeps its own limit.
/// As `tc qdisc replace` below it: the old queue's packets are dropped, and the limit of the new one is
/// its own.
#[test]
fn another_queue_takes_the_place_of_its_own() {
    let mut red = Red::new(Config::default()).expect("valid").with_handle(1);
    let (mut drops, class) = (Drops::new(), ClassId::new(1, 1));
    red.enqueue(Probe::new(0), START, &mut drops);
    let fifo = |limit| {
        Bfifo::new(bfifo::Config {
            limit: Bytes::new(limit),
        })
    };
    let error = red
        .graft(ClassId::new(1, 2), fifo(1), &mut drops)
        .expect_err("no such class");
    assert_eq!((error.parameter, drops.len()), ("parent", 0));
    red.graft(class, fifo(7000), &mut drops).expect("its class");
    assert_eq!(drops.drain().count(), 1);
    assert!(red.backlog().is_empty());
    red.reconfigure(Config::default()).expect("valid");
    assert_eq!(red.child().config().limit, Bytes::new(7000));
}

#[test]
fn the_child_may_be_any_discipline() {
    let child = FqCodel::new(fq_codel::Config {
        limit: 3,
        ..fq_codel::Config::default()
    })
    .expect("valid");
    let (mut red, mut drops) = (
        Ledger::new(Red::over(Config::default(), child).expect("valid")),
        Drops::new(),
    );
    for id in 0..8 {
        red.enqueue(Probe::new(id).flow(u64::from(id % 2)), START, &mut drops);
    }
    assert_eq!((red.inner().stats().pdrop, red.backlog().packets), (5, 3));
    red.edit(START, &mut drops, |config| {
        config.limit = Bytes::new(50_000)
    })
    .expect("valid");
    assert_eq!(red.inner().child().config().limit, 3);
    while red.dequeue(START, &mut drops).is_some() {}
    assert!(red.backlog().is_empty());
}

proptest! {
    /// `include/net/red.h`, invariants: no signal below the lower threshold, one for all above the
    /// upper; the average never exceeds the limit, nor does the backlog. Through changes, pauses
    /// and clocks that step back.
    #[test]
    fn the_invariants_hold(
        min in 2000..20_000u64,
        slow in 1..=2u32,
        width in 0..20_000u64,
        wide in 1..50_000u64,
        flags in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        idle in prop_oneof![Just(IdleDecay::Exact), Just(IdleDecay::Linux), Just(IdleDecay::Never)],
        steps in vec((0..8u8, prop_oneof![Just(0u32), Just(65_535), 1..1515u32], 0..3_000_000_000u64), 0..400),
    ) {
        let (gentle, ecn, adaptive, nodrop) = flags;
        let limit = Bytes::new(wide + 1514);
        let burst = u32::try_from(min / 1000).expect("few");
        let (low, high) = (Some(Bytes::new(min)), Some(Bytes::new(min + width)));
        let red = Params { min: low, max: high, burst: Some(burst * slow), gentle, idle, ..Params::default() };
        let other = |config: &mut Config| {
            config.red.burst = Some(burst * (3 - slow));
            config.red.probability = 0.5;
        };
        let config = Config { limit, red, ecn, nodrop: nodrop && ecn, adaptive, ..Config::default() };
        let (mut red, mut drops, mut now) = (Ledger::new(Red::new(config).expect("valid")), Drops::new(), START);
        for (id, (what, len, nanos)) in (0..).zip(steps) {
            match what {
                0 => { red.dequeue(now, &mut drops); }
                1 => now += Duration::from_nanos(nanos),
                2 => now = now - Duration::from_nanos(nanos / 2),
                3 if nanos % 5 == 0 => red.edit(now, &mut drops, other).expect("valid"),
                _ => {
                    let signals = red.inner().stats().overlimits;
                    red.enqueue(Probe::new(id).sized(len).tos(ECT0), now, &mut drops);
                    let average = red.inner().average().get();
                    let signalled = red.inner().stats().overlimits > signals;
                    prop_assert!(average <= limit.get() && red.backlog().bytes <= limit);
                    prop_assert!(!signalled || average >= min);
                    let forced = (min + width) * if gentle { 2 } else { 1 };
                    prop_assert!(signalled || average < forced.max(min));
                }
            }
            prop_assert!((0.0..=1.0).contains(&red.inner().max_probability()));
        }
        let stats = *red.inner().stats();
        prop_assert_eq!(stats.prob_mark + stats.forced_mark + stats.prob_drop + stats.forced_drop, stats.overlimits);
        while let Some(packet) = red.dequeue(now, &mut drops) {
            prop_assert!(packet.tos == ECT0 || packet.tos == CE && ecn);
        }
        prop_assert!(red.backlog().is_empty() && red.ready_at().is_none());
    }

    /// At a constant average no gap is longer than 1/p rounded up, and one.
    #[test]
    fn gaps_are_bounded(average in 30_001..180_000u64, probability in 0.01..1.0f64) {
        let aqm = aqm(&Params { gentle: true, probability, ..worked() });
        let longest = (1.0 / aqm.probability(average)).ceil() as usize + 1;
        let gaps = gaps(&arrivals(&aqm, average, 3000));
        prop_assert!(gaps.iter().all(|&gap| gap <= longest), "{:?} {}", gaps.iter().max(), longest);
    }
}

/// A queue whose only arrival was dropped is as idle as before: the average goes on falling.
#[test]
fn a_drop_at_an_empty_queue_does_not_end_the_idle_time() {
    let config = Config {
        limit: Bytes::new(400_000),
        red: worked(),
        ..Config::default()
    };
    let mut queue = Red::<Probe>::new(config).expect("valid");
    queue.state = queue.aqm.settled(200_000);
    queue.state.begin_idle(START);
    let mut drops = Drops::new();
    queue.enqueue(Probe::new(0), START, &mut drops);
    assert_eq!(drops.drain().count(), 1, "the average is above max");
    queue.enqueue(Probe::new(1), START + Duration::from_secs(3600), &mut drops);
    assert!(drops.is_empty(), "an hour later it is not");
}
