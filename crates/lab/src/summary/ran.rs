//! [`Ran`]: what a row keeps of a run: its numbers, and the single values that its analyses of
//! variance take.

use std::collections::BTreeMap;

use super::Summary;
use crate::run::{Quantity, Run};
use crate::scenario::Document;

/// What a row keeps of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ran {
    /// The numbers.
    pub summary: Summary,
    /// Single values in the measured time, by `quantity` or `quantity.of`: those whose variance the
    /// document wants analysed.
    pub values: BTreeMap<String, Vec<f64>>,
}

impl Ran {
    /// Of `run`, which is one of `document`.
    pub fn of(run: &Run, document: &Document) -> Self {
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
    pub fn observed(&self, metric: &str) -> Vec<f64> {
        let number = || self.summary.get(metric).into_iter().collect();
        self.values.get(metric).cloned().unwrap_or_else(number)
    }
}

/// The values that `metric` names; `None` if it names a number.
fn values(run: &Run, metric: &str) -> Option<Vec<f64>> {
    let (name, group) = metric
        .split_once('.')
        .map_or((metric, None), |(name, group)| (name, Some(group)));
    if group.is_some_and(|group| group.contains('.') || super::STATISTICS.contains(&group)) {
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
