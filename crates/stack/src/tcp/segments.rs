//! The retransmission queue: one record per segment sent and not yet cumulatively acknowledged, the SACK scoreboard over it, and
//! RACK's loss detection (RFC 8985 §6 in Linux's form; `spec/tcp.md` §1.8).
//!
//! Every step costs what it changes, not what is outstanding: segments are found by number or binary search, SACK blocks only
//! touch what they newly cover, and loss detection walks a list in the order of transmission and stops at the first survivor.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use tautline_base::{Bytes, Instant, SegmentId};
use tautline_cc::{Controller, Sampler, SentRate};

use crate::ranges::RangeSet;
use crate::seq;

/// Segments SACKed above a hole that prove a loss while no reordering has been seen (RFC 8985 §6.2 step 4).
const DUP_THRESHOLD: usize = 3;
/// Least time a reordering timer runs (Linux: 2 ms).
const TIMER_SLACK: Duration = Duration::from_millis(2);
/// Running numbers wrap within 31 bits, so that a number plus one is never zero.
const NUMBER_MASK: u32 = u32::MAX >> 1;

/// One segment sent.
#[derive(Debug)]
pub(super) struct Record {
    /// Its place in the sequence space, SYN and FIN included.
    pub(super) range: Range<u64>,
    pub(super) fin: bool,
    state: State,
    sent: SentRate,
    transmissions: u16,
    /// Our timestamp in the latest retransmission.
    stamp: u32,
    /// Copies still in this host's discipline or ring.
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

/// The arrival of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) now: Instant,
    /// The timestamp of ours that it echoes, if the connection uses them.
    pub(super) echo: Option<u32>,
}

/// What one acknowledgement delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// Newly delivered bytes, cumulative or selective.
    pub(super) bytes: Bytes,
    /// RTT of the segment sent earliest among those sent once: what the retransmission timer learns from.
    pub(super) earliest_rtt: Option<Duration>,
    /// RTT of the segment sent latest among those sent once.
    pub(super) latest_rtt: Option<Duration>,
    /// Of what was cumulatively acknowledged and had been sent again, the earliest of our timestamps in those retransmissions.
    pub(super) retransmission: Option<u32>,
    /// Segments newly delivered.
    pub(super) packets: u64,
    /// SND.UNA advanced.
    pub(super) cumulative: bool,
    /// Our SYN was among them: the acknowledgement belongs to the handshake.
    pub(super) opening: bool,
    /// One segment alone, sent once, and cumulatively: perhaps the receiver held its acknowledgement back.
    pub(super) alone: bool,
}

/// Where a segment that is found lost is reported.
pub(super) struct Losses<'a> {
    pub(super) now: Instant,
    pub(super) sampler: &'a mut Sampler,
    pub(super) controller: &'a mut dyn Controller,
}

impl Losses<'_> {
    fn report(&mut self, record: &Record) {
        self.controller.on_lost(&self.sampler.on_lost(&record.sent, Bytes::new(record.len()), self.now));
    }
}

/// The queue and its scoreboard.
#[derive(Debug, Default)]
pub(super) struct Segments {
    records: VecDeque<Record>,
    /// Running number of the first record.
    first: u32,
    in_flight: u64,
    sacked: RangeSet,
    sacked_count: usize,
    sacked_bytes: u64,
    /// Numbers of records believed lost, lowest first; entries whose record moved on are skipped.
    lost: BinaryHeap<Reverse<u64>>,
    /// Transmissions in order of departure; entries whose record moved on are skipped.
    order: VecDeque<(u32, Instant)>,
    rack: Rack,
}

/// RACK's memory.
#[derive(Debug, Default)]
struct Rack {
    /// Departure and end of the most recently sent segment that was delivered.
    newest: Option<(Instant, u64)>,
    rtt: Duration,
    /// Lowest RTT of the path: a retransmission cannot have been answered sooner.
    min_rtt: Duration,
    /// Highest offset delivered, to notice reordering.
    highest: u64,
    reordering_seen: bool,
}

impl Segments {
    /// Bytes of sequence space in flight: sent, not delivered, not believed lost.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// True when everything sent is cumulatively acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of sequence space the peer reported out of order, in whole segments.
    pub(super) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// How many segments are unacknowledged.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Memory is held for segments to come although none is outstanding.
    pub(super) fn idles_with_memory(&self) -> bool {
        self.records.is_empty() && self.records.capacity() + self.order.capacity() + self.lost.capacity() > 0
    }

    /// Gives that memory back.
    pub(super) fn release_memory(&mut self) {
        if self.idles_with_memory() {
            (self.records, self.order, self.lost) = Default::default();
        }
    }

