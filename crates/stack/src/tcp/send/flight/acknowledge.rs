//! An acknowledgment's effect on the sender, in the order of Linux's `tcp_ack`
//! (`net/ipv4/tcp_input.c`): scoreboard, RTT, loss detection, recovery, rate sample, controller,
//! timers. Sending comes last, elsewhere.

use std::time::Duration;

use tautline_base::{Bytes, Instant, SegmentId};
use tautline_cc::{Ack, Signal};
use tautline_qdisc::DropReason;

use super::Flight;
use super::recovery::{Phase, PrrAck};
use super::rtt::MAX_RTO;
use super::segments::{Arrival, DUP_THRESHOLD, Delivery, Losses};
use crate::tcp::ecn::Marks;
use crate::tcp::send::ack::{AckInput, AckSummary, Offer};

impl Flight {
    /// Updates scoreboard and stream. `None`: nothing is outstanding, and no more is to be done.
    pub(in crate::tcp::send) fn on_ack(
        &mut self,
        input: &AckInput,
        offer: Offer,
    ) -> Option<AckSummary> {
        let &AckInput { now, ack, .. } = input;
        self.refused = false;
        if self.has_nothing_to_learn(input) {
            self.timers.cancel_reorder();
            return None;
        }
        let prior_in_flight = Bytes::new(self.segments.in_flight());
        let recoverable = self.segments.recoverable();
        let advanced = ack > self.una();
        let duplicate = self.on_dsack(input, offer.largest);
        let arrival = Arrival {
            now,
            echo: input.echo,
            mss: self.mss,
            min_rtt: self.rtt.min(),
            rack_rtt: self.config.loss_recovery.rack_rtt,
        };
        let mut delivery = if advanced {
            self.totals.bytes_acked += ack - self.una();
            self.timeouts = 0;
            let sampler = &mut self.congestion.sampler;
            self.segments.acknowledge(ack, arrival, sampler)
        } else {
            Delivery::default()
        };
        let sampler = &mut self.congestion.sampler;
        self.segments
            .apply_sack(&input.sack, arrival, sampler, &mut delivery);
        let nothing_new =
            delivery.bytes == Bytes::ZERO && !advanced && ack == self.una() && !offer.moved;
        let summary = AckSummary {
            now,
            ack,
            advanced,
            more: offer.more,
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

    /// Everything that follows from an acknowledgment that reports `marks`.
    pub(in crate::tcp) fn react(&mut self, summary: &AckSummary, marks: Marks) {
        let (now, delivery) = (summary.now, &summary.delivery);
        if marks.congestion {
            self.recovery.make_reduction_final();
        }
        self.sample_rtt(summary);
        self.rtt.acknowledged(self.una(), self.nxt());
        if delivery.opening {
            self.rtt.opened();
        }
        self.segments.adapt_window(
            delivery,
            self.congestion.sampler.delivered(),
            self.config.loss_recovery.reordering,
        );
        self.on_tail_probe_ack(summary);
        let in_recovery = self.recovery.phase.repairs();
        let was_open = self.recovery.is_open();
        let delivered = if self.sack {
            delivery.bytes
        } else {
            self.segments
                .assume_delivered(delivery, summary.repeats, self.mss, in_recovery)
        };
        let lost = self.repair(summary);
        if marks.congestion {
            reduce_for_marks(self, summary, was_open);
            self.recovery.make_reduction_final();
        }
        if delivery.bytes > Bytes::ZERO {
            self.report_ack(summary, marks.bytes, lost);
        }
        if delivered > Bytes::ZERO && self.congestion.uses_prr() {
            let ack = PrrAck {
                delivered,
                in_flight: Bytes::new(self.segments.in_flight()),
                ssthresh: self.congestion.verdict().ssthresh,
                safe: summary.advanced && lost == Bytes::ZERO,
                mss: Bytes::new(self.mss),
            };
            let next_hole = lost > Bytes::ZERO && !self.sack;
            self.recovery.on_delivered(ack, next_hole);
        }
        if summary.advanced {
            if self.path.on_advance(self.una(), now) {
                self.use_path_mtu();
            }
            self.restart_timers(now);
        } else if delivery.sacked {
            self.schedule_tail_probe(now);
        }
    }

    /// Nothing is outstanding nor reported, as with every segment at the end that only receives.
    fn has_nothing_to_learn(&self, input: &AckInput) -> bool {
        self.segments.is_empty()
            && input.ack == self.una()
            && input.sack[0].is_none()
            && self.recovery.is_undisturbed()
    }

    /// An acknowledgment that covers a retransmission is ambiguous: what was sent once waited at
    /// the receiver behind the hole (Karn). Its echoed timestamp shows, in milliseconds, which
    /// transmission caused it (RFC 7323 §4).
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
                self.rtt.coarse_sample(rtt, now);
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
        let rate = self
            .congestion
            .sampler
            .on_ack(delivery.rate, now, self.rtt.min());
        self.totals.delivered += delivery.packets;
        if let Some(sample) = rate {
            self.totals.delivery_rate = Some((sample.rate, sample.app_limited));
        }
        let delivered = self.congestion.sampler.delivered();
        let round_start =
            rate.is_some_and(|sample| sample.prior_delivered >= self.congestion.usage.round_end);
        // Selective acknowledgments before a loss is sure do not open the window: for each, only
        // one segment may be sent, not two (RFC 3042 §2, RFC 5681 §3.2), unless the path is known
        // to reorder (Linux). Controllers that need no window count everything.
        let opens = delivery.cumulative
            || self.segments.reordering().0 > DUP_THRESHOLD
            || !self.congestion.uses_prr();
        // Segments that a timeout marked lost wait to be sent again: only the window limits that.
        let in_loss = matches!(self.recovery.phase, Phase::Loss { .. });
        let cwnd_limited = opens && (in_loss || self.congestion.is_limited(self.una()));
        if round_start {
            self.congestion.usage.round_end = delivered;
            // The flight that this acknowledges, not what is left of it: an application that sends
            // nothing more has used the window all the same (Linux `max_packets_out`).
            self.congestion.usage.largest = prior_in_flight.get();
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
            state: self.recovery.phase.report(),
            marked,
            delayed: delivery.alone && prior_in_flight < Bytes::new(self.mss),
            next_departure: self.congestion.next_departure(),
        };
        self.congestion.update(|controller| controller.on_ack(&ack));
    }

    /// Forward progress restarts the retransmission timer; with nothing outstanding it stops.
    fn restart_timers(&mut self, now: Instant) {
        if self.segments.is_empty() {
            self.timers.rto = None;
            self.timers.tail = None;
            self.timers.reorder = None;
            self.idle_since = Some(now);
        } else {
            self.timers.rto = Some(self.rtt.timeout_after(now));
            self.schedule_tail_probe(now);
        }
    }

    /// A packet of `count` segments has left the host, sent or dropped. True if that freed space in
    /// a qdisc that had refused a segment.
    pub(in crate::tcp) fn left_host(
        &mut self,
        segment: Option<SegmentId>,
        count: u16,
        sent: bool,
    ) -> bool {
        if let Some(segment) = segment {
            self.segments.left_host(segment, count);
        }
        sent && std::mem::take(&mut self.refused)
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
        // A device that was reset has free space.
        self.refused = reason != DropReason::Reset;
        if self.recovery.is_open() && !opening {
            let recoverable = self.segments.recoverable();
            self.enter_recovery(Signal::LocalDrop, in_flight, recoverable, now);
        }
    }
}

/// The acknowledgment reports marks; before it, no reduction was in progress if `was_open`. One answers
/// a window of marks: during a reduction and after a timeout more of them change nothing.
fn reduce_for_marks(flight: &mut Flight, summary: &AckSummary, was_open: bool) {
    let is_empty = flight.segments.is_empty();
    if !flight.recovery.is_open() || (is_empty && !was_open) {
        return;
    }
    flight.recovery.counts.ce_reductions += 1;
    if is_empty {
        // Nothing is left that could report marks of the same window.
        flight.recovery.take_undo();
        flight.report_congestion(Signal::Ce, summary.prior_in_flight, summary.now);
    } else {
        let in_flight = Bytes::new(flight.segments.in_flight());
        flight.enter_recovery(Signal::Ce, in_flight, summary.recoverable, summary.now);
    }
}
