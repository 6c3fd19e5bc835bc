//! [`MultiPort`]: the transmit path of a device with several transmit queues: one root queueing
//! discipline, and a limited ring per queue.
//!
//! A queue with free space again wakes the child that feeds it, or the root of all children (paper
//! 002, §3.3; [`Waking`]). Either way a slot is reserved first, as in [`Port`](crate::Port), so
//! each dequeued packet goes to its ring at once.

use alloc::vec::Vec;
use core::fmt;

use tautline_base::{Backlog, Device, Drops, Instant, MultiQueue, Packet};

use crate::dql::Dql;
use crate::limit::Limit;
use crate::queue::{AllOpen, Queue, TxStats};
use crate::ring::Ring;

/// Most packets of one queue before the next one's turn.
const BULK: usize = 16;

/// The part of the root queueing discipline that a device queue with free space wakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waking {
    /// Its own child: a full queue does not stop the others. Linux's `mq`.
    #[default]
    Child,
    /// The root, which serves its children in its own order: a full queue stops all of them. The
    /// queue of the root's next packet is unknown, so the root is dequeued only while every queue
    /// has room.
    Root,
}

/// One queueing discipline with a child for each device queue, over a ring for each.
pub struct MultiPort<M, D: Device, L = Dql> {
    root: M,
    queues: Vec<Queue<D, L>>,
    waking: Waking,
    /// The queue to serve next.
    turn: usize,
}

