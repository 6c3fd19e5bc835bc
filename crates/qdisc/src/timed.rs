//! [`Timed`]: one array that holds the packets of many queues, each queue in the order of its
//! packets' times.
//!
//! Times mostly grow, so a queue is a list to which a packet is appended in one step if it is no
//! earlier than the last. The few that are earlier go into a pairing heap beside the list, threaded
//! through the same array. What leaves is the earlier of the two heads; equal times leave in order
//! of arrival. Nothing is allocated once the array is as large as the largest backlog.

use alloc::vec::Vec;

use tautline_base::Instant;

use crate::index::{Chain, Index, Links};

/// Packets of many queues, each queue a [`Timeline`].
#[derive(Debug)]
pub(crate) struct Timed<P> {
    nodes: Vec<Node<P>>,
    free: Option<Index>,
    arrivals: u64,
}

/// A place: in a list, in a heap, or empty.
#[derive(Debug)]
struct Node<P> {
    time: Instant,
    arrival: u64,
    /// Successor in the list, sibling in the heap, or the empty place to be used after this one.
    next: Option<Index>,
    /// First child in the heap.
    child: Option<Index>,
    packet: Option<P>,
}

/// A queue in order of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeline {
    in_order: Chain,
    /// Root of the heap of those that came after a later one.
    overtaking: Option<Index>,
}

impl<P> Timed<P> {
    /// An empty array.
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: None,
            arrivals: 0,
        }
    }

    /// Adds `packet` to `queue` behind all that are no later than `time`.
    pub(crate) fn push(&mut self, queue: &mut Timeline, time: Instant, packet: P) {
        let at = self.insert(time, packet);
        if queue
            .in_order
            .back()
            .is_some_and(|last| time < self.nodes[last.get()].time)
        {
            queue.overtaking = Some(queue.overtaking.map_or(at, |root| self.meld(root, at)));
        } else {
            queue.in_order.push_back(self, at);
        }
    }

    /// The first packet of `queue` and its time.
    pub(crate) fn front(&self, queue: Timeline) -> Option<(Instant, &P)> {
        let at = self.first(queue)?;
        let node = &self.nodes[at.get()];
        node.packet.as_ref().map(|packet| (node.time, packet))
    }

    /// Takes the first packet of `queue`.
    pub(crate) fn pop(&mut self, queue: &mut Timeline) -> Option<P> {
        let at = self.first(*queue)?;
        if queue.overtaking == Some(at) {
            queue.overtaking = self.without_root(at);
        } else {
            queue.in_order.pop_front(self);
        }
        let node = &mut self.nodes[at.get()];
        node.next = self.free.replace(at);
        node.packet.take()
    }

    fn first(&self, queue: Timeline) -> Option<Index> {
        match (queue.in_order.front(), queue.overtaking) {
            (Some(one), Some(other)) => Some(if self.key(other) < self.key(one) {
                other
            } else {
                one
            }),
            (one, other) => one.or(other),
        }
    }

    fn key(&self, at: Index) -> (Instant, u64) {
        let node = &self.nodes[at.get()];
        (node.time, node.arrival)
    }

    fn insert(&mut self, time: Instant, packet: P) -> Index {
        let node = Node {
            time,
            arrival: self.arrivals,
            next: None,
            child: None,
            packet: Some(packet),
        };
        self.arrivals += 1;
        if let Some(at) = self.free {
            self.free = core::mem::replace(&mut self.nodes[at.get()], node).next;
            return at;
        }
        self.nodes.push(node);
        Index::new(self.nodes.len() - 1)
    }

    /// Joins two heaps: the later root becomes the first child of the earlier.
    fn meld(&mut self, one: Index, other: Index) -> Index {
        let (root, child) = if self.key(other) < self.key(one) {
            (other, one)
        } else {
            (one, other)
        };
        self.nodes[child.get()].next = self.nodes[root.get()].child.replace(child);
        root
    }

    /// The heap under `root`, without it: its children are joined in pairs from the first to the
    /// last, the pairs from the last to the first.
    fn without_root(&mut self, root: Index) -> Option<Index> {
        let mut rest = self.nodes[root.get()].child.take();
        let mut pairs = None;
        while let Some(one) = rest {
            rest = self.nodes[one.get()].next.take();
            let mut pair = one;
            if let Some(other) = rest {
                rest = self.nodes[other.get()].next.take();
                pair = self.meld(one, other);
            }
            self.nodes[pair.get()].next = pairs.replace(pair);
        }
        let mut root = pairs?;
        let mut rest = self.nodes[root.get()].next.take();
        while let Some(pair) = rest {
            rest = self.nodes[pair.get()].next.take();
            root = self.meld(root, pair);
        }
        Some(root)
    }
}

impl<P> Links for Timed<P> {
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// Two queues through one array, beside two sorted lists; places are reused.
        #[test]
        fn queues_are_in_order_of_time_then_arrival(events in vec((0..2usize, prop_oneof![2 => (0..8u64).prop_map(Some), 1 => Just(None)]), 0..300)) {
            let (mut timed, mut queues) = (Timed::new(), [Timeline::default(); 2]);
            let mut models = [const { Vec::<(u64, usize)>::new() }; 2];
            let (mut held, mut most) = (0usize, 0);
            for (number, (which, time)) in events.into_iter().enumerate() {
                let model = &mut models[which];
                if let Some(time) = time {
                    timed.push(&mut queues[which], Instant::from_nanos(time), number);
                    model.push((time, number));
                    model.sort_unstable();
                    held += 1;
                } else {
                    let first = (!model.is_empty()).then(|| model.remove(0));
                    let front = timed.front(queues[which]).map(|(time, &number)| (time.as_nanos(), number));
                    prop_assert_eq!(front, first);
                    prop_assert_eq!(timed.pop(&mut queues[which]), first.map(|(_, number)| number));
                    held -= usize::from(first.is_some());
                }
                most = most.max(held);
                prop_assert_eq!(timed.nodes.len(), most);
            }
        }
    }
}
