//! [`Limit`]: how many bytes may be in the device, and [`Unlimited`], the limit that never says no.

use alloc::boxed::Box;

use tautline_base::{Bytes, Instant};

use crate::dql::Dql;

/// A limit on the bytes queued in a device and not yet completed.
///
/// *Ask, then queue*: [`queued`](Self::queued) follows an [`available`](Self::available) that was
/// true. The answer does not depend on the size to come, so one object may overshoot the limit; a
/// limit of zero still lets one through.
pub trait Limit {
    /// True when another object may be queued at `now`.
    fn available(&self, now: Instant) -> bool;

    /// The moment from which time alone makes it [`available`](Self::available): [`Instant::ZERO`]
    /// when it is, `None` when only a completion can. Limits that meter by amount never answer with
    /// a later moment; those that meter by rate do.
    fn opens_at(&self) -> Option<Instant>;

    /// `bytes` bytes were handed to the device.
    fn queued(&mut self, bytes: Bytes, now: Instant);

    /// The device is done with `bytes` bytes. Call once per batch of completions, not once per
    /// packet, and not for nothing: the size of the batches is what a limit learns from.
    fn completed(&mut self, bytes: Bytes, now: Instant);

    /// The device was reset and holds nothing.
    fn reset(&mut self);

    /// The limit now.
    fn limit(&self) -> Bytes;

    /// Queued and not completed.
    fn in_flight(&self) -> Bytes;

    /// The dynamic queue limit that this is, for its [snapshot](Dql::snapshot); `None` if it is of
    /// another kind.
    fn as_dql(&self) -> Option<&Dql> {
        None
    }
}

impl<L: Limit + ?Sized> Limit for Box<L> {
    fn available(&self, now: Instant) -> bool {
        (**self).available(now)
    }

    fn opens_at(&self) -> Option<Instant> {
        (**self).opens_at()
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

    fn as_dql(&self) -> Option<&Dql> {
        (**self).as_dql()
    }
}

/// No limit but the room of the ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited {
    in_flight: Bytes,
}

impl Limit for Unlimited {
    fn available(&self, _now: Instant) -> bool {
        true
    }

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
