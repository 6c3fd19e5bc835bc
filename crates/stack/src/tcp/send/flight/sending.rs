//! Accounts of segments that leave.

use std::ops::Range;

use tautline_base::{Bytes, Instant, SegmentId};

use super::Flight;
use super::recovery::Phase;
use crate::config::{MtuProbing, Pacing};
use crate::tcp::send::plan::Plan;

impl Flight {
    /// The congestion window has room for `range`. With nothing in flight one segment always has: a
    /// FIN may make it one longer than the smallest window.
    #[inline]
    pub(in crate::tcp) fn fits_cwnd(&self, range: &Range<u64>) -> bool {
        let in_flight = self.segments.in_flight();
        in_flight == 0 || in_flight + (range.end - range.start) <= self.cwnd().get()
    }

    /// The length of payload that a probe of the path's MTU may have now, if one is due and nothing
    /// else is wrong with the path, `in_order` for received data.
    pub(in crate::tcp::send) fn mtu_probe(
        &self,
        in_order: bool,
        sendable_end: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let calm = in_order && self.recovery.is_open() && !self.segments.any_lost();
        if self.config.mtu_probing == MtuProbing::Off || !calm || self.nxt() == 1 {
            return None;
        }
        let sendable = sendable_end().saturating_sub(self.nxt());
        self.path.probe_size(self.mss, self.cwnd(), sendable)
    }

    /// The lowest lost segment again, if the congestion window has room.
    pub(in crate::tcp::send) fn next_retransmission(&self) -> Option<Plan> {
        // The acknowledgment of forward RTO recovery's new data decides, once there is some.
        let trial_sent =
            matches!(self.recovery.phase, Phase::Loss { high, .. } if self.nxt() != high);
        if self.refused || (self.recovery.is_trying_new_data() && trial_sent) {
            return None;
        }
        let lost = self.segments.next_lost()?;
        self.fits_cwnd(&lost.1).then(|| Plan::again(lost))
    }

    /// Earliest departure that the pacer grants to `plan`; `None` if it has no say.
    #[inline]
    pub(in crate::tcp) fn paced(&self, plan: &Plan) -> Option<Instant> {
        let has_say = plan.has_sequence_space() && !plan.syn() && self.config.pacing != Pacing::Off;
        has_say.then(|| self.congestion.next_departure())
    }

    /// `plan`, which is new, is a packet now. Returns the number of its first segment.
    pub(in crate::tcp::send) fn commit_new(
        &mut self,
        plan: &Plan,
        buffer_limited: bool,
        now: Instant,
    ) -> SegmentId {
        let departure = plan.departure;
        let len = plan.range.end - plan.range.start;
        if plan.segments == 1 && len > self.mss + u64::from(plan.fin) {
            self.path
                .probe_sent(plan.range.start, len - u64::from(plan.fin));
        }
        if !plan.payload().is_empty() {
            self.cwr_due = false;
        }
        let id = self.segments.next_id();
        let sampler = &mut self.congestion.sampler;
        if plan.segments == 1 {
            (self.segments).record(plan.range.clone(), plan.fin, departure, sampler);
        } else {
            for (range, fin) in plan.pieces() {
                self.segments.record(range, fin, departure, sampler);
            }
        }
        if self.congestion.uses_prr() {
            self.recovery.on_sent(Bytes::new(len));
        }
        self.validate_window(buffer_limited, departure);
        if self.path.renew(now) {
            self.use_path_mtu();
        }
        if self.timers.rto.is_none() {
            self.timers.rto = Some(self.rtt.timeout_after(departure));
        }
        self.note_tail_probe(plan, None);
        self.schedule_tail_probe(departure);
        id
    }

    /// No segment departs later than `now`, whatever its stamp says.
    pub(in crate::tcp) fn depart_by(&mut self, now: Instant) {
        self.segments.depart_by(now);
        self.congestion.sampler.depart_by(now);
        let timeout = self.rtt.timeout_after(now);
        self.timers.rto = self.timers.rto.map(|at| at.min(timeout));
        if self.timers.tail.is_some() {
            self.schedule_tail_probe(now);
        }
    }

    /// `plan`, which is segment `id` again, is a packet now.
    pub(in crate::tcp) fn commit_again(&mut self, id: SegmentId, plan: &Plan, now: Instant) {
        let len = plan.range.end - plan.range.start;
        let in_flight = Bytes::new(self.segments.in_flight() + len);
        // Segments marked lost are still outstanding: what was marked by mistake must not shorten
        // the interval.
        let sent = self
            .congestion
            .sampler
            .on_send(plan.departure, in_flight, false);
        let timestamp = self.numbers.timestamp(now);
        self.segments.retransmitted(id, sent, timestamp);
        self.totals.retransmits += 1;
        if self.congestion.uses_prr() {
            self.recovery.on_sent(Bytes::new(len));
        }
        if let Some(undo) = &mut self.recovery.undo {
            undo.on_retransmit(timestamp);
        }
        self.note_tail_probe(plan, Some(timestamp));
        self.recovery.end_trial(self.segments.nxt());
        if plan.range.start == self.una() || self.timers.rto.is_none() {
            self.timers.rto = Some(self.rtt.timeout_after(plan.departure));
        }
    }
}
