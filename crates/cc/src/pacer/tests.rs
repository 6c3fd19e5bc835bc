//! Spacing, lateness, batches, and what holds at any rate.

use super::*;
use alloc::vec::Vec;
use core::time::Duration;
use proptest::collection::vec;
use proptest::prelude::*;

const LEN: Bytes = Bytes::new(1_250);
const RATE: Rate = Rate::mbit(10);

/// 10 Mbit/s and a burst of so many packets.
fn pace(packets: u64) -> Pace {
    Pace {
        rate: RATE,
        burst: LEN * packets,
    }
}

#[test]
fn a_punctual_pacer_spaces_by_the_rate() {
    let mut pacer = Pacer::default();
    let mut now = Instant::from_secs(1);
    pacer.departed(now, LEN, 1, pace(0));
    for _ in 0..10 {
        assert_eq!(pacer.next() - now, Duration::from_millis(1));
        now = pacer.next();
        pacer.departed(now, LEN, 1, pace(0));
    }
}

/// Late by a tenth, by half and by more than half of the 1 ms between segments: 0.9, 0.5 and
/// 0.5 ms to the next.
#[test]
fn linux_forgives_half_a_segment() {
    for (late, distance) in [(100, 900), (500, 500), (5_000, 500)] {
        let mut pacer = Pacer::new(PacerConfig {
            unpaced: 0,
            ..PacerConfig::linux()
        });
        let now = Instant::from_secs(1);
        pacer.departed(now, LEN, 1, pace(4));
        pacer.next = now;
        let now = now + Duration::from_micros(late);
        pacer.departed(now, LEN, 1, pace(4));
        assert_eq!(
            pacer.next() - now,
            Duration::from_micros(distance),
            "late by {late} µs"
        );
        let now = pacer.next();
        pacer.departed(now, LEN, 1, pace(4));
        assert_eq!(
            pacer.next() - now,
            Duration::from_millis(1),
            "what was not made up for is forgotten"
        );
    }
}

/// The tenth is counted before it is spaced from the eleventh, also as the last of a packet.
#[test]
fn linux_lets_the_first_ten_segments_go_at_once() {
    for (segments, packets) in [(1, 10), (2, 5), (3, 4), (10, 1), (44, 1)] {
        let mut pacer = Pacer::new(PacerConfig::linux());
        let now = Instant::from_secs(1);
        let mut sent = 0;
        while pacer.next() <= now {
            pacer.departed(now, LEN * u64::from(segments), segments, pace(0));
            sent += 1;
        }
        assert_eq!(sent, packets, "packets of {segments}");
    }
}

#[test]
fn segments_that_left_before_a_connection_is_paced_count_among_its_first() {
    for (before, at_once) in [(0, 10), (1, 9), (9, 1), (10, 1)] {
        let mut pacer = Pacer::new(PacerConfig::linux());
        pacer.departed_unpaced(before);
        let now = Instant::from_secs(1);
        let mut sent = 0;
        while pacer.next() <= now {
            pacer.departed(now, LEN, 1, pace(0));
            sent += 1;
        }
        assert_eq!(sent, at_once, "{before} before");
    }
}

/// The short cut and the division agree on both sides of every border.
#[test]
fn the_burst_is_what_it_takes_at_the_rate() {
    for (rate, burst) in [
        (1_250_000, 5_000),
        (3, 2),
        (7, 1),
        (1, 1),
        (0, 1),
        (0, 0),
        (u64::MAX, 9),
        (1_000_000_007, 65_536),
    ] {
        let (rate, burst) = (Rate::bytes_per_sec(rate), Bytes::new(burst));
        let forgiven = (burst / rate).min(Duration::from_secs(1)).as_nanos() as u64;
        for late in [
            0,
            1,
            2,
            forgiven.saturating_sub(1),
            forgiven,
            forgiven + 1,
            1_000_000_000,
            1_000_000_001,
        ] {
            let next = Instant::from_secs(5);
            let (pacer, at) = (
                Pacer {
                    next,
                    ..Pacer::default()
                },
                next.after_nanos(late),
            );
            let expected = next.max(Instant::from_nanos(at.as_nanos() - forgiven));
            assert_eq!(
                pacer.caught_up(at, Pace { rate, burst }),
                expected,
                "{late} ns late at {rate:?} with {burst:?}"
            );
        }
    }
}

