//! `tc`'s language for [`tautline_qdisc`]: qdiscs, classes and filters built and changed from the
//! words of `tc` scripts, and reports as `tc -s` prints them, in text and JSON.
//!
//! This is the outer seam, for command lines and configuration files. A program that knows which
//! qdisc it needs constructs the type.
//!
//! [`build`] returns a [`DynQdisc`], whose [`Qdisc`] methods need no import. It is generic over the
//! packet: [`Packet`], or a type of your own that implements [`Item`].
//!
//! ```
//! use tautline_tc::{Drops, Instant, Packet, build, change_tree};
//!
//! let mut qdisc = build::<Packet<()>>("fq_codel limit 1000 target 5ms")?;
//! let mut drops = Drops::new();
//! qdisc.enqueue(Packet::new((), 1514).with_hashes(7, 0, 0), Instant::ZERO, &mut drops);
//! change_tree(&mut *qdisc, "limit 500", Instant::ZERO, &mut drops)?;
//! assert!(qdisc.report().to_string().starts_with("qdisc fq_codel 0: root refcnt 2 limit 500p"));
//! # Ok::<(), tautline_tc::ParseError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod change;
mod discipline;
mod kind;
mod kinds;
mod report;
mod rules;
#[cfg(test)]
mod tests;
mod tree;
mod words;

use alloc::boxed::Box;

pub use change::change_tree;
pub use discipline::{Change, DynQdisc, Inspect, Target};
pub use kind::Kind;
pub use report::{ClassShow, QdiscShow, Report, Value};
pub use rules::{FilterWords, read_filter};
pub use tautline_base::{Drops, Instant, Item, Packet, Qdisc};
pub use tautline_qdisc::{Common, units::parse_size};
pub use tree::{Tree, TreeMq};
pub use words::{ParseError, Word, Words};

/// Makes the qdisc that `words` describe: its kind, then options and their values; or a whole
/// [`Tree`], command by command.
///
/// ```
/// use tautline_tc::{Packet, build};
///
/// let qdisc = build::<Packet<()>>("fq_codel limit 10240 target 5ms")?;
/// assert_eq!(qdisc.report().kind, "fq_codel");
/// # Ok::<(), tautline_tc::ParseError>(())
/// ```
///
/// # Errors
/// If a word is unknown, a value is missing or does not fit; the message names the word and says
/// what would be accepted.
pub fn build<P: Item + Send + 'static>(words: &str) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
    tree::build(words)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
