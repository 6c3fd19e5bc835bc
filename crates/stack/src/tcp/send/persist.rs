//! Probing of the peer's closed window (RFC 9293 §3.8.6.1).

use std::time::Duration;

use tautline_base::Instant;

use super::flight::MAX_RTO;

/// Probing a closed window.
#[derive(Debug)]
pub(super) struct Persist {
    at: Instant,
    /// Probes sent since the window closed: the exponent of the backoff.
    pub(super) sent: u32,
    /// Probes sent since the peer was last answered.
    pub(super) unanswered: u32,
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

    /// The next probe is due at `at` or sooner.
    pub(super) fn expire_by(&mut self, at: Instant) {
        self.at = self.at.min(at);
    }

    /// Time of the next probe; `None` if it is due already.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.due).then_some(self.at)
    }

    /// The time for the next probe has come.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        self.at <= now
    }
}
