//! How much the application may write: the send buffer, which may follow the congestion window
//! (Linux `tcp_sndbuf_expand`), and the bound on what is not yet sent (`TCP_NOTSENT_LOWAT`,
//! `tcp_stream_memory_free`).

use tautline_base::Bytes;

use super::SendHalf;
use super::flight::sacked_runs;
use crate::config::Pacing;

/// Written data that a connection may always hold, so that none comes to a stop for good (Linux
/// guarantees a page).
const LEAST_SEND: usize = 16 << 10;
/// A segment's descriptor, allocated apart (Linux `sizeof(struct sk_buff)`, aligned).
const DESCRIPTOR: u64 = 256;
/// Least window, in segments, that the buffer is made for (Linux `TCP_INIT_CWND`).
const LEAST_WINDOW: u64 = 10;

/// Data that the application writes.
#[derive(Debug)]
pub(crate) enum AppData<'a> {
    Bytes(&'a [u8]),
    /// Taken without a copy; what is not taken stays.
    Owned(&'a mut bytes::Bytes),
    /// This many zeros.
    Zeros(usize),
}

/// The promise of a write about the data after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    None,
    /// More follows at once (`MSG_MORE`).
    More,
    /// The next bytes are of another record (`MSG_EOR`).
    Record,
}

impl SendHalf {
    /// The application writes. Accepts as much as fits the send buffer with its segments' overhead,
    /// at most `TCP_NOTSENT_LOWAT` unsent, and little when memory is short.
    pub(in crate::tcp) fn write(&mut self, data: AppData<'_>, memory_pressure: bool) -> usize {
        let wanted = match &data {
            AppData::Bytes(bytes) => bytes.len(),
            AppData::Owned(bytes) => bytes.len(),
            AppData::Zeros(count) => *count,
        };
        let mut most = wanted.min(self.writable_bytes());
        if let Some(allowed) = self.unsent_allowed() {
            most = most.min(
                allowed
                    .saturating_sub(self.stream.unsent(self.flight.nxt()))
                    .as_usize(),
            );
        }
        if memory_pressure {
            most = most.min(LEAST_SEND.saturating_sub(self.stream.buffer.len()));
        }
        let buffer = &mut self.stream.buffer;
        match data {
            AppData::Bytes(bytes) => buffer.write(&bytes[..most]),
            AppData::Owned(bytes) => buffer.write_owned(bytes, most),
            AppData::Zeros(_) => buffer.write_zeros(most),
        }
        buffer.wants_room = most < wanted;
        most
    }

