//! [`Pool`]: the transmit frames of one host, and `settle`, the one place where a packet ends.

use alloc::vec::Vec;

use crate::device::Tso;
use crate::frame::{Frame, HeapFrame};
use crate::packet::{Packet, Settled};

/// Ordinary frames for each large one in a pool on the heap ...
const ORDINARY_PER_LARGE: usize = 8;
/// ... and the most large ones: 16 MiB, of which untouched ones take nothing.
const MOST_LARGE: usize = 256;

/// The frames a host may fill with outgoing packets. A frame is either here or in exactly one
/// packet.
#[derive(Debug)]
pub struct Pool<F> {
    free: Vec<F>,
    capacity: usize,
    /// Frames for packets that stand for several segments; `None` in a pool of a device that does
    /// not take such.
    large: Option<Large<F>>,
}

#[derive(Debug)]
struct Large<F> {
    free: Vec<F>,
    capacity: usize,
    /// Bytes in each of them, and in no ordinary one.
    len: usize,
}

impl Pool<HeapFrame> {
    /// A pool of `frames` frames on the heap, and of large ones beside them if the device takes
    /// packets of several segments.
    pub fn heap(frames: usize, tso: Option<Tso>) -> Self {
        let pool = Self::new((0..frames).map(|_| HeapFrame::new()).collect());
        let count = (frames / ORDINARY_PER_LARGE).clamp(1, MOST_LARGE);
        match tso {
            None => pool,
            Some(tso) => pool.with_large(
                (0..count)
                    .map(|_| HeapFrame::with_len(tso.frame_len()))
                    .collect(),
            ),
        }
    }
}

impl<F: Frame> Pool<F> {
    /// A pool of `frames`, all free.
    pub fn new(frames: Vec<F>) -> Self {
        Self {
            capacity: frames.len(),
            free: frames,
            large: None,
        }
    }

    /// The same with `frames` for packets that stand for several segments
    /// ([`Device::tso`](crate::Device::tso)), all of one length, longer than the ordinary ones.
    /// They are beside its [`capacity`](Self::capacity): without a free one a host writes ordinary
    /// packets. Frames that are no longer than ordinary ones are of no use, and left out: they
    /// could not be told apart when they come back.
    #[must_use]
    pub fn with_large(mut self, frames: Vec<F>) -> Self {
        let len = |frames: &[F]| frames.first().map_or(0, |first| first.bytes().len());
        let (ordinary, len) = (len(&self.free), len(&frames));
        self.large = (len > ordinary).then(|| Large {
            capacity: frames.len(),
            free: frames,
            len,
        });
        self
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

    /// A free frame for a packet of several segments.
    pub fn take_large(&mut self) -> Option<F> {
        self.large.as_mut()?.free.pop()
    }

    /// Bytes that a packet of several segments may have now: those of a large frame, if one is
    /// free.
    pub fn large_room(&self) -> Option<usize> {
        self.large
            .as_ref()
            .filter(|large| !large.free.is_empty())
            .map(|large| large.len)
    }

    /// Gives back a frame. One beyond the pool's number ends here: it was [born](Frame::duplicate)
    /// when a discipline doubled a packet, and if kept, each would make the pool grow.
    pub fn put_back(&mut self, frame: F) {
        let (free, capacity) = match &mut self.large {
            Some(large) if frame.bytes().len() >= large.len => (&mut large.free, large.capacity),
            _ => (&mut self.free, self.capacity),
        };
        if free.len() < capacity {
            free.push(frame);
        }
    }

    /// Ends a packet: the frame becomes free; what the packet owed its sender is returned.
    /// Completed and dropped packets both end here.
    #[must_use = "the credit in the result must be released"]
    pub fn settle(&mut self, packet: Packet<F>) -> Settled {
        let (frame, settled) = packet.dismantle();
        self.put_back(frame);
        settled
    }

    /// Ordinary frames ready to be taken.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// All ordinary frames, free or not.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Frames that are in packets somewhere, less as many as a discipline doubled. Zero when a host
    /// is idle; anything else is a leak.
    pub fn outstanding(&self) -> usize {
        let large = self
            .large
            .as_ref()
            .map_or(0, |large| large.capacity - large.free.len());
        self.capacity - self.free.len() + large
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
            assert_eq!(
                (pool.free(), pool.capacity(), pool.outstanding()),
                (2, 2, 0)
            );
        }
    }

    #[test]
    fn large_frames_go_back_to_their_own() {
        let tso = Tso {
            max_size: 65_535,
            max_segments: 64,
        };
        let mut pool = Pool::heap(16, Some(tso));
        assert_eq!(
            (pool.free(), pool.large_room()),
            (16, Some(tso.frame_len()))
        );
        let frames = [
            pool.take_large().expect("two"),
            pool.take().expect("sixteen"),
            pool.take_large().expect("two"),
        ];
        assert_eq!(
            (pool.large_room(), pool.free(), pool.outstanding()),
            (None, 15, 3)
        );
        assert!(pool.take_large().is_none());
        for frame in frames {
            let _nobody_waits = pool.settle(Packet::new(frame, 60));
        }
        assert_eq!(
            (pool.large_room(), pool.free(), pool.outstanding()),
            (Some(tso.frame_len()), 16, 0)
        );
        assert_eq!(Pool::heap(16, None).large_room(), None);
    }

    #[test]
    fn large_frames_no_longer_than_ordinary_ones_are_left_out() {
        let tso = Tso {
            max_size: 1500,
            max_segments: 1,
        };
        let mut pool = Pool::heap(8, Some(tso));
        assert!(pool.take_large().is_none() && pool.large_room().is_none());
        let frame = pool.take().expect("a free frame");
        pool.put_back(frame);
        assert_eq!(pool.outstanding(), 0);
        assert!(Pool::heap(8, Some(Tso::MOST)).take_large().is_some());
    }
}
