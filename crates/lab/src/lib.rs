//! Experiments as files: run in virtual time or over this machine's network, judged against what
//! their paper found, drawn and reported. The binary `lab` is the usual way in; `docs/lab.md`
//! explains scenario files.
//!
//! Data flows forward. A [`Scenario`] becomes a list of [`Point`]s, each a cell with a seed. Running
//! a point gives a [`Run`]; its summary and those of the other repetitions become the estimates and
//! verdicts of a row; reports show rows.
#![forbid(unsafe_code)]

mod catalogue;
mod cell;
mod cli;
mod execute;
mod output;
mod output_dir;
mod plan;
mod quantity;
mod recording;
mod result;
mod row;
mod run;
mod scenario;
mod select;
mod summary;
mod sweep;
mod verdict;

pub use cell::{Backend, Cell};
pub use cli::Cli;
pub use plan::{PlanOptions, Point, plan};
pub use quantity::Quantity;
pub use recording::{Run, Series};
pub use run::capture::{CaptureError, record};
pub use run::{RunError, run};
pub use scenario::document::Document;
pub use scenario::{Form, Scenario, ScenarioDir, ScenarioError};
pub use sweep::{Manifest, Shard, manifest, results, table};
