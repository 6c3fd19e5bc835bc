//! [`Point`]: one cell with one seed, the unit that is run; [`plan`]: all points of a scenario.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::cell::{Backend, Cell};
use crate::scenario::{Document, Scenario, Variation};

/// Seeds of one `--seed` are this far from those of the next.
const STRIDE: u64 = 10_000;
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
    /// All seeds come from it.
    pub seed: u64,
    /// Runs of each cell; default what the file says.
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
pub fn plan(scenario: &Scenario, ask: PlanOptions) -> Vec<Point> {
    let own = scenario
        .header()
        .run
        .as_ref()
        .map_or(0, |run| run.repetitions);
    let repetitions = ask.repetitions.unwrap_or(own) as u64;
    let cells = scenario.cells.iter().enumerate();
    let points = cells.flat_map(|(number, variation)| {
        let document = Arc::new(variation.document.clone());
        (0..repetitions).map(move |repetition| {
            let seed = ask.seed.wrapping_mul(STRIDE).wrapping_add(repetition);
            point(variation, Arc::clone(&document), number, seed, ask.path)
        })
    });
    points.collect()
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

    #[test]
    fn points_are_cells_times_seeds_and_their_ids_tell_them_apart() {
        let scenario = Scenario::load(&ScenarioDir::Shipped, "001-f4.toml")
            .expect("it comes with the program");
        let points = plan(
            &scenario,
            PlanOptions {
                repetitions: Some(2),
                ..PlanOptions::default()
            },
        );
        let seeds: Vec<_> = points
            .iter()
            .map(|point| (point.number, point.seed))
            .collect();
        assert_eq!(
            &seeds[..4],
            [(0, 10_000), (0, 10_001), (1, 10_000), (1, 10_001)]
        );
        assert_eq!(seeds.len(), 2 * scenario.cells.len());
        let mut ids: Vec<_> = points.iter().map(|point| point.id.clone()).collect();
        assert_eq!(
            ids,
            plan(
                &scenario,
                PlanOptions {
                    repetitions: Some(2),
                    ..PlanOptions::default()
                }
            )
            .into_iter()
            .map(|p| p.id)
            .collect::<Vec<_>>()
        );
        ids.extend(
            plan(
                &scenario,
                PlanOptions {
                    seed: 2,
                    ..PlanOptions::default()
                },
            )
            .into_iter()
            .map(|point| point.id),
        );
        ids.extend(
            plan(
                &scenario,
                PlanOptions {
                    path: Backend::Veth,
                    ..PlanOptions::default()
                },
            )
            .into_iter()
            .map(|point| point.id),
        );
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