impl<M, D, L> MultiPort<M, D, L>
where
    M: MultiQueue<Packet<D::Frame>>,
    D: Device,
    L: Limit,
{
    /// A port in which each child of `root` feeds one of `rings`; `None` if their numbers differ.
    pub fn new(root: M, rings: Vec<Ring<D, L>>, waking: Waking) -> Option<Self> {
        (rings.len() == root.queues()).then(|| Self {
            root,
            queues: rings.into_iter().map(Queue::new).collect(),
            waking,
            turn: 0,
        })
    }

    /// Enqueues `packet`. Over a limit, it or other packets go to `drops`.
    pub fn enqueue(
        &mut self,
        packet: Packet<D::Frame>,
        now: Instant,
        drops: &mut Drops<Packet<D::Frame>>,
    ) {
        self.root.enqueue(packet, now, drops);
    }

    /// Moves up to `budget` packets from the qdisc into the rings, then rings each doorbell once.
    /// Calls `on_ring` with the queue number and each packet as it will be on the wire. Returns the
    /// number of packets moved; if fewer than `budget`, every open queue is empty.
    pub fn transmit(
        &mut self,
        now: Instant,
        budget: usize,
        drops: &mut Drops<Packet<D::Frame>>,
        on_ring: impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let dequeue = |root: &mut M, child: Option<usize>| match child {
            Some(number) => root.dequeue_from(number, now, drops),
            None => root.dequeue(now, drops),
        };
        self.transmit_with(now, budget, dequeue, on_ring)
    }

    /// [`transmit`](Self::transmit) for a driver that handles each packet and the drops between
    /// qdisc and ring: `dequeue` returns the next packet of a child, or of the root, which serves
    /// its children in its own order.
    pub fn transmit_with(
        &mut self,
        now: Instant,
        budget: usize,
        mut dequeue: impl FnMut(&mut M, Option<usize>) -> Option<Packet<D::Frame>>,
        mut on_ring: impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let moved = match self.waking {
            Waking::Child => self.serve_children(now, budget, &mut dequeue, &mut on_ring),
            Waking::Root => self.serve_root(now, budget, &mut dequeue, &mut on_ring),
        };
        (0..self.queues.len()).for_each(|number| self.end_burst(number, now));
        moved
    }

    /// [`transmit`](Self::transmit) for the queue that signaled completions; with [`Waking::Root`],
    /// for all queues.
    pub fn transmit_from(
        &mut self,
        number: usize,
        now: Instant,
        budget: usize,
        drops: &mut Drops<Packet<D::Frame>>,
        mut on_ring: impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        if self.waking == Waking::Root {
            return self.transmit(now, budget, drops, on_ring);
        }
        if number >= self.queues.len() {
            return 0;
        }
        let mut dequeue = |root: &mut M, _: Option<usize>| root.dequeue_from(number, now, drops);
        let moved = self.serve_child(number, now, budget, &mut dequeue, &mut on_ring);
        self.end_burst(number, now);
        moved
    }

    /// Serves up to [`BULK`] packets of each child in turn, until a whole round moves nothing.
    fn serve_children(
        &mut self,
        now: Instant,
        budget: usize,
        dequeue: &mut impl FnMut(&mut M, Option<usize>) -> Option<Packet<D::Frame>>,
        on_ring: &mut impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let (mut moved, mut idle) = (0, 0);
        while moved < budget && idle < self.queues.len() {
            let number = self.turn;
            self.turn = (number + 1) % self.queues.len();
            let bulk = self.serve_child(number, now, BULK.min(budget - moved), dequeue, on_ring);
            moved += bulk;
            idle = if bulk == 0 { idle + 1 } else { 0 };
        }
        moved
    }

    fn serve_child(
        &mut self,
        number: usize,
        now: Instant,
        most: usize,
        dequeue: &mut impl FnMut(&mut M, Option<usize>) -> Option<Packet<D::Frame>>,
        on_ring: &mut impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let Self { root, queues, .. } = self;
        queues[number].fill(
            now,
            most,
            || dequeue(root, Some(number)),
            |packet| on_ring(number, packet),
        )
    }

    fn serve_root(
        &mut self,
        now: Instant,
        budget: usize,
        dequeue: &mut impl FnMut(&mut M, Option<usize>) -> Option<Packet<D::Frame>>,
        on_ring: &mut impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let Self { root, queues, .. } = self;
        let mut moved = 0;
        while moved < budget
            && let Some(slots) = AllOpen::check(queues, now)
            && let Some(packet) = dequeue(root, None)
        {
            let number = root.queue_of(&packet);
            slots.put(number, packet, now, |packet| on_ring(number, packet));
            moved += 1;
        }
        moved
    }

    fn end_burst(&mut self, number: usize, now: Instant) {
        let Self { root, queues, .. } = self;
        queues[number].end_burst(now, || root.backlog_of(number));
    }

    /// Appends every packet that queue `number` has completed to `done`; nothing if there is no
    /// such queue.
    pub fn reap(&mut self, number: usize, now: Instant, done: &mut Vec<Packet<D::Frame>>) {
        if let Some(queue) = self.queues.get_mut(number) {
            queue.ring.reap(now, done);
        }
    }

    /// The earliest time at which [`transmit`](Self::transmit) may move a packet; `None` while only
    /// a completion can open a ring, and if the qdisc is empty.
    pub fn ready_at(&self) -> Option<Instant> {
        match self.waking {
            Waking::Child => (0..self.queues.len())
                .filter_map(|number| self.ready_at_of(number))
                .min(),
            Waking::Root => self
                .queues
                .iter()
                .try_fold(self.root.ready_at()?, |at, queue| {
                    Some(at.max(queue.ring.opens_at()?))
                }),
        }
    }

    /// [`ready_at`](Self::ready_at) for queue `number` and its child.
    pub fn ready_at_of(&self, number: usize) -> Option<Instant> {
        Some(
            self.queues
                .get(number)?
                .ring
                .opens_at()?
                .max(self.root.ready_at_of(number)?),
        )
    }

    /// Backlog of the qdisc, without the rings.
    pub fn backlog(&self) -> Backlog {
        self.root.backlog()
    }

    /// The queueing discipline, for its statistics.
    pub const fn root(&self) -> &M {
        &self.root
    }

    /// The queueing discipline, for changing its parameters.
    pub const fn root_mut(&mut self) -> &mut M {
        &mut self.root
    }

    /// Number of device queues.
    pub const fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The ring of queue `number`, if there is such a queue.
    pub fn ring(&self, number: usize) -> Option<&Ring<D, L>> {
        self.queues.get(number).map(|queue| &queue.ring)
    }

    /// The ring of queue `number`, for its device.
    pub fn ring_mut(&mut self, number: usize) -> Option<&mut Ring<D, L>> {
        self.queues.get_mut(number).map(|queue| &mut queue.ring)
    }

    /// Counters of queue `number`, if there is such a queue.
    pub fn stats(&self, number: usize) -> Option<&TxStats> {
        self.queues.get(number).map(|queue| &queue.stats)
    }

    /// Resets the device and drops every packet in it. The backlog of the qdisc stays.
    pub fn reset(&mut self, drops: &mut Drops<Packet<D::Frame>>) {
        for queue in &mut self.queues {
            queue.ring.reset(drops);
            queue.clear();
        }
    }
}

impl<M: fmt::Debug, D: Device, L> fmt::Debug for MultiPort<M, D, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats: Vec<_> = self.queues.iter().map(|queue| queue.stats).collect();
        f.debug_struct("MultiPort")
            .field("root", &self.root)
            .field("stats", &stats)
            .finish_non_exhaustive()
    }
}
