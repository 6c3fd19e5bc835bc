//! [`Qdisc`]: a queueing discipline in four verbs, and [`Inspect`], how to look into one.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use tautline_base::{Bytes, Instant, Item};

use crate::drops::Drops;

/// A queueing discipline: packets in, packets out, some dropped on the way.
///
/// A packet handed to `enqueue` leaves through `dequeue` or through `drops`, exactly once. Drops are outputs, not errors:
/// any call may drop any number of packets, also other packets than the one it is about.
pub trait Qdisc<P: Item> {
    /// Takes `packet` in. It, or others in its place, may come out in `drops`.
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>);

    /// The next packet to transmit, if one may leave at `now`.
    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P>;

    /// The earliest moment at which `dequeue` may yield a packet: [`Instant::ZERO`] when it may now, a later moment when
    /// a shaper holds the queue closed, `None` when nothing is queued.
    fn ready_at(&self) -> Option<Instant>;

    /// What is queued: packets taken in, not yet out and not dropped.
    fn backlog(&self) -> Backlog;
}

/// Packets and bytes held by a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packet objects.
    pub packets: usize,
    /// Their accounted length.
    pub bytes: Bytes,
}

impl Backlog {
    /// Adds a packet of `len`.
    #[inline]
    pub fn add(&mut self, len: Bytes) {
        self.packets += 1;
        self.bytes += len;
    }

    /// Removes a packet of `len`.
    ///
    /// # Panics
    /// If more leaves than entered.
    #[inline]
    pub fn remove(&mut self, len: Bytes) {
        self.packets = self.packets.checked_sub(1).expect("packet ledger underflow");
        self.bytes -= len;
    }

    /// True when nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

/// What a discipline tells about itself; object-safe, separate from the packet type.
pub trait Inspect {
    /// Its name, parameters and counters, and those of its children.
    fn report(&self) -> Report;
}

/// A discipline's name, parameters and counters, as `tc -s qdisc show` would list them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// `tc`'s name of the kind: `fq_codel`.
    pub kind: &'static str,
    /// Parameters, in `tc`'s names and units: `("target", "5ms")`.
    pub options: Vec<(&'static str, String)>,
    /// Counters, in `tc`'s names: `("drop_overlimit", 3)`.
    pub counters: Vec<(&'static str, u64)>,
    /// Reports of classes or wrapped disciplines.
    pub children: Vec<Self>,
}

/// A discipline chosen at run time: what a command line or configuration file yields.
pub trait DynQdisc<P: Item>: Qdisc<P> + Inspect + Send {}

impl<P: Item, Q: Qdisc<P> + Inspect + Send> DynQdisc<P> for Q {}

impl<P: Item, Q: Qdisc<P> + ?Sized> Qdisc<P> for Box<Q> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        (**self).enqueue(packet, now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        (**self).dequeue(now, drops)
    }

    fn ready_at(&self) -> Option<Instant> {
        (**self).ready_at()
    }

    fn backlog(&self) -> Backlog {
        (**self).backlog()
    }
}

impl<Q: Inspect + ?Sized> Inspect for Box<Q> {
    fn report(&self) -> Report {
        (**self).report()
    }
}
