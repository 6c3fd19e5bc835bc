//! The sender's deadlines. Each mechanism has its own; none displaces another.

use std::time::Duration;

use tautline_base::Instant;

use super::SendHalf;
use super::rtt::MAX_RTO;

/// Pending deadlines of the sender.
#[derive(Debug, Default)]
pub(in crate::tcp) struct SendTimers {
    /// Retransmission timeout of the oldest outstanding segment.
    pub(in crate::tcp) rto: Option<Instant>,
    /// Probe of the tail.
    pub(in crate::tcp) tail: Option<Instant>,
    /// End of RACK's reordering window.
    pub(in crate::tcp) reorder: Option<Instant>,
    /// Zero-window probing.
    pub(in crate::tcp) persist: Option<Persist>,
}

/// Probing a closed window.
#[derive(Debug)]
pub(in crate::tcp) struct Persist {
    at: Instant,
    /// Probes sent since the window closed: the exponent of the backoff.
    sent: u32,
    /// Probes sent since the peer was last answered.
    unanswered: u32,
    /// A probe is to be sent now.
    pub(in crate::tcp) due: bool,
}

impl Persist {
    /// Begins to probe one timeout from now.
    pub(in crate::tcp) fn new(now: Instant, rto: Duration) -> Self {
        Self {
            at: now + rto,
            sent: 0,
            unanswered: 0,
            due: false,
        }
    }

    /// A probe was sent; the next one waits twice as long, up to two minutes.
    pub(in crate::tcp) fn sent(&mut self, now: Instant, rto: Duration) {
        self.sent += 1;
        self.unanswered += 1;
        self.due = false;
        self.at = now + rto.saturating_mul(1 << self.sent.min(10)).min(MAX_RTO);
    }

    /// When the next one is due.
    pub(in crate::tcp) fn at(&self) -> Instant {
        self.at
    }

    /// Probes sent since the window closed.
    pub(in crate::tcp) fn probes(&self) -> u32 {
        self.sent
    }

    /// Probes sent since the peer was last answered.
    pub(in crate::tcp) fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// The peer lives.
    pub(in crate::tcp) fn answered(&mut self) {
        self.unanswered = 0;
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

impl SendHalf {
    /// The earliest deadline.
    #[inline]
    pub(in crate::tcp) fn next_deadline(&self) -> Option<Instant> {
        let SendTimers {
            rto,
            tail,
            reorder,
            persist,
        } = &self.timers;
        let persist = persist
            .as_ref()
            .filter(|persist| !persist.due)
            .map(|persist| persist.at());
        sooner(sooner(*rto, *tail), sooner(*reorder, persist))
    }

    /// Stops all of them.
    pub(in crate::tcp) fn stop_timers(&mut self) {
        self.timers = SendTimers::default();
    }

    /// The reordering window and the wait for the tail's acknowledgement end, if it is time.
    pub(in crate::tcp) fn on_deadline(&mut self, now: Instant) {
        if self.timers.reorder.is_some_and(|at| at <= now) {
            self.timers.reorder = None;
            self.detect_losses(now);
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
            self.timers.rto = Some(now + self.rto());
            return None;
        }
        Some(self.flight.timeouts)
    }

    /// Window probes sent without an answer, and in all, if the next one is due.
    pub(in crate::tcp) fn persist_expired(&self, now: Instant) -> Option<(u32, u32)> {
        let persist = self.timers.persist.as_ref()?;
        (persist.at() <= now).then(|| (persist.unanswered(), persist.probes()))
    }

    /// The next window probe is to be sent.
    pub(in crate::tcp) fn probe_window(&mut self) {
        if let Some(persist) = &mut self.timers.persist {
            persist.due = true;
        }
    }

    /// The peer's window is closed and probed.
    pub(in crate::tcp) fn is_probing_window(&self) -> bool {
        self.timers.persist.is_some()
    }
}
