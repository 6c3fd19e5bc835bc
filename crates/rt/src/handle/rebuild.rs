//! [`Rebuild`]: how a host's discipline is replaced while it runs.

use std::io::{self, ErrorKind};

use tautline_base::Item;
use tautline_qdisc::Stats;
use tautline_stack::Replaced;
use tautline_tc::DynQdisc;
use tautline_tc::Tree;

use super::command::Command;
use super::oneshot::oneshot;
use super::{Failure, StackHandle};

/// Makes disciplines of the kind that a host has, `Q`, from `tc`'s words.
pub trait Rebuild<Q> {
    /// The discipline that `tree` describes.
    ///
    /// # Errors
    /// Why there is none.
    fn rebuild(&mut self, tree: &Tree) -> Result<Q, Failure>;
}

/// The kind of discipline was fixed when the program was compiled: it is never replaced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed;

impl<Q> Rebuild<Q> for Fixed {
    fn rebuild(&mut self, _tree: &Tree) -> Result<Q, Failure> {
        Err(Failure::FixedQdisc)
    }
}

/// For hosts whose discipline is any that words can describe, counted by [`Stats`] or not.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByWords;

impl<P: Item + Send + 'static> Rebuild<Box<dyn DynQdisc<P>>> for ByWords {
    fn rebuild(&mut self, tree: &Tree) -> Result<Box<dyn DynQdisc<P>>, Failure> {
        tree.build().map_err(|_| Failure::BadQdisc)
    }
}

impl<P: Item + Send + 'static> Rebuild<Stats<Box<dyn DynQdisc<P>>>> for ByWords {
    fn rebuild(&mut self, tree: &Tree) -> Result<Stats<Box<dyn DynQdisc<P>>>, Failure> {
        self.rebuild(tree).map(Stats::new)
    }
}

impl StackHandle {
    /// Replaces the host's root discipline by what `words` describe, in `tc`'s language: `fq_codel
    /// target 10ms`. Packets that wait move over; the answer tells how many did, and how many found
    /// no room. The host must be driven with [`ByWords`] or a [`Rebuild`] of your own.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with what is wrong in `words`; [`Failure::FixedQdisc`];
    /// [`Failure::StuckQdisc`].
    pub async fn set_qdisc(&self, words: &str) -> io::Result<Replaced> {
        let tree: Tree = words
            .parse()
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let (reply, receiver) = oneshot();
        self.command(Command::Qdisc(Box::new(tree), reply));
        Ok(receiver.received().await?)
    }
}
