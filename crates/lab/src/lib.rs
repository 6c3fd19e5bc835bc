//! The lab: experiments as files, run in virtual time or on the wire, judged, drawn and written
//! down.
//!
//! Data flows forward: a scenario file becomes a plan of points, each point a [`Run`], each run a
//! [`Summary`], all runs of a row a [`RowResult`] with a verdict for each shape that its paper
//! found.
//!
//! | module | holds |
//! |---|---|
//! | [`scenario`] | [`Scenario`]: a row as a file: topology, traffic, variations, what the paper found |
//! | [`catalogue`] | which scenarios there are |
//! | [`plan`] | [`Point`](plan::Point): one cell with one seed |
//! | [`select`](mod@select) | which cells of a row are meant |
//! | [`run`] | [`Run`], [`Series`], [`Quantity`]: what was recorded of one point |
//! | [`execute`] | points run on all processors, and not again when they have been |
//! | [`summary`] | [`Summary`]: the numbers of a run; [`Estimate`]: the same over repetitions |
//! | [`verdict`] | [`Check`](verdict::Check): whether a shape shows; analysis of variance |
//! | [`sweep`] | points as lines of a manifest, for many machines |
//! | [`row`] | from summaries to a row, judged |
//! | [`result`] | [`RowResult`]: a row with the numbers of its cells and its verdicts |
//! | [`output`] | what is written: where each file lies, figures, pages |
//! | [`cli`] | the command line of `lab` |
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod cli;
pub mod execute;
pub mod output;
pub mod plan;
pub mod result;
pub mod row;
pub mod run;
pub mod scenario;
pub mod select;
pub mod summary;
pub mod sweep;
pub mod verdict;

pub use output::Tree;
pub use result::{Anova, CellResult, Judged, RowResult, Seen, Verdict};
pub use run::{Cell, Path, Quantity, Run, Series};
pub use scenario::{Scenario, ScenarioError, Shelf};
pub use summary::{Estimate, Summary};
