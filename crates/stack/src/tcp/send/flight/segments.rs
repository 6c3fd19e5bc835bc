//! The retransmission queue: one record per segment sent and not yet cumulatively acknowledged, the
//! SACK scoreboard over it, and loss detection by [`rack`].
//!
//! Every step costs what it changes, not what is outstanding: segments are found by number or
//! binary search, SACK blocks only touch what they newly cover, and loss detection walks a list in
//! the order of transmission and stops at the first survivor.

mod rack;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use tautline_base::{Bytes, Instant, SegmentId};
use tautline_cc::{Sampler, SentRate};

use self::rack::Rack;
pub(in crate::tcp) use self::rack::{DUP_THRESHOLD, ReorderingWindow};
use super::congestion::Congestion;
use crate::config::Reordering;
use crate::ranges::RangeSet;
use crate::seq;
use crate::tcp::info::TcpInfo;
use crate::wire::SACK_BLOCKS;

/// Least time a reordering timer runs (Linux: 2 ms).
pub(in crate::tcp) const TIMER_SLACK: Duration = Duration::from_millis(2);
/// Running numbers wrap within 31 bits, so that a number plus one is never zero.
const NUMBER_MASK: u32 = u32::MAX >> 1;

/// One segment sent.
#[derive(Debug)]
pub(in crate::tcp) struct Record {
    /// Its place in the sequence space, SYN and FIN included.
    pub(in crate::tcp) range: Range<u64>,
    pub(in crate::tcp) fin: bool,
    state: State,
    sent: SentRate,
    transmissions: u16,
    /// Our timestamp in the latest retransmission.
    stamp: u32,
    /// Copies still in this host's qdisc or ring.
    in_host: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Counted in flight.
    Outstanding,
    /// Believed lost, to be sent again.
    Lost,
    /// Delivered, not yet cumulatively acknowledged.
    Sacked,
}

impl Record {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn retransmitted(&self) -> bool {
        self.transmissions > 1
    }
}

/// The arrival of an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Arrival {
    pub(in crate::tcp) now: Instant,
    /// The timestamp of ours that it echoes, if the connection uses them.
    pub(in crate::tcp) echo: Option<u32>,
    /// Bytes in a full segment.
    pub(in crate::tcp) mss: u64,
    /// Lowest RTT of the path: a retransmission cannot have been answered sooner.
    pub(in crate::tcp) min_rtt: Duration,
}

/// Segments and bytes that one acknowledgment delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Delivery {
    /// Newly delivered bytes, cumulative or selective.
    pub(in crate::tcp) bytes: Bytes,
    /// When the earliest and the latest of those sent once were sent. The retransmission timer
    /// learns from the RTT of the earliest.
    pub(in crate::tcp) sent_once: Option<(Instant, Instant)>,
    /// Of what was cumulatively acknowledged and had been sent again, the earliest of our
    /// timestamps in those retransmissions.
    pub(in crate::tcp) retransmission: Option<u32>,
    /// Where the lowest segment ends that was sent once only.
    pub(in crate::tcp) original: Option<u64>,
    /// Segments newly delivered.
    pub(in crate::tcp) packets: u64,
    /// SND.UNA advanced.
    pub(in crate::tcp) cumulative: bool,
    /// Something was newly delivered out of order.
    pub(in crate::tcp) sacked: bool,
    /// Something was delivered that was believed lost and had not been sent again.
    pub(in crate::tcp) believed_lost: bool,
    /// When the latest of those was sent whose newest copy was delivered.
    newest: Option<Instant>,
    /// Most that had been delivered in all when one of them was sent.
    pub(in crate::tcp) sent_when: Bytes,
    /// Our SYN was among them: the acknowledgment belongs to the handshake.
    pub(in crate::tcp) opening: bool,
    /// One segment alone, sent once, and cumulatively: perhaps the receiver held its
    /// acknowledgment back.
    pub(in crate::tcp) alone: bool,
}

/// Result of loss detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) struct LossReport {
    /// Bytes newly lost.
    pub(in crate::tcp) bytes: Bytes,
    /// A retransmission was among them.
    pub(in crate::tcp) again: bool,
    /// When the reordering window of the next one closes.
    pub(in crate::tcp) recheck_at: Option<Instant>,
}

/// Where a segment that is found lost is reported.
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

