//! [`Stream`]: the data written by the application, its end, and the part that the peer's window
//! admits. [`Flight`](super::flight::Flight) tracks the part that was sent.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;

use tautline_base::Bytes;

use super::buffer::SendBuffer;
use super::plan::{Kind, Plan};
use crate::config::TcpConfig;
use crate::wire::Payload;

/// The outgoing stream. Offset 0 is the SYN; the application's first byte has offset 1.
#[derive(Debug)]
pub(in crate::tcp) struct Stream {
    pub(in crate::tcp) buffer: SendBuffer,
    pub(in crate::tcp) window: PeerWindow,
    /// Offset of our FIN once the application has closed its half.
    fin: Option<NonZeroU64>,
    /// Places that segments respect, while there are any.
    marks: Option<Box<Marks>>,
    /// The FIN waits until the peer has acknowledged the SYN.
    pub(in crate::tcp) fin_waits: bool,
    /// The SYN-ACK acknowledged data of the SYN, of either end (RFC 7413).
    pub(in crate::tcp) syn_data_acked: bool,
    /// Only full segments leave, until it is switched off (`TCP_CORK`).
    pub(in crate::tcp) corked: bool,
    /// The last write announced that more follows (`MSG_MORE`).
    pub(in crate::tcp) more: bool,
}

/// Places in the stream, in order.
#[derive(Debug, Default)]
struct Marks {
    /// Ends of records beyond what is sent (`MSG_EOR`): no segment goes past one.
    records: VecDeque<u64>,
    /// Ends of pushed segments that are not acknowledged
    /// ([`push_writes`](crate::TcpConfig::push_writes)).
    pushes: VecDeque<u64>,
}

impl Stream {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            buffer: SendBuffer::new(config),
            window: PeerWindow::default(),
            fin: None,
            marks: None,
            fin_waits: false,
            syn_data_acked: false,
            corked: false,
            more: false,
        }
    }

    /// A FIN follows the data that is written by now.
    pub(in crate::tcp) fn finish(&mut self) {
        self.fin = self.fin.or_else(|| NonZeroU64::new(self.buffer.end()));
    }

    /// Offset of the FIN, once the application has closed this half.
    pub(in crate::tcp) fn fin(&self) -> Option<u64> {
        self.fin.map(NonZeroU64::get)
    }

    /// A record ends with the data that is written by now, all below `nxt` being sent. If that is all
    /// of it, nothing ends: no segment leaves beyond the end of a record that is sent already.
    pub(in crate::tcp) fn end_record(&mut self, nxt: u64) {
        if self.unsent(nxt) == Bytes::ZERO {
            return;
        }
        let end = self.buffer.end();
        let records = &mut self.marks.get_or_insert_default().records;
        if records.back() != Some(&end) {
            records.push_back(end);
        }
    }

    /// Everything below `nxt` is sent.
    #[inline]
    pub(super) fn sent(&mut self, nxt: u64) {
        if let Some(marks) = &mut self.marks {
            discard_below(&mut marks.records, nxt);
            self.drop_empty_marks();
        }
    }

    /// Everything below `una` is acknowledged.
    #[inline]
    pub(super) fn acknowledged(&mut self, una: u64) {
        self.buffer.acknowledge(una);
        if let Some(marks) = &mut self.marks {
            discard_below(&mut marks.pushes, una);
            self.drop_empty_marks();
        }
    }

    fn drop_empty_marks(&mut self) {
        let is_empty = |marks: &Marks| marks.records.is_empty() && marks.pushes.is_empty();
        if self.marks.as_deref().is_some_and(is_empty) {
            self.marks = None;
        }
    }

    /// A write of `len` bytes has ended: its last segment is pushed, and within it the first segment of
    /// `segment` bytes that ends more than half of the largest window after the push before.
    pub(in crate::tcp) fn end_write(&mut self, len: usize, segment: u64) {
        if len == 0 {
            return;
        }
        let (end, segment) = (self.buffer.end(), segment.max(1));
        let start = end - len as u64;
        let far = (self.window.largest() / 2).max(segment);
        let pushes = &mut self.marks.get_or_insert_default().pushes;
        let mut last = pushes.back().copied().unwrap_or(start);
        while end - last > far {
            let segments = (last + far).saturating_sub(start) / segment + 1;
            last = (start + segments * segment).min(end);
            pushes.push_back(last);
        }
        if pushes.back() != Some(&end) {
            pushes.push_back(end);
        }
    }

    /// A segment of the bytes in `range` is pushed: it holds the end of a write or, if ends of writes
    /// do not count (`writes`), that of a record or of the data.
    pub(in crate::tcp) fn is_pushed(&self, range: &Range<u64>, writes: bool) -> bool {
        if !writes {
            return range.end >= self.record_end();
        }
        let pushes = self.marks.as_ref().map(|marks| &marks.pushes);
        pushes.is_some_and(|pushes| {
            let next = pushes.partition_point(|end| *end <= range.start);
            pushes.get(next).is_some_and(|end| *end <= range.end)
        })
    }

    /// End of the record that is sent next, or of the data.
    #[inline]
    pub(in crate::tcp) fn record_end(&self) -> u64 {
        let record = self.marks.as_ref().and_then(|marks| marks.records.front());
        record.copied().unwrap_or_else(|| self.buffer.end())
    }

    /// No record ends within the data, and no segment but the last is pushed.
    #[inline]
    pub(in crate::tcp) fn is_unmarked(&self) -> bool {
        self.marks.is_none()
    }

    /// A record ends at `end`, and there is data beyond it.
    pub(super) fn ends_record(&self, end: u64) -> bool {
        self.marks.is_some() && end == self.record_end() && end < self.buffer.end()
    }

    /// The FIN may leave, or has.
    pub(super) fn has_fin_to_send(&self) -> bool {
        self.fin.is_some() && !self.fin_waits
    }

    /// The payload at stream offsets `range`.
    pub(in crate::tcp) fn payload(&self, range: Range<u64>) -> Payload<'_> {
        if range.is_empty() {
            Payload::EMPTY
        } else {
            self.buffer.payload(range)
        }
    }

    /// Offset up to which there is data within the peer's window.
    pub(super) fn sendable_end(&self) -> u64 {
        self.buffer.end().min(self.window.edge)
    }

    /// Written by the application and not yet sent, if all below `nxt` is.
    pub(super) fn unsent(&self, nxt: u64) -> Bytes {
        Bytes::new(self.buffer.end().saturating_sub(nxt.max(1)))
    }

    /// The `size` bytes of the stream from `nxt`, and the FIN behind them, as far as the peer's window
    /// allows: a peer whose window is closed drops a FIN as it drops data (RFC 9293 §3.10.7.4), and a
    /// FIN in flight would then wait for its timer when the window has long opened (Linux
    /// `tcp_snd_wnd_test` counts it, too).
    pub(super) fn segment(&self, nxt: u64, size: u64) -> Plan {
        let end = (nxt + size)
            .min(self.record_end())
            .min(self.window.edge.max(nxt));
        let fin = self.fin() == Some(end) && !self.fin_waits && end < self.window.edge;
        Plan {
            fin,
            ..Plan::new(Kind::New, nxt..end + u64::from(fin))
        }
    }
}

