//! [`Flow`] and [`Flows`]: one queue of a tin, the states it goes through, and the rotations that
//! take turns through them.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::{Index, IndexMut};

use tautline_base::Bytes;

use crate::cobalt;
use crate::index::Chain;

/// Queues per tin.
pub(super) const FLOWS: usize = 1024;

/// Number of a flow in its tin.
pub(super) type FlowId = u16;

/// State of a flow (`net/sched/sch_cake.c` `cake_dequeue`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Unused: it has no packets, and its AQM has come to rest.
    #[default]
    Idle,
    /// It has had packets for less than one quantum in a row.
    Sparse,
    /// As sparse, but it has used its quantum up and waits without packets for the rotation to see
    /// that.
    Waiting,
    /// It sends steadily, and counts in the share of its hosts.
    Bulk,
    /// It has no packets, and is kept until its AQM has come to rest.
    Decaying,
}

/// The lists of a tin, in the order in which they are usually served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rotation {
    /// Flows that became active recently.
    New,
    /// The others.
    Old,
    /// Flows without packets.
    Decaying,
}

/// One queue: its packets, its share, its COBALT.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) queue: Chain,
    pub(super) bytes: Bytes,
    pub(super) cobalt: cobalt::State,
    /// Bytes it may send before others have their turn; negative when it sent more.
    pub(super) deficit: i32,
    /// Hash of the flow that has this queue, also when it is idle.
    pub(super) tag: u32,
    /// Places of its source and destination host in the table, if they matter.
    pub(super) hosts: [Option<u16>; 2],
    pub(super) phase: Phase,
    /// Number of its packets that are pure TCP acknowledgments.
    pub(super) pure_acks: u32,
    rotation: Option<Rotation>,
    previous: Option<FlowId>,
    next: Option<FlowId>,
}

const _: () = assert!(size_of::<Flow>() <= 80);

impl Flow {
    fn new(cobalt: cobalt::State) -> Self {
        Self {
            queue: Chain::default(),
            bytes: Bytes::ZERO,
            cobalt,
            deficit: 0,
            tag: 0,
            hosts: [None; 2],
            phase: Phase::Idle,
            pure_acks: 0,
            rotation: None,
            previous: None,
            next: None,
        }
    }

    /// Its weight in the search for the longest queue. One that holds packets weighs something even
    /// if they are empty.
    pub(super) fn weight(&self) -> u64 {
        if self.queue.is_empty() {
            0
        } else {
            self.bytes.get().max(1)
        }
    }
}

/// The queues of a tin and the rotations through them.
#[derive(Debug)]
pub(super) struct Flows {
    flows: Box<[Flow]>,
    ends: [Option<(FlowId, FlowId)>; 3],
}

impl Flows {
    /// Idle queues whose AQMs have the state `cobalt`.
    pub(super) fn new(cobalt: &cobalt::State) -> Self {
        Self {
            flows: vec![Flow::new(cobalt.clone()); FLOWS].into_boxed_slice(),
            ends: [None; 3],
        }
    }

    /// All of them, idle or not.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter()
    }

    /// The flow at the head of a rotation.
    pub(super) fn front(&self, rotation: Rotation) -> Option<FlowId> {
        self.ends[rotation as usize].map(|(first, _)| first)
    }

    /// The flow behind another in their rotation.
    pub(super) fn following(&self, id: FlowId) -> Option<FlowId> {
        self[id].next
    }

    /// The flows of a rotation, in order.
    pub(super) fn members(&self, rotation: Rotation) -> impl Iterator<Item = FlowId> {
        core::iter::successors(self.front(rotation), |&id| self.following(id))
    }

    /// Takes a flow out of its rotation, if it is in one, and appends it to another, or to none.
    pub(super) fn move_to(&mut self, id: FlowId, rotation: Option<Rotation>) {
        let Flow {
            previous,
            next,
            rotation: left,
            ..
        } = self[id];
        if let Some(left) = left {
            self.unlink(left, previous, next);
        }
        let last = rotation
            .and_then(|rotation| self.ends[rotation as usize])
            .map(|(_, last)| last);
        if let Some(rotation) = rotation {
            let first = self.front(rotation).unwrap_or(id);
            self.ends[rotation as usize] = Some((first, id));
        }
        if let Some(last) = last {
            self[last].next = Some(id);
        }
        let flow = &mut self[id];
        (flow.rotation, flow.previous, flow.next) = (rotation, last, None);
    }

    fn unlink(&mut self, rotation: Rotation, previous: Option<FlowId>, next: Option<FlowId>) {
        let ends = self.ends[rotation as usize].expect("a flow in a rotation is among its flows");
        let (first, last) = (
            previous.map_or(next, |_| Some(ends.0)),
            next.map_or(previous, |_| Some(ends.1)),
        );
        self.ends[rotation as usize] = first.zip(last);
        if let Some(previous) = previous {
            self[previous].next = next;
        }
        if let Some(next) = next {
            self[next].previous = previous;
        }
    }
}

impl Index<FlowId> for Flows {
    type Output = Flow;

    #[inline]
    fn index(&self, id: FlowId) -> &Flow {
        &self.flows[usize::from(id)]
    }
}

impl IndexMut<FlowId> for Flows {
    #[inline]
    fn index_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.flows[usize::from(id)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Flows moved between rotations at random stand in the order of plain lists, read from
        /// either end.
        #[test]
        fn rotations_are_lists(moves in proptest::collection::vec((0..12u16, 0..4usize), 0..200)) {
            let aqm = cobalt::Aqm::new(cobalt::Params::default(), 0).expect("valid");
            let mut flows = Flows::new(&aqm.fresh());
            let mut model: [Vec<u16>; 3] = Default::default();
            for (id, to) in moves {
                let rotation = [Some(Rotation::New), Some(Rotation::Old), Some(Rotation::Decaying), None][to];
                flows.move_to(id, rotation);
                model.iter_mut().for_each(|list| list.retain(|&other| other != id));
                if let Some(rotation) = rotation {
                    model[rotation as usize].push(id);
                }
                for rotation in [Rotation::New, Rotation::Old, Rotation::Decaying] {
                    let ends = flows.ends[rotation as usize];
                    let along: Vec<u16> = flows.members(rotation).collect();
                    let mut back: Vec<u16> =
                        core::iter::successors(ends.map(|ends| ends.1), |&id| flows[id].previous).collect();
                    back.reverse();
                    prop_assert_eq!(&along, &model[rotation as usize]);
                    prop_assert_eq!(back, along);
                }
            }
        }
    }
}
