//! The receiving half: reassembly (RFC 9293 §3.8.6, RFC 2018; Linux `tcp_data_queue`), beside it the
//! advertised [`window`] and the [schedule of acknowledgments](acks).
//!
//! Bytes are stored at their place in [`Pages`]; a [`RangeSet`] says which are there. The first
//! copy of a byte wins. Memory is bounded by the advertised window whatever the sizes and order of
//! segments, and goes with what has arrived: a segment at the far end of the window costs its page
//! or two. Packets that are kept take less than three times their payload. A connection that is quiet
//! holds none.

mod ack_delay;
mod acks;
mod pages;
mod right_sizing;
#[cfg(test)]
mod tests;
mod window;

use std::num::NonZeroU64;
use std::ops::Range;
use std::time::Duration;

use tautline_base::{Bytes, Instant};

pub(super) use self::ack_delay::Bounds;
use self::ack_delay::Wait;
use self::acks::{AckSchedule, LEAST_QUICK_ACKS, QUICK_ACKS};
pub(super) use self::acks::{Acknowledgment, Compression};
use self::pages::Pages;
use self::right_sizing::BUFFER_SEGMENTS;
pub(crate) use self::window::ReceiveShare;
use self::window::{Charge, ReceiveWindow};
use super::info::TcpInfo;
use crate::config::AckCompression;
use crate::kept_bytes::KeptBytes;
use crate::ranges::RangeSet;
use crate::tcp::ticks::elapsed;
use crate::wire::{SACK_BLOCKS, Segment};

/// Separate holes we keep track of. Beyond it a segment that would create another is refused:
/// memory and time stay bounded when a peer sends every second byte.
const MAX_RANGES: usize = 1024;
/// SACK blocks that compressed acknowledgments may report (Linux `TCP_SACK_BLOCKS_EXPECTED`).
const EXPECTED_BLOCKS: usize = 2;
/// Received data that a connection may always hold.
const LEAST_RECEIVE: usize = 8 << 10;
/// Time for which spare memory is kept, in addition to the acknowledgment delay.
const KEEP: Duration = Duration::from_secs(1);

/// Receive state of a connection.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Bytes from `read` upward, as far as they are there.
    bytes: Pages,
    /// When an idle connection's memory is released.
    keep_until: Instant,
    /// Offset the application has read up to.
    read: u64,
    /// Offset up to which everything has arrived.
    next: u64,
    /// Since the first arrival out of order, until the connection is idle.
    ahead: Option<Box<Ahead>>,
    /// Offset of the peer's FIN, once seen.
    fin: Option<NonZeroU64>,
    /// Offsets that arrived twice since the last acknowledgment (RFC 2883).
    duplicate: Option<Box<Range<u64>>>,
    window: ReceiveWindow,
    pub(super) acks: AckSchedule,
    /// Offset we acknowledged last.
    acknowledged: u64,
    reader: Reader,
    /// [`TcpConfig::receive_charge`](crate::TcpConfig::receive_charge).
    charge: u8,
    /// [`TcpConfig::receive_overhead`](crate::TcpConfig::receive_overhead).
    overhead: u16,
    /// Shift of the windows after our SYN, which the peer may refuse.
    pub(super) offered_scale: u8,
    /// [`TcpConfig::acks_follow_reads`](crate::TcpConfig::acks_follow_reads).
    acks_follow_reads: bool,
    /// [`TcpConfig::size_on_read`](crate::TcpConfig::size_on_read).
    sizes_on_read: bool,
    /// In the host's queue of receivers to examine when memory overflows.
    pub(super) is_listed: bool,
    pub(super) totals: ReceiveTotals,
}

/// Everything received above the next offset expected.
#[derive(Debug, Default)]
struct Ahead {
    ranges: RangeSet,
    /// Latest arrivals, newest first: the order of SACK blocks.
    recent: [Option<NonZeroU64>; SACK_BLOCKS],
}

/// The application, as a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// It has not yet read everything.
    Busy,
    /// It has, and waits for more.
    Waits,
    /// It has shut this half.
    Gone,
}

/// Totals for `info()`.
#[derive(Debug, Default)]
pub(super) struct ReceiveTotals {
    pub(super) bytes_received: u64,
    pub(super) segments_in: u64,
    /// Segments with payload.
    pub(super) data_segments_in: u64,
    /// Time at which payload last arrived, if ever.
    pub(super) data_received_at: Instant,
}