#[test]
fn a_late_pacer_catches_up_by_the_burst_and_no_more() {
    let mut pacer = Pacer::default();
    let now = Instant::from_secs(5);
    let mut sent = 0;
    while pacer.next() <= now {
        pacer.departed(now, LEN, 1, pace(4));
        sent += 1;
    }
    assert_eq!(sent, 5, "the burst of four and the segment that is due");
}

/// A sender that waits for three packets sends three at once, as often as the rate allows.
#[test]
fn a_batch_leaves_together() {
    let (mut pacer, start) = (Pacer::default(), Instant::from_secs(1));
    pacer.departed(start, LEN, 1, pace(0));
    let mut now = pacer.next();
    for _ in 0..10 {
        let at = pacer.batch_at(LEN * 3, pace(4));
        assert_eq!(at - now, Duration::from_millis(3));
        now = at;
        for _ in 0..3 {
            assert!(pacer.next() <= now);
            pacer.departed(now, LEN, 1, pace(4));
        }
    }
    assert_eq!(
        pacer.batch_at(LEN * 9, pace(4)) - pacer.next(),
        Duration::from_millis(4),
        "the burst"
    );
    let linux = Pacer::new(PacerConfig::linux());
    assert_eq!(linux.batch_at(LEN * 9, pace(4)), linux.next());
}

#[test]
fn extremes_do_not_overflow() {
    for rate in [Rate::ZERO, Rate::bytes_per_sec(1), Rate::MAX] {
        for burst in [Bytes::ZERO, Bytes::MAX] {
            for config in [PacerConfig::default(), PacerConfig::linux()] {
                let (mut pacer, pace) = (Pacer::new(config), Pace { rate, burst });
                for at in [0, u64::MAX, 0] {
                    for len in [0, 1, u64::MAX] {
                        pacer.departed(Instant::from_nanos(at), Bytes::new(len), 1, pace);
                        assert!(pacer.batch_at(Bytes::new(len), pace) >= pacer.next());
                    }
                }
            }
        }
    }
}

proptest! {
    /// Over any interval no more leaves than the rate, the burst, and the packet at its end allow,
    /// whatever the lengths and lateness; no packet waits longer than the one before it takes.
    #[test]
    fn the_rate_is_kept_over_any_interval(
        packets in vec((1..65_536u64, prop_oneof![Just(0), 0..5_000_000u64, 0..2_000_000_000u64]), 1..60),
        kbit in 8..10_000_000u64,
        burst in 0..200_000u64,
        linux: bool,
    ) {
        let catch_up = if linux { CatchUp::HalfSegment } else { CatchUp::Burst };
        let pace = Pace { rate: Rate::kbit(kbit), burst: Bytes::new(burst) };
        let mut pacer = Pacer::new(PacerConfig { catch_up, unpaced: 0 });
        let mut now = Instant::from_secs(10);
        let mut sent: Vec<(Instant, u64)> = Vec::new();
        for (len, late) in packets {
            now = now.max(pacer.next()).after_nanos(late);
            sent.push((now, len));
            pacer.departed(now, Bytes::new(len), 1, pace);
            let longest = now.after_nanos(Bytes::new(len).nanos_at(pace.rate));
            prop_assert!(pacer.next() <= longest, "no starvation");
        }
        for (first, &(from, len)) in sent.iter().enumerate() {
            // Linux credits half a packet.
            let credit = if linux { len.div_ceil(2) } else { burst };
            let mut bytes = 0;
            for &(at, len) in &sent[first..] {
                let allowed = pace.rate * (at - from) + Bytes::new(credit + 1);
                prop_assert!(bytes <= allowed.get(), "{bytes} bytes in {:?}", at - from);
                bytes += len;
            }
        }
    }

    /// A sender that is never later than the burst loses nothing: the last packet leaves when a
    /// punctual sender's would, and as late as this one is then.
    #[test]
    fn lateness_within_the_burst_costs_no_rate(lates in vec(0..4_000_000u64, 1..60)) {
        let (mut pacer, start) = (Pacer::default(), Instant::from_secs(10));
        pacer.departed(start, LEN, 1, pace(0));
        let mut now = start;
        for (place, late) in (1..).zip(&lates) {
            now = now.max(pacer.next().after_nanos(*late));
            pacer.departed(now, LEN, 1, pace(4));
            prop_assert_eq!(pacer.next(), start.after_nanos((place + 1) * 1_000_000));
        }
    }
}
