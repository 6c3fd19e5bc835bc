//! [`RowResult`]: the content of `result.json`, a row of the papers with the numbers of its cells and
//! a judgment of each shape.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cell::{Backend, Cell};
use crate::scenario::Expected;
use crate::scenario::document::{Figure, FlentTest};
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
    /// The paper's finding, in our words.
    pub claim: String,
    /// Where it was run.
    pub path: Backend,
    /// Options of `lab run` that changed what was run: `--quick`, `--repetitions 5`, `--cc bbr`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Names of the axes.
    pub axes: Vec<String>,
    /// Names of the numbers that the row's table shows, in order.
    pub table: Vec<String>,
    /// Differences from the paper, and the reasons.
    pub note: Option<String>,
    /// Flent's test with the same flows, if there is one.
    pub flent: Option<FlentTest>,
    /// Figures to draw; if empty, defaults that suit any row.
    pub figures: Vec<Figure>,
    /// All cells, the last axis running fastest.
    pub cells: Vec<CellResult>,
    /// All shapes, in the file's order.
    pub shapes: Vec<ShapeResult>,
    /// Analyses of variance, in the file's order.
    pub anova: Vec<Anova>,
}

/// One cell over its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Its values of the axes.
    pub cell: Cell,
    /// The seed of each repetition, which names its files. Empty if the cell was not run.
    pub seeds: Vec<u64>,
    /// Every number of the summaries.
    pub numbers: BTreeMap<String, Estimate>,
}

impl CellResult {
    /// Whether it has results.
    pub fn was_run(&self) -> bool {
        !self.seeds.is_empty()
    }
}

impl RowResult {
    /// The names of the cells that were not run.
    pub fn not_run(&self) -> Vec<String> {
        self.cells
            .iter()
            .filter(|cell| !cell.was_run())
            .map(|cell| cell.cell.to_string())
            .collect()
    }

    /// Number of its shapes that hold, and number that could be checked.
    pub fn score(&self) -> Score {
        let count = |is: fn(&Judgment) -> bool| {
            self.shapes.iter().filter(|shape| is(&shape.judged)).count()
        };
        let holds = count(|judged| *judged == Judgment::Holds);
        Score {
            holds,
            not_judged: count(|judged| matches!(judged, Judgment::NotRun(_))),
            all: self.shapes.len(),
        }
    }
}

/// Counts of a row's shapes by judgment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Shapes that hold.
    pub holds: usize,
    /// Shapes that could not be checked because their cells were not run.
    pub not_judged: usize,
    /// All shapes.
    pub all: usize,
}

/// "3 of 4 hold", "1 of 4 hold, 2 not judged".
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} hold", self.holds, self.all)?;
        if self.not_judged > 0 {
            write!(f, ", {} not judged", self.not_judged)
        } else {
            Ok(())
        }
    }
}

impl std::iter::Sum for Score {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        scores.fold(Self::default(), |sum, one| Self {
            holds: sum.holds + one.holds,
            not_judged: sum.not_judged + one.not_judged,
            all: sum.all + one.all,
        })
    }
}

/// A shape of the paper and its judgment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeResult {
    /// The shape.
    #[serde(flatten)]
    pub expected: Expected,
    /// The judgment.
    pub judged: Judgment,
    /// The numbers that the expression names, in order of appearance.
    pub seen: Vec<ObservedNumber>,
}

/// Whether a shape shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgment {
    /// The results show it.
    Holds,
    /// The results contradict it.
    DoesNotHold,
    /// The expression reads these cells, which were not run.
    NotRun(Vec<String>),
    /// The expression cannot be computed, for this reason: a name that no number has, for instance.
    Error(String),
}

/// A number that the expression reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedNumber {
    /// As the expression names it.
    pub name: String,
    /// Ours.
    pub value: Estimate,
    /// The paper's number.
    pub paper: Option<f64>,
}

impl ObservedNumber {
    /// "paper 10, 0.27×"; empty without a paper's number.
    pub(crate) fn beside_paper(&self) -> String {
        let beside = |paper: f64| {
            let ratio = self.value.mean / paper;
            format!("paper {paper}, {ratio:.2}×")
        };
        self.paper.map(beside).unwrap_or_default()
    }
}

/// A one-way analysis of variance: whether the means of groups differ more than chance explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Anova {
    /// The number compared, e.g. `ping.mean`, or the quantity whose single values are: `ping`.
    pub metric: String,
    /// The axis whose values are the groups.
    pub over: String,
    /// Values of the other axes: the analysis covers only these cells.
    pub at: Vec<(String, String)>,
    /// The groups with their means.
    pub groups: Vec<(String, f64)>,
    /// Variance between groups over variance within them.
    pub f: f64,
    /// Value that F exceeds by chance with probability α.
    pub f_crit: f64,
    /// Probability of such an F or a larger one by chance.
    pub p: f64,
    /// The α of `f_crit`.
    pub alpha: f64,
}
