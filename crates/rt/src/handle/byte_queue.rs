//! [`ByteQueue`]: a bounded queue of bytes between two threads. New chunks are filled, and chunks are read,
//! without the lock between the ends; it is held to pass a chunk, to fill the room of the last one, and to
//! peek. A large chunk can go on without a copy ([`ByteReceiver::lend`]). An empty queue has no chunk, and
//! all queues of a host share a [`Budget`].

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};

use bytes::{Buf, Bytes};
use tautline_stack::KeptBytes;

use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// Bytes of the smallest chunk; an empty queue takes as many even if the budget is spent.
const SMALLEST: usize = 512;
/// Bytes of the largest chunk.
const LARGEST: usize = 16 << 10;
/// Unread bytes from which a chunk is lent, if they also fill three quarters of it: its memory stays until
/// the last byte is dropped, and only the bytes count then.
const LEAST_LENT: usize = LARGEST / 2;
/// Most largest chunks kept for reuse: a bulk transfer then neither allocates nor touches fresh
/// pages.
const SPARE: usize = 64;

/// The bytes that chunks of all queues of a host take.
#[derive(Debug)]
pub(super) struct Budget {
    most: u64,
    held: AtomicUsize,
    /// Buffers of the largest chunks, empty.
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Budget {
    pub(super) fn new(most: u64) -> Self {
        Self {
            most,
            held: AtomicUsize::new(0),
            spare: Mutex::default(),
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the buffer of a largest chunk for reuse.
    fn recycle(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() != LARGEST {
            return;
        }
        let mut spare = self.spare();
        if spare.len() < SPARE {
            buffer.clear();
            spare.push(buffer);
        }
    }

    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed) as u64
    }
}

#[derive(Debug)]
struct Chunk {
    /// Empty once it is lent, or if it was never copied.
    bytes: Vec<u8>,
    /// Bytes that were read.
    start: usize,
    /// Bytes of such a chunk that are not taken yet.
    lent: Bytes,
    /// Memory that counts in the budget until all of it is read.
    capacity: usize,
    budget: Arc<Budget>,
}

impl Chunk {
    fn new(budget: &Arc<Budget>, wanted: usize) -> Self {
        let capacity = wanted.next_power_of_two().clamp(SMALLEST, LARGEST);
        let spare = if capacity == LARGEST {
            budget.spare().pop()
        } else {
            None
        };
        let bytes = spare.unwrap_or_else(|| Vec::with_capacity(capacity));
        let capacity = bytes.capacity();
        budget.held.fetch_add(capacity, Ordering::Relaxed);
        Self {
            bytes,
            start: 0,
            lent: Bytes::new(),
            capacity,
            budget: Arc::clone(budget),
        }
    }

    /// One without room.
    fn of_owned(budget: &Arc<Budget>, lent: Bytes, capacity: usize) -> Self {
        budget.held.fetch_add(capacity, Ordering::Relaxed);
        Self {
            bytes: Vec::new(),
            start: 0,
            lent,
            capacity,
            budget: Arc::clone(budget),
        }
    }

    fn room(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    fn unread(&self) -> &[u8] {
        if self.bytes.is_empty() {
            &self.lent
        } else {
            &self.bytes[self.start..]
        }
    }

    fn skip(&mut self, count: usize) {
        if self.bytes.is_empty() {
            self.lent.advance(count);
        } else {
            self.start += count;
        }
    }

    /// The unread bytes, shared from now on; `None` if they are few.
    fn lend(&mut self) -> Option<&mut Bytes> {
        if self.unread().len() < LEAST_LENT.max(self.capacity / 4 * 3) {
            return None;
        }
        if !self.bytes.is_empty() {
            let buffer = LentBuffer {
                bytes: mem::take(&mut self.bytes),
                budget: Arc::clone(&self.budget),
            };
            self.lent = Bytes::from_owner(buffer).slice(self.start..);
            self.start = 0;
        }
        Some(&mut self.lent)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.capacity, Ordering::Relaxed);
        self.budget.recycle(mem::take(&mut self.bytes));
    }
}

/// The buffer of a lent chunk, reused once nobody holds a part of it.
struct LentBuffer {
    bytes: Vec<u8>,
    budget: Arc<Budget>,
}

impl AsRef<[u8]> for LentBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        self.budget.recycle(mem::take(&mut self.bytes));
    }
}