/// The queue and its scoreboard.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Segments {
    /// SND.UNA and SND.NXT as stream offsets.
    una: u64,
    nxt: u64,
    records: VecDeque<Record>,
    /// Running number of the first record.
    first: u32,
    in_flight: u64,
    /// Retransmissions in flight.
    again: u32,
    lost_count: u32,
    sacked: RangeSet,
    sacked_count: usize,
    sacked_bytes: u64,
    /// Segments that must have arrived out of order, of a size each, at a peer that does not say
    /// which.
    reno_sacked: (u32, u32),
    /// How many more of them count: no more than were outstanding at the first one (RFC 5681
    /// §3.2).
    reno_limit: Option<u32>,
    /// Numbers of records believed lost, lowest first; entries whose record moved on are skipped.
    lost: BinaryHeap<Reverse<u64>>,
    /// Transmissions in order of departure; entries whose record moved on are skipped.
    order: VecDeque<(u32, Instant)>,
    rack: Rack,
}

impl Segments {
    /// SND.UNA.
    pub(in crate::tcp) fn una(&self) -> u64 {
        self.una
    }

    /// SND.NXT.
    pub(in crate::tcp) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Bytes not yet reported delivered: those that a recovery beginning now can still cover.
    pub(in crate::tcp) fn recoverable(&self) -> Bytes {
        Bytes::new(self.nxt - self.una - self.sacked_bytes)
    }

    /// Everything below `nxt` was sent, without a record of it.
    pub(in crate::tcp) fn skip(&mut self, nxt: u64) {
        self.nxt = nxt;
    }

    /// Bytes of sequence space in flight: sent, not delivered, not believed lost.
    pub(in crate::tcp) fn in_flight(&self) -> u64 {
        let (count, size) = self.reno_sacked;
        self.in_flight
            .saturating_sub(u64::from(count) * u64::from(size))
    }

    /// True when everything sent is cumulatively acknowledged.
    pub(in crate::tcp) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of sequence space the peer reported out of order, in whole segments.
    pub(in crate::tcp) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// How many segments are unacknowledged.
    pub(in crate::tcp) fn len(&self) -> usize {
        self.records.len()
    }

    /// Memory is held for segments to come although none is outstanding.
    pub(in crate::tcp) fn idles_with_memory(&self) -> bool {
        self.records.is_empty()
            && self.records.capacity() + self.order.capacity() + self.lost.capacity() > 0
    }

    /// Gives that memory back.
    pub(in crate::tcp) fn release_memory(&mut self) {
        if self.idles_with_memory() {
            (self.records, self.order, self.lost) = Default::default();
        }
    }

    /// A copy of the oldest unacknowledged segment is still in this host.
    pub(in crate::tcp) fn head_in_host(&self) -> bool {
        self.records
            .front()
            .is_some_and(|record| record.in_host > 0)
    }

    /// A copy of the newest segment is still in this host.
    pub(in crate::tcp) fn tail_in_host(&self) -> bool {
        self.records.back().is_some_and(|record| record.in_host > 0)
    }

    /// When the oldest unacknowledged segment was sent last.
    pub(in crate::tcp) fn head_sent_at(&self) -> Option<Instant> {
        self.records.front().map(|record| record.sent.sent_at)
    }

    /// The peer reported the oldest segment as received out of order, yet does not acknowledge it:
    /// it has thrown it away.
    pub(in crate::tcp) fn reneged(&self) -> bool {
        self.records
            .front()
            .is_some_and(|record| record.state == State::Sacked)
    }

    /// Some segment is believed lost and was not sent again.
    pub(in crate::tcp) fn any_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// How many retransmissions are in flight.
    pub(in crate::tcp) fn again(&self) -> usize {
        self.again as usize
    }

    /// Bytes that proportional rate reduction counts as delivered at a peer without SACK: a
    /// duplicate acknowledgment (`repeats`) stands for a segment of `mss` bytes, which is not
    /// counted again when it is acknowledged (RFC 9937 §6.1).
    pub(in crate::tcp) fn assume_delivered(
        &mut self,
        delivery: &Delivery,
        repeats: bool,
        mss: u64,
        repairing: bool,
    ) -> Bytes {
        if repeats {
            let arrived = self.add_reno_sack(mss);
            return Bytes::new(if arrived { mss } else { 0 });
        }
        let before = self.remove_reno_sacks(delivery.packets, repairing);
        delivery.bytes.saturating_sub(Bytes::new(before))
    }

