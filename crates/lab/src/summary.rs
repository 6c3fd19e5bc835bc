//! [`Summary`]: the numbers of one run, by dotted name; [`Estimate`]: one such number over repetitions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Numbers by name: `goodput.total`, `goodput.upload.total`, `ping.p50`, `backlog.router>server.mean`. No part of a name holds a dot.
/// What cannot be computed, such as the mean of nothing, is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Summary(pub BTreeMap<String, f64>);

impl Summary {
    /// The number of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// A number over repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean of the repetitions that have it.
    pub mean: f64,
    /// Lower end of the 95 % confidence interval of the mean; the mean itself with one repetition.
    pub lo: f64,
    /// Upper end of it.
    pub hi: f64,
    /// How many repetitions have it.
    pub count: usize,
}