/// The payload of a segment, or of several that were merged.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    bytes: &'a [u8],
    /// The same in memory to keep.
    kept: Option<KeptBytes>,
    /// Bytes per segment.
    size: u64,
    pushed: bool,
}

impl<'a> Incoming<'a> {
    /// The payload of `segment`.
    #[inline]
    pub(super) fn of(segment: &Segment<'a>) -> Self {
        Self {
            bytes: segment.payload,
            kept: segment.kept.map(|packet| packet.part(segment.payload)),
            size: segment.size as u64,
            pushed: segment.psh,
        }
    }
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
    /// A receiver with a buffer of `start` bytes, growing to `most` if the application reads fast.
    pub(super) fn new(start: u64, most: u64) -> Self {
        Self {
            bytes: Pages::default(),
            keep_until: Instant::ZERO,
            read: 1,
            next: 0,
            ahead: None,
            fin: None,
            duplicate: None,
            window: ReceiveWindow::new(start.min(most)),
            acks: AckSchedule::default(),
            acknowledged: 0,
            is_listed: false,
            reader: Reader::Waits,
            charge: 0,
            overhead: 0,
            offered_scale: 0,
            acks_follow_reads: false,
            sizes_on_read: false,
            totals: ReceiveTotals::default(),
        }
    }

    /// Takes `percent` of the bytes unread and out of order off the window, and of the `overhead` of their
    /// buffers.
    pub(super) fn charging(self, percent: u8, overhead: u16) -> Self {
        Self {
            charge: percent,
            overhead,
            ..self
        }
    }

    /// Offers the peer windows in units of `1 << scale` bytes.
    pub(super) fn offering(self, scale: u8) -> Self {
        Self {
            offered_scale: scale,
            ..self
        }
    }

    /// Delays acknowledgments while unread data narrows the window.
    pub(super) fn following_reads(self, acks_follow_reads: bool) -> Self {
        Self {
            acks_follow_reads,
            ..self
        }
    }

    /// Notes which data lie in one buffer, to measure reads by it.
    pub(super) fn sizing_on_read(self, sizes_on_read: bool) -> Self {
        Self {
            sizes_on_read,
            ..self
        }
    }

    /// Data arrived in order from offset `start` to `end`; for the size of the window.
    #[inline]
    fn note_buffer(&mut self, start: u64, end: u64) {
        let segment = self.window.peer_segment();
        if self.sizes_on_read
            && let Some(sizing) = &mut self.window.sizing
        {
            sizing.on_data((start, end, self.next), segment);
        }
    }

    /// Enough has arrived since the last acknowledgment that the next one leaves at once: two
    /// segments (RFC 5681 §4.2), or more than one that lets the window stay as wide as it was offered.
    #[inline]
    fn owes_at_once(&self) -> bool {
        let unacknowledged = self.next - self.acknowledged.min(self.next);
        if self.acks_follow_reads {
            let offered = self.window.edge().saturating_sub(self.acknowledged);
            unacknowledged > self.window.peer_segment()
                && self.window.offer(None, self.charged()) >= offered
        } else {
            unacknowledged >= 2 * self.window.peer_segment()
        }
    }

    /// The memory of unread data, which comes off the window; `None` if the window lies
    /// above the bytes read.
    #[inline]
    fn charged(&self) -> Option<Charge> {
        (self.charge > 0).then(|| Charge {
            bytes: self.charged_bytes(),
            scale: self.offered_scale,
        })
    }

    fn charged_bytes(&self) -> u64 {
        let unread = self.next.saturating_sub(self.read);
        let (ahead, ranges) = self.ahead.as_ref().map_or((0, 0), |ahead| {
            (ahead.ranges.bytes(), ahead.ranges.len() as u64)
        });
        let buffer = BUFFER_SEGMENTS * self.window.peer_segment().max(1);
        // A range is a buffer, and a long one is several.
        let buffers = unread.div_ceil(buffer) + ranges + ahead.saturating_sub(1) / buffer;
        let held = unread + ahead + u64::from(self.overhead) * buffers;
        held * u64::from(self.charge) / 100
    }

    /// The offset above which the window lies.
    fn window_base(&self) -> u64 {
        if self.charge == 0 {
            self.read
        } else {
            self.next
        }
    }

