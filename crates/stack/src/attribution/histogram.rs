//! [`Histogram`]: how many bytes waited how long, in buckets that double.

use std::time::Duration;

use tautline_base::Log2Histogram;

/// Waiting times, weighted by bytes. Fixed size; resolution a factor of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bytes by whole microseconds; waits from 2³⁰ µs (18 minutes) share the last bucket.
    bytes: Log2Histogram<32>,
    /// Bytes times nanoseconds.
    sum: u128,
    longest: Duration,
}

impl Histogram {
    /// Notes that `bytes` bytes waited for `wait`.
    pub fn record(&mut self, wait: Duration, bytes: u64) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.bytes.record_many(micros, bytes);
        self.sum = self
            .sum
            .saturating_add(wait.as_nanos().saturating_mul(u128::from(bytes)));
        self.longest = self.longest.max(wait);
    }

    /// Bytes noted, also those that did not wait.
    pub fn bytes(&self) -> u64 {
        self.bytes.total()
    }

    /// Mean waiting time of a byte.
    pub fn mean(&self) -> Duration {
        let nanos = self.sum / u128::from(self.bytes().max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The longest wait.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Upper bound of the wait of `percent` of the bytes: the end of their bucket, at most the
    /// longest wait.
    pub fn percentile(&self, percent: u8) -> Duration {
        let whole = self.bytes.percentile(percent);
        let end = whole.and_then(|micros| micros.checked_add(1));
        end.map_or(self.longest, |end| {
            Duration::from_micros(end).min(self.longest)
        })
    }

    /// The buckets that hold any bytes: where each begins, and its bytes.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let buckets = self.bytes.buckets();
        buckets.map(|(micros, bytes)| (Duration::from_micros(micros), bytes))
    }

    /// Adds what `other` noted.
    pub fn merge(&mut self, other: &Self) {
        self.bytes.merge(&other.bytes);
        self.sum = self.sum.saturating_add(other.sum);
        self.longest = self.longest.max(other.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_double_from_a_microsecond() {
        let mut histogram = Histogram::default();
        for (wait, bytes) in [
            (0, 1),
            (999, 2),
            (1_000, 4),
            (1_999, 8),
            (2_000, 16),
            (1_000_000, 32),
        ] {
            histogram.record(Duration::from_nanos(wait), bytes);
        }
        let micros = |wait: Duration| wait.as_micros();
        let found: Vec<_> = histogram
            .buckets()
            .map(|(start, bytes)| (micros(start), bytes))
            .collect();
        assert_eq!(found, [(0, 3), (1, 12), (2, 16), (512, 32)]);
        assert_eq!(histogram.bytes(), 63);
        assert_eq!(histogram.longest(), Duration::from_millis(1));
    }

    #[test]
    fn mean_and_percentiles_weigh_by_bytes() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::from_millis(10), 300);
        histogram.record(Duration::ZERO, 700);
        assert_eq!(histogram.mean(), Duration::from_millis(3));
        assert_eq!(histogram.percentile(70), Duration::from_micros(1));
        assert_eq!(histogram.percentile(71), Duration::from_millis(10));
        assert_eq!(histogram.percentile(100), Duration::from_millis(10));
        assert_eq!(Histogram::default().percentile(99), Duration::ZERO);
    }

    #[test]
    fn absurd_waits_are_survived() {
        let mut histogram = Histogram::default();
        for _ in 0..3 {
            histogram.record(Duration::MAX, u64::MAX);
        }
        assert_eq!(histogram.percentile(50), Duration::MAX);
        let other = histogram.clone();
        histogram.merge(&other);
        assert_eq!(histogram.bytes(), u64::MAX);
    }
}
