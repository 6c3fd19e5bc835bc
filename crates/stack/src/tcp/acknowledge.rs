//! What an acknowledgement does to the sender, in Linux's order (`spec/tcp.md` §1.6): scoreboard,
//! RTT, loss detection, recovery, rate sample, controller, timers. Sending comes last, elsewhere.

use std::time::Duration;

use tautline_base::{Bytes, Instant, SegmentId};
use tautline_cc::{Ack, Recovery, Signal};
use tautline_qdisc::DropReason;

use super::connection::{Connection, State};
use super::recovery::{Phase, PrrAck};
use super::repair::AckSummary;
use super::rtt::MAX_RTO;
use super::segments::{Arrival, DUP_THRESHOLD, Delivery, Losses};
use super::tail_probe::TailProbe;
use crate::wire::Segment;

impl Connection {
    /// Takes an acceptable acknowledgement up to offset `ack`, with its SACK blocks.
    pub(super) fn process_acknowledgement(
        &mut self,
        ack: u64,
        segment: &Segment<'_>,
        now: Instant,
    ) {
        self.flight.refused = false;
        if self.has_nothing_to_learn(ack, segment) {
            self.timers.reorder = None;
            return;
        }
        let prior_in_flight = Bytes::new(self.segments.in_flight());
        let recoverable = self.recoverable();
        let advanced = ack > self.una;
        let duplicate = self.take_duplicate(ack, segment);
        let arrival = self.arrival(segment, now);
        let mut delivery = if advanced {
            self.advance(ack, arrival)
        } else {
            Delivery::default()
        };
        self.take_sack(segment, arrival, &mut delivery);
        let nothing_new =
            delivery.bytes == Bytes::ZERO && !advanced && ack == self.una && !self.peer.moved;
        let repeats = nothing_new && segment.payload.is_empty() && !segment.fin;
        let heard = AckSummary {
            now,
            advanced,
            repeats,
            duplicate,
            delivery: &delivery,
            echo: arrival.echo,
            recoverable,
        };
        if self.segments.is_empty() && !advanced {
            self.judge_tail_probe(ack, &heard);
            self.repair(&heard);
            return;
        }
        let marks = self.hear_of_marks(ack, segment, &delivery);
        self.learn_rtt(&delivery, arrival);
        self.rtt.acknowledged(self.una, self.nxt);
        if delivery.opening {
            self.rtt.opened();
        }
        self.segments.adapt_window(
            &delivery,
            self.sampler.delivered(),
            self.config.loss_recovery.reordering,
        );
        self.judge_tail_probe(ack, &heard);
        let assumed = self.assume_arrivals(&heard);
        let lost = self.repair(&heard);
        if marks.congestion {
            self.reduce_for_marks(recoverable, now);
        }
        if delivery.bytes > Bytes::ZERO {
            self.tell_controller(&delivery, marks.bytes, lost, prior_in_flight, now);
        }
        let next_hole = lost > Bytes::ZERO && !self.has_sack();
        self.reduce_proportionally(assumed, advanced && lost == Bytes::ZERO, next_hole);
        if advanced {
            self.note_probe_delivered(now);
            self.restart_timers(now);
        } else if delivery.sacked {
            self.schedule_tail_probe(now);
        }
        self.notice_room();
    }

    /// Nothing is outstanding, nor told of: as it is at the end that only receives, with every
    /// segment.
    fn has_nothing_to_learn(&self, ack: u64, segment: &Segment<'_>) -> bool {
        self.segments.is_empty()
            && ack == self.una
            && segment.sack[0].is_none()
            && self.phase == Phase::Open
            && self.repair.undo.is_none()
            && self.repair.tail == TailProbe::None
    }

    fn arrival(&self, segment: &Segment<'_>, now: Instant) -> Arrival {
        let timestamps = self
            .negotiated
            .as_ref()
            .is_some_and(|negotiated| negotiated.peer_timestamp.is_some());
        let echo = segment
            .timestamp
            .map(|(_, echo)| echo)
            .filter(|_| timestamps);
        Arrival {
            now,
            echo,
            mss: self.segment_size(),
            min_rtt: self.rtt.min(),
        }
    }

