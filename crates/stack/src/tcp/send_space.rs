//! How much the application may write: the send buffer, which may follow the congestion window
//! (Linux `tcp_sndbuf_expand`), and the bound on what is not yet sent (`TCP_NOTSENT_LOWAT`);
//! `spec/tcp.md` §1.13.

use tautline_base::Bytes;
use tautline_cc::Recovery;

use super::connection::Connection;
use super::memory::LEAST_SEND;

/// What Linux reserves around a segment's payload: headers, and the record that lists its pages
/// (x86-64).
const AROUND: u64 = 2 * 320;
/// And its descriptor, allocated apart.
const DESCRIPTOR: u64 = 256;
/// Least window, in segments, that the buffer is made for (Linux `TCP_INIT_CWND`).
const LEAST_WINDOW: u64 = 10;

impl Connection {
    /// How many of `wanted` bytes the application may write: as many as the send buffer has room
    /// for with their segments' overhead, no more unsent than it wants, and few when memory is
    /// short.
    pub(super) fn may_write(&self, wanted: usize) -> usize {
        let (segment, overhead) = (
            u128::from(self.segment_size().max(1)),
            u128::from(self.config.send_overhead.get()),
        );
        let room = u128::from(self.send_room().get()) * segment / (segment + overhead);
        let wanted = wanted.min(usize::try_from(room).unwrap_or(usize::MAX));
        let unsent = self.unsent();
        let wanted = self.unsent_allowed().map_or(wanted, |most| {
            wanted.min(most.saturating_sub(unsent).as_usize())
        });
        if self.pressed {
            wanted.min(LEAST_SEND.saturating_sub(self.buffer.len()))
        } else {
            wanted
        }
    }

    /// Written by the application and not yet sent.
    pub(super) fn unsent(&self) -> Bytes {
        Bytes::new(self.buffer.end().saturating_sub(self.nxt.max(1)))
    }

    /// Most unsent bytes the application wants. A byte there must be, or it could never write.
    fn unsent_allowed(&self) -> Option<Bytes> {
        self.config
            .notsent_lowat
            .map(|lowat| lowat.max(Bytes::new(1)))
    }

    /// What of the send buffer is not charged for.
    fn send_room(&self) -> Bytes {
        let held = Bytes::new(self.buffer.len() as u64);
        let alone = held.get().saturating_sub(self.segments.sacked_bytes());
        let charged = held + self.config.send_overhead * alone.div_ceil(self.segment_size().max(1));
        Bytes::new(self.buffer.capacity() as u64).saturating_sub(charged)
    }

    /// Tells the application that there is room again, once a third of the buffer is free and what
    /// is unsent is little.
    pub(super) fn notice_room(&mut self) {
        if !self.wants_room {
            return;
        }
        if self.segments.in_flight() < self.cwnd().get() {
            self.expand_send_buffer();
        }
        let little = self
            .unsent_allowed()
            .is_none_or(|most| self.unsent() * 2 < most);
        if little && self.send_room() >= Bytes::new(self.buffer.capacity() as u64 / 3) {
            self.wants_room = false;
            self.pending.writable = true;
        }
    }

    /// Something left that was unsent: without a bound on that, only acknowledgements make room.
    pub(super) fn notice_sent(&mut self) {
        if self.config.notsent_lowat.is_some() {
            self.notice_room();
        }
    }

    /// A buffer that follows the window holds two of it (three where the controller probes beyond
    /// its window by itself, as BBR asks Linux for), each segment taken for what Linux would charge
    /// if it were alone.
    pub(super) fn expand_send_buffer(&mut self) {
        if self.config.send_start.is_none() || self.pressed {
            return;
        }
        let segment = self.segment_size().max(1);
        let reordering = u64::from(self.segments.reordering().0) + 1;
        let segments = LEAST_WINDOW
            .max(self.cwnd().get() / segment)
            .max(reordering);
        let windows = if self.controller.recovery() == Recovery::Controller {
            3
        } else {
            2
        };
        let bytes = segments
            .saturating_mul(windows)
            .saturating_mul(charge(segment));
        self.buffer
            .expand(self.config.send_buffer.min(Bytes::new(bytes)).as_usize());
    }
}

/// The memory that Linux takes for a segment of `payload` bytes.
fn charge(payload: u64) -> u64 {
    (payload + AROUND).next_power_of_two() + DESCRIPTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new connection of Linux over Ethernet has a send buffer of 87 040 bytes (`tb` in `ss -m`):
    /// twice ten segments.
    #[test]
    fn the_first_buffer_is_that_of_linux() {
        assert_eq!(charge(1460), 4352);
        assert_eq!(2 * LEAST_WINDOW * charge(1448), 87_040);
    }
}
