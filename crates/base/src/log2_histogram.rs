//! [`Log2Histogram`]: counts of values by magnitude.

/// A histogram whose buckets double: bucket 0 counts zeros, bucket *b* values from 2ᵇ⁻¹ to 2ᵇ − 1, and
/// the last bucket everything beyond. 65 buckets separate all of `u64`.
///
/// ```
/// use tautline_base::Log2Histogram;
///
/// let mut histogram = Log2Histogram::<65>::default();
/// (1..=100).for_each(|value| histogram.record(value));
/// assert_eq!(histogram.percentile(50), Some(63)); // the upper bound of 50's bucket
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log2Histogram<const BUCKETS: usize>([u64; BUCKETS]);

impl<const BUCKETS: usize> Default for Log2Histogram<BUCKETS> {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl<const BUCKETS: usize> Log2Histogram<BUCKETS> {
    /// Adds a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.0[Self::bucket(value)] += 1;
    }

    /// Adds `count` values of this size.
    #[inline]
    pub fn record_many(&mut self, value: u64, count: u64) {
        let bucket = &mut self.0[Self::bucket(value)];
        *bucket = bucket.saturating_add(count);
    }

    #[inline]
    fn bucket(value: u64) -> usize {
        ((u64::BITS - value.leading_zeros()) as usize).min(BUCKETS - 1)
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    /// The values recorded after `earlier`, a previous state of this histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(core::array::from_fn(|bucket| {
            self.0[bucket].saturating_sub(earlier.0[bucket])
        }))
    }

    /// The count of each bucket.
    pub fn counts(&self) -> &[u64; BUCKETS] {
        &self.0
    }

    /// The smallest value and the count of each bucket that is not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let occupied = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        occupied.map(|(bucket, count)| (bucket.checked_sub(1).map_or(0, |log| 1 << log), *count))
    }

    /// Number of values.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// An upper bound, at most twice too large, of `percent` of the values: the largest value of
    /// the bucket in which they end, `u64::MAX` for the last bucket. `None` without values.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let total: u128 = self.0.iter().map(|&count| u128::from(count)).sum();
        let wanted = (total * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.0.iter().position(|&count| {
            seen += u128::from(count);
            seen >= wanted
        })?;
        let last = bucket == BUCKETS - 1;
        Some(if last { u64::MAX } else { (1 << bucket) - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_bucket_share_their_magnitude() {
        let mut histogram = Log2Histogram::<4>::default();
        for value in [0, 1, 2, 3, 4, u64::MAX] {
            histogram.record(value);
        }
        assert_eq!(histogram.counts(), &[1, 1, 2, 2]);
        assert!(histogram.buckets().eq([(0, 1), (1, 1), (2, 2), (4, 2)]));
    }

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let mut histogram = Log2Histogram::<65>::default();
        assert_eq!(histogram.percentile(99), None);
        histogram.record_many(0, 70);
        histogram.record_many(1000, 30);
        let found = [0, 70, 71, 100, 255].map(|percent| histogram.percentile(percent));
        assert_eq!(
            found,
            [Some(0), Some(0), Some(1023), Some(1023), Some(1023)]
        );
        histogram.record_many(u64::MAX, u64::MAX);
        assert_eq!(
            (histogram.percentile(50), histogram.total()),
            (Some(u64::MAX), u64::MAX)
        );
    }

    #[test]
    fn a_difference_holds_what_came_later() {
        let mut earlier = Log2Histogram::<65>::default();
        earlier.record_many(5, 2);
        let mut histogram = earlier.clone();
        histogram.record(9);
        assert!(histogram.since(&earlier).buckets().eq([(8, 1)]));
        earlier.merge(&histogram.since(&earlier));
        assert_eq!(earlier, histogram);
    }
}
