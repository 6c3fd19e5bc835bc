//! [`Flow`] and [`Flows`]: what a fair queue keeps of each of its queues, and which flow weighs
//! most.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::{Index as At, IndexMut as AtMut};

use tautline_base::Bytes;

use super::bounds::Bounds;
use crate::index::{Chain, Index, Links};

/// One queue: its packets, its share, the state of its AQM. One cache line with CoDel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow<S> {
    pub(crate) queue: Chain,
    pub(crate) bytes: Bytes,
    pub(crate) aqm: S,
    /// Bytes it may send before others have their turn; negative when it sent more.
    pub(crate) deficit: i32,
    pub(crate) list: List,
    next: Option<Index>,
}

const _: () = assert!(
    size_of::<Flow<crate::codel::State>>() <= 64,
    "65 536 flows fit 4 MiB, and one flow a cache line"
);

/// The list that holds a flow.
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

impl<S> Flow<S> {
    /// Its weight in the search for the fattest flow. A flow that holds packets weighs something
    /// even if they are empty.
    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        if self.queue.is_empty() {
            0
        } else {
            self.bytes.get().max(1)
        }
    }
}

/// All queues of a fair queue.
#[derive(Debug)]
pub(crate) struct Flows<S> {
    flows: Box<[Flow<S>]>,
    weights: Bounds,
}

impl<S: Clone + Default> Flows<S> {
    /// `count` idle flows.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            flows: vec![Flow::default(); count].into_boxed_slice(),
            weights: Bounds::new(count),
        }
    }
}

impl<S> Flows<S> {
    /// Number of flows, idle or not.
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

    /// The flow with the most bytes, the first of them if several have as many; `None` if no flow
    /// holds packets.
    ///
    /// Linux scans every flow, up to 65 536 for each packet too many.
    pub(crate) fn fattest(&mut self) -> Option<Index> {
        self.weights
            .largest(|at| self.flows[at].weight())
            .map(Index::new)
    }
}

impl<S> At<Index> for Flows<S> {
    type Output = Flow<S>;

    #[inline]
    fn index(&self, at: Index) -> &Flow<S> {
        &self.flows[at.get()]
    }
}

impl<S> AtMut<Index> for Flows<S> {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut Flow<S> {
        &mut self.flows[at.get()]
    }
}

impl<S> Links for Flows<S> {
    #[inline]
    fn next(&self, at: Index) -> Option<Index> {
        self[at].next
    }

    #[inline]
    fn set_next(&mut self, at: Index, next: Option<Index>) {
        self[at].next = next;
    }
}
