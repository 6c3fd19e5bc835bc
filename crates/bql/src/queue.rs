//! [`Queue`]: a ring, and what passed it and what stopped it: what [`Port`](crate::Port) and
//! [`MultiPort`](crate::MultiPort) share.

use tautline_base::{Bytes, Device, Instant, Item, Packet};

use crate::limit::Limit;
use crate::ring::{Ring, Shut};

/// What one device queue counted.
///
/// There is no count of requeues, as Linux has: room comes first, so nothing is ever dequeued and
/// put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStats {
    /// Packets put.
    pub packets: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Doorbells rung: one for all that a `transmit` put.
    pub bulks: u64,
    /// How often a `transmit` left packets behind because the ring was full, counted once until it
    /// was open again.
    pub ring_full: u64,
    /// How often one left packets behind because the limit was reached, counted once until it was
    /// open again.
    pub limit_reached: u64,
}

impl TxStats {
    /// How often the queue was stopped, for either reason.
    pub const fn stops(&self) -> u64 {
        self.ring_full + self.limit_reached
    }
}

/// A device queue.
pub(crate) struct Queue<D: Device, L> {
    pub(crate) ring: Ring<D, L>,
    pub(crate) stats: TxStats,
    /// Put since the doorbell.
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

    /// Nothing is in the ring any more.
    pub(crate) const fn forget(&mut self) {
        (self.put, self.stopped) = (0, false);
    }
}

impl<D: Device, L: Limit> Queue<D, L> {
    /// Puts `packet` into the ring, which is open.
    #[inline]
    pub(crate) fn put(
        &mut self,
        packet: Packet<D::Frame>,
        now: Instant,
        show: impl FnOnce(&Packet<D::Frame>),
    ) {
        let bytes = packet.len();
        let slot = self
            .ring
            .slot(now)
            .expect("it was found open, and time did not pass");
        slot.put_shown(packet, now, show);
        self.put += 1;
        self.stats.packets += 1;
        self.stats.bytes += bytes;
    }

    /// The end of a `transmit`; `waits` tells whether packets are left.
    pub(crate) fn settle(&mut self, now: Instant, waits: impl FnOnce() -> bool) {
        if core::mem::take(&mut self.put) > 0 {
            self.ring.doorbell(now);
            self.stats.bulks += 1;
            // It was open just now: whatever stops it is a new stop.
            self.stopped = false;
        }
        let shut = self.ring.shut(now).filter(|_| self.stopped || waits());
        match shut {
            Some(_) if self.stopped => {}
            Some(Shut::Ring) => self.stats.ring_full += 1,
            Some(Shut::Limit) => self.stats.limit_reached += 1,
            None => {}
        }
        self.stopped = shut.is_some();
    }
}
