//! [`Flow`] and [`Flows`]: what fq_codel keeps of each of its queues, and which flow weighs most.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::{Index as At, IndexMut as AtMut};

use tautline_base::Bytes;

use super::bounds::Bounds;
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
    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        if self.queue.is_empty() { 0 } else { self.bytes.get().max(1) }
    }
}

/// All queues of an fq_codel.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: Box<[Flow]>,
    weights: Bounds,
}

impl Flows {
    /// `count` idle flows.
    pub(crate) fn new(count: usize) -> Self {
        Self { flows: vec![Flow::default(); count].into_boxed_slice(), weights: Bounds::new(count) }
    }

    /// How many flows there are, idle or not.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Counts `len` bytes into the flow, which has just got a packet.
    #[inline]
    pub(crate) fn grow(&mut self, at: Index, len: Bytes) {
        let flow = &mut self.flows[at.get()];
        flow.bytes += len;
        self.weights.raise(at.get(), flow.weight());
    }

    /// The flow with the most bytes, the first of them if several have as many; `None` if no flow holds packets.
    ///
    /// Linux looks at every flow, up to 65 536 for each packet too many.
    pub(crate) fn fattest(&mut self) -> Option<Index> {
        self.weights.largest(|at| self.flows[at].weight()).map(Index::new)
    }
}

impl At<Index> for Flows {
    type Output = Flow;

    #[inline]
    fn index(&self, at: Index) -> &Flow {
        &self.flows[at.get()]
    }
}

impl AtMut<Index> for Flows {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut Flow {
        &mut self.flows[at.get()]
    }
}

impl Links for Flows {
    #[inline]
    fn next(&self, at: Index) -> Option<Index> {
        self[at].next
    }

    #[inline]
    fn set_next(&mut self, at: Index, next: Option<Index>) {
        self[at].next = next;
    }
}
