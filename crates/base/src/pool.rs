//! [`Pool`]: the transmit frames of one host, and [`Pool::settle`], where every packet ends.

use alloc::vec::Vec;

use crate::device::Tso;
use crate::frame::{Frame, HeapFrame};
use crate::packet::{Packet, Settled};

/// Ordinary frames for each large one in a pool on the heap.
const ORDINARY_PER_LARGE: usize = 8;
/// Most large frames: 16 MiB, of which the system maps only those in use.
const MOST_LARGE: usize = 256;

/// The frames that a host may fill with outgoing packets. Each is either here or in exactly one
/// packet.
///
/// ```
/// use tautline_base::{Packet, Pool};
///
/// let mut pool = Pool::heap(2, None);
/// let frame = pool.take().expect("two are free");
/// let packet = Packet::new(frame, 60);
/// assert_eq!(pool.outstanding(), 1);
/// let settled = pool.settle(packet); // completed or dropped
/// assert_eq!((settled.len, pool.outstanding()), (60, 0));
/// ```
#[derive(Debug)]
pub struct Pool<F> {
    free: Vec<F>,
    capacity: usize,
    /// Bytes of the shortest ordinary frame.
    len: usize,
    /// Frames for packets of several segments; `None` if the device takes no such packets.
    large: Option<Large<F>>,
}

#[derive(Debug)]
struct Large<F> {
    free: Vec<F>,
    capacity: usize,
    /// Bytes of each, more than of an ordinary frame.
    len: usize,
}

impl Pool<HeapFrame> {
    /// A pool of `frames` frames on the heap, and of large ones if the device takes packets of
    /// several segments.
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
            len: frames
                .iter()
                .map(|frame| frame.bytes().len())
                .min()
                .unwrap_or(0),
            free: frames,
            large: None,
        }
    }

    /// Adds `frames` for packets of several segments ([`Device::tso`](crate::Device::tso)), all of one
    /// length, longer than the ordinary ones; shorter ones are discarded. They are not part of the
    /// [`capacity`](Self::capacity): a host without a free one writes ordinary packets.
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

    /// Adds one free frame.
    pub fn add(&mut self, frame: F) {
        self.capacity += 1;
        self.len = self.len.min(frame.bytes().len());
        self.free.push(frame);
    }

    /// Takes a free frame; `None` if every frame is in a packet.
    pub fn take(&mut self) -> Option<F> {
        self.free.pop()
    }

    /// Takes a free frame for a packet of several segments.
    pub fn take_large(&mut self) -> Option<F> {
        self.large.as_mut()?.free.pop()
    }

    /// Bytes of a large frame, if one is free.
    pub fn large_room(&self) -> Option<usize> {
        self.large
            .as_ref()
            .filter(|large| !large.free.is_empty())
            .map(|large| large.len)
    }

    /// Returns a frame, and drops its [fragments](Frame::fragments). A frame beyond the capacity is freed:
    /// it was allocated when a qdisc [duplicated](Frame::duplicate) a packet. So is one shorter than
    /// those of the pool, which was [allocated](Frame::allocate) for a piece of a split packet.
    pub fn put_back(&mut self, mut frame: F) {
        if let Some(fragments) = frame.fragments_mut() {
            fragments.clear();
        }
        let (free, capacity) = match &mut self.large {
            Some(large) if frame.bytes().len() >= large.len => (&mut large.free, large.capacity),
            _ => (&mut self.free, self.capacity),
        };
        if free.len() < capacity && frame.bytes().len() >= self.len {
            free.push(frame);
        }
    }

    /// Ends a completed or dropped packet: frees its frame and returns its owner and credit.
    #[must_use = "the credit in the result must be released"]
    pub fn settle(&mut self, packet: Packet<F>) -> Settled {
        let (frame, settled) = packet.dismantle();
        self.put_back(frame);
        settled
    }

    /// Number of free ordinary frames.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Number of ordinary frames, free or not.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of frames in packets, without duplicates. A host that is idle has none; any other
    /// number is a leak.
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
    fn frames_of_pieces_do_not_take_the_place_of_longer_ones() {
        const LONG: usize = 65_535;
        let mut pool = Pool::new((0..2).map(|_| HeapFrame::with_len(LONG)).collect());
        let long = pool.take().expect("two");
        let piece = long.allocate(1514).expect("heap memory");
        pool.put_back(piece);
        pool.put_back(long);
        let lengths: Vec<usize> = core::iter::from_fn(|| pool.take())
            .map(|frame| frame.bytes().len())
            .collect();
        assert_eq!(lengths, [LONG, LONG]);
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
