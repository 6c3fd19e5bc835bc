//! [`Nic`]: a device in memory that completes at once and keeps the frames it was given.

use std::collections::VecDeque;

use tautline_base::{Device, HeapFrame, Instant, Packet, Received};

/// Room of the transmit ring.
const RING: usize = 4096;

/// The device of the host under test.
pub(crate) struct Nic {
    mtu: usize,
    /// Frames that were transmitted, oldest first.
    pub(crate) sent: VecDeque<Vec<u8>>,
    done: Vec<Packet<HeapFrame>>,
}

impl Nic {
    /// A device for IP packets of at most `mtu` bytes.
    pub(crate) fn new(mtu: usize) -> Self {
        Self {
            mtu,
            sent: VecDeque::new(),
            done: Vec::new(),
        }
    }
}

impl Device for Nic {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn room(&self) -> usize {
        RING.saturating_sub(self.done.len())
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        self.sent.push_back(packet.bytes().to_vec());
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.done);
    }

    fn announces_completions(&self) -> bool {
        true
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        None
    }

    fn recycle(&mut self, _frame: HeapFrame) {}

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}
