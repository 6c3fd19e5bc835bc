//! Judges the shapes of a scenario over the numbers of its cells.

#[cfg(test)]
mod tests;
mod variance;

use std::collections::BTreeMap;

use crate::result::{Anova, CellResult, Judgment, ObservedNumber, ShapeResult};
use crate::scenario::Expected;
use crate::scenario::shape::{ANOVA, Check, FIELDS, ROOT};
use crate::summary::Estimate;

pub(crate) use variance::variance;

impl Check {
    /// Judges it over `cells` and their analyses of variance.
    pub(crate) fn judge(
        &self,
        expected: &Expected,
        cells: &[CellResult],
        anova: &[Anova],
    ) -> ShapeResult {
        let numbers = cells.iter().flat_map(|cell| {
            cell.numbers
                .iter()
                .map(move |(name, value)| (path_of(cell, name), *value))
        });
        // Of several with the same name, the first.
        let analyses = anova.iter().rev().flat_map(paths_of);
        let known: BTreeMap<Vec<String>, Estimate> = numbers.chain(analyses).collect();
        let missing = self.missing(cells, &known);
        let judged =
            match self.compute(known.iter().map(|(path, value)| (path.clone(), value.mean))) {
                _ if !missing.is_empty() => Judgment::NotRun(missing),
                Ok(true) => Judgment::Holds,
                Ok(false) => Judgment::DoesNotHold,
                Err(error) => Judgment::Error(error.to_string()),
            };
        let seen = self.paths.iter().filter_map(|path| {
            let from = usize::from(path[0] == ROOT);
            Some(ObservedNumber {
                name: path[from..].join("."),
                value: *known.get(path)?,
                paper: None,
            })
        });
        let mut seen: Vec<_> = seen.collect();
        for (expression, paper) in &expected.paper {
            beside(expression, *paper, &known, &mut seen);
        }
        ShapeResult {
            expected: expected.clone(),
            judged,
            seen,
        }
    }

    /// The cells that the expression reads and that were not run. Computed names may refer to any
    /// cell, and so may a missing analysis of variance.
    fn missing(
        &self,
        cells: &[CellResult],
        known: &BTreeMap<Vec<String>, Estimate>,
    ) -> Vec<String> {
        let is_read = |cell: &CellResult| {
            self.has_computed_names
                || self.paths.iter().any(|path| match &path[..] {
                    // A path may end before the last axis: it means all cells below.
                    [root, steps @ ..] if root == ROOT => cell
                        .cell
                        .values()
                        .zip(steps)
                        .all(|(value, step)| value == step),
                    _ => !known.contains_key(path),
                })
        };
        cells
            .iter()
            .filter(|cell| !cell.was_run() && is_read(cell))
            .map(|cell| cell.cell.to_string())
            .collect()
    }
}

/// Puts the `paper`'s number beside ours, which `expression` computes: one that was seen, or a new
/// one at the end.
fn beside(
    expression: &str,
    paper: f64,
    known: &BTreeMap<Vec<String>, Estimate>,
    seen: &mut Vec<ObservedNumber>,
) {
    let numbers = known.iter().map(|(path, value)| (path.clone(), value.mean));
    let Ok(ours) = Check::read(expression)
        .map_err(|_| ())
        .and_then(|ours| ours.number(numbers).map_err(|_| ()))
    else {
        return;
    };
    // `cell["L10M"]["TSQ"].rtt.p50` is shown as `L10M.TSQ.rtt.p50`.
    let name = expression
        .replace("\"]", "")
        .replace("[\"", ".")
        .replace("cell.", "");
    match seen.iter_mut().find(|seen| seen.name == name) {
        Some(seen) => seen.paper = Some(paper),
        None => seen.push(ObservedNumber {
            name,
            value: exact(ours),
            paper: Some(paper),
        }),
    }
}

fn exact(value: f64) -> Estimate {
    Estimate {
        mean: value,
        lo: value,
        hi: value,
        count: 1,
    }
}

fn path_of(cell: &CellResult, name: &str) -> Vec<String> {
    [ROOT]
        .into_iter()
        .chain(cell.cell.values())
        .chain(name.split('.'))
        .map(str::to_owned)
        .collect()
}

/// Where the numbers of `anova` are, by the values of the other axes.
fn paths_of(anova: &Anova) -> impl Iterator<Item = (Vec<String>, Estimate)> {
    let place: Vec<String> = [ANOVA]
        .into_iter()
        .chain(anova.at.iter().map(|(_, value)| value.as_str()))
        .map(str::to_owned)
        .collect();
    let values = FIELDS.into_iter().zip([anova.f, anova.f_crit, anova.p]);
    values.map(move |(field, value)| ([&place[..], &[field.to_owned()]].concat(), exact(value)))
}
