//! [`PointResult`]: what a row keeps of a run: its numbers, and the single values that its analyses of
//! variance take.

use std::collections::BTreeMap;

use super::Summary;
use crate::quantity::Quantity;
use crate::recording::Run;
use crate::scenario::Document;

/// The part of a run that a row keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PointResult {
    /// The numbers.
    pub summary: Summary,
    /// Single values in the measured time, by `quantity` or `quantity.of`: those whose variance the
    /// document wants analyzed.
    pub values: BTreeMap<String, Vec<f64>>,
}

impl PointResult {
    /// The summary of `run`, a run of `document`.
    pub(crate) fn of(run: &Run, document: &Document) -> Self {
        let values = document
            .anova
            .iter()
            .filter_map(|anova| Some((anova.metric.clone(), values(run, &anova.metric)?)));
        Self {
            summary: Summary::of(run),
            values: values.collect(),
        }
    }

    /// The observations of `metric`: its single values, or the one number that it names.
    pub(crate) fn observed(&self, metric: &str) -> Vec<f64> {
        let number = || self.summary.get(metric).into_iter().collect();
        self.values.get(metric).cloned().unwrap_or_else(number)
    }
}

/// The values that `metric` names; `None` if it names a number.
fn values(run: &Run, metric: &str) -> Option<Vec<f64>> {
    let (name, group) = metric
        .split_once('.')
        .map_or((metric, None), |(name, group)| (name, Some(group)));
    if group
        .is_some_and(|group| group.contains('.') || crate::quantity::STATISTICS.contains(&group))
    {
        return None;
    }
    let quantity = Quantity::ALL
        .into_iter()
        .find(|quantity| quantity.name() == name)?;
    let series = run
        .of(quantity)
        .filter(|series| group.is_none_or(|group| series.group() == group));
    Some(
        series
            .flat_map(|series| run.measured(series))
            .map(|(_, value)| value)
            .collect(),
    )
}