    /// Bytes that fit the send buffer with the overhead of their segments; with
    /// [`send_whole_segments`](crate::TcpConfig::send_whole_segments), those that complete the
    /// segment at its end, and one for which anything was free.
    fn writable_bytes(&self) -> usize {
        let config = self.flight.config();
        let segment = u128::from(self.flight.mss().max(1));
        let charge = segment + u128::from(config.send_overhead.get());
        let free = u128::from(self.room().get());
        let bytes = if config.send_whole_segments {
            let unsent = u128::from(self.stream.unsent(self.flight.nxt()).get());
            let partial = unsent.next_multiple_of(segment) - unsent;
            partial + free.saturating_sub(partial).div_ceil(charge) * segment
        } else {
            free * segment / charge
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Most unsent bytes the application wants; at least a segment, or its writes would make shorter
    /// ones.
    fn unsent_allowed(&self) -> Option<Bytes> {
        self.flight
            .config()
            .notsent_lowat
            .map(|lowat| lowat.max(Bytes::new(self.flight.mss())))
    }

    /// Free space of the send buffer, after the overhead of its segments.
    fn room(&self) -> Bytes {
        let held = Bytes::new(self.stream.buffer.len() as u64);
        let segments = &self.flight.segments;
        let alone = held.get().saturating_sub(segments.sacked_bytes());
        let descriptors = alone.div_ceil(self.flight.mss().max(1)) + sacked_runs(segments);
        let charged = held + self.flight.config().send_overhead * descriptors;
        Bytes::new(self.stream.buffer.capacity() as u64).saturating_sub(charged)
    }

    /// True once when the application waits for space and there is enough again: a third of the
    /// buffer is free and little is unsent.
    pub(in crate::tcp) fn has_room_again(&mut self, memory_pressure: bool) -> bool {
        if !self.stream.buffer.wants_room {
            return false;
        }
        if !self.fills_window() {
            self.expand_buffer(memory_pressure);
        }
        let little = self
            .unsent_allowed()
            .is_none_or(|most| self.stream.unsent(self.flight.nxt()) * 2 < most);
        let room = little && self.room() >= Bytes::new(self.stream.buffer.capacity() as u64 / 3);
        self.stream.buffer.wants_room = !room;
        room
    }

    /// The segments in flight fill the congestion window, with the first that leaves now: Linux asks
    /// with each that it sends (`tcp_check_space` in `tcp_event_new_data_sent`, and after the last).
    /// None leaves at once where a pacer decides.
    fn fills_window(&self) -> bool {
        let segment = self.flight.mss();
        let unsent = self.stream.sendable_end().saturating_sub(self.flight.nxt());
        let leaves = self.flight.config().pacing != Pacing::Internal && unsent >= segment;
        let leaving = if leaves { segment } else { 0 };
        self.flight.segments.in_flight() + leaving >= self.flight.cwnd().get()
    }

    /// The same after a transmission, which frees space below a bound on unsent data, and where a pacer
    /// decides is when Linux asks whether the buffer may grow (`tcp_check_space` in
    /// `tcp_event_new_data_sent`). Else only acknowledgments free space.
    pub(in crate::tcp) fn has_room_after_sending(&mut self, memory_pressure: bool) -> bool {
        let config = self.flight.config();
        let grows = config.send_start.is_some() && config.pacing == Pacing::Internal;
        (grows || config.notsent_lowat.is_some()) && self.has_room_again(memory_pressure)
    }

    /// Grows an auto-tuned buffer to two windows (three if the controller probes beyond its window,
    /// as BBR: `sndbuf_expand`), each segment charged as Linux charges a lone one.
    pub(super) fn expand_buffer(&mut self, memory_pressure: bool) {
        if self.flight.config().send_start.is_none() || memory_pressure {
            return;
        }
        let segment = self.flight.mss().max(1);
        let reordering = u64::from(self.flight.segments.reordering().0) + 1;
        let segments = LEAST_WINDOW
            .max(self.flight.cwnd().get() / segment)
            .max(reordering);
        let windows = if self.flight.congestion.uses_prr() {
            2
        } else {
            3
        };
        let bytes = segments
            .saturating_mul(windows)
            .saturating_mul(charge(segment, self.flight.config().send_headroom));
        let capacity = self.flight.config().send_buffer.min(Bytes::new(bytes));
        self.stream.buffer.expand(capacity.as_usize());
    }
}

/// The memory that Linux takes beside the payload of a segment of its own.
pub(in crate::tcp) fn segment_memory(headroom: Bytes) -> u64 {
    headroom.get().saturating_add(DESCRIPTOR)
}

/// The memory that Linux takes for a segment of `payload` bytes.
fn charge(payload: u64, headroom: Bytes) -> u64 {
    payload
        .saturating_add(headroom.get())
        .checked_next_power_of_two()
        .map_or(u64::MAX, |bytes| bytes.saturating_add(DESCRIPTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new connection of Linux over Ethernet has a send buffer of 87 040 bytes (`tb` in `ss -m`),
    /// of User-Mode Linux 46 080: twice ten segments.
    #[test]
    fn the_first_buffer_is_that_of_linux() {
        for (headroom, buffer) in [(640, 87_040), (576, 46_080)] {
            let segment = charge(1448, Bytes::new(headroom));
            assert_eq!(2 * LEAST_WINDOW * segment, buffer);
        }
        assert_eq!(charge(1460, Bytes::MAX), u64::MAX);
    }
}
