//! [`EventQueue`]: events in order of virtual time.
//!
//! Events at the same time leave in order of insertion, so a simulation never depends on how a heap
//! breaks ties. Frames on a wire mostly arrive in the order in which they left: events after all
//! others are in a FIFO, and only those that overtake are in a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use tautline_base::Instant;

/// Pending events, earliest first.
#[derive(Debug)]
pub struct EventQueue<E> {
    /// Events in order.
    line: VecDeque<Entry<E>>,
    /// Events that were inserted before the end of `line`.
    heap: BinaryHeap<Reverse<Entry<E>>>,
    inserted: u64,
}

impl<E> EventQueue<E> {
    /// No events.
    pub const fn new() -> Self {
        Self {
            line: VecDeque::new(),
            heap: BinaryHeap::new(),
            inserted: 0,
        }
    }

    /// Inserts `event` at time `at`.
    pub fn push(&mut self, at: Instant, event: E) {
        let entry = Entry {
            at,
            order: self.inserted,
            event,
        };
        self.inserted += 1;
        match self.line.back() {
            Some(last) if last.at > at => self.heap.push(Reverse(entry)),
            _ => self.line.push_back(entry),
        }
    }

    /// Time of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        match (self.line.front(), self.heap.peek()) {
            (None, None) => None,
            (Some(entry), None) | (None, Some(Reverse(entry))) => Some(entry.at),
            (Some(first), Some(Reverse(overtaking))) => Some(first.at.min(overtaking.at)),
        }
    }

    /// Removes the earliest event that is due at `now`, and returns it with its time.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, E)> {
        let overtaken = match (self.line.front(), self.heap.peek()) {
            (first, Some(Reverse(overtaking))) => first.is_none_or(|first| overtaking < first),
            (_, None) => false,
        };
        let next = if overtaken {
            self.heap.peek().map(|Reverse(entry)| entry.at)
        } else {
            self.line.front().map(|entry| entry.at)
        };
        if next? > now {
            return None;
        }
        let entry = if overtaken {
            self.heap.pop().map(|Reverse(entry)| entry)
        } else {
            self.line.pop_front()
        };
        entry.map(|Entry { at, event, .. }| (at, event))
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.line.len() + self.heap.len()
    }

    /// True without pending events.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty() && self.heap.is_empty()
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    order: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.order)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn earliest_first_and_ties_in_order_of_insertion() {
        let mut queue = EventQueue::new();
        for (at, name) in [
            (5, "late"),
            (1, "first"),
            (1, "second"),
            (1, "third"),
            (0, "now"),
        ] {
            queue.push(Instant::from_nanos(at), name);
        }
        assert_eq!(queue.next_at(), Some(Instant::ZERO));
        let mut due = |now| {
            std::iter::from_fn(|| queue.pop_due(Instant::from_nanos(now)))
                .map(|(_, e)| e)
                .collect::<Vec<_>>()
        };
        assert_eq!(due(4), ["now", "first", "second", "third"]);
        assert_eq!(due(4), [""; 0]);
        assert_eq!(due(5), ["late"]);
        assert!(queue.is_empty());
    }

    proptest! {
        /// A line beside a heap is still in order: as if all were sorted each time.
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec((0..30_u64, any::<bool>()), 1..200)) {
            let (mut queue, mut list, mut now) = (EventQueue::new(), Vec::new(), 0);
            for (order, (time, pop)) in steps.into_iter().enumerate() {
                if pop {
                    now += time / 8;
                    list.sort();
                    let due = list.first().filter(|(at, _)| *at <= now).copied();
                    list.drain(..due.iter().len());
                    let popped = queue.pop_due(Instant::from_nanos(now)).map(|(at, event)| (at.as_nanos(), event));
                    prop_assert_eq!(popped, due);
                } else {
                    queue.push(Instant::from_nanos(now + time), order);
                    list.push((now + time, order));
                }
                prop_assert_eq!(queue.next_at().map(Instant::as_nanos), list.iter().min().map(|(at, _)| *at));
                prop_assert_eq!((queue.len(), queue.is_empty()), (list.len(), list.is_empty()));
            }
        }
    }
}
