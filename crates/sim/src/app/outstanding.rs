//! [`Outstanding`]: requests without a reply, with their times of sending, indexed by number;
//! [`next_due`]: when the next request is sent.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::Instant;

/// Numbered requests from the oldest without a reply on.
#[derive(Debug)]
pub(super) struct Outstanding {
    timeout: Duration,
    /// Number of the first of `sent`.
    oldest: u64,
    /// `None` has its reply. The first is never `None`.
    sent: VecDeque<Option<Instant>>,
}

impl Outstanding {
    /// No requests. A reply after `timeout` does not count.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            oldest: 0,
            sent: VecDeque::new(),
        }
    }

    /// The number of the next request.
    pub(super) fn next(&self) -> u64 {
        self.oldest + self.sent.len() as u64
    }

    /// Adds the next request, sent at `now`.
    pub(super) fn push(&mut self, now: Instant) {
        self.sent.push_back(Some(now));
    }

    /// Removes request `number` and returns its time of sending, unless it had a reply or has
    /// expired.
    pub(super) fn take(&mut self, number: u64) -> Option<Instant> {
        let offset = usize::try_from(number.checked_sub(self.oldest)?).ok()?;
        let sent = self.sent.get_mut(offset)?.take()?;
        self.skip_answered();
        Some(sent)
    }

    /// [`take`](Self::take) by the lowest 16 bits of a request's number.
    pub(super) fn take_short(&mut self, number: u16) -> Option<Instant> {
        self.take(self.oldest + u64::from(number.wrapping_sub(self.oldest as u16)))
    }

    /// Removes expired requests and returns their number.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        while self.expires_at().is_some_and(|at| at <= now) {
            self.sent[0] = None;
            self.skip_answered();
            expired += 1;
        }
        expired
    }

    /// Expiry of the next request.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        self.sent
            .front()
            .copied()
            .flatten()
            .map(|sent| sent + self.timeout)
    }

    /// True if no reply is outstanding.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    fn skip_answered(&mut self) {
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.oldest += 1;
        }
    }
}

/// When the request after the one that was due at `due` is sent. Those missed while the machine was
/// suspended are skipped.
pub(super) fn next_due(due: Instant, interval: Duration, now: Instant) -> Instant {
    if due + interval > now {
        due + interval
    } else {
        now + interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_reply_counts_once_and_in_any_order() {
        let mut requests = Outstanding::new(Duration::from_millis(100));
        (0..4).for_each(|number| requests.push(at(number)));
        assert_eq!(
            (requests.take(2), requests.take(2), requests.take(4)),
            (Some(at(2)), None, None)
        );
        assert_eq!((requests.take(0), requests.take(0)), (Some(at(0)), None));
        assert_eq!((requests.next(), requests.expires_at()), (4, Some(at(101))));
        assert_eq!(
            (requests.expire(at(100)), requests.expire(at(103))),
            (0, 2),
            "1 and 3"
        );
        assert!(requests.is_empty());
        assert_eq!(requests.take(3), None);
    }

    #[test]
    fn short_numbers_wrap() {
        let mut requests = Outstanding::new(Duration::from_secs(1));
        for number in 0..70_000u64 {
            assert_eq!(requests.next(), number);
            requests.push(at(number));
            if number >= 10 {
                assert_eq!(
                    requests.take_short((number - 10) as u16),
                    Some(at(number - 10))
                );
            }
        }
        assert_eq!(requests.take_short(u16::MAX), None);
    }
}
