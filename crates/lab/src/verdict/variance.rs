//! [`variance`]: one-way analysis of variance, as paper 003 tests its tables of means.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use crate::result::{Anova, CellResult};
use crate::scenario::document::Variance;

/// A value of the axis, and what was observed with it.
type Group = (String, Vec<f64>);
/// The values of the other axes.
type Place = Vec<(String, String)>;

/// For each combination of the other axes' values: whether the means of `wanted.metric` differ
/// between the values of `wanted.over`. The observations are those of each repetition,
/// `observed(cell number, metric)`. Where there are too few of them there is no analysis.
pub(crate) fn variance(
    wanted: &Variance,
    cells: &[CellResult],
    observed: impl Fn(usize, &str) -> Vec<f64>,
) -> Vec<Anova> {
    let mut analyses: Vec<(Place, Vec<Group>)> = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let (group, at): (Vec<_>, Vec<_>) = cell
            .cell
            .0
            .iter()
            .cloned()
            .partition(|(axis, _)| *axis == wanted.over);
        let Some((_, group)) = group.into_iter().next() else {
            continue;
        };
        let values = (group, observed(number, &wanted.metric));
        match analyses.iter_mut().find(|(known, _)| *known == at) {
            Some((_, groups)) => groups.push(values),
            None => analyses.push((at, vec![values])),
        }
    }
    analyses
        .into_iter()
        .filter_map(|(at, groups)| analyze(wanted, at, &groups))
        .collect()
}

fn analyze(wanted: &Variance, at: Place, groups: &[Group]) -> Option<Anova> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let all: Vec<f64> = groups
        .iter()
        .flat_map(|(_, values)| values.iter().copied())
        .collect();
    let (between_freedom, within_freedom) = (
        groups.len().checked_sub(1)?,
        all.len().checked_sub(groups.len())?,
    );
    if between_freedom == 0
        || within_freedom == 0
        || groups.iter().any(|(_, values)| values.is_empty())
    {
        return None;
    }
    let grand = mean(&all);
    let square = |value: f64| value * value;
    let between: f64 = groups
        .iter()
        .map(|(_, values)| values.len() as f64 * square(mean(values) - grand))
        .sum();
    let within = |values: &Vec<f64>| {
        values
            .iter()
            .map(|value| square(value - mean(values)))
            .sum::<f64>()
    };
    let within: f64 = groups.iter().map(|(_, values)| within(values)).sum();
    let (between_freedom, within_freedom) = (between_freedom as f64, within_freedom as f64);
    let f = (between / between_freedom) / (within / within_freedom);
    let distribution = FisherSnedecor::new(between_freedom, within_freedom).ok()?;
    if !f.is_finite() {
        return None;
    }
    Some(Anova {
        metric: wanted.metric.clone(),
        over: wanted.over.clone(),
        at,
        groups: groups
            .iter()
            .map(|(group, values)| (group.clone(), mean(values)))
            .collect(),
        f,
        f_crit: distribution.inverse_cdf(1.0 - wanted.alpha),
        p: distribution.sf(f),
        alpha: wanted.alpha,
    })
}
