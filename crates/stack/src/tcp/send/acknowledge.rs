//! An acknowledgement's effect on the sender, in the order of Linux's `tcp_ack`
//! (`net/ipv4/tcp_input.c`): scoreboard, RTT, loss detection, recovery, rate sample, controller,
//! timers. Sending comes last, elsewhere.

use std::time::Duration;

use tautline_base::{Bytes, Instant, SegmentId};
use tautline_cc::{Ack, Signal};
use tautline_qdisc::DropReason;

use super::SendHalf;
use super::ack::{AckInput, AckSummary};
use super::recovery::{Phase, PrrAck};
use super::rtt::MAX_RTO;
use super::segments::{Arrival, DUP_THRESHOLD, Delivery, Losses};
use super::tail_probe::TailProbe;
use crate::tcp::ecn::Marks;

impl SendHalf {
    /// Updates scoreboard and stream. `None`: nothing is outstanding, and no more is to be done.
    pub(in crate::tcp) fn on_ack(&mut self, input: &AckInput) -> Option<AckSummary> {
        let &AckInput { now, ack, .. } = input;
        self.flight.refused = false;
        if self.has_nothing_to_learn(input) {
            self.timers.reorder = None;
            return None;
        }
        let prior_in_flight = Bytes::new(self.segments.in_flight());
        let recoverable = self.recoverable();
        let advanced = ack > self.una;
        let duplicate = self.on_dsack(input);
        let arrival = Arrival {
            now,
            echo: input.echo,
            mss: self.mss,
            min_rtt: self.rtt.min(),
        };
        let mut delivery = if advanced {
            self.advance(ack, arrival)
        } else {
            Delivery::default()
        };
        self.apply_sack(input, arrival, &mut delivery);
        let nothing_new =
            delivery.bytes == Bytes::ZERO && !advanced && ack == self.una && !self.peer.moved;
        let summary = AckSummary {
            now,
            ack,
            advanced,
            repeats: nothing_new && input.bare,
            duplicate,
            delivery,
            echo: input.echo,
            recoverable,
            prior_in_flight,
        };
        if self.segments.is_empty() && !advanced {
            self.on_tail_probe_ack(&summary);
            self.repair(&summary);
            return None;
        }
        Some(summary)
    }

    /// Everything that follows from an acknowledgement that reports `marks`.
    pub(in crate::tcp) fn react(&mut self, summary: &AckSummary, marks: Marks) {
        let &AckSummary {
            now,
            ref delivery,
            advanced,
            recoverable,
            ..
        } = summary;
        if marks.congestion {
            self.make_reduction_final();
        }
        self.sample_rtt(summary);
        self.rtt.acknowledged(self.una, self.nxt);
        if delivery.opening {
            self.rtt.opened();
        }
        self.segments.adapt_window(
            delivery,
            self.sampler.delivered(),
            self.config.loss_recovery.reordering,
        );
        self.on_tail_probe_ack(summary);
        let assumed = self.count_deliveries(summary);
        let lost = self.repair(summary);
        if marks.congestion {
            self.reduce_for_marks(recoverable, now);
        }
        if delivery.bytes > Bytes::ZERO {
            self.report_ack(summary, marks.bytes, lost);
        }
        let next_hole = lost > Bytes::ZERO && !self.sack;
        self.reduce_proportionally(assumed, advanced && lost == Bytes::ZERO, next_hole);
        if advanced {
            self.note_probe_delivered(now);
            self.restart_timers(now);
        } else if delivery.sacked {
            self.schedule_tail_probe(now);
        }
    }

    /// Nothing is outstanding nor reported, as with every segment at the end that only receives.
    fn has_nothing_to_learn(&self, input: &AckInput) -> bool {
        self.segments.is_empty()
            && input.ack == self.una
            && input.sack[0].is_none()
            && self.phase == Phase::Open
            && self.repair.undo.is_none()
            && self.repair.tail == TailProbe::None
    }

