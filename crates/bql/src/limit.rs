//! [`Limit`]: how many bytes may be in the device; [`Unlimited`]: as many as its ring holds.

use alloc::boxed::Box;

use tautline_base::{Bytes, Instant};

use crate::dql::Snapshot;

/// A limit on the bytes queued in a device and not yet completed.
///
/// *Ask, then queue*: [`queued`](Self::queued) follows an [`available`](Self::available) that was
/// true. The answer does not depend on the size to come, so one object may overshoot the limit; a
/// limit of zero still lets one through. It is [`Send`], so that a port can be built in one thread and
/// run in another.
pub trait Limit: Send {
    /// The time from which an object may be queued: [`Instant::ZERO`] if one may now, `None` if
    /// only a completion can change that. Limits on amounts never return a later time; those on
    /// rates do.
    fn opens_at(&self) -> Option<Instant>;

    /// True if another object may be queued at `now`.
    fn available(&self, now: Instant) -> bool {
        self.opens_at().is_some_and(|at| at <= now)
    }

    /// Counts `bytes` handed to the device.
    fn queued(&mut self, bytes: Bytes, now: Instant);

    /// Counts `bytes` completed by the device. Call once per batch of completions, not once per
    /// packet, and not for an empty batch: limits learn from the size of the batches.
    fn completed(&mut self, bytes: Bytes, now: Instant);

    /// Clears the bytes in flight after a device reset.
    fn reset(&mut self);

    /// The limit now.
    fn limit(&self) -> Bytes;

    /// Queued and not completed.
    fn in_flight(&self) -> Bytes;

    /// State as sysfs shows it, if this is a [dynamic queue limit](crate::Dql).
    fn dql(&self) -> Option<Snapshot> {
        None
    }
}

impl<L: Limit + ?Sized> Limit for Box<L> {
    fn opens_at(&self) -> Option<Instant> {
        (**self).opens_at()
    }

    fn available(&self, now: Instant) -> bool {
        (**self).available(now)
    }

    fn queued(&mut self, bytes: Bytes, now: Instant) {
        (**self).queued(bytes, now);
    }

    fn completed(&mut self, bytes: Bytes, now: Instant) {
        (**self).completed(bytes, now);
    }

    fn reset(&mut self) {
        (**self).reset();
    }

    fn limit(&self) -> Bytes {
        (**self).limit()
    }

    fn in_flight(&self) -> Bytes {
        (**self).in_flight()
    }

    fn dql(&self) -> Option<Snapshot> {
        (**self).dql()
    }
}

/// No limit but the capacity of the ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited {
    in_flight: Bytes,
}

impl Limit for Unlimited {
    fn opens_at(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }

    fn queued(&mut self, bytes: Bytes, _now: Instant) {
        self.in_flight += bytes;
    }

    fn completed(&mut self, bytes: Bytes, _now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    fn reset(&mut self) {
        self.in_flight = Bytes::ZERO;
    }

    fn limit(&self) -> Bytes {
        Bytes::MAX
    }

    fn in_flight(&self) -> Bytes {
        self.in_flight
    }
}
