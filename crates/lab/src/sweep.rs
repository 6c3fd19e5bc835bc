//! Sweeps: many points planned on one machine and run on any, as lines of JSON that everything can
//! carry.
//!
//! A manifest holds one point on each line, complete in itself: any `lab` of the same version can
//! run any line. A result is a line too, equal byte for byte wherever it was run. Points go by
//! their ids, so a line that was run twice does no harm, and what was interrupted goes on where it
//! stopped.
//!
//! | module | holds |
//! |---|---|
//! | [`manifest`] | points as lines: [`Manifest`] |
//! | [`shard`] | [`Shard`]: which of several machines runs which lines |
//! | [`results`] | [`Outcome`]: the numbers of a point as a line; [`Book`]: where they are written |
//! | [`local`] | points run on this machine's processors |
//! | [`dask`] | points run on a cluster |
//! | [`table`] | results as CSV |

pub mod dask;
pub mod local;
pub mod manifest;
pub mod results;
pub mod shard;
pub mod table;

pub use manifest::{Entry, Manifest};
pub use results::{Book, Outcome};
pub use shard::Shard;

/// What is wrong with a line of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct LineError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what helps.
    pub message: String,
}