    /// A copy of the oldest unacknowledged segment is still in this host.
    pub(super) fn head_in_host(&self) -> bool {
        self.records.front().is_some_and(|record| record.in_host > 0)
    }

    /// The peer reported the oldest segment as received out of order, yet does not acknowledge it: it has thrown it away.
    pub(super) fn reneged(&self) -> bool {
        self.records.front().is_some_and(|record| record.state == State::Sacked)
    }

    /// Some segment is believed lost and was not sent again (or only was until lately).
    pub(super) fn any_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Records a new segment.
    pub(super) fn push(&mut self, range: Range<u64>, fin: bool, sent: SentRate) -> SegmentId {
        let number = self.first.wrapping_add(self.records.len() as u32) & NUMBER_MASK;
        self.in_flight += range.end - range.start;
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

    /// The lowest lost segment, if its earlier copies have left the host: its range and whether it carries the FIN.
    pub(super) fn next_lost(&mut self) -> Option<(SegmentId, Range<u64>, bool)> {
        while let Some(&Reverse(start)) = self.lost.peek() {
            match self.position_at(start) {
                Some(at) if self.records[at].state == State::Lost => {
                    let record = &self.records[at];
                    let number = self.number(at);
                    return (record.in_host == 0).then(|| (id(number), record.range.clone(), record.fin));
                }
                _ => {
                    self.lost.pop();
                }
            }
        }
        None
    }

    /// Records that a lost segment was sent again, with our timestamp `stamp`.
    pub(super) fn retransmitted(&mut self, segment: SegmentId, sent: SentRate, stamp: u32) {
        let Some(at) = self.position(segment) else { return };
        let record = &mut self.records[at];
        debug_assert_eq!(record.state, State::Lost, "only lost segments are sent again");
        record.state = State::Outstanding;
        record.sent = sent;
        record.transmissions = record.transmissions.saturating_add(1);
        record.stamp = stamp;
        record.in_host += 1;
        self.in_flight += record.len();
        self.order.push_back((number(segment), sent.sent_at));
    }

    /// A copy of the segment has left the host, by transmission or drop.
    pub(super) fn left_host(&mut self, segment: SegmentId) {
        if let Some(at) = self.position(segment) {
            self.records[at].in_host -= 1;
        }
    }

    /// A copy of the segment was dropped inside this host and the connection was told: it is lost for certain.
    /// False if it had been delivered by another copy or given up before.
    pub(super) fn dropped_in_host(&mut self, segment: SegmentId, losses: &mut Losses<'_>) -> bool {
        self.position(segment).is_some_and(|at| self.mark_lost(at, losses))
    }

    /// Takes a cumulative acknowledgement of everything below `una`.
    pub(super) fn acknowledge(&mut self, una: u64, arrival: Arrival, sampler: &mut Sampler) -> Delivery {
        let mut delivery = Delivery::default();
        let before = (self.records.len(), self.sacked_count);
        while self.records.front().is_some_and(|record| record.range.end <= una) {
            let Record { stamp, .. } = self.records[0];
            if self.records[0].retransmitted() && delivery.retransmission.is_none_or(|earliest| seq::older(stamp, earliest))
            {
                delivery.retransmission = Some(stamp);
            }
            self.deliver(0, arrival, sampler, &mut delivery);
            let record = self.records.pop_front().expect("the loop saw it");
            if record.state == State::Sacked {
                self.sacked_count -= 1;
                self.sacked_bytes -= record.len();
            }
            self.first = self.first.wrapping_add(1) & NUMBER_MASK;
        }
        delivery.alone = before == (self.records.len() + 1, 0) && delivery.retransmission.is_none();
        // A partial acknowledgement of a segment (a middlebox resegmented) shortens it.
        if let Some(record) = self.records.front_mut().filter(|record| record.range.start < una) {
            match record.state {
                State::Outstanding => self.in_flight -= una - record.range.start,
                State::Sacked => self.sacked_bytes -= una - record.range.start,
                State::Lost => {}
            }
            delivery.bytes += Bytes::new(una - record.range.start);
            let lost = record.state == State::Lost;
            record.range.start = una;
            if lost {
                self.lost.push(Reverse(una));
            }
        }
        self.sacked.remove_below(una);
        delivery
    }

    /// Takes a SACK block, already checked to lie within what is outstanding.
    pub(super) fn sack(&mut self, block: Range<u64>, arrival: Arrival, sampler: &mut Sampler, delivery: &mut Delivery) {
        // Honest blocks cover whole segments. More ranges than segments are an attack on our memory.
        if self.sacked.len() > self.records.len() {
            return;
        }
        let mut touched: Option<Range<u64>> = None;
        self.sacked.insert(block, |new| {
            let start = touched.as_ref().map_or(new.start, |t| t.start);
            touched = Some(start..new.end);
        });
        let Some(touched) = touched else { return };
        let mut at = self.records.partition_point(|record| record.range.end <= touched.start);
        while self.records.get(at).is_some_and(|record| record.range.start < touched.end) {
            if self.records[at].state != State::Sacked && self.sacked.contains(&self.records[at].range) {
                self.deliver(at, arrival, sampler, delivery);
                self.records[at].state = State::Sacked;
                self.sacked_count += 1;
                self.sacked_bytes += self.records[at].len();
            }
            at += 1;
        }
    }

    /// Accounts a segment that turns out to be delivered.
    fn deliver(&mut self, at: usize, arrival: Arrival, sampler: &mut Sampler, delivery: &mut Delivery) {
        let (record, Arrival { now, echo }) = (&self.records[at], arrival);
        if record.state == State::Sacked {
            return;
        }
        if record.state == State::Outstanding {
            self.in_flight -= record.len();
        }
        delivery.bytes += Bytes::new(record.len());
        delivery.packets += 1;
        delivery.opening |= record.range.start == 0;
        sampler.on_delivered(&record.sent, Bytes::new(record.len()), now);
        let rtt = now - record.sent.sent_at;
        if !record.retransmitted() {
            delivery.earliest_rtt = Some(delivery.earliest_rtt.map_or(rtt, |r| r.max(rtt)));
            delivery.latest_rtt = Some(delivery.latest_rtt.map_or(rtt, |r| r.min(rtt)));
            self.rack.reordering_seen |= record.range.end < self.rack.highest;
        }
        self.rack.highest = self.rack.highest.max(record.range.end);
        // What echoes a timestamp from before the retransmission, or came sooner than the path allows, acknowledges the original
        // (RFC 8985 §6.2 step 2).
        let echoes_older = echo.is_some_and(|echo| seq::older(echo, record.stamp));
        let of_original = record.retransmitted() && (echoes_older || rtt < self.rack.min_rtt);
        let sent = (record.sent.sent_at, record.range.end);
        if !of_original && self.rack.newest.is_none_or(|newest| newest < sent) {
            self.rack.newest = Some(sent);
            self.rack.rtt = rtt;
        }
    }

    /// Marks segments lost that were sent so long before a delivered one that reordering cannot explain it. Returns the bytes
    /// newly lost and, when some segments are still within the reordering window, when it closes.
    pub(super) fn detect_lost(
        &mut self,
        now: Instant,
        window: ReorderingWindow,
        losses: &mut Losses<'_>,
    ) -> (Bytes, Option<Instant>) {
        self.rack.min_rtt = window.min_rtt;
        let Some((newest, newest_end)) = self.rack.newest else { return (Bytes::ZERO, None) };
        let patience = self.rack.rtt + self.reordering_window(window);
        let mut lost = 0;
        while let Some(&(number, sent_at)) = self.order.front() {
            let Some(at) = self.position(id(number)).filter(|at| {
                let record = &self.records[*at];
                record.state == State::Outstanding && record.sent.sent_at == sent_at
            }) else {
                self.order.pop_front();
                continue;
            };
            if (sent_at, self.records[at].range.end) >= (newest, newest_end) {
                break;
            }
            let deadline = sent_at + patience;
            if deadline > now {
                return (Bytes::new(lost), Some(deadline + TIMER_SLACK));
            }
            lost += self.records[at].len();
            self.mark_lost(at, losses);
            self.order.pop_front();
        }
        (Bytes::new(lost), None)
    }

    /// How much later than a delivered segment's an earlier one's delivery may be before it counts as lost.
    fn reordering_window(&self, window: ReorderingWindow) -> Duration {
        if !self.rack.reordering_seen && (window.in_recovery || self.sacked_count >= DUP_THRESHOLD) {
            return Duration::ZERO;
        }
        (window.min_rtt / 4).min(window.srtt)
    }

    /// The retransmission timer expired: everything undelivered is believed lost.
    pub(super) fn lose_all(&mut self, losses: &mut Losses<'_>) -> Bytes {
        let before = self.in_flight;
        for at in 0..self.records.len() {
            self.mark_lost(at, losses);
        }
        Bytes::new(before)
    }

    /// Without SACK three duplicate acknowledgements, or a partial one in recovery, condemn the oldest segment (RFC 6582).
    pub(super) fn lose_head(&mut self, losses: &mut Losses<'_>) -> Bytes {
        let before = self.in_flight;
        if !self.records.is_empty() {
            self.mark_lost(0, losses);
        }
        Bytes::new(before - self.in_flight)
    }

    /// Forgets what the peer reported out of order: it may have thrown it away (RFC 2018 §8), and a timeout must not trust it.
    pub(super) fn forget_sacks(&mut self) {
        self.sacked.clear();
        self.sacked_count = 0;
        self.sacked_bytes = 0;
        for at in 0..self.records.len() {
            if self.records[at].state == State::Sacked {
                self.records[at].state = State::Lost;
                self.lost.push(Reverse(self.records[at].range.start));
            }
        }
    }

    /// The last congestion signal was spurious: what is believed lost is in flight after all.
    pub(super) fn nothing_lost(&mut self) {
        for record in self.records.iter_mut().filter(|record| record.state == State::Lost) {
            record.state = State::Outstanding;
            self.in_flight += record.range.end - record.range.start;
        }
        self.lost.clear();
        // Loss detection had taken them off its list; it walks in order of departure.
        let mut order: Vec<_> = (0..self.records.len())
            .filter(|at| self.records[*at].state == State::Outstanding)
            .map(|at| (self.number(at), self.records[at].sent.sent_at))
            .collect();
        order.sort_by_key(|(_, sent_at)| *sent_at);
        self.order = order.into();
    }

    /// False if the segment was not in flight.
    fn mark_lost(&mut self, at: usize, losses: &mut Losses<'_>) -> bool {
        let record = &mut self.records[at];
        if record.state != State::Outstanding {
            return false;
        }
        record.state = State::Lost;
        self.in_flight -= record.range.end - record.range.start;
        self.lost.push(Reverse(record.range.start));
        losses.report(&self.records[at]);
        true
    }

    fn number(&self, at: usize) -> u32 {
        self.first.wrapping_add(at as u32) & NUMBER_MASK
    }

    fn position(&self, segment: SegmentId) -> Option<usize> {
        let at = (number(segment).wrapping_sub(self.first) & NUMBER_MASK) as usize;
        (at < self.records.len()).then_some(at)
    }

    fn position_at(&self, start: u64) -> Option<usize> {
        let at = self.records.partition_point(|record| record.range.start < start);
        (self.records.get(at)?.range.start == start).then_some(at)
    }
}

/// What RACK's reordering window depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReorderingWindow {
    pub(super) min_rtt: Duration,
    pub(super) srtt: Duration,
    /// In fast or timeout recovery already.
    pub(super) in_recovery: bool,
}

