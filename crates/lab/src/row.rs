//! [`judge`]: from the summaries of a scenario's points to its row: estimates over repetitions,
//! verdicts, analyses of variance.

use std::collections::BTreeMap;

use crate::cell::Backend;
use crate::plan::Point;
use crate::result::{Anova, CellResult, Judgment, RowResult, ShapeResult};
use crate::scenario::shape::Check;
use crate::scenario::{Expected, Scenario};
use crate::summary::{Estimate, PointResult};
use crate::verdict::variance;

/// The row of `scenario`, of which `points` were run and `ran` was kept.
pub(crate) fn judge(
    scenario: &Scenario,
    path: Backend,
    points: &[Point],
    ran: &[PointResult],
) -> RowResult {
    let header = scenario.header();
    let runs: Vec<_> = points.iter().zip(ran).collect();
    let of = |number: usize| runs.iter().filter(move |(point, _)| point.number == number);
    let cells: Vec<CellResult> = scenario
        .cells
        .iter()
        .enumerate()
        .map(|(number, variation)| {
            let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for (name, value) in of(number).flat_map(|(_, ran)| &ran.summary.0) {
                values.entry(name).or_default().push(*value);
            }
            let estimate =
                |(name, values): (&str, Vec<f64>)| Some((name.to_owned(), Estimate::of(&values)?));
            let numbers = values.into_iter().filter_map(estimate).collect();
            CellResult {
                cell: variation.cell.clone(),
                seeds: of(number).map(|(point, _)| point.seed).collect(),
                numbers,
            }
        })
        .collect();
    let observed = |number: usize, metric: &str| {
        of(number)
            .flat_map(|(_, ran)| ran.observed(metric))
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
