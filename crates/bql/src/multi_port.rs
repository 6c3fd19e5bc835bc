//! [`MultiPort`]: the way down of one device with several transmit queues: one root discipline, a
//! limited ring for each queue.
//!
//! A queue that has room again wakes the child that feeds it or the root above all (paper 002,
//! §3.3; [`Waking`]). Either way room comes first, as with [`Port`](crate::Port): nothing is
//! dequeued that could not be put at once.

use alloc::vec::Vec;

use tautline_base::{Backlog, Device, Drops, Instant, MultiQueue, Packet};

use crate::dql::Dql;
use crate::limit::Limit;
use crate::queue::{Queue, TxStats};
use crate::ring::Ring;

/// Packets of one queue before the next one has its turn.
const BULK: usize = 16;

/// Whom a device queue wakes that has room again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waking {
    /// The child that feeds it, and no other: a full queue holds up nobody else. Linux' `mq`.
    #[default]
    Child,
    /// The root, which serves its children in turn whatever queue their packets go to: the order
    /// among queues is the root's, and a full queue holds up all. Since nobody knows which queue
    /// the root's next packet is for, it is asked only while every queue has room.
    Root,
}

/// One discipline with a child for each device queue, over a ring for each.
pub struct MultiPort<M, D: Device, L = Dql> {
    root: M,
    queues: Vec<Queue<D, L>>,
    waking: Waking,
    /// Whose turn it is.
    turn: usize,
}

impl<M, D, L> MultiPort<M, D, L>
where
    M: MultiQueue<Packet<D::Frame>>,
    D: Device,
    L: Limit,
{
    /// `root` feeding `rings`, one for each of its children; `None` if their numbers differ.
    pub fn new(root: M, rings: Vec<Ring<D, L>>, waking: Waking) -> Option<Self> {
        (rings.len() == root.queues()).then(|| Self {
            root,
            queues: rings.into_iter().map(Queue::new).collect(),
            waking,
            turn: 0,
        })
    }

    /// Hands a packet to the discipline. It may come out in `drops`, or others in its place.
    pub fn enqueue(
        &mut self,
        packet: Packet<D::Frame>,
        now: Instant,
        drops: &mut Drops<Packet<D::Frame>>,
    ) {
        self.root.enqueue(packet, now, drops);
    }

    /// Moves up to `budget` packets from the discipline into the rings, room first, then rings each
    /// doorbell once. `on_ring` sees each packet as it will be on the wire, and its queue. Returns
    /// how many were moved: less than `budget` means that nobody who has room has something to send
    /// now.
    pub fn transmit(
        &mut self,
        now: Instant,
        budget: usize,
        drops: &mut Drops<Packet<D::Frame>>,
        mut on_ring: impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let moved = match self.waking {
            Waking::Child => self.serve_children(now, budget, drops, &mut on_ring),
            Waking::Root => self.serve_root(now, budget, drops, &mut on_ring),
        };
        (0..self.queues.len()).for_each(|number| self.settle(number, now));
        moved
    }

    /// [`transmit`](Self::transmit) for one queue, as when it alone told of completions. With
    /// [`Waking::Root`] that wakes all.
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
        let moved = self.serve_child(number, now, budget, drops, &mut on_ring);
        self.settle(number, now);
        moved
    }

    /// A bulk from each child in turn, until a whole round moves nothing.
    fn serve_children(
        &mut self,
        now: Instant,
        budget: usize,
        drops: &mut Drops<Packet<D::Frame>>,
        on_ring: &mut impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let (mut moved, mut idle) = (0, 0);
        while moved < budget && idle < self.queues.len() {
            let number = self.turn;
            self.turn = (number + 1) % self.queues.len();
            let bulk = self.serve_child(number, now, BULK.min(budget - moved), drops, on_ring);
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
        drops: &mut Drops<Packet<D::Frame>>,
        on_ring: &mut impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let Self { root, queues, .. } = self;
        let queue = &mut queues[number];
        let mut moved = 0;
        while moved < most
            && queue.ring.is_open(now)
            && let Some(packet) = root.dequeue_from(number, now, drops)
        {
            queue.put(packet, now, |packet| on_ring(number, packet));
            moved += 1;
        }
        moved
    }

    fn serve_root(
        &mut self,
        now: Instant,
        budget: usize,
        drops: &mut Drops<Packet<D::Frame>>,
        on_ring: &mut impl FnMut(usize, &Packet<D::Frame>),
    ) -> usize {
        let Self { root, queues, .. } = self;
        let mut moved = 0;
        while moved < budget
            && queues.iter().all(|queue| queue.ring.is_open(now))
            && let Some(packet) = root.dequeue(now, drops)
        {
            let number = root.queue_of(&packet);
            queues[number].put(packet, now, |packet| on_ring(number, packet));
            moved += 1;
        }
        moved
    }

    /// The end of a `transmit` for one queue.
    fn settle(&mut self, number: usize, now: Instant) {
        let Self { root, queues, .. } = self;
        queues[number].settle(now, || !root.backlog_of(number).is_empty());
    }

    /// Appends every packet that queue `number` has completed to `done`; nothing if there is no
    /// such queue.
    pub fn reap(&mut self, number: usize, now: Instant, done: &mut Vec<Packet<D::Frame>>) {
        if let Some(queue) = self.queues.get_mut(number) {
            queue.ring.reap(now, done);
        }
    }

    /// The earliest moment at which [`transmit`](Self::transmit) may move a packet; `None` while
    /// only a completion changes that, and when nothing is queued.
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

    /// What waits in the discipline; the rings are not counted.
    pub fn backlog(&self) -> Backlog {
        self.root.backlog()
    }

    /// The discipline.
    pub const fn root(&self) -> &M {
        &self.root
    }

    /// The discipline, for changing its settings.
    pub const fn root_mut(&mut self) -> &mut M {
        &mut self.root
    }

    /// How many device queues there are.
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

    /// What queue `number` counted.
    pub fn stats(&self, number: usize) -> Option<&TxStats> {
        self.queues.get(number).map(|queue| &queue.stats)
    }

    /// Resets the device and gives up every packet in it. What the discipline holds stays.
    pub fn reset(&mut self, drops: &mut Drops<Packet<D::Frame>>) {
        for queue in &mut self.queues {
            queue.ring.reset(drops);
            queue.forget();
        }
    }
}