/// Set in [`ByteQueue::unread`] once one of the ends was dropped.
const ABANDONED: usize = 1 << (usize::BITS - 1);

/// A queue's state, in which both ends share.
#[derive(Debug)]
pub(super) struct ByteQueue {
    /// Bytes that the receiver has not read, and [`ABANDONED`]. It grows with the lock held, so the receiver
    /// finds them in a chunk, and takes no chunk before its bytes count.
    unread: AtomicUsize,
    most: usize,
    chunks: Mutex<VecDeque<Box<Chunk>>>,
    budget: Arc<Budget>,
}

impl ByteQueue {
    /// An empty queue of up to `most` bytes.
    pub(super) fn new(most: usize, budget: &Arc<Budget>) -> Self {
        Self {
            unread: AtomicUsize::new(0),
            most,
            chunks: Mutex::default(),
            budget: Arc::clone(budget),
        }
    }

    fn chunks(&self) -> MutexGuard<'_, VecDeque<Box<Chunk>>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the beginning of `data` to the last chunk, as far as it has room; returns the rest.
    fn extend_last<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let mut chunks = self.chunks();
        let Some(last) = chunks.back_mut() else {
            return data;
        };
        let (now, later) = data.split_at(data.len().min(last.room()));
        last.bytes.extend_from_slice(now);
        self.unread.fetch_add(now.len(), Ordering::Release);
        later
    }

    fn append(&self, chunk: Box<Chunk>) {
        let mut chunks = self.chunks();
        let count = chunk.unread().len();
        chunks.push_back(chunk);
        self.unread.fetch_add(count, Ordering::Release);
    }

    fn unread(&self) -> usize {
        self.unread.load(Ordering::Acquire) & !ABANDONED
    }

    fn is_half_empty(&self) -> bool {
        self.unread() <= self.most / 2
    }

    /// The caller's end is dropped; everything it did before is visible to the other then.
    fn abandon(&self) {
        self.unread.fetch_or(ABANDONED, Ordering::Release);
    }

    /// Whether the other end was dropped.
    fn is_abandoned(&self) -> bool {
        self.unread.load(Ordering::Acquire) & ABANDONED != 0
    }
}

/// The sending end of the queue that `P` points to.
#[derive(Debug)]
pub(super) struct ByteSender<P: Deref<Target = ByteQueue>>(P);

/// The receiving end.
#[derive(Debug)]
pub(super) struct ByteReceiver<P: Deref<Target = ByteQueue>> {
    /// The chunk that is read; never an empty one.
    chunk: Option<Box<Chunk>>,
    queue: P,
}

/// The ends of an empty queue, given two pointers to it. A queue has one of each.
pub(super) fn ends<P>(to_send: P, to_receive: P) -> (ByteSender<P>, ByteReceiver<P>)
where
    P: Deref<Target = ByteQueue>,
{
    let receiver = ByteReceiver {
        chunk: None,
        queue: to_receive,
    };
    (ByteSender(to_send), receiver)
}

impl<P: Deref<Target = ByteQueue>> ByteSender<P> {
    /// Appends as much of `data` as fits; returns how much.
    pub(super) fn push(&mut self, data: &[u8]) -> usize {
        let count = data.len().min(self.room());
        if count > 0 {
            self.push_all(&data[..count]);
        }
        count
    }

    /// Appends `data`, for which there was [`room`](Self::room).
    pub(super) fn push_all(&mut self, data: &[u8]) {
        // Short writes share a chunk.
        let mut rest = self.0.extend_last(data);
        while !rest.is_empty() {
            let mut chunk = Box::new(Chunk::new(&self.0.budget, rest.len()));
            let (now, later) = rest.split_at(rest.len().min(chunk.room()));
            chunk.bytes.extend_from_slice(now);
            self.0.append(chunk);
            rest = later;
        }
    }

