//! The pacer: when the next byte of a connection may leave (Linux `tcp_update_skb_after_send`).
//!
//! Departures are spaced by `payload / rate`: headers come on top, as in Linux. A pacer that is
//! polled late catches up: by the verdict's burst, for a host that wakes every 50 µs could
//! otherwise not fill a fast link, or as Linux does.

use tautline_base::{Bytes, Instant, Rate};

/// Pacer parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacerConfig {
    /// Compensation of lateness. Default: [`CatchUp::Burst`].
    pub catch_up: CatchUp,
    /// Segments of data at the start of a connection after which the next leaves at once: the packet
    /// that has one more is spaced from the next. Default 0; Linux 9: it counts the packet's segments
    /// first (`data_segs_out` in `__tcp_transmit_skb`).
    pub unpaced: u32,
}

impl PacerConfig {
    /// As `tcp_update_skb_after_send` does, for FQ and for the internal timer.
    pub const fn linux() -> Self {
        Self {
            catch_up: CatchUp::HalfSegment,
            unpaced: 9,
        }
    }
}

/// Treatment of the time by which a segment left later than the pacer allowed, because the window
/// or a slow host held it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// It is credited, up to the burst of the controller's verdict.
    #[default]
    Burst,
    /// It shortens the distance to the next segment by half at most, and is forgotten (Linux). A
    /// sender that waits for its window is then paced all the same.
    HalfSegment,
}

/// No burst is worth more than a second, in nanoseconds.
const LONGEST_BURST: u64 = 1_000_000_000;

/// One connection's pacer.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    catch_up: CatchUp,
    /// Segments that still leave at once.
    unpaced: u32,
    /// Earliest departure of the next segment.
    next: Instant,
}

impl Pacer {
    pub(crate) fn new(config: PacerConfig) -> Self {
        Self {
            catch_up: config.catch_up,
            unpaced: config.unpaced,
            next: Instant::ZERO,
        }
    }

    /// Departure time of the next segment; in the past means now.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// The position of a departure at `at` in the schedule: as late as it is, but by no more than
    /// `burst` takes at `rate`, nor than a second.
    fn caught_up(&self, at: Instant, rate: Rate, burst: Bytes) -> Instant {
        let late = at.nanos_since(self.next);
        // late <= burst / rate, rounded up: to multiply is cheap, to divide is not, and nearly
        // every departure is within the burst.
        let due = u128::from(late.saturating_sub(1)) * u128::from(rate.as_bytes_per_sec());
        if late == 0
            || (late <= LONGEST_BURST && due < u128::from(burst.get()) * u128::from(LONGEST_BURST))
        {
            return self.next;
        }
        let forgiven = burst.nanos_at(rate).min(LONGEST_BURST);
        self.next
            .max(Instant::from_nanos(at.as_nanos().saturating_sub(forgiven)))
    }

    /// A segment that was to depart at `at` is dropped in this host: its time is free again. Otherwise
    /// each attempt would move the next one further beyond the horizon of FQ (Linux advances
    /// `tcp_wstamp_ns` only for a segment that the qdisc has taken).
    pub(crate) fn withdraw(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    /// Records the departure of `len` bytes of payload at `at`, in `segments` segments at `rate`;
    /// lateness of up to `burst` may be made up for.
    pub(crate) fn departed(
        &mut self,
        at: Instant,
        (len, segments): (Bytes, u32),
        rate: Rate,
        burst: Bytes,
    ) {
        let left = self.unpaced.checked_sub(segments);
        self.unpaced = left.unwrap_or(0);
        if left.is_some() {
            self.next = self.next.max(at);
            return;
        }
        let distance = len.nanos_at(rate);
        self.next = match self.catch_up {
            CatchUp::Burst => self.caught_up(at, rate, burst).after_nanos(distance),
            CatchUp::HalfSegment => self
                .next
                .max(at)
                .after_nanos(distance - at.nanos_since(self.next).min(distance / 2)),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LEN: Bytes = Bytes::new(1_250);
    const RATE: Rate = Rate::mbit(10);

    #[test]
    fn a_punctual_pacer_spaces_by_the_rate() {
        let mut pacer = Pacer::default();
        let mut now = Instant::from_secs(1);
        pacer.departed(now, (LEN, 1), RATE, Bytes::ZERO);
        for _ in 0..10 {
            assert_eq!(pacer.next() - now, Duration::from_millis(1));
            now = pacer.next();
            pacer.departed(now, (LEN, 1), RATE, Bytes::ZERO);
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
            pacer.departed(now, (LEN, 1), RATE, LEN * 4);
            pacer.next = now;
            let now = now + Duration::from_micros(late);
            pacer.departed(now, (LEN, 1), RATE, LEN * 4);
            assert_eq!(
                pacer.next() - now,
                Duration::from_micros(distance),
                "late by {late} µs"
            );
            let now = pacer.next();
            pacer.departed(now, (LEN, 1), RATE, LEN * 4);
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
                pacer.departed(
                    now,
                    (LEN * u64::from(segments), segments),
                    RATE,
                    Bytes::ZERO,
                );
                sent += 1;
            }
            assert_eq!(sent, packets, "packets of {segments}");
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
                    pacer.caught_up(at, rate, burst),
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
            pacer.departed(now, (LEN, 1), RATE, LEN * 4);
            sent += 1;
        }
        assert_eq!(sent, 5, "the burst of four and the segment that is due");
    }
}
