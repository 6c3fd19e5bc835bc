//! The host's queues of connections: the runnable ones, and those with a deadline. No code path
//! scans all connections.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tautline_base::{Instant, SocketId};

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

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Drops the entries that do not count, once there are many: each timer that displaced a far deadline
    /// has left one. If that one does not move, it has as many entries, of which one stays. What is
    /// dropped has been added since the last time, so that an entry costs no more than a second look.
    pub(crate) fn sweep(&mut self, sockets: usize, counts: impl Fn(Instant, SocketId) -> bool) {
        if self.heap.len() > INITIAL_CAPACITY + 4 * sockets {
            let mut entries = std::mem::take(&mut self.heap).into_vec();
            entries.retain(|Reverse((at, id))| counts(*at, *id));
            entries.sort_unstable();
            entries.dedup();
            self.heap = entries.into();
        }
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

    #[test]
    fn entries_that_do_not_count_are_dropped_once_they_are_many() {
        let mut queue = TimeQueue::default();
        for at in 0..100_000 {
            queue.push(Instant::from_nanos(at), ID);
            queue.sweep(1, |entry, _| entry == Instant::from_nanos(at));
            assert!(queue.heap.len() <= INITIAL_CAPACITY + 4);
        }
        let last = std::iter::from_fn(|| queue.pop_due(Instant::from_secs(1))).last();
        assert_eq!(last, Some((Instant::from_nanos(99_999), ID)));
    }

    /// A deadline that does not move has an entry for each timer before it, and all of them count. Each
    /// entry that is added costs few looks all the same.
    #[test]
    fn many_entries_for_one_deadline_do_not_slow_the_others() {
        const SOCKETS: usize = 10_000;
        let of = |index| SocketId { index, ..ID };
        let far = Instant::from_secs(7200);
        let mut queue = TimeQueue::default();
        for _ in 0..5 {
            (0..SOCKETS as u32).for_each(|index| queue.push(far, of(index)));
        }
        let looks = std::cell::Cell::new(0);
        for at in 0..1000 {
            let at = Instant::from_nanos(at);
            queue.push(at, of(u32::MAX));
            queue.sweep(SOCKETS, |entry, _| {
                looks.set(looks.get() + 1);
                entry == far || entry == at
            });
        }
        assert!(looks.get() < 10 * SOCKETS, "{} looks", looks.get());
        assert!(queue.heap.len() < 2 * SOCKETS, "{}", queue.heap.len());
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
