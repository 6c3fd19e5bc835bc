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
    /// Ends of records beyond what is sent (`MSG_EOR`): no segment goes past one.
    records: Option<Box<Records>>,
    /// The FIN waits until the peer has acknowledged the SYN.
    pub(in crate::tcp) fin_waits: bool,
    /// The SYN-ACK acknowledged data of the SYN, of either end (RFC 7413).
    pub(in crate::tcp) syn_data_acked: bool,
    /// Only full segments leave, until it is switched off (`TCP_CORK`).
    pub(in crate::tcp) corked: bool,
    /// The last write announced that more follows (`MSG_MORE`).
    pub(in crate::tcp) more: bool,
}

/// Ends of records, in order.
#[derive(Debug, Default)]
struct Records(VecDeque<u64>);

impl Stream {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            buffer: SendBuffer::new(config),
            window: PeerWindow::default(),
            fin: None,
            records: None,
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
        let records = &mut self.records.get_or_insert_default().0;
        if records.back() != Some(&end) {
            records.push_back(end);
        }
    }

    /// Everything below `nxt` is sent.
    #[inline]
    pub(super) fn sent(&mut self, nxt: u64) {
        let Some(Records(records)) = self.records.as_deref_mut() else {
            return;
        };
        while records.front().is_some_and(|end| *end <= nxt) {
            records.pop_front();
        }
        if records.is_empty() {
            self.records = None;
        }
    }

    /// End of the record that is sent next, or of the data.
    #[inline]
    pub(in crate::tcp) fn record_end(&self) -> u64 {
        let record = self.records.as_ref().and_then(|records| records.0.front());
        record.copied().unwrap_or_else(|| self.buffer.end())
    }

    /// No record ends within the data.
    #[inline]
    pub(in crate::tcp) fn is_in_one_record(&self) -> bool {
        self.records.is_none()
    }

    /// A record ends at `end`, and there is data beyond it.
    pub(super) fn ends_record(&self, end: u64) -> bool {
        self.records.is_some() && end == self.record_end() && end < self.buffer.end()
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
