//! The receiving half: reassembly, the advertised window and when to acknowledge (RFC 9293 §3.8.6,
//! RFC 2018; Linux `tcp_data_queue`, `__tcp_select_window`).
//!
//! Bytes are stored at their place in [`Pages`]; a [`RangeSet`] says which are there. The first
//! copy of a byte wins. Memory is bounded by the advertised window whatever the sizes and order of
//! segments, and goes with what has arrived: a segment at the far end of the window costs its page
//! or two. A connection that is quiet holds none.

mod ack_delay;
mod pages;
mod right_sizing;

use std::num::NonZeroU64;
use std::ops::Range;
use std::time::Duration;

use tautline_base::{Bytes, Instant};

use self::ack_delay::AckDelay;
pub(super) use self::ack_delay::Bounds;
use self::pages::Pages;
use self::right_sizing::RightSizing;
use super::info::TcpInfo;
use crate::config::AckCompression;
use crate::ranges::RangeSet;
use crate::wire::SACK_BLOCKS;

/// Separate holes we keep track of. Beyond it a segment that would open another is refused: memory
/// and time stay bounded when a peer sends every second byte.
const MAX_RANGES: usize = 1024;
/// Segments acknowledged at once at the start of a connection and after a duplicate, so that the
/// peer's slow start is not held back.
pub(super) const QUICK_ACKS: u32 = 16;
/// Pure acknowledgments that one arrival, one timer or one read may cause, whatever the state of the
/// connection says: of the SYN-ACK's codepoint, and of the present.
const ANSWERS: u8 = 2;
/// SACK blocks that joined acknowledgments may report (Linux `TCP_SACK_BLOCKS_EXPECTED`).
const EXPECTED_BLOCKS: usize = 2;
/// Acknowledgments of segments beyond a hole that are never joined: they begin fast retransmit (RFC
/// 5681 §3.2).
const REPEATED: u8 = 3;
/// Received data that a connection may always hold.
const LEAST_RECEIVE: usize = 8 << 10;
/// How long memory is kept for what may arrive next, beyond the time an acknowledgment may be held
/// back.
const KEEP: Duration = Duration::from_secs(1);

/// Receive state of a connection.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Bytes from `read` upward, as far as they are there.
    bytes: Pages,
    /// When a quiet connection's memory goes.
    keep_until: Instant,
    /// Offset the application has read up to.
    read: u64,
    /// Offset up to which everything has arrived.
    next: u64,
    /// Everything received above `next`.
    ahead: RangeSet,
    /// Latest arrivals above `next`, newest first: the order of SACK blocks.
    recent: [Option<NonZeroU64>; SACK_BLOCKS],
    /// Offset of the peer's FIN, once seen.
    fin: Option<u64>,
    /// Offsets that arrived twice since the last acknowledgment (RFC 2883).
    duplicate: Option<Box<Range<u64>>>,
    /// Right edge of the window we advertised last.
    edge: u64,
    /// The window: at most `capacity`, which follows what the application reads; it opens by what
    /// arrives.
    window: u64,
    capacity: u64,
    /// `None` while the connection is quiet.
    sizing: Option<Box<RightSizing>>,
    acknowledgment: Acknowledgment,
    quick: u32,
    answers: Answers,
    /// Largest segment the peer has sent: the unit in which it fills its window.
    peer_segment: u64,
    /// Offset we acknowledged last.
    acknowledged: u64,
    ack_delay: AckDelay,
    /// The application read everything and waits for more.
    wants_data: bool,
    pub(super) totals: ReceiveTotals,
}

/// Counts of acknowledgments.
#[derive(Debug)]
struct Answers {
    /// Of segments beyond the present hole, up to [`REPEATED`].
    repeated: u8,
    /// Joined since one left.
    joined: u8,
    /// Pure ones that may leave before the next event that can call for one.
    left: u8,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            repeated: 0,
            joined: 0,
            left: ANSWERS,
        }
    }
}

/// Totals for `info()`.
#[derive(Debug, Default)]
pub(super) struct ReceiveTotals {
    pub(super) bytes_received: u64,
    pub(super) segments_in: u64,
    /// Segments with payload.
    pub(super) data_segments_in: u64,
    /// When payload last arrived, if any has.
    pub(super) data_received_at: Instant,
}

/// How acknowledgments of segments out of order are joined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    /// Most that one stands for.
    pub(super) most: u8,
    /// When one leaves at the latest.
    pub(super) by: Instant,
}

/// Acknowledgment that is owed to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acknowledgment {
    /// Nothing.
    None,
    /// An acknowledgment by then at the latest.
    By(Instant),
    /// An acknowledgment now.
    Now,
}

