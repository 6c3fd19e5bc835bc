//! Experiments as files: run in virtual time or over this machine's network, judged against what
//! their paper found, drawn and reported. The binary `lab` is the usual way in; `docs/lab.md`
//! explains scenario files.
//!
//! Data flows forward. A [`Scenario`] becomes a list of [`Point`]s, each a cell with a seed. Running
//! a point gives a [`Run`]; its summary and those of the other repetitions become the estimates and
//! verdicts of a row; reports show rows.
//!
//! A program of one's own gets the samples, the numbers of each run ([`Summary`]), and with [`judge`]
//! the row: estimates with their confidence intervals, and verdicts. Figures and reports are the
//! command line's.
//!
//! ```
//! use tautline_lab::{Judgment, PlanOptions, Quantity, Scenario, ScenarioDir, judge, plan, run};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! std::fs::write(
//!     directory.join("mine.toml"),
//!     r#"
//! id = "mine"
//! title = "a ping beside an upload over 5 Mbit/s, above pfifo and cake"
//! run = { duration = "3s", warm_up = "1s", repetitions = 1 }
//! host = [{ name = "client" }, { name = "server" }]
//! router = [{ name = "router" }]
//!
//! [[link]]
//! between = ["client", "router"]
//! rate = "100mbit"
//!
//! [[link]]
//! between = ["router", "server"]
//! rate = "5mbit"
//! delay = "10ms"
//!
//! [[flow]]
//! name = "upload"
//! kind = "tcp"
//! from = "client"
//! to = "server"
//!
//! [[flow]]
//! name = "ping"
//! kind = "ping"
//! from = "client"
//! to = "server"
//! every = "50ms"
//!
//! [[axis]]
//! name = "aqm"
//! value = [
//!     { name = "pfifo", set = { "link.router-server.qdisc" = "pfifo limit 200" } },
//!     { name = "cake", set = { "link.router-server.qdisc" = "cake bandwidth 4800kbit" } },
//! ]
//!
//! [[shape]]
//! says = "cake cuts the ping to a third"
//! check = 'cell["pfifo"].ping.mean > 3 * cell["cake"].ping.mean'
//! "#,
//! )?;
//! let scenario = Scenario::load(&ScenarioDir::Directory(directory.into()), "mine.toml")?;
//! let mut runs = Vec::new();
//! for point in plan(&scenario, PlanOptions::default())? {
//!     let run = run(&point)?;
//!     let ping = run.get(Quantity::Ping, "ping").ok_or("no ping was answered")?;
//!     for (at, ms) in run.measured(ping).take(3) {
//!         println!("{} at {at:.2} s: {ms:.1} ms", point.cell);
//!     }
//!     runs.push(run);
//! }
//! let row = judge(&scenario, &runs);
//! for cell in &row.cells {
//!     let ping = cell.numbers["ping.mean"];
//!     println!("{}: {:.1} ms, from {:.1} to {:.1}", cell.cell, ping.mean, ping.lo, ping.hi);
//! }
//! assert_eq!(row.shapes[0].judged, Judgment::Holds);
//! # Ok(())
//! # }
//! ```
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
pub use output::flent::FlentError;
pub use plan::{MAX_SEED, PlanError, PlanOptions, Point, plan};
pub use quantity::Quantity;
pub use recording::{Run, Series};
pub use result::{Anova, CellResult, Judgment, ObservedNumber, RowResult, Score, ShapeResult};
pub use row::judge;
pub use run::capture::{CaptureError, record};
pub use run::{RunError, run};
pub use scenario::document::{BoxSpan, Document, Figure, FlentTest, Kind as FigureKind};
pub use scenario::{Expected, Form, Scenario, ScenarioDir, ScenarioError, Variation};
pub use summary::{Estimate, Summary};
pub use sweep::{Manifest, Shard, manifest, results, table};
