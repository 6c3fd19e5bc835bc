//! The states a sender passes through between a loss and its repair (RFC 6675, RFC 5682, RFC 6582,
//! RFC 3522; Linux `tcp_fastretrans_alert`, in its order).

use tautline_base::{Bytes, Instant};
use tautline_cc::{Congestion, Signal};

use super::SendHalf;
use super::ack::AckSummary;
use super::recovery::{Episode, Frto, Phase, Undo};
use super::segments::{Losses, ReorderingWindow};
use super::tail_probe::TailProbe;
use crate::config::{Prr, Successive};

/// Loss recovery's state beside its phase.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// Evidence that would prove the latest reduction needless.
    pub(super) undo: Option<Undo>,
    pub(super) tail: TailProbe,
    /// The congestion window while PRR owns it.
    pub(super) window: Bytes,
    pub(super) counts: Counts,
}

/// Totals for `info()`.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Counts {
    /// Fast recoveries.
    pub(in crate::tcp) recoveries: u32,
    /// Probes of the tail.
    pub(in crate::tcp) tail_probes: u32,
    /// Losses that only a probe of the tail repaired.
    pub(in crate::tcp) tail_losses: u32,
    /// Segments the peer says arrived twice.
    pub(in crate::tcp) duplicates: u32,
    /// Timeouts that proved spurious.
    pub(in crate::tcp) spurious_timeouts: u32,
    /// Reductions of the window for congestion marks.
    pub(in crate::tcp) ce_reductions: u64,
}

impl SendHalf {
    /// Advances the present phase and detects losses. Returns the bytes newly lost.
    pub(in crate::tcp) fn repair(&mut self, summary: &AckSummary) -> Bytes {
        self.leave_cwr();
        let repaired = self.phase.repairs();
        let detect = match self.phase {
            Phase::Recovery(episode) if episode.is_cwr() => true,
            Phase::Open => {
                self.undo_if_all_duplicated(summary.now);
                true
            }
            Phase::Recovery(episode) => self.advance_recovery(episode.high, summary),
            Phase::Loss { high, frto } => self.advance_loss(high, frto, summary),
        };
        if !detect {
            return Bytes::ZERO;
        }
        let head = self.mark_head_lost_without_sack(summary);
        let successive = repaired && self.phase == Phase::Open && self.has_unrepaired_losses();
        self.find_losses(head, successive, summary.recoverable, summary.now)
    }

    /// Unrepaired losses begin the next recovery although nothing more is lost.
    fn has_unrepaired_losses(&self) -> bool {
        let losses = self.segments.any_lost() || self.segments.again() > 0;
        losses && self.config.loss_recovery.successive == Successive::AtOnce
    }

    /// A reduction without loss ends when a segment is acknowledged that was sent after it and
    /// carried its announcement, or when nothing is left that could report older marks.
    fn leave_cwr(&mut self) {
        if matches!(&self.phase, Phase::Recovery(episode) if episode.is_cwr() && (self.una > episode.high || self.segments.is_empty()))
        {
            self.phase = Phase::Open;
        }
    }

