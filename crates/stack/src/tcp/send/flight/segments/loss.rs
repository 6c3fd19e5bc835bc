//! Losses: found by [RACK](super::rack) or by timeouts, or reported by this host, and reverted if
//! they prove spurious.

use std::cmp::Reverse;
use std::time::Duration;

use tautline_base::{Bytes, Instant, SegmentId};

use super::{Record, ReorderingWindow, Segments, State, sacked_count};
use crate::tcp::send::flight::congestion::Congestion;

/// Least time a reordering timer runs (Linux: 2 ms).
pub(in crate::tcp) const TIMER_SLACK: Duration = Duration::from_millis(2);

/// Result of loss detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) struct LossReport {
    /// Bytes newly lost.
    pub(in crate::tcp) bytes: Bytes,
    /// A retransmission was among them.
    pub(in crate::tcp) again: bool,
    /// End of the reordering window of the next one.
    pub(in crate::tcp) recheck_at: Option<Instant>,
}

/// Sink for segments marked lost.
pub(in crate::tcp) struct Losses<'a> {
    pub(in crate::tcp) now: Instant,
    pub(in crate::tcp) congestion: &'a mut Congestion,
}

impl Losses<'_> {
    fn report(&mut self, record: &Record) {
        let len = Bytes::new(record.len());
        self.congestion.on_lost(&record.sent, len, self.now);
    }
}

impl Segments {
    /// Marks segments lost that were sent so long before a delivered one that reordering cannot
    /// explain it.
    pub(in crate::tcp) fn detect_lost(
        &mut self,
        now: Instant,
        window: ReorderingWindow,
        losses: &mut Losses<'_>,
    ) -> LossReport {
        let mut found = LossReport::default();
        let Some(newest) = self.rack.newest else {
            return found;
        };
        let patience = self.rack.rtt
            + self
                .rack
                .window(window, sacked_count(self.holes.as_deref()));
        while let Some((number, sent_at)) = self.order.next() {
            let Some(at) = self.in_flight_since(number, sent_at) else {
                self.order.pop();
                continue;
            };
            if (sent_at, self.records[at].range.end) >= newest {
                break;
            }
            let deadline = sent_at + patience;
            // DIVERGES: the timer of RFC 8985 §6.2 step 5 and of Linux (`tcp_rack_detect_loss`) runs for the last of the
            // segments that may be lost, which is found by a scan. The first one's needs none, and finds
            // each loss at its own time, by as many timers at most.
            if deadline > now {
                found.recheck_at = Some(deadline + TIMER_SLACK);
                break;
            }
            found.bytes += Bytes::new(self.records[at].len());
            found.again |= self.records[at].retransmitted();
            self.mark_lost(at, losses);
            self.order.pop();
        }
        found
    }

    /// The retransmission timer expired: the oldest segment is lost, and so is what RACK has no
    /// more patience for. Recently sent segments may still arrive (Linux). If the peer has thrown
    /// away what it reported (RFC 2018 §8), nothing it reported counts.
    pub(in crate::tcp) fn time_out(
        &mut self,
        now: Instant,
        window: ReorderingWindow,
        losses: &mut Losses<'_>,
    ) {
        if let Some(holes) = &mut self.holes {
            holes.reno_sack.clear();
        }
        if self.reneged() {
            self.clear_sacks();
        }
        if !window.in_recovery {
            self.rack.timed_out(sacked_count(self.holes.as_deref()));
        }
        let patience = self.rack.rtt
            + self
                .rack
                .window(window, sacked_count(self.holes.as_deref()));
        for at in 0..self.records.len() {
            if at == 0 || self.records[at].sent.sent_at + patience <= now {
                self.mark_lost(at, losses);
            }
        }
    }

    /// The oldest segment is lost: without SACK, three duplicate acknowledgments or a partial one
    /// in recovery show it (RFC 6582).
    pub(in crate::tcp) fn lose_head(&mut self, losses: &mut Losses<'_>) -> Bytes {
        let len = self.records.front().map_or(0, Record::len);
        let newly = !self.records.is_empty() && self.mark_lost(0, losses);
        Bytes::new(if newly { len } else { 0 })
    }

    /// A copy of the segment was dropped inside this host and reported to the connection: it is
    /// lost for certain. False if it had been delivered by another copy or given up before.
    pub(in crate::tcp) fn dropped_in_host(
        &mut self,
        segment: SegmentId,
        losses: &mut Losses<'_>,
    ) -> bool {
        self.position(segment)
            .is_some_and(|at| self.mark_lost(at, losses))
    }

    /// The last congestion signal was spurious: segments marked lost are in flight after all.
    /// `late`: since what was found lost from offset `late` on came late, the path reorders
    /// segments of size `mss`.
    pub(in crate::tcp) fn undo_losses(&mut self, late: Option<u64>, mss: u64) {
        for at in 0..self.records.len() {
            if self.records[at].state == State::Lost {
                self.turn(at, State::Outstanding);
            }
        }
        if let Some(holes) = &mut self.holes {
            holes.lost.clear();
        }
        // Loss detection had taken them off its list; it walks in order of departure.
        let mut order: Vec<_> = (0..self.records.len())
            .filter(|at| self.records[*at].state == State::Outstanding)
            .map(|at| (self.number(at), self.records[at].sent.sent_at))
            .collect();
        order.sort_by_key(|(_, sent_at)| *sent_at);
        *self.order.list() = order.into();
        if let Some(late) = late {
            self.rack.reordered(late, mss);
        }
    }

    /// The peer reported the oldest segment as received out of order, yet does not acknowledge it:
    /// it has thrown it away.
    pub(in crate::tcp) fn reneged(&self) -> bool {
        self.records
            .front()
            .is_some_and(|record| record.state == State::Sacked)
    }

    fn clear_sacks(&mut self) {
        self.holes.get_or_insert_default().sacked.clear();
        for at in 0..self.records.len() {
            if self.records[at].state == State::Sacked {
                self.turn(at, State::Lost);
                self.holes
                    .get_or_insert_default()
                    .lost
                    .push(Reverse(self.records[at].range.start));
            }
        }
    }

    /// False if the segment was not in flight.
    fn mark_lost(&mut self, at: usize, losses: &mut Losses<'_>) -> bool {
        if self.records[at].state != State::Outstanding {
            return false;
        }
        self.turn(at, State::Lost);
        self.holes
            .get_or_insert_default()
            .lost
            .push(Reverse(self.records[at].range.start));
        losses.report(&self.records[at]);
        true
    }
}
