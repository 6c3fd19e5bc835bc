//! The pending deadlines of a connection. Each mechanism has its own; none displaces another.

use std::time::Duration;

use tautline_base::Instant;

use super::rtt::MAX_RTO;

/// Pending deadlines. The delayed acknowledgement's lives with the receiver.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Retransmission timeout of the oldest outstanding segment.
    pub(super) rto: Option<Instant>,
    /// Probe of the tail.
    pub(super) tail: Option<Instant>,
    /// End of RACK's reordering window.
    pub(super) reorder: Option<Instant>,
    /// Zero-window probing.
    pub(super) persist: Option<Persist>,
    /// When a segment that did not fit was last answered.
    pub(super) challenged: Option<Instant>,
    /// End of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    pub(super) close: Option<Instant>,
}

/// Probing a closed window.
#[derive(Debug)]
pub(super) struct Persist {
    at: Instant,
    /// Probes sent since the window closed: the exponent of the backoff.
    sent: u32,
    /// Probes sent since the peer was last heard of.
    unanswered: u32,
    /// A probe is to be sent now.
    pub(super) due: bool,
}

impl Persist {
    /// Begins to probe one timeout from now.
    pub(super) fn new(now: Instant, rto: Duration) -> Self {
        Self {
            at: now + rto,
            sent: 0,
            unanswered: 0,
            due: false,
        }
    }

    /// A probe was sent; the next one waits twice as long, up to two minutes.
    pub(super) fn sent(&mut self, now: Instant, rto: Duration) {
        self.sent += 1;
        self.unanswered += 1;
        self.due = false;
        self.at = now + rto.saturating_mul(1 << self.sent.min(10)).min(MAX_RTO);
    }

    /// When the next one is due.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Probes sent since the window closed.
    pub(super) fn probes(&self) -> u32 {
        self.sent
    }

    /// Probes sent since the peer was last heard of.
    pub(super) fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// The peer lives.
    pub(super) fn answered(&mut self) {
        self.unanswered = 0;
    }
}
