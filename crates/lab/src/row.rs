//! [`judge`]: from the runs of a scenario's points to its row: estimates over repetitions, verdicts,
//! analyses of variance.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::cell::Backend;
use crate::plan::Point;
use crate::recording::Run;
use crate::result::{Anova, CellResult, Judgment, RowResult, ShapeResult};
use crate::scenario::shape::Check;
use crate::scenario::{Expected, Scenario};
use crate::summary::{Estimate, PointResult};
use crate::verdict::variance;

/// The row of `scenario` over `runs` of its points, in any order and each taken up as it comes:
/// estimates over the repetitions, and a judgment of each shape. A shape that reads a cell without a
/// run is [not judged](Judgment::NotRun). Runs of another scenario do not count, and neither do those
/// of another backend than the first's.
pub fn judge(scenario: &Scenario, runs: impl IntoIterator<Item: Borrow<Run>>) -> RowResult {
    let mut path = None;
    let mut ran = Vec::new();
    for run in runs {
        let run = run.borrow();
        let variation = scenario.cells.iter().enumerate();
        let of_cell = variation.filter(|(_, variation)| {
            variation.cell == run.cell && variation.document.id == run.scenario
        });
        for (number, variation) in of_cell {
            if *path.get_or_insert(run.path) == run.path {
                let result = PointResult::of(run, &variation.document);
                ran.push((number, run.seed, result));
            }
        }
    }
    let ran: Vec<_> = ran
        .iter()
        .map(|(number, seed, result)| (*number, *seed, result))
        .collect();
    row(scenario, path.unwrap_or_default(), &ran)
}

/// The row of `scenario`, of which `points` were run and `ran` was kept.
pub(crate) fn judge_points(
    scenario: &Scenario,
    path: Backend,
    points: &[Point],
    ran: &[PointResult],
) -> RowResult {
    let ran: Vec<_> = points
        .iter()
        .zip(ran)
        .map(|(point, result)| (point.number, point.seed, result))
        .collect();
    row(scenario, path, &ran)
}

/// The row over `ran`: number of the cell, seed, and what was kept of the run.
fn row(scenario: &Scenario, path: Backend, ran: &[(usize, u64, &PointResult)]) -> RowResult {
    let header = scenario.header();
    let of = |number: usize| ran.iter().filter(move |(cell, ..)| *cell == number);
    let cells: Vec<CellResult> = scenario
        .cells
        .iter()
        .enumerate()
        .map(|(number, variation)| {
            let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for (name, value) in of(number).flat_map(|(.., ran)| &ran.summary.0) {
                values.entry(name).or_default().push(*value);
            }
            let estimate =
                |(name, values): (&str, Vec<f64>)| Some((name.to_owned(), Estimate::of(&values)?));
            let numbers = values.into_iter().filter_map(estimate).collect();
            CellResult {
                cell: variation.cell.clone(),
                seeds: of(number).map(|(_, seed, _)| *seed).collect(),
                numbers,
            }
        })
        .collect();
    let observed = |number: usize, metric: &str| {
        of(number)
            .flat_map(|(.., ran)| ran.observed(metric))
            .collect()
    };
    let anova: Vec<_> = header
        .anova
        .iter()
        .flat_map(|wanted| variance(wanted, &cells, observed))
        .collect();
    RowResult {
        scenario: header.id.clone(),
        title: header.title.clone(),
        paper: header.paper.clone(),
        claim: header.claim.clone(),
        note: header.note.clone(),
        path,
        options: Vec::new(),
        axes: scenario.axes.iter().map(|(axis, _)| axis.clone()).collect(),
        table: header.table.clone(),
        flent: header.flent.clone(),
        figures: header.figure.clone(),
        shapes: scenario
            .shapes
            .iter()
            .map(|expected| verdict(expected, &cells, &anova))
            .collect(),
        anova,
        cells,
    }
}

fn verdict(expected: &Expected, cells: &[CellResult], anova: &[Anova]) -> ShapeResult {
    match Check::read(&expected.check) {
        Ok(check) => check.judge(expected, cells, anova),
        Err(why) => ShapeResult {
            expected: expected.clone(),
            judged: Judgment::Error(why),
            seen: Vec::new(),
        },
    }
}
