//! [`byte_ring`]: a bounded queue of bytes between two threads, without locks, that is small until it
//! overflows once: an idle connection holds [`SMALL`] bytes each way.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use rtrb::chunks::ReadChunk;
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of the first ring.
const SMALL: usize = 1024;

/// The second ring on its way to the receiver.
#[derive(Debug, Default)]
struct Successor {
    is_there: AtomicBool,
    ring: Mutex<Option<Consumer<u8>>>,
}

/// The sending end.
#[derive(Debug)]
pub(super) struct ByteSender {
    ring: Producer<u8>,
    /// The first ring, until it is drained.
    before: Option<Producer<u8>>,
    /// Capacity of the second ring; 0 once there is one.
    growth: usize,
    successor: Arc<Successor>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct ByteReceiver {
    ring: Consumer<u8>,
    /// The second ring, until the first is drained.
    after: Option<Consumer<u8>>,
    successor: Arc<Successor>,
}

/// A queue of up to `most` bytes.
pub(super) fn byte_ring(most: usize) -> (ByteSender, ByteReceiver) {
    let first = most.min(SMALL);
    let (producer, consumer) = RingBuffer::new(first);
    let successor = Arc::<Successor>::default();
    let sender = ByteSender {
        ring: producer,
        before: None,
        growth: most - first,
        successor: Arc::clone(&successor),
    };
    let receiver = ByteReceiver {
        ring: consumer,
        after: None,
        successor,
    };
    (sender, receiver)
}

/// Whether the other end was dropped. All it did before is visible then.
fn is_abandoned(successor: &Arc<Successor>) -> bool {
    let alone = Arc::strong_count(successor) == 1;
    // Pairs with the release of the other end's reference.
    fence(Ordering::Acquire);
    alone
}

impl ByteSender {
    /// Appends as much of `data` as fits; returns how much.
    pub(super) fn push(&mut self, data: &[u8]) -> usize {
        let (pushed, rest) = self.ring.push_partial_slice(data);
        let count = pushed.len();
        if rest.is_empty() || self.growth == 0 {
            return count;
        }
        let (producer, consumer) = RingBuffer::new(std::mem::take(&mut self.growth));
        self.before = Some(std::mem::replace(&mut self.ring, producer));
        let slot = self.successor.ring.lock();
        *slot.unwrap_or_else(PoisonError::into_inner) = Some(consumer);
        self.successor.is_there.store(true, Ordering::Release);
        count + self.ring.push_partial_slice(rest).0.len()
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
        self.ring.slots() + self.growth
    }

    /// Whether bytes wait for the receiver.
    pub(super) fn has_unread(&mut self) -> bool {
        let waits = |ring: &Producer<u8>| ring.slots() < ring.buffer().capacity();
        self.before = self.before.take().filter(waits);
        self.before.is_some() || waits(&self.ring)
    }

    /// Whether the receiving end was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        is_abandoned(&self.successor)
    }
}

impl ByteReceiver {
    /// Goes on to the second ring if the first is drained.
    fn advance(&mut self) {
        if self.after.is_none() && self.successor.is_there.load(Ordering::Acquire) {
            let slot = self.successor.ring.lock();
            self.after = slot.unwrap_or_else(PoisonError::into_inner).take();
            // There is no third ring: the lock is taken once.
            self.successor.is_there.store(false, Ordering::Relaxed);
        }
        // The sender had written its last byte to the first ring before the second was there.
        if self.after.is_some() && self.ring.is_empty() {
            self.ring = self.after.take().expect("just seen");
        }
    }

    /// Moves bytes to `out`; returns how many.
    pub(super) fn pop(&mut self, out: &mut [u8]) -> usize {
        self.advance();
        let count = self.ring.pop_partial_slice(out).0.len();
        if count < out.len() && self.after.is_some() {
            self.advance();
            return count + self.ring.pop_partial_slice(&mut out[count..]).0.len();
        }
        count
    }

    /// Bytes that can be read at once, to be committed; more may follow.
    pub(super) fn chunk(&mut self) -> ReadChunk<'_, u8> {
        self.advance();
        let count = self.ring.slots();
        self.ring.read_chunk(count).expect("at most `slots`")
    }

    /// Whether there is nothing to read.
    pub(super) fn is_empty(&mut self) -> bool {
        self.advance();
        self.ring.is_empty()
    }

    /// Whether half of the ring is free.
    pub(super) fn is_half_empty(&self) -> bool {
        self.ring.slots() <= self.ring.buffer().capacity() / 2
    }

    /// Whether the sending end was dropped. What it wrote can still be read.
    pub(super) fn is_abandoned(&self) -> bool {
        is_abandoned(&self.successor)
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
        assert_eq!(sender.ring.buffer().capacity(), SMALL);
        assert_eq!((sender.room(), sender.has_unread()), (10_000, false));
        assert_eq!(sender.push(&[1; 900]), 900);
        assert_eq!(sender.growth, 10_000 - SMALL);
        assert_eq!(sender.push(&[2; 20_000]), 9100);
        assert_eq!((sender.push(&[3]), sender.room()), (0, 0));
        let mut out = [0; 1000];
        assert_eq!(receiver.pop(&mut out), 1000);
        assert_eq!((out[899], out[900]), (1, 2));
        assert!(sender.has_unread() && !receiver.is_empty());
        while receiver.pop(&mut out) > 0 {}
        assert!(receiver.is_empty() && !sender.has_unread());
        assert_eq!(sender.room(), 10_000 - SMALL, "the first ring is gone");
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
