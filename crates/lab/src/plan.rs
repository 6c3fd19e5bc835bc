//! [`Point`]: one cell with one seed, the unit that is run; [`plan`]: all points of a scenario.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::cell::{Backend, Cell};
use crate::scenario::{Document, Scenario, Variation};

/// Seeds of one `--seed` are this far from those of the next.
const STRIDE: u64 = 10_000;
/// Largest `--seed`: with its repetitions it fits 64 bits. Beyond, the seeds of two would be equal.
pub const MAX_SEED: u64 = u64::MAX / STRIDE - 1;
/// Hexadecimal digits of a point's id.
const DIGITS: usize = 16;

/// The version that alone gives the same runs.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// "lab 0.1.0, commit 1a2b3c4 of 2026-11-23"; the commit if it was built in a repository.
pub(crate) fn provenance() -> String {
    let commit = option_env!("TAUTLINE_COMMIT");
    let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    format!("lab {VERSION}{commit}")
}

/// Options of a plan that the scenario file does not fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// All seeds come from it: repetition *r* has the seed 10 000 · `seed` + *r*. At most
    /// [`MAX_SEED`]. Default 1.
    pub seed: u64,
    /// Runs of each cell, at most 10 000; default what the file says.
    pub repetitions: Option<usize>,
    /// The backend.
    pub path: Backend,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            repetitions: None,
            path: Backend::Sim,
        }
    }
}

/// Why there is no plan: two of its points would have the same seed as those of another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The seed is too large.
    #[error("the seed {0} is too large: a number from 0 to {MAX_SEED} is wanted")]
    Seed(u64),
    /// More repetitions than a seed has.
    #[error(
        "{0} repetitions are too many: at most {STRIDE} are wanted, for the next seed has those behind them"
    )]
    Repetitions(usize),
}

/// One cell with one seed.
#[derive(Clone, Debug)]
pub struct Point {
    /// Hash of everything that determines the run: the cell's settings, the seed, the backend, the
    /// version of this crate.
    pub id: String,
    /// Id of the scenario.
    pub scenario: String,
    /// The cell.
    pub cell: Cell,
    /// Its place among the scenario's cells.
    pub number: usize,
    /// Seeds everything random in it.
    pub seed: u64,
    /// The backend.
    pub path: Backend,
    /// Settings of the cell, ready to run.
    pub document: Arc<Document>,
    /// The settings that make the id: see `Variation::resolved`.
    pub resolved: Arc<str>,
}

/// All points of `scenario`: cell by cell, for each the repetitions in order. Cells share seeds, so
/// the RNG does not differ between them.
///
/// # Errors
/// If the seed or the number of repetitions is too large.
pub fn plan(scenario: &Scenario, ask: PlanOptions) -> Result<Vec<Point>, PlanError> {
    if ask.seed > MAX_SEED {
        return Err(PlanError::Seed(ask.seed));
    }
    let own = scenario
        .header()
        .run
        .as_ref()
        .map_or(0, |run| run.repetitions);
    let count = ask.repetitions.unwrap_or(own);
    let repetitions = u64::try_from(count)
        .ok()
        .filter(|count| *count <= STRIDE)
        .ok_or(PlanError::Repetitions(count))?;
    let cells = scenario.cells.iter().enumerate();
    let points = cells.flat_map(|(number, variation)| {
        let document = Arc::new(variation.document.clone());
        (0..repetitions).map(move |repetition| {
            let seed = ask.seed * STRIDE + repetition;
            point(variation, Arc::clone(&document), number, seed, ask.path)
        })
    });
    Ok(points.collect())
}

/// The `--seed` that gives a point this seed.
pub(crate) fn asked(seed: u64) -> u64 {
    seed / STRIDE
}

fn point(
    variation: &Variation,
    document: Arc<Document>,
    number: usize,
    seed: u64,
    path: Backend,
) -> Point {
    Point {
        id: id(&variation.resolved, seed, path),
        scenario: document.id.clone(),
        cell: variation.cell.clone(),
        number,
        seed,
        path,
        document,
        resolved: variation.resolved.as_str().into(),
    }
}

/// The id of the point with these settings, run by this version of the crate.
pub(crate) fn id(resolved: &str, seed: u64, path: Backend) -> String {
    let mut hash = Sha256::new();
    for part in [VERSION, path.name(), &seed.to_string(), resolved] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let id: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    id[..DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioDir;

    fn planned(ask: PlanOptions) -> Result<Vec<Point>, PlanError> {
        let scenario = Scenario::load(&ScenarioDir::Shipped, "001-f4.toml")
            .expect("it comes with the program");
        plan(&scenario, ask)
    }

    #[test]
    fn points_are_cells_times_seeds_and_their_ids_tell_them_apart() {
        let two = PlanOptions {
            repetitions: Some(2),
            ..PlanOptions::default()
        };
        let points = planned(two).expect("a plan");
        let seeds: Vec<_> = points
            .iter()
            .map(|point| (point.number, point.seed))
            .collect();
        assert_eq!(
            &seeds[..4],
            [(0, 10_000), (0, 10_001), (1, 10_000), (1, 10_001)]
        );
        let ids = |ask| {
            let points = planned(ask).expect("a plan").into_iter();
            points.map(|point| point.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(two), ids(two));
        let others = [
            PlanOptions {
                seed: 2,
                ..PlanOptions::default()
            },
            PlanOptions {
                path: Backend::Veth,
                ..PlanOptions::default()
            },
        ];
        let mut all: Vec<_> = [two].into_iter().chain(others).flat_map(ids).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    /// 10 000 · 2⁶⁰ is a multiple of 2⁶⁴.
    #[test]
    fn seeds_and_repetitions_that_would_repeat_others_are_refused() {
        let last = PlanOptions {
            seed: MAX_SEED,
            repetitions: Some(10_000),
            ..PlanOptions::default()
        };
        let seeds = planned(last).expect("a plan");
        assert!(seeds.iter().all(|point| asked(point.seed) == MAX_SEED));
        for seed in [MAX_SEED + 1, (1 << 60) + 1, u64::MAX] {
            let refused = planned(PlanOptions { seed, ..last });
            assert_eq!(refused.map(|_| ()), Err(PlanError::Seed(seed)));
        }
        let refused = planned(PlanOptions {
            repetitions: Some(10_001),
            ..last
        });
        assert_eq!(refused.map(|_| ()), Err(PlanError::Repetitions(10_001)));
    }
}
