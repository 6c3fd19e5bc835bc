//! [`Nic`]: a device in memory for tests.
#![expect(
    unreachable_pub,
    reason = "a module shared by test files; each is a crate of its own"
)]

use std::collections::VecDeque;

use tautline_base::{Device, Frame, HeapFrame, Instant, Packet, Received};

/// A device that completes at once and keeps what was transmitted.
pub struct Nic {
    /// Longest IP packet.
    pub mtu: usize,
    /// Most packets that it holds.
    pub ring: usize,
    /// Somebody hears of its completions without asking.
    pub announces: bool,
    /// It completes nothing any more.
    pub stuck: bool,
    /// What was transmitted, oldest first.
    pub sent: VecDeque<Vec<u8>>,
    /// What is to be received.
    pub arrived: VecDeque<Vec<u8>>,
    /// What is not yet completed.
    pub done: Vec<Packet<HeapFrame>>,
}

impl Default for Nic {
    fn default() -> Self {
        let (sent, arrived, done) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Self {
            mtu: 1500,
            ring: 256,
            announces: false,
            stuck: false,
            sent,
            arrived,
            done,
        }
    }
}

impl Device for Nic {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn room(&self) -> usize {
        self.ring.saturating_sub(self.done.len())
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        self.sent.push_back(packet.bytes().to_vec());
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        if !self.stuck {
            done.append(&mut self.done);
        }
    }

    fn announces_completions(&self) -> bool {
        self.announces
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        let bytes = self.arrived.pop_front()?;
        let mut frame = HeapFrame::new();
        frame.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        Some(Received::new(frame, 0, bytes.len() as u32))
    }

    fn recycle(&mut self, _frame: HeapFrame) {}

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}
