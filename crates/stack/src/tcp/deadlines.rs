//! What the expiry of a connection's timers does (`spec/tcp.md` §1.7–1.8, §1.13).

use tautline_base::{Bytes, Instant};
use tautline_cc::{Congestion, Signal};

use super::connection::{Connection, State};
use super::receiver::Acknowledgement;
use super::recovery::{Frto, Phase};
use super::segments::Losses;
use super::tail_probe::TailProbe;
use super::timers::Timers;
use crate::socket::CloseReason;

/// Timeouts of an orphan's segment, and probes of a closed window that an orphan sends before it
/// gives up even if the peer answers (Linux `tcp_orphan_retries`): the peer could keep an abandoned
/// connection for ever.
const ORPHAN_RETRIES: u32 = 8;

/// The earlier of two deadlines.
#[inline]
pub(super) fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Connection {
    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let delayed = match self.receiver.owed() {
            Acknowledgement::By(at) => Some(at),
            _ => None,
        };
        let Timers {
            rto,
            tail,
            reorder,
            persist,
            challenged: _,
            close,
        } = &self.timers;
        let persist = persist
            .as_ref()
            .filter(|persist| !persist.due)
            .map(|persist| persist.at());
        let rest = sooner(persist, sooner(*close, self.liveness_deadline()));
        sooner(sooner(*rto, *tail), sooner(sooner(*reorder, delayed), rest))
    }

    /// Lets every deadline that has passed take effect.
    pub(crate) fn on_deadline(&mut self, now: Instant) {
        if self.receiver.on_deadline(now) {
            self.ack_delay.expired(self.ack_bounds());
        }
        if self.timers.reorder.is_some_and(|at| at <= now) {
            self.timers.reorder = None;
            self.look_for_losses(now);
        }
        // A probe of the tail comes first, and gives the timeout another chance not to come.
        if self.timers.tail.is_some_and(|at| at <= now) {
            self.on_tail_timeout(now);
        }
        if self.timers.rto.is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
        self.probe_window(now);
        self.check_liveness(now);
        if self.timers.close.is_some_and(|at| at <= now) {
            self.timers.close = None;
            self.close_is_over();
        }
    }

    /// TIME-WAIT or FIN-WAIT-2 has lasted long enough, or the time to deliver what a released
    /// connection was given is over.
    fn close_is_over(&mut self) {
        match self.state {
            State::TimeWait | State::FinWait2 => self.end(CloseReason::Finished),
            _ => self.give_up(),
        }
    }

    /// A probe is due, unless the peer has been silent, or we have been abandoned, for too many of
    /// them.
    fn probe_window(&mut self, now: Instant) {
        let Some(persist) = self
            .timers
            .persist
            .as_mut()
            .filter(|persist| persist.at() <= now)
        else {
            return;
        };
        let silent =
            persist.unanswered() >= self.config.retries && self.config.user_timeout.is_none();
        if silent || (self.orphan && persist.probes() >= ORPHAN_RETRIES) {
            self.give_up();
        } else {
            persist.due = true;
        }
    }

    /// Enough was tried. The peer of an abandoned connection is told, as in Linux: it may live, and
    /// nobody else would tell it. (An application that still holds the connection hears of the end
    /// instead, and decides.)
    fn give_up(&mut self) {
        self.reset_due |=
            self.orphan && !matches!(self.state, State::SynSent | State::SynReceived { .. });
        self.end(CloseReason::TimedOut);
    }

    /// The retransmission timer expired (RFC 6298 §5.4–5.7).
    fn on_timeout(&mut self, now: Instant) {
        if self.segments.is_empty() {
            self.timers.rto = None;
            return;
        }
        // A copy that has not left this host cannot be acknowledged: it is our queue that is slow,
        // not the network.
        if self.segments.head_in_host() {
            self.timers.rto = Some(now + self.rto());
            return;
        }
        let limit = match self.state {
            State::SynSent | State::SynReceived { listener: None } => self.config.syn_retries,
            State::SynReceived { .. } => self.config.syn_ack_retries,
            _ if self.orphan => self.config.retries.min(ORPHAN_RETRIES),
            _ => self.config.retries,
        };
        if self.flight.timeouts >= limit && !self.is_limited_by_time() {
            self.give_up();
            return;
        }
        self.begin_again(now);
        self.timers.reorder = None;
        self.timers.rto = Some(now + self.rto());
    }

    /// What is lost is marked so; the window begins anew; perhaps it will turn out that nothing was
    /// lost (`spec/tcp.md` §1.10).
    fn begin_again(&mut self, now: Instant) {
        let first = self.flight.timeouts == 0;
        let (repairs, high) = match self.phase {
            Phase::Open => (false, self.una),
            Phase::Recovery(episode) => (!episode.is_cwr(), episode.high),
            Phase::Loss { high, .. } => (true, high),
        };
        // A window is reduced once. After a timeout that was followed by progress, another one is
        // news.
        let news = self.una >= high || (first && matches!(self.phase, Phase::Loss { .. }));
        if news {
            self.begin_undo(true);
        }
        self.repair.tail = TailProbe::None;
        self.timers.tail = None;
        self.flight.timeouts += 1;
        self.flight.refused = false;
        self.totals.timeouts += 1;
        self.rtt.back_off();
        self.suspect_black_hole(now);
        let window = self.reordering_window();
        let mut losses = Losses {
            now,
            sampler: &mut self.sampler,
            controller: &mut *self.controller,
        };
        self.segments.time_out(now, window, &mut losses);
        let in_flight = Bytes::new(self.segments.in_flight());
        self.controller.on_congestion(&Congestion {
            now,
            signal: Signal::Timeout,
            in_flight,
        });
        self.verdict = self.controller.verdict();
        if self.una > 0 {
            self.ecn.reduced();
        }
        let asks = self.config.loss_recovery.frto && self.una > 0 && (!repairs || !first);
        self.phase = Phase::Loss {
            high: self.nxt,
            frto: if asks { Frto::Listening } else { Frto::Off },
        };
    }

    /// TIME-WAIT begins, or begins anew.
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers.rto = None;
        self.timers.tail = None;
        self.timers.persist = None;
        self.timers.close = Some(now + self.config.time_wait);
    }
}
