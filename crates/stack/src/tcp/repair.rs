//! The states a sender passes through between a loss and its repair (RFC 6675, RFC 5682, RFC 6582,
//! RFC 3522; `spec/tcp.md` §1.8 and §1.10, in Linux's order).

use tautline_base::{Bytes, Instant};
use tautline_cc::{Congestion, Signal};

use super::connection::Connection;
use super::duplicates::Duplicate;
use super::recovery::{Episode, Frto, Phase, Proof, Undo};
use super::segments::{Delivery, Losses, ReorderingWindow};
use super::tail_probe::TailProbe;
use crate::config::{Prr, Successive};

/// What a sender remembers beside its phase.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// What would prove that the latest reduction was needless.
    pub(super) undo: Option<Undo>,
    pub(super) tail: TailProbe,
    pub(super) counts: Counts,
}

/// Totals for `info()`.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Fast recoveries.
    pub(super) recoveries: u32,
    /// Probes of the tail.
    pub(super) tail_probes: u32,
    /// Losses that only a probe of the tail repaired.
    pub(super) tail_losses: u32,
    /// Segments the peer says arrived twice.
    pub(super) duplicates: u32,
    /// Timeouts that proved spurious.
    pub(super) spurious_timeouts: u32,
}

/// What an acknowledgement told.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckSummary<'a> {
    pub(super) now: Instant,
    /// SND.UNA moved.
    pub(super) advanced: bool,
    /// It told nothing new: no data, no window, nothing delivered.
    pub(super) repeats: bool,
    pub(super) duplicate: Option<Duplicate>,
    pub(super) delivery: &'a Delivery,
    /// The timestamp of ours that it echoes.
    pub(super) echo: Option<u32>,
    /// What was not yet reported delivered before it.
    pub(super) recoverable: Bytes,
}

impl AckSummary<'_> {
    fn proof(&self) -> Proof {
        let Delivery {
            believed_lost,
            retransmission,
            ..
        } = *self.delivery;
        Proof {
            believed_lost,
            retransmission,
            echo: self.echo,
        }
    }
}

impl Connection {
    /// The peer reports what arrives out of order.
    pub(super) fn has_sack(&self) -> bool {
        self.negotiated
            .as_ref()
            .is_some_and(|negotiated| negotiated.sack)
    }

    /// Goes on with whatever is under way and looks for losses. Returns how much was newly lost.
    pub(super) fn repair(&mut self, heard: &AckSummary<'_>) -> Bytes {
        self.leave_cwr();
        let repaired = self.phase.repairs();
        let look = match self.phase {
            Phase::Recovery(episode) if episode.is_cwr() => true,
            Phase::Open => {
                self.undo_if_all_came_twice(heard.now);
                true
            }
            Phase::Recovery(episode) => self.go_on_recovering(episode.high, heard),
            Phase::Loss { high, frto } => self.go_on_after_timeout(high, frto, heard),
        };
        if !look {
            return Bytes::ZERO;
        }
        let head = self.condemn_head(heard);
        let successive = repaired && self.phase == Phase::Open && self.leaves_losses_behind();
        self.find_losses(head, successive, heard.recoverable, heard.now)
    }

    /// What is still to be repaired begins the next recovery although nothing more is lost.
    fn leaves_losses_behind(&self) -> bool {
        let losses = self.segments.any_lost() || self.segments.again() > 0;
        losses && self.config.loss_recovery.successive == Successive::AtOnce
    }

    /// A reduction without loss is over when something sent after it is acknowledged, which the
    /// announcement of the reduction travelled with; or nothing is left that could tell of older
    /// marks.
    fn leave_cwr(&mut self) {
        if matches!(&self.phase, Phase::Recovery(episode) if episode.is_cwr() && (self.una > episode.high || self.segments.is_empty()))
        {
            self.phase = Phase::Open;
        }
    }

    /// Fast recovery ends when all that was sent before it is acknowledged, or when it turns out to
    /// have been needless. False: what was sent again needlessly must be answered first, and
    /// nothing else shall be taken for lost meanwhile.
    fn go_on_recovering(&mut self, high: u64, heard: &AckSummary<'_>) -> bool {
        let late = heard.advanced
            && self
                .repair
                .undo
                .is_some_and(|undo| undo.was_late(heard.proof()));
        if self.is_past(high) {
            if late {
                self.undo(heard.now);
            } else {
                self.undo_if_all_came_twice(heard.now);
                if self.phase.repairs() {
                    self.end_recovery();
                }
            }
        } else if late {
            if self.segments.again() > 0 {
                return false;
            }
            self.undo(heard.now);
        } else {
            self.undo_if_all_came_twice(heard.now);
        }
        true
    }

    /// Everything up to `high` is acknowledged. Without SACK later duplicates could still be of
    /// before: something more has to be acknowledged, if there is anything (RFC 6582 §3.2 step 1).
    fn is_past(&self, high: u64) -> bool {
        self.una > high || (self.una == high && (self.has_sack() || self.segments.is_empty()))
    }

    fn end_recovery(&mut self) {
        self.phase = Phase::Open;
        self.segments.recovered();
    }

