//! The host's queues of connections: the runnable ones, and those with a deadline. No code path
//! scans all connections.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tautline_base::{Instant, SocketId};

use crate::armed::Armed;
use crate::tcp::Connection;

/// Sockets that may have something to send, each at most once.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    queue: VecDeque<SocketId>,
}

impl RunQueue {
    /// Adds `connection` unless it is queued already.
    pub(crate) fn push(&mut self, connection: &mut Connection) {
        self.add(connection.id, &mut connection.links.queued);
    }

    /// Adds `id` unless its flag says that it is queued already.
    pub(crate) fn add(&mut self, id: SocketId, queued: &mut bool) {
        if !std::mem::replace(queued, true) {
            self.queue.push_back(id);
        }
    }

    /// The next one. The caller clears its `queued` flag.
    pub(crate) fn pop(&mut self) -> Option<SocketId> {
        self.queue.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Entries for which a queue of deadlines has room from the start: a connection whose timer fires
/// once a millisecond leaves 200 entries behind before the first of its retransmission timeouts
/// comes up. A stall then allocates nothing.
const INITIAL_CAPACITY: usize = 256;

/// Entries for which a queue of deadlines keeps room after a burst.
const LEAST_CAPACITY: usize = 1024;

/// Connections by deadline.
///
/// A deadline that moves later leaves its entry in place; the entry is corrected when it comes up.
/// Timers that are pushed back with every acknowledgment therefore cost nothing per packet.
#[derive(Debug)]
pub(crate) struct TimeQueue {
    heap: BinaryHeap<Reverse<(Instant, SocketId)>>,
}

impl Default for TimeQueue {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::with_capacity(INITIAL_CAPACITY),
        }
    }
}

impl TimeQueue {
    /// Adds an entry.
    pub(crate) fn push(&mut self, at: Instant, id: SocketId) {
        self.heap.push(Reverse((at, id)));
    }

    /// Makes `at` the deadline of connection `id`, unless one of its entries comes up before.
    pub(crate) fn arm(&mut self, armed: &mut Armed, at: Instant, id: SocketId) {
        if armed.set(at) {
            self.push(at, id);
        }
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes an entry whose deadline has passed.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, SocketId)> {
        if self.next()? > now {
            return None;
        }
        let entry = self.heap.pop();
        // After a burst of deadlines the memory goes back by halves, so seldom that the copies cost
        // each entry no more than one.
        let capacity = self.heap.capacity();
        if capacity > LEAST_CAPACITY && self.heap.len() < capacity / 4 {
            self.heap.shrink_to(capacity / 2);
        }
        entry.map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    const ID: SocketId = SocketId {
        index: 0,
        generation: NonZeroU32::MIN,
    };

    #[test]
    fn a_queue_of_deadlines_has_room_for_those_of_a_stall() {
        let mut queue = TimeQueue::default();
        let capacity = queue.heap.capacity();
        (0..200).for_each(|at| queue.push(Instant::from_millis(at), ID));
        assert_eq!(queue.heap.capacity(), capacity);
    }

    /// Deadlines soon, soon after, and far away, of which the last moves with each segment: none is
    /// missed, and those before the last leave few entries for it.
    #[test]
    fn each_deadline_comes_up_and_leaves_few_entries() {
        let (mut queue, mut armed) = (TimeQueue::default(), Armed::default());
        let mut random = tautline_base::SplitMix64::new(1);
        let mut deadlines = [None; 3];
        for now in 0..100_000 {
            while let Some((at, _)) = queue.pop_due(Instant::from_nanos(now)) {
                armed.take(at);
            }
            for (deadline, scale) in deadlines.iter_mut().zip([3, 40]) {
                match random.next_u64() % 8 {
                    0 => *deadline = Some(now + 1 + random.next_u64() % scale),
                    1 => *deadline = None,
                    _ => *deadline = deadline.filter(|at| *at > now),
                }
            }
            deadlines[2] = Some(now + 50_000);
            if let Some(at) = deadlines.iter().flatten().min() {
                queue.arm(&mut armed, Instant::from_nanos(*at), ID);
                let next = queue.next().expect("armed");
                assert!(next <= Instant::from_nanos(*at), "{now}: {deadlines:?}");
            }
            let entries = queue.heap.len();
            assert!(entries < 40, "{entries} at {now}");
        }
    }

    #[test]
    fn a_queue_of_deadlines_returns_the_memory_of_a_burst() {
        let mut queue = TimeQueue::default();
        (0..100_000).for_each(|at| queue.push(Instant::from_nanos(at), ID));
        let due: Vec<_> = std::iter::from_fn(|| queue.pop_due(Instant::from_secs(1))).collect();
        assert!(due.is_sorted() && due.len() == 100_000);
        let capacity = queue.heap.capacity();
        assert!(
            (LEAST_CAPACITY / 2..=LEAST_CAPACITY).contains(&capacity),
            "{capacity}"
        );
    }
}
