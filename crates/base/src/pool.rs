//! [`Pool`]: the transmit frames of one host, and `settle`, the one place where a packet ends.

use alloc::vec::Vec;

use crate::frame::Frame;
use crate::packet::{Packet, Settled};

/// The frames a host may fill with outgoing packets. A frame is either here or in exactly one packet.
#[derive(Debug)]
pub struct Pool<F> {
    free: Vec<F>,
    capacity: usize,
}

impl<F: Frame> Pool<F> {
    /// A pool of `frames`, all free.
    pub fn new(frames: Vec<F>) -> Self {
        Self { capacity: frames.len(), free: frames }
    }

    /// Enlarges the pool by one free frame.
    pub fn add(&mut self, frame: F) {
        self.capacity += 1;
        self.free.push(frame);
    }

    /// A free frame, or `None` when every frame is on its way.
    pub fn take(&mut self) -> Option<F> {
        self.free.pop()
    }

    /// Gives back a frame. One beyond the pool's number ends here: it was [born](Frame::duplicate) when a discipline doubled a packet,
    /// and if kept, each would make the pool grow.
    pub fn put_back(&mut self, frame: F) {
        if self.free.len() < self.capacity {
            self.free.push(frame);
        }
    }

    /// Ends a packet: the frame becomes free; what the packet owed its sender is returned. Completed and dropped packets
    /// both end here.
    #[must_use = "the credit in the result must be released"]
    pub fn settle(&mut self, packet: Packet<F>) -> Settled {
        let (frame, settled) = packet.dismantle();
        self.put_back(frame);
        settled
    }

    /// Frames ready to be taken.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// All frames, free or not.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Frames that are in packets somewhere, less as many as a discipline doubled. Zero when a host is idle; anything else is a
    /// leak.
    pub fn outstanding(&self) -> usize {
        self.capacity - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeapFrame;

    #[test]
    fn a_doubled_packets_frame_ends_where_it_comes_back_and_the_pool_does_not_grow() {
        let mut pool = Pool::new((0..2).map(|_| HeapFrame::new()).collect());
        let packet = Packet::new(pool.take().expect("two"), 60);
        let double = crate::Item::duplicate(&packet).expect("heap memory");
        for packet in [packet, double] {
            let _nobody_waits = pool.settle(packet);
            assert_eq!((pool.free(), pool.capacity(), pool.outstanding()), (2, 2, 0));
        }
    }
}
