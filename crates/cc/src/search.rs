//! SEARCH (draft-chung-ccwg-search-09): leaves slow start when less arrives than was sent a round
//! trip before.
//!
//! Time is cut into bins of 0.35 initial round trips. A window of ten bins of acknowledged bytes is
//! compared with the window of bytes sent one round trip earlier: while the path carries all of it,
//! both are equal; beyond its capacity deliveries stand still and the share that is missing grows.
//! At 26 % slow start ends. Noise of the round trip, which ends HyStart early on wireless and
//! satellite links, moves the earlier window but hardly its contents.
//!
//! By then the window is several times what the path holds. It is set to what has arrived in about
//! the last initial round trip.
//!
//! DIVERGES: the draft drains the window gradually; here nothing is sent until the surplus has left.
//! The draft keeps 15 bins beyond the window and decides nothing once the round trip has grown to
//! more than five initial ones; here 35, for twelve.

use alloc::boxed::Box;
use core::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::controller::{Ack, Verdict};
use crate::slow_start::{SlowStart, Step};

/// Bins of a window.
const WINDOW_BINS: u64 = 10;
/// A window lasts 3.5 initial round trips: a bin 35 hundredths of one.
const BIN_PERCENT: u32 = 35;
/// Bins kept: the window, and how far a grown round trip may lie back.
const KEPT_BINS: u64 = WINDOW_BINS + 35;
/// Missing share of the sent bytes, in hundredths, that ends slow start.
const THRESHOLD: u64 = 26;
/// Fractions of a bin are counted in these.
const PARTS: u64 = 100;

/// SEARCH for one connection.
#[derive(Clone, Debug, Default)]
pub struct Search {
    acked: u64,
    /// `None` before the first RTT sample. Boxed: it is large, and most connections leave slow
    /// start soon.
    bins: Option<Box<Bins>>,
}

#[derive(Clone, Debug)]
struct Bins {
    /// Length of a bin.
    length: Duration,
    /// End of the current bin.
    end: Instant,
    /// Number of the last complete bin.
    last: u64,
    /// Totals at the end of each bin, bin `n` at `n` modulo their number. They never fall.
    acked: [u64; KEPT_BINS as usize],
    sent: [u64; KEPT_BINS as usize],
}

impl Search {
    /// The state at the start of a connection.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Bins {
    /// Bins that begin now. `None` for a round trip too short to divide.
    fn new(rtt: Duration, now: Instant, acked: u64, sent: u64) -> Option<Box<Self>> {
        let length = rtt * BIN_PERCENT / 100;
        (!length.is_zero()).then(|| {
            Box::new(Self {
                length,
                end: now + length,
                last: 0,
                acked: [acked; KEPT_BINS as usize],
                sent: [sent; KEPT_BINS as usize],
            })
        })
    }

    /// Closes the bins that have ended; bins without an acknowledgment repeat the totals before.
    /// False if more than a window of them have passed.
    fn close(&mut self, now: Instant, acked: u64, sent: u64) -> bool {
        let passed = 1 + (now - self.end).as_nanos() / self.length.as_nanos();
        let Some(passed) = u64::try_from(passed).ok().filter(|n| *n <= WINDOW_BINS) else {
            return false;
        };
        let (before_acked, before_sent) = (self.acked_at(self.last), self.sent_at(self.last));
        for bin in self.last + 1..self.last + passed {
            self.acked[place(bin)] = before_acked;
            self.sent[place(bin)] = before_sent;
        }
        self.last += passed;
        self.end += self.length * passed as u32;
        self.acked[place(self.last)] = acked;
        // Segments marked lost leave the flight, from which `sent` is derived, but they were sent.
        self.sent[place(self.last)] = sent.max(before_sent);
        true
    }

    fn acked_at(&self, bin: u64) -> u64 {
        self.acked[place(bin)]
    }

    fn sent_at(&self, bin: u64) -> u64 {
        self.sent[place(bin)]
    }

    /// Bytes sent until `parts` of a bin before the end of `bin`, not the first.
    fn sent_before(&self, bin: u64, parts: u64) -> u64 {
        let (from, to) = (self.sent_at(bin - 1), self.sent_at(bin));
        // In 128 bits no amount overflows.
        let later = u128::from(to - from) * u128::from(parts) / u128::from(PARTS);
        to - later as u64
    }

