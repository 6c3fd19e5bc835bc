//! [`Ring`]: a device's transmit ring behind a limit, entered through a [`Slot`].
//!
//! Linux lets a driver take a packet, then stops its queue, and takes back what did not fit. Here
//! room comes first: a `Slot` is a borrow of the ring with room in it and the limit not reached, so
//! nothing is ever dequeued and put back.

use alloc::vec::Vec;

use tautline_base::{Bytes, Device, DropReason, Drops, Instant, Item, Packet};

use crate::dql::Dql;
use crate::limit::Limit;

/// A device's transmit ring and the limit on the bytes in it.
#[derive(Debug)]
pub struct Ring<D: Device, L = Dql> {
    device: D,
    limit: L,
    /// Packets were put since the doorbell.
    put: bool,
    /// Reused by `reset`.
    lost: Vec<Packet<D::Frame>>,
}

impl<D: Device, L: Limit> Ring<D, L> {
    /// The ring of `device`, which must be empty, behind `limit`.
    pub const fn new(device: D, limit: L) -> Self {
        Self {
            device,
            limit,
            put: false,
            lost: Vec::new(),
        }
    }

    /// True when a packet may be put: the device has room and the limit is not reached.
    pub fn is_open(&self, now: Instant) -> bool {
        self.limit.available(now) && self.device.room() > 0
    }

    /// What keeps it shut, if it is; the ring, if both do.
    pub(crate) fn shut(&self, now: Instant) -> Option<Shut> {
        match (self.device.room() > 0, self.limit.available(now)) {
            (false, _) => Some(Shut::Ring),
            (true, false) => Some(Shut::Limit),
            (true, true) => None,
        }
    }

    /// The moment from which time alone opens it; `None` while only a completion can.
    pub fn opens_at(&self) -> Option<Instant> {
        if self.device.room() > 0 {
            self.limit.opens_at()
        } else {
            None
        }
    }

    /// The permission to put one packet, if there is room for it.
    pub fn slot(&mut self, now: Instant) -> Option<Slot<'_, D, L>> {
        self.is_open(now).then_some(Slot { ring: self })
    }

    /// Tells the device that packets were put; nothing if none were since the last time.
    pub fn doorbell(&mut self, now: Instant) {
        if core::mem::take(&mut self.put) {
            self.device.doorbell(now);
        }
    }

    /// Appends every completed packet to `done`; the limit hears of them as one batch.
    pub fn reap(&mut self, now: Instant, done: &mut Vec<Packet<D::Frame>>) {
        let before = done.len();
        self.device.reap(now, done);
        let completed: Bytes = done.iter().skip(before).map(Item::len).sum();
        if completed > Bytes::ZERO {
            self.limit.completed(completed, now);
        }
    }

    /// Packets put and not yet reaped.
    pub fn in_flight(&self) -> usize {
        self.device.in_flight()
    }

    /// Resets the device, gives every packet in it up, then resets the limit, which must never
    /// count what is gone.
    pub fn reset(&mut self, drops: &mut Drops<Packet<D::Frame>>) {
        self.device.reset(&mut self.lost);
        for packet in self.lost.drain(..) {
            drops.push(packet, DropReason::Reset);
        }
        self.limit.reset();
        self.put = false;
    }

    /// The device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// The device, for receiving and for its own settings. Transmitting past the ring would confuse
    /// the limit.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The limit.
    pub const fn limit(&self) -> &L {
        &self.limit
    }

    /// The limit, for changing its settings.
    pub const fn limit_mut(&mut self) -> &mut L {
        &mut self.limit
    }
}

/// Why nothing may be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shut {
    /// The ring is full.
    Ring,
    /// The limit is reached.
    Limit,
}

/// The permission to put one packet into a ring.
#[must_use = "a slot is there to be filled"]
pub struct Slot<'a, D: Device, L> {
    ring: &'a mut Ring<D, L>,
}

impl<D: Device, L: Limit> Slot<'_, D, L> {
    /// Puts `packet` into the ring: its bytes are finished, the limit counts it, the device owns
    /// it.
    pub fn put(self, packet: Packet<D::Frame>, now: Instant) {
        self.put_shown(packet, now, |_| {});
    }

    /// [`put`](Self::put), with a look at the packet as it will be on the wire.
    pub fn put_shown(
        self,
        mut packet: Packet<D::Frame>,
        now: Instant,
        show: impl FnOnce(&Packet<D::Frame>),
    ) {
        packet.finish();
        show(&packet);
        // From here on it is the ring that holds it.
        packet.set_enqueued(now);
        let Ring {
            device,
            limit,
            put,
            lost: _,
        } = self.ring;
        limit.queued(packet.len(), now);
        device.put(packet, now);
        *put = true;
    }
}
