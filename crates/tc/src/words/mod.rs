//! The words of a `tc` command, the errors that point at them, and configurations that read and
//! show themselves in words.

mod cursor;
mod error;
mod options;
mod pointer;

pub use cursor::{Word, Words};
pub use error::{ParseError, Problem};
pub use options::Options;

pub(crate) use cursor::joined;
pub(crate) use error::RATE;
pub(crate) use options::Part;

/// Expected where a number of packets stands.
pub(crate) const PACKETS: &str = "a number of packets, e.g. 1000 or 1000p";
/// Expected where an amount of data stands.
pub(crate) const SIZE: &str = "a size, e.g. 1514, 32Mb";
/// Expected where a time stands.
pub(crate) const TIME: &str = "a time, e.g. 5ms, 500us";
/// Expected where a whole number stands.
pub(crate) const NUMBER: &str = "a whole number, e.g. 64";