    /// Bytes acknowledged in the last three bins, 1.05 initial round trips.
    fn delivered_lately(&self) -> u64 {
        self.acked_at(self.last) - self.acked_at(self.last - 3)
    }

    /// More of what was sent a round trip ago is missing than a path that is not full explains.
    fn path_is_full(&self, rtt: Duration) -> bool {
        let parts = rtt.as_nanos() * u128::from(PARTS) / self.length.as_nanos();
        let Ok(parts) = u64::try_from(parts) else {
            return false;
        };
        let (back, parts) = (parts / PARTS, parts % PARTS);
        // Both windows must lie in the bins kept.
        if back + WINDOW_BINS + 2 > KEPT_BINS || self.last < back + WINDOW_BINS + 1 {
            return false;
        }
        let until = self.last - back;
        let sent = self.sent_before(until, parts) - self.sent_before(until - WINDOW_BINS, parts);
        let delivered = self.acked_at(self.last) - self.acked_at(self.last - WINDOW_BINS);
        let missing = sent.saturating_sub(delivered);
        sent > 0 && u128::from(missing) * 100 >= u128::from(THRESHOLD) * u128::from(sent)
    }
}

/// The place of bin `bin`.
fn place(bin: u64) -> usize {
    (bin % KEPT_BINS) as usize
}

impl SlowStart for Search {
    const CUBIC: &'static str = "cubic-search";

