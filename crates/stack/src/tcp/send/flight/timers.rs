//! Deadlines of what is in flight. Each mechanism has its own; none displaces another.

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