    /// Appends bytes, at least one, without a copy. There was [`room`](Self::room) for some of them at least.
    pub(super) fn push_owned(&mut self, kept: KeptBytes) {
        let KeptBytes { bytes, memory } = kept;
        let chunk = Chunk::of_owned(&self.0.budget, bytes, memory);
        self.0.append(Box::new(chunk));
    }

    /// Most bytes that the queue holds at a time.
    pub(super) fn capacity(&self) -> usize {
        self.0.most
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

    /// Bytes that fit. Beyond the budget they are few, and none until the receiver has read all.
    pub(super) fn room(&self) -> usize {
        let ByteQueue { most, budget, .. } = &*self.0;
        match self.0.unread() {
            unread if budget.held() < budget.most => most.saturating_sub(unread),
            0 => SMALLEST.min(*most),
            _ => 0,
        }
    }

    /// Whether half of the queue is free.
    pub(super) fn is_half_empty(&self) -> bool {
        self.0.is_half_empty()
    }

    /// Whether bytes wait for the receiver.
    pub(super) fn has_unread(&self) -> bool {
        self.0.unread() > 0
    }

    /// Whether the receiving end was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}

impl<P: Deref<Target = ByteQueue>> Drop for ByteSender<P> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl<P: Deref<Target = ByteQueue>> ByteReceiver<P> {
    /// Moves bytes to `out`; returns how many.
    pub(super) fn pop(&mut self, out: &mut [u8]) -> usize {
        let mut count = 0;
        while count < out.len() {
            let bytes = self.chunk();
            let len = bytes.len().min(out.len() - count);
            if len == 0 {
                break;
            }
            out[count..count + len].copy_from_slice(&bytes[..len]);
            self.consume(len);
            count += len;
        }
        count
    }

    /// Copies bytes to `out` without removing them; returns how many.
    pub(super) fn peek(&mut self, out: &mut [u8]) -> usize {
        let chunks = self.queue.chunks();
        let mut count = 0;
        for chunk in self.chunk.iter().chain(&*chunks) {
            let bytes = chunk.unread();
            let len = bytes.len().min(out.len() - count);
            out[count..count + len].copy_from_slice(&bytes[..len]);
            count += len;
        }
        count
    }

    /// Bytes that can be read at once, to be consumed; more may follow.
    pub(super) fn chunk(&mut self) -> &[u8] {
        if self.chunk.is_none() && self.queue.unread() > 0 {
            let mut chunks = self.queue.chunks();
            self.chunk = chunks.pop_front();
            let spare = if chunks.is_empty() {
                mem::take(&mut *chunks)
            } else {
                VecDeque::new()
            };
            // Freed without the lock.
            drop(chunks);
            drop(spare);
        }
        self.chunk.as_ref().map_or(&[], |chunk| chunk.unread())
    }

    /// Removes bytes of the present chunk.
    pub(super) fn consume(&mut self, count: usize) {
        if let Some(chunk) = &mut self.chunk {
            chunk.skip(count);
        }
        self.consumed(count);
    }

    /// Lets `take` keep the first bytes of the present chunk without a copy; returns its result, `None` if
    /// they are too few for that. What it does not [split off](Bytes::split_to) stays.
    pub(super) fn lend<T>(&mut self, take: impl FnOnce(&mut Bytes) -> T) -> Option<T> {
        let bytes = self.chunk.as_mut()?.lend()?;
        let before = bytes.len();
        let result = take(bytes);
        let taken = before - bytes.len();
        self.consumed(taken);
        Some(result)
    }

    /// `count` bytes of the present chunk are gone.
    fn consumed(&mut self, count: usize) {
        self.chunk.take_if(|chunk| chunk.unread().is_empty());
        self.queue.unread.fetch_sub(count, Ordering::Release);
    }

    /// Whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.unread() == 0
    }

    /// Whether half of the queue is free.
    pub(super) fn is_half_empty(&self) -> bool {
        self.queue.is_half_empty()
    }

    /// Whether the queue holds as many bytes as it may.
    pub(super) fn is_full(&self) -> bool {
        self.queue.unread() >= self.queue.most
    }

    /// Whether the sending end was dropped. What it wrote can still be read.
    pub(super) fn is_abandoned(&self) -> bool {
        self.queue.is_abandoned()
    }
}

impl<P: Deref<Target = ByteQueue>> Drop for ByteReceiver<P> {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ends = (ByteSender<Arc<ByteQueue>>, ByteReceiver<Arc<ByteQueue>>);