/// The result of [`Receiver::accept`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    /// The application waits, and has more to read or the end of the stream.
    pub(super) wakes_reader: bool,
    /// The peer's FIN is now in order.
    pub(super) finished: bool,
}

impl Receiver {
    /// A receiver with room for `start` bytes, and for up to `most` if the application reads fast.
    pub(super) fn new(start: u64, most: u64) -> Self {
        let capacity = start.min(most);
        Self {
            bytes: Pages::default(),
            keep_until: Instant::ZERO,
            read: 1,
            next: 0,
            ahead: RangeSet::default(),
            recent: [None; SACK_BLOCKS],
            fin: None,
            duplicate: None,
            edge: 0,
            window: capacity,
            capacity,
            sizing: None,
            acknowledgment: Acknowledgment::None,
            quick: QUICK_ACKS,
            answers: Answers::default(),
            peer_segment: 536,
            acknowledged: 0,
            ack_delay: AckDelay::default(),
            wants_data: true,
            totals: ReceiveTotals::default(),
        }
    }

    /// A packet of `segments` segments arrived with payload.
    pub(super) fn note_payload(&mut self, segments: u64, now: Instant) {
        self.totals.data_segments_in += segments;
        self.totals.data_received_at = now;
    }

    /// How long the acknowledgment of a segment that arrives now may wait.
    pub(super) fn ack_delay(&mut self, payload: bool, bounds: Bounds, now: Instant) -> Duration {
        if payload {
            self.ack_delay.arrived(now, bounds);
        }
        self.ack_delay.delay(bounds)
    }

