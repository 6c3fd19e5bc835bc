//! Deadlines of what is in flight. Each mechanism has its own; none displaces another.

use std::time::Duration;

use tautline_base::{Bytes, Instant};

use super::Flight;
use super::recovery::PrrAck;

/// Pending deadlines.
#[derive(Debug, Default)]
pub(in crate::tcp) struct SendTimers {
    /// Retransmission timeout of the oldest outstanding segment.
    pub(super) rto: Option<Instant>,
    /// Probe of the tail.
    pub(super) tail: Option<Instant>,
    /// End of RACK's reordering window.
    pub(super) reorder: Option<Instant>,
}

impl SendTimers {
    /// The earliest deadline.
    #[inline]
    pub(in crate::tcp::send) fn next(&self) -> Option<Instant> {
        sooner(sooner(self.rto, self.tail), self.reorder)
    }

    /// Nothing is outstanding that could be reordered.
    #[inline]
    pub(in crate::tcp::send) fn cancel_reorder(&mut self) {
        self.reorder = None;
    }

    pub(in crate::tcp::send) fn stop(&mut self) {
        *self = Self::default();
    }
}

/// The earlier of two deadlines.
#[inline]
pub(in crate::tcp) fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// When a timer expires that is set at `now` to `at`, with ticks of length `tick`: the time that it
/// runs is rounded up to ticks, as a count of jiffies is (Linux `usecs_to_jiffies`), and it ends with
/// the first tick after that (`calc_index`). With ticks of zero, at `at`.
#[inline]
pub(super) fn on_tick(now: Instant, at: Instant, tick: Duration) -> Instant {
    let tick = tick.as_nanos() as u64;
    if tick == 0 {
        return at;
    }
    let runs = ((at - now).as_nanos() as u64).div_ceil(tick);
    let ticks = (now.as_nanos() / tick).saturating_add(runs);
    Instant::from_nanos(ticks.saturating_add(1).saturating_mul(tick))
}

impl Flight {
    /// The reordering window and the wait for the tail's acknowledgment end, if it is time.
    pub(in crate::tcp) fn on_deadline(&mut self, now: Instant) {
        if self.timers.reorder.is_some_and(|at| at <= now) {
            let recoveries = self.recovery.counts.recoveries;
            self.find_losses(Bytes::ZERO, false, self.segments.recoverable(), now);
            if self.recovery.counts.recoveries > recoveries {
                credit_timer(self);
            }
        }
        // A probe of the tail comes first, and gives the timeout another chance not to come.
        if self.timers.tail.is_some_and(|at| at <= now) {
            self.on_tail_timeout(now);
        }
    }

    /// The number of earlier timeouts in a row, if the retransmission timer expired (RFC 6298 §5.4).
    pub(in crate::tcp) fn rto_expired(&mut self, now: Instant) -> Option<u32> {
        self.timers.rto.filter(|at| *at <= now)?;
        if self.segments.is_empty() {
            self.timers.rto = None;
            return None;
        }
        // A copy that has not left this host cannot be acknowledged: our queue is slow, not the
        // network.
        if self.segments.head_in_host() {
            self.timers.rto = Some(self.rtt.timeout_after(now));
            return None;
        }
        Some(self.timeouts)
    }
}

/// The reordering timer has begun a recovery: see
/// [`LossRecovery::prr_credit_on_timer`](crate::LossRecovery::prr_credit_on_timer).
fn credit_timer(flight: &mut Flight) {
    if flight.config.loss_recovery.prr_credit_on_timer && flight.congestion.uses_prr() {
        let mss = Bytes::new(flight.mss);
        let ack = PrrAck {
            delivered: mss,
            in_flight: Bytes::new(flight.segments.in_flight()),
            ssthresh: flight.congestion.verdict().ssthresh,
            safe: false,
            mss,
        };
        flight.recovery.on_delivered(ack, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 100 ticks a second Linux sets a timer of 2.3 ms to one jiffy, and `calc_index` adds the
    /// one that has begun: it runs for 10 to 20 ms.
    #[test]
    fn a_timer_ends_with_the_tick_after_the_jiffies_that_it_runs() {
        let us = |us: u64| Instant::from_nanos(us * 1000);
        let tick = Duration::from_millis(10);
        for (now, at, expires) in [
            (30_000, 32_300, 50_000),
            (39_999, 42_299, 50_000),
            (40_000, 50_000, 60_000),
            (40_000, 50_001, 70_000),
            (41_000, 41_000, 50_000),
        ] {
            assert_eq!(on_tick(us(now), us(at), tick), us(expires), "{now} {at}");
        }
        assert_eq!(on_tick(us(5), us(7), Duration::ZERO), us(7));
        let last = Instant::from_nanos(u64::MAX);
        assert_eq!(on_tick(last, last, Duration::from_nanos(1)), last);
    }
}
