//! [`build`]: a discipline from words, as one would give them to `tc qdisc add`: `fq_codel limit
//! 10240 target 5ms`.
//!
//! This is the outer seam, for command lines and configuration files. Programs that know what they
//! want construct the type.
//!
//! | module | holds |
//! |---|---|
//! | `cursor` | [`Words`], [`Word`]: the words of a command and their places |
//! | `options` | [`Options`]: what every `Config` implements to be set and shown in words |
//! | `kind` | [`Kind`]: every discipline and its configuration |
//! | `tree`, `place` | [`Tree`]: a discipline with classes, filters and disciplines below |
//! | `change` | [`change_tree`]: changes while it runs |
//! | `error`, `pointer` | [`ParseError`], [`Problem`], shown beneath the words at fault |
//! | `units` | times, sizes, rates as `tc` reads and writes them |

mod change;
mod cursor;
mod error;
mod kind;
mod options;
mod place;
mod pointer;
#[cfg(test)]
mod tests;
mod tree;
pub(crate) mod units;

use alloc::boxed::Box;

use tautline_base::Item;

use crate::discipline::DynQdisc;

pub use change::change_tree;
pub use cursor::{Word, Words};
pub use error::{ParseError, Problem};
pub use kind::Kind;
pub use options::Options;
pub use tree::Tree;
pub use units::parse_size;

use cursor::joined;
use tree::Script;

/// What is said to be expected where a number of packets stands.
pub(crate) const PACKETS: &str = "a number of packets, e.g. 1000 or 1000p";
/// What is said to be expected where an amount of data stands.
pub(crate) const SIZE: &str = "a size, e.g. 1514, 32Mb";
/// What is said to be expected where a time stands.
pub(crate) const TIME: &str = "a time, e.g. 5ms, 500us";
/// What is said to be expected where a rate stands.
pub(crate) const RATE: &str = "a rate, e.g. 20mbit, 1gbit";
/// What is said to be expected where a whole number stands.
pub(crate) const NUMBER: &str = "a whole number, e.g. 64";

/// Makes the discipline that `words` describe: its kind, then options and their values; or a whole
/// [`Tree`], command by command.
///
/// ```
/// use tautline_base::Packet;
/// let mut qdisc = tautline_qdisc::build::<Packet<()>>("fq_codel limit 10240 target 5ms")?;
/// assert_eq!(qdisc.report().kind, "fq_codel");
/// # Ok::<(), tautline_qdisc::ParseError>(())
/// ```
///
/// # Errors
/// If a word is unknown, a value is missing or does not fit; the message names the word and says
/// what would be accepted.
pub fn build<P: Item + Send + 'static>(words: &str) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
    Script::read(&joined(words))?.build()
}
