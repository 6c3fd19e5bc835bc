//! The timers of a connection (`spec/tcp.md` §1.7–1.8, §1.13). Each mechanism has its own deadline; none displaces another.

use std::time::Duration;

use tautline_base::{Bytes, Instant, Reason, Wake};
use tautline_cc::{Congestion, Signal};

use super::connection::{Connection, State};
use super::receiver::Acknowledgement;
use super::recovery::Phase;
use super::rtt::MAX_RTO;
use crate::socket::CloseReason;

/// Pending deadlines. The delayed acknowledgement's lives with the receiver.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Retransmission timeout of the oldest outstanding segment.
    pub(super) rto: Option<Instant>,
    /// End of RACK's reordering window.
    pub(super) reorder: Option<Instant>,
    /// Zero-window probing.
    pub(super) persist: Option<Persist>,
    /// When a segment that did not fit was last answered.
    pub(super) challenged: Option<Instant>,
    /// End of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    pub(super) close: Option<Instant>,
}

/// Probes of a closed window that an orphan sends before it gives up, even if the peer answers (Linux `tcp_orphan_retries`): the
/// peer could keep an abandoned connection for ever.
const ORPHAN_PROBES: u32 = 8;

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
        Self { at: now + rto, sent: 0, unanswered: 0, due: false }
    }

    /// A probe was sent; the next one waits twice as long, up to two minutes.
    pub(super) fn sent(&mut self, now: Instant, rto: Duration) {
        self.sent += 1;
        self.unanswered += 1;
        self.due = false;
        self.at = now + rto.saturating_mul(1 << self.sent.min(10)).min(MAX_RTO);
    }

    /// The peer lives.
    pub(super) fn answered(&mut self) {
        self.unanswered = 0;
    }
}

impl Connection {
    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Wake> {
        let delayed = match self.receiver.owed() {
            Acknowledgement::By(at) => Some(Wake::new(at, Reason::DelayedAck)),
            _ => None,
        };
        let Timers { rto, reorder, persist, challenged: _, close } = &self.timers;
        let candidates = [
            rto.map(|at| Wake::new(at, Reason::Rto)),
            reorder.map(|at| Wake::new(at, Reason::Reorder)),
            persist.as_ref().filter(|persist| !persist.due).map(|persist| Wake::new(persist.at, Reason::Persist)),
            close.map(|at| Wake::new(at, Reason::Close)),
            delayed,
        ];
        candidates.into_iter().flatten().min()
    }

    /// Lets every deadline that has passed take effect.
    pub(crate) fn on_deadline(&mut self, now: Instant) {
        self.receiver.on_deadline(now);
        if self.timers.reorder.is_some_and(|at| at <= now) {
            self.timers.reorder = None;
            self.look_for_losses(now);
        }
        if self.timers.rto.is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
        self.probe_window(now);
        if self.timers.close.is_some_and(|at| at <= now) {
            self.timers.close = None;
            self.end(CloseReason::Finished);
        }
    }

    /// A probe is due, unless the peer has been silent, or we have been abandoned, for too many of them.
    fn probe_window(&mut self, now: Instant) {
        let Some(persist) = self.timers.persist.as_mut().filter(|persist| persist.at <= now) else { return };
        if persist.unanswered >= self.config.retries || (self.orphan && persist.sent >= ORPHAN_PROBES) {
            self.end(CloseReason::TimedOut);
        } else {
            persist.due = true;
        }
    }

    /// The retransmission timer expired (RFC 6298 §5.4–5.7).
    fn on_timeout(&mut self, now: Instant) {
        if self.segments.is_empty() {
            self.timers.rto = None;
            return;
        }
        // A copy that has not left this host cannot be acknowledged: it is our queue that is slow, not the network.
        if self.segments.head_in_host() {
            self.timers.rto = Some(now + self.rto());
            return;
        }
        let limit = match self.state {
            State::SynSent | State::SynReceived { .. } => self.config.syn_retries,
            _ => self.config.retries,
        };
        if u32::from(self.segments.head_transmissions()) > limit {
            self.end(CloseReason::TimedOut);
            return;
        }
        self.totals.timeouts += 1;
        self.rtt.back_off();
        if self.segments.reneged() {
            self.segments.forget_sacks();
        }
        let in_flight = Bytes::new(self.segments.in_flight());
        self.segments.lose_all();
        self.controller.on_congestion(&Congestion { now, signal: Signal::Timeout, in_flight });
        self.verdict = self.controller.verdict();
        self.phase = Phase::Loss { high: self.nxt };
        self.timers.reorder = None;
        self.timers.rto = Some(now + self.rto());
    }

    /// TIME-WAIT begins, or begins anew.
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers.rto = None;
        self.timers.persist = None;
        self.timers.close = Some(now + self.config.time_wait);
    }
}
