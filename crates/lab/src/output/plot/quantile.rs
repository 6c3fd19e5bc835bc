//! Quantiles of samples, as boxes show them.

use serde::{Deserialize, Serialize};

/// What a box covers and where its whiskers end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoxSpan {
    /// 10th to 90th percentile (as in paper 001), whiskers from the 1st to the 99th.
    #[default]
    #[serde(rename = "p10-p90")]
    TenToNinety,
    /// Quartiles, whiskers from the 5th percentile to the 95th.
    #[serde(rename = "p25-p75")]
    Quartiles,
}

impl BoxSpan {
    /// What a reader must know of the boxes.
    pub fn legend(self) -> &'static str {
        match self {
            Self::TenToNinety => {
                "box: 10th to 90th percentile, line: median, whiskers: 1st to 99th"
            }
            Self::Quartiles => "box: 25th to 75th percentile, line: median, whiskers: 5th to 95th",
        }
    }

    /// Levels of whisker, box and whisker.
    fn levels(self) -> [f64; 4] {
        match self {
            Self::TenToNinety => [0.01, 0.10, 0.90, 0.99],
            Self::Quartiles => [0.05, 0.25, 0.75, 0.95],
        }
    }
}

/// Five numbers of a sample, in rising order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// Where the lower whisker ends.
    pub whisker_low: f64,
    /// Lower edge of the box.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// Upper edge of the box.
    pub high: f64,
    /// Where the upper whisker ends.
    pub whisker_high: f64,
}

impl Quantiles {
    /// Those of the finite ones among `samples`; `None` without any.
    pub fn of(samples: &[f64], span: BoxSpan) -> Option<Self> {
        let sorted = sorted(samples);
        let at = |level| quantile(&sorted, level);
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

/// The quantile at `level` (0 to 1) of rising values, linear between neighbours (type 7 of Hyndman
/// and Fan, as numpy has it).
pub(super) fn quantile(sorted: &[f64], level: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = level.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let part = place - below as f64;
    // Weights rather than a difference, which would overflow between the largest numbers.
    Some(sorted[below] * (1.0 - part) + sorted[above] * part)
}
