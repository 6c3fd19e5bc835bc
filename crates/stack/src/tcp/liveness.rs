//! Whether the peer is still there: the user timeout (RFC 5482, kept local), keepalive (RFC 9293
//! §3.8.4) and how long an abandoned connection may go on (Linux `tcp_keepalive_timer`).
//! Retransmission and window probing have their own limits, in `deadlines`.

use std::time::Duration;

use tautline_base::Instant;

use super::connection::{Connection, State};
use super::send::sooner;
use crate::config::Keepalive;
use crate::socket::CloseReason;

/// Signs of the peer's presence.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// When a segment of the peer last came.
    heard: Instant,
    /// Since when something waits for the peer without progress: sent and not acknowledged, or held
    /// by its closed window.
    pub(super) waiting_since: Option<Instant>,
    /// Keepalive probes sent since a segment of the peer last came.
    probes: u32,
    /// When the latest of them left. The next one waits from there: a loop that comes late must not
    /// ask many times at once, and take the missing answers for silence.
    asked: Instant,
    /// A keepalive probe is to be sent now.
    pub(super) probe_due: bool,
    /// When a segment outside the window was last answered.
    pub(super) challenged: Option<Instant>,
    /// End of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    pub(super) close: Option<Instant>,
}

impl Liveness {
    /// A segment of the peer came.
    pub(super) fn hear(&mut self, now: Instant) {
        self.heard = now;
        self.probes = 0;
        self.probe_due = false;
    }

    /// When a segment of the peer last came.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// Something waits for the peer from now on, if nothing did before.
    pub(super) fn wait(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// A probe left, of a closed window or of a quiet peer.
    pub(super) fn probed(&mut self, now: Instant) {
        if std::mem::take(&mut self.probe_due) {
            self.probes = self.probes.saturating_add(1);
            self.asked = now;
        }
    }

    fn next_probe(&self, keepalive: &Keepalive) -> Instant {
        if self.probes == 0 {
            self.heard + keepalive.idle
        } else {
            self.asked + keepalive.interval
        }
    }
}

impl Connection {
    /// The acknowledgement of something new, or an opened window: whatever waits now waits since
    /// now.
    pub(super) fn note_progress(&mut self, now: Instant) {
        self.liveness.waiting_since = (!self.send.flight.segments.is_empty()).then_some(now);
    }

    /// When the peer is asked whether it lives. What is outstanding asks by itself.
    fn keepalive_at(&self) -> Option<Instant> {
        let open = matches!(
            self.state,
            State::Established
                | State::FinWait1
                | State::FinWait2
                | State::CloseWait
                | State::Closing
                | State::LastAck
        );
        let quiet = self.send.flight.segments.is_empty()
            && !self.send.is_probing_window()
            && !self.liveness.probe_due;
        let keepalive = self.config.keepalive.as_ref().filter(|_| open && quiet)?;
        Some(self.liveness.next_probe(keepalive))
    }

    fn user_timeout_at(&self) -> Option<Instant> {
        Some(self.liveness.waiting_since? + self.config.user_timeout?)
    }

    /// The earlier of the two.
    #[inline]
    pub(super) fn liveness_deadline(&self) -> Option<Instant> {
        if self.config.keepalive.is_none() && self.config.user_timeout.is_none() {
            return None;
        }
        if self.state == State::Closed || self.state == State::TimeWait {
            return None;
        }
        sooner(self.keepalive_at(), self.user_timeout_at())
    }

    /// Lets both take effect.
    pub(super) fn check_liveness(&mut self, now: Instant) {
        if self.liveness_deadline().is_none_or(|at| at > now) {
            return;
        }
        let out_of_time = self.user_timeout_at().is_some_and(|at| at <= now);
        if out_of_time || self.keepalive_is_in_vain(now) {
            self.time_out_with_reset();
        } else {
            self.liveness.probe_due = true;
        }
    }

    /// Enough probes went unanswered; with a user timeout it is the time that counts (Linux).
    fn keepalive_is_in_vain(&self, now: Instant) -> bool {
        let Some(keepalive) = self.config.keepalive else {
            return false;
        };
        match self.config.user_timeout {
            Some(limit) => self.liveness.probes > 0 && now - self.liveness.heard >= limit,
            None => self.liveness.probes >= keepalive.probes,
        }
    }

    /// Timeouts and probes count no more when the application has set a time instead. A handshake
    /// is limited by both.
    pub(super) fn is_limited_by_time(&self) -> bool {
        self.config.user_timeout.is_some()
            && !matches!(self.state, State::SynSent | State::SynReceived { .. })
    }

    /// The peer may live after all, and nobody else would tell it.
    fn time_out_with_reset(&mut self) {
        self.reset_due |= !matches!(self.state, State::SynSent | State::SynReceived { .. });
        self.end(CloseReason::TimedOut);
    }

    /// A released connection has this long to deliver what was written, if its linger time is
    /// limited.
    pub(super) fn linger_deadline(&self, now: Instant) -> Option<Instant> {
        self.config.linger.map(|time: Duration| now + time)
    }

    /// From now on a quiet peer is asked for, or not.
    pub(crate) fn set_keepalive(&mut self, keepalive: Option<Keepalive>, now: Instant) {
        // A connection that has been quiet for long is not asked at once.
        self.liveness.heard = self.liveness.heard.max(now);
        self.liveness.probes = 0;
        self.configure(|config| config.keepalive = keepalive);
    }
}
