//! [`Summary`]: the numbers of one run, by dotted name; [`Estimate`]: one such number over
//! repetitions.

mod dips;
mod estimate;
mod point_result;
mod statistics;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;
use crate::recording::{Run, Series};

pub use estimate::Estimate;
pub(crate) use point_result::PointResult;
pub(crate) use statistics::{jain, percentile};

use dips::dips;
use statistics::distribution;

/// Numbers by name: `goodput.total`, `goodput.upload.total`, `ping.p50`,
/// `backlog.router>server.mean`. No part of a name holds a dot. Undefined values, such as the mean
/// of no samples, are absent.
///
/// Under a quantity's own name the values of all flows or ports are taken together, under a flow's
/// name those of all its connections. Values that add up ([`Quantity::adds_up`]) are first summed
/// for each moment: `goodput.p50` is the median of the sum. `total` is the mean of these sums for
/// goodput, and their sum for what is counted; `fairness` is Jain's index of the connections'
/// goodputs. `dips` counts how often round trips fell below half of their median, `dip_gap` is the
/// mean time between two such dips in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Summary(pub BTreeMap<String, f64>);

impl Summary {
    /// The numbers of `run`, from its measured time.
    pub fn of(run: &Run) -> Self {
        let mut numbers = BTreeMap::new();
        for quantity in Quantity::ALL {
            let all: Vec<&Series> = run.of(quantity).collect();
            if all.is_empty() {
                continue;
            }
            add(&mut numbers, quantity.name(), run, quantity, &all);
            let mut groups: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
            for series in all {
                groups.entry(series.group()).or_default().push(series);
            }
            for (group, series) in groups {
                add(
                    &mut numbers,
                    &format!("{quantity}.{group}"),
                    run,
                    quantity,
                    &series,
                );
            }
        }
        numbers.extend(
            run.counters
                .iter()
                .map(|(name, value)| (format!("counters.{name}"), *value)),
        );
        numbers.retain(|_, value| value.is_finite());
        Self(numbers)
    }

    /// The number of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// Adds the numbers of `series`, all of one `quantity`, under `name`.
fn add(
    numbers: &mut BTreeMap<String, f64>,
    name: &str,
    run: &Run,
    quantity: Quantity,
    series: &[&Series],
) {
    let values = if quantity.adds_up() {
        sums(run, series)
    } else {
        series
            .iter()
            .flat_map(|series| run.measured(series))
            .map(|(_, value)| value)
            .collect()
    };
    let mut add = |statistic: &str, value: Option<f64>| {
        if let Some(value) = value {
            numbers.insert(format!("{name}.{statistic}"), value);
        }
    };
    let total: f64 = values.iter().sum();
    if quantity.counts() {
        add("total", Some(total));
    }
    if quantity == Quantity::Goodput {
        let each = series
            .iter()
            .map(|series| mean(run.measured(series).map(|(_, value)| value)));
        add("total", Some(total / (values.len().max(1) as f64)));
        add("fairness", jain(&each.collect::<Vec<_>>()));
    }
    if quantity.dips() {
        let points = series.iter().flat_map(|series| run.measured(series));
        let (dips, gap) = dips(points);
        add("dips", Some(dips as f64));
        add("dip_gap", gap);
    }
    for (statistic, value) in distribution(values) {
        add(statistic, Some(value));
    }
}

/// The sum of all series at each moment, in order of time.
fn sums(run: &Run, series: &[&Series]) -> Vec<f64> {
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for (at, value) in series.iter().flat_map(|series| run.measured(series)) {
        // Times are not negative, so their bits are in their order.
        *sums.entry(at.to_bits()).or_default() += value;
    }
    sums.into_values().collect()
}

/// Zero for no values: a connection that never sent has no goodput.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 {
        0.0
    } else {
        sum / f64::from(count)
    }
}
