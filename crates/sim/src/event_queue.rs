//! [`EventQueue`]: what happens when, in virtual time.
//!
//! A binary heap over (time, order of insertion): events at the same instant come out in the order they went in, so a simulation
//! never depends on how a heap breaks ties.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use tautline_base::Instant;

/// Events to come, earliest first.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    inserted: u64,
}

impl<E> EventQueue<E> {
    /// No events.
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }

    /// Plans `event` at `at`.
    pub fn push(&mut self, at: Instant, event: E) {
        self.heap.push(Reverse(Entry { at, order: self.inserted, event }));
        self.inserted += 1;
    }

    /// When the next event is due.
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the earliest event that is due at `now`, and when it was.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, E)> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }

    /// Events to come.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True when nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
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
    use super::*;

    #[test]
    fn earliest_first_and_ties_in_order_of_insertion() {
        let mut queue = EventQueue::new();
        for (at, name) in [(5, "late"), (1, "first"), (1, "second"), (1, "third"), (0, "now")] {
            queue.push(Instant::from_nanos(at), name);
        }
        assert_eq!(queue.next_at(), Some(Instant::ZERO));
        let mut due =
            |now| std::iter::from_fn(|| queue.pop_due(Instant::from_nanos(now))).map(|(_, e)| e).collect::<Vec<_>>();
        assert_eq!(due(4), ["now", "first", "second", "third"]);
        assert_eq!(due(4), [""; 0]);
        assert_eq!(due(5), ["late"]);
        assert!(queue.is_empty());
    }
}
