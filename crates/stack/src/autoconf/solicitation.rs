//! Router solicitations: three at most, until a router has advertised itself (RFC 4861 §6.3.7).

use std::time::Duration;

use tautline_base::Instant;

/// `MAX_RTR_SOLICITATIONS`.
const MOST: u8 = 3;
/// `RTR_SOLICITATION_INTERVAL`.
const INTERVAL: Duration = Duration::from_secs(4);
/// Time after which a host without a link-local address solicits from the unspecified one.
const PATIENCE: Duration = Duration::from_secs(3);

/// Solicitations that are still to be sent.
#[derive(Debug)]
pub(super) struct Solicitation {
    left: u8,
    at: Option<Instant>,
}

impl Solicitation {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self {
            left: if is_wanted { MOST } else { 0 },
            at: None,
        }
    }

    /// The first may leave at `first`.
    pub(super) fn begin(&mut self, first: Instant) {
        self.at = Some(first);
    }

    /// Whether one is to be sent now. The first waits for a link-local source, so that the router
    /// learns our hardware address.
    pub(super) fn is_due(&mut self, has_source: bool, now: Instant) -> bool {
        let is_due = self.next_deadline(has_source).is_some_and(|at| at <= now);
        if is_due {
            self.left -= 1;
            self.at = Some(now + INTERVAL);
        }
        is_due
    }

    /// Time of the next one.
    pub(super) fn next_deadline(&self, has_source: bool) -> Option<Instant> {
        let is_first = self.left == MOST;
        let at = self.at.filter(|_| self.left > 0)?;
        Some(if is_first && !has_source {
            at + PATIENCE
        } else {
            at
        })
    }

    /// A router has advertised itself: if it is a default router and has been asked, that suffices.
    pub(super) fn on_advertisement(&mut self, lifetime: u16) {
        if lifetime > 0 && self.left < MOST {
            self.left = 0;
        }
    }

    pub(super) fn stop(&mut self) {
        self.left = 0;
    }
}
