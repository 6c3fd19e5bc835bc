//! What an acknowledgement does to the sender, in Linux's order (`spec/tcp.md` §1.6): scoreboard, RTT, loss detection, recovery,
//! rate sample, controller, timers. Sending comes last, elsewhere.

use std::time::Duration;

use tautline_base::{Bytes, Instant, SegmentId};
use tautline_cc::{Ack, Congestion, Recovery, Signal};
use tautline_qdisc::DropReason;

use super::connection::{Connection, State};
use super::recovery::{Episode, Phase, PrrAck};
use super::rtt::MAX_RTO;
use super::segments::{Arrival, Delivery, Losses, ReorderingWindow};
use crate::seq;
use crate::wire::Segment;

/// Duplicate acknowledgements that mean a loss when the peer sends no SACK (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

impl Connection {
    /// Takes an acceptable acknowledgement up to offset `ack`, with its SACK blocks.
    pub(super) fn process_acknowledgement(&mut self, ack: u64, segment: &Segment<'_>, now: Instant) {
        self.flight.refused = false;
        let prior_in_flight = Bytes::new(self.segments.in_flight());
        let recoverable = self.recoverable();
        let advanced = ack > self.una;
        if self.segments.is_empty() && !advanced {
            return;
        }
        let timestamps = self.agreed.as_ref().is_some_and(|agreed| agreed.peer_timestamp.is_some());
        let arrival = Arrival { now, echo: segment.timestamp.map(|(_, echo)| echo).filter(|_| timestamps) };
        let mut delivery = if advanced { self.advance(ack, arrival) } else { Delivery::default() };
        self.take_sack(segment, arrival, &mut delivery);
        let marks = self.hear_of_marks(ack, segment, &delivery);
        self.learn_rtt(&delivery, arrival);
        if delivery.opening {
            self.rtt.opened();
        }
        if delivery.bytes == Bytes::ZERO && !advanced {
            self.count_duplicate(ack, segment, now);
        }
        if self.phase_is_spurious(&delivery, segment) {
            self.undo(now);
        }
        self.leave_cwr();
        let lost = self.look_for_losses_from(now, recoverable);
        self.leave_recovery(advanced, now);
        if marks.congestion {
            self.reduce_for_marks(recoverable, now);
        }
        if delivery.bytes > Bytes::ZERO {
            self.tell_controller(&delivery, marks.bytes, lost, prior_in_flight, now);
            self.reduce_proportionally(&delivery, advanced && lost == Bytes::ZERO);
        }
        if advanced {
            self.restart_timers(now);
        }
        self.notice_room();
    }

    /// SND.UNA moves.
    fn advance(&mut self, ack: u64, arrival: Arrival) -> Delivery {
        let mut delivery = self.segments.acknowledge(ack, arrival, &mut self.sampler);
        delivery.cumulative = true;
        self.totals.bytes_acked += ack - self.una;
        self.una = ack;
        self.buffer.acknowledge(ack);
        self.duplicate_acks = 0;
        self.flight.timeouts = 0;
        delivery
    }

    /// Marks what the peer holds above SND.UNA. Blocks that are reversed, below SND.UNA or beyond SND.NXT are ignored.
    fn take_sack(&mut self, segment: &Segment<'_>, arrival: Arrival, delivery: &mut Delivery) {
        if !self.agreed.as_ref().is_some_and(|agreed| agreed.sack) {
            return;
        }
        let mut blocks = segment.sack.map(|block| {
            let (left, right) = block?;
            let block = seq::from_wire(self.isn, self.una, left)?..seq::from_wire(self.isn, self.una, right)?;
            (self.una < block.start && block.start < block.end && block.end <= self.nxt).then_some(block)
        });
        // The newest comes first. Taken in that order, two blocks of one acknowledgement would look like reordering.
        blocks.sort_unstable_by_key(|block| block.as_ref().map(|block| block.start));
        for block in blocks.into_iter().flatten() {
            self.segments.sack(block, arrival, &mut self.sampler, delivery);
        }
    }

    /// An acknowledgement that covers a retransmission says nothing by itself: what was sent once waited at the receiver behind
    /// the hole (Karn). The timestamp it echoes tells, in milliseconds, when it was caused (RFC 7323 §4).
    fn learn_rtt(&mut self, delivery: &Delivery, Arrival { now, echo }: Arrival) {
        if delivery.retransmission.is_none() {
            if let Some(rtt) = delivery.earliest_rtt {
                self.rtt.sample(rtt, now);
            }
            return;
        }
        if let Some(echo) = echo {
            let rtt = Duration::from_millis(u64::from(self.timestamp(now).wrapping_sub(echo).max(1)));
            // An echo of something older than any timeout is a lie.
            if rtt <= MAX_RTO {
                self.rtt.coarse_sample(rtt);
            }
        }
    }

    pub(super) fn lose_head(&mut self, now: Instant) {
        self.segments.lose_head(&mut Losses { now, sampler: &mut self.sampler, controller: &mut *self.controller });
    }

