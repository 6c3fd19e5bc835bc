//! [`Qdisc`]: a queueing discipline in four verbs, and a fifth for those that can be looked into;
//! [`Inspect`], how to ask one about itself; [`Change`], how to change a running one.

use alloc::boxed::Box;

use tautline_base::{Bytes, Instant, Item};

use crate::class::ClassId;
use crate::drops::Drops;
use crate::fifo::{Bound, Fifo};
use crate::report::Report;
use crate::words::{ParseError, Problem, Words};

/// A queueing discipline: packets in, packets out, some dropped on the way.
///
/// A packet handed to `enqueue` leaves through `dequeue` or through `drops`, exactly once. Drops
/// are outputs, not errors: any call may drop any number of packets, also other packets than the
/// one it is about.
pub trait Qdisc<P: Item> {
    /// Takes `packet` in. It, or others in its place, may come out in `drops`.
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>);

    /// The next packet to transmit, if one may leave at `now`.
    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P>;

    /// The earliest moment at which `dequeue` may yield a packet: [`Instant::ZERO`] when it may
    /// now, a later moment when a shaper holds the queue closed, `None` when nothing is queued.
    fn ready_at(&self) -> Option<Instant>;

    /// What is queued: packets taken in, not yet out and not dropped.
    fn backlog(&self) -> Backlog;

    /// The length of the packet that `dequeue` would yield at `now`, which stays in its place; for
    /// parents that must know it first. `None` also where that cannot be told without giving the
    /// packet up, which is the default: then the parent takes it and keeps it
    /// ([`Parked`](crate::Parked)).
    fn peek_len(&mut self, _now: Instant, _drops: &mut Drops<P>) -> Option<Bytes> {
        None
    }
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
        self.packets = self
            .packets
            .checked_sub(1)
            .expect("packet ledger underflow");
        self.bytes -= len;
    }

    /// True when nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

/// What a discipline tells about itself; object-safe, separate from the packet type.
pub trait Inspect {
    /// Its name, parameters and counters, and those of its classes and children.
    fn report(&self) -> Report;
}

/// Changes to a discipline that is running, in `tc`'s words. Each discipline also has a
/// `reconfigure` that takes its typed `Config`.
///
/// A change that is refused changes nothing. After one that lowers a limit, FIFOs keep what they
/// hold and refuse newcomers; the AQMs and fair queues drop at the head until they fit, into
/// `drops`. Whatever stays keeps its order and its time of arrival.
pub trait Change<P: Item> {
    /// Sets the options in `words` (`limit 100 target 20ms`) and keeps all others, like `tc qdisc
    /// change`.
    ///
    /// # Errors
    /// If a word cannot be read, or the discipline refuses a value.
    fn change(
        &mut self,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError>;

    /// Sets options of one of its classes, like `tc class change`.
    ///
    /// # Errors
    /// If it has no such class, or as [`change`](Self::change).
    fn change_class(
        &mut self,
        class: ClassId,
        words: &mut Words<'_>,
        _now: Instant,
        _drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        Err(ParseError {
            at: words.here(),
            problem: Problem::NoClass {
                kind: "this discipline",
                class,
            },
        })
    }

    /// Sets options of the discipline below `class`, at any depth, as its own
    /// [`change`](Self::change) would. The call passes through every parent, so that each knows
    /// what was dropped below it.
    ///
    /// # Errors
    /// If there is no such class: then no word has been read. Or as [`change`](Self::change).
    fn change_below(
        &mut self,
        class: ClassId,
        words: &mut Words<'_>,
        _now: Instant,
        _drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        Err(ParseError {
            at: words.here(),
            problem: Problem::NoClass {
                kind: "this discipline",
                class,
            },
        })
    }
}

/// A discipline chosen at run time: what a command line or configuration file yields.
pub trait DynQdisc<P: Item>: Qdisc<P> + Inspect + Change<P> + Send {}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P> + Send> DynQdisc<P> for Q {}

/// Any FIFO as a discipline chosen at run time: what a new class holds until it is given something
/// better.
impl<P: Item + Send + 'static, B: Bound + Send + 'static> From<Fifo<P, B>>
    for Box<dyn DynQdisc<P>>
{
    fn from(fifo: Fifo<P, B>) -> Self {
        Box::new(fifo)
    }
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
}

impl<Q: Inspect + ?Sized> Inspect for Box<Q> {
    fn report(&self) -> Report {
        (**self).report()
    }
}

impl<P: Item, Q: Change<P> + ?Sized> Change<P> for Box<Q> {
    fn change(
        &mut self,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        (**self).change(words, now, drops)
    }

    fn change_class(
        &mut self,
        class: ClassId,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        (**self).change_class(class, words, now, drops)
    }

    fn change_below(
        &mut self,
        class: ClassId,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        (**self).change_below(class, words, now, drops)
    }
}
