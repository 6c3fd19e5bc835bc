//! [`Packets`]: one array that holds the packets of many queues, which lose packets at both ends.
//!
//! [`Slab`](crate::slab::Slab) serves queues that are only taken from at the head; SFQ also drops
//! at the tail, so its packets are linked both ways.

use alloc::vec::Vec;

use crate::index::Index;

/// Packets of many queues. It grows to the largest backlog seen and then never allocates again.
#[derive(Debug)]
pub(super) struct Packets<P> {
    nodes: Vec<Node<P>>,
    /// Places without a packet, linked by `next`.
    free: Option<Index>,
}

#[derive(Debug)]
struct Node<P> {
    before: Option<Index>,
    next: Option<Index>,
    packet: Option<P>,
}

/// First and last packet of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    ends: Option<(Index, Index)>,
}

impl Queue {
    /// Takes what is queued; this one is empty then.
    pub(super) fn take(&mut self) -> Self {
        core::mem::take(self)
    }
}

impl<P> Packets<P> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: None,
        }
    }

    /// Appends `packet` to `queue`.
    pub(super) fn push_back(&mut self, queue: &mut Queue, packet: P) {
        let at = self.insert(packet);
        self.append(
            queue,
            Queue {
                ends: Some((at, at)),
            },
        );
    }

    /// Appends all of `tail` to `queue`.
    pub(super) fn append(&mut self, queue: &mut Queue, tail: Queue) {
        let (Some((first, last)), Some((head, end))) = (queue.ends, tail.ends) else {
            queue.ends = queue.ends.or(tail.ends);
            return;
        };
        self.nodes[last.get()].next = Some(head);
        self.nodes[head.get()].before = Some(last);
        queue.ends = Some((first, end));
    }

    /// Takes the first packet of `queue`.
    pub(super) fn pop_front(&mut self, queue: &mut Queue) -> Option<P> {
        let (first, last) = queue.ends?;
        queue.ends = self.nodes[first.get()].next.map(|second| (second, last));
        if let Some((second, _)) = queue.ends {
            self.nodes[second.get()].before = None;
        }
        self.release(first)
    }

    /// Takes the last packet of `queue`.
    pub(super) fn pop_back(&mut self, queue: &mut Queue) -> Option<P> {
        let (first, last) = queue.ends?;
        queue.ends = self.nodes[last.get()].before.map(|second| (first, second));
        if let Some((_, second)) = queue.ends {
            self.nodes[second.get()].next = None;
        }
        self.release(last)
    }

    /// The first packet of `queue`, left in place.
    pub(super) fn front_mut(&mut self, queue: Queue) -> Option<&mut P> {
        let (first, _) = queue.ends?;
        self.nodes[first.get()].packet.as_mut()
    }

    fn insert(&mut self, packet: P) -> Index {
        let node = Node {
            before: None,
            next: None,
            packet: Some(packet),
        };
        if let Some(at) = self.free {
            self.free = self.nodes[at.get()].next;
            self.nodes[at.get()] = node;
            return at;
        }
        self.nodes.push(node);
        Index::new(self.nodes.len() - 1)
    }

    fn release(&mut self, at: Index) -> Option<P> {
        let node = &mut self.nodes[at.get()];
        node.next = self.free.replace(at);
        node.packet.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        /// Two queues in one array behave like two lists, and places are used again.
        #[test]
        fn queues_are_lists(steps in proptest::collection::vec((0..9u8, 0..2usize), 0..300)) {
            let mut packets = Packets::new();
            let (mut queues, mut lists) = ([Queue::default(); 2], [VecDeque::new(), VecDeque::new()]);
            let mut most = 0;
            for (number, (what, at)) in (0..).zip(steps) {
                match what {
                    0 | 1 => prop_assert_eq!(packets.pop_front(&mut queues[at]), lists[at].pop_front()),
                    2 | 3 => prop_assert_eq!(packets.pop_back(&mut queues[at]), lists[at].pop_back()),
                    4 => {
                        let tail = queues[1 - at].take();
                        packets.append(&mut queues[at], tail);
                        let tail = core::mem::take(&mut lists[1 - at]);
                        lists[at].extend(tail);
                    }
                    _ => {
                        packets.push_back(&mut queues[at], number);
                        lists[at].push_back(number);
                    }
                }
                most = most.max(lists[0].len() + lists[1].len());
                prop_assert_eq!(packets.front_mut(queues[at]).copied(), lists[at].front().copied());
            }
            prop_assert_eq!(packets.nodes.len(), most);
        }
    }
}
