//! The retransmission queue: one record per segment sent and not yet cumulatively acknowledged. The
//! SACK [`scoreboard`] tracks deliveries; [`loss`] detection by [`rack`] marks losses.
//!
//! Every step costs what it changes, not what is outstanding: segments are found by number or
//! binary search, SACK blocks only touch what they newly cover, and loss detection walks a list in
//! the order of transmission and stops at the first survivor.

mod loss;
mod rack;
mod reno_sack;
mod scoreboard;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use tautline_base::{Bytes, Instant, SegmentId};
use tautline_cc::{Sampler, SentRate};

pub(in crate::tcp) use self::loss::{Losses, TIMER_SLACK};
use self::rack::Rack;
pub(in crate::tcp) use self::rack::{DUP_THRESHOLD, ReorderingWindow};
use self::reno_sack::RenoSack;
pub(in crate::tcp) use self::scoreboard::{Arrival, Delivery};
use crate::config::Reordering;
use crate::ranges::RangeSet;
use crate::tcp::info::TcpInfo;

/// Running numbers wrap within 31 bits, so that a number plus one is never zero.
const NUMBER_MASK: u32 = u32::MAX >> 1;

/// Records whose memory does not count.
const UNCOUNTED_RECORDS: usize = 64;

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

    /// Its share of the queue's counts: state, bytes, and whether they are of a retransmission.
    fn share(&self) -> (State, u64, bool) {
        (self.state, self.len(), self.retransmitted())
    }
}

/// Numbers of segments and their departures. An idle connection has no list.
#[derive(Debug, Default)]
#[expect(
    clippy::box_collection,
    reason = "24 bytes less for each idle connection"
)]
struct Transmissions(Option<Box<VecDeque<(u32, Instant)>>>);

impl Transmissions {
    fn next(&self) -> Option<(u32, Instant)> {
        self.0.as_ref()?.front().copied()
    }

    fn pop(&mut self) {
        if let Some(list) = &mut self.0 {
            list.pop_front();
        }
    }

    #[inline]
    fn push(&mut self, transmission: (u32, Instant)) {
        match &mut self.0 {
            Some(list) => list.push_back(transmission),
            None => self.list().push_back(transmission),
        }
    }

    #[cold]
    fn list(&mut self) -> &mut VecDeque<(u32, Instant)> {
        self.0.get_or_insert_default()
    }
}

/// The segments that arrived out of order, and those that are lost.
#[derive(Debug, Default)]
struct Holes {
    sacked: RangeSet,
    sacked_count: usize,
    sacked_bytes: u64,
    /// Arrivals at a peer that does not report them.
    reno_sack: RenoSack,
    /// Starts of records marked lost, lowest first; entries whose record moved on are skipped.
    lost: BinaryHeap<Reverse<u64>>,
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
    /// Since the first arrival out of order or loss, until the connection is idle.
    holes: Option<Box<Holes>>,
    /// Transmissions in order of departure; entries whose record moved on are skipped.
    order: Transmissions,
    rack: Rack,
}

/// Number of gapless runs of segments that the peer reported out of order.
pub(in crate::tcp) fn sacked_runs(segments: &Segments) -> u64 {
    let holes = segments.holes.as_ref();
    holes.map_or(0, |holes| holes.sacked.len() as u64)
}