    /// The round trip as the receiver sees it; `None` before it is known.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.sizing.as_ref().and_then(|sizing| sizing.rtt())
    }

    /// How acknowledgments of segments out of order are joined. `srtt`: the sender's round trip,
    /// zero before it is known.
    pub(super) fn joined(
        &self,
        compression: AckCompression,
        srtt: Duration,
        now: Instant,
    ) -> Joined {
        let srtt = Some(srtt).filter(|srtt| !srtt.is_zero());
        let rtt = self.rtt().into_iter().chain(srtt).min();
        let part = rtt.unwrap_or_default() * u32::from(compression.rtt_percent) / 100;
        Joined {
            most: compression.most,
            by: now + part.min(compression.delay) + compression.slack,
        }
    }

    /// The present delay of acknowledgments.
    pub(super) fn present_ack_delay(&self, bounds: Bounds) -> Duration {
        self.ack_delay.delay(bounds)
    }

    /// A delayed acknowledgment waited for nothing.
    pub(super) fn ack_timed_out(&mut self, bounds: Bounds) {
        if self.answers.joined == 0 {
            self.ack_delay.expired(bounds);
        }
    }

    /// The application waits for data.
    pub(super) fn wait_for_data(&mut self) {
        self.wants_data = true;
    }

    /// The peer's SYN has arrived: offset 1 is next.
    pub(super) fn synchronized(&mut self) {
        self.next = 1;
    }

    /// The next offset expected, FIN included.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Right edge of the advertised window.
    pub(super) fn edge(&self) -> u64 {
        self.edge
    }

    /// The `len` numbers from `offset` lie in the receive window, leniently at the left as Linux
    /// does: whatever ends at or after what we last acknowledged may still carry a fresh
    /// acknowledgment.
    pub(super) fn accepts(&self, offset: u64, len: u64) -> bool {
        let right = self.edge.max(self.next);
        let begins_inside = offset < right || offset == self.next;
        offset + len >= self.acknowledged && begins_inside
    }

    /// A reset at `offset` is exact (RFC 5961 §3.2): it names the next number expected, or the end
    /// of the highest SACK block we sent, because the peer may have closed a socket there. The
    /// number before the end of the peer's FIN, which Linux accepts, is outside the window.
    pub(super) fn is_reset_by(&self, offset: u64) -> bool {
        let highest = self.sack_blocks().map(|block| block.end).max();
        offset == self.next || highest == Some(offset)
    }

    /// Bytes the application can read.
    pub(super) fn readable(&self) -> usize {
        (self.data_end() - self.read) as usize
    }

    /// The peer's FIN arrived in order.
    pub(super) fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// The buffer grows no further.
    #[inline]
    pub(super) fn has_grown_to(&self, most: u64) -> bool {
        self.capacity >= most
    }

    /// Text of `len` bytes arrives: once a round trip, the buffer follows what the application
    /// reads of the peer's segments of `mss` bytes. `echo`: our timestamp that it echoes, sent so
    /// long ago. The buffer grows to `most` bytes.
    pub(super) fn right_size(
        &mut self,
        most: u64,
        now: Instant,
        (len, mss): (u64, u64),
        echo: Option<(u32, Duration)>,
    ) {
        if self.has_grown_to(most) {
            return;
        }
        let (read, queued) = (self.read, self.readable() as u64);
        // Ten segments are expected in a round trip: the peer's first flight.
        let sizing = self
            .sizing
            .get_or_insert_with(|| Box::new(RightSizing::new(read, self.capacity.min(10 * mss))));
        if let Some((echo, rtt)) = echo.filter(|_| len >= self.peer_segment) {
            sizing.sample(echo, rtt);
        }
        sizing.on_progress(now, self.next, self.window);
        if let Some(window) = sizing.on_arrival(now, read, queued, mss) {
            self.capacity = self.capacity.max(window.min(most));
        }
    }

    /// Separate ranges held above a hole.
    pub(super) fn out_of_order(&self) -> usize {
        self.ahead.len()
    }

    /// End of in-order data, without the FIN.
    fn data_end(&self) -> u64 {
        match self.fin {
            Some(fin) if self.next > fin => fin,
            _ => self.next.max(1),
        }
    }

    /// Accepts payload at `offset`, trimmed to the window, and an optional FIN. `size`: bytes per
    /// segment if receive offload merged several. An acknowledgment may wait until `deadline`, of
    /// segments out of order as `joined_by` says.
    pub(super) fn accept(
        &mut self,
        offset: u64,
        (payload, size): (&[u8], u64),
        fin: bool,
        (deadline, joined_by): (Instant, Option<Joined>),
    ) -> Accepted {
        let (before, next) = (self.data_end(), self.next);
        let end = offset + payload.len() as u64;
        // A FIN below what was received in order contradicts what the peer sent before.
        if fin && (self.next..=self.edge).contains(&end) && self.fin.is_none() {
            self.fin = Some(end);
        }
        // Nothing exists past the FIN, and nothing may be stored past the window we advertised.
        let limit = self.fin.unwrap_or(u64::MAX).min(self.edge);
        let range = offset.max(self.next)..end.min(limit);
        self.note_duplicate(offset..end);
        let in_order = offset <= self.next;
        let crowds = self.crowds(&range);
        self.peer_segment = self.peer_segment.max(size);
        self.keep_until = deadline + KEEP;
        if payload.len() as u64 * 2 > self.peer_segment {
            // A division is dear, and one segment is the rule.
            let len = payload.len() as u64;
            let segments = if len < 2 * self.peer_segment {
                1
            } else {
                len / self.peer_segment
            };
            let wider = (self.window + 2 * self.peer_segment * segments).min(self.capacity);
            // A peer that fills a window which still opens is in slow start: it needs each step at
            // once (Linux's `tcp_grow_window`).
            if wider > self.window {
                self.quick |= 1;
            }
            self.window = wider;
        }
        if !range.is_empty() && (in_order || self.ahead.len() < MAX_RANGES) {
            self.store(range, &payload[(offset.max(self.next) - offset) as usize..]);
        }
        let filled_gap = self.advance();
        if self.next > next {
            self.answers.repeated = 0;
        }
        if in_order || fin || crowds || self.duplicate.is_some() || !self.joins(joined_by) {
            let plain = in_order && !filled_gap && !fin && !payload.is_empty();
            self.owe(plain, deadline);
        }
        self.totals.bytes_received += self.next - next;
        let finished = self.finished();
        let readable = self.data_end() > before || finished;
        Accepted {
            wakes_reader: readable && std::mem::take(&mut self.wants_data),
            finished,
        }
    }

    /// Text at the offsets `range` has arrived. What of it was there before is to be told the peer
    /// (RFC 2883).
    pub(super) fn note_duplicate(&mut self, range: Range<u64>) {
        let known = if range.start < self.next {
            Some(range.start..range.end.min(self.next))
        } else {
            self.ahead
                .first_above(range.start)
                .map(|held| range.start.max(held.start)..range.end.min(held.end))
        };
        if let Some(known) = known.filter(|known| !known.is_empty()) {
            self.duplicate = Some(Box::new(known));
        }
    }

    /// SACK blocks, or the report of a duplicate, wait for an acknowledgment.
    pub(super) fn has_reports(&self) -> bool {
        !self.ahead.is_empty() || self.duplicate.is_some()
    }

    /// Writes the bytes of `range` that are not yet there.
    fn store(&mut self, range: Range<u64>, bytes: &[u8]) {
        let Self {
            bytes: pages,
            next,
            ahead,
            recent,
            ..
        } = self;
        if range.start == *next && ahead.is_empty() {
            // The common case: the next bytes of the stream, nothing beyond them.
            pages.write(range.start, &bytes[..(range.end - range.start) as usize]);
            *next = range.end;
            return;
        }
        ahead.insert(range.clone(), |new| {
            pages.write(
                new.start,
                &bytes[(new.start - range.start) as usize..(new.end - range.start) as usize],
            );
        });
        if range.start > *next {
            remember(recent, range.start, ahead);
        }
    }

    /// Moves `next` over what has become contiguous. True when a hole was filled that data waited
    /// behind.
    fn advance(&mut self) -> bool {
        let mut filled = false;
        if let Some(first) = self.ahead.first().filter(|r| r.start <= self.next).cloned() {
            self.next = self.next.max(first.end);
            self.ahead.remove_below(self.next);
            filled = true;
        }
        if self.fin == Some(self.next) {
            self.next += 1;
        }
        filled
    }

    /// Joined acknowledgments leave now: `range` touches neither of the two latest SACK blocks, and
    /// an option that has many blocks to report omits some (Linux `tcp_sack_compress_send_ack`, called
    /// above `TCP_SACK_BLOCKS_EXPECTED`).
    fn crowds(&self, range: &Range<u64>) -> bool {
        self.answers.joined > 0
            && self
                .sack_blocks()
                .take(EXPECTED_BLOCKS)
                .filter(|block| range.start > block.end || range.end < block.start)
                .count()
                == EXPECTED_BLOCKS
    }

    /// The acknowledgment of a segment beyond a hole waits for others (Linux
    /// `__tcp_ack_snd_check`), but for the first three of the hole, which prove a loss, and while every
    /// segment is acknowledged at once.
    fn joins(&mut self, joined: Option<Joined>) -> bool {
        let Some(Joined { most, by }) = joined.filter(|_| self.quick == 0) else {
            return false;
        };
        if self.answers.repeated < REPEATED {
            self.answers.repeated += 1;
            return false;
        }
        if self.answers.joined >= most || self.acknowledgment == Acknowledgment::Now {
            return false;
        }
        self.answers.joined += 1;
        self.acknowledgment = match self.acknowledgment {
            Acknowledgment::By(deadline) => Acknowledgment::By(deadline.min(by)),
            _ => Acknowledgment::By(by),
        };
        true
    }

    /// Joined acknowledgments wait to be sent: they report SACK blocks, which no data carries.
    pub(super) fn has_joined(&self) -> bool {
        self.answers.joined > 0
    }

    /// Notes an acknowledgment: at once for anything but plain in-order data, else every second
    /// segment.
    fn owe(&mut self, plain: bool, deadline: Instant) {
        let unacknowledged = self.next - self.acknowledged.min(self.next);
        let at_once = !plain || self.quick > 0 || unacknowledged >= 2 * self.peer_segment;
        self.acknowledgment = match self.acknowledgment {
            _ if at_once => Acknowledgment::Now,
            Acknowledgment::None => Acknowledgment::By(deadline),
            owed => owed,
        };
    }

    /// Offset acknowledged last.
    pub(super) fn acknowledged_up_to(&self) -> u64 {
        self.acknowledged
    }

    /// The next `segments` segments are acknowledged at once.
    pub(super) fn acknowledge_quickly(&mut self, segments: u32) {
        self.quick = self.quick.max(segments);
    }

    /// An acknowledgment is owed now. For the caller an arrival, which [allows
    /// answers](Self::allow_answers): nothing wakes one that may not leave.
    pub(super) fn owe_now(&mut self) {
        self.acknowledgment = Acknowledgment::Now;
    }

    /// The acknowledgment owed.
    pub(super) fn owed(&self) -> Acknowledgment {
        self.acknowledgment
    }

    /// A delayed acknowledgment whose time has come is owed now. True if there was one.
    pub(super) fn on_deadline(&mut self, now: Instant) -> bool {
        let due = matches!(self.acknowledgment, Acknowledgment::By(deadline) if deadline <= now);
        if due {
            self.allow_answers();
            self.owe_now();
        }
        due
    }

    /// Something happened that pure acknowledgments may answer.
    pub(super) fn allow_answers(&mut self) {
        self.answers.left = ANSWERS;
    }

    /// An acknowledgment is owed now, and may leave alone: it need not wait for data.
    pub(super) fn may_acknowledge_now(&self) -> bool {
        self.acknowledgment == Acknowledgment::Now && self.may_answer()
    }

    /// A pure acknowledgment may leave.
    pub(super) fn may_answer(&self) -> bool {
        self.answers.left > 0
    }

    /// A pure acknowledgment leaves.
    pub(super) fn spend_answer(&mut self) {
        self.answers.left = self.answers.left.saturating_sub(1);
    }

    /// A segment with our current acknowledgment number and window left.
    pub(super) fn acknowledged(&mut self) {
        self.acknowledgment = Acknowledgment::None;
        self.acknowledged = self.next;
        self.answers.joined = 0;
        self.duplicate = None;
        self.quick = self.quick.saturating_sub(1);
    }

    /// The window to advertise, in units of `1 << scale` bytes.
    ///
    /// The right edge must not move left (RFC 9293 §3.8.6.2.1), so the value is rounded up where
    /// rounding down would, but never past the first unit beyond the buffer: else it would creep
    /// with every byte that arrives. Whatever was promised once is accepted, so memory is bounded
    /// by the buffer and one unit. Nor does the edge move right by little: a segment, or half the
    /// buffer, must have become free (RFC 9293 §3.8.6.2.2).
    pub(super) fn advertise(&mut self, scale: u8) -> u16 {
        // In units, rounded up.
        let ceil = |bytes: u64| (bytes >> scale) + u64::from(bytes & ((1 << scale) - 1) != 0);
        let end = (self.read + self.window).max(self.next);
        let promised = self.edge.max(self.next);
        let worthwhile = end.saturating_sub(promised) >= self.peer_segment.min(self.window / 2);
        let offered = if worthwhile {
            (end - self.next) >> scale
        } else {
            0
        };
        let units = offered
            .max(ceil(promised - self.next))
            .min(ceil(end - self.next));
        let units = units.min(u64::from(u16::MAX));
        self.edge = self.edge.max(self.next + (units << scale));
        units as u16
    }

    /// Moves bytes to the application.
    pub(super) fn read(&mut self, out: &mut [u8]) -> usize {
        let count = out.len().min(self.readable());
        self.bytes.read(self.read, &mut out[..count]);
        self.read += count as u64;
        self.bytes.release_below(self.read);
        count
    }

    /// It holds enough when memory is short to refuse what arrives at `offset`. What is in order and
    /// what the application will read at once always has some room, or nothing would ever move again.
    pub(super) fn holds_enough(&self, offset: u64) -> bool {
        let held = if offset <= self.next {
            self.readable()
        } else {
            self.memory()
        };
        held >= LEAST_RECEIVE
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.memory() + self.ahead.memory()
    }

    /// Drops everything that nobody has read.
    pub(super) fn clear(&mut self) {
        self.bytes.release_all();
        self.ahead = RangeSet::default();
        self.recent = [None; SACK_BLOCKS];
        self.read = self.data_end();
    }

    /// When a connection on which nothing arrives any more gives its memory back; `None` while it
    /// holds data, or none.
    pub(super) fn release_at(&self) -> Option<Instant> {
        let holds = !self.bytes.is_empty() || self.sizing.is_some();
        (self.readable() == 0 && self.ahead.is_empty() && holds).then_some(self.keep_until)
    }

    /// Gives the memory back if its time has come.
    pub(super) fn release_memory(&mut self, now: Instant) {
        if self.release_at().is_some_and(|at| at <= now) {
            self.bytes.release_all();
            self.sizing = None;
        }
    }

    /// The application has read: the peer should know if that opened the window so much that it at
    /// least doubled, by two segments or half the buffer (silly-window avoidance, RFC 9293
    /// §3.8.6.2.2).
    pub(super) fn announce_window(&mut self, scale: u8) {
        if self.window_reopened(scale) && !self.finished() {
            self.allow_answers();
            self.owe_now();
        }
    }

    fn window_reopened(&self, scale: u8) -> bool {
        let expressible = u64::from(u16::MAX) << scale;
        let free = self
            .window
            .saturating_sub(self.data_end() - self.read)
            .min(expressible);
        let usable = self.edge.saturating_sub(self.next);
        let gain = free.saturating_sub(usable);
        gain >= (2 * self.peer_segment).min(self.window / 2).max(1) && free >= 2 * usable
    }

    /// Blocks to report to the peer: duplicate data first, then the block that holds it and other
    /// SACK blocks (RFC 2883 §4).
    pub(super) fn reports(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.duplicate
            .as_deref()
            .cloned()
            .into_iter()
            .chain(self.sack_blocks())
    }

    /// SACK blocks, most recent first (RFC 2018 §4).
    pub(super) fn sack_blocks(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.recent
            .iter()
            .flatten()
            .filter_map(|offset| self.ahead.containing(offset.get()))
    }

    /// Its part of [`TcpInfo`].
    pub(super) fn fill(&self, info: &mut TcpInfo, now: Instant) {
        let totals = &self.totals;
        info.bytes_received = totals.bytes_received;
        info.segments_in = totals.segments_in;
        info.data_segments_in = totals.data_segments_in;
        info.last_received = (totals.data_segments_in > 0).then(|| now - totals.data_received_at);
        info.peer_mss = Bytes::new(self.peer_segment);
        info.receive_window = Bytes::new(self.edge.saturating_sub(self.next));
        info.out_of_order = self.ahead.len();
        info.receive_space = Bytes::new(self.capacity);
        info.receive_rtt = self.rtt();
    }
}