    /// A duplicate acknowledgment of a peer without SACK: some segment of `size` bytes has arrived
    /// beyond the hole (RFC 3042). False if that is one more than can be.
    pub(in crate::tcp) fn add_reno_sack(&mut self, size: u64) -> bool {
        let outstanding = self.records.len().saturating_sub(1) as u32;
        let reno_limit = self.reno_limit.get_or_insert(outstanding);
        if *reno_limit == 0 {
            return false;
        }
        *reno_limit -= 1;
        self.reno_sacked = (
            (self.reno_sacked.0 + 1).min(self.most_reno_sacked()),
            size as u32,
        );
        true
    }

    /// How many segments can have arrived if at least one has not.
    fn most_reno_sacked(&self) -> u32 {
        (self.records.len() as u32).saturating_sub(self.lost_count.max(1))
    }

    /// Segments that must have arrived out of order at a peer that does not say which.
    pub(in crate::tcp) fn reno_sacked(&self) -> u32 {
        self.reno_sacked.0
    }

    /// A peer without SACK acknowledged `packets` segments. In recovery one of them was the hole,
    /// and the others had arrived before; else nobody waits behind a hole any more. Returns how
    /// many bytes had been accounted before.
    pub(in crate::tcp) fn remove_reno_sacks(&mut self, packets: u64, repairing: bool) -> u64 {
        let (count, size) = self.reno_sacked;
        if packets > 0 {
            self.reno_limit = None;
        }
        let holes = u32::try_from(packets.saturating_sub(1)).unwrap_or(u32::MAX);
        let left = if repairing {
            count.saturating_sub(holes)
        } else {
            0
        };
        self.reno_sacked.0 = left.min(self.most_reno_sacked());
        u64::from(count - left) * u64::from(size)
    }

    /// The segment before offset `end` was sent more than once.
    pub(in crate::tcp) fn is_retransmitted(&self, end: u64) -> bool {
        let at = self
            .records
            .partition_point(|record| record.range.end < end);
        self.records
            .get(at)
            .is_some_and(|record| record.range.start < end && record.retransmitted())
    }

    /// The number that the next new segment gets.
    pub(in crate::tcp) fn next_id(&self) -> SegmentId {
        id(self.number(self.records.len()))
    }

    /// Records a new segment.
    pub(in crate::tcp) fn push(
        &mut self,
        range: Range<u64>,
        fin: bool,
        sent: SentRate,
    ) -> SegmentId {
        let number = self.number(self.records.len());
        self.in_flight += range.end - range.start;
        self.nxt = range.end;
        self.order.push_back((number, sent.sent_at));
        self.records.push_back(Record {
            range,
            fin,
            state: State::Outstanding,
            sent,
            transmissions: 1,
            stamp: 0,
            in_host: 1,
        });
        id(number)
    }

    /// The lowest lost segment, if its earlier copies have left the host: its range and whether it
    /// carries the FIN.
    #[inline]
    pub(in crate::tcp) fn next_lost(&self) -> Option<(SegmentId, Range<u64>, bool)> {
        let Reverse(start) = self.lost.peek()?;
        self.if_left_host(self.position_at(*start)?)
    }

    /// Pops entries of `lost` whose record moved on, so that the first one is the lowest lost
    /// segment.
    #[inline]
    fn drop_stale_lost(&mut self) {
        while let Some(&Reverse(start)) = self.lost.peek() {
            match self.position_at(start) {
                Some(at) if self.records[at].state == State::Lost => return,
                _ => self.lost.pop(),
            };
        }
    }

    /// The segment sent last, if it is thought to be in flight, nothing else is lost, and its copies
    /// have left the host.
    pub(in crate::tcp) fn last_outstanding(&self) -> Option<(SegmentId, Range<u64>, bool)> {
        let at = self.records.len().checked_sub(1)?;
        (self.records[at].state == State::Outstanding && !self.any_lost())
            .then(|| self.if_left_host(at))?
    }

    fn if_left_host(&self, at: usize) -> Option<(SegmentId, Range<u64>, bool)> {
        let record = &self.records[at];
        (record.in_host == 0).then(|| (id(self.number(at)), record.range.clone(), record.fin))
    }

