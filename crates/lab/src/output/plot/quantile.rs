//! Quantiles of samples, as boxes show them.

use crate::scenario::document::BoxSpan;
use crate::summary::percentile;

/// Five numbers of a sample, in rising order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantiles {
    /// End of the lower whisker.
    pub whisker_low: f64,
    /// Lower edge of the box.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// Upper edge of the box.
    pub high: f64,
    /// End of the upper whisker.
    pub whisker_high: f64,
}

impl Quantiles {
    /// The quantiles of the finite `samples`; `None` without any.
    pub(crate) fn of(samples: &[f64], span: BoxSpan) -> Option<Self> {
        let sorted = sorted(samples);
        let at = |level| percentile(&sorted, level);
        let [whisker_low, low, high, whisker_high] = span.levels();
        Some(Self {
            whisker_low: at(whisker_low)?,
            low: at(low)?,
            median: at(0.5)?,
            high: at(high)?,
            whisker_high: at(whisker_high)?,
        })
    }
}

/// The finite ones of `samples`, in rising order.
pub(super) fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}
