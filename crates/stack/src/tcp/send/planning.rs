//! Choice of the next segment, and the accounts of segments that leave.

use std::ops::Range;

use tautline_base::{Bytes, Instant, SegmentId, Tso};
use tautline_cc::Idle;

use super::SendHalf;
use super::plan::Blocked;
use super::plan::{Kind, Plan};
use super::recovery::Phase;
use super::tail_probe::TailProbe;
use super::timers::Persist;
use crate::config::Pacing;

/// Everything beside its own state that decides what the sending half may send.
#[derive(Clone, Copy)]
pub(in crate::tcp) struct SendContext {
    /// The connection's state lets data leave.
    pub(in crate::tcp) open: bool,
    /// Nothing that was received is out of order.
    pub(in crate::tcp) in_order: bool,
    /// Classic ECN is in use.
    pub(in crate::tcp) classic_ecn: bool,
    pub(in crate::tcp) now: Instant,
}

impl SendHalf {
    /// Cheap test that spares a connection without losses the full one.
    #[inline]
    pub(in crate::tcp) fn may_have_something_urgent(&self) -> bool {
        self.repair.tail == TailProbe::Due || self.is_trying_new_data() || self.segments.any_lost()
    }

    /// Probe of the tail, forward RTO recovery's new data, or a retransmission.
    pub(in crate::tcp) fn next_urgent(&self, context: &SendContext) -> Option<Plan> {
        self.next_tail_probe(context.open)
            .or_else(|| self.next_trial(context))
            .or_else(|| self.next_retransmission())
    }

    /// The SYN, for the first time or again.
    pub(in crate::tcp) fn next_syn(&self) -> Option<Plan> {
        if self.nxt == 0 {
            return Some(Plan::new(Kind::New, 0..1));
        }
        if self.flight.refused {
            return None;
        }
        self.segments.next_lost().map(Plan::again)
    }

    /// The probe of a closed window is due.
    pub(in crate::tcp) fn window_probe_due(&self) -> bool {
        self.timers
            .persist
            .as_ref()
            .is_some_and(|persist| persist.due)
    }

    fn next_retransmission(&self) -> Option<Plan> {
        // The acknowledgement of forward RTO recovery's new data decides, once there is some.
        let trial_sent = matches!(self.phase, Phase::Loss { high, .. } if self.nxt != high);
        if self.flight.refused || (self.is_trying_new_data() && trial_sent) {
            return None;
        }
        let lost = self.segments.next_lost()?;
        self.fits_cwnd(&lost.1).then(|| Plan::again(lost))
    }

    /// The congestion window has room for `range`. With nothing in flight one segment always has: a
    /// FIN may make it one longer than the smallest window.
    pub(super) fn fits_cwnd(&self, range: &Range<u64>) -> bool {
        let in_flight = self.segments.in_flight();
        in_flight == 0 || in_flight + (range.end - range.start) <= self.cwnd().get()
    }

    /// Forward RTO recovery sends new data first, if any may leave.
    fn next_trial(&self, context: &SendContext) -> Option<Plan> {
        if !self.is_trying_new_data() {
            return None;
        }
        self.next_data(None, context).ok()
    }

    /// The application has written what was never sent, and the peer has room for it.
    pub(super) fn has_new_data(&self) -> bool {
        self.nxt < self.buffer.end().min(self.peer.edge)
    }

    /// The next `size` bytes of the stream, as far as the peer's window allows.
    pub(super) fn new_segment_of(&self, size: u64) -> Plan {
        let end = (self.nxt + size)
            .min(self.buffer.end())
            .min(self.peer.edge.max(self.nxt));
        let fin = self.fin == Some(end);
        Plan {
            fin,
            ..Plan::new(Kind::New, self.nxt..end + u64::from(fin))
        }
    }

