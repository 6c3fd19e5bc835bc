//! DualPI2 against the worked numbers of RFC 9332 §A.1 and RFC 9332's properties.

use alloc::collections::VecDeque;

use proptest::prelude::*;
use tautline_base::Ecn;

use super::*;
use crate::ledger::Ledger;
use crate::testing::Edit;
use std::vec::Vec;
use tautline_testkit::{Probe, ids};

const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn steady(delay: u64, count: u64) -> Delays {
    Delays {
        first: delay * 1_000_000,
        growth: 0,
        count,
    }
}

/// RFC 9332 §A.1, worked by hand: 20 ms from zero.
#[test]
fn the_base_probability_is_that_of_linux() {
    let mut controller = Controller::new(&Config::default());
    for expected in [278_125_000, 281_562_500, 285_000_000, 288_437_500] {
        controller.update(steady(20, 1));
        assert_eq!(controller.probability(), expected);
    }
    let mut changed = Controller::new(&Config {
        alpha: 1.0,
        ..Config::default()
    });
    changed.update(steady(20, 1));
    let before = changed.probability();
    changed = changed.with(&Config::default());
    changed.update(steady(20, 1));
    assert_eq!(
        changed.probability() - before,
        3_437_500,
        "a change keeps the delay last seen"
    );
    let mut queue = DualPi2::<Probe>::new(Config::default()).expect("valid");
    queue.controller.update(steady(20, 1));
    let p = queue.probability();
    assert!(
        (p - 0.064756).abs() < 1e-6
            && (2.0 * p - 0.12951).abs() < 1e-5
            && (p * p - 0.0041933).abs() < 1e-7,
        "{p}"
    );
}

/// It stays within 0 and 1; without drops on overload the coupled probability stays within 1.
#[test]
fn the_base_probability_has_a_ceiling() {
    for (overload, coupling, ceiling) in [
        (Overload::Drop, 2, ONE),
        (Overload::Overflow, 2, ONE / 2),
        (Overload::Overflow, 5, ONE / 5),
    ] {
        let mut controller = Controller::new(&Config {
            overload,
            coupling,
            ..Config::default()
        });
        controller.update(steady(10_000, 1));
        assert_eq!(controller.probability(), ceiling, "{overload:?}");
        controller.update(steady(0, 1));
        assert_eq!(controller.probability(), 0);
    }
}

proptest! {
    /// Many updates at once arrive where single ones do.
    #[test]
    fn leaps_equal_steps(first in 0..40_000_000u64, growth in 0..200_000u64, count in 1..3000u64, start in 0.0..1.0f64, weak: bool) {
        let (alpha, beta) = if weak { (0.01, 0.0) } else { (0.16, 3.2) };
        let mut single = Controller::new(&Config { alpha, beta, ..Config::default() });
        single.steady(start, first);
        let mut leaping = single.clone();
        for n in 0..count {
            single.update(Delays { first: first + n * growth, growth: 0, count: 1 });
        }
        leaping.update(Delays { first, growth, count });
        let apart = single.probability().abs_diff(leaping.probability());
        prop_assert!(f64::from(apart) < 1e-4 * f64::from(ONE), "{} {}", single.probability(), leaping.probability());
    }

    /// No delay, no gain, no number of updates overflows.
    #[test]
    fn no_update_overflows(first: u64, growth: u64, count in 1u64.., alpha in 0.0..256.0f64, beta in 0.0..256.0f64) {
        let mut controller = Controller::new(&Config { alpha, beta, ..Config::default() });
        for delays in [Delays { first, growth, count }, Delays { first: 0, growth: 0, count }, Delays { first, growth: 0, count: 1 }] {
            controller.update(delays);
        }
    }
}