fn id(number: u32) -> SegmentId {
    SegmentId(NonZeroU32::MIN.saturating_add(number))
}

fn number(segment: SegmentId) -> u32 {
    segment.0.get() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_cc::Reno;

    fn with_losses<T>(sampler: &mut Sampler, act: impl FnOnce(&mut Losses<'_>) -> T) -> T {
        let mut controller = Reno::new(&tautline_cc::Config::new(Bytes::new(1000)));
        act(&mut Losses { now: Instant::ZERO, sampler, controller: &mut controller })
    }

    fn detect_lost(
        segments: &mut Segments,
        sampler: &mut Sampler,
        now: Instant,
        window: ReorderingWindow,
    ) -> (Bytes, Option<Instant>) {
        with_losses(sampler, |losses| segments.detect_lost(now, window, losses))
    }

    fn sent(sampler: &mut Sampler, at: Instant) -> SentRate {
        sampler.on_send(at, Bytes::new(1000), false)
    }

    /// An acknowledgement without timestamps.
    fn plain(now: Instant) -> Arrival {
        Arrival { now, echo: None }
    }

    fn at(millis: u64) -> Arrival {
        plain(Instant::from_millis(millis))
    }

    fn window(min_rtt: u64, srtt: u64) -> ReorderingWindow {
        ReorderingWindow { min_rtt: Duration::from_millis(min_rtt), srtt: Duration::from_millis(srtt), in_recovery: false }
    }

    /// Four segments of 1000 bytes sent at 0, 1, 2, 3 ms.
    fn four(sampler: &mut Sampler) -> Segments {
        let mut segments = Segments::default();
        for i in 0..4 {
            let record = sent(sampler, Instant::from_millis(i));
            let id = segments.push(1 + i * 1000..1001 + i * 1000, false, record);
            segments.left_host(id);
        }
        segments
    }

    #[test]
    fn rack_example_of_the_spec() {
        // spec/tcp.md §1.8: P1 lost; SACK(P2) at 41 ms arms the timer for 52 ms; SACK(P4) at 43 ms makes three, P1 is lost.
        let mut sampler = Sampler::default();
        let mut segments = four(&mut sampler);
        let mut delivery = Delivery::default();
        segments.sack(1001..2001, at(41), &mut sampler, &mut delivery);
        assert_eq!(
            detect_lost(&mut segments, &mut sampler, Instant::from_millis(41), window(40, 50)),
            (Bytes::ZERO, Some(Instant::from_millis(52)))
        );
        segments.sack(2001..3001, at(42), &mut sampler, &mut delivery);
        segments.sack(3001..4001, at(43), &mut sampler, &mut delivery);
        assert_eq!(
            detect_lost(&mut segments, &mut sampler, Instant::from_millis(43), window(40, 50)),
            (Bytes::new(1000), None)
        );
        assert_eq!(segments.in_flight(), 0);
        assert_eq!(delivery.bytes, Bytes::new(3000));
    }

    #[test]
    fn reordering_widens_the_window() {
        let mut sampler = Sampler::default();
        let mut segments = four(&mut sampler);
        let mut delivery = Delivery::default();
        let now = Instant::from_millis(43);
        segments.sack(3001..4001, plain(now), &mut sampler, &mut delivery);
        segments.sack(2001..3001, plain(now), &mut sampler, &mut delivery);
        segments.sack(1001..2001, plain(now), &mut sampler, &mut delivery);
        let (lost, timer) = detect_lost(&mut segments, &mut sampler, now, window(40, 50));
        assert_eq!(lost, Bytes::ZERO, "segments arrived out of order: three SACKs prove nothing");
        assert_eq!(timer, Some(Instant::from_millis(52)));
    }

    #[test]
    fn a_lost_segment_waits_for_its_copy_to_leave_the_host() {
        let mut sampler = Sampler::default();
        let mut segments = Segments::default();
        let record = sent(&mut sampler, Instant::ZERO);
        let id = segments.push(1..1001, false, record);
        with_losses(&mut sampler, |losses| segments.lose_all(losses));
        assert_eq!(segments.next_lost(), None);
        segments.left_host(id);
        assert_eq!(segments.next_lost(), Some((id, 1..1001, false)));
        segments.retransmitted(id, record, 0);
        assert_eq!(segments.in_flight(), 1000);
        assert_eq!(segments.next_lost(), None);
    }

    /// The head is sent again at 100 ms; an acknowledgement of its original comes 45 ms later, no sooner than a round trip. If it were
    /// taken for the retransmission's, everything sent before 100 ms would count as lost.
    #[test]
    fn an_echo_older_than_the_retransmission_is_of_the_original() {
        for (echo, lost) in [(Some(99), 0), (Some(100), 3000), (None, 3000)] {
            let mut sampler = Sampler::default();
            let mut segments = four(&mut sampler);
            segments.rack.min_rtt = Duration::from_millis(40);
            with_losses(&mut sampler, |losses| segments.lose_head(losses));
            let again = sent(&mut sampler, Instant::from_millis(100));
            segments.retransmitted(id(0), again, 100);
            let now = Instant::from_millis(145);
            segments.acknowledge(1001, Arrival { now, echo }, &mut sampler);
            assert_eq!(detect_lost(&mut segments, &mut sampler, now, window(40, 50)).0, Bytes::new(lost), "{echo:?}");
        }
    }

    #[test]
    fn numbers_survive_their_wrap() {
        let mut sampler = Sampler::default();
        let mut segments = Segments { first: NUMBER_MASK - 1, ..Segments::default() };
        for i in 0..4u64 {
            let record = sent(&mut sampler, Instant::from_millis(i));
            let id = segments.push(i..i + 1, false, record);
            assert_eq!(segments.position(id), Some(i as usize));
        }
        segments.acknowledge(3, at(9), &mut sampler);
        assert_eq!((segments.first, segments.len(), segments.in_flight()), (1, 1, 1));
    }

    #[test]
    fn partial_coverage_by_sack_delivers_only_whole_segments() {
        let mut sampler = Sampler::default();
        let mut segments = four(&mut sampler);
        let mut delivery = Delivery::default();
        let now = Instant::from_millis(50);
        segments.sack(1500..2500, plain(now), &mut sampler, &mut delivery);
        assert_eq!(delivery.bytes, Bytes::ZERO);
        segments.sack(1001..1600, plain(now), &mut sampler, &mut delivery);
        assert_eq!(delivery.bytes, Bytes::new(1000));
        assert_eq!(segments.sacked_count, 1);
    }
}
