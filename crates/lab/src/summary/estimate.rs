//! [`Estimate`]: a number over repetitions.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A number over repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean of the repetitions that have it.
    pub mean: f64,
    /// Lower end of the 95 % confidence interval of the mean (Student's t); the mean itself with
    /// one repetition.
    pub lo: f64,
    /// Upper end of it.
    pub hi: f64,
    /// Number of repetitions with a value.
    pub count: usize,
}

impl Estimate {
    /// The estimate from one value per repetition. `None` for no value.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values
            .iter()
            .map(|value| (value - mean) * (value - mean))
            .sum();
        let half = match StudentsT::new(0.0, 1.0, (count - 1) as f64) {
            Ok(t) if squares > 0.0 => {
                let error = (squares / (count - 1) as f64 / count as f64).sqrt();
                t.inverse_cdf(0.975) * error
            }
            _ => 0.0,
        };
        Some(Self {
            mean,
            lo: mean - half,
            hi: mean + half,
            count,
        })
    }
}
