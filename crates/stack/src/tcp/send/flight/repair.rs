//! The states a sender passes through between a loss and its repair (RFC 6675, RFC 5682, RFC 6582,
//! RFC 3522; Linux `tcp_fastretrans_alert`, in its order).

use tautline_base::{Bytes, Instant};
use tautline_cc::{Congestion, Signal};

use super::Flight;
use super::recovery::{Episode, Frto, Phase, TailProbe};
use super::segments::{Losses, ReorderingWindow};
use crate::config::{Prr, Successive};
use crate::tcp::send::ack::AckSummary;
use crate::tcp::ticks::on_tick;

impl Flight {
    /// Advances the present phase and detects losses. Returns the bytes newly lost.
    pub(in crate::tcp) fn repair(&mut self, summary: &AckSummary) -> Bytes {
        self.recovery
            .leave_cwr(self.segments.una(), self.segments.is_empty());
        let repaired = self.recovery.phase.repairs();
        let detect = match self.recovery.phase {
            Phase::Recovery(ref episode) if episode.is_cwr() => true,
            Phase::Open => {
                self.undo_if_all_duplicated(summary.now);
                true
            }
            Phase::Recovery(ref episode) => {
                let high = episode.high;
                self.advance_recovery(high, summary)
            }
            Phase::Loss { high, frto } => self.advance_loss(high, frto, summary),
        };
        if !detect {
            return Bytes::ZERO;
        }
        let head = self.mark_head_lost_without_sack(summary);
        // Unrepaired losses begin the next recovery although nothing more is lost.
        let successive = repaired
            && self.recovery.is_open()
            && (self.segments.any_lost() || self.segments.again() > 0)
            && self.config.loss_recovery.successive == Successive::AtOnce;
        self.find_losses(head, successive, summary.recoverable, summary.now)
    }

    /// Fast recovery ends when all that was sent before it is acknowledged, or when it turns out to
    /// have been needless. False: what was sent again needlessly must be answered first, and
    /// nothing else shall be taken for lost meanwhile.
    fn advance_recovery(&mut self, high: u64, summary: &AckSummary) -> bool {
        let late = summary.advanced && self.recovery.is_late(summary.proof());
        // Without SACK later duplicates could still be of before `high`: something more has to be
        // acknowledged, if there is anything (RFC 6582 §3.2 step 1).
        let clear = self.sack || self.segments.is_empty();
        if self.una() > high || (self.una() == high && clear) {
            if late {
                self.undo(summary.now);
            } else {
                self.undo_if_all_duplicated(summary.now);
                if self.recovery.phase.repairs() {
                    self.recovery.set_phase(Phase::Open);
                    self.segments.recovered();
                }
            }
        } else if late {
            if self.segments.again() > 0 {
                return false;
            }
            self.undo(summary.now);
        } else {
            self.undo_if_all_duplicated(summary.now);
        }
        true
    }

    /// After a timeout: was it spurious? Forward RTO recovery finds out with new data (RFC 5682
    /// §3.1).
    fn advance_loss(&mut self, high: u64, frto: Frto, summary: &AckSummary) -> bool {
        let needless = self.recovery.all_duplicated() || self.recovery.is_late(summary.proof());
        let original = summary.delivery.original.is_some_and(|end| end <= high);
        // Without SACK what arrived before the head did is acknowledged only together with it: then
        // it says nothing about the timeout (Linux `tcp_clean_rtx_queue`).
        let original = original && (self.sack || summary.delivery.retransmission.is_none());
        if (summary.advanced && needless) || (frto != Frto::Off && original) {
            self.recovery.counts.spurious_timeouts += 1;
            self.rtt.end_back_off();
            self.timeouts = 0;
            self.undo(summary.now);
            return true;
        }
        let next = match frto {
            Frto::TryingNew if self.nxt() > high => Some((high, Frto::Off)),
            Frto::Listening if summary.advanced && self.una() < high => {
                let frto = if summary.more {
                    Frto::TryingNew
                } else {
                    Frto::Off
                };
                Some((self.nxt(), frto))
            }
            _ => None,
        };
        if let Some((high, frto)) = next {
            self.recovery.set_phase(Phase::Loss { high, frto });
        }
        if self.una() >= high {
            self.recovery.set_phase(Phase::Open);
            self.segments.recovered();
        }
        true
    }

