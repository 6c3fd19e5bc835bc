//! [`byte_ring`]: a bounded queue of bytes between two threads, without locks, that costs nothing until
//! it is used: the first write allocates a ring of [`SMALL`] bytes, or as large as it needs, and the
//! one that overflows it a ring of full size.

use std::io::IoSlice;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use rtrb::chunks::ReadChunk;
use rtrb::{Consumer, Producer, RingBuffer};

/// Least bytes of the first ring.
const SMALL: usize = 512;

/// Rings on their way to the receiver.
#[derive(Debug, Default)]
struct Successors {
    /// Rings that the sender has made, those that the receiver took included.
    made: AtomicUsize,
    waiting: Mutex<Vec<Consumer<u8>>>,
}

/// The sending end.
#[derive(Debug)]
pub(super) struct ByteSender {
    ring: Option<Producer<u8>>,
    /// The ring before it, until it is drained.
    before: Option<Producer<u8>>,
    /// Bytes that rings may yet be made for.
    growth: usize,
    successors: Arc<Successors>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct ByteReceiver {
    ring: Option<Consumer<u8>>,
    /// Rings taken.
    taken: usize,
    successors: Arc<Successors>,
}

/// A queue of up to `most` bytes.
pub(super) fn byte_ring(most: usize) -> (ByteSender, ByteReceiver) {
    let successors = Arc::<Successors>::default();
    let sender = ByteSender {
        ring: None,
        before: None,
        growth: most,
        successors: Arc::clone(&successors),
    };
    let receiver = ByteReceiver {
        ring: None,
        taken: 0,
        successors,
    };
    (sender, receiver)
}

/// Whether the other end was dropped. All it did before is visible then.
fn is_abandoned(successors: &Arc<Successors>) -> bool {
    let alone = Arc::strong_count(successors) == 1;
    // Pairs with the release of the other end's reference.
    fence(Ordering::Acquire);
    alone
}

/// Whether bytes wait in `ring`.
fn has_bytes(ring: &Producer<u8>) -> bool {
    ring.slots() < ring.buffer().capacity()
}

impl ByteSender {
    /// Appends as much of `data` as fits; returns how much.
    pub(super) fn push(&mut self, data: &[u8]) -> usize {
        let mut count = self.push_to_ring(data);
        // Twice at most: the second ring takes all the growth.
        while count < data.len() && self.growth > 0 {
            self.grow(data.len());
            count += self.push_to_ring(&data[count..]);
        }
        count
    }

    fn push_to_ring(&mut self, data: &[u8]) -> usize {
        let pushed = self
            .ring
            .as_mut()
            .map(|ring| ring.push_partial_slice(data).0);
        pushed.map_or(0, |pushed| pushed.len())
    }

    /// Adds a ring; the first holds `wanted` bytes.
    fn grow(&mut self, wanted: usize) {
        let first = wanted.next_power_of_two().max(SMALL);
        let capacity = if self.ring.is_none() {
            self.growth.min(first)
        } else {
            self.growth
        };
        self.growth -= capacity;
        let (producer, consumer) = RingBuffer::new(capacity);
        self.before = self.ring.replace(producer);
        let waiting = self.successors.waiting.lock();
        waiting
            .unwrap_or_else(PoisonError::into_inner)
            .push(consumer);
        self.successors.made.fetch_add(1, Ordering::Release);
    }

    /// Appends the beginning of `parts`, in order; returns how much, and whether all parts are empty.
    pub(super) fn push_parts(
        &mut self,
        parts: &mut dyn Iterator<Item = IoSlice<'_>>,
    ) -> (usize, bool) {
        let (mut total, mut empty) = (0, true);
        for part in parts {
            let count = self.push(&part);
            total += count;
            empty &= part.is_empty();
            if count < part.len() {
                break;
            }
        }
        (total, empty)
    }

    /// Bytes that fit.
    pub(super) fn room(&self) -> usize {
        self.ring.as_ref().map_or(0, Producer::slots) + self.growth
    }

    /// Whether bytes wait for the receiver.
    pub(super) fn has_unread(&mut self) -> bool {
        self.before = self.before.take().filter(has_bytes);
        self.before.is_some() || self.ring.as_ref().is_some_and(has_bytes)
    }

    /// Whether the receiving end was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        is_abandoned(&self.successors)
    }
}