    /// Fast recovery ends when all that was sent before it is acknowledged, or when it turns out to
    /// have been needless. False: what was sent again needlessly must be answered first, and
    /// nothing else shall be taken for lost meanwhile.
    fn advance_recovery(&mut self, high: u64, summary: &AckSummary) -> bool {
        let late = summary.advanced
            && self
                .repair
                .undo
                .is_some_and(|undo| undo.is_late(summary.proof()));
        if self.is_past(high) {
            if late {
                self.undo(summary.now);
            } else {
                self.undo_if_all_duplicated(summary.now);
                if self.phase.repairs() {
                    self.end_recovery();
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

    /// Everything up to `high` is acknowledged. Without SACK later duplicates could still be of
    /// before: something more has to be acknowledged, if there is anything (RFC 6582 §3.2 step 1).
    fn is_past(&self, high: u64) -> bool {
        self.una > high || (self.una == high && (self.sack || self.segments.is_empty()))
    }

    fn end_recovery(&mut self) {
        self.phase = Phase::Open;
        self.segments.recovered();
    }

    /// After a timeout: was it spurious? Forward RTO recovery asks the peer (RFC 5682 §3.1).
    fn advance_loss(&mut self, high: u64, frto: Frto, summary: &AckSummary) -> bool {
        let needless = self
            .repair
            .undo
            .is_some_and(|undo| undo.all_duplicated() || undo.is_late(summary.proof()));
        let original = summary.delivery.original.is_some_and(|end| end <= high);
        if (summary.advanced && needless) || (frto != Frto::Off && original) {
            self.repair.counts.spurious_timeouts += 1;
            self.rtt.end_back_off();
            self.flight.timeouts = 0;
            self.undo(summary.now);
            return true;
        }
        self.phase = match frto {
            Frto::TryingNew if self.nxt > high => Phase::Loss {
                high,
                frto: Frto::Off,
            },
            Frto::Listening if summary.advanced && self.una < high => {
                let frto = if self.has_new_data() {
                    Frto::TryingNew
                } else {
                    Frto::Off
                };
                Phase::Loss {
                    high: self.nxt,
                    frto,
                }
            }
            _ => self.phase,
        };
        if self.una >= high {
            self.end_recovery();
        }
        true
    }

    /// Undoes a reduction after which everything that was sent again turned out to have arrived
    /// before.
    fn undo_if_all_duplicated(&mut self, now: Instant) {
        if self.repair.undo.is_some_and(|undo| undo.all_duplicated()) {
            self.undo(now);
        }
    }

    /// The latest reduction was needless.
    fn undo(&mut self, now: Instant) {
        self.totals.spurious += 1;
        let undo = self.repair.undo.take();
        // Only a fast recovery says that the path reorders.
        let late = undo
            .filter(|_| matches!(self.phase, Phase::Recovery(_)))
            .map(|undo| undo.marker());
        self.segments.undo_losses(late, self.mss);
        // Nothing was lost; but if marks came too, the network was congested all the same.
        if undo.is_some_and(|undo| undo.restores) {
            self.congestion.update(|controller| controller.on_undo(now));
            self.flight.cwr_due = false;
        }
        self.phase = Phase::Open;
    }

    /// Without SACK, as many duplicate acknowledgements as the path displaces segments by condemn
    /// the oldest, and so does a partial acknowledgement in recovery (RFC 6582 §3.2).
    fn mark_head_lost_without_sack(&mut self, summary: &AckSummary) -> Bytes {
        let repairing = self.phase.repairs();
        let mut head_lost = summary.advanced && repairing;
        if self.sack {
            return Bytes::ZERO;
        }
        if summary.repeats {
            head_lost = !repairing && self.segments.reno_sacked() >= self.segments.reordering().0;
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
            sampler: &mut self.sampler,
            congestion: &mut self.congestion,
        })
    }

    /// The reordering window closed.
    pub(in crate::tcp) fn detect_losses(&mut self, now: Instant) {
        let recoverable = self.recoverable();
        self.find_losses(Bytes::ZERO, false, recoverable, now);
    }

    /// Bytes not yet reported delivered: those that a recovery beginning now can still cover.
    pub(in crate::tcp) fn recoverable(&self) -> Bytes {
        Bytes::new(self.nxt - self.una - self.segments.sacked_bytes())
    }

    /// Inputs of the reordering window.
    pub(in crate::tcp) fn reordering_window(&self) -> ReorderingWindow {
        ReorderingWindow {
            min_rtt: self.rtt.min(),
            srtt: self.rtt.srtt(),
            in_recovery: self.phase.repairs(),
            policy: self.config.loss_recovery.reordering,
        }
    }

    /// Detects losses beyond the `known` one; the first of an episode begin fast recovery. After a
    /// timeout, a retransmission that is lost too begins one, and so does a `successive` recovery.
    /// `recoverable` is what the episode can still report delivered.
    fn find_losses(
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
            sampler: &mut self.sampler,
            congestion: &mut self.congestion,
        };
        // RACK needs to know which segments arrived; without SACK it would condemn what the peer
        // holds (RFC 8985 §3).
        let found = if self.sack {
            self.segments.detect_lost(now, window, &mut losses)
        } else {
            Default::default()
        };
        self.timers.reorder = found.recheck_at;
        let lost = self.forgive_probe(known + found.bytes);
        if lost > Bytes::ZERO || successive {
            match &mut self.phase {
                Phase::Open => self.enter_recovery(Signal::Loss, in_flight, recoverable, now),
                Phase::Recovery(episode) if episode.is_cwr() => {
                    episode.lose(self.nxt);
                    self.begin_undo(false);
                    self.repair.counts.recoveries += 1;
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
        self.flight.cwr_due = self.una > 0;
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
        self.phase = Phase::Recovery(Episode::new(signal, self.nxt, divisor));
        if signal == Signal::Loss {
            self.begin_undo(true);
            self.repair.counts.recoveries += 1;
        } else {
            // Marks and local drops are no guesses.
            self.repair.undo = None;
        }
        self.repair.tail = TailProbe::None;
        self.timers.tail = None;
        // Until PRR has seen a delivery: one segment, the first retransmission.
        self.repair.window = Bytes::new(self.segments.in_flight() + self.mss);
    }

    /// A reduction begins that may prove needless.
    pub(in crate::tcp) fn begin_undo(&mut self, restores: bool) {
        let probe = match self.repair.tail {
            TailProbe::Sent { again, .. } => again,
            TailProbe::None | TailProbe::Due => None,
        };
        self.repair.undo = Some(Undo::new(self.una, probe, restores));
    }

    /// Retransmissions wait while forward RTO recovery tries new data.
    pub(in crate::tcp) fn is_trying_new_data(&self) -> bool {
        matches!(
            self.phase,
            Phase::Loss {
                frto: Frto::TryingNew,
                ..
            }
        )
    }

    /// Forward RTO recovery finds no new data to send: unless some has left, retransmissions go on.
    pub(in crate::tcp) fn end_trial(&mut self) {
        if self.is_trying_new_data()
            && let Phase::Loss { high, frto } = &mut self.phase
            && self.nxt == *high
        {
            *frto = Frto::Off;
        }
    }

    /// A reduction that losses began was due in any case.
    pub(super) fn make_reduction_final(&mut self) {
        if let Some(undo) = &mut self.repair.undo {
            undo.restores = false;
        }
    }

    /// Reduces the window once for every window of marks: during a reduction and after a timeout
    /// more of them change nothing.
    pub(super) fn reduce_for_marks(&mut self, recoverable: Bytes, now: Instant) {
        if self.phase == Phase::Open && !self.segments.is_empty() {
            let in_flight = Bytes::new(self.segments.in_flight());
            self.repair.counts.ce_reductions += 1;
            self.enter_recovery(Signal::Ce, in_flight, recoverable, now);
        }
        self.make_reduction_final();
    }

    /// The retransmission timer expired (RFC 6298 §5.5–5.7, Linux `tcp_enter_loss`): marks what is
    /// lost and begins the window anew. Forward RTO recovery may find that nothing was lost.
    pub(in crate::tcp) fn enter_loss(&mut self, now: Instant) {
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
            congestion: &mut self.congestion,
        };
        self.segments.time_out(now, window, &mut losses);
        let in_flight = Bytes::new(self.segments.in_flight());
        self.report_congestion(Signal::Timeout, in_flight, now);
        let asks = self.config.loss_recovery.frto && self.una > 0 && (!repairs || !first);
        self.phase = Phase::Loss {
            high: self.nxt,
            frto: if asks { Frto::Listening } else { Frto::Off },
        };
        self.timers.reorder = None;
        self.timers.rto = Some(now + self.rto());
    }
}