    /// Undoes a reduction after which everything that was sent again turned out to have arrived
    /// before.
    fn undo_if_all_duplicated(&mut self, now: Instant) {
        if self.recovery.all_duplicated() {
            self.undo(now);
        }
    }

    /// The latest reduction was needless.
    fn undo(&mut self, now: Instant) {
        self.totals.spurious += 1;
        let undo = self.recovery.take_undo();
        // Only a fast recovery shows that the path reorders.
        let late = undo
            .filter(|_| matches!(self.recovery.phase, Phase::Recovery(_)))
            .map(|undo| undo.marker());
        self.segments.undo_losses(late, self.mss);
        // Nothing was lost; but if marks came too, the network was congested all the same.
        if undo.is_some_and(|undo| undo.restores) {
            self.congestion.update(|controller| controller.on_undo(now));
            self.cwr_due = false;
        }
        self.recovery.set_phase(Phase::Open);
    }

    /// Without SACK, as many duplicate acknowledgments as the path displaces segments by condemn
    /// the oldest, and so does a partial acknowledgment in recovery (RFC 6582 §3.2).
    fn mark_head_lost_without_sack(&mut self, summary: &AckSummary) -> Bytes {
        let in_recovery = self.recovery.phase.repairs();
        let mut head_lost = summary.advanced && in_recovery;
        if self.sack {
            return Bytes::ZERO;
        }
        if summary.repeats {
            head_lost = !in_recovery && self.segments.reno_sacked() >= self.segments.reordering().0;
        }
        if head_lost {
            self.lose_head(summary.now)
        } else {
            Bytes::ZERO
        }
    }

    /// The oldest segment is lost.
    pub(in crate::tcp) fn lose_head(&mut self, now: Instant) -> Bytes {
        self.segments.lose_head(&mut Losses {
            now,
            congestion: &mut self.congestion,
        })
    }

    /// Inputs of the reordering window.
    pub(in crate::tcp) fn reordering_window(&self) -> ReorderingWindow {
        ReorderingWindow {
            min_rtt: self.rtt.min(),
            srtt: self.rtt.srtt(),
            in_recovery: self.recovery.phase.repairs(),
            policy: self.config.loss_recovery.reordering,
        }
    }

    /// Detects losses beyond the `known` one; the first of an episode begin fast recovery. After a
    /// timeout, a retransmission that is lost too begins one, and so does a `successive` recovery.
    /// `recoverable` is what the episode can still report delivered.
    pub(super) fn find_losses(
        &mut self,
        known: Bytes,
        successive: bool,
        recoverable: Bytes,
        now: Instant,
    ) -> Bytes {
        let in_flight = Bytes::new(self.segments.in_flight());
        let window = self.reordering_window();
        let mut losses = Losses {
            now,
            congestion: &mut self.congestion,
        };
        // RACK needs to know which segments arrived; without SACK it would condemn what the peer
        // holds (RFC 8985 §3).
        let found = if self.sack {
            self.segments.detect_lost(now, window, &mut losses)
        } else {
            Default::default()
        };
        let tick = self.config.timer_tick;
        self.timers.reorder = found.recheck_at.map(|at| on_tick(now, at, tick));
        let mut lost = known + found.bytes;
        if let Some(probe) = self.path.on_lost(self.una(), lost) {
            self.use_path_mtu();
            // The loss of a probe alone does not indicate congestion.
            if lost == probe && self.recovery.is_open() {
                lost = Bytes::ZERO;
            }
        }
        if lost > Bytes::ZERO || successive {
            match &mut self.recovery.phase {
                Phase::Open => self.enter_recovery(Signal::Loss, in_flight, recoverable, now),
                Phase::Recovery(episode) if episode.is_cwr() => {
                    episode.lose(self.segments.nxt());
                    self.recovery.begin_undo(self.segments.una(), false);
                    self.recovery.counts.recoveries += 1;
                    self.report_congestion(Signal::Loss, in_flight, now);
                }
                Phase::Loss { .. } if found.again => {
                    self.enter_recovery(Signal::Loss, in_flight, recoverable, now)
                }
                Phase::Recovery(_) | Phase::Loss { .. } => {}
            }
        }
        lost
    }

