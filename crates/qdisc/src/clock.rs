//! [`Clock`]: a time that never goes back, for qdiscs that keep times of departure.
//!
//! DIVERGES: Linux's clock is monotonic. Here the caller gives the time, and its clock may step back
//! by seconds. Whatever was to happen then happens that much earlier, as after a step of HTB and
//! CAKE. Those move what they keep; qdiscs that keep a time for each packet or flow add up the steps
//! instead.

use tautline_base::Instant;

/// The caller's clock and the sum of its steps back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The caller's time at the last call.
    last: Instant,
    /// Nanoseconds by which the caller's clock has stepped back in all.
    behind: u64,
}

impl Clock {
    /// Notes that it is `now` on the caller's clock. Returns the time on this one.
    #[inline]
    pub(crate) fn advance_to(&mut self, now: Instant) -> Instant {
        self.behind = self.behind.saturating_add(self.last.nanos_since(now));
        self.last = now;
        self.steady(now)
    }

    /// The time of the last call.
    #[inline]
    pub(crate) fn now(self) -> Instant {
        self.steady(self.last)
    }

    /// The time on this clock when it is `at` on the caller's.
    #[inline]
    pub(crate) fn steady(self, at: Instant) -> Instant {
        at.after_nanos(self.behind)
    }

    /// The time on the caller's clock when it is `at` on this one.
    #[inline]
    pub(crate) fn callers(self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().saturating_sub(self.behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_where_the_callers_steps_back() {
        let (ms, mut clock) = (Instant::from_millis, Clock::default());
        for (callers, steady) in [(5, 5), (9, 9), (2, 9), (4, 11), (4, 11), (0, 11), (50, 61)] {
            assert_eq!(clock.advance_to(ms(callers)), ms(steady), "at {callers}");
            assert_eq!(clock.now(), ms(steady));
        }
        assert_eq!(clock.callers(ms(71)), ms(60));
        assert_eq!(clock.callers(ms(3)), Instant::ZERO);
    }

    #[test]
    fn the_end_of_time_is_the_end() {
        let (end, mut clock) = (Instant::from_nanos(u64::MAX), Clock::default());
        for at in [end, Instant::ZERO, end, Instant::ZERO, end] {
            assert_eq!(clock.advance_to(at), end);
        }
    }
}
