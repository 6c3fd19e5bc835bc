//! Classification, the scheduler, limits, splitting and reconfiguration.

use super::*;

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

/// `DUALPI2_C_LLLL`: class 2 takes the low-latency queue and meets no AQM, neither the coupled
/// probability nor the step; packets of class 1 between them still do.
#[test]
fn filters_spare_packets_of_class_2() {
    for drop_at in [DropAt::Enqueue, DropAt::Dequeue] {
        let config = Config {
            drop_at,
            ..Config::default()
        };
        let mut queue = Ledger::new(DualPi2::new(config).expect("valid"));
        let classes = [1, 2].map(|class| (class, ClassId::new(1, class as u16)));
        let inner = queue.inner_mut();
        inner.set_filters(crate::testing::by_mark(classes));
        inner.controller.steady(1.0, 0);
        let mut drops = Drops::new();
        for id in 0..9 {
            let packet = Probe::new(id).marked(1 + id % 2);
            queue.enqueue(packet, Instant::ZERO, &mut drops);
        }
        assert!(queue.inner().classic.held().is_empty());
        let left: Vec<u32> = ids(core::iter::from_fn(|| queue.dequeue(ms(10), &mut drops)));
        assert_eq!(left, [1, 3, 5, 7], "{drop_at:?}");
        assert_eq!(queue.inner().stats().ecn_mark, 0);
    }
}

/// RFC 9332 §A.1: the ramp is the low-latency queue's own, whenever the classic packets are judged.
#[test]
fn the_ramp_marks_also_when_classic_packets_are_dropped_on_arrival() {
    for drop_at in [DropAt::Enqueue, DropAt::Dequeue] {
        let config = Config {
            drop_at,
            ..Config::rfc9332()
        };
        let mut queue = DualPi2::new(config).expect("valid");
        put(&mut queue, ECT1, 5, 1000);
        let left = core::iter::from_fn(|| queue.dequeue(ms(10), &mut Drops::new()));
        let marked: Vec<bool> = left.map(|packet| packet.tos == CE).collect();
        assert_eq!(marked, [true, true, true, true, false], "{drop_at:?}");
    }
}

/// `dualpi2_calculate_c_protection`: other weights start with the credit of an empty qdisc.
#[test]
fn new_weights_start_anew() {
    let mut queue = DualPi2::new(Config::default()).expect("valid");
    put(&mut queue, NOT_ECT, 5, 1000);
    put(&mut queue, ECT1, 5, 1000);
    let mut drops = Drops::new();
    assert!(queue.dequeue(Instant::ZERO, &mut drops).is_some());
    assert_eq!(queue.credit(), -80 * 1514 + 10 * 1000);
    let mut edit = |queue: &mut DualPi2<Probe>, share| {
        let change = |config: &mut Config| config.classic_protection = share;
        queue
            .edit(Instant::ZERO, &mut drops, change)
            .expect("valid");
        queue.credit()
    };
    assert_eq!(edit(&mut queue, 10), -80 * 1514 + 10 * 1000, "the same");
    assert_eq!(edit(&mut queue, 40), -20 * 1514);
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
