//! The words of a `tc` command, the errors that point at them, and tables of parameters that read
//! and show themselves in words.

mod cursor;
mod error;
pub(crate) mod parameter;
mod pointer;

pub use cursor::{Word, Words};
pub use error::{Expected, ParseError, Problem, Usage};
pub use parameter::Options;

pub(crate) use cursor::joined;