    /// Records that a segment was sent again, with our timestamp `stamp`.
    pub(in crate::tcp) fn retransmitted(&mut self, segment: SegmentId, sent: SentRate, stamp: u32) {
        let Some(at) = self.position(segment) else {
            return;
        };
        debug_assert_ne!(
            self.records[at].state,
            State::Sacked,
            "what was delivered is not sent again"
        );
        self.uncount(at);
        let record = &mut self.records[at];
        record.state = State::Outstanding;
        record.sent = sent;
        record.transmissions = record.transmissions.saturating_add(1);
        record.stamp = stamp;
        record.in_host += 1;
        self.count(at);
        self.drop_stale_lost();
        self.order.push_back((number(segment), sent.sent_at));
    }

    /// Payload of the segment in flight that holds offset `at`; 0 without such a segment.
    pub(in crate::tcp) fn payload_at(&self, at: u64) -> u64 {
        let place = self
            .records
            .partition_point(|record| record.range.end <= at);
        self.records
            .get(place)
            .map_or(0, |record| record.len() - u64::from(record.fin))
    }

    /// Segments of more payload than `limit` cannot have arrived: they are cut into pieces that are
    /// to be sent again. Nothing but their length was wrong. All segments get new numbers, so that
    /// copies of the old ones that are still in the host answer for nothing.
    pub(in crate::tcp) fn cut(&mut self, limit: u64) {
        let too_long = |record: &Record| {
            record.len() - u64::from(record.fin) > limit && record.state != State::Sacked
        };
        if !self.records.iter().any(too_long) {
            return;
        }
        for at in 0..self.records.len() {
            if too_long(&self.records[at]) {
                self.turn(at, State::Lost);
            }
        }
        let before = std::mem::take(&mut self.records);
        let old_first = self.first;
        self.first = self.first.wrapping_add(before.len() as u32) & NUMBER_MASK;
        // Where each old record's first piece went, in the new queue.
        let mut places = Vec::with_capacity(before.len());
        for record in before {
            places.push(self.records.len());
            if !too_long(&record) {
                self.records.push_back(Record {
                    in_host: 0,
                    ..record
                });
                continue;
            }
            self.lost_count -= 1;
            let end = record.range.end;
            let mut start = record.range.start;
            while start < end {
                let whole = end - start <= limit + u64::from(record.fin);
                let range = start..if whole { end } else { start + limit };
                start = range.end;
                self.lost.push(Reverse(range.start));
                self.lost_count += 1;
                let fin = record.fin && whole;
                self.records.push_back(Record {
                    range,
                    fin,
                    state: State::Lost,
                    in_host: 0,
                    ..record
                });
            }
        }
        let (first, records) = (self.first, &self.records);
        self.order.retain_mut(|(number, sent_at)| {
            let old = (number.wrapping_sub(old_first) & NUMBER_MASK) as usize;
            let place = places
                .get(old)
                .copied()
                .filter(|place| records[*place].sent.sent_at == *sent_at);
            *number = first.wrapping_add(place.unwrap_or(0) as u32) & NUMBER_MASK;
            place.is_some_and(|place| records[place].state != State::Lost)
        });
    }

    /// A copy of the segment, and of those that were in one packet with it, `count` in all, has
    /// left the host, by transmission or drop.
    pub(in crate::tcp) fn left_host(&mut self, segment: SegmentId, count: u16) {
        // Some may be acknowledged already: those before the first record.
        for place in 0..count {
            if let Some(at) = self.position(segment.plus(place)) {
                self.records[at].in_host -= 1;
            }
        }
    }

    /// A copy of the segment was dropped inside this host and the connection was told: it is lost
    /// for certain. False if it had been delivered by another copy or given up before.
    pub(in crate::tcp) fn dropped_in_host(
        &mut self,
        segment: SegmentId,
        losses: &mut Losses<'_>,
    ) -> bool {
        self.position(segment)
            .is_some_and(|at| self.mark_lost(at, losses))
    }

