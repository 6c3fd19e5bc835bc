//! [`Inspect`]: a qdisc's parameters and counters; [`Change`]: changing a running one;
//! `Configured`: what one kind of qdisc adds to them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use tautline_base::{ConfigError, Drops, Instant, Item, Qdisc};
use tautline_qdisc::fifo::Bound;
use tautline_qdisc::{ClassId, Classful, Fifo};

use crate::report::{Report, Value};
use crate::words::{Options, ParseError, Problem, Words};

/// Reports its state; object-safe, independent of the packet type.
pub trait Inspect {
    /// Its name, parameters and counters, and those of its classes and children.
    fn report(&self) -> Report;
}

/// The part of a tree that a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The qdisc itself, like `tc qdisc change root`.
    Root,
    /// A class, of this qdisc or of one below, like `tc class change`.
    Class(ClassId),
    /// The qdisc below a class, at any depth, like `tc qdisc change parent`.
    Below(ClassId),
}

impl Target {
    /// The class it names.
    fn class(self) -> ClassId {
        match self {
            Self::Root => ClassId::default(),
            Self::Class(class) | Self::Below(class) => class,
        }
    }
}

/// Changes to a running qdisc, in `tc`'s words. Each qdisc also has a `reconfigure` that takes its
/// typed `Config`.
///
/// A change that is refused changes nothing. After one that lowers a limit, FIFOs keep what they
/// hold and refuse newcomers; the AQMs and fair queues drop at the head until they fit, into
/// `drops`. Whatever stays keeps its order and its time of arrival.
pub trait Change<P: Item> {
    /// Sets the options in `words` (`limit 100 target 20ms`) of `target` and keeps all others. The
    /// call passes through every parent of the target, so that each counts what was dropped below
    /// it.
    ///
    /// # Errors
    /// If a word cannot be read, or the qdisc refuses a value. If there is no such class; then no
    /// word has been read.
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError>;
}

/// A qdisc chosen at run time: what a command line or configuration file yields.
pub trait DynQdisc<P: Item>: Qdisc<P> + Inspect + Change<P> + Send {}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P> + Send> DynQdisc<P> for Q {}

/// Any FIFO as a qdisc chosen at run time: what a new class holds until it is given something
/// better.
impl<P: Item + Send + 'static, B: Bound + Options + Clone + Send + 'static> From<Fifo<P, B>>
    for Box<dyn DynQdisc<P>>
{
    fn from(fifo: Fifo<P, B>) -> Self {
        Box::new(fifo)
    }
}

impl<P: Item> fmt::Debug for dyn DynQdisc<P> {
    /// Its kind and its backlog; [`report`](Inspect::report) has everything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.report().kind)
            .field("backlog", &self.backlog())
            .finish_non_exhaustive()
    }
}

impl<P: Item> Inspect for Box<dyn DynQdisc<P>> {
    fn report(&self) -> Report {
        (**self).report()
    }
}

impl<P: Item> Change<P> for Box<dyn DynQdisc<P>> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        (**self).change(target, words, now, drops)
    }
}

/// One kind of qdisc: what it adds to [`Inspect`] and [`Change`], which all kinds share.
pub trait Configured {
    /// The packets it queues.
    type Packet: Item;
    /// Its parameters.
    type Config: Options;

    /// Its parameters as they are now.
    fn parameters(&self) -> Self::Config;

    /// Replaces the parameters.
    ///
    /// # Errors
    /// If it refuses a value; then nothing changes.
    fn set_parameters(
        &mut self,
        config: Self::Config,
        now: Instant,
        drops: &mut Drops<Self::Packet>,
    ) -> Result<(), ConfigError>;

    /// Its counters, classes and children; the other fields of the report are filled in.
    fn details(&self) -> Report;

    /// The parameters that a report shows.
    fn shown(&self) -> Vec<(&'static str, Value)> {
        self.parameters().options()
    }

