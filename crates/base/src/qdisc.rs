//! [`Qdisc`]: a queueing discipline; [`MultiQueue`]: one with a child for each transmit queue of a
//! device; [`Backlog`]: queued packets and bytes.

use alloc::boxed::Box;

use crate::drops::Drops;
use crate::packet::Item;
use crate::time::Instant;
use crate::units::Bytes;

/// A queueing discipline: packets in, packets out, some dropped on the way.
///
/// A packet handed to `enqueue` leaves through `dequeue` or through `drops`, exactly once. Drops
/// are outputs, not errors: any call may drop any number of packets, not only the one it is about.
///
/// ```
/// use std::collections::VecDeque;
/// use tautline_base::{Backlog, DropReason, Drops, Instant, Item, Qdisc};
///
/// /// A FIFO of at most `limit` packets.
/// struct Fifo<P> {
///     packets: VecDeque<P>,
///     backlog: Backlog,
///     limit: usize,
/// }
///
/// impl<P: Item> Qdisc<P> for Fifo<P> {
///     fn enqueue(&mut self, packet: P, _now: Instant, drops: &mut Drops<P>) {
///         if self.backlog.packets == self.limit {
///             return drops.push(packet, DropReason::Overlimit);
///         }
///         self.backlog.add(packet.len());
///         self.packets.push_back(packet);
///     }
///
///     fn dequeue(&mut self, _now: Instant, _drops: &mut Drops<P>) -> Option<P> {
///         let packet = self.packets.pop_front()?;
///         self.backlog.remove(packet.len());
///         Some(packet)
///     }
///
///     fn ready_at(&self) -> Option<Instant> {
///         (!self.backlog.is_empty()).then_some(Instant::ZERO)
///     }
///
///     fn backlog(&self) -> Backlog {
///         self.backlog
///     }
/// }
/// ```
pub trait Qdisc<P: Item> {
    /// Queues `packet`. Over a limit, it or other packets go to `drops` instead.
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>);

    /// The next packet to transmit, if one may leave at `now`.
    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P>;

    /// The earliest time at which `dequeue` may return a packet: [`Instant::ZERO`] if it may now,
    /// a later time if a shaper holds the queue closed, `None` if the queue is empty.
    fn ready_at(&self) -> Option<Instant>;

    /// The packets and bytes queued: enqueued, not yet dequeued or dropped.
    fn backlog(&self) -> Backlog;

    /// The length of the packet that `dequeue` would return at `now`, for parents that must know it
    /// first; the packet stays queued. `None` (the default) also if the length is unknown before
    /// the packet is dequeued: the parent then dequeues and keeps it.
    fn peek_len(&mut self, _now: Instant, _drops: &mut Drops<P>) -> Option<Bytes> {
        None
    }

    /// Whether a parent holds a packet dequeued from here only to learn its length. It counts in
    /// the limit in packets until the parent passes it on, as in Linux (`qdisc_peek_dequeued`).
    /// Does nothing by default: only qdiscs without `peek_len` that have such a limit need it.
    fn set_peeked(&mut self, _peeked: bool) {}
}

/// Packets and bytes in a qdisc.
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
        self.packets = self
            .packets
            .checked_sub(1)
            .expect("packet ledger underflow");
        self.bytes -= len;
    }

    /// True if the qdisc is empty.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

/// A queueing discipline with one child for each transmit queue of a device.
///
/// Driven through the supertrait, it serves its children in its own order; the methods here serve
/// one transmit queue, so that a full queue does not hold up the others. Queues are numbered from 0.
pub trait MultiQueue<P: Item>: Qdisc<P> {
    /// The number of transmit queues.
    fn queues(&self) -> usize;

    /// The transmit queue of `packet`, below [`queues`](Self::queues).
    fn queue_of(&self, packet: &P) -> usize;

    /// The next packet for transmit queue `queue`; `None` also if there is no such queue.
    fn dequeue_from(&mut self, queue: usize, now: Instant, drops: &mut Drops<P>) -> Option<P>;

    /// [`ready_at`](Qdisc::ready_at) of the child of transmit queue `queue`.
    fn ready_at_of(&self, queue: usize) -> Option<Instant>;

    /// [`backlog`](Qdisc::backlog) of the child of transmit queue `queue`.
    fn backlog_of(&self, queue: usize) -> Backlog;
}

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

    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        (**self).peek_len(now, drops)
    }

    fn set_peeked(&mut self, peeked: bool) {
        (**self).set_peeked(peeked);
    }
}
