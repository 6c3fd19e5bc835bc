//! [`Options`]: a configuration that can be written as `tc`'s words; every qdisc's `Config`
//! implements it in its own module.

use alloc::vec::Vec;

use super::cursor::{Word, Words};
use super::error::ParseError;
use crate::report::Value;

/// Parameters that `tc`'s words set and show.
pub trait Options {
    /// `tc`'s name of the qdisc (or of the qdisc whose class this is).
    fn kind(&self) -> &'static str;

    /// The words that can follow, for error messages: `limit PACKETS, target TIME`.
    fn help(&self) -> &'static str;

    /// Sets `option`, taking its values from `words`; false, without taking any, if there is no
    /// such option.
    ///
    /// # Errors
    /// If a value is missing or cannot be read.
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError>;

    /// Every parameter, in the order and in the names `tc` shows them; set again, they give the
    /// same configuration.
    fn options(&self) -> Vec<(&'static str, Value)>;
}

/// A group of parameters that several configurations share, as [`Options`].
pub(crate) trait Part {
    /// As [`Options::set`].
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError>;

    /// As [`Options::options`].
    fn options(&self) -> Vec<(&'static str, Value)>;
}
