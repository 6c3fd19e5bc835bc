//! [`Slab`]: one array that holds the packets of many queues.
//!
//! It grows to the largest backlog seen and then never allocates again; a freed place is the first
//! to be used again, while it is still in the cache.

use alloc::vec::Vec;

use crate::index::{Chain, Index, Links};

/// Packets of many queues, each queue a [`Chain`].
#[derive(Debug)]
pub(crate) struct Slab<P> {
    nodes: Vec<Node<P>>,
    free: Option<Index>,
}

/// A place: empty ones are linked too, in the order of their reuse.
#[derive(Debug)]
struct Node<P> {
    next: Option<Index>,
    packet: Option<P>,
}

impl<P> Slab<P> {
    /// An empty slab with room for `capacity` packets before it grows.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(capacity),
            free: None,
        }
    }

    /// Appends `packet` to `queue`.
    pub(crate) fn push_back(&mut self, queue: &mut Chain, packet: P) {
        let at = self.insert(packet);
        queue.push_back(self, at);
    }

    /// Takes the first packet of `queue`.
    pub(crate) fn pop_front(&mut self, queue: &mut Chain) -> Option<P> {
        let at = queue.pop_front(self)?;
        self.remove(at)
    }

    /// Takes the packet after `before`, the first of `queue` if that is `None`. `before` is in
    /// `queue`.
    pub(crate) fn take_after(&mut self, queue: &mut Chain, before: Option<Index>) -> Option<P> {
        let at = queue.remove_after(self, before)?;
        self.remove(at)
    }

    /// The packets of `queue` and their places, first to last.
    pub(crate) fn iter(&self, queue: Chain) -> impl Iterator<Item = (Index, &P)> {
        let places = core::iter::successors(queue.front(), |&at| self.next(at));
        places.filter_map(|at| Some((at, self.nodes[at.get()].packet.as_ref()?)))
    }

    /// The last packet of `queue` and its place.
    pub(crate) fn back(&self, queue: Chain) -> Option<(Index, &P)> {
        let at = queue.back()?;
        Some((at, self.nodes[at.get()].packet.as_ref()?))
    }

    fn remove(&mut self, at: Index) -> Option<P> {
        let node = &mut self.nodes[at.get()];
        node.next = self.free.replace(at);
        node.packet.take()
    }

    fn insert(&mut self, packet: P) -> Index {
        let packet = Some(packet);
        if let Some(at) = self.free {
            let node = &mut self.nodes[at.get()];
            self.free = node.next;
            node.packet = packet;
            return at;
        }
        self.nodes.push(Node { next: None, packet });
        Index::new(self.nodes.len() - 1)
    }
}

impl<P> Links for Slab<P> {
    fn next(&self, at: Index) -> Option<Index> {
        self.nodes[at.get()].next
    }

    fn set_next(&mut self, at: Index, next: Option<Index>) {
        self.nodes[at.get()].next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_queues_keep_their_order_and_places_are_reused() {
        let mut slab = Slab::with_capacity(0);
        let (mut even, mut odd) = (Chain::default(), Chain::default());
        for round in 0..3 {
            for number in 0..10 {
                slab.push_back(
                    if number % 2 == 0 { &mut even } else { &mut odd },
                    (round, number),
                );
            }
            for number in [0, 2, 4, 6, 8] {
                assert_eq!(slab.pop_front(&mut even), Some((round, number)));
                assert_eq!(slab.pop_front(&mut odd), Some((round, number + 1)));
            }
            assert_eq!(slab.pop_front(&mut even), None);
            assert_eq!(slab.nodes.len(), 10);
        }
    }

    #[test]
    fn packets_are_taken_from_anywhere() {
        let (mut slab, mut queue) = (Slab::with_capacity(0), Chain::default());
        for victim in 0..4 {
            (0..4).for_each(|number| slab.push_back(&mut queue, number));
            let before = slab
                .iter(queue)
                .take_while(|(_, number)| **number < victim)
                .last()
                .map(|(at, _)| at);
            assert_eq!(slab.take_after(&mut queue, before), Some(victim));
            slab.push_back(&mut queue, 4);
            let rest = core::iter::from_fn(|| slab.pop_front(&mut queue));
            assert!(
                rest.eq((0..5).filter(|number| *number != victim)),
                "{victim}"
            );
        }
        assert_eq!(slab.take_after(&mut queue, None), None);
        assert_eq!(slab.nodes.len(), 4);
    }
}