    fn on_ack(&mut self, ack: &Ack, _before: impl FnOnce() -> Verdict) -> Step {
        self.acked = self.acked.saturating_add(ack.acked.get());
        let sent = self.acked.saturating_add(ack.in_flight.get());
        let rtt = ack.rtt.unwrap_or(ack.srtt);
        let begun = match &mut self.bins {
            Some(bins) if ack.now < bins.end => return Step::Grow(ack.acked),
            Some(bins) => bins.close(ack.now, self.acked, sent),
            None => false,
        };
        match &self.bins {
            Some(bins) if begun && bins.path_is_full(rtt) => {
                return Step::LeaveAt(Bytes::new(bins.delivered_lately()));
            }
            Some(_) if begun => {}
            _ => self.bins = Bins::new(rtt, ack.now, self.acked, sent),
        }
        Step::Grow(ack.acked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::{PacingRatios, WindowPacing};
    use alloc::vec;

    const MSS: u64 = 1000;

    /// Totals stay at the most that can be counted.
    #[test]
    fn absurd_amounts_do_not_overflow() {
        let mut search = Search::new();
        let rtt = Duration::from_millis(20);
        for millis in 0..200 {
            let amount = Bytes::MAX / (1 + millis % 3);
            let ack = Ack {
                rtt: Some(rtt * 2),
                srtt: rtt,
                ..Ack::new(Instant::from_millis(1000 + millis), amount, amount)
            };
            let step = search.on_ack(&ack, || unreachable!("it asks for nothing"));
            assert!(matches!(step, Step::Grow(_) | Step::LeaveAt(_)));
        }
    }

    /// Slow start over a FIFO that carries `most` bytes in each `rtt`, with an acknowledgment each
    /// `rtt / 20` and round trips of which every other is longer by `jitter`. The window at which
    /// it ends, in multiples of `most`; `None` if it does not within 40 round trips.
    fn left_at(rtt: Duration, most: u64, jitter: Duration) -> Option<[f64; 2]> {
        let mut search = Search::new();
        let before = WindowPacing::new(PacingRatios::default())
            .verdict(Bytes::new(MSS), (Bytes::new(10 * MSS), Bytes::MAX));
        let (steps, step) = (20usize, rtt / 20);
        let (mut window, mut delivered) = (10 * MSS, 0);
        // Totals sent by each step.
        let mut sent = vec![window];
        for at in steps..40 * steps {
            let arrived = sent[at.saturating_sub(steps).min(sent.len() - 1)];
            let acked = (arrived - delivered).min(most / steps as u64);
            delivered += acked;
            let left = sent.partition_point(|total| *total < delivered);
            let delay = step * (at - left.min(at - steps)) as u32;
            let swing = if at % 2 == 0 { jitter } else { Duration::ZERO };
            let ack = Ack {
                rtt: Some(delay + swing),
                srtt: delay,
                ..Ack::new(
                    Instant::ZERO + step * at as u32,
                    Bytes::new(acked),
                    Bytes::new(window),
                )
            };
            match search.on_ack(&ack, || before) {
                Step::Grow(bytes) => window = (window + bytes.get()).min(1 << 50),
                Step::LeaveAt(to) => {
                    return Some([window, to.get()].map(|w| w as f64 / most as f64));
                }
                Step::Leave => unreachable!("it names the window"),
            }
            sent.resize(at + 1, *sent.last().expect("not empty"));
            sent[at] = delivered + window;
        }
        None
    }

    /// As long as everything arrives nothing ends, however long it takes; beyond the path's
    /// capacity it does, with a window of what the path holds.
    #[test]
    fn a_full_path_ends_slow_start_and_no_other_does() {
        for millis in [1, 20, 600] {
            let rtt = Duration::from_millis(millis);
            let wide = left_at(rtt, u64::MAX >> 8, Duration::ZERO);
            assert_eq!(wide, None, "{rtt:?}");
            let left = left_at(rtt, 1_000_000, Duration::ZERO);
            let [before, after] = left.expect("the path is full");
            assert!((1.5..6.0).contains(&before), "{rtt:?}: {before}");
            assert!((0.9..1.2).contains(&after), "{rtt:?}: {after}");
        }
    }

    /// A round trip that varies by half ends HyStart++, but not SEARCH.
    #[test]
    fn jitter_does_not_end_it() {
        let rtt = Duration::from_millis(40);
        let left = left_at(rtt, 1_000_000, rtt / 2);
        assert!(left.is_some_and(|[before, _]| before > 1.5), "{left:?}");
    }

    /// A flight that shrinks by losses makes no total fall.
    #[test]
    fn what_was_sent_stays_sent() {
        let rtt = Duration::from_millis(10);
        let mut bins = Bins::new(rtt, Instant::ZERO, 0, 100_000).expect("long enough");
        for bin in 1..2 * KEPT_BINS {
            let now = Instant::ZERO + bins.length * bin as u32;
            assert!(bins.close(now, 1000 * bin, 100_000 - 1000 * bin));
            assert!(!bins.path_is_full(rtt + bins.length / 2));
            assert_eq!(bins.sent_at(bin), 100_000);
        }
    }

    /// Bins without an acknowledgment repeat the totals of the bin before them.
    #[test]
    fn bins_without_an_acknowledgment_repeat_the_totals() {
        let rtt = Duration::from_millis(10);
        let mut bins = Bins::new(rtt, Instant::ZERO, 10, 100).expect("long enough");
        for (end, acked, sent) in [(1, 20, 200), (4, 50, 500)] {
            assert!(bins.close(Instant::ZERO + bins.length * end, acked, sent));
        }
        let totals = |bin| (bins.acked_at(bin), bins.sent_at(bin));
        assert_eq!(
            [1, 2, 3, 4].map(totals),
            [(20, 200), (20, 200), (20, 200), (50, 500)]
        );
    }

    /// The window of sent bytes must lie in the bins kept: 33 bins back at most.
    #[test]
    fn a_round_trip_longer_than_the_bins_kept_ends_nothing() {
        let rtt = Duration::from_millis(10);
        let mut bins = Bins::new(rtt, Instant::ZERO, 0, 0).expect("long enough");
        // Much is sent in each bin and next to nothing arrives.
        for bin in 1..=2 * KEPT_BINS {
            let end = Instant::ZERO + bins.length * bin as u32;
            assert!(bins.close(end, bin, 1000 * bin));
        }
        assert!(bins.path_is_full(bins.length * 33));
        assert!(!bins.path_is_full(bins.length * 34));
    }

    /// After a pause longer than a window the bins begin anew.
    #[test]
    fn a_pause_begins_the_bins_anew() {
        let rtt = Duration::from_millis(10);
        let mut bins = Bins::new(rtt, Instant::ZERO, 0, 0).expect("long enough");
        assert!(bins.close(Instant::ZERO + rtt, 1, 2));
        assert_eq!((bins.last, bins.acked_at(1), bins.acked_at(2)), (2, 0, 1));
        assert!(!bins.close(Instant::ZERO + rtt * 20, 3, 4));
        assert!(Bins::new(Duration::ZERO, Instant::ZERO, 0, 0).is_none());
    }
}
