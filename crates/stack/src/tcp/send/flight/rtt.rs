//! Round-trip time and retransmission timeout (RFC 6298 with Linux's 200 ms variance floor;
//! `tcp_rtt_estimator` in `net/ipv4/tcp_input.c`).
//!
//! As in Linux, the variance in the timeout is the largest deviation of a round trip, not the
//! latest: it rises at once, and falls by a quarter of the difference once a round trip. The
//! timeout thus keeps for a while a deviation that calm samples have erased.

use std::num::NonZeroU64;
use std::time::Duration;

use tautline_base::Instant;

/// RTO before the first sample (RFC 6298 §2.1).
pub(in crate::tcp) const INITIAL_RTO: Duration = Duration::from_secs(1);
/// RTO of the first data if the handshake gave no sample: its SYN had to be sent again, and no timestamp
/// tells which copy arrived (RFC 6298 §5.7).
const FALLBACK_RTO: Duration = Duration::from_secs(3);
/// Floor of the variance term: RTO = SRTT + max(floor, 4 × deviation).
const VARIANCE_FLOOR: Duration = Duration::from_millis(200);
/// Largest RTO, backoff included.
pub(in crate::tcp) const MAX_RTO: Duration = Duration::from_secs(120);
/// Window of the minimum filter (Linux `tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// Smoothed RTT, its mean deviation, and the lowest RTT of the last five minutes.
#[derive(Debug, Default)]
pub(crate) struct RttEstimator {
    smoothed: Option<Smoothed>,
    /// The handshake is over and gave no sample.
    opened_without: bool,
    backoff: u32,
}

/// Times are nanoseconds in 64 bits, 584 years at most: half the bytes of a [`Duration`], for an
/// idle connection has a budget, and a fraction of its arithmetic, for every segment asks.
#[derive(Debug)]
struct Smoothed {
    latest: u64,
    srtt: u64,
    deviation: u64,
    /// Addend of the timeout: at least the floor.
    variance: u64,
    /// The largest of this round, at least the floor.
    largest: u64,
    /// Once more than this is acknowledged, the round is over.
    round_end: Option<NonZeroU64>,
    min: u64,
    min_at: Instant,
}

impl Smoothed {
    /// After the first sample (RFC 6298 §2.2).
    fn first(sample: u64, now: Instant) -> Self {
        let variance = nanos(VARIANCE_FLOOR).max((sample / 2).saturating_mul(4));
        Self {
            latest: sample,
            srtt: sample,
            deviation: sample / 2,
            variance,
            largest: variance,
            round_end: None,
            min: sample,
            min_at: now,
        }
    }
}

const fn nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(duration.subsec_nanos() as u64)
}

impl RttEstimator {
    /// Takes a sample from data that was sent once (Karn) and ends any backoff.
    pub(crate) fn sample(&mut self, rtt: Duration, now: Instant) {
        let sample = nanos(rtt).max(1);
        if let Some(s) = &mut self.smoothed
            && (sample <= s.min || now.nanos_since(s.min_at) > const { nanos(MIN_RTT_WINDOW) })
        {
            (s.min, s.min_at) = (sample, now);
        }
        self.coarse_sample(Duration::from_nanos(sample), now);
    }

    /// Takes a sample of coarse resolution, from timestamps: it ends any backoff and moves the
    /// average, and the minimum only if it is the first.
    pub(crate) fn coarse_sample(&mut self, rtt: Duration, now: Instant) {
        self.backoff = 0;
        let rtt = nanos(rtt);
        let Some(s) = &mut self.smoothed else {
            self.smoothed = Some(Smoothed::first(rtt, now));
            return;
        };
        s.latest = rtt;
        let error = rtt.abs_diff(s.srtt);
        // A sample that lowers the RTT by more than the deviation is weak evidence of jitter: Linux
        // gives it 1/8 the weight.
        let weight = if rtt < s.srtt && error > s.deviation {
            32
        } else {
            4
        };
        s.deviation = s.deviation - s.deviation / weight + error / weight;
        s.srtt = s.srtt - s.srtt / 8 + rtt / 8;
        s.largest = s.largest.max(s.deviation.saturating_mul(4));
        s.variance = s.variance.max(s.largest);
    }

    /// The samples of an acknowledgment up to offset `una` have been taken; `next` is sent next.
    /// Perhaps a round is over.
    pub(crate) fn acknowledged(&mut self, una: u64, next: u64) {
        let Some(s) = &mut self.smoothed else { return };
        match s.round_end {
            Some(end) if una <= end.get() => return,
            Some(_) => {
                s.variance -= s.variance.saturating_sub(s.largest) / 4;
                s.largest = const { nanos(VARIANCE_FLOOR) };
            }
            None => {}
        }
        s.round_end = NonZeroU64::new(next);
    }

    /// The handshake is over. If it gave no sample, the path may well be longer than the first
    /// guess.
    pub(crate) fn opened(&mut self) {
        if self.smoothed.is_none() {
            self.opened_without = true;
            self.backoff = 0;
        }
    }

    fn time(&self, which: impl FnOnce(&Smoothed) -> u64) -> Duration {
        Duration::from_nanos(self.smoothed.as_ref().map_or(0, which))
    }

    /// The latest sample; zero before the first.
    pub(crate) fn latest(&self) -> Duration {
        self.time(|s| s.latest)
    }

    /// The smoothed RTT; zero before the first sample.
    pub(crate) fn srtt(&self) -> Duration {
        self.time(|s| s.srtt)
    }

    /// The same in nanoseconds.
    pub(crate) fn srtt_nanos(&self) -> u64 {
        self.smoothed.as_ref().map_or(0, |s| s.srtt)
    }

