//! Drops and marks of both queues by the base probability, and the thresholds of the low-latency one.

use super::*;

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

/// `dualpi2_scalable_marking`: when all are to be marked, a packet that a filter has put into the
/// low-latency queue and that cannot be marked is dropped with p² alone, not always.
#[test]
fn overload_does_not_starve_what_cannot_be_marked() {
    for (overload, share) in [(Overload::Drop, 0.36), (Overload::Overflow, 1.0)] {
        let config = Config {
            overload,
            ..Config::default()
        };
        let mut queue = constant(config, if share < 1.0 { 0.6 } else { 0.5 });
        let mut fates = [0; 3];
        for id in 0..10_000 {
            let mut packet = Probe::new(id).tos(NOT_ECT);
            let fate = queue.coupled(Side::Low, Bytes::mib(1), &packet, Instant::ZERO);
            fates[queue.carry_out(fate, &mut packet) as usize] += 1;
        }
        let dropped = f64::from(fates[Fate::Drop as usize]) / 10_000.0;
        assert!((dropped - share).abs() < 0.02, "{overload:?}: {dropped}");
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