    /// What an acknowledgement says was delivered, as far as proportional rate reduction cares:
    /// without SACK, a duplicate acknowledgement stands for a segment, which is not counted again
    /// when it is acknowledged (RFC 9937 §6.1).
    fn assume_arrivals(&mut self, heard: &AckSummary<'_>) -> Bytes {
        if self.has_sack() {
            return heard.delivery.bytes;
        }
        if heard.repeats {
            let arrived = self.segments.arrived_unnamed(self.segment_size());
            return Bytes::new(if arrived { self.segment_size() } else { 0 });
        }
        let before = self
            .segments
            .named(heard.delivery.packets, self.phase.repairs());
        heard.delivery.bytes.saturating_sub(Bytes::new(before))
    }

    /// SND.UNA moves.
    fn advance(&mut self, ack: u64, arrival: Arrival) -> Delivery {
        let mut delivery = self.segments.acknowledge(ack, arrival, &mut self.sampler);
        delivery.cumulative = true;
        self.totals.bytes_acked += ack - self.una;
        self.una = ack;
        self.buffer.acknowledge(ack);
        self.flight.timeouts = 0;
        delivery
    }

    /// Marks what the peer holds above SND.UNA. Blocks that are reversed, below SND.UNA or beyond
    /// SND.NXT are ignored.
    fn take_sack(&mut self, segment: &Segment<'_>, arrival: Arrival, delivery: &mut Delivery) {
        if !self.has_sack() {
            return;
        }
        let outstanding = self.una..self.nxt;
        let mut blocks = segment.sack.map(|block| {
            let block = self.offsets(block?)?;
            (outstanding.start < block.start
                && block.start < block.end
                && block.end <= outstanding.end)
                .then_some(block)
        });
        // The newest comes first. Taken in that order, two blocks of one acknowledgement would look
        // like reordering.
        blocks.sort_unstable_by_key(|block| block.as_ref().map(|block| block.start));
        for block in blocks.into_iter().flatten() {
            self.segments
                .sack(block, arrival, &mut self.sampler, delivery);
        }
    }

    /// An acknowledgement that covers a retransmission says nothing by itself: what was sent once
    /// waited at the receiver behind the hole (Karn). The timestamp it echoes tells, in
    /// milliseconds, when it was caused (RFC 7323 §4).
    fn learn_rtt(&mut self, delivery: &Delivery, Arrival { now, echo, .. }: Arrival) {
        if delivery.retransmission.is_none() {
            if let Some((earliest, _)) = delivery.sent_once {
                self.rtt.sample(now - earliest, now);
            }
            return;
        }
        if let Some(echo) = echo {
            let rtt =
                Duration::from_millis(u64::from(self.timestamp(now).wrapping_sub(echo).max(1)));
            // An echo of something older than any timeout is a lie.
            if rtt <= MAX_RTO {
                self.rtt.coarse_sample(rtt);
            }
        }
    }