/// Removes the places up to offset `end`.
fn discard_below(places: &mut VecDeque<u64>, end: u64) {
    while places.front().is_some_and(|place| *place <= end) {
        places.pop_front();
    }
}

/// The window the peer offers (RFC 9293 §3.8.6), in stream offsets.
#[derive(Debug)]
pub(in crate::tcp) struct PeerWindow {
    /// Right edge: we may send up to here.
    edge: u64,
    /// The largest offer so far.
    largest: u64,
    /// Sequence and acknowledgment offsets of the segment that last updated it.
    updated_by: (u64, u64),
    /// The latest segment moved the edge.
    moved: bool,
}

impl Default for PeerWindow {
    /// Before the peer speaks, only the SYN may leave.
    fn default() -> Self {
        Self {
            edge: 1,
            largest: 0,
            updated_by: (0, 0),
            moved: false,
        }
    }
}

impl PeerWindow {
    /// RFC 9293 §3.10.7.4, "SND.WND": newer segments win, by sequence number, then by acknowledgment; of
    /// equals, the one that arrives last. (In Linux, `tcp_may_update_window`, the larger window of
    /// equals wins.) False if the segment is too old to say anything.
    pub(super) fn update(&mut self, una: u64, offset: u64, ack: u64, window: u64) -> bool {
        let (wl1, wl2) = self.updated_by;
        self.moved = false;
        if ack < una || !(wl1 < offset || (wl1 == offset && wl2 <= ack)) {
            return false;
        }
        self.updated_by = (offset, ack);
        self.moved = self.edge != ack + window;
        self.edge = ack + window;
        self.largest = self.largest.max(window);
        true
    }

    /// The window in a SYN is never scaled; it lets us send from `ack`, the byte after our SYN and
    /// what the peer took of its data.
    pub(in crate::tcp) fn update_from_syn(&mut self, ack: u64, window: u16) {
        self.edge = ack + u64::from(window);
        self.largest = self.largest.max(u64::from(window));
        self.updated_by = (0, ack);
    }

    pub(in crate::tcp) fn edge(&self) -> u64 {
        self.edge
    }

    pub(in crate::tcp) fn largest(&self) -> u64 {
        self.largest
    }

    pub(super) fn moved(&self) -> bool {
        self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux `tcp_push` and `forced_push`: the end of each write, and a segment for each half of the
    /// largest window; those that are acknowledged are forgotten.
    #[test]
    fn writes_are_pushed_at_their_ends_and_every_half_window() {
        let mut stream = Stream::new(&TcpConfig::default());
        stream.window.update_from_syn(1, 5000);
        let write = |stream: &mut Stream, len| {
            stream.buffer.write_zeros(len);
            stream.end_write(len, 1000);
        };
        let pushed = |stream: &Stream, range| stream.is_pushed(&range, true);
        write(&mut stream, 2000);
        write(&mut stream, 7000);
        write(&mut stream, 0);
        let ends: Vec<_> = (1..10)
            .map(|segment| 1 + 1000 * segment)
            .filter(|end| pushed(&stream, end - 1000..*end))
            .collect();
        // The second write begins at 2001: the first segment that ends beyond 2001 + 2500, and so on.
        assert_eq!(ends, [2001, 5001, 8001, 9001]);
        assert!(!pushed(&stream, 5001..8000) && pushed(&stream, 2001..9001));
        assert!(!stream.is_unmarked());
        stream.acknowledged(5001);
        assert!(!pushed(&stream, 1..5001) && pushed(&stream, 7001..8001));
        stream.acknowledged(9001);
        assert!(stream.is_unmarked());
        assert!(stream.is_pushed(&(8001..9001), false), "the data end there");
    }
}
