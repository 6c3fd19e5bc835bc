//! The delay: departure rates, time stamps, and what a device below makes of them.

use super::*;

/// RFC 8033 §4, worked by hand: the estimator at 100 Mbit/s, at 1 Mbit/s, and fooled by a burst.
#[test]
fn departure_rates_are_those_of_linux() {
    let measure = |gap_nanos: u64, packets: u64, meter: &mut Meter, from: u64| {
        (0..packets).for_each(|n| {
            meter.measure(
                Law::Linux,
                THRESHOLD,
                1514,
                100_000,
                (from + n * gap_nanos) >> 6,
            );
        });
    };
    let mut meter = Meter::default();
    measure(121_120, 11, &mut meter, 0);
    assert_eq!(
        (meter.raw(), meter.rate(Law::Linux)),
        (225, 13_732_910),
        "11 packets over 10 gaps"
    );
    let mut later = Meter::default();
    // From the second cycle on 11 packets take 11 gaps.
    later.measure(Law::Linux, THRESHOLD, 0, 100_000, 0);
    measure(121_120, 11, &mut later, 121_120);
    assert_eq!((later.raw(), later.rate(Law::Linux)), (204, 12_451_171));
    let mut slow = Meter::default();
    slow.measure(Law::Linux, THRESHOLD, 0, 100_000, 0);
    measure(12_112_000, 11, &mut slow, 12_112_000);
    assert_eq!((slow.raw(), slow.rate(Law::Linux)), (2, 122_070));
    let mut fooled = Meter::default();
    measure(60, 11, &mut fooled, 0);
    assert!(
        (28_000_000_000..30_000_000_000).contains(&fooled.rate(Law::Linux)),
        "{}",
        fooled.rate(Law::Linux)
    );
    // The RFC's arithmetic on a clock of nanoseconds.
    let mut exact = Meter::default();
    exact.measure(Law::Rfc8033, THRESHOLD, 0, 100_000, 0);
    (1..=11).for_each(|n| {
        exact.measure(Law::Rfc8033, THRESHOLD, 1514, 100_000, n * 121_120);
    });
    assert_eq!(exact.rate(Law::Rfc8033), 12_500_000);
    assert_eq!(exact.delay(Law::Rfc8033, 187_500), 15_000_000);
}

/// The default threshold of a measurement.
const THRESHOLD: u64 = 1 << 14;

/// A rate is measured from a backlog of 16 KiB on, averaged by eighths, and not over no time.
#[test]
fn the_meter_waits_for_a_backlog_and_for_time() {
    let law = Law::Rfc8033;
    let mut meter = Meter::default();
    assert_eq!(
        (
            meter.measure(law, THRESHOLD, 20_000, 16_383, 0),
            meter.delay(law, 1000)
        ),
        (0, 0)
    );
    assert_eq!(
        meter.measure(law, THRESHOLD, 20_000, 16_384, 10),
        0,
        "no time has passed"
    );
    assert_eq!(meter.measure(law, THRESHOLD, 0, 16_384, 10), 0);
    assert_eq!(
        meter.measure(law, THRESHOLD, 0, 16_384, 1_000_000_010),
        1_000_000_000
    );
    assert_eq!(meter.rate(law), 20_000);
    assert_eq!(
        meter.measure(law, THRESHOLD, 40_000, 16_383, 2_000_000_010),
        1_000_000_000
    );
    assert_eq!(
        meter.rate(law),
        20_000 - 2_500 + 5_000,
        "an eighth of the new"
    );
    assert_eq!(
        meter.measure(law, THRESHOLD, 20_000, 1000, 3_000_000_010),
        0,
        "the backlog fell below: no measurement runs"
    );
}

/// RFC 8033 §4: a calm queue without probability has its burst allowance back and its rate
/// forgotten; with the estimator only where a rate is known, since a measurement that has just
/// begun is not a calm queue.
#[test]
fn linux_starts_anew_when_calm() {
    let pie = Params {
        law: Law::Linux,
        delay: DelaySource::DepartureRate,
        max_burst: Duration::from_millis(100),
        first_update: Duration::from_millis(15),
        ..Params::default()
    };
    let config = Config {
        pie,
        ..Config::default()
    };
    let (mut queue, mut drops) = (Pie::new(config).expect("valid"), Drops::new());
    (0..40).for_each(|id| queue.enqueue(Probe::new(id), Instant::ZERO, &mut drops));
    for n in 0..=10 {
        queue.dequeue(ms(10 * n), &mut drops).expect("queued");
    }
    assert_eq!(
        queue.control.aqm.departure_rate(&queue.control.state),
        122_070,
        "eleven packets are a measurement, through six updates"
    );
    let cycles: Vec<_> = queue.stats().cycles.buckets().collect();
    assert_eq!(cycles, [(1 << 26, 1)], "it took 100 ms");
    let judged = |queue: &mut Pie<Probe>, backlog| {
        queue.control.state.steady(0.21, 0);
        queue.control.state.accumulate(8.5);
        queue.control.aqm.admit(
            &mut queue.control.state,
            &mut Probe::new(0),
            Bytes::new(backlog),
            ms(101),
        )
    };
    assert_eq!(
        judged(&mut queue, 100_000),
        Verdict::Dropped,
        "which used up the burst"
    );
    queue.control.state.steady(0.0, 0);
    queue.control.aqm.admit(
        &mut queue.control.state,
        &mut Probe::new(0),
        Bytes::ZERO,
        ms(120),
    );
    assert_eq!(queue.control.aqm.departure_rate(&queue.control.state), 0);
    assert_eq!(
        judged(&mut queue, 100_000),
        Verdict::Pass,
        "another burst is let through"
    );
}

