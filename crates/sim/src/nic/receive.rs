//! [`RxRing`]: the receive half of a NIC.

use std::collections::VecDeque;

use tautline_base::{Deferred, Frame, HeapFrame, Item, Offload, Packet, Received};

#[derive(Debug)]
pub(super) struct RxRing {
    size: usize,
    longest: usize,
    received: VecDeque<(HeapFrame, u32, Deferred)>,
    free: Vec<HeapFrame>,
}

impl RxRing {
    /// `size` free descriptors for frames of at most `longest` bytes.
    pub(super) fn new(size: usize, longest: usize) -> Self {
        Self {
            size,
            longest,
            received: VecDeque::with_capacity(size),
            free: (0..size).map(|_| HeapFrame::new()).collect(),
        }
    }

    /// Frames waiting for the host.
    pub(super) fn len(&self) -> usize {
        self.received.len()
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
    pub(super) fn exchange(&mut self, packet: &mut Packet<HeapFrame>) -> bool {
        let len = packet.len().as_usize();
        let Some(free) = self.take(len) else {
            return false;
        };
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
            segment_size: None,
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