/// A leap in which the delay passes the target, and what a leap leaves as the delay last seen: as
/// of single updates.
#[test]
fn leaps_turn_and_end_where_steps_do() {
    for (alpha, beta, start, first, growth, count) in [
        (256.0, 0.0, 0.0, 100_000, 200_000, 78),
        (0.16, 3.2, 0.5, 15_000_000, 1000, 100),
    ] {
        let mut single = Controller::new(&Config {
            alpha,
            beta,
            ..Config::default()
        });
        single.steady(start, first);
        let mut leaping = single.clone();
        let one = |n| Delays {
            first: first + n * growth,
            growth: 0,
            count: 1,
        };
        (0..count).for_each(|n| single.update(one(n)));
        leaping.update(Delays {
            first,
            growth,
            count,
        });
        for controller in [&mut single, &mut leaping] {
            controller.update(one(count));
        }
        let (stepped, leapt) = (single.probability(), leaping.probability());
        assert!(
            (ONE / 10..ONE / 10 * 9).contains(&stepped) && stepped.abs_diff(leapt) < 1000,
            "{stepped} {leapt}"
        );
    }
}

fn put(queue: &mut DualPi2<Probe>, tos: u8, packets: u32, len: u32) {
    let mut drops = Drops::new();
    for id in 0..packets {
        queue.enqueue(
            Probe::new(id).tos(tos).sized(len),
            Instant::ZERO,
            &mut drops,
        );
    }
    assert!(drops.is_empty());
}

/// A queue that holds 2000 packets of each kind and keeps its base probability.
fn constant(config: Config, probability: f64) -> DualPi2<Probe> {
    let tupdate = Duration::from_secs(1000);
    let native = if matches!(config.native, Native::Delay(_)) {
        Native::Delay(Duration::MAX)
    } else {
        config.native
    };
    let mut queue = DualPi2::new(Config {
        tupdate,
        native,
        ..config
    })
    .expect("valid");
    put(&mut queue, NOT_ECT, 2000, 1000);
    put(&mut queue, ECT0, 2000, 1000);
    put(&mut queue, ECT1, 4000, 1000);
    queue.controller.steady(probability, 0);
    queue
}

/// The shares of the packets of one kind: passed, marked, dropped, as shares.
fn fates(queue: &mut DualPi2<Probe>, kind: u8) -> [f64; 3] {
    let (mut drops, mut counts) = (Drops::new(), [0.0; 3]);
    let side = if kind == ECT1 {
        Side::Low
    } else {
        Side::Classic
    };
    for _ in 0..1900 {
        let mut packet = queue.queue(side).pop().expect("queued");
        while packet.tos != kind {
            packet = queue.queue(side).pop().expect("queued");
        }
        let fate = queue.coupled(side, Bytes::mib(1), &packet, Instant::ZERO);
        let fate = queue.carry_out(fate, &mut packet);
        counts[if fate == Fate::Drop {
            2
        } else {
            usize::from(packet.tos == CE)
        }] += 1.0 / 1900.0;
        drops.push(packet, DropReason::Early);
    }
    counts
}

/// RFC 9332: classic packets meet p², dropped or marked; low-latency ones k p, marked. Above k p =
/// 1 classic ones are dropped though they could be marked, and low-latency ones with p² besides
/// being marked.
#[test]
fn likelihoods_are_coupled_by_a_square() {
    for config in [Config::default(), Config::rfc9332()] {
        for (base, coupling) in [(0.3, 2), (0.1, 4), (0.6, 2)] {
            let config = || Config {
                coupling,
                min_qlen_step: 10_000,
                ..config.clone()
            };
            let overload = base * f64::from(coupling) > 1.0;
            let (squared, linked) = (base * base, f64::min(base * f64::from(coupling), 1.0));
            let near = |share: f64, expected: f64| (share - expected).abs() < 0.04;
            let [_, marked, dropped] = fates(&mut constant(config(), base), NOT_ECT);
            assert!(
                marked == 0.0 && near(dropped, squared),
                "{base} {coupling}: {dropped}"
            );
            let [_, marked, dropped] = fates(&mut constant(config(), base), ECT0);
            let (as_marks, as_drops) = if overload {
                (0.0, squared)
            } else {
                (squared, 0.0)
            };
            assert!(
                near(marked, as_marks) && near(dropped, as_drops),
                "{base} {coupling}: {marked} {dropped}"
            );
            let [_, marked, dropped] = fates(&mut constant(config(), base), ECT1);
            let as_drops = if overload { squared } else { 0.0 };
            assert!(
                near(dropped, as_drops) && near(marked, linked - as_drops),
                "{base} {coupling}: {marked} {dropped}"
            );
        }
    }
}

