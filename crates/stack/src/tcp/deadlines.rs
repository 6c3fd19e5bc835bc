//! Expiry of a connection's timers (RFC 9293 §3.8, Linux `net/ipv4/tcp_timer.c`).

use tautline_base::Instant;

use super::connection::Connection;
use super::receiver::{Acknowledgment, Bounds};
use super::send::sooner;
use super::state::State;
use crate::socket::CloseReason;

/// Limit on timeouts of an orphan's segment, and on its probes of a closed window even if the peer
/// answers (Linux `tcp_orphan_retries`): else the peer could keep an abandoned connection forever.
const ORPHAN_RETRIES: u32 = 8;

impl Connection {
    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let delayed = match self.receiver.acks.owed() {
            Acknowledgment::By(at) => Some(at),
            _ => None,
        };
        let quiet = self.send.is_quiet();
        let liveness = self.liveness.deadline(&self.config, self.state, quiet);
        let close = sooner(self.liveness.close, liveness);
        sooner(self.send.next_deadline(), sooner(delayed, close))
    }

    /// Lets every deadline that has passed take effect.
    pub(crate) fn on_deadline(&mut self, now: Instant) {
        let bounds = Bounds::new(&self.config, &self.send.flight.rtt);
        self.receiver.acks.on_deadline(bounds, now);
        self.send.flight.on_deadline(now);
        if let Some(timeouts) = self.send.flight.rto_expired(now) {
            self.on_timeout(timeouts, now);
        }
        self.probe_window(now);
        let quiet = self.send.is_quiet();
        let liveness = self.liveness.deadline(&self.config, self.state, quiet);
        if liveness.is_some_and(|at| at <= now) && self.liveness.on_deadline(&self.config, now) {
            // The peer may be alive after all; only this reset informs it.
            self.time_out(true);
        }
        if self.liveness.close.is_some_and(|at| at <= now) {
            self.liveness.close = None;
            match self.state {
                State::TimeWait | State::FinWait2 => self.end(CloseReason::Finished),
                // The time to deliver what a released connection was given is over.
                _ => self.time_out(self.orphan),
            }
        }
    }

    /// A probe is due, unless the peer has been silent, or we have been abandoned, for too many of
    /// them.
    fn probe_window(&mut self, now: Instant) {
        let Some((unanswered, probes)) = self.send.persist_expired(now) else {
            return;
        };
        let silent = unanswered >= self.config.retries && self.config.user_timeout().is_none();
        if silent || (self.orphan && probes >= ORPHAN_RETRIES) {
            self.time_out(self.orphan);
        } else {
            self.send.probe_window();
        }
    }

    /// The peer is given up. An orphan resets it, as in Linux: the peer may live, and nothing else
    /// would end its connection. An application that still holds the connection is notified
    /// instead.
    fn time_out(&mut self, reset: bool) {
        self.send.reset_due |= reset && !self.state.is_opening();
        self.end(CloseReason::TimedOut);
    }

    /// The retransmission timer expired, after `timeouts` expirations in a row.
    fn on_timeout(&mut self, timeouts: u32, now: Instant) {
        self.fast_open.on_timeout(now);
        let is_passive = self.links.counted_at.is_some();
        let limit = match self.state {
            // One more, for the SYN-ACK that accepted data (Linux `tcp_fastopen_synack_timer`).
            State::SynReceived { .. } if self.fast_open.is_trusted() => {
                self.config.syn_ack_retries.saturating_add(1)
            }
            State::SynReceived { .. } if is_passive => self.config.syn_ack_retries,
            // In SYN-RECEIVED the two SYNs have crossed.
            State::SynSent | State::SynReceived { .. } => self.config.syn_retries,
            _ if self.orphan => self.config.retries.min(ORPHAN_RETRIES),
            _ => self.config.retries,
        };
        // Timeouts count no more when the application has set a time instead. A handshake is limited
        // by both.
        let by_time = self.config.user_timeout().is_some() && !self.state.is_opening();
        if timeouts >= limit && !by_time {
            self.time_out(self.orphan);
        } else {
            self.send.flight.enter_loss(now);
        }
    }

    /// TIME-WAIT begins or restarts.
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.send.stop_timers();
        self.liveness.close = Some(now + self.config.time_wait);
    }
}