/// Puts `offset` first, and keeps only offsets that name different ranges.
fn remember(recent: &mut [Option<NonZeroU64>; SACK_BLOCKS], offset: u64, ahead: &RangeSet) {
    let mut kept = [None; SACK_BLOCKS];
    kept[0] = NonZeroU64::new(offset);
    let mut len = 1;
    let mut seen = [const { None }; SACK_BLOCKS];
    seen[0] = ahead.containing(offset);
    for old in recent.iter().flatten() {
        let range = ahead.containing(old.get());
        if len < SACK_BLOCKS && range.is_some() && !seen.contains(&range) {
            kept[len] = Some(*old);
            seen[len] = range;
            len += 1;
        }
    }
    *recent = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LATER: Instant = Instant::from_secs(9);

    /// Merged segments count as the segments they are: the unit of acknowledgments and windows
    /// stays one of them, and one acknowledgment answers for all.
    #[test]
    fn segments_that_come_as_one_are_acknowledged_once() {
        let mut receiver = receiver(1 << 20);
        receiver.quick = 0;
        for (len, owed) in [
            (1000, Acknowledgment::By(LATER)),
            (10_000, Acknowledgment::Now),
            (999, Acknowledgment::By(LATER)),
        ] {
            receiver.accept(
                receiver.next(),
                (&vec![7; len], 1000.min(len as u64)),
                false,
                (LATER, None),
            );
            assert_eq!(
                (receiver.peer_segment, receiver.owed()),
                (1000, owed),
                "{len}"
            );
            if owed == Acknowledgment::Now {
                receiver.acknowledged();
            }
        }
    }

    /// Text of one segment.
    fn whole(payload: &[u8]) -> (&[u8], u64) {
        (payload, payload.len() as u64)
    }

    fn receiver(capacity: u64) -> Receiver {
        let mut receiver = Receiver::new(capacity, capacity);
        receiver.synchronized();
        receiver.advertise(0);
        receiver
    }

    fn byte(offset: u64) -> u8 {
        (offset * 7 % 251) as u8
    }

    fn text(range: Range<u64>) -> Vec<u8> {
        range.map(byte).collect()
    }

    proptest! {
        #[test]
        fn any_order_of_overlapping_segments_yields_the_stream(
            segments in prop::collection::vec((1u64..600, 1u64..80), 1..80),
            reads in prop::collection::vec(0usize..200, 80),
            scale in 0u8..4,
        ) {
            let mut receiver = receiver(256);
            let mut read: Vec<u8> = Vec::new();
            for ((start, len), want) in segments.into_iter().chain((1..600).step_by(37).map(|s| (s, 40))).zip(reads.iter().cycle()) {
                receiver.accept(start, whole(&text(start..start + len)), false, (LATER, None));
                let mut out = vec![0; *want];
                let got = receiver.read(&mut out);
                read.extend(&out[..got]);
                let edge = receiver.edge();
                receiver.advertise(scale);
                prop_assert!(receiver.edge() >= edge, "the right edge never moves left");
                prop_assert!(receiver.bytes.memory() <= 8 * 64 + 32 * 8, "memory is bounded by the window");
                for block in receiver.sack_blocks() {
                    prop_assert!(block.start > receiver.next() && block.end <= receiver.edge());
                }
            }
            prop_assert_eq!(&read, &text(1..1 + read.len() as u64));
        }
    }

    #[test]
    fn fin_is_taken_in_order_and_nothing_after_it() {
        let mut receiver = receiver(100);
        assert_eq!(
            receiver.accept(11, whole(&text(11..21)), true, (LATER, None)),
            Accepted {
                wakes_reader: false,
                finished: false
            }
        );
        assert_eq!(
            receiver.accept(21, whole(b"after the end"), false, (LATER, None)),
            Accepted::default()
        );
        assert_eq!(
            receiver.accept(1, whole(&text(1..11)), false, (LATER, None)),
            Accepted {
                wakes_reader: true,
                finished: true
            }
        );
        assert_eq!(receiver.next(), 22);
        let mut out = [0; 64];
        assert_eq!(receiver.read(&mut out), 20);
        assert!(receiver.finished() && receiver.readable() == 0);
    }

    #[test]
    fn a_fin_below_what_was_received_is_ignored() {
        let mut receiver = receiver(100);
        receiver.accept(1, whole(&text(1..21)), false, (LATER, None));
        receiver.read(&mut [0; 20]);
        for end in [0, 1, 5, 20] {
            assert_eq!(
                receiver.accept(end, whole(&[]), true, (LATER, None)),
                Accepted::default(),
                "FIN at {end}"
            );
            assert_eq!(receiver.readable(), 0);
        }
        assert!(
            receiver
                .accept(21, whole(&[]), true, (LATER, None))
                .finished
        );
    }

    #[test]
    fn the_first_copy_of_a_byte_wins() {
        let mut receiver = receiver(100);
        receiver.accept(3, whole(b"cd"), false, (LATER, None));
        receiver.accept(1, whole(b"abXY"), false, (LATER, None));
        let mut out = [0; 4];
        assert_eq!(receiver.read(&mut out), 4);
        assert_eq!(&out, b"abcd");
    }

    /// A segment at the far end of the window costs the pages it lies in and their table, not the
    /// window.
    #[test]
    fn memory_goes_with_what_has_arrived() {
        let mut receiver = receiver(1 << 20);
        receiver.advertise(5);
        assert_eq!(receiver.bytes.memory(), 0);
        let far = (1 << 20) - 200;
        receiver.accept(far, whole(&text(far..far + 100)), false, (LATER, None));
        assert_eq!(receiver.out_of_order(), 1);
        let table = (1 << 20) / 64 * size_of::<usize>();
        // And the 64 bytes that say where both are.
        assert!(
            receiver.bytes.memory() <= 3 * 64 + 2 * table + 64,
            "{}",
            receiver.bytes.memory()
        );
        // What was missing arrives: the far bytes are there.
        receiver.accept(1, whole(&text(1..far)), false, (LATER, None));
        let mut out = vec![0; 1 << 20];
        assert_eq!(receiver.read(&mut out) as u64, far + 99);
        assert_eq!(out[..far as usize + 99], text(1..far + 100));
    }

    #[test]
    fn a_quiet_connection_holds_no_memory() {
        let mut receiver = receiver(1 << 20);
        assert_eq!(receiver.release_at(), None);
        receiver.accept(1, whole(&text(1..5001)), false, (LATER, None));
        assert_eq!(receiver.release_at(), None, "there is something to read");
        receiver.release_memory(LATER + KEEP);
        receiver.read(&mut [0; 5000]);
        let at = receiver.release_at().expect("there is memory");
        receiver.release_memory(at - Duration::from_nanos(1));
        assert!(receiver.bytes.memory() >= 5000, "what comes next finds it");
        receiver.release_memory(at);
        assert_eq!((receiver.bytes.memory(), receiver.release_at()), (0, None));
        // Not even the page that was begun.
        receiver.accept(5001, whole(&text(5001..5002)), false, (LATER, None));
        receiver.read(&mut [0; 1]);
        receiver.release_memory(receiver.release_at().expect("there is memory"));
        assert_eq!(receiver.bytes.memory(), 0);
        // Out-of-order data is no silence.
        receiver.accept(6001, whole(&text(6001..6101)), false, (LATER, None));
        assert_eq!(receiver.release_at(), None);
        receiver.accept(5002, whole(&text(5002..6001)), false, (LATER, None));
        let mut out = [0; 1200];
        assert_eq!(receiver.read(&mut out), 1099);
        assert_eq!(out[..1099], text(5002..6101));
    }

    #[test]
    fn every_second_byte_is_bounded() {
        let mut receiver = receiver(1 << 20);
        for i in 0..10_000 {
            receiver.accept(3 + 2 * i, whole(b"x"), false, (LATER, None));
        }
        assert_eq!(receiver.out_of_order(), MAX_RANGES);
    }

    #[test]
    fn sack_reports_the_latest_first() {
        let mut receiver = receiver(1000);
        for start in [10, 30, 50, 70] {
            receiver.accept(start, whole(&text(start..start + 5)), false, (LATER, None));
        }
        receiver.accept(35, whole(&text(35..40)), false, (LATER, None));
        let blocks: Vec<_> = receiver.sack_blocks().collect();
        assert_eq!(blocks, [30..40, 70..75, 50..55, 10..15]);
    }

    #[test]
    fn acknowledges_every_second_full_segment_after_the_quick_start() {
        let mut receiver = receiver(1 << 20);
        receiver.quick = 0;
        receiver.acknowledged();
        let segment = vec![0; 1448];
        receiver.accept(1, whole(&segment), false, (LATER, None));
        assert_eq!(receiver.owed(), Acknowledgment::By(LATER));
        receiver.on_deadline(Instant::ZERO);
        assert_eq!(receiver.owed(), Acknowledgment::By(LATER));
        receiver.on_deadline(LATER);
        assert_eq!(receiver.owed(), Acknowledgment::Now);
        receiver.acknowledged();
        for start in [1449, 2897] {
            receiver.accept(start, whole(&segment), false, (LATER, None));
        }
        assert_eq!(receiver.owed(), Acknowledgment::Now);
    }

    #[test]
    fn every_segment_is_acknowledged_while_the_window_opens() {
        let acknowledgments = |start: u64| {
            let mut receiver = Receiver::new(start, 100_000);
            receiver.synchronized();
            receiver.quick = 0;
            receiver.capacity = 40_000;
            receiver.advertise(0);
            let mut count = 0;
            for segment in 0..20 {
                receiver.accept(1 + segment * 1000, whole(&[7; 1000]), false, (LATER, None));
                if receiver.owed() == Acknowledgment::Now {
                    receiver.acknowledged();
                    count += 1;
                }
            }
            count
        };
        // Ten steps of two segments from 20 000 to 40 000; then every second segment.
        assert_eq!((acknowledgments(20_000), acknowledgments(40_000)), (15, 10));
    }

    #[test]
    fn the_window_is_reopened_when_it_doubles() {
        let mut receiver = receiver(10_000);
        receiver.peer_segment = 1000;
        for segment in 0..10 {
            receiver.accept(1 + segment * 1000, whole(&[1; 1000]), false, (LATER, None));
        }
        receiver.advertise(0);
        assert!(!receiver.window_reopened(0));
        receiver.read(&mut [0; 1999]);
        assert!(!receiver.window_reopened(0));
        receiver.read(&mut [0; 1]);
        assert!(receiver.window_reopened(0));
        // More than 16 bits can say is no news.
        let mut large = self::receiver(1 << 20);
        large.accept(1, whole(&[1; 1000]), false, (LATER, None));
        large.advertise(0);
        large.read(&mut [0; 1000]);
        assert!(!large.window_reopened(0));
    }

    #[test]
    fn what_arrived_twice_is_reported_first_and_once() {
        let mut receiver = receiver(1000);
        receiver.accept(1, whole(&text(1..51)), false, (LATER, None));
        receiver.accept(101, whole(&text(101..151)), false, (LATER, None));
        receiver.accept(201, whole(&text(201..251)), false, (LATER, None));
        assert!(receiver.duplicate.is_none());
        // Below what is acknowledged, wholly and in part; above a hole, beside the block that holds
        // it; beyond what is there.
        for (range, blocks) in [
            (11..31, vec![11..31, 201..251, 101..151]),
            (31..61, vec![31..51, 201..251, 101..151]),
            (111..131, vec![111..131, 101..151, 201..251]),
            (241..261, vec![241..251, 201..261, 101..151]),
        ] {
            receiver.accept(range.start, whole(&text(range)), false, (LATER, None));
            assert_eq!(receiver.owed(), Acknowledgment::Now);
            assert_eq!(receiver.reports().collect::<Vec<_>>(), blocks);
            receiver.acknowledged();
            assert_eq!(receiver.reports().collect::<Vec<_>>(), blocks[1..]);
        }
    }

    #[test]
    fn the_window_follows_what_is_read_and_opens_by_what_arrives() {
        let mut receiver = Receiver::new(10_000, 100_000);
        receiver.synchronized();
        receiver.advertise(0);
        let mut edge = receiver.edge();
        assert_eq!(edge, 10_001);
        let mut offset = 1;
        for round in 1u32..=10 {
            let now = Instant::from_millis(20 * u64::from(round));
            while offset + 1000 <= edge {
                receiver.right_size(
                    100_000,
                    now,
                    (1000, 1000),
                    Some((round, Duration::from_millis(20))),
                );
                receiver.accept(offset, whole(&[7; 1000]), false, (LATER, None));
                offset += 1000;
            }
            while receiver.read(&mut [0; 9000]) > 0 {}
            receiver.advertise(0);
            assert!(receiver.edge() >= edge, "the right edge never moves left");
            assert!(receiver.edge() <= offset + receiver.capacity);
            edge = receiver.edge();
        }
        // Ten thousand a round trip are no more than expected: the first flight is ten segments.
        assert_eq!(receiver.capacity, 10_000);
        let mut fast = Receiver::new(30_000, 100_000);
        fast.synchronized();
        fast.advertise(0);
        fast.right_size(
            100_000,
            Instant::ZERO,
            (1000, 1000),
            Some((1, Duration::from_millis(20))),
        );
        for segment in 0..30 {
            fast.accept(1 + segment * 1000, whole(&[7; 1000]), false, (LATER, None));
        }
        while fast.read(&mut [0; 9000]) > 0 {}
        fast.right_size(100_000, Instant::from_secs(1), (1000, 1000), None);
        assert_eq!(fast.capacity, 100_000, "no more than allowed");
        assert_eq!((fast.advertise(0), fast.window), (30_000, 30_000));
        fast.accept(30_001, whole(&[7; 1000]), false, (LATER, None));
        assert_eq!(fast.window, 32_000, "two segments for each that arrives");
    }
}
