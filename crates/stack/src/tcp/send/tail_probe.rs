//! Tail loss probes (RFC 8985 §7 with Linux's timeouts, `tcp_schedule_loss_probe`): when no
//! acknowledgement comes for two round trips, the last segment is sent again, or a new one, so that
//! an acknowledgement reveals the loss and no timeout is needed.

use tautline_base::{Bytes, Instant};
use tautline_cc::Signal;

use super::SendHalf;
use super::ack::AckSummary;
use super::plan::Plan;
use super::recovery::Phase;
use super::rtt::INITIAL_RTO;
use super::segments::TIMER_SLACK;

/// Where the probe of the present tail stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) enum TailProbe {
    /// None was needed.
    #[default]
    None,
    /// One is to be sent.
    Due,
    /// One was sent, and its fate is open.
    Sent {
        /// SND.NXT then.
        high: u64,
        /// Our timestamp in it, if it repeated the last segment.
        again: Option<u32>,
    },
}

impl SendHalf {
    /// Restarts the timer of the probe, if the tail may need one: something is outstanding, nothing
    /// of it is known to be lost or to have overtaken anything, and the last probe is answered.
    #[inline]
    pub(in crate::tcp) fn schedule_tail_probe(&mut self, now: Instant) {
        self.timers.tail = self.tail_may_be_probed().then(|| self.tail_timeout(now));
    }

    fn tail_may_be_probed(&self) -> bool {
        self.config.loss_recovery.tail_loss_probe
            && self.sack
            && self.una > 0
            && !self.segments.is_empty()
            && self.segments.sacked_bytes() == 0
            && !self.phase.repairs()
            && self.repair.tail == TailProbe::None
    }

    /// Two round trips from now, and time for an acknowledgement that may be held back; never after
    /// the retransmission timeout.
    fn tail_timeout(&self, now: Instant) -> Instant {
        let at = match self.rtt.srtt_nanos() {
            0 => now + INITIAL_RTO,
            srtt if self.segments.len() == 1 => {
                now.after_nanos(srtt.saturating_mul(2)) + self.config.loss_recovery.max_ack_delay
            }
            srtt => now.after_nanos(srtt.saturating_mul(2)) + TIMER_SLACK,
        };
        self.timers.rto.map_or(at, |rto| at.min(rto))
    }

    /// The timer expired. Unless a probe leaves, the retransmission timeout counts from when the
    /// oldest segment was sent.
    pub(in crate::tcp) fn on_tail_timeout(&mut self, now: Instant) {
        self.timers.tail = None;
        if self.tail_may_be_probed() {
            self.repair.tail = TailProbe::Due;
        }
        if let Some(sent_at) = self.segments.head_sent_at() {
            self.timers.rto = Some((sent_at + self.rto()).max(now + TIMER_SLACK));
        }
    }

    /// The probe that is due: new data whatever the congestion window, else the last segment again.
    /// A segment that is still in this host cannot be acknowledged and needs no probe.
    pub(in crate::tcp) fn next_tail_probe(&self, open: bool) -> Option<Plan> {
        if self.repair.tail != TailProbe::Due || self.segments.tail_in_host() {
            return None;
        }
        let fresh = open.then(|| self.new_segment_of(self.mss));
        fresh
            .filter(|plan| !plan.range.is_empty() && !self.flight.refused)
            .or_else(|| {
                self.segments
                    .last_outstanding()
                    .filter(|_| !self.segments.any_lost())
                    .map(Plan::again)
            })
            .map(|plan| Plan {
                tail_probe: true,
                ..plan
            })
    }

    /// `plan` was sent, or sent `again` with that timestamp of ours. Anything but the probe that was
    /// due shows that none could be sent. A probe restarts the retransmission timer, or the timeout
    /// would overtake its acknowledgement (RFC 8985 §7.3).
    pub(in crate::tcp) fn note_tail_probe(&mut self, plan: &Plan, again: Option<u32>) {
        if self.repair.tail != TailProbe::Due {
            return;
        }
        self.repair.tail = TailProbe::None;
        if plan.tail_probe {
            self.repair.tail = TailProbe::Sent {
                high: self.nxt,
                again,
            };
            self.repair.counts.tail_probes += 1;
            self.timers.tail = None;
            self.timers.rto = Some(self.rto_after(plan.departure));
        }
    }

    /// Evaluates the outstanding probe (RFC 8985 §7.4). When a repetition of the last segment was
    /// needed and nothing else revealed the loss, the congestion window is reduced all the same.
    pub(super) fn on_tail_probe_ack(&mut self, summary: &AckSummary) {
        let ack = summary.ack;
        let TailProbe::Sent { high, again } = self.repair.tail else {
            if summary.advanced {
                self.repair.tail = TailProbe::None;
            }
            return;
        };
        let both_arrived = summary
            .duplicate
            .is_some_and(|duplicate| duplicate.of_probe)
            || summary.repeats;
        if ack < high {
            return;
        }
        if again.is_none() || both_arrived {
            self.repair.tail = TailProbe::None;
        } else if ack > high {
            self.repair.tail = TailProbe::None;
            self.repair.counts.tail_losses += 1;
            self.reduce_for_tail_loss(summary);
        }
    }

    fn reduce_for_tail_loss(&mut self, summary: &AckSummary) {
        if self.phase == Phase::Open && self.congestion.uses_prr() {
            self.repair.undo = None;
            self.report_congestion(
                Signal::Loss,
                Bytes::new(self.segments.in_flight()),
                summary.now,
            );
        }
    }
}