/// RFC 9332's marks are spread evenly: with 1/4 every fourth packet.
#[test]
fn recurring_marks_are_evenly_spread() {
    let mut queue = constant(
        Config {
            min_qlen_step: 10_000,
            ..Config::rfc9332()
        },
        0.125,
    );
    let marks: Vec<_> = (0..1000)
        .filter(|_| {
            let packet = Probe::new(0).tos(ECT1);
            queue.coupled(Side::Low, Bytes::mib(1), &packet, Instant::ZERO) == Fate::Mark
        })
        .collect();
    assert!(
        marks.windows(2).all(|pair| pair[1] - pair[0] == 4),
        "{marks:?}"
    );
    assert!((249..=250).contains(&marks.len()));
}

/// While less than two packets are queued in all, nothing is dropped or marked by the coupling.
#[test]
fn a_short_queue_is_let_be() {
    for (backlog, fate) in [(3027, Fate::Pass), (3028, Fate::Drop)] {
        let mut queue = constant(Config::default(), 1.0);
        assert_eq!(
            queue.coupled(
                Side::Classic,
                Bytes::new(backlog),
                &Probe::new(0),
                Instant::ZERO
            ),
            fate
        );
        let fate = if fate == Fate::Pass {
            Fate::Pass
        } else {
            Fate::Drop
        };
        assert_eq!(
            queue.coupled(
                Side::Low,
                Bytes::new(backlog),
                &Probe::new(0).tos(ECT1),
                Instant::ZERO
            ),
            fate
        );
    }
}

/// Low-latency packets that stayed more than a millisecond are marked, or those that leave more
/// than so many behind; classic ones are not.
#[test]
fn the_step_marks_what_stayed_too_long() {
    let step = |native, micros: u64, tos| {
        let mut queue = DualPi2::new(Config {
            native,
            ..Config::default()
        })
        .expect("valid");
        put(&mut queue, tos, 4, 60);
        let now = Instant::from_micros(micros);
        core::iter::from_fn(|| queue.dequeue(now, &mut Drops::new()))
            .filter(|packet| packet.tos == CE)
            .count()
    };
    let delay = Native::Delay(Duration::from_millis(1));
    assert_eq!(
        [
            step(delay, 1000, ECT1),
            step(delay, 1001, ECT1),
            step(delay, 1001, ECT0)
        ],
        [0, 4, 0]
    );
    assert_eq!(
        [
            step(Native::Packets(2), 0, ECT1),
            step(Native::Packets(0), 0, ECT1)
        ],
        [1, 3]
    );
    let mut queue = DualPi2::new(Config {
        min_qlen_step: 3,
        ..Config::default()
    })
    .expect("valid");
    put(&mut queue, ECT1, 4, 60);
    queue.dequeue(ms(2), &mut Drops::new()).expect("queued");
    queue.dequeue(ms(2), &mut Drops::new()).expect("queued");
    assert_eq!(
        (queue.stats.step_mark, queue.stats.ecn_mark),
        (1, 1),
        "not below three more"
    );
}

/// RFC 9332's ramp: nothing up to 800 µs, half at 1 ms, all from 1.2 ms on; not the only packet.
#[test]
fn the_ramp_rises() {
    for (micros, marks) in [(800, 0), (1000, 49), (1199, 98), (1200, 99), (5000, 99)] {
        let mut queue = DualPi2::new(Config::rfc9332()).expect("valid");
        put(&mut queue, ECT1, 100, 60);
        let now = Instant::from_micros(micros);
        let marked = core::iter::from_fn(|| queue.dequeue(now, &mut Drops::new()))
            .filter(|packet| packet.tos == CE);
        let count = marked.count();
        assert!(
            (marks..=marks + 1).contains(&count) && count < 100,
            "{micros}: {count}"
        );
    }
}

