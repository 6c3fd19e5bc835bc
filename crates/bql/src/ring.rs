//! [`Ring`]: a device's transmit ring behind a limit, entered through a [`Slot`].
//!
//! Linux stops a driver's queue after the packet that filled it, and requeues a packet that did not
//! fit. Here room comes first: a `Slot` borrows a ring that has room and is below its limit, so no
//! packet is dequeued and put back.

use alloc::vec::Vec;
use core::fmt;

use tautline_base::{Bytes, Device, DropReason, Drops, Instant, Item, Packet};

use crate::dql::Dql;
use crate::limit::Limit;

/// A device's transmit ring and the limit on the bytes in it.
#[derive(Debug)]
pub struct Ring<D: Device, L = Dql> {
    device: D,
    limit: L,
    /// True if packets were put since the last doorbell.
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

    /// The reason why no packet may be put at `now`; `None` if one may.
    pub fn stopped(&self, now: Instant) -> Option<Stopped> {
        if self.device.room() == 0 {
            Some(Stopped::RingFull)
        } else if !self.limit.available(now) {
            Some(Stopped::LimitReached)
        } else {
            None
        }
    }

    /// The time from which time alone permits a packet; `None` while only a completion can.
    pub fn opens_at(&self) -> Option<Instant> {
        (self.device.room() > 0).then(|| self.limit.opens_at())?
    }

    /// The permission to put one packet, unless the ring is full or the limit is reached.
    pub fn slot(&mut self, now: Instant) -> Option<Slot<'_, D, L>> {
        self.stopped(now).is_none().then_some(Slot { ring: self })
    }

    /// Rings the device's doorbell if packets were put since the last one.
    pub fn doorbell(&mut self, now: Instant) {
        if core::mem::take(&mut self.put) {
            self.device.doorbell(now);
        }
    }

    /// Appends every completed packet to `done`; they are one batch for the limit.
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

    /// Resets the device, drops every packet in it, then resets the limit.
    pub fn reset(&mut self, drops: &mut Drops<Packet<D::Frame>>) {
        self.device.reset(&mut self.lost);
        for packet in self.lost.drain(..) {
            drops.push(packet, DropReason::Reset);
        }
        self.limit.reset();
        self.put = false;
    }

    /// The device, for its state and statistics.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// The device, for receiving and for its own settings. Packets put past the ring escape the
    /// limit.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The limit on the bytes in flight.
    pub const fn limit(&self) -> &L {
        &self.limit
    }

    /// The limit, for changing its settings.
    pub const fn limit_mut(&mut self) -> &mut L {
        &mut self.limit
    }
}

/// Why no packet may be put into a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The device's ring has no free descriptor, whatever the limit.
    RingFull,
    /// The limit on the bytes in the device is reached.
    LimitReached,
}

/// The permission to put one packet into a ring.
#[must_use = "put a packet into the slot"]
pub struct Slot<'a, D: Device, L> {
    /// Open: its device has room, its limit is not reached.
    pub(crate) ring: &'a mut Ring<D, L>,
}

impl<D: Device, L: Limit> Slot<'_, D, L> {
    /// Finishes the bytes of `packet`, counts it against the limit and hands it to the device.
    pub fn put(self, packet: Packet<D::Frame>, now: Instant) {
        self.put_shown(packet, now, |_| {});
    }

    /// [`put`](Self::put) that calls `show` with the packet as it will be on the wire.
    pub fn put_shown(
        self,
        mut packet: Packet<D::Frame>,
        now: Instant,
        show: impl FnOnce(&Packet<D::Frame>),
    ) {
        packet.finish();
        show(&packet);
        // The stamp of entry into the ring.
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

impl<D: Device, L> fmt::Debug for Slot<'_, D, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}
