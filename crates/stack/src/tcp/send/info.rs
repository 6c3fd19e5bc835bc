//! The sending half's part of [`TcpInfo`].

use tautline_base::{Bytes, Instant};

use super::SendHalf;
use crate::tcp::info::TcpInfo;

impl SendHalf {
    pub(in crate::tcp) fn fill(&self, info: &mut TcpInfo, now: Instant) {
        let Self {
            stream,
            flight,
            totals,
            ..
        } = self;
        flight.fill(info, now);
        let nxt = flight.nxt();
        info.segments_out = totals.segments_out;
        info.bytes_sent =
            nxt.min(stream.buffer.end()).saturating_sub(1) + totals.bytes_retransmitted;
        info.bytes_retransmitted = totals.bytes_retransmitted;
        info.data_segments_out = totals.data_segments_out;
        info.last_sent = (totals.data_segments_out > 0).then(|| now - totals.data_sent_at);
        info.unacknowledged = Bytes::new(stream.buffer.len() as u64);
        info.unsent = stream.unsent(nxt);
        info.send_buffer = Bytes::new(stream.buffer.capacity() as u64);
        info.peer_window = Bytes::new(stream.window.edge().saturating_sub(nxt));
        info.peer_limited = self.peer_limited;
        info.window_probes = self.persist.as_ref().map_or(0, |persist| persist.sent);
    }
}
