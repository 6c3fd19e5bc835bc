//! [`Inspect`]: a queueing discipline's parameters and counters; [`Change`]: changing a running one.

use alloc::boxed::Box;

use tautline_base::{Drops, Instant, Item, Qdisc};

use crate::class::ClassId;
use crate::fifo::{Bound, Fifo};
use crate::report::Report;
use crate::words::{ParseError, Problem, Words};

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