/// RFC 9956: with `nqb` DSCP 45 goes to the low-latency queue, whatever its ECN field; its
/// neighbors do not.
#[test]
fn traffic_that_is_not_queue_building_takes_the_low_latency_queue_if_asked() {
    for (nqb, low) in [(false, false), (true, true)] {
        let config = Config {
            nqb,
            ..Config::default()
        };
        assert_eq!(
            [45, 44, 46].map(|dscp| config.selects(dscp << 2)),
            [low, false, false]
        );
        assert!(config.selects(45 << 2 | ECT1));
    }
}

/// ECT(1) and CE go to the low-latency queue, with `any_ect` ECT(0) too.
#[test]
fn packets_are_told_apart_by_ecn() {
    for (identifier, low) in [
        (Identifier::L4sEct, [false, true, false, true]),
        (Identifier::AnyEct, [false, true, true, true]),
    ] {
        for tos in 0..4 {
            let mut queue = DualPi2::new(Config {
                identifier,
                ..Config::default()
            })
            .expect("valid");
            put(&mut queue, 0xb8 | tos, 1, 60);
            assert_eq!(
                !queue.low.held().is_empty(),
                low[usize::from(tos)],
                "{identifier:?} {tos}"
            );
        }
    }
}

/// A filter sends a packet without ECN to the low-latency queue; where others are marked it is
/// dropped.
#[test]
fn filters_choose_what_ecn_does_not() {
    let mut queue = DualPi2::new(Config::default()).expect("valid");
    let mut filters = Filters::default();
    let all =
        crate::filter::Filter::new(crate::filter::Matcher::All, Some(crate::ClassId::new(1, 1)));
    filters.add(all).expect("a rule");
    queue.set_filters(filters);
    put(&mut queue, NOT_ECT, 3, 60);
    assert_eq!(queue.low.held().packets, 3);
    let mut drops = Drops::new();
    assert!(
        queue.dequeue(ms(1), &mut drops).is_some() && queue.dequeue(ms(2), &mut drops).is_none()
    );
    assert_eq!(drops.len(), 2);
}

/// The classic queue gets its share in bytes while both are backlogged, and all while the other is
/// empty.
#[test]
fn the_classic_queue_has_its_share() {
    for (protection, classic_len, low_len) in [
        (10, 1514, 1514),
        (10, 200, 1514),
        (25, 1514, 100),
        (50, 600, 1000),
        (0, 700, 700),
    ] {
        let native = Native::Delay(Duration::MAX);
        let config = Config {
            classic_protection: protection,
            native,
            ..Config::default()
        };
        let mut queue = DualPi2::new(config).expect("valid");
        put(&mut queue, NOT_ECT, 2000, classic_len);
        put(&mut queue, ECT1, 2000, low_len);
        let mut sent = [0.0; 2];
        let mut first = None;
        for _ in 0..1500 {
            let packet = queue
                .dequeue(Instant::ZERO, &mut Drops::new())
                .expect("queued");
            let side = usize::from(Ecn::of_tos(packet.tos) != Ecn::NotEct);
            first.get_or_insert(side);
            sent[side] += f64::from(packet.len().get() as u32);
        }
        assert_eq!(first, Some(1), "the low-latency queue comes first");
        let share = sent[0] / (sent[0] + sent[1]);
        let expected = f64::from(protection) / 100.0;
        // At the start the low-latency queue is ahead by up to a hundred packets' worth of its
        // share.
        let start = 121_120.0 / 100.0 / (sent[0] + sent[1]);
        assert!(
            (share - expected).abs() <= start + 0.005,
            "{protection}: {share}"
        );
    }
    let mut queue = DualPi2::new(Config::default()).expect("valid");
    put(&mut queue, NOT_ECT, 5, 1000);
    assert_eq!(
        core::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut Drops::new())).count(),
        5
    );
    assert_eq!(
        queue.credit, -121_120,
        "idle: the low-latency queue is owed its lead"
    );
}