    /// Takes a cumulative acknowledgment of everything below `una`.
    pub(in crate::tcp) fn acknowledge(
        &mut self,
        una: u64,
        arrival: Arrival,
        sampler: &mut Sampler,
    ) -> Delivery {
        let mut delivery = Delivery {
            cumulative: true,
            ..Delivery::default()
        };
        self.una = una;
        let before = (self.records.len(), self.sacked_count);
        while self
            .records
            .front()
            .is_some_and(|record| record.range.end <= una)
        {
            let Record { stamp, .. } = self.records[0];
            if self.records[0].retransmitted()
                && delivery
                    .retransmission
                    .is_none_or(|earliest| seq::older(stamp, earliest))
            {
                delivery.retransmission = Some(stamp);
            }
            self.deliver(0, arrival, sampler, &mut delivery);
            self.uncount(0);
            self.records.pop_front();
            self.first = self.first.wrapping_add(1) & NUMBER_MASK;
        }
        delivery.alone = before == (self.records.len() + 1, 0) && delivery.retransmission.is_none();
        // A partial acknowledgment of a segment (a middlebox resegmented) shortens it.
        if self
            .records
            .front()
            .is_some_and(|record| record.range.start < una)
        {
            self.uncount(0);
            let record = &mut self.records[0];
            delivery.bytes += Bytes::new(una - record.range.start);
            record.range.start = una;
            if record.state == State::Lost {
                self.lost.push(Reverse(una));
            }
            self.count(0);
        }
        self.sacked.remove_below(una);
        self.drop_stale_lost();
        self.prune_transmissions();
        delivery
    }

    /// Marks what the peer holds above SND.UNA. Blocks that are reversed, below SND.UNA or beyond
    /// SND.NXT are ignored.
    pub(in crate::tcp) fn apply_sack(
        &mut self,
        blocks: &[Option<Range<u64>>; SACK_BLOCKS],
        arrival: Arrival,
        sampler: &mut Sampler,
        delivery: &mut Delivery,
    ) {
        if blocks[0].is_none() {
            return;
        }
        let (una, nxt) = (self.una, self.nxt);
        let mut blocks = blocks.clone().map(|block| {
            block.filter(|block| una < block.start && block.start < block.end && block.end <= nxt)
        });
        // The newest comes first. Taken in that order, two blocks of one acknowledgment would look
        // like reordering.
        blocks.sort_unstable_by_key(|block| block.as_ref().map(|block| block.start));
        for block in blocks.into_iter().flatten() {
            self.sack(block, arrival, sampler, delivery);
        }
    }

    /// Takes a SACK block, already checked to lie within what is outstanding.
    pub(in crate::tcp) fn sack(
        &mut self,
        block: Range<u64>,
        arrival: Arrival,
        sampler: &mut Sampler,
        delivery: &mut Delivery,
    ) {
        // Honest blocks cover whole segments. More ranges than segments are an attack on our
        // memory.
        if self.sacked.len() > self.records.len() {
            return;
        }
        let mut touched: Option<Range<u64>> = None;
        self.sacked.insert(block, |new| {
            let start = touched.as_ref().map_or(new.start, |t| t.start);
            touched = Some(start..new.end);
        });
        let Some(touched) = touched else { return };
        let mut at = self
            .records
            .partition_point(|record| record.range.end <= touched.start);
        while self
            .records
            .get(at)
            .is_some_and(|record| record.range.start < touched.end)
        {
            if self.records[at].state != State::Sacked
                && self.sacked.contains(&self.records[at].range)
            {
                self.deliver(at, arrival, sampler, delivery);
                self.turn(at, State::Sacked);
                delivery.sacked = true;
            }
            at += 1;
        }
        self.drop_stale_lost();
    }