    /// The mean deviation; zero before the first sample.
    pub(crate) fn deviation(&self) -> Duration {
        self.time(|s| s.deviation)
    }

    /// The lowest recent RTT; zero before the first sample.
    pub(crate) fn min(&self) -> Duration {
        self.time(|s| s.min)
    }

    /// The retransmission timeout, backed off.
    pub(crate) fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto_nanos())
    }

    /// The same in nanoseconds.
    pub(crate) fn rto_nanos(&self) -> u64 {
        let base = match &self.smoothed {
            None if self.opened_without => const { nanos(FALLBACK_RTO) },
            None => const { nanos(INITIAL_RTO) },
            Some(s) => s.srtt.saturating_add(s.variance),
        };
        base.saturating_mul(1 << self.backoff.min(16))
            .min(const { nanos(MAX_RTO) })
    }

    /// A retransmission timeout after `at`.
    #[inline]
    pub(crate) fn timeout_after(&self, at: Instant) -> Instant {
        at.after_nanos(self.rto_nanos())
    }

    /// Number of doublings of the timeout.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Doubles the timeout until the next sample.
    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// The timeout that doubled it was spurious (RFC 4015 §3.2).
    pub(crate) fn end_back_off(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_examples_of_the_spec() {
        // RFC 6298 §2.2: first R = 1 / 40 / 150 / 300 ms give RTO 201 / 240 / 450 / 900 ms.
        for (rtt, rto) in [(1, 201), (40, 240), (150, 450), (300, 900)] {
            let mut estimator = RttEstimator::default();
            estimator.sample(Duration::from_millis(rtt), Instant::ZERO);
            assert_eq!(estimator.rto(), Duration::from_millis(rto));
        }
    }

    /// Calm samples after a first one of 150 ms, whose deviation adds 300 ms: from the second round
    /// on a quarter of what is above the floor goes, however many samples a round has. One that
    /// deviates counts at once.
    #[test]
    fn the_largest_deviation_of_a_round_is_remembered() {
        let mut estimator = RttEstimator::default();
        let rtt = Duration::from_millis(150);
        estimator.sample(rtt, Instant::ZERO);
        estimator.acknowledged(1, 10);
        let timeouts = [1, 2, 3, 4].map(|round| {
            for una in 10 * round - 8..=10 * round + 1 {
                estimator.sample(rtt, Instant::from_secs(round));
                estimator.acknowledged(una, 10 * (round + 1));
            }
            estimator.rto().as_nanos()
        });
        assert_eq!(
            timeouts,
            [450_000_000, 425_000_000, 406_250_000, 392_187_500]
        );
        assert!(
            estimator.deviation() < Duration::from_millis(1),
            "the deviation itself has forgotten it"
        );
        estimator.sample(Duration::from_millis(550), Instant::from_secs(9));
        assert_eq!(
            estimator.rto(),
            estimator.srtt() + estimator.deviation() * 4
        );
        assert!(
            estimator.rto() > Duration::from_millis(590),
            "{:?}",
            estimator.rto()
        );
    }

    #[test]
    fn retries2_takes_924_6_seconds() {
        // RFC 6298 §5.5 with Linux's `TCP_RTO_MAX`: ten doubling timeouts from 0.2 s, then six
        // capped at 120 s.
        let mut estimator = RttEstimator::default();
        estimator.sample(Duration::from_nanos(1), Instant::ZERO);
        let mut total = Duration::ZERO;
        for _ in 0..16 {
            total += estimator.rto();
            estimator.back_off();
        }
        assert_eq!(total.as_millis(), 924_600);
    }

    #[test]
    fn absurd_samples_are_survived() {
        let mut estimator = RttEstimator::default();
        for rtt in [
            Duration::ZERO,
            Duration::from_secs(100),
            Duration::from_nanos(1),
            Duration::from_secs(100_000),
        ] {
            estimator.sample(rtt, Instant::from_secs(1));
            assert!(estimator.rto() >= VARIANCE_FLOOR && estimator.rto() <= MAX_RTO);
        }
    }

    #[test]
    fn the_latest_sample_is_told_beside_the_average() {
        let mut estimator = RttEstimator::default();
        assert_eq!(estimator.latest(), Duration::ZERO);
        estimator.sample(Duration::from_millis(8), Instant::ZERO);
        estimator.coarse_sample(Duration::from_millis(16), Instant::ZERO);
        assert_eq!(
            (estimator.latest(), estimator.srtt()),
            (Duration::from_millis(16), Duration::from_millis(9))
        );
    }

    /// A SYN was sent again, but its echoed timestamp tells which copy was answered.
    #[test]
    fn a_timestamp_gives_the_first_sample_too() {
        let mut estimator = RttEstimator::default();
        estimator.back_off();
        let rtt = Duration::from_millis(40);
        estimator.coarse_sample(rtt, Instant::from_secs(1));
        estimator.opened();
        assert_eq!((estimator.srtt(), estimator.min()), (rtt, rtt));
        assert_eq!(estimator.rto(), Duration::from_millis(240));
    }

    #[test]
    fn the_minimum_expires() {
        let mut estimator = RttEstimator::default();
        estimator.sample(Duration::from_millis(1), Instant::ZERO);
        estimator.sample(Duration::from_millis(9), Instant::from_secs(299));
        assert_eq!(estimator.min(), Duration::from_millis(1));
        estimator.sample(Duration::from_millis(9), Instant::from_secs(301));
        assert_eq!(estimator.min(), Duration::from_millis(9));
    }
}
