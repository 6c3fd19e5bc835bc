//! [`Port`]: the transmit path of one device: queueing discipline, limit, ring.

use alloc::vec::Vec;
use core::fmt;

use tautline_base::{Backlog, Device, Drops, Instant, Packet, Qdisc};

use crate::dql::Dql;
use crate::limit::Limit;
use crate::queue::{Queue, TxStats};
use crate::ring::Ring;

/// A queueing discipline in front of a limited ring.
///
/// ```
/// use tautline_base::{Drops, HeapFrame, Instant, Packet};
/// use tautline_bql::{Dql, Port, Ring};
/// use tautline_qdisc::{Pfifo, pfifo::Config};
/// use tautline_testkit::MemoryDevice;
///
/// let ring = Ring::new(MemoryDevice::default(), Dql::default());
/// let mut port = Port::new(Pfifo::new(Config::default()), ring);
/// let (now, mut drops, mut done) = (Instant::ZERO, Drops::new(), Vec::new());
/// for _ in 0..3 {
///     port.enqueue(Packet::new(HeapFrame::new(), 1514), now, &mut drops);
/// }
/// assert_eq!(port.transmit(now, 64, &mut drops, |_| {}), 1); // the limit begins at 0: one packet
/// port.reap(now, &mut done); // completed at once, so the ring starved and the limit grows
/// assert_eq!(port.transmit(now, 64, &mut drops, |_| {}), 2);
/// ```
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
    /// A port in which `qdisc` feeds `ring`.
    pub const fn new(qdisc: Q, ring: Ring<D, L>) -> Self {
        Self {
            qdisc,
            queue: Queue::new(ring),
        }
    }

    /// Enqueues `packet`. Over a limit, it or other packets go to `drops`.
    pub fn enqueue(
        &mut self,
        packet: Packet<D::Frame>,
        now: Instant,
        drops: &mut Drops<Packet<D::Frame>>,
    ) {
        self.qdisc.enqueue(packet, now, drops);
    }

    /// Moves up to `budget` packets from the qdisc into the ring, a slot first for each, then rings
    /// the doorbell once. `on_ring` sees each packet as it will be on the wire. Returns the number
    /// of packets moved; fewer than `budget`: the ring is stopped or the qdisc has no packet now.
    pub fn transmit(
        &mut self,
        now: Instant,
        budget: usize,
        drops: &mut Drops<Packet<D::Frame>>,
        on_ring: impl FnMut(&Packet<D::Frame>),
    ) -> usize {
        self.transmit_with(now, budget, |qdisc| qdisc.dequeue(now, drops), on_ring)
    }

    /// [`transmit`](Self::transmit) for a driver that handles each packet and the drops between
    /// qdisc and ring: `dequeue` returns the next packet.
    pub fn transmit_with(
        &mut self,
        now: Instant,
        budget: usize,
        mut dequeue: impl FnMut(&mut Q) -> Option<Packet<D::Frame>>,
        on_ring: impl FnMut(&Packet<D::Frame>),
    ) -> usize {
        let Self { qdisc, queue } = self;
        let moved = queue.fill(now, budget, || dequeue(qdisc), on_ring);
        queue.end_burst(now, || qdisc.backlog());
        moved
    }

    /// Appends every packet whose transmission has completed to `done`.
    pub fn reap(&mut self, now: Instant, done: &mut Vec<Packet<D::Frame>>) {
        self.queue.ring.reap(now, done);
    }

    /// The earliest time at which [`transmit`](Self::transmit) may move a packet; `None` while only
    /// a completion can open the ring, and if the qdisc is empty.
    pub fn ready_at(&self) -> Option<Instant> {
        Some(self.queue.ring.opens_at()?.max(self.qdisc.ready_at()?))
    }

    /// Backlog of the qdisc, without the ring.
    pub fn backlog(&self) -> Backlog {
        self.qdisc.backlog()
    }

    /// Counters since creation; a reset does not clear them.
    pub const fn stats(&self) -> &TxStats {
        &self.queue.stats
    }

    /// The queueing discipline, for its statistics.
    pub const fn qdisc(&self) -> &Q {
        &self.qdisc
    }

    /// The queueing discipline, for changing its parameters.
    pub const fn qdisc_mut(&mut self) -> &mut Q {
        &mut self.qdisc
    }

    /// The ring, for its device and limit.
    pub const fn ring(&self) -> &Ring<D, L> {
        &self.queue.ring
    }

    /// The ring, for receiving from its device.
    pub const fn ring_mut(&mut self) -> &mut Ring<D, L> {
        &mut self.queue.ring
    }

    /// Resets the device and drops every packet in it. The backlog of the qdisc stays and is sent
    /// when the device is back.
    pub fn reset(&mut self, drops: &mut Drops<Packet<D::Frame>>) {
        self.queue.ring.reset(drops);
        self.queue.clear();
    }
}

impl<Q: fmt::Debug, D: Device, L: Limit> fmt::Debug for Port<Q, D, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("qdisc", &self.qdisc)
            .field("limit", &self.queue.ring.limit().limit())
            .field("stats", &self.queue.stats)
            .finish_non_exhaustive()
    }
}