impl ByteReceiver {
    /// Goes on to the next ring if the present one is drained.
    fn advance(&mut self) {
        // The sender had written its last byte to the present ring before the next was there.
        while self.taken < self.successors.made.load(Ordering::Acquire)
            && self.ring.as_ref().is_none_or(Consumer::is_empty)
        {
            let waiting = self.successors.waiting.lock();
            let next = waiting.unwrap_or_else(PoisonError::into_inner).remove(0);
            self.ring = Some(next);
            self.taken += 1;
        }
    }

    /// Moves bytes to `out`; returns how many.
    pub(super) fn pop(&mut self, out: &mut [u8]) -> usize {
        let mut count = 0;
        loop {
            self.advance();
            let rest = &mut out[count..];
            let popped = self
                .ring
                .as_mut()
                .map(|ring| ring.pop_partial_slice(rest).0.len());
            match popped {
                Some(popped) if popped > 0 => count += popped,
                _ => return count,
            }
        }
    }

    /// Bytes that can be read at once, to be committed; more may follow.
    pub(super) fn chunk(&mut self) -> Option<ReadChunk<'_, u8>> {
        self.advance();
        let ring = self.ring.as_mut()?;
        let count = ring.slots();
        Some(ring.read_chunk(count).expect("at most `slots`"))
    }

    /// Whether there is nothing to read.
    pub(super) fn is_empty(&mut self) -> bool {
        self.advance();
        self.ring.as_ref().is_none_or(Consumer::is_empty)
    }

    /// Whether half of the ring is free.
    pub(super) fn is_half_empty(&self) -> bool {
        let is_half_empty = |ring: &Consumer<u8>| ring.slots() <= ring.buffer().capacity() / 2;
        self.ring.as_ref().is_none_or(is_half_empty)
    }

    /// Whether the sending end was dropped. Written bytes can still be read.
    pub(super) fn is_abandoned(&self) -> bool {
        is_abandoned(&self.successors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_in_order_through_both_rings_between_threads() {
        for most in [1, 1024, 1025, 5000, 65_536] {
            let (mut sender, mut receiver) = byte_ring(most);
            let bytes = (most * 30).min(200_000);
            let writer = std::thread::spawn(move || {
                let mut next = 0;
                while next < bytes {
                    let len = (next % 1777 + 1).min(bytes - next);
                    let data: Vec<u8> = (next..next + len)
                        .map(|at| (at ^ (at >> 7)) as u8)
                        .collect();
                    let count = sender.push(&data);
                    next += count;
                    if count == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let (mut next, mut out) = (0, [0; 700]);
            loop {
                let is_last = receiver.is_abandoned();
                let count = receiver.pop(&mut out);
                for byte in &out[..count] {
                    assert_eq!(*byte, (next ^ (next >> 7)) as u8, "byte {next}");
                    next += 1;
                }
                if count == 0 {
                    if is_last {
                        break;
                    }
                    std::thread::yield_now();
                }
            }
            assert_eq!(next, bytes);
            writer.join().expect("no panic");
        }
    }

    #[test]
    fn a_queue_is_small_until_it_overflows_and_never_holds_more_than_its_bound() {
        let (mut sender, mut receiver) = byte_ring(10_000);
        assert!(sender.ring.is_none() && receiver.is_empty());
        assert_eq!((sender.room(), sender.has_unread()), (10_000, false));
        assert_eq!(sender.push(&[1; 400]), 400);
        assert_eq!(sender.growth, 10_000 - SMALL);
        assert_eq!(sender.push(&[2; 20_000]), 9600);
        assert_eq!((sender.push(&[3]), sender.room()), (0, 0));
        let mut out = [0; 500];
        assert_eq!(receiver.pop(&mut out), 500);
        assert_eq!((out[399], out[400]), (1, 2));
        assert!(sender.has_unread() && !receiver.is_empty());
        while receiver.pop(&mut out) > 0 {}
        assert!(receiver.is_empty() && !sender.has_unread());
        assert_eq!(sender.room(), 10_000 - SMALL, "the first ring is gone");
        let (mut sender, _receiver) = byte_ring(10_000);
        assert_eq!(sender.push(&[1; 3000]), 3000);
        assert_eq!(sender.growth, 10_000 - 4096);
    }

    #[test]
    fn each_end_sees_that_the_other_was_dropped() {
        for grows in [false, true] {
            let (mut sender, receiver) = byte_ring(9000);
            sender.push(&[7; 9000][..if grows { 9000 } else { 10 }]);
            assert!(!sender.is_abandoned() && !receiver.is_abandoned());
            drop(receiver);
            assert!(sender.is_abandoned() && sender.has_unread());
            let (sender, receiver) = byte_ring(9000);
            drop(sender);
            assert!(receiver.is_abandoned());
        }
    }
}
