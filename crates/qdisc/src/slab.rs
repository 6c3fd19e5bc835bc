//! [`Slab`]: one array that holds the packets of many queues.
//!
//! It grows to the largest backlog seen and then never allocates again; a freed place is the first to be used again, while it
//! is still in the cache.

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
        Self { nodes: Vec::with_capacity(capacity), free: None }
    }

    /// Appends `packet` to `queue`.
    pub(crate) fn push_back(&mut self, queue: &mut Chain, packet: P) {
        let at = self.insert(packet);
        queue.push_back(self, at);
    }

    /// Takes the first packet of `queue`.
    pub(crate) fn pop_front(&mut self, queue: &mut Chain) -> Option<P> {
        let at = queue.pop_front(self)?;
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
                slab.push_back(if number % 2 == 0 { &mut even } else { &mut odd }, (round, number));
            }
            for number in [0, 2, 4, 6, 8] {
                assert_eq!(slab.pop_front(&mut even), Some((round, number)));
                assert_eq!(slab.pop_front(&mut odd), Some((round, number + 1)));
            }
            assert_eq!(slab.pop_front(&mut even), None);
            assert_eq!(slab.nodes.len(), 10);
        }
    }
}
