//! [`Nic`]: a device in memory. Its completions can be held back, as by a stuck driver.

use std::collections::VecDeque;

use tautline_base::{Device, HeapFrame, Instant, Packet, Received};

/// Descriptors of the transmit ring.
const RING: usize = 64;

/// A device that keeps what it is given until it may complete it.
#[derive(Default)]
pub struct Nic {
    /// Copies of what was transmitted, oldest first.
    pub sent: VecDeque<Vec<u8>>,
    /// Nothing completes while this is set.
    pub hold: bool,
    done: Vec<Packet<HeapFrame>>,
}

impl Nic {
    /// Completions that the host would be given now.
    pub fn completions(&self) -> usize {
        if self.hold { 0 } else { self.done.len() }
    }
}

impl Device for Nic {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1500
    }

    fn room(&self) -> usize {
        RING - self.done.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        self.sent.push_back(packet.bytes().to_vec());
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        if !self.hold {
            done.append(&mut self.done);
        }
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