    /// Duplicate acknowledgements stand in for SACK with peers that have none (RFC 6582). Window updates are none
    /// (RFC 5681 §2).
    fn count_duplicate(&mut self, ack: u64, segment: &Segment<'_>, now: Instant) {
        let has_sack = self.agreed.as_ref().is_some_and(|agreed| agreed.sack);
        if has_sack || ack != self.una || self.peer.moved || !segment.payload.is_empty() || segment.fin {
            return;
        }
        self.duplicate_acks += 1;
        if self.duplicate_acks == DUPLICATES {
            self.lose_head(now);
        }
    }

    /// The acknowledgement was caused by the original, not by our retransmission: the timestamp it echoes is older than our
    /// first retransmission (Eifel detection, RFC 3522).
    fn phase_is_spurious(&self, delivery: &Delivery, segment: &Segment<'_>) -> bool {
        let (Phase::Recovery(episode), Some((_, echo))) = (&self.phase, segment.timestamp) else { return false };
        // A segment that an earlier episode sent again is acknowledged with an older echo although nothing was spurious.
        episode.first_retransmission.is_some_and(|first| {
            delivery.retransmission.is_some_and(|stamp| !seq::older(stamp, first)) && seq::older(echo, first)
        })
    }

    fn undo(&mut self, now: Instant) {
        self.totals.spurious += 1;
        self.segments.nothing_lost();
        // Nothing was lost; but if marks came too, the network was congested all the same.
        if matches!(&self.phase, Phase::Recovery(episode) if episode.undoable) {
            self.controller.on_undo(now);
            self.verdict = self.controller.verdict();
            self.ecn.restored();
        }
        self.phase = Phase::Open;
    }

    /// The reordering window closed.
    pub(super) fn look_for_losses(&mut self, now: Instant) {
        let recoverable = self.recoverable();
        self.look_for_losses_from(now, recoverable);
    }

    /// What is not yet reported delivered: what a recovery that begins now can still learn of.
    fn recoverable(&self) -> Bytes {
        Bytes::new(self.nxt - self.una - self.segments.sacked_bytes())
    }

    /// Detects losses; the first ones of an episode begin fast recovery. `recoverable` is what the episode can still report
    /// delivered.
    fn look_for_losses_from(&mut self, now: Instant, recoverable: Bytes) -> Bytes {
        let in_flight = Bytes::new(self.segments.in_flight());
        let window = ReorderingWindow {
            min_rtt: self.rtt.min(),
            srtt: self.rtt.srtt(),
            in_recovery: matches!(self.phase.report(), tautline_cc::Phase::Recovery | tautline_cc::Phase::Loss),
        };
        // RACK needs to know which segments arrived; without SACK it would condemn what the peer holds (RFC 8985 §3).
        let has_sack = self.agreed.as_ref().is_some_and(|agreed| agreed.sack);
        let mut losses = Losses { now, sampler: &mut self.sampler, controller: &mut *self.controller };
        let (mut lost, reorder) =
            if has_sack { self.segments.detect_lost(now, window, &mut losses) } else { (Bytes::ZERO, None) };
        self.timers.reorder = reorder;
        if self.duplicate_acks == DUPLICATES {
            self.duplicate_acks += 1;
            lost += Bytes::new(1);
        }
        if lost > Bytes::ZERO {
            match &mut self.phase {
                Phase::Open => self.enter_recovery(Signal::Loss, in_flight, recoverable, now),
                Phase::Recovery(episode) if episode.is_cwr() => {
                    episode.lose(self.nxt);
                    self.tell_of_congestion(Signal::Loss, in_flight, now);
                }
                Phase::Recovery(_) | Phase::Loss { .. } => {}
            }
        }
        lost
    }

    fn tell_of_congestion(&mut self, signal: Signal, in_flight: Bytes, now: Instant) {
        self.controller.on_congestion(&Congestion { now, signal, in_flight });
        self.verdict = self.controller.verdict();
        self.ecn.reduced();
    }

    pub(super) fn enter_recovery(&mut self, signal: Signal, in_flight: Bytes, recoverable: Bytes, now: Instant) {
        self.tell_of_congestion(signal, in_flight, now);
        self.phase = Phase::Recovery(Episode::new(signal, self.nxt, recoverable));
        // Until PRR has seen a delivery: one segment, the first retransmission.
        self.recovery_window = Bytes::new(self.segments.in_flight() + self.segment_size());
    }

    /// A reduction without loss is over when something sent after it is acknowledged, which the announcement of the reduction
    /// travelled with; or nothing is left that could tell of older marks.
    fn leave_cwr(&mut self) {
        if matches!(&self.phase, Phase::Recovery(episode) if episode.is_cwr() && (self.una > episode.high || self.segments.is_empty()))
        {
            self.phase = Phase::Open;
        }
    }