    /// Bytes that proportional rate reduction counts as delivered: without SACK, a duplicate
    /// acknowledgement stands for a segment, which is not counted again when it is acknowledged
    /// (RFC 9937 §6.1).
    fn count_deliveries(&mut self, summary: &AckSummary) -> Bytes {
        if self.sack {
            return summary.delivery.bytes;
        }
        if summary.repeats {
            let arrived = self.segments.add_reno_sack(self.mss);
            return Bytes::new(if arrived { self.mss } else { 0 });
        }
        let before = self
            .segments
            .remove_reno_sacks(summary.delivery.packets, self.phase.repairs());
        summary.delivery.bytes.saturating_sub(Bytes::new(before))
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
    fn apply_sack(&mut self, input: &AckInput, arrival: Arrival, delivery: &mut Delivery) {
        if input.sack[0].is_none() {
            return;
        }
        let (una, nxt) = (self.una, self.nxt);
        let mut blocks = input.sack.clone().map(|block| {
            block.filter(|block| una < block.start && block.start < block.end && block.end <= nxt)
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
    fn sample_rtt(&mut self, summary: &AckSummary) {
        let &AckSummary {
            now,
            echo,
            ref delivery,
            ..
        } = summary;
        if delivery.retransmission.is_none() {
            if let Some((earliest, _)) = delivery.sent_once {
                self.rtt.sample(now - earliest, now);
            }
            return;
        }
        if let Some(echo) = echo {
            let rtt = Duration::from_millis(u64::from(
                self.numbers.timestamp(now).wrapping_sub(echo).max(1),
            ));
            // An echo of something older than any timeout is a lie.
            if rtt <= MAX_RTO {
                self.rtt.coarse_sample(rtt);
            }
        }
    }

    fn report_ack(&mut self, summary: &AckSummary, marked: Bytes, lost: Bytes) {
        let &AckSummary {
            now,
            ref delivery,
            prior_in_flight,
            ..
        } = summary;
        let rate = self.sampler.on_ack(now, self.rtt.min());
        self.totals.delivered += delivery.packets;
        if let Some(sample) = rate {
            self.totals.delivery_rate = Some((sample.rate, sample.app_limited));
        }
        let delivered = self.sampler.delivered();
        let round_start =
            rate.is_some_and(|sample| sample.prior_delivered >= self.flight.round_end);
        let cwnd_limited = self.window_limited() && self.opens_window(delivery);
        if round_start {
            self.flight.round_end = delivered;
            // The flight that this acknowledges, not what is left of it: an application that sends
            // nothing more has used the window all the same (Linux `max_packets_out`).
            self.flight.largest = prior_in_flight.get();
        }
        let ack = Ack {
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
            delayed: delivery.alone && prior_in_flight < Bytes::new(self.mss),
            next_departure: self.pacer.next(),
        };
        self.congestion.update(|controller| controller.on_ack(&ack));
    }

    /// Whether the flight being acknowledged was limited by the congestion window. In slow start a
    /// flight of more than half the window counts too, because pacing spreads it over the round
    /// (Linux `tcp_is_cwnd_limited`).
    pub(in crate::tcp) fn window_limited(&self) -> bool {
        let slow_start = self.congestion.verdict().cwnd < self.congestion.verdict().ssthresh;
        // Segments that a timeout marked lost wait to be sent again: only the window limits that.
        matches!(self.phase, Phase::Loss { .. })
            || self
                .flight
                .window_limited_until
                .is_some_and(|until| self.una <= until)
            || (slow_start && self.congestion.verdict().cwnd.get() < 2 * self.flight.largest)
    }

    /// Whether the delivery opens the window. Selective acknowledgements before a loss is sure do
    /// not: in place of each one segment may leave, not two (RFC 3042 §2, RFC 5681 §3.2), unless
    /// the path is known to reorder (Linux). Controllers that need no window count everything.
    fn opens_window(&self, delivery: &Delivery) -> bool {
        let reorders = self.segments.reordering().0 > DUP_THRESHOLD;
        delivery.cumulative || reorders || !self.congestion.uses_prr()
    }

    /// A `safe` acknowledgement advanced SND.UNA and revealed no loss. Without SACK one that
    /// revealed the `next_hole` lets the segment there leave in any case (RFC 6582 §3.2 step 3).
    fn reduce_proportionally(&mut self, delivered: Bytes, safe: bool, next_hole: bool) {
        if delivered == Bytes::ZERO {
            return;
        }
        let in_flight = Bytes::new(self.segments.in_flight());
        let mss = Bytes::new(self.mss);
        let ssthresh = self.congestion.verdict().ssthresh;
        if self.congestion.uses_prr()
            && let Phase::Recovery(episode) = &mut self.phase
        {
            self.repair.window = episode.on_ack(PrrAck {
                delivered,
                in_flight,
                ssthresh,
                safe,
                mss,
            });
            if next_hole {
                self.repair.window = self.repair.window.max(in_flight + mss);
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

    /// A packet of `count` segments has left the host, sent or dropped. True when that made room
    /// where one was refused.
    pub(in crate::tcp) fn left_host(
        &mut self,
        segment: Option<SegmentId>,
        count: u16,
        sent: bool,
    ) -> bool {
        if let Some(segment) = segment {
            self.segments.left_host(segment, count);
        }
        sent && std::mem::take(&mut self.flight.refused)
    }

    /// A packet of `count` segments was dropped in this host, and the connection is notified
    /// (Linux's `NET_XMIT_DROP` and `NET_XMIT_CN`): they are lost for certain, and the local queue
    /// is congested.
    pub(in crate::tcp) fn on_local_drop(
        &mut self,
        segment: Option<SegmentId>,
        count: u16,
        reason: DropReason,
        (opening, now): (bool, Instant),
    ) {
        self.totals.local_drops += 1;
        let Some(segment) = segment else { return };
        let in_flight = Bytes::new(self.segments.in_flight());
        let mut losses = Losses {
            now,
            sampler: &mut self.sampler,
            congestion: &mut self.congestion,
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
        if self.phase == Phase::Open && !opening {
            let recoverable = self.recoverable();
            self.enter_recovery(Signal::LocalDrop, in_flight, recoverable, now);
        }
    }

    /// The application writes. If it left no full segment to send although the window was open, the
    /// flight says little about the path. Lost segments that wait to be sent again are something to
    /// send, and so is what is `charged` below the socket (Linux `tcp_rate_check_app_limited`).
    pub(in crate::tcp) fn note_application_limited(&mut self, charged: Bytes) {
        let nothing_waits = self.nxt + self.mss > self.buffer.end() && !self.segments.any_lost();
        if nothing_waits && charged == Bytes::ZERO && self.segments.in_flight() < self.cwnd().get()
        {
            self.sampler
                .mark_app_limited(Bytes::new(self.segments.in_flight()));
        }
    }

    /// RFC 9293 §3.10.7.4, "SND.WND": newer segments win; of equals, a larger or a zero window.
    /// True if the peer's closed window opened.
    pub(in crate::tcp) fn update_window(&mut self, offset: u64, ack: u64, window: u64) -> bool {
        let (wl1, wl2) = self.peer.updated_by;
        self.peer.moved = false;
        if ack < self.una || !(wl1 < offset || (wl1 == offset && wl2 <= ack)) {
            return false;
        }
        self.peer.updated_by = (offset, ack);
        self.peer.moved = self.peer.edge != ack + window;
        self.peer.edge = ack + window;
        self.peer.largest = self.peer.largest.max(window);
        self.peer.edge > self.nxt && self.timers.persist.take().is_some()
    }

    /// The window in a SYN is never scaled; it lets us send from the byte after our SYN.
    pub(in crate::tcp) fn update_window_from_syn(&mut self, window: u16) {
        self.peer.edge = 1 + u64::from(window);
        self.peer.largest = self.peer.largest.max(u64::from(window));
        self.peer.updated_by = (0, 1);
    }

    /// The peer answers. While its window is closed neither probes nor retransmissions into it
    /// count against it, unless the connection is an `orphan`: no application waits for the window
    /// to open.
    pub(in crate::tcp) fn on_peer_alive(&mut self, orphan: bool) {
        if let Some(persist) = &mut self.timers.persist {
            persist.answered();
        }
        if self.peer.edge <= self.una && !orphan {
            self.flight.timeouts = 0;
        }
    }

    /// The stream offset that acknowledgement number `ack` names, if RFC 5961 §5.2 accepts it.
    pub(in crate::tcp) fn acceptable_ack(&self, ack: u32) -> Option<u64> {
        let lowest = self
            .una
            .saturating_sub(self.peer.largest)
            .max(self.una.min(1));
        self.offset(ack)
            .filter(|ack| (lowest..=self.nxt).contains(ack))
    }
}