    fn tell_controller(
        &mut self,
        delivery: &Delivery,
        marked: Bytes,
        lost: Bytes,
        prior_in_flight: Bytes,
        now: Instant,
    ) {
        let rate = self.sampler.on_ack(now, self.rtt.min());
        self.totals.delivered += delivery.packets;
        if let Some(sample) = rate {
            self.totals.delivery_rate = Some((sample.rate, sample.app_limited));
        }
        let delivered = self.sampler.delivered();
        let round_start =
            rate.is_some_and(|sample| sample.prior_delivered >= self.flight.round_end);
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
            rtt: delivery.sent_once.map(|(_, latest)| now - latest),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            delivered,
            rate,
            cwnd_limited,
            round_start,
            state: self.phase.report(),
            marked,
            delayed: delivery.alone && prior_in_flight < Bytes::new(self.segment_size()),
            next_departure: self.pacer.next(),
        });
        self.verdict = self.controller.verdict();
    }

    /// Whether the flight being acknowledged was limited by the congestion window. In slow start a
    /// flight of more than half the window counts too, because pacing spreads it over the round
    /// (`spec/tcp.md` §1.13).
    pub(super) fn window_limited(&self) -> bool {
        let slow_start = self.verdict.cwnd < self.verdict.ssthresh;
        // What a timeout condemned waits to be sent again: the window alone limits that.
        matches!(self.phase, Phase::Loss { .. })
            || self
                .flight
                .window_limited_until
                .is_some_and(|until| self.una <= until)
            || (slow_start && self.verdict.cwnd.get() < 2 * self.flight.largest)
    }

    /// What is acknowledged selectively before a loss is sure opens no window: in its place one
    /// segment each may leave, not two (RFC 3042 §2, RFC 5681 §3.2), unless the path is known to
    /// reorder (Linux). Controllers that need no window count everything.
    fn may_grow(&self, delivery: &Delivery) -> bool {
        let reorders = self.segments.reordering().0 > DUP_THRESHOLD;
        delivery.cumulative || reorders || self.controller.recovery() != Recovery::Prr
    }

    /// A `safe` acknowledgement advanced SND.UNA and revealed no loss. Without SACK one that
    /// revealed the `next_hole` lets the segment there leave in any case (RFC 6582 §3.2 step 3).
    fn reduce_proportionally(&mut self, delivered: Bytes, safe: bool, next_hole: bool) {
        if delivered == Bytes::ZERO {
            return;
        }
        let in_flight = Bytes::new(self.segments.in_flight());
        let mss = Bytes::new(self.segment_size());
        let ssthresh = self.verdict.ssthresh;
        if self.controller.recovery() == Recovery::Prr
            && let Phase::Recovery(episode) = &mut self.phase
        {
            self.recovery_window = episode.on_ack(PrrAck {
                delivered,
                in_flight,
                ssthresh,
                safe,
                mss,
            });
            if next_hole {
                self.recovery_window = self.recovery_window.max(in_flight + mss);
            }
        }
    }

    /// Forward progress restarts the retransmission timer; with nothing outstanding it stops.
    fn restart_timers(&mut self, now: Instant) {
        if self.segments.is_empty() {
            self.timers.rto = None;
            self.timers.tail = None;
            self.timers.reorder = None;
            self.flight.idle_since = Some(now);
            self.buffer.shrink_if_idle();
        } else {
            self.timers.rto = Some(self.rto_after(now));
            self.schedule_tail_probe(now);
        }
    }

    /// A packet of this connection, of `count` segments, has left the host, sent or dropped. True
    /// when that made room where one was refused.
    pub(crate) fn left_host(&mut self, segment: Option<SegmentId>, count: u16, sent: bool) -> bool {
        if let Some(segment) = segment {
            self.segments.left_host(segment, count);
        }
        sent && std::mem::take(&mut self.flight.refused)
    }

    /// A packet of this connection, of `count` segments, was dropped in this host, and the
    /// connection is told (Linux's NET_XMIT_DROP and CN): they are lost for certain, and the local
    /// queue is congested.
    pub(crate) fn on_local_drop(
        &mut self,
        segment: Option<SegmentId>,
        count: u16,
        reason: DropReason,
        now: Instant,
    ) {
        self.totals.local_drops += 1;
        let Some(segment) = segment else { return };
        let in_flight = Bytes::new(self.segments.in_flight());
        let mut losses = Losses {
            now,
            sampler: &mut self.sampler,
            controller: &mut *self.controller,
        };
        let mut lost = false;
        for place in 0..count {
            lost |= self
                .segments
                .dropped_in_host(segment.plus(place), &mut losses);
        }
        if !lost {
            return;
        }
        // A device that was reset has room.
        self.flight.refused = reason != DropReason::Reset;
        if self.phase == Phase::Open
            && !matches!(self.state, State::SynSent | State::SynReceived { .. })
        {
            let recoverable = self.recoverable();
            self.enter_recovery(Signal::LocalDrop, in_flight, recoverable, now);
        }
    }

    /// The application writes. If it left no full segment to send although the window was open,
    /// what is in flight says little about the path. Lost segments that wait to be sent again are
    /// something to send, and what waits below the socket is too (`spec/tcp.md` §2.1).
    pub(super) fn note_application_limited(&mut self) {
        let nothing_waits =
            self.nxt + self.segment_size() > self.buffer.end() && !self.segments.any_lost();
        if nothing_waits
            && self.tsq.charged() == Bytes::ZERO
            && self.segments.in_flight() < self.cwnd().get()
        {
            self.sampler
                .mark_app_limited(Bytes::new(self.segments.in_flight()));
        }
    }
}