    /// Recovery is over when everything sent before it is acknowledged. Without SACK a partial acknowledgement names the next
    /// hole (RFC 6582 §3.2).
    fn leave_recovery(&mut self, advanced: bool, now: Instant) {
        let high = match &self.phase {
            Phase::Open => return,
            Phase::Recovery(episode) if episode.is_cwr() => return,
            Phase::Recovery(episode) => episode.high,
            Phase::Loss { high } => *high,
        };
        if self.una >= high {
            self.phase = Phase::Open;
        } else if advanced && !self.agreed.as_ref().is_some_and(|agreed| agreed.sack) {
            self.lose_head(now);
        }
    }

    fn tell_controller(&mut self, delivery: &Delivery, marked: Bytes, lost: Bytes, prior_in_flight: Bytes, now: Instant) {
        let rate = self.sampler.on_ack(now, self.rtt.min());
        let delivered = self.sampler.delivered();
        let round_start = rate.is_some_and(|sample| sample.prior_delivered >= self.flight.round_end);
        let cwnd_limited = self.window_limited() && self.may_grow(delivery);
        if round_start {
            self.flight.round_end = delivered;
            self.flight.largest = self.segments.in_flight();
        }
        self.controller.on_ack(&Ack {
            now,
            acked: delivery.bytes,
            lost,
            prior_in_flight,
            in_flight: Bytes::new(self.segments.in_flight()),
            rtt: delivery.latest_rtt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            delivered,
            rate,
            cwnd_limited,
            round_start,
            phase: self.phase.report(),
            marked,
            delayed: delivery.alone && prior_in_flight < Bytes::new(self.segment_size()),
            next_departure: self.pacer.next(),
        });
        self.verdict = self.controller.verdict();
    }

    /// Whether the flight being acknowledged was limited by the congestion window. In slow start a flight of more than half
    /// the window counts too, because pacing spreads it over the round (`spec/tcp.md` §1.13).
    fn window_limited(&self) -> bool {
        let slow_start = self.verdict.cwnd < self.verdict.ssthresh;
        // What a timeout condemned waits to be sent again: the window alone limits that.
        matches!(self.phase, Phase::Loss { .. })
            || self.flight.window_limited_until.is_some_and(|until| self.una <= until)
            || (slow_start && self.verdict.cwnd.get() < 2 * self.flight.largest)
    }

    /// What is acknowledged selectively before a loss is sure opens no window: in its place one segment each may leave, not two
    /// (RFC 3042 §2, RFC 5681 §3.2). Controllers that need no window count everything.
    fn may_grow(&self, delivery: &Delivery) -> bool {
        delivery.cumulative || self.controller.recovery() != Recovery::Prr
    }

    fn reduce_proportionally(&mut self, delivery: &Delivery, safe: bool) {
        let in_flight = Bytes::new(self.segments.in_flight());
        let mss = Bytes::new(self.segment_size());
        let ssthresh = self.verdict.ssthresh;
        if self.controller.recovery() == Recovery::Prr
            && let Phase::Recovery(episode) = &mut self.phase
        {
            self.recovery_window = episode.on_ack(PrrAck { delivered: delivery.bytes, in_flight, ssthresh, safe, mss });
        }
    }

    /// Forward progress restarts the retransmission timer; with nothing outstanding it stops.
    fn restart_timers(&mut self, now: Instant) {
        if self.segments.is_empty() {
            self.timers.rto = None;
            self.timers.reorder = None;
            self.flight.idle_since = Some(now);
            self.buffer.shrink_if_idle();
        } else {
            self.timers.rto = Some(now + self.rto());
        }
    }

    /// A packet of this connection has left the host, sent or dropped. True when that made room where one was refused.
    pub(crate) fn left_host(&mut self, segment: Option<SegmentId>, sent: bool) -> bool {
        if let Some(segment) = segment {
            self.segments.left_host(segment);
        }
        sent && std::mem::take(&mut self.flight.refused)
    }

    /// A packet of this connection was dropped in this host, and the connection is told (Linux's NET_XMIT_DROP and CN): the
    /// segment is lost for certain, and the local queue is congested.
    pub(crate) fn on_local_drop(&mut self, segment: Option<SegmentId>, reason: DropReason, now: Instant) {
        self.totals.local_drops += 1;
        let Some(segment) = segment else { return };
        let in_flight = Bytes::new(self.segments.in_flight());
        let mut losses = Losses { now, sampler: &mut self.sampler, controller: &mut *self.controller };
        if !self.segments.dropped_in_host(segment, &mut losses) {
            return;
        }
        // A device that was reset has room.
        self.flight.refused = reason != DropReason::Reset;
        if self.phase == Phase::Open && !matches!(self.state, State::SynSent | State::SynReceived { .. }) {
            let recoverable = self.recoverable();
            self.enter_recovery(Signal::LocalDrop, in_flight, recoverable, now);
        }
    }

    /// The application had nothing to send although the window was open: what is in flight says little about the path.
    pub(crate) fn note_application_limited(&mut self, below_socket: Bytes) {
        let nothing_waits = self.nxt >= self.buffer.end();
        if nothing_waits && below_socket == Bytes::ZERO && self.segments.in_flight() < self.cwnd().get() {
            self.sampler.mark_app_limited(Bytes::new(self.segments.in_flight()));
        }
    }
}