    fn byte_queue(most: usize, budget: &Arc<Budget>) -> Ends {
        let queue = Arc::new(ByteQueue::new(most, budget));
        ends(Arc::clone(&queue), queue)
    }

    fn queue(most: usize) -> Ends {
        byte_queue(most, &Arc::new(Budget::new(1 << 30)))
    }

    #[test]
    fn owned_bytes_keep_their_place_and_count_until_they_are_read() {
        let budget = Arc::new(Budget::new(1 << 20));
        let (mut sender, mut receiver) = byte_queue(1000, &budget);
        assert_eq!(sender.push(b"copied"), 6);
        let kept = |bytes: Vec<u8>| KeptBytes {
            bytes: bytes.into(),
            memory: 2000,
        };
        sender.push_owned(kept(vec![7; 900]));
        assert_eq!(budget.held(), 512 + 2000);
        assert_eq!((sender.room(), sender.capacity()), (94, 1000));
        assert!(!sender.is_half_empty());
        // Past the capacity, by the last of them.
        sender.push_owned(kept(vec![8; 900]));
        assert_eq!(sender.room(), 0);
        let mut out = [0; 100];
        assert_eq!(receiver.peek(&mut out), 100);
        assert_eq!((&out[..6], out[6]), (&b"copied"[..], 7));
        let mut all = vec![0; 2000];
        assert_eq!(receiver.pop(&mut all), 1806);
        assert_eq!(&all[..6], b"copied");
        assert_eq!(
            (&all[6..906], &all[906..1806]),
            (&[7; 900][..], &[8; 900][..])
        );
        assert_eq!((sender.room(), budget.held()), (1000, 0));
        assert_eq!(sender.push(b"again"), 5);
        assert_eq!(receiver.pop(&mut all), 5);
    }

