//! Tail loss probes (RFC 8985 §7 with Linux's timeouts, `tcp_schedule_loss_probe`): when no
//! acknowledgment comes for two round trips, the last segment is sent again, or a new one, so that
//! an acknowledgment reveals the loss and no timeout is needed.

use tautline_base::{Bytes, Instant};
use tautline_cc::Signal;

use super::Flight;
use super::recovery::TailProbe;
use super::rtt::INITIAL_RTO;
use super::segments::TIMER_SLACK;
use crate::tcp::send::ack::AckSummary;
use crate::tcp::send::plan::Plan;
use crate::tcp::ticks::on_tick;

impl Flight {
    /// Restarts the timer of the probe, if the tail may need one: data is outstanding, without
    /// known loss or reordering, and the last probe is answered. It runs for two round trips, and
    /// the time that an acknowledgment may be held back; never longer than the retransmission
    /// timeout.
    #[inline]
    pub(in crate::tcp) fn schedule_tail_probe(&mut self, now: Instant) {
        if !self.tail_may_be_probed() {
            self.timers.tail = None;
            return;
        }
        let at = match self.rtt.srtt_nanos() {
            0 => now + INITIAL_RTO,
            srtt if self.segments.len() == 1 => {
                now.after_nanos(srtt.saturating_mul(2)) + self.config.loss_recovery.max_ack_delay
            }
            srtt => now.after_nanos(srtt.saturating_mul(2)) + TIMER_SLACK,
        };
        let at = on_tick(now, at, self.config.timer_tick);
        self.timers.tail = Some(self.timers.rto.map_or(at, |rto| at.min(rto)));
    }

    fn tail_may_be_probed(&self) -> bool {
        self.config.loss_recovery.tail_loss_probe
            && self.sack
            && self.una() > 0
            && !self.segments.is_empty()
            && self.segments.sacked_bytes() == 0
            && !self.recovery.phase.repairs()
            && self.recovery.tail == TailProbe::None
    }

    /// The timer expired. Unless a probe leaves, the retransmission timeout counts from when the
    /// oldest segment was sent.
    pub(in crate::tcp) fn on_tail_timeout(&mut self, now: Instant) {
        self.timers.tail = None;
        if self.tail_may_be_probed() {
            self.recovery.tail = TailProbe::Due;
        }
        if let Some(sent_at) = self.segments.head_sent_at() {
            self.timers.rto = Some((sent_at + self.rtt.rto()).max(now + TIMER_SLACK));
        }
    }

    /// `plan` was sent, or sent `again` with that timestamp of ours. Anything but the probe that was
    /// due shows that none could be sent. A probe restarts the retransmission timer, or the timeout
    /// would overtake its acknowledgment (RFC 8985 §7.3).
    pub(in crate::tcp) fn note_tail_probe(&mut self, plan: &Plan, again: Option<u32>) {
        if self.recovery.tail != TailProbe::Due {
            return;
        }
        self.recovery.tail = TailProbe::None;
        if plan.tail_probe {
            self.recovery.tail = TailProbe::Sent {
                high: self.nxt(),
                again,
            };
            self.recovery.counts.tail_probes += 1;
            self.timers.tail = None;
            self.timers.rto = Some(self.rtt.timeout_after(plan.departure));
        }
    }

    /// Evaluates the outstanding probe (RFC 8985 §7.4). When a repetition of the last segment was
    /// needed and nothing else revealed the loss, the congestion window is reduced all the same.
    pub(super) fn on_tail_probe_ack(&mut self, summary: &AckSummary) {
        let ack = summary.ack;
        let TailProbe::Sent { high, again } = self.recovery.tail else {
            if summary.advanced {
                self.recovery.tail = TailProbe::None;
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
            self.recovery.tail = TailProbe::None;
        } else if ack > high {
            self.recovery.tail = TailProbe::None;
            self.recovery.counts.tail_losses += 1;
            if self.recovery.is_open() && self.congestion.uses_prr() {
                self.recovery.take_undo();
                let in_flight = Bytes::new(self.segments.in_flight());
                self.report_congestion(Signal::Loss, in_flight, summary.now);
            }
        }
    }
}