    /// New data, as much in one packet as `most` allows.
    ///
    /// # Errors
    /// The reason why none may leave.
    pub(in crate::tcp) fn next_data(
        &self,
        most: Option<Tso>,
        context: &SendContext,
    ) -> Result<Plan, Blocked> {
        if !context.open || (self.nxt >= self.buffer.end() && self.fin.is_none()) {
            return Err(Blocked::Idle);
        }
        if self.flight.refused {
            return Err(Blocked::Refused);
        }
        if self.flight.idle_since.is_some() || self.should_begin_mtu_search() {
            return Err(Blocked::Restart);
        }
        let size = self.probe_size(context.in_order).unwrap_or(self.mss);
        let plan = self.new_segment_of(size);
        if plan.range.is_empty() {
            return Err(Blocked::PeerWindow);
        }
        self.hold_back(&plan)?;
        if !self.fits_cwnd(&plan.range) {
            return Err(Blocked::Cwnd);
        }
        match most {
            Some(tso) if size == self.mss => self.enlarge(plan, tso, context),
            _ => Ok(plan),
        }
    }

    /// Reasons to wait with a segment that is not full: Nagle's in Minshall's form, and the
    /// sender's silly-window rule (RFC 9293 §3.8.6.2.1).
    fn hold_back(&self, plan: &Plan) -> Result<(), Blocked> {
        let end = plan.range.end - u64::from(plan.fin);
        let len = end - self.nxt;
        if len >= self.mss || plan.fin || self.segments.is_empty() {
            Ok(())
        } else if end < self.buffer.end() {
            if len < self.peer.largest / 2 {
                Err(Blocked::PeerWindow)
            } else {
                Ok(())
            }
        } else if self.config.nagle && self.flight.small_end > self.una {
            Err(Blocked::Nagle)
        } else {
            Ok(())
        }
    }

    /// Brings up to date what depends on time before new data leaves: reports to the controller
    /// that nothing was in flight, and begins the search for the path's MTU.
    pub(in crate::tcp) fn restart(&mut self, now: Instant) {
        if let Some(since) = self.flight.idle_since.take() {
            let app_limited = self.sampler.app_limited();
            self.window_validated(now);
            let idle = Idle {
                now,
                idle: now - since,
                rto: self.rto(),
                app_limited,
            };
            self.congestion
                .update(|controller| controller.on_idle(&idle));
        }
        self.begin_mtu_search();
    }

    /// Notes that nothing may leave. True if the peer's closed window is to be probed from now on.
    pub(in crate::tcp) fn on_blocked(&mut self, blocked: Blocked, context: &SendContext) -> bool {
        if self.repair.tail == TailProbe::Due && self.next_tail_probe(context.open).is_none() {
            self.repair.tail = TailProbe::None;
        }
        if self.is_trying_new_data() && self.next_trial(context).is_none() {
            self.end_trial();
        }
        match blocked {
            Blocked::Cwnd => {
                self.flight.window_limited_until = Some(self.nxt);
                self.flight.peer_limited = false;
            }
            Blocked::PeerWindow => {
                self.flight.peer_limited = true;
                // With nothing in flight, only probing can show that the window opened.
                if self.segments.is_empty() && self.timers.persist.is_none() {
                    self.timers.persist = Some(Persist::new(context.now, self.rto()));
                    return true;
                }
            }
            _ => {}
        }
        false
    }

    /// Earliest departure that the pacer grants to `plan`; `None` if it has no say.
    #[inline]
    pub(in crate::tcp) fn paced(&self, plan: &Plan) -> Option<Instant> {
        let has_say = plan.has_sequence_space() && !plan.syn() && self.config.pacing != Pacing::Off;
        has_say.then(|| self.pacer.next())
    }

