//! [`Run`]: the recording of one point, that is one cell of a row with one seed. It holds no
//! wall-clock time, so equal points give equal bytes of JSON on any machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cell::{Backend, Cell};
use crate::quantity::Quantity;

/// One point, run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Id of the scenario, e.g. `001-F4`.
    pub scenario: String,
    /// Hash of everything that determines this run; one with the same hash need not be run again.
    pub point: String,
    /// Its position in the row.
    pub cell: Cell,
    /// Seeds everything random in it.
    pub seed: u64,
    /// The backend that ran it.
    pub path: Backend,
    /// Beginning of the measured time, in seconds from the start of the run.
    pub begin: f64,
    /// End of the measured time.
    pub end: f64,
    /// Samples of the whole run, warm-up included, in order of quantity, then of name.
    pub series: Vec<Series>,
    /// Counters of the whole run, by name.
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

    /// Whether a point at `at` is inside the measured time: after its beginning, for a point may stand
    /// for the interval before it.
    pub fn is_measured(&self, at: f64) -> bool {
        at > self.begin && at <= self.end
    }

    /// The points of `series` inside the measured time.
    pub fn measured<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
        (series.points.iter().copied()).filter(move |(at, _)| self.is_measured(*at))
    }
}

/// One quantity of one flow or port over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The measured quantity, which implies the unit.
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