    /// Accounts a segment that turns out to be delivered.
    fn deliver(
        &mut self,
        at: usize,
        arrival: Arrival,
        sampler: &mut Sampler,
        delivery: &mut Delivery,
    ) {
        let (
            record,
            Arrival {
                now,
                echo,
                mss,
                min_rtt,
            },
        ) = (&self.records[at], arrival);
        if record.state == State::Sacked {
            return;
        }
        delivery.bytes += Bytes::new(record.len());
        delivery.packets += 1;
        delivery.opening |= record.range.start == 0;
        delivery.believed_lost |= record.state == State::Lost;
        delivery.sent_when = delivery.sent_when.max(record.sent.delivered);
        sampler.on_delivered(&record.sent, Bytes::new(record.len()), now);
        let sent_at = record.sent.sent_at;
        if !record.retransmitted() {
            let (earliest, latest) = delivery.sent_once.unwrap_or((sent_at, sent_at));
            delivery.sent_once = Some((earliest.min(sent_at), latest.max(sent_at)));
            delivery.original = Some(
                delivery
                    .original
                    .map_or(record.range.end, |end| end.min(record.range.end)),
            );
            if record.range.end < self.rack.highest {
                self.rack.reordered(record.range.start, mss);
            }
        }
        self.rack.highest = self.rack.highest.max(record.range.end);
        // What echoes a timestamp from before the retransmission, or came sooner than the path
        // allows, acknowledges the original (RFC 8985 §6.2 step 2).
        let echoes_older = || echo.is_some_and(|echo| seq::older(echo, record.stamp));
        let of_original = record.retransmitted() && (echoes_older() || now - sent_at < min_rtt);
        if !of_original {
            let newest = delivery.newest.map_or(sent_at, |sent| sent.max(sent_at));
            delivery.newest = Some(newest);
            self.rack.advance((sent_at, record.range.end), now - newest);
        }
    }

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
        let patience = self.rack.rtt + self.rack.window(window, self.sacked_count);
        while let Some(&(number, sent_at)) = self.order.front() {
            let Some(at) = self.in_flight_since(number, sent_at) else {
                self.order.pop_front();
                continue;
            };
            if (sent_at, self.records[at].range.end) >= newest {
                break;
            }
            let deadline = sent_at + patience;
            if deadline > now {
                found.recheck_at = Some(deadline + TIMER_SLACK);
                break;
            }
            found.bytes += Bytes::new(self.records[at].len());
            found.again |= self.records[at].retransmitted();
            self.mark_lost(at, losses);
            self.order.pop_front();
        }
        found
    }

    /// The retransmission timer expired: the oldest segment is lost, and so is what RACK has no
    /// more patience for. What was sent lately may still arrive (Linux). If the peer has thrown
    /// away what it reported (RFC 2018 §8), nothing it reported counts.
    pub(in crate::tcp) fn time_out(
        &mut self,
        now: Instant,
        window: ReorderingWindow,
        losses: &mut Losses<'_>,
    ) {
        self.reno_sacked.0 = 0;
        if self.reneged() {
            self.clear_sacks();
        }
        if !window.in_recovery {
            self.rack.timed_out(self.sacked_count);
        }
        let patience = self.rack.rtt + self.rack.window(window, self.sacked_count);
        for at in 0..self.records.len() {
            if at == 0 || self.records[at].sent.sent_at + patience <= now {
                self.mark_lost(at, losses);
            }
        }
    }

    /// The oldest segment is lost: without SACK, three duplicate acknowledgments or a partial one
    /// in recovery tell (RFC 6582).
    pub(in crate::tcp) fn lose_head(&mut self, losses: &mut Losses<'_>) -> Bytes {
        let len = self.records.front().map_or(0, Record::len);
        let newly = !self.records.is_empty() && self.mark_lost(0, losses);
        Bytes::new(if newly { len } else { 0 })
    }

    pub(super) fn fill(&self, info: &mut TcpInfo, window: ReorderingWindow) {
        let in_flight = Bytes::new(self.in_flight());
        let sacked = Bytes::new(self.sacked_bytes);
        let outstanding = Bytes::new(self.nxt.saturating_sub(self.una));
        info.in_flight = in_flight;
        info.sacked = sacked;
        info.lost = outstanding.saturating_sub(in_flight).saturating_sub(sacked);
        info.segments_unacked = self.records.len();
        info.retransmissions_out = self.again();
        (info.reordering, info.reorderings) = self.reordering();
        info.reordering_window = self.window(window);
    }

    fn clear_sacks(&mut self) {
        self.sacked.clear();
        for at in 0..self.records.len() {
            if self.records[at].state == State::Sacked {
                self.turn(at, State::Lost);
                self.lost.push(Reverse(self.records[at].range.start));
            }
        }
    }

    /// The last congestion signal was spurious: what is believed lost is in flight after all.
    /// `late`: since what was found lost from offset `late` on came late, the path reorders
    /// segments of size `mss`.
    pub(in crate::tcp) fn undo_losses(&mut self, late: Option<u64>, mss: u64) {
        for at in 0..self.records.len() {
            if self.records[at].state == State::Lost {
                self.turn(at, State::Outstanding);
            }
        }
        self.lost.clear();
        // Loss detection had taken them off its list; it walks in order of departure.
        let mut order: Vec<_> = (0..self.records.len())
            .filter(|at| self.records[*at].state == State::Outstanding)
            .map(|at| (self.number(at), self.records[at].sent.sent_at))
            .collect();
        order.sort_by_key(|(_, sent_at)| *sent_at);
        self.order = order.into();
        if let Some(late) = late {
            self.rack.reordered(late, mss);
        }
    }

    /// The peer reported a segment that arrived twice, which was not for a probe of the tail.
    pub(in crate::tcp) fn duplicated(&mut self) {
        self.rack.duplicated();
    }

    /// The reordering window follows what an acknowledgment told (RFC 8985 §6.2 step 4).
    pub(in crate::tcp) fn adapt_window(
        &mut self,
        delivery: &Delivery,
        delivered: Bytes,
        policy: Reordering,
    ) {
        if delivery.bytes > Bytes::ZERO {
            self.rack.adapt(delivery.sent_when, delivered, policy);
        }
    }

    /// A recovery has ended that was not for nothing.
    pub(in crate::tcp) fn recovered(&mut self) {
        self.rack.recovered();
    }

    /// By how many segments the path displaces one, and how often it did.
    pub(in crate::tcp) fn reordering(&self) -> (u32, u32) {
        (self.rack.degree, self.rack.reorderings)
    }

    /// The reordering window.
    pub(in crate::tcp) fn window(&self, on: ReorderingWindow) -> Duration {
        self.rack.window(on, self.sacked_count)
    }

    /// False if the segment was not in flight.
    fn mark_lost(&mut self, at: usize, losses: &mut Losses<'_>) -> bool {
        if self.records[at].state != State::Outstanding {
            return false;
        }
        self.turn(at, State::Lost);
        self.lost.push(Reverse(self.records[at].range.start));
        losses.report(&self.records[at]);
        true
    }

    fn turn(&mut self, at: usize, state: State) {
        self.uncount(at);
        self.records[at].state = state;
        self.count(at);
    }

    fn count(&mut self, at: usize) {
        let record = &self.records[at];
        match record.state {
            State::Outstanding => {
                self.in_flight += record.len();
                self.again += u32::from(record.retransmitted());
            }
            State::Lost => self.lost_count += 1,
            State::Sacked => {
                self.sacked_count += 1;
                self.sacked_bytes += record.len();
            }
        }
    }

    fn uncount(&mut self, at: usize) {
        let record = &self.records[at];
        match record.state {
            State::Outstanding => {
                self.in_flight -= record.len();
                self.again -= u32::from(record.retransmitted());
            }
            State::Lost => self.lost_count -= 1,
            State::Sacked => {
                self.sacked_count -= 1;
                self.sacked_bytes -= record.len();
            }
        }
    }

    /// Without SACK nobody walks the list of transmissions; it must not grow for ever.
    fn prune_transmissions(&mut self) {
        while let Some(&(number, sent_at)) = self.order.front()
            && self.in_flight_since(number, sent_at).is_none()
        {
            self.order.pop_front();
        }
    }

    /// Where the segment is whose transmission at `sent_at` is in flight.
    fn in_flight_since(&self, number: u32, sent_at: Instant) -> Option<usize> {
        self.position(id(number)).filter(|at| {
            let record = &self.records[*at];
            record.state == State::Outstanding && record.sent.sent_at == sent_at
        })
    }

    fn number(&self, at: usize) -> u32 {
        self.first.wrapping_add(at as u32) & NUMBER_MASK
    }

    fn position(&self, segment: SegmentId) -> Option<usize> {
        let at = (number(segment).wrapping_sub(self.first) & NUMBER_MASK) as usize;
        (at < self.records.len()).then_some(at)
    }

    fn position_at(&self, start: u64) -> Option<usize> {
        let at = self
            .records
            .partition_point(|record| record.range.start < start);
        (self.records.get(at)?.range.start == start).then_some(at)
    }
}

fn id(number: u32) -> SegmentId {
    SegmentId(NonZeroU32::MIN.saturating_add(number))
}

fn number(segment: SegmentId) -> u32 {
    segment.0.get() - 1
}

#[cfg(test)]
mod tests;
