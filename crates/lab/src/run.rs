//! [`Run`]: all that was recorded of one point, one cell of a row with one seed. It holds no
//! wall-clock time, so equal points give equal bytes of JSON on any machine.
//!
//! | module | holds |
//! |---|---|
//! | `quantity` | [`Quantity`] |
//! | [`sim`] | a point run in virtual time |
//! | [`veth`] | a point run on this machine's own network |
//! | `watch` | what is seen of a run, in either world |
//! | `world`, `traffic`, `tcp` | what a document describes: its network, its applications, their TCP |

mod quantity;
pub mod sim;
mod tcp;
mod traffic;
pub mod veth;
mod watch;
mod world;

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use quantity::Quantity;
pub use sim::RunError;

use crate::plan::Point;

/// One point, run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Id of the scenario, e.g. `001-F4`.
    pub scenario: String,
    /// Hash of everything that determines this run; one with the same hash need not be run again.
    pub point: String,
    /// Where in the row it belongs.
    pub cell: Cell,
    /// Seeds everything random in it.
    pub seed: u64,
    /// The world it was run in.
    pub path: Path,
    /// Beginning of the measured time, in seconds from the start of the run.
    pub begin: f64,
    /// End of the measured time.
    pub end: f64,
    /// What was sampled, the whole run long: the warm-up too. In order of quantity, then of name.
    pub series: Vec<Series>,
    /// What was counted over the whole run, by name.
    pub counters: BTreeMap<String, f64>,
}

impl Run {
    /// The series of `quantity`, in order of name.
    pub fn of(&self, quantity: Quantity) -> impl Iterator<Item = &Series> {
        self.series
            .iter()
            .filter(move |series| series.quantity == quantity)
    }

    /// The series of `quantity` for the flow or port named `of`.
    pub fn get(&self, quantity: Quantity, of: &str) -> Option<&Series> {
        self.of(quantity).find(|series| series.of == of)
    }

    /// The points of `series` inside the measured time: after its beginning, for a point may stand
    /// for the interval before it.
    pub fn measured<'a>(&self, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
        let (begin, end) = (self.begin, self.end);
        series
            .points
            .iter()
            .copied()
            .filter(move |(at, _)| *at > begin && *at <= end)
    }
}

/// The value of each axis, in order of the axes: `[("bottleneck", "L100M"), ("tsq", "NoTSQ")]`.
/// Empty for a row without axes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cell(pub Vec<(String, String)>);

impl Cell {
    /// The values alone, in order of the axes.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, value)| value.as_str())
    }
}

/// The values joined by `_`; `all` for a row without axes. Directories are named so.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all");
        }
        for (number, value) in self.values().enumerate() {
            write!(f, "{}{value}", if number == 0 { "" } else { "_" })?;
        }
        Ok(())
    }
}

/// Runs `point` in its world.
///
/// # Errors
/// If a part refuses its parameters, the world cannot be what is asked, or an application fails.
pub fn run(point: &Point) -> Result<Run, RunError> {
    match point.path {
        Path::Sim => sim::run(point),
        Path::Veth => veth::run(point),
    }
}

/// The world a point is run in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Virtual time.
    #[default]
    Sim,
    /// Network namespaces on this machine, joined by veth pairs, in real time.
    Veth,
}

impl Path {
    /// As files write it: `sim`, `veth`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Veth => "veth",
        }
    }
}

/// One quantity of one flow or port over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What was measured; tells the unit.
    pub quantity: Quantity,
    /// Whose: a flow by name, with its number if there are several (`upload-1`, `ping`); or a port
    /// by the node it is on (`client`), a router's by the node it leads to as well
    /// (`router>server`).
    pub of: String,
    /// Time in seconds from the start of the run, and value. In order of time.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// The name without its number: `upload` for `upload-1`. Names of nodes and flows hold no `-`.
    pub fn group(&self) -> &str {
        self.of.split_once('-').map_or(&self.of, |(name, _)| name)
    }
}
