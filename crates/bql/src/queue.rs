//! [`Queue`]: a ring with its counters, the part that [`Port`](crate::Port) and
//! [`MultiPort`](crate::MultiPort) share.

use core::ops::AddAssign;

use tautline_base::{Backlog, Bytes, Device, Frame, Instant, Item, Packet};

use crate::limit::Limit;
use crate::ring::{Ring, Slot, Stopped};

/// Counters of one device queue.
///
/// Unlike Linux there is no count of requeues: room comes first, so no packet is dequeued and put
/// back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStats {
    /// Packets put into the ring.
    pub packets: u64,
    /// Bytes put into the ring.
    pub bytes: Bytes,
    /// Doorbells: one for each `transmit` that put a packet.
    pub bulks: u64,
    /// Stops that left packets queued because the ring was full. A stop counts once, until the ring
    /// opens again.
    pub ring_full: u64,
    /// Stops that left packets queued because the limit was reached, counted likewise.
    pub limit_reached: u64,
}

impl TxStats {
    fn count<F: Frame>(&mut self, packet: &Packet<F>) {
        self.packets += 1;
        self.bytes += packet.len();
    }

    /// Stops for either reason.
    pub const fn stops(&self) -> u64 {
        self.ring_full + self.limit_reached
    }
}

impl AddAssign for TxStats {
    /// Adds the counters of another queue.
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.bulks += other.bulks;
        self.ring_full += other.ring_full;
        self.limit_reached += other.limit_reached;
    }
}

pub(crate) struct Queue<D: Device, L> {
    pub(crate) ring: Ring<D, L>,
    pub(crate) stats: TxStats,
    /// Packets put since the last doorbell.
    put: usize,
    stopped: bool,
}

impl<D: Device, L> Queue<D, L> {
    pub(crate) const fn new(ring: Ring<D, L>) -> Self {
        let stats = TxStats {
            packets: 0,
            bytes: Bytes::ZERO,
            bulks: 0,
            ring_full: 0,
            limit_reached: 0,
        };
        Self {
            ring,
            stats,
            put: 0,
            stopped: false,
        }
    }

    /// Clears the state of the current burst after a device reset.
    pub(crate) const fn clear(&mut self) {
        (self.put, self.stopped) = (0, false);
    }
}

/// A slot in every queue, for a packet whose queue is not known yet.
pub(crate) struct AllOpen<'a, D: Device, L>(&'a mut [Queue<D, L>]);

impl<'a, D: Device, L: Limit> AllOpen<'a, D, L> {
    /// `None` if one of `queues` is stopped.
    pub(crate) fn check(queues: &'a mut [Queue<D, L>], now: Instant) -> Option<Self> {
        queues
            .iter()
            .all(|queue| queue.ring.stopped(now).is_none())
            .then_some(Self(queues))
    }

    /// Puts `packet` into queue `number`.
    pub(crate) fn put(
        self,
        number: usize,
        packet: Packet<D::Frame>,
        now: Instant,
        on_ring: impl FnOnce(&Packet<D::Frame>),
    ) {
        let Queue {
            ring, stats, put, ..
        } = &mut self.0[number];
        *put += 1;
        stats.count(&packet);
        Slot { ring }.put_shown(packet, now, on_ring);
    }
}

impl<D: Device, L: Limit> Queue<D, L> {
    /// Moves up to `budget` packets that `next` yields into the ring, a slot first for each.
    /// `on_ring` sees each as it will be on the wire. Returns how many were moved.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        now: Instant,
        budget: usize,
        mut next: impl FnMut() -> Option<Packet<D::Frame>>,
        mut on_ring: impl FnMut(&Packet<D::Frame>),
    ) -> usize {
        let mut moved = 0;
        while moved < budget
            && let Some(slot) = self.ring.slot(now)
            && let Some(packet) = next()
        {
            self.stats.count(&packet);
            slot.put_shown(packet, now, &mut on_ring);
            moved += 1;
        }
        self.put += moved;
        moved
    }

    /// Ends a `transmit`: rings the doorbell and counts a stop that leaves a `backlog` behind.
    pub(crate) fn end_burst(&mut self, now: Instant, backlog: impl FnOnce() -> Backlog) {
        if core::mem::take(&mut self.put) > 0 {
            self.ring.doorbell(now);
            self.stats.bulks += 1;
            // It was open just now: whatever stops it is a new stop.
            self.stopped = false;
        }
        let stopped = self
            .ring
            .stopped(now)
            .filter(|_| self.stopped || !backlog().is_empty());
        match stopped {
            Some(Stopped::RingFull) if !self.stopped => self.stats.ring_full += 1,
            Some(Stopped::LimitReached) if !self.stopped => self.stats.limit_reached += 1,
            _ => {}
        }
        self.stopped = stopped.is_some();
    }
}