    /// Changes `target`, which is one of its classes or below one.
    ///
    /// # Errors
    /// As [`Change::change`].
    fn change_below(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        _now: Instant,
        _drops: &mut Drops<Self::Packet>,
    ) -> Result<(), ParseError> {
        Err(no_class(self.parameters().kind(), target, words))
    }
}

/// `configured!(Config, |sfq, config, now, drops| sfq.reconfigure(config, drops))`: the types of
/// [`Configured`] and its methods about the parameters, for a qdisc of packets `P`.
macro_rules! configured {
    ($config:ty, |$qdisc:ident, $new:ident, $now:ident, $drops:ident| $set:expr) => {
        type Packet = P;
        type Config = $config;

        fn parameters(&self) -> $config {
            self.config().clone()
        }

        fn set_parameters(
            &mut self,
            $new: $config,
            $now: tautline_base::Instant,
            $drops: &mut tautline_base::Drops<P>,
        ) -> Result<(), tautline_base::ConfigError> {
            let $qdisc = self;
            $set
        }
    };
}
pub(crate) use configured;

/// [`Configured::change_below`] of a qdisc whose classes take no parameters.
macro_rules! change_children {
    () => {
        fn change_below(
            &mut self,
            target: $crate::discipline::Target,
            words: &mut $crate::words::Words<'_>,
            now: tautline_base::Instant,
            drops: &mut tautline_base::Drops<P>,
        ) -> Result<(), $crate::words::ParseError> {
            $crate::discipline::change_child(self, target, words, now, drops)
        }
    };
}
pub(crate) use change_children;

impl<Q: Configured> Inspect for Q {
    fn report(&self) -> Report {
        Report {
            kind: self.parameters().kind(),
            options: self.shown(),
            ..self.details()
        }
    }
}

impl<Q: Configured> Change<Q::Packet> for Q {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<Q::Packet>,
    ) -> Result<(), ParseError> {
        if target == Target::Root {
            reconfigure(self.parameters(), words, |config| {
                self.set_parameters(config, now, drops)
            })
        } else {
            self.change_below(target, words, now, drops)
        }
    }
}

/// `kind` has no such class.
fn no_class(kind: &'static str, target: Target, words: &Words<'_>) -> ParseError {
    ParseError {
        at: words.here(),
        problem: Problem::NoClass {
            kind,
            class: target.class(),
        },
    }
}

/// Sets `words` in `config` and gives it to `apply`, the `reconfigure` of a qdisc or a class.
pub(crate) fn reconfigure<C: Options>(
    mut config: C,
    words: &mut Words<'_>,
    apply: impl FnOnce(C) -> Result<(), ConfigError>,
) -> Result<(), ParseError> {
    words.apply(&mut config)?;
    let kind = config.kind();
    apply(config).map_err(|error| words.refused(kind, error))
}

/// Changes `target` below one of the classes of `parent`.
pub(crate) fn change_child<P: Item, Q: Classful<P> + Configured<Packet = P>>(
    parent: &mut Q,
    target: Target,
    words: &mut Words<'_>,
    now: Instant,
    drops: &mut Drops<P>,
) -> Result<(), ParseError>
where
    Q::Child: Change<P>,
{
    if let Target::Below(class) = target
        && let Some(result) = parent.with_child(class, drops, |child, drops| {
            child.change(Target::Root, words, now, drops)
        })
    {
        return result;
    }
    let is_own = matches!(target, Target::Class(class) if class.major == parent.handle());
    let leaves = if is_own { Vec::new() } else { parent.leaves() };
    for class in leaves {
        let result = parent.with_child(class, drops, |child, drops| {
            child.change(target, words, now, drops)
        });
        let unknown = |error: &ParseError| matches!(error.problem, Problem::NoClass { .. });
        match result {
            Some(Err(error)) if unknown(&error) => {}
            Some(result) => return result,
            None => {}
        }
    }
    Err(no_class(parent.parameters().kind(), target, words))
}
