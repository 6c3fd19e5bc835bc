//! [`Port`]: the way down of one device. Queueing discipline, limit, ring.

use alloc::vec::Vec;

use tautline_base::{Backlog, Device, Drops, Instant, Packet, Qdisc};

use crate::dql::Dql;
use crate::limit::Limit;
use crate::queue::{Queue, TxStats};
use crate::ring::Ring;

/// A queueing discipline in front of a limited ring.
pub struct Port<Q, D: Device, L = Dql> {
    qdisc: Q,
    queue: Queue<D, L>,
}

impl<Q, D, L> Port<Q, D, L>
where
    Q: Qdisc<Packet<D::Frame>>,
    D: Device,
    L: Limit,
{
    /// `qdisc` feeding `ring`.
    pub const fn new(qdisc: Q, ring: Ring<D, L>) -> Self {
        Self {
            qdisc,
            queue: Queue::new(ring),
        }
    }

    /// Hands a packet to the discipline. It may come out in `drops`, or others in its place.
    pub fn enqueue(
        &mut self,
        packet: Packet<D::Frame>,
        now: Instant,
        drops: &mut Drops<Packet<D::Frame>>,
    ) {
        self.qdisc.enqueue(packet, now, drops);
    }

    /// Moves up to `budget` packets from the discipline into the ring, room first, and rings the
    /// doorbell once. `on_ring` sees each packet as it will be on the wire. Returns how many were
    /// moved: less than `budget` means that the ring is full or the discipline has nothing to send
    /// now.
    pub fn transmit(
        &mut self,
        now: Instant,
        budget: usize,
        drops: &mut Drops<Packet<D::Frame>>,
        mut on_ring: impl FnMut(&Packet<D::Frame>),
    ) -> usize {
        let mut moved = 0;
        while moved < budget {
            if !self.queue.ring.is_open(now) {
                break;
            }
            let Some(packet) = self.qdisc.dequeue(now, drops) else {
                break;
            };
            self.queue.put(packet, now, &mut on_ring);
            moved += 1;
        }
        self.queue.settle(now, || !self.qdisc.backlog().is_empty());
        moved
    }

    /// Appends every completed packet to `done`.
    pub fn reap(&mut self, now: Instant, done: &mut Vec<Packet<D::Frame>>) {
        self.queue.ring.reap(now, done);
    }

    /// The earliest moment at which [`transmit`](Self::transmit) may move a packet; `None` while
    /// the ring is closed, which only a completion changes, and when nothing is queued.
    pub fn ready_at(&self) -> Option<Instant> {
        Some(self.queue.ring.opens_at()?.max(self.qdisc.ready_at()?))
    }

    /// What waits in the discipline; the ring is not counted.
    pub fn backlog(&self) -> Backlog {
        self.qdisc.backlog()
    }

    /// What passed, and what stopped it.
    pub const fn stats(&self) -> &TxStats {
        &self.queue.stats
    }

    /// The discipline.
    pub const fn qdisc(&self) -> &Q {
        &self.qdisc
    }

    /// The discipline, for changing its settings.
    pub const fn qdisc_mut(&mut self) -> &mut Q {
        &mut self.qdisc
    }

    /// The ring.
    pub const fn ring(&self) -> &Ring<D, L> {
        &self.queue.ring
    }

    /// The ring, for its device.
    pub const fn ring_mut(&mut self) -> &mut Ring<D, L> {
        &mut self.queue.ring
    }

    /// Resets the device and gives up every packet in it. What the discipline holds stays and is
    /// sent when the device comes back.
    pub fn reset(&mut self, drops: &mut Drops<Packet<D::Frame>>) {
        self.queue.ring.reset(drops);
        self.queue.forget();
    }
}
