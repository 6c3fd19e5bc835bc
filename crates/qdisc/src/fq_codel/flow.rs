//! [`Flow`] and [`Flows`]: what fq_codel keeps of each of its queues, and which flow weighs most.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::{Index as At, IndexMut as AtMut};

use tautline_base::Bytes;

use crate::codel::State;
use crate::index::{Chain, Index, Links};

/// One queue: its packets, its share, its CoDel. One cache line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) queue: Chain,
    pub(crate) bytes: Bytes,
    pub(crate) codel: State,
    /// Bytes it may send before others have their turn; negative when it sent more.
    pub(crate) deficit: i32,
    pub(crate) list: List,
    next: Option<Index>,
}

const _: () = assert!(size_of::<Flow>() <= 64, "65 536 flows fit 4 MiB, and one flow a cache line");

/// Which list a flow stands on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum List {
    /// None: it has no packets and has had its turn since the last one.
    #[default]
    Idle,
    /// The flows that became active lately, served first.
    New,
    /// The others.
    Old,
}

impl Flow {
    /// What it counts for when the fattest flow is looked for. A flow that holds packets weighs something even if they are
    /// empty.
    pub(crate) fn weight(&self) -> u64 {
        if self.queue.is_empty() { 0 } else { self.bytes.get().max(1) }
    }
}

/// All queues of an fq_codel.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: Box<[Flow]>,
    /// For each block of flows an upper bound of their weights: raised at every enqueue, tightened only when looked at.
    bounds: Box<[u64]>,
}

/// Flows per bound: the root of the largest table would be 256; fewer keep a look at one block within the L1 cache.
const BLOCK: usize = 64;

impl Flows {
    /// `count` idle flows.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            flows: vec![Flow::default(); count].into_boxed_slice(),
            bounds: vec![0; count.div_ceil(BLOCK)].into_boxed_slice(),
        }
    }

    /// How many flows there are, idle or not.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Counts `len` bytes into the flow, which has just got a packet.
    pub(crate) fn grow(&mut self, at: Index, len: Bytes) {
        let flow = &mut self.flows[at.get()];
        flow.bytes += len;
        let bound = &mut self.bounds[at.get() / BLOCK];
        *bound = (*bound).max(flow.weight());
    }

    /// The flow with the most bytes, the first of them if several have as many; `None` if no flow holds packets.
    ///
    /// Linux looks at every flow, up to 65 536 for each packet too many. Here a bound that proves stale is tightened and the next
    /// best block is looked at. Each enqueue raises at most one bound, so the work of tightening is paid for by enqueues.
    pub(crate) fn fattest(&mut self) -> Option<Index> {
        loop {
            let (block, &bound) = first_largest(self.bounds.iter())?;
            let start = block * BLOCK;
            let end = self.flows.len().min(start + BLOCK);
            let (offset, weight) = first_largest(self.flows[start..end].iter().map(Flow::weight))?;
            if weight == bound {
                return (weight > 0).then(|| Index::new(start + offset));
            }
            self.bounds[block] = weight;
        }
    }
}

/// Position and value of the largest item, the first of them if several are equal.
fn first_largest<T: Ord>(items: impl Iterator<Item = T>) -> Option<(usize, T)> {
    items.enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best })
}

impl At<Index> for Flows {
    type Output = Flow;

    fn index(&self, at: Index) -> &Flow {
        &self.flows[at.get()]
    }
}

impl AtMut<Index> for Flows {
    fn index_mut(&mut self, at: Index) -> &mut Flow {
        &mut self.flows[at.get()]
    }
}

impl Links for Flows {
    fn next(&self, at: Index) -> Option<Index> {
        self[at].next
    }

    fn set_next(&mut self, at: Index, next: Option<Index>) {
        self[at].next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;
    use proptest::prelude::*;

    proptest! {
        /// The bounded search finds what a scan of all flows finds, ties included.
        #[test]
        fn the_fattest_is_the_first_largest(steps in proptest::collection::vec((0usize..200, any::<bool>(), 0u64..5), 1..300)) {
            let (mut flows, mut slab) = (Flows::new(200), Slab::with_capacity(0));
            for (position, grow, len) in steps {
                let at = Index::new(position);
                if grow {
                    slab.push_back(&mut flows[at].queue, len);
                    flows.grow(at, Bytes::new(len));
                } else if let Some(len) = slab.pop_front(&mut flows[at].queue) {
                    flows[at].bytes -= Bytes::new(len);
                }
                let scan = first_largest(flows.flows.iter().map(Flow::weight)).filter(|best| best.1 > 0);
                prop_assert_eq!(flows.fattest().map(Index::get), scan.map(|best| best.0));
            }
        }
    }
}
