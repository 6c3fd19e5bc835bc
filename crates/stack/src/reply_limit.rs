//! Rate limit of replies without a connection: ICMP errors (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f),
//! and resets (as FreeBSD's `net.inet.icmp.icmplim` bounds them), so that it cannot be used to
//! reflect a flood.
//!
//! A shared budget is a side channel: an attacker that exhausts it learns whether others did
//! (CVE-2020-25705 found open UDP ports that way). So each refill is random in part.

use tautline_base::Instant;

use crate::keyed::Key;

/// Replies sent at once after silence (Linux `icmp_msgs_burst`).
const BURST: u64 = 50;
/// How much of a burst's refill chance may keep back.
const JITTER: u64 = 8;

/// A token bucket.
#[derive(Debug)]
pub(crate) struct ReplyLimit {
    /// Replies per second.
    rate: u64,
    tokens: u64,
    /// Time of the last refill.
    filled: Option<Instant>,
    refills: u64,
    key: Key,
}

impl ReplyLimit {
    /// A full bucket that refills at `rate` replies per second.
    pub(crate) fn new(rate: u32, key: Key) -> Self {
        Self {
            rate: rate.into(),
            tokens: 0,
            filled: None,
            refills: 0,
            key,
        }
    }

    /// Whether one more may be sent.
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        let burst = u128::from(BURST.min(self.rate));
        // Refilled in steps of a burst, so that chance has something to take from.
        let due = self.filled.is_none_or(|filled| {
            (now - filled).as_nanos() * u128::from(self.rate) >= burst * 1_000_000_000
        });
        if due && burst > 0 {
            self.refills += 1;
            self.tokens = BURST
                .min(self.rate)
                .saturating_sub(self.key.budget(self.refills) % JITTER)
                .max(1);
            self.filled = Some(now);
        }
        let admitted = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` errors, `apart` microseconds from each other, are sent.
    fn sent(rate: u32, seed: u64, count: u64, apart: u64) -> usize {
        let mut limit = ReplyLimit::new(rate, Key::from_seed(seed));
        (0..count)
            .filter(|i| limit.admits(Instant::from_micros(1_000_000 + i * apart)))
            .count()
    }

    #[test]
    fn a_burst_then_the_rate() {
        assert!((43..=50).contains(&sent(1000, 1, 1000, 0)));
        let one_second = sent(1000, 1, 100_000, 10);
        assert!((850..=1100).contains(&one_second), "{one_second}");
        assert_eq!(sent(1000, 1, 500, 2000), 500);
        assert_eq!(
            (sent(0, 1, 100, 1_000_000), sent(1, 1, 10, 1_000_000)),
            (0, 10)
        );
    }

    #[test]
    fn the_budget_differs_from_secret_to_secret() {
        let budgets: std::collections::HashSet<_> =
            (0..20).map(|seed| sent(1000, seed, 100_000, 10)).collect();
        assert!(budgets.len() > 5, "{budgets:?}");
    }
}