/// Without contention the credit rests.
#[test]
fn credit_counts_only_while_both_wait() {
    let mut queue = DualPi2::new(Config::default()).expect("valid");
    put(&mut queue, ECT1, 3, 100);
    queue
        .dequeue(Instant::ZERO, &mut Drops::new())
        .expect("queued");
    assert_eq!(queue.credit, -121_120);
    put(&mut queue, NOT_ECT, 2, 100);
    queue
        .dequeue(Instant::ZERO, &mut Drops::new())
        .expect("queued");
    assert_eq!(queue.credit, -121_120 + 10 * 100);
    queue.credit = 1;
    let packet = queue
        .dequeue(Instant::ZERO, &mut Drops::new())
        .expect("queued");
    assert_eq!((packet.tos, queue.credit), (NOT_ECT, 1 - 90 * 100));
}

/// A full buffer drops the newcomer; lowered limits cost the classic queue first.
#[test]
fn limits_hold() {
    let (mut queue, mut drops) = (
        Ledger::new(
            DualPi2::new(Config {
                limit: 4,
                ..Config::default()
            })
            .expect("valid"),
        ),
        Drops::new(),
    );
    for (id, tos) in [(0, ECT1), (1, 0), (2, 0), (3, ECT1), (4, 0), (5, ECT1)] {
        queue.enqueue(Probe::new(id).tos(tos), Instant::ZERO, &mut drops);
    }
    assert!(
        drops
            .iter()
            .all(|(_, reason)| *reason == DropReason::Overlimit)
    );
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [4, 5]);
    assert_eq!(queue.inner().stats().overlimits, 2);
    queue
        .edit(Instant::ZERO, &mut drops, |config| config.limit = 3)
        .expect("valid");
    queue
        .edit(Instant::ZERO, &mut drops, |config| {
            config.memory_limit = Some(Bytes::new(1514));
        })
        .expect("valid");
    let reasons: Vec<_> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(
        reasons,
        [
            (1, DropReason::Overlimit),
            (2, DropReason::Memory),
            (0, DropReason::Memory)
        ]
    );
    queue.enqueue(Probe::new(6).sized(1), Instant::ZERO, &mut drops);
    assert!(
        drops
            .drain()
            .all(|(_, reason)| reason == DropReason::Memory)
    );
    assert_eq!(
        queue.inner().stats().overlimits,
        6,
        "two and one refused, three that lowered limits cost"
    );
    let config = Config {
        limit: 100,
        ..Config::default()
    };
    assert_eq!(config.memory(), Bytes::new(2 * 100 * 1514));
}

/// Packets that fit the memory to the byte are let in; the counters say for each queue what came,
/// and of both how much they held at most.
#[test]
fn the_counters_tell_what_came() {
    let memory_limit = Some(Bytes::new(3 * 1514));
    let mut queue = DualPi2::new(Config {
        memory_limit,
        ..Config::default()
    })
    .expect("valid");
    put(&mut queue, ECT1, 2, 1514);
    put(&mut queue, NOT_ECT, 1, 1514);
    let mut drops = Drops::new();
    queue.enqueue(Probe::new(9).sized(1), Instant::ZERO, &mut drops);
    assert!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .eq([(9, DropReason::Memory)])
    );
    (0..2).for_each(|_| drop(queue.dequeue(Instant::ZERO, &mut drops).expect("queued")));
    put(&mut queue, NOT_ECT, 1, 1000);
    let Stats {
        packets_in,
        max_queue,
        max_memory,
        ..
    } = *queue.stats();
    assert_eq!((packets_in, max_queue), ([2, 2], 3));
    assert_eq!(
        (max_memory, queue.memory()),
        (Bytes::new(3 * 1514), Bytes::new(2514))
    );
}

