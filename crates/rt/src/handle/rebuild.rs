//! [`Rebuild`]: replaces a host's qdisc while it runs.

use std::io::{self, ErrorKind};

use tautline_base::Item;
use tautline_qdisc::Stats;
use tautline_stack::Replaced;
use tautline_tc::{DynQdisc, Inspect, Report, Tree};

use super::command::Command;
use super::oneshot::oneshot;
use super::{Failure, StackHandle};

/// Builds qdiscs of a host's type `Q` from `tc` words.
pub trait Rebuild<Q> {
    /// Builds the qdisc that `tree` describes.
    ///
    /// # Errors
    /// [`Failure::FixedQdisc`] or [`Failure::BadQdisc`].
    fn rebuild(&mut self, tree: &Tree) -> Result<Q, Failure>;

    /// The parameters and counters of `qdisc`, for [`StackHandle::qdisc_report`]. Default: unknown.
    fn report(&self, _qdisc: &Q) -> Option<Report> {
        None
    }
}

/// The type of the qdisc is fixed at compile time: it is never replaced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed;

impl<Q> Rebuild<Q> for Fixed {
    fn rebuild(&mut self, _tree: &Tree) -> Result<Q, Failure> {
        Err(Failure::FixedQdisc)
    }
}

/// For hosts whose qdisc is a `Box<dyn DynQdisc>`, with or without [`Stats`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ByWords;

impl<P: Item + Send + 'static> Rebuild<Box<dyn DynQdisc<P>>> for ByWords {
    fn rebuild(&mut self, tree: &Tree) -> Result<Box<dyn DynQdisc<P>>, Failure> {
        tree.build().map_err(|_| Failure::BadQdisc)
    }

    fn report(&self, qdisc: &Box<dyn DynQdisc<P>>) -> Option<Report> {
        Some(qdisc.report())
    }
}

impl<P: Item + Send + 'static> Rebuild<Stats<Box<dyn DynQdisc<P>>>> for ByWords {
    fn rebuild(&mut self, tree: &Tree) -> Result<Stats<Box<dyn DynQdisc<P>>>, Failure> {
        self.rebuild(tree).map(Stats::new)
    }

    fn report(&self, qdisc: &Stats<Box<dyn DynQdisc<P>>>) -> Option<Report> {
        Some(qdisc.report())
    }
}

impl StackHandle {
    /// Replaces the host's root qdisc; `words` are those of `tc`: `fq_codel target 10ms`. Queued
    /// packets move to the new qdisc; the result counts those moved and those dropped. The host must
    /// be driven with [`ByWords`] or a custom [`Rebuild`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with the error in `words`; [`Failure::FixedQdisc`];
    /// [`Failure::StuckQdisc`].
    pub async fn set_qdisc(&self, words: &str) -> io::Result<Replaced> {
        let tree: Tree = words
            .parse()
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let (reply, receiver) = oneshot();
        self.command(Command::Qdisc(Box::new(tree), reply));
        Ok(receiver.received().await?)
    }

    /// Parameters and counters of the host's root qdisc and of all below it; the text is that of
    /// `tc -s -d qdisc`. Like [`set_qdisc`](Self::set_qdisc) it wants a host driven with [`ByWords`];
    /// those that every qdisc has ([`Report::common`], sojourn times) are there if its qdisc is wrapped
    /// in [`Stats`].
    ///
    /// # Errors
    /// [`Failure::FixedQdisc`].
    pub async fn qdisc_report(&self) -> io::Result<Report> {
        let (reply, receiver) = oneshot();
        self.command(Command::QdiscReport(reply));
        Ok(receiver.received().await?)
    }
}
