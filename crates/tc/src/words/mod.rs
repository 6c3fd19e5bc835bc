//! The words of a `tc` command, the errors that point at them, and tables of parameters that read
//! and show themselves in words.

mod cursor;
mod error;
pub(crate) mod parameter;
mod pointer;

pub use cursor::{Word, Words};
pub use error::ParseError;

pub(crate) use cursor::{joined, parse_class};
pub(crate) use error::{Expected, Problem, Usage};
pub(crate) use parameter::Options;