/// Super-packets are split, unless they may not or cannot be; the account balances.
#[test]
fn super_packets_are_split() {
    for (split_gso, limit, packets) in [(true, 10_000, 4), (false, 10_000, 1), (true, 2, 2)] {
        let config = Config {
            split_gso,
            limit,
            ..Config::default()
        };
        let (mut queue, mut drops) = (
            Ledger::new(DualPi2::new(config).expect("valid")),
            Drops::new(),
        );
        queue.enqueue(
            Probe::new(0).sized(4000).of_segments(4).tos(ECT1),
            Instant::ZERO,
            &mut drops,
        );
        assert_eq!(queue.backlog().packets, packets, "limit {limit}");
        assert_eq!(drops.births().packets, if packets == 1 { 0 } else { 3 });
    }
}

/// Judged on arrival, classic packets are not dropped later.
#[test]
fn packets_may_be_judged_on_arrival() {
    for (drop_at, on_arrival) in [(DropAt::Enqueue, true), (DropAt::Dequeue, false)] {
        let mut queue = constant(
            Config {
                drop_at,
                ..Config::default()
            },
            1.0,
        );
        let mut drops = Drops::new();
        queue.enqueue(Probe::new(0), Instant::ZERO, &mut drops);
        assert_eq!(drops.drain().count() == 1, on_arrival);
        queue.dequeue(Instant::ZERO, &mut drops).expect("queued");
        assert_eq!(drops.is_empty(), on_arrival);
    }
}

/// Updates made late see the head as it was when they were due.
#[test]
fn late_updates_equal_punctual_ones() {
    for gap in [1, 16, 100, 900] {
        let [mut late, mut punctual] =
            [(); 2].map(|()| DualPi2::new(Config::default()).expect("valid"));
        for queue in [&mut late, &mut punctual] {
            put(queue, NOT_ECT, 100, 1514);
            queue.catch_up(ms(20));
        }
        (20..=20 + gap).for_each(|millis| punctual.catch_up(ms(millis)));
        late.catch_up(ms(20 + gap));
        assert_eq!(late.probability(), punctual.probability(), "{gap}");
        assert_eq!(late.stats.delays, punctual.stats.delays);
    }
}

/// A sender as RFC 9332 couples them: Reno halves once per round trip for any loss or mark, a
/// scalable one by half the share of marks.
struct Sender {
    window: f64,
    in_flight: f64,
    acks: VecDeque<(u64, bool)>,
    calm_until: u64,
    marked: f64,
    tos: u8,
}

impl Sender {
    fn new(tos: u8) -> Self {
        Self {
            window: 10.0,
            in_flight: 0.0,
            acks: VecDeque::new(),
            calm_until: 0,
            marked: 0.0,
            tos,
        }
    }

    fn scalable(&self) -> bool {
        self.tos == ECT1
    }

    fn signal(&mut self, micros: u64) {
        if micros >= self.calm_until {
            self.window = f64::max(self.window / 2.0, 2.0);
            self.calm_until = micros + 20_000;
        }
    }

    fn hear(&mut self, micros: u64) {
        while let Some(&(at, marked)) = self.acks.front().filter(|(at, _)| *at <= micros) {
            self.acks.pop_front();
            self.in_flight -= 1.0;
            self.window += 1.0 / self.window;
            match (marked, self.scalable()) {
                (true, true) => self.window = f64::max(self.window - 0.5, 2.0),
                (true, false) => self.signal(at),
                (false, _) => {}
            }
            self.marked += f64::from(u8::from(marked));
        }
    }
}

/// Two senders 10 ms away share a link of 40 Mbit/s for 20 s; packets delivered and mean delay (ms)
/// of each in the second half.
fn shared(config: Config, kinds: [u8; 2]) -> [(f64, f64); 2] {
    let (mut queue, mut drops) = (DualPi2::new(config).expect("valid"), Drops::new());
    let mut senders = kinds.map(Sender::new);
    let mut results = [(0.0, 0.0); 2];
    for micros in (0..20_000_000).step_by(300) {
        let now = Instant::from_micros(micros);
        for (flow, sender) in (0..).zip(&mut senders) {
            sender.hear(micros);
            while sender.in_flight < sender.window {
                sender.in_flight += 1.0;
                queue.enqueue(Probe::new(0).flow(flow).tos(sender.tos), now, &mut drops);
            }
        }
        if let Some(packet) = queue.dequeue(now, &mut drops) {
            let flow = packet.flow as usize;
            senders[flow]
                .acks
                .push_back((micros + 10_000, packet.tos == CE));
            if micros > 10_000_000 {
                results[flow].0 += 1.0;
                results[flow].1 += (now - packet.enqueued()).as_secs_f64() * 1e3;
            }
        }
        for (packet, _) in drops.drain() {
            let sender = &mut senders[packet.flow as usize];
            sender.in_flight -= 1.0;
            sender.signal(micros);
        }
    }
    results.map(|(packets, delays)| (packets, delays / packets))
}

