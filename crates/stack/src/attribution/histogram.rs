//! [`Histogram`]: how many bytes waited how long, in buckets that double.

use std::time::Duration;

/// Buckets: below 1 µs, then doubling up to 2³⁰ µs (18 minutes), and everything beyond.
const BUCKETS: usize = 32;

/// Waiting times, weighted by bytes. Fixed size; resolution a factor of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    bytes: u64,
    /// Bytes times nanoseconds.
    sum: u128,
    longest: Duration,
}

impl Histogram {
    /// Notes that `bytes` bytes waited for `wait`.
    pub fn record(&mut self, wait: Duration, bytes: u64) {
        let bucket = &mut self.buckets[bucket_of(wait)];
        *bucket = bucket.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        self.sum = self
            .sum
            .saturating_add(wait.as_nanos().saturating_mul(u128::from(bytes)));
        self.longest = self.longest.max(wait);
    }

    /// Bytes noted, also those that did not wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How long a byte waited on average.
    pub fn mean(&self) -> Duration {
        nanos(self.sum / u128::from(self.bytes.max(1)))
    }

    /// The longest wait.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Upper bound of the wait of `percent` of the bytes: the end of their bucket, at most the
    /// longest wait.
    pub fn percentile(&self, percent: u8) -> Duration {
        let wanted = (u128::from(self.bytes) * u128::from(percent.min(100))).div_ceil(100);
        let mut seen = 0;
        for (bucket, bytes) in self.buckets.iter().enumerate() {
            seen += u128::from(*bytes);
            if seen >= wanted {
                return end_of(bucket).min(self.longest);
            }
        }
        self.longest
    }

    /// The buckets that hold any bytes: where each begins, and its bytes.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let start = |bucket: usize| {
            if bucket == 0 {
                Duration::ZERO
            } else {
                end_of(bucket - 1)
            }
        };
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, bytes)| **bytes > 0)
            .map(move |(bucket, bytes)| (start(bucket), *bytes))
    }

    /// Adds what `other` noted.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *ours = ours.saturating_add(theirs);
        }
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sum = self.sum.saturating_add(other.sum);
        self.longest = self.longest.max(other.longest);
    }
}

fn bucket_of(wait: Duration) -> usize {
    let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    ((u64::BITS - micros.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// The end of a bucket: 1 µs, 2 µs, 4 µs ...
fn end_of(bucket: usize) -> Duration {
    if bucket == BUCKETS - 1 {
        Duration::MAX
    } else {
        Duration::from_micros(1 << bucket)
    }
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
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