/// The mean delay (ms) of a sender 10 ms away that doubles its window until the first loss and then
/// adds one per round trip, over a link of 100 Mbit/s below which a device takes `burst` packets at
/// a time, 50 ns apart. The buffer holds 121 ms.
fn behind_a_device(pie: Params, burst: u64) -> f64 {
    let mut queue = Pie::new(config(pie)).expect("valid");
    let (mut drops, mut acks) = (Drops::new(), VecDeque::from([0; 10]));
    let (mut window, mut in_flight, mut total, mut sent, mut calm_until) =
        (10.0, 10.0, Duration::ZERO, 0, None);
    for round in 0..100_000 / burst {
        let at = round * burst * 121_120;
        while acks.front().is_some_and(|&ack| ack <= at) {
            acks.pop_front();
            window += if calm_until.is_none() {
                1.0
            } else {
                1.0 / window
            };
            in_flight -= 1.0;
        }
        while in_flight < window {
            queue.enqueue(Probe::new(0), Instant::from_nanos(at), &mut drops);
            in_flight += 1.0;
        }
        for n in 0..burst {
            let now = Instant::from_nanos(at + 50 * n);
            if let Some(packet) = queue.dequeue(now, &mut drops) {
                acks.push_back(at + 10_000_000);
                total += now - packet.enqueued();
                sent += 1;
            }
        }
        let lost = drops.drain().count();
        in_flight -= lost as f64;
        if lost > 0 && calm_until.is_none_or(|until| at >= until) {
            window = f64::max(window / 2.0, 2.0);
            calm_until = Some(at + 30_000_000);
        }
    }
    assert!(sent > 90_000, "the link stays busy: {sent}");
    total.as_secs_f64() * 1e3 / f64::from(sent)
}

/// Effect, the finding of the thesis: below a device that takes 20 packets at once PIE with the
/// rate estimator never drops but for the limit; with time stamps, or below a device held to 2
/// packets, it holds its target.
#[test]
fn a_bursty_device_blinds_the_rate_estimator_but_not_the_time_stamps() {
    for law in [Law::Rfc8033, Law::Linux] {
        let run = |delay, burst| {
            let pie = Params {
                law,
                delay,
                ..Params::default()
            };
            behind_a_device(pie, burst)
        };
        let blind = run(DelaySource::DepartureRate, 20);
        assert!(blind > 50.0, "{law}: as without PIE: {blind} ms");
        for (delay, burst) in [
            (DelaySource::Timestamp, 20),
            (DelaySource::Timestamp, 2),
            (DelaySource::DepartureRate, 2),
        ] {
            let held = run(delay, burst);
            assert!(
                (5.0..25.0).contains(&held),
                "{law} {delay:?} bursts of {burst}: {held} ms"
            );
        }
    }
}

/// Effect, thesis §5.3.3 on a NIC whose bursts are of ten packets: one holds a whole measurement of
/// 10 000 bytes, and none of 16 KiB.
#[test]
fn the_threshold_decides_which_bursts_blind_the_rate_estimator() {
    let run = |dq_threshold| {
        let pie = Params {
            law: Law::Linux,
            delay: DelaySource::DepartureRate,
            dq_threshold,
            ..Params::default()
        };
        behind_a_device(pie, 10)
    };
    let (blind, held) = (run(Bytes::new(10_000)), run(Bytes::kib(16)));
    assert!(blind > 50.0 && held < 25.0, "{blind} ms, {held} ms");
}

/// Effect: with gains of zero the buffer fills.
#[test]
fn the_controller_is_what_holds_the_delay() {
    let neutral = Params {
        alpha: 0.0,
        beta: 0.0,
        ..Params::default()
    };
    let (with, without) = (
        behind_a_device(Params::default(), 1),
        behind_a_device(neutral, 1),
    );
    assert!(with < 25.0 && without > 50.0, "{with} {without}");
}