/// Effect: a scalable sender beside a Reno-like one: about equal shares, the classic delay near its
/// target, the other's below a few milliseconds. In one queue with the same base probability the
/// scalable one would wait as long as the other.
#[test]
fn both_kinds_share_the_link_and_only_one_waits() {
    for config in [Config::default(), Config::rfc9332()] {
        for classic in [NOT_ECT, ECT0] {
            let [(classic_sent, classic_waits), (low_sent, low_waits)] =
                shared(config.clone(), [classic, ECT1]);
            let ratio = low_sent / classic_sent;
            assert!((0.3..3.0).contains(&ratio), "{ratio}");
            assert!((5.0..25.0).contains(&classic_waits), "{classic_waits}");
            assert!(low_waits < 2.0, "{low_waits}");
        }
    }
    let uncoupled = Config {
        alpha: 0.0,
        beta: 0.0,
        ..Config::default()
    };
    let [(_, classic_waits), _] = shared(uncoupled, [NOT_ECT, ECT1]);
    assert!(
        classic_waits > 50.0,
        "without the controller the classic queue fills: {classic_waits}"
    );
}

/// A change keeps the probability, as far as it is still allowed, and updates go on.
#[test]
fn a_change_interrupts_nothing() {
    let (mut queue, mut drops) = (
        DualPi2::new(Config::default()).expect("valid"),
        Drops::new(),
    );
    put(&mut queue, NOT_ECT, 100, 1514);
    queue.catch_up(ms(0));
    queue.catch_up(ms(200));
    let p = queue.probability();
    assert!(p > 0.5);
    queue
        .edit(ms(200), &mut drops, |config| {
            config.target = Duration::from_millis(20);
        })
        .expect("valid");
    assert_eq!(queue.probability(), p);
    // Updates were due each 16 ms: the next is at 208.
    queue.catch_up(ms(207));
    assert_eq!(queue.probability(), p);
    queue.catch_up(ms(208));
    assert!(queue.probability() > p);
    queue
        .edit(ms(208), &mut drops, |config| {
            config.overload = Overload::Overflow
        })
        .expect("valid");
    assert!(
        (queue.probability() - 0.5).abs() < 1e-6,
        "the coupled likelihood is one at most"
    );
    assert!(drops.is_empty());
}

fn config() -> impl Strategy<Value = Config> {
    let time = prop_oneof![Just(0u64), 1..200_000u64, Just(15_000_000), Just(u64::MAX)]
        .prop_map(Duration::from_nanos);
    let limit = prop_oneof![Just(0), Just(1), 2..40u32, Just(1000)];
    let native = prop_oneof![
        time.clone().prop_map(Native::Delay),
        (0..5u32).prop_map(Native::Packets),
        (time.clone(), time.clone()).prop_map(|(min, range)| Native::Ramp { min, range }),
    ];
    let weights = prop_oneof![Just((0.16, 3.2)), Just((256.0, 256.0)), Just((0.0, 0.0))];
    let memory = proptest::option::of((0..20_000u64).prop_map(Bytes::new));
    (
        limit,
        memory,
        time.clone(),
        time,
        weights,
        native,
        0..=100u8,
        any::<[bool; 4]>(),
        any::<u64>(),
    )
        .prop_map(
            |(
                limit,
                memory_limit,
                target,
                tupdate,
                (alpha, beta),
                native,
                classic_protection,
                switches,
                seed,
            )| Config {
                limit,
                memory_limit,
                target,
                tupdate: tupdate.max(Duration::from_nanos(1)),
                alpha,
                beta,
                native,
                classic_protection,
                overload: if switches[0] {
                    Overload::Drop
                } else {
                    Overload::Overflow
                },
                drop_at: if switches[1] {
                    DropAt::Enqueue
                } else {
                    DropAt::Dequeue
                },
                identifier: if switches[2] {
                    Identifier::L4sEct
                } else {
                    Identifier::AnyEct
                },
                split_gso: switches[3],
                seed,
                ..Config::default()
            },
        )
}