    /// After a timeout: was it spurious? Forward RTO recovery asks the peer (RFC 5682 §3.1).
    fn go_on_after_timeout(&mut self, high: u64, frto: Frto, heard: &AckSummary<'_>) -> bool {
        let needless = self
            .repair
            .undo
            .is_some_and(|undo| undo.all_came_twice() || undo.was_late(heard.proof()));
        let original = heard.delivery.original.is_some_and(|end| end <= high);
        if (heard.advanced && needless) || (frto != Frto::Off && original) {
            self.repair.counts.spurious_timeouts += 1;
            self.rtt.end_back_off();
            self.flight.timeouts = 0;
            self.undo(heard.now);
            return true;
        }
        self.phase = match frto {
            Frto::TryingNew if self.nxt > high => Phase::Loss {
                high,
                frto: Frto::Off,
            },
            Frto::Listening if heard.advanced && self.una < high => {
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
    fn undo_if_all_came_twice(&mut self, now: Instant) {
        if self.repair.undo.is_some_and(|undo| undo.all_came_twice()) {
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
        self.segments.nothing_lost(late, self.segment_size());
        // Nothing was lost; but if marks came too, the network was congested all the same.
        if undo.is_some_and(|undo| undo.restores) {
            self.controller.on_undo(now);
            self.verdict = self.controller.verdict();
            self.ecn.restored();
        }
        self.phase = Phase::Open;
    }

    /// Without SACK, as many duplicate acknowledgements as the path displaces segments by condemn
    /// the oldest, and so does a partial acknowledgement in recovery (RFC 6582 §3.2).
    fn condemn_head(&mut self, heard: &AckSummary<'_>) -> Bytes {
        let repairing = self.phase.repairs();
        let mut condemned = heard.advanced && repairing;
        if self.has_sack() {
            return Bytes::ZERO;
        }
        if heard.repeats {
            condemned = !repairing && self.segments.unnamed() >= self.segments.reordering().0;
        }
        if condemned {
            self.lose_head(heard.now)
        } else {
            Bytes::ZERO
        }
    }

    /// The oldest segment is lost.
    pub(super) fn lose_head(&mut self, now: Instant) -> Bytes {
        self.segments.lose_head(&mut Losses {
            now,
            sampler: &mut self.sampler,
            controller: &mut *self.controller,
        })
    }

    /// The reordering window closed.
    pub(super) fn look_for_losses(&mut self, now: Instant) {
        let recoverable = self.recoverable();
        self.find_losses(Bytes::ZERO, false, recoverable, now);
    }

    /// What is not yet reported delivered: what a recovery that begins now can still learn of.
    pub(super) fn recoverable(&self) -> Bytes {
        Bytes::new(self.nxt - self.una - self.segments.sacked_bytes())
    }

    /// What the reordering window depends on.
    pub(super) fn reordering_window(&self) -> ReorderingWindow {
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
            controller: &mut *self.controller,
        };
        // RACK needs to know which segments arrived; without SACK it would condemn what the peer
        // holds (RFC 8985 §3).
        let has_sack = self
            .negotiated
            .as_ref()
            .is_some_and(|negotiated| negotiated.sack);
        let found = if has_sack {
            self.segments.detect_lost(now, window, &mut losses)
        } else {
            Default::default()
        };
        self.timers.reorder = found.look_again;
        let lost = self.forgive_probe(known + found.bytes);
        if lost > Bytes::ZERO || successive {
            match &mut self.phase {
                Phase::Open => self.enter_recovery(Signal::Loss, in_flight, recoverable, now),
                Phase::Recovery(episode) if episode.is_cwr() => {
                    episode.lose(self.nxt);
                    self.begin_undo(false);
                    self.repair.counts.recoveries += 1;
                    self.tell_of_congestion(Signal::Loss, in_flight, now);
                }
                Phase::Loss { .. } if found.again => {
                    self.enter_recovery(Signal::Loss, in_flight, recoverable, now)
                }
                Phase::Recovery(_) | Phase::Loss { .. } => {}
            }
        }
        lost
    }

    pub(super) fn tell_of_congestion(&mut self, signal: Signal, in_flight: Bytes, now: Instant) {
        self.controller.on_congestion(&Congestion {
            now,
            signal,
            in_flight,
        });
        self.verdict = self.controller.verdict();
        self.ecn.reduced();
    }

    pub(super) fn enter_recovery(
        &mut self,
        signal: Signal,
        in_flight: Bytes,
        recoverable: Bytes,
        now: Instant,
    ) {
        let divisor = match self.config.loss_recovery.prr {
            Prr::Rfc9937 => recoverable,
            Prr::Linux => self.verdict.cwnd,
        };
        self.tell_of_congestion(signal, in_flight, now);
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
        self.recovery_window = Bytes::new(self.segments.in_flight() + self.segment_size());
    }

    /// A reduction begins that may prove needless.
    pub(super) fn begin_undo(&mut self, restores: bool) {
        let probe = match self.repair.tail {
            TailProbe::Sent { again, .. } => again,
            TailProbe::None | TailProbe::Due => None,
        };
        self.repair.undo = Some(Undo::new(self.una, probe, restores));
    }

    /// Retransmissions wait while forward RTO recovery tries new data.
    pub(super) fn tries_new_data(&self) -> bool {
        matches!(
            self.phase,
            Phase::Loss {
                frto: Frto::TryingNew,
                ..
            }
        )
    }

    /// Forward RTO recovery has sent its new data.
    pub(super) fn sent_trial_data(&self) -> bool {
        matches!(self.phase, Phase::Loss { high, .. } if self.nxt != high)
    }

    /// No new data may leave. If none has, the question stays open, and retransmissions go on.
    pub(super) fn nothing_to_try(&mut self) {
        if self.tries_new_data()
            && let Phase::Loss { high, frto } = &mut self.phase
            && self.nxt == *high
        {
            *frto = Frto::Off;
        }
    }
}
