//! [`RowResult`]: a row of the papers with the numbers of its cells and a verdict for each shape; what `result.json` holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::output::figure::Figure;
use crate::output::flent::FlentTest;
use crate::run::{Cell, Path};
use crate::summary::Estimate;

/// A row, run and judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowResult {
    /// Id of the scenario, e.g. `001-F4`.
    pub scenario: String,
    /// Its title.
    pub title: String,
    /// The paper's number, e.g. `001`.
    pub paper: String,
    /// What the paper found, in our words.
    pub claim: String,
    /// The world it was run in.
    pub path: Path,
    /// Names of the axes.
    pub axes: Vec<String>,
    /// Names of the numbers that the row's table shows, in order.
    pub table: Vec<String>,
    /// Where we differ from the paper, and why.
    pub note: Option<String>,
    /// Flent's test that the flows are, if they are one.
    pub flent: Option<FlentTest>,
    /// What is drawn; nothing: what suits any row.
    pub figures: Vec<Figure>,
    /// All cells, the last axis running fastest.
    pub cells: Vec<CellResult>,
    /// All shapes, in the file's order.
    pub shapes: Vec<Verdict>,
    /// Analyses of variance, in the file's order.
    pub anova: Vec<Anova>,
}

/// One cell over its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Which.
    pub cell: Cell,
    /// The seed of each repetition: its files are named by it.
    pub seeds: Vec<u64>,
    /// Every number of the summaries.
    pub numbers: BTreeMap<String, Estimate>,
}

/// Whether a shape of the paper shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The shape in words.
    pub says: String,
    /// The same as an expression.
    pub check: String,
    /// File of the scenario that states it.
    pub file: String,
    /// Line of it.
    pub line: usize,
    /// Whether it does.
    pub judged: Judged,
    /// The numbers that the expression names, in order of appearance.
    pub seen: Vec<Seen>,
}

/// Whether a shape shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// It does.
    Holds,
    /// It does not.
    DoesNotHold,
    /// The expression cannot be computed, for this reason: a name that no number has, for instance.
    Error(String),
}

/// A number that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// As the expression names it.
    pub name: String,
    /// What it is.
    pub value: Estimate,
}

/// A one-way analysis of variance: whether the means of groups differ more than chance explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Anova {
    /// The number compared, e.g. `ping.mean`, or the quantity whose single values are: `ping`.
    pub metric: String,
    /// The axis whose values are the groups.
    pub over: String,
    /// The other axes' values, for which alone this is.
    pub at: Vec<(String, String)>,
    /// The groups with their means.
    pub groups: Vec<(String, f64)>,
    /// Variance between groups over variance within them.
    pub f: f64,
    /// What F exceeds by chance with probability α.
    pub f_crit: f64,
    /// Probability of such an F or a larger one by chance.
    pub p: f64,
    /// The α of `f_crit`.
    pub alpha: f64,
}