impl Segments {
    /// Records a segment that was never sent before, with its rate sample. Returns its number.
    #[inline]
    pub(in crate::tcp) fn record(
        &mut self,
        range: Range<u64>,
        fin: bool,
        departure: Instant,
        sampler: &mut Sampler,
    ) -> SegmentId {
        let in_flight = Bytes::new(self.in_flight() + (range.end - range.start));
        let sent = sampler.on_send(departure, in_flight, self.is_empty());
        self.push(range, fin, sent)
    }

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
        Bytes::new(self.nxt - self.una - self.sacked_bytes())
    }

    /// Everything below `nxt` was sent, without a record of it.
    pub(in crate::tcp) fn skip(&mut self, nxt: u64) {
        self.nxt = nxt;
    }

    /// Bytes of sequence space in flight: sent, not delivered, not marked lost.
    pub(in crate::tcp) fn in_flight(&self) -> u64 {
        let arrived = self.holes.as_ref().map(|holes| holes.reno_sack.bytes());
        self.in_flight.saturating_sub(arrived.unwrap_or(0))
    }

    /// True when everything sent is cumulatively acknowledged.
    pub(in crate::tcp) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of sequence space the peer reported out of order, in whole segments.
    pub(in crate::tcp) fn sacked_bytes(&self) -> u64 {
        self.holes.as_ref().map_or(0, |holes| holes.sacked_bytes)
    }

    /// Number of unacknowledged segments.
    pub(in crate::tcp) fn len(&self) -> usize {
        self.records.len()
    }

    /// True if allocations for segment records remain although no segment is outstanding.
    pub(in crate::tcp) fn idles_with_memory(&self) -> bool {
        self.records.is_empty()
            && (self.records.capacity() > 0 || self.order.0.is_some() || self.holes.is_some())
    }

    /// Releases those allocations.
    pub(in crate::tcp) fn release_memory(&mut self) {
        if self.idles_with_memory() {
            (self.records, self.order, self.holes) = Default::default();
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

    /// Time of the last transmission of the oldest unacknowledged segment.
    pub(in crate::tcp) fn head_sent_at(&self) -> Option<Instant> {
        self.records.front().map(|record| record.sent.sent_at)
    }

    /// Some segment is marked lost and not retransmitted.
    pub(in crate::tcp) fn any_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// Number of retransmissions in flight.
    pub(in crate::tcp) fn again(&self) -> usize {
        self.again as usize
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
    #[inline]
    pub(in crate::tcp) fn push(
        &mut self,
        range: Range<u64>,
        fin: bool,
        sent: SentRate,
    ) -> SegmentId {
        if range.start == 0 {
            reserve_one(&mut self.records, &mut self.order);
        }
        let number = self.number(self.records.len());
        self.in_flight += range.end - range.start;
        self.nxt = range.end;
        self.order.push((number, sent.sent_at));
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

    /// No segment was sent later than `now`.
    pub(in crate::tcp) fn depart_by(&mut self, now: Instant) {
        for record in &mut self.records {
            record.sent = record.sent.departed_by(now);
        }
        for (_, sent_at) in self.order.0.iter_mut().flat_map(|list| list.iter_mut()) {
            *sent_at = now.min(*sent_at);
        }
    }

    /// The lowest lost segment, if its earlier copies have left the host: its range and whether it
    /// carries the FIN.
    #[inline]
    pub(in crate::tcp) fn next_lost(&self) -> Option<(SegmentId, Range<u64>, bool)> {
        let Reverse(start) = self.holes.as_ref()?.lost.peek()?;
        self.if_left_host(self.position_at(*start)?)
    }

    /// Pops entries of `lost` whose record moved on, so that the first one is the lowest lost
    /// segment.
    #[inline]
    fn drop_stale_lost(&mut self) {
        while let Some(holes) = &self.holes
            && let Some(&Reverse(start)) = holes.lost.peek()
        {
            match self.position_at(start) {
                Some(at) if self.records[at].state == State::Lost => return,
                _ => self.holes.get_or_insert_default().lost.pop(),
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
        self.order.push((number(segment), sent.sent_at));
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
        // Index in the new queue of each old record's first piece.
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
                self.holes
                    .get_or_insert_default()
                    .lost
                    .push(Reverse(range.start));
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
        self.order.list().retain_mut(|(number, sent_at)| {
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

    pub(super) fn fill(&self, info: &mut TcpInfo, window: ReorderingWindow) {
        let in_flight = Bytes::new(self.in_flight());
        let sacked = Bytes::new(self.sacked_bytes());
        let outstanding = Bytes::new(self.nxt.saturating_sub(self.una));
        info.in_flight = in_flight;
        info.sacked = sacked;
        info.lost = outstanding.saturating_sub(in_flight).saturating_sub(sacked);
        info.segments_unacked = self.records.len();
        info.retransmissions_out = self.again();
        (info.reordering, info.reorderings) = self.reordering();
        info.reordering_window = self.window(window);
    }

    /// The peer reported a segment that arrived twice, which was not for a probe of the tail.
    pub(in crate::tcp) fn duplicated(&mut self) {
        self.rack.duplicated();
    }

    /// Adapts the reordering window to an acknowledgment (RFC 8985 §6.2 step 4).
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

    /// Reordering degree of the path in segments, and the number of reordering events.
    pub(in crate::tcp) fn reordering(&self) -> (u32, u32) {
        (self.rack.degree, self.rack.reorderings)
    }

    /// The reordering window.
    pub(in crate::tcp) fn window(&self, on: ReorderingWindow) -> Duration {
        self.rack.window(on, sacked_count(self.holes.as_deref()))
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
                let len = record.len();
                let holes = self.holes.get_or_insert_default();
                holes.sacked_count += 1;
                holes.sacked_bytes += len;
            }
        }
    }

    fn uncount(&mut self, at: usize) {
        self.uncount_share(self.records[at].share());
    }

    fn uncount_share(&mut self, (state, len, is_again): (State, u64, bool)) {
        match state {
            State::Outstanding => {
                self.in_flight -= len;
                self.again -= u32::from(is_again);
            }
            State::Lost => self.lost_count -= 1,
            State::Sacked => {
                let holes = self.holes.get_or_insert_default();
                holes.sacked_count -= 1;
                holes.sacked_bytes -= len;
            }
        }
    }

    /// Position of the segment whose transmission at `sent_at` is in flight.
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

/// A half-open connection has its SYN to repeat and nothing else.
#[cold]
fn reserve_one(records: &mut VecDeque<Record>, order: &mut Transmissions) {
    records.reserve_exact(1);
    order.list().reserve_exact(1);
}

/// Drops all records, and their memory.
pub(in crate::tcp::send) fn discard_records(segments: &mut Segments) {
    let next = segments.number(segments.records.len());
    *segments = Segments {
        una: segments.nxt,
        nxt: segments.nxt,
        first: next,
        rack: std::mem::take(&mut segments.rack),
        ..Segments::default()
    };
}

/// Memory of records and transmissions, in bytes; none for so few that any connection may have them. A
/// record is larger than a short segment: a peer that makes an application write many of those and
/// acknowledges none would fill memory beyond any limit on buffers.
pub(in crate::tcp::send) fn record_memory(segments: &Segments) -> usize {
    let capacity = segments.records.capacity();
    if capacity <= UNCOUNTED_RECORDS {
        return 0;
    }
    let transmissions = segments.order.0.as_ref().map_or(0, |list| list.capacity());
    capacity * size_of::<Record>() + transmissions * size_of::<(u32, Instant)>()
}

/// Number of segments the peer reported out of order.
fn sacked_count(holes: Option<&Holes>) -> usize {
    holes.map_or(0, |holes| holes.sacked_count)
}

fn id(number: u32) -> SegmentId {
    SegmentId(NonZeroU32::MIN.saturating_add(number))
}

fn number(segment: SegmentId) -> u32 {
    segment.0.get() - 1
}
