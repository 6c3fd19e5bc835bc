//! Sweeps: many points planned on one machine and run on any, as lines of JSON that everything can
//! carry.
//!
//! A manifest holds one point on each line, complete in itself: any `lab` of the same version can
//! run any line. A result is a line too, equal byte for byte wherever it was run. Results have names
//! ([`ResultName`]), so a line that is run twice does no harm, and an interrupted sweep continues
//! where it stopped.

pub(crate) mod dask;
pub(crate) mod local;
pub mod manifest;
pub mod results;
pub(crate) mod shard;
pub mod table;

pub(crate) use manifest::Entry;
pub use manifest::Manifest;
pub(crate) use results::{Outcome, ResultDir};
pub use shard::Shard;

use crate::cell::Cell;

/// Identifies a result. Cells with equal settings, of one scenario or of several, have points of one
/// id, and each has its own line in a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResultName {
    /// Id of the point.
    pub point: String,
    /// Id of the scenario.
    pub scenario: String,
    /// The cell.
    pub cell: Cell,
}

/// An invalid line of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct LineError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The error and its remedy.
    pub message: String,
}