    /// Accounts for a packet that leaves.
    pub(in crate::tcp) fn note_sent(&mut self, plan: &Plan, now: Instant) {
        let totals = &mut self.totals;
        totals.segments_out += u64::from(plan.segments);
        if !plan.has_sequence_space() {
            return;
        }
        let payload = plan.payload();
        let len = payload.end.saturating_sub(payload.start);
        if len > 0 {
            totals.data_segments_out += u64::from(plan.segments);
            totals.bytes_retransmitted += if plan.kind == Kind::New { 0 } else { len };
            totals.data_sent_at = now;
        }
        if self.paced(plan).is_some() {
            // Windows and delivery rates count payload, and so must what is paced by them (as in
            // Linux).
            let verdict = self.congestion.verdict();
            self.pacer.departed(
                plan.departure,
                (Bytes::new(len), u32::from(plan.segments)),
                verdict.pacing_rate,
                verdict.burst,
            );
        }
    }

    /// `plan`, which is new, is a packet now. Returns the number of its first segment.
    pub(in crate::tcp) fn commit_new(&mut self, plan: &Plan, now: Instant) -> SegmentId {
        let departure = plan.departure;
        let len = plan.range.end - plan.range.start;
        if plan.segments == 1 && len > self.mss + u64::from(plan.fin) {
            self.probe_sent(plan.range.start, len - u64::from(plan.fin));
        }
        if !plan.fin && len < self.mss {
            self.flight.small_end = plan.range.end;
        }
        if !plan.payload().is_empty() {
            self.flight.cwr_due = false;
        }
        self.nxt = plan.range.end;
        self.timers.persist = None;
        let id = self.segments.next_id();
        if plan.segments == 1 {
            self.record(plan.range.clone(), plan.fin, departure);
        } else {
            plan.pieces()
                .for_each(|(range, fin)| self.record(range, fin, departure));
        }
        self.flight.largest = self.flight.largest.max(self.segments.in_flight());
        self.count_in_recovery(len);
        self.validate_window(departure);
        self.path.renew(now);
        if self.timers.rto.is_none() {
            self.timers.rto = Some(self.rto_after(departure));
        }
        self.note_tail_probe(plan, None);
        self.schedule_tail_probe(departure);
        id
    }

    /// A segment departs for the first time.
    #[inline]
    fn record(&mut self, range: Range<u64>, fin: bool, departure: Instant) {
        let in_flight = Bytes::new(self.segments.in_flight() + (range.end - range.start));
        let sent = self
            .sampler
            .on_send(departure, in_flight, self.segments.is_empty());
        self.segments.push(range, fin, sent);
    }

    /// `plan`, which is segment `id` again, is a packet now.
    pub(in crate::tcp) fn commit_again(&mut self, id: SegmentId, plan: &Plan, now: Instant) {
        let len = plan.range.end - plan.range.start;
        let in_flight = Bytes::new(self.segments.in_flight() + len);
        // Segments believed lost are outstanding all the same: what was marked by mistake must not
        // shorten the interval.
        let sent = self.sampler.on_send(plan.departure, in_flight, false);
        let timestamp = self.numbers.timestamp(now);
        self.segments.retransmitted(id, sent, timestamp);
        self.totals.retransmits += 1;
        self.count_in_recovery(len);
        if let Some(undo) = &mut self.repair.undo {
            undo.on_retransmit(timestamp);
        }
        self.note_tail_probe(plan, Some(timestamp));
        self.end_trial();
        if plan.range.start == self.una || self.timers.rto.is_none() {
            self.timers.rto = Some(self.rto_after(plan.departure));
        }
    }

    /// PRR counts bytes sent during an episode.
    fn count_in_recovery(&mut self, len: u64) {
        if let Phase::Recovery(episode) = &mut self.phase
            && self.congestion.uses_prr()
        {
            episode.on_sent(Bytes::new(len));
        }
    }

    /// A window probe left.
    pub(in crate::tcp) fn probed_window(&mut self, now: Instant) {
        let rto = self.rto();
        if let Some(persist) = &mut self.timers.persist {
            persist.sent(now, rto);
        }
    }
}
