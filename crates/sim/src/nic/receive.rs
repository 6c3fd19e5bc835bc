//! [`RxRing`]: the receive half of a NIC.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Deferred, Frame, HeapFrame, Instant, Item, Offload, Packet, Received};

use super::NicConfig;

#[derive(Debug)]
pub(super) struct RxRing {
    size: usize,
    longest: usize,
    delay: Duration,
    received: VecDeque<(HeapFrame, u32, Deferred)>,
    free: Vec<HeapFrame>,
    /// Interrupt of the frames that wait.
    interrupt_at: Instant,
}

impl RxRing {
    pub(super) fn new(config: &NicConfig) -> Self {
        let size = config.rx_ring;
        Self {
            size,
            longest: config.largest_frame().as_usize(),
            delay: config.rx_delay,
            received: VecDeque::with_capacity(size),
            free: (0..size).map(|_| HeapFrame::new()).collect(),
            interrupt_at: Instant::ZERO,
        }
    }

    /// When the host is to take the frames that wait for it.
    pub(super) fn interrupts_at(&self) -> Option<Instant> {
        (!self.received.is_empty()).then_some(self.interrupt_at)
    }

    /// Frames waiting for the host or lent to it.
    pub(super) fn outstanding(&self) -> usize {
        self.size - self.free.len()
    }

    /// Copies a frame into a free descriptor. Returns false without one or if the frame is too
    /// long.
    pub(super) fn copy(&mut self, bytes: &[u8]) -> bool {
        let Some(mut frame) = self.take(bytes.len()) else {
            return false;
        };
        frame.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.received
            .push_back((frame, bytes.len() as u32, Deferred::Nothing));
        true
    }

    /// [`copy`](Self::copy) that takes the frame of `packet` and gives it an empty one.
    pub(super) fn exchange(&mut self, packet: &mut Packet<HeapFrame>, now: Instant) -> bool {
        let len = packet.len().as_usize();
        let Some(free) = self.take(len) else {
            return false;
        };
        if self.received.is_empty() {
            self.interrupt_at = now + self.delay;
        }
        let received = (packet.replace_frame(free), len as u32, packet.deferred());
        self.received.push_back(received);
        true
    }

    fn take(&mut self, len: usize) -> Option<HeapFrame> {
        if len > self.longest {
            return None;
        }
        self.free.pop()
    }

    pub(super) fn receive(&mut self) -> Option<Received<HeapFrame>> {
        let (frame, len, deferred) = self.received.pop_front()?;
        let offload = Offload {
            checksum_known: deferred > Deferred::Nothing,
            zeros: deferred == Deferred::Zeros,
            ..Offload::default()
        };
        Some(Received {
            offload,
            ..Received::new(frame, 0, len)
        })
    }

    pub(super) fn recycle(&mut self, frame: HeapFrame) {
        debug_assert!(
            self.free.len() < self.size,
            "a frame was recycled that was never lent"
        );
        self.free.push(frame);
    }
}