    pub(in crate::tcp) fn report_congestion(
        &mut self,
        signal: Signal,
        in_flight: Bytes,
        now: Instant,
    ) {
        let event = Congestion {
            now,
            signal,
            in_flight,
        };
        self.congestion
            .update(|controller| controller.on_congestion(&event));
        self.cwr_due = self.una() > 0;
    }

    pub(in crate::tcp) fn enter_recovery(
        &mut self,
        signal: Signal,
        in_flight: Bytes,
        recoverable: Bytes,
        now: Instant,
    ) {
        let divisor = match self.config.loss_recovery.prr {
            Prr::Rfc9937 => recoverable,
            Prr::Linux => self.congestion.verdict().cwnd,
        };
        self.report_congestion(signal, in_flight, now);
        self.recovery
            .enter(Episode::new(signal, self.segments.nxt(), divisor));
        if signal == Signal::Loss {
            self.recovery.begin_undo(self.segments.una(), true);
            self.recovery.counts.recoveries += 1;
        } else {
            // Marks and local drops are certain.
            self.recovery.take_undo();
        }
        self.recovery.tail = TailProbe::None;
        self.timers.tail = None;
        // Until PRR has seen a delivery: one segment, the first retransmission.
        self.recovery.window = Bytes::new(self.segments.in_flight() + self.mss);
    }

    /// Cheap test that spares a connection without losses the full one.
    #[inline]
    pub(in crate::tcp) fn may_have_something_urgent(&self) -> bool {
        self.recovery.tail == TailProbe::Due
            || self.recovery.is_trying_new_data()
            || self.segments.any_lost()
    }

    /// The retransmission timer expired (RFC 6298 §5.5–5.7, Linux `tcp_enter_loss`): marks lost
    /// segments and restarts the window. Forward RTO recovery may find that nothing was lost.
    pub(in crate::tcp) fn enter_loss(&mut self, now: Instant) {
        let first = self.timeouts == 0;
        let (repairs, high) = match self.recovery.phase {
            Phase::Open => (false, self.una()),
            Phase::Recovery(ref episode) => (!episode.is_cwr(), episode.high),
            Phase::Loss { high, .. } => (true, high),
        };
        // A window is reduced once. After a timeout that was followed by progress, another one is
        // news.
        let news =
            self.una() >= high || (first && matches!(self.recovery.phase, Phase::Loss { .. }));
        if news {
            self.recovery.begin_undo(self.segments.una(), true);
        }
        self.recovery.tail = TailProbe::None;
        self.timers.tail = None;
        self.timeouts += 1;
        self.refused = false;
        self.totals.timeouts += 1;
        self.rtt.back_off();
        if self
            .path
            .on_timeout(self.config.mtu_probing, self.timeouts, now)
        {
            self.use_path_mtu();
        }
        let window = self.reordering_window();
        let mut losses = Losses {
            now,
            congestion: &mut self.congestion,
        };
        self.segments.time_out(now, window, &mut losses);
        let in_flight = Bytes::new(self.segments.in_flight());
        self.report_congestion(Signal::Timeout, in_flight, now);
        let asks = self.config.loss_recovery.frto && self.una() > 0 && (!repairs || !first);
        self.recovery.set_phase(Phase::Loss {
            high: self.segments.nxt(),
            frto: if asks { Frto::Listening } else { Frto::Off },
        });
        self.timers.reorder = None;
        self.timers.rto = Some(now + self.rtt.rto());
    }
}