    /// A packet of `segments` segments of `size` bytes arrived with payload.
    pub(super) fn note_payload(
        &mut self,
        (segments, size): (u64, usize),
        bounds: Bounds,
        now: Instant,
    ) {
        let totals = &self.totals;
        if bounds.silence.is_some_and(|silence| {
            totals.data_segments_in == 0
                || elapsed(totals.data_received_at, now, bounds.tick) > silence
        }) {
            self.acknowledge_quickly(size);
        }
        self.totals.data_segments_in += segments;
        self.totals.data_received_at = now;
    }

    /// A segment of `size` bytes arrived, and the peer needs acknowledgments: the next ones leave at
    /// once, until half of the offered window has come (Linux `tcp_incr_quickack`). A sender that fills
    /// a small window sooner is held back by the window, not by its acknowledgments.
    pub(super) fn acknowledge_quickly(&mut self, size: usize) {
        let offered = self.edge().saturating_sub(self.next);
        let segments = match offered / (2 * self.window.peer_segment().max(size as u64)) {
            0 => LEAST_QUICK_ACKS,
            half => u8::try_from(half).map_or(QUICK_ACKS, |half| half.min(QUICK_ACKS)),
        };
        self.acks.acknowledge_quickly(segments);
    }

    /// Bounds for compressing acknowledgments of segments out of order. `srtt`: the sender's
    /// smoothed round-trip time, zero before the first sample.
    pub(super) fn compression(
        &self,
        rule: AckCompression,
        srtt: Duration,
        now: Instant,
    ) -> Compression {
        let srtt = Some(srtt).filter(|srtt| !srtt.is_zero());
        let rtt = self.window.rtt().into_iter().chain(srtt).min();
        let part = rtt.unwrap_or_default() * u32::from(rule.rtt_percent) / 100;
        Compression {
            most: rule.most,
            by: now + part.min(rule.delay) + rule.slack,
        }
    }

    /// The application waits for no more.
    pub(super) fn shut(&mut self) {
        self.reader = Reader::Gone;
    }

    /// The application has shut this half.
    pub(super) fn is_shut(&self) -> bool {
        self.reader == Reader::Gone
    }

    /// True if the application waits; it does no longer.
    fn wake_reader(&mut self) -> bool {
        let waits = self.reader == Reader::Waits;
        if waits {
            self.reader = Reader::Busy;
        }
        waits
    }

    /// The application waits for data.
    pub(super) fn wait_for_data(&mut self) {
        if self.reader == Reader::Busy {
            self.reader = Reader::Waits;
        }
    }

    /// The peer's SYN has arrived: offset 1 is next.
    pub(super) fn synchronized(&mut self) {
        self.next = 1;
    }

    /// The next offset expected, FIN included.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The peer agrees to windows in units of `1 << scale` bytes, and may send segments of `segment` bytes. Where
    /// unread data comes off the window, one of them does, too, until the buffer has grown.
    pub(super) fn agreed(&mut self, scale: u8, segment: u32) {
        self.offered_scale = scale;
        if self.charge > 0 {
            self.window.reserve(segment);
        }
    }

    /// Right edge of the advertised window.
    pub(super) fn edge(&self) -> u64 {
        self.window.edge()
    }

