//! [`Ticker`]: when a periodic update was due, for qdiscs that make theirs late, when they are
//! touched.

use core::time::Duration;

use tautline_base::Instant;

/// A period and how often it has passed. The first call starts it.
#[derive(Clone, Debug)]
pub(crate) struct Ticker {
    /// Both in nanoseconds.
    first: u64,
    period: u64,
    next: Option<Instant>,
    count: u64,
}

impl Ticker {
    /// Due `first` after the first call, and then every `period`, which is not zero.
    pub(crate) fn new(first: Duration, period: Duration) -> Self {
        Self {
            first: nanos(first),
            period: nanos(period),
            next: None,
            count: 0,
        }
    }

    /// The same with another period from the next time on.
    pub(crate) fn with(&self, first: Duration, period: Duration) -> Self {
        Self {
            next: self.next,
            count: self.count,
            ..Self::new(first, period)
        }
    }

    /// Number of ticks due up to `now`. A clock that steps far back starts it again.
    #[inline]
    pub(crate) fn count(&mut self, now: Instant) -> u64 {
        let next = *self.next.get_or_insert_with(|| now.after_nanos(self.first));
        if now >= next {
            self.count_due(next, now);
        } else if next.nanos_since(now) > self.first.max(self.period) {
            self.next = Some(now.after_nanos(self.period));
        }
        self.count
    }

    fn count_due(&mut self, next: Instant, now: Instant) {
        let period = self.period.max(1);
        let due = now.nanos_since(next) / period + 1;
        self.count = self.count.saturating_add(due);
        self.next = Some(next.after_nanos(period.saturating_mul(due)));
    }

    /// Time of the last tick, if any.
    pub(crate) fn last(&self) -> Option<Instant> {
        let last = |next: Instant| next.as_nanos().saturating_sub(self.period);
        self.next.map(|next| Instant::from_nanos(last(next)))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_has_passed() {
        let ms = Instant::from_millis;
        let mut ticker = Ticker::new(Duration::from_millis(500), Duration::from_millis(20));
        for (millis, count) in [
            (1000, 0),
            (1499, 0),
            (1500, 1),
            (1519, 1),
            (1520, 2),
            (1520, 2),
            (2520, 52),
        ] {
            assert_eq!(ticker.count(ms(millis)), count, "{millis}");
        }
        assert_eq!(ticker.last(), Some(ms(2520)));
        assert_eq!(ticker.count(ms(2100)), 52, "a small step back waits");
        assert_eq!(ticker.count(ms(3)), 52, "a large one starts again");
        assert_eq!((ticker.count(ms(22)), ticker.count(ms(23))), (52, 53));
        assert!(ticker.count(Instant::from_nanos(u64::MAX)) > 1_000_000);
        let mut faster = ticker.with(Duration::ZERO, Duration::from_nanos(1));
        faster.count(Instant::from_nanos(u64::MAX));
    }
}