    #[test]
    fn bytes_pass_in_order_through_all_chunks_between_threads() {
        for most in [1, 1024, 1025, 5000, 65_536] {
            let (mut sender, mut receiver) = queue(most);
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
    fn a_queue_holds_no_more_than_its_bound_and_nothing_when_it_is_empty() {
        let budget = Arc::new(Budget::new(1 << 20));
        let (mut sender, mut receiver) = byte_queue(10_000, &budget);
        assert_eq!((budget.held(), sender.room()), (0, 10_000));
        assert_eq!((sender.push(&[1; 400]), budget.held()), (400, 512));
        assert_eq!(
            (sender.push(&[2; 20_000]), budget.held()),
            (9600, 512 + 16_384)
        );
        assert_eq!((sender.push(&[3]), sender.room()), (0, 0));
        let mut out = [0; 600];
        assert_eq!(receiver.peek(&mut out), 600);
        assert_eq!(receiver.pop(&mut out[..500]), 500);
        assert_eq!((out[399], out[400], out[599]), (1, 2, 2));
        assert!(sender.has_unread() && !receiver.is_empty() && !receiver.is_half_empty());
        while receiver.pop(&mut out) > 0 {}
        assert!(receiver.is_empty() && receiver.is_half_empty() && !sender.has_unread());
        assert_eq!((budget.held(), sender.room()), (0, 10_000));
        sender.push(&[7; 5000]);
        receiver.pop(&mut out);
        drop((sender, receiver));
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn beyond_the_budget_a_queue_takes_little_at_a_time() {
        let budget = Arc::new(Budget::new(1000));
        let (mut greedy, mut unread) = byte_queue(10_000, &budget);
        let (mut other, mut receiver) = byte_queue(10_000, &budget);
        assert_eq!(greedy.push(&[1; 5000]), 5000);
        assert_eq!(greedy.push(&[1; 5000]), 0);
        for _ in 0..3 {
            assert_eq!(other.push(&[2; 5000]), SMALLEST);
            assert_eq!(other.push(&[2; 5000]), 0);
            assert_eq!(receiver.pop(&mut [0; 1000]), SMALLEST);
        }
        while unread.pop(&mut [0; 1000]) > 0 {}
        assert_eq!(greedy.push(&[1; 5000]), 5000);
    }

    #[test]
    fn a_large_chunk_is_lent_and_its_memory_counts_until_all_of_it_is_taken() {
        let budget = Arc::new(Budget::new(1 << 20));
        let (mut sender, mut receiver) = byte_queue(1 << 20, &budget);
        sender.push(&[1; LEAST_LENT - 1]);
        assert_eq!(receiver.chunk().len(), LEAST_LENT - 1);
        assert_eq!(receiver.lend(|bytes| bytes.len()), None, "too few");
        receiver.consume(LEAST_LENT - 1);
        let data: Vec<u8> = (0..LARGEST).map(|at| at as u8).collect();
        sender.push(&data);
        assert_eq!(receiver.chunk(), data);
        let kept = receiver.lend(|bytes| bytes.split_to(100)).expect("lent");
        assert_eq!((budget.held(), &kept[..]), (LARGEST as u64, &data[..100]));
        let mut peeked = [0; 10];
        assert_eq!(
            (receiver.peek(&mut peeked), &peeked[..]),
            (10, &data[100..110])
        );
        assert_eq!(receiver.chunk(), &data[100..]);
        let rest = receiver.lend(std::mem::take).expect("lent");
        assert_eq!((budget.held(), receiver.is_empty()), (0, true));
        assert_eq!(rest, &data[100..]);
        drop(rest);
        assert!(budget.spare().is_empty(), "a part is kept");
        drop(kept);
        assert_eq!(budget.spare().len(), 1);
    }

    /// A byte that the send buffer keeps would keep all of the chunk, which counts no more.
    #[test]
    fn the_rest_of_a_lent_chunk_is_copied_if_it_is_short() {
        let budget = Arc::new(Budget::new(1 << 30));
        let (mut sender, mut receiver) = byte_queue(1 << 20, &budget);
        sender.push(&[7; LARGEST]);
        assert_eq!(receiver.chunk().len(), LARGEST);
        let taken = receiver.lend(|lent| lent.split_to(LARGEST - 1));
        assert_eq!(taken.as_ref().map(Bytes::len), Some(LARGEST - 1));
        assert!(receiver.lend(mem::take).is_none());
        assert_eq!((receiver.chunk(), budget.held()), (&[7][..], 16_384));
        receiver.consume(1);
        drop(taken);
        assert_eq!((budget.held(), budget.spare().len()), (0, 1));
    }

    #[test]
    fn a_chunk_is_lent_only_if_its_bytes_fill_most_of_it() {
        for (len, is_lent) in [(8192, true), (9000, false), (12_288, true), (4096, false)] {
            let (mut sender, mut receiver) = queue(1 << 20);
            sender.push(&vec![7; len]);
            assert_eq!(receiver.chunk().len(), len);
            assert_eq!(receiver.lend(mem::take).is_some(), is_lent, "{len}");
        }
    }

    #[test]
    fn each_end_sees_that_the_other_was_dropped() {
        let (mut sender, receiver) = queue(9000);
        sender.push(&[7; 9000]);
        assert!(!sender.is_abandoned() && !receiver.is_abandoned());
        drop(receiver);
        assert!(sender.is_abandoned() && sender.has_unread());
        let (sender, receiver) = queue(9000);
        drop(sender);
        assert!(receiver.is_abandoned());
    }
}
