//! [`Slab`]: one array that holds the packets of many queues.
//!
//! It grows to the largest backlog seen and then never allocates again; a freed place is the first to be used again, while it
//! is still in the cache.

use alloc::vec::Vec;
use core::mem;

use crate::index::{Chain, Index, Links};

/// Packets of many queues, each queue a [`Chain`].
#[derive(Debug)]
pub(crate) struct Slab<P> {
    nodes: Vec<Node<P>>,
    free: Option<Index>,
}

#[derive(Debug)]
enum Node<P> {
    Vacant { next: Option<Index> },
    Occupied { next: Option<Index>, packet: P },
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
        match mem::replace(&mut self.nodes[at.get()], Node::Vacant { next: self.free }) {
            Node::Occupied { packet, .. } => {
                self.free = Some(at);
                Some(packet)
            }
            Node::Vacant { .. } => unreachable!("a queue holds only occupied places"),
        }
    }

    fn insert(&mut self, packet: P) -> Index {
        let node = Node::Occupied { next: None, packet };
        if let Some(at) = self.free {
            self.free = self.next(at);
            self.nodes[at.get()] = node;
            return at;
        }
        self.nodes.push(node);
        Index::new(self.nodes.len() - 1)
    }
}

impl<P> Links for Slab<P> {
    fn next(&self, at: Index) -> Option<Index> {
        match &self.nodes[at.get()] {
            Node::Vacant { next } | Node::Occupied { next, .. } => *next,
        }
    }

    fn set_next(&mut self, at: Index, link: Option<Index>) {
        match &mut self.nodes[at.get()] {
            Node::Vacant { next } | Node::Occupied { next, .. } => *next = link,
        }
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