/// One thing that happens: a packet comes, one is asked for, time passes or steps back, parameters
/// change.
#[derive(Clone, Debug)]
enum Event {
    Enqueue { len: u32, tos: u8, segments: u16 },
    Dequeue,
    Advance(u64),
    StepBack(u64),
    Change(std::boxed::Box<Config>),
}

fn event() -> impl Strategy<Value = Event> {
    let len = prop_oneof![Just(0u32), 40..1515u32, Just(65_535), Just(u32::MAX)];
    let segments = prop_oneof![4 => Just(1u16), 1 => 2..5u16];
    prop_oneof![
        6 => (len, 0..4u8, segments).prop_map(|(len, tos, segments)| Event::Enqueue { len, tos, segments }),
        5 => Just(Event::Dequeue),
        2 => prop_oneof![0..30_000_000u64, Just(u64::MAX / 4)].prop_map(Event::Advance),
        1 => (0..400_000_000u64).prop_map(Event::StepBack),
        1 => config().prop_map(|config| Event::Change(config.into())),
    ]
}

proptest! {
    /// The account balances, limits hold, each queue keeps its order, only what understands marks
    /// is marked, work is conserved.
    #[test]
    fn whatever_comes_the_queues_hold(first in config(), events in proptest::collection::vec(event(), 0..200)) {
        let (mut queue, mut drops) = (Ledger::new(DualPi2::new(first.clone()).expect("valid")), Drops::new());
        let (mut now, mut config) = (ms(1), first);
        let mut sent = Vec::new();
        let mut last = [0; 2];
        for event in events {
            match event {
                Event::Enqueue { len, tos, segments } => {
                    let packet = Probe::new(sent.len() as u32).sized(len).tos(tos).of_segments(segments);
                    sent.push((tos, config.identifier.selects(tos)));
                    queue.enqueue(packet, now, &mut drops);
                }
                Event::Dequeue => {
                    let held = queue.backlog().packets;
                    let out = queue.dequeue(now, &mut drops);
                    prop_assert_eq!(out.is_some(), held > 0, "work conservation");
                    if let Some(packet) = out {
                        let (tos, low) = sent[packet.id as usize];
                        let last = &mut last[usize::from(low)];
                        prop_assert!(*last <= packet.id, "each queue in order");
                        *last = packet.id;
                        prop_assert!(packet.tos == tos || tos != 0 && packet.tos == CE);
                    }
                }
                Event::Advance(nanos) => now += Duration::from_nanos(nanos),
                Event::StepBack(nanos) => now = now - Duration::from_nanos(nanos),
                Event::Change(new) => {
                    // The side of a packet is known by the identifier it came under.
                    config = Config { identifier: config.identifier, ..*new };
                    queue.edit(now, &mut drops, |old| {
                        config.memory_limit = config.memory_limit.or(old.memory_limit);
                        *old = config.clone();
                    }).expect("valid");
                }
            }
            drops.drain().for_each(drop);
            let held = queue.backlog();
            prop_assert!(held.packets <= config.limit as usize && held.bytes <= config.memory());
            prop_assert_eq!(queue.ready_at(), (held.packets > 0).then_some(Instant::ZERO));
            prop_assert!((0.0..=1.0).contains(&queue.inner().probability()));
        }
        while queue.dequeue(now, &mut drops).is_some() {}
        prop_assert_eq!(queue.backlog(), Backlog::default());
    }
}