    /// The `len` numbers from `offset` lie in the receive window, leniently at the left as Linux
    /// does: whatever ends at or after what we last acknowledged may still carry a fresh
    /// acknowledgment.
    pub(super) fn accepts(&self, offset: u64, len: u64) -> bool {
        let right = self.edge().max(self.next);
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

    /// The offset of the first byte that the application has not read, if there is one.
    pub(super) fn unread_from(&self) -> Option<u64> {
        (self.readable() > 0).then_some(self.read)
    }

    /// The peer's FIN arrived in order.
    pub(super) fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin.get())
    }

    /// The buffer grows no further.
    #[inline]
    pub(super) fn has_grown_to(&self, most: u64) -> bool {
        self.window.capacity >= most
    }

    /// Changes the size of the buffer. A window that was offered stays.
    pub(super) fn set_capacity(&mut self, capacity: u64) {
        self.window.capacity = capacity;
        self.window.shrink(self.window_base());
    }

    /// `len` bytes arrive: the buffer follows what the application reads of the peer's segments of
    /// `mss` bytes, up to `most`. `echo`: our timestamp that they echo, sent so long ago.
    pub(super) fn right_size(
        &mut self,
        (most, on_read): (u64, Option<u64>),
        now: Instant,
        lens: (u64, u64),
        echo: Option<(u32, Duration)>,
    ) {
        let at = (self.read, self.readable() as u64, self.next);
        self.window.right_size((most, on_read), at, lens, echo, now);
    }

    /// Separate ranges held above a hole.
    pub(super) fn out_of_order(&self) -> usize {
        self.ahead.as_ref().map_or(0, |ahead| ahead.ranges.len())
    }

    /// Nothing is held above a hole.
    #[inline]
    fn is_without_holes(&self) -> bool {
        self.ahead
            .as_ref()
            .is_none_or(|ahead| ahead.ranges.is_empty())
    }

    /// End of in-order data, without the FIN.
    fn data_end(&self) -> u64 {
        match self.fin {
            Some(fin) if self.next > fin.get() => fin.get(),
            _ => self.next.max(1),
        }
    }

    /// Accepts payload at `offset`, trimmed to the window, and an optional FIN. An acknowledgment may be
    /// delayed as `wait` says; for segments out of order, within the bounds of `compression`.
    pub(super) fn accept(
        &mut self,
        offset: u64,
        payload: Incoming<'_>,
        fin: bool,
        (wait, compression): (Wait, Option<Compression>),
    ) -> Accepted {
        let (before, next) = (self.data_end(), self.next);
        let len = payload.bytes.len() as u64;
        let end = offset + len;
        // A FIN below what was received in order contradicts what the peer sent before.
        if fin && (self.next..=self.edge()).contains(&end) && self.fin.is_none() {
            self.fin = NonZeroU64::new(end);
        }
        // Nothing exists past the FIN, and nothing may be stored past the window we advertised.
        let limit = self.fin.map_or(u64::MAX, NonZeroU64::get).min(self.edge());
        let range = offset.max(self.next)..end.min(limit);
        self.note_duplicate(offset..end);
        let in_order = offset <= self.next;
        self.acks.note_push(payload.pushed && in_order);
        let crowds = self.crowds(&range);
        self.keep_until = wait.deadline + KEEP;
        let charged = self.charged();
        self.window.note_segment(payload.size);
        if !range.is_empty() && (in_order || self.out_of_order() < MAX_RANGES) {
            let kept = payload.kept.filter(|_| range == (offset..end));
            let fresh = &payload.bytes[(offset.max(self.next) - offset) as usize..];
            self.store(range.clone(), fresh, kept);
        }
        let is_new_block = self.duplicate.is_none() && self.sack_blocks().next() == Some(range);
        self.acks.omits_last = crowds && is_new_block;
        let filled_gap = self.advance();
        if self.next > next {
            self.acks.on_progress();
            self.note_buffer(next, end.clamp(next, self.next));
        }
        // Linux's window opens before data beyond a hole takes its memory (`tcp_data_queue_ofo`).
        let charged = if in_order { self.charged() } else { charged };
        if self.window.open_by(len, charged) {
            self.acks.acknowledge_next();
        }
        if in_order || fin || crowds || self.duplicate.is_some() || !self.acks.compress(compression)
        {
            // At once for anything but plain in-order data that was taken whole, else every second
            // segment. Data that a closed window refuses is a probe, and its sender waits.
            let plain = in_order && !filled_gap && !fin && len > 0 && end <= limit;
            self.acks.owe(!plain || self.owes_at_once(), wait);
        }
        self.totals.bytes_received += self.next - next;
        let finished = self.finished();
        let readable = self.data_end() > before || finished;
        Accepted {
            wakes_reader: readable && self.wake_reader(),
            finished,
        }
    }

    /// The `len` bytes that come next, with nothing beyond them, can be [accepted](Self::accept_next).
    #[inline]
    pub(super) fn takes_next(&self, len: usize) -> bool {
        self.is_without_holes()
            && self.duplicate.is_none()
            && self.fin.is_none()
            && self.next > 0
            && self.next + len as u64 <= self.edge()
    }

    /// [`accept`](Self::accept) for payload that [can be taken](Self::takes_next), at the next offset.
    /// True if the application waits for it.
    #[inline]
    pub(super) fn accept_next(&mut self, payload: Incoming<'_>, wait: Wait) -> bool {
        let len = payload.bytes.len() as u64;
        self.keep_until = wait.deadline + KEEP;
        self.window.note_segment(payload.size);
        self.bytes
            .write_or_keep(self.next, payload.bytes, payload.kept);
        self.next += len;
        self.note_buffer(self.next - len, self.next);
        // The segment has taken its memory when Linux's window opens (`tcp_event_data_recv`).
        let charged = self.charged();
        if self.window.open_by(len, charged) {
            self.acks.acknowledge_next();
        }
        self.acks.note_push(payload.pushed);
        self.acks.on_progress();
        self.acks.owe(self.owes_at_once(), wait);
        self.totals.bytes_received += len;
        self.wake_reader()
    }

    /// Payload at the offsets `range` has arrived. The part received before is reported with D-SACK
    /// (RFC 2883).
    pub(super) fn note_duplicate(&mut self, range: Range<u64>) {
        let known = if range.start < self.next {
            Some(range.start..range.end.min(self.next))
        } else {
            self.ahead
                .as_ref()
                .and_then(|ahead| ahead.ranges.first_above(range.start))
                .map(|held| range.start.max(held.start)..range.end.min(held.end))
        };
        if let Some(known) = known.filter(|known| !known.is_empty()) {
            self.duplicate = Some(Box::new(known));
        }
    }

    /// SACK blocks, or the report of a duplicate, wait for an acknowledgment.
    pub(super) fn has_reports(&self) -> bool {
        !self.is_without_holes() || self.duplicate.is_some()
    }

    /// Writes the bytes of `range` that are not yet there, or keeps them.
    fn store(&mut self, range: Range<u64>, bytes: &[u8], kept: Option<KeptBytes>) {
        let in_sequence = range.start == self.next && self.is_without_holes();
        let Self {
            bytes: pages,
            next,
            ahead,
            ..
        } = self;
        if in_sequence {
            // The common case: the next bytes of the stream, nothing beyond them.
            let bytes = &bytes[..(range.end - range.start) as usize];
            pages.write_or_keep(range.start, bytes, kept);
            *next = range.end;
            return;
        }
        let Ahead { ranges, recent } = &mut **ahead.get_or_insert_default();
        ranges.insert(range.clone(), |new| {
            pages.write(
                new.start,
                &bytes[(new.start - range.start) as usize..(new.end - range.start) as usize],
            );
        });
        if range.start > *next {
            remember(recent, range.start, ranges);
        }
    }

    /// Moves `next` over what has become contiguous. True when a hole was filled that data waited
    /// behind.
    fn advance(&mut self) -> bool {
        let mut filled = false;
        if let Some(Ahead { ranges, .. }) = self.ahead.as_deref_mut()
            && let Some(first) = ranges.first().filter(|r| r.start <= self.next)
        {
            self.next = self.next.max(first.end);
            ranges.remove_below(self.next);
            filled = true;
        }
        if self.fin.is_some_and(|fin| fin.get() == self.next) {
            self.next += 1;
        }
        filled
    }

    /// Compressed acknowledgments leave now: `range` touches neither of the two latest SACK blocks, and
    /// an option that has many blocks to report omits some (Linux `tcp_sack_compress_send_ack`, called
    /// above `TCP_SACK_BLOCKS_EXPECTED`). They report what came before: a block that `range` begins waits for the next
    /// acknowledgment.
    fn crowds(&self, range: &Range<u64>) -> bool {
        self.acks.has_compressed()
            && self
                .sack_blocks()
                .take(EXPECTED_BLOCKS)
                .filter(|block| range.start > block.end || range.end < block.start)
                .count()
                == EXPECTED_BLOCKS
    }

    /// Offset acknowledged last.
    pub(super) fn acknowledged_up_to(&self) -> u64 {
        self.acknowledged
    }

    /// A segment with our current acknowledgment number and window left.
    pub(super) fn acknowledged(&mut self) {
        self.acks.sent();
        self.acknowledged = self.next;
        self.duplicate = None;
    }

    /// The window to advertise now, in units of `1 << scale` bytes, of at most `share` bytes.
    pub(super) fn advertise(&mut self, scale: u8, share: Option<ReceiveShare>) -> u16 {
        let at = (self.window_base(), self.next);
        let charge = self.charged().map(|charge| Charge { scale, ..charge });
        if charge.is_some_and(|charge| self.window.is_crowded(charge)) {
            // The peer need not fill it the sooner (`__tcp_select_window`).
            self.acks.quick = 0;
        }
        self.window.advertise(at, scale, (share, charge))
    }

    /// Copies the next bytes, which stay.
    pub(super) fn peek(&self, out: &mut [u8]) -> usize {
        let count = out.len().min(self.readable());
        self.bytes.read(self.read, &mut out[..count]);
        count
    }

    /// The next bytes where they are: all, or as many as are in one place.
    pub(super) fn readable_bytes(&self) -> &[u8] {
        let bytes = self.bytes.part_from(self.read);
        &bytes[..bytes.len().min(self.readable())]
    }

    /// The next bytes with the memory they arrived in, if that is kept.
    pub(super) fn kept_bytes(&self) -> Option<KeptBytes> {
        self.bytes.kept_from(self.read)
    }

    /// The application reads `count` bytes at `now`, at most all.
    pub(super) fn consume(&mut self, count: usize, now: Instant) {
        self.read += count.min(self.readable()) as u64;
        if self.sizes_on_read
            && count > 0
            && let Some(sizing) = &mut self.window.sizing
        {
            sizing.on_read(now);
        }
        self.window.shrink(self.window_base());
        self.bytes.release_below(self.read);
    }

    /// True if it holds enough, when memory is short, to refuse a segment at `offset`. In-order
    /// data that the application can read at once is always accepted, or the connection would
    /// stall.
    pub(super) fn holds_enough(&self, offset: u64) -> bool {
        let held = if offset <= self.next {
            self.readable()
        } else {
            self.memory()
        };
        held >= LEAST_RECEIVE
    }

    /// Memory held, in bytes.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        let ahead = self.ahead.as_ref().map(|ahead| ahead.ranges.memory());
        self.bytes.memory() + ahead.unwrap_or(0)
    }

    /// Discards all unread data. The application must not take that for the end of the stream,
    /// although the peer's FIN may have arrived.
    pub(super) fn clear(&mut self) {
        if self.readable() > 0 {
            self.fin = None;
        }
        self.bytes.release_all();
        self.ahead = None;
        self.read = self.data_end();
    }

    /// Time at which an idle connection releases its memory; `None` while it holds data, or none.
    pub(super) fn release_at(&self) -> Option<Instant> {
        let holds = !self.bytes.is_empty() || self.window.sizing.is_some() || self.ahead.is_some();
        (self.readable() == 0 && self.is_without_holes() && holds).then_some(self.keep_until)
    }

    /// Gives the memory back if its time has come, else what was not needed since the last call.
    pub(super) fn release_memory(&mut self, now: Instant) {
        if self.release_at().is_some_and(|at| at <= now) {
            self.bytes.release_all();
            self.window.sizing = None;
            self.ahead = None;
        } else {
            self.bytes.trim();
        }
    }

    /// The application has read: an acknowledgment tells the peer if that opened the window far, or if
    /// it waited for that.
    pub(super) fn announce_window(&mut self, scale: u8, share: Option<ReceiveShare>) {
        let unread = match self.charge {
            0 => self.readable() as u64,
            _ => 0,
        };
        let bounds = (share, self.charged());
        let waits = self.acks_follow_reads
            && matches!(self.acks.owed(), Acknowledgment::By(_))
            && (self.next.saturating_sub(self.acknowledged) > self.window.peer_segment()
                || self.acks.delays_push() && self.readable() == 0);
        let reopened = self.window.has_reopened((unread, self.next), scale, bounds);
        if (waits || reopened) && !self.finished() {
            self.acks.allow_answers();
            self.acks.owe_now();
        }
    }

    /// Blocks to report to the peer: duplicate data first, then the block that holds it and other
    /// SACK blocks (RFC 2883 §4).
    pub(super) fn reports(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.duplicate
            .as_deref()
            .cloned()
            .into_iter()
            .chain(self.sack_blocks().skip(usize::from(self.acks.omits_last)))
    }

    /// SACK blocks, most recent first (RFC 2018 §4).
    pub(super) fn sack_blocks(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ahead.iter().flat_map(|ahead| {
            let recent = ahead.recent.iter().flatten();
            recent.filter_map(|offset| ahead.ranges.containing(offset.get()))
        })
    }

    /// Its part of [`TcpInfo`].
    pub(super) fn fill(&self, info: &mut TcpInfo, now: Instant) {
        let totals = &self.totals;
        info.bytes_received = totals.bytes_received;
        info.segments_in = totals.segments_in;
        info.data_segments_in = totals.data_segments_in;
        info.last_received = (totals.data_segments_in > 0).then(|| now - totals.data_received_at);
        info.peer_mss = Bytes::new(self.window.peer_segment());
        info.unread = Bytes::new(self.readable() as u64);
        info.receive_window = Bytes::new(self.edge().saturating_sub(self.next));
        info.out_of_order = self.out_of_order();
        info.receive_space = Bytes::new(self.window.capacity);
        info.receive_rtt = self.window.rtt();
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
