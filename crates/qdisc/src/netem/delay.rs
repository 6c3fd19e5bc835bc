//! [`Distribution`] and [`Spread`]: random delays.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::params::Draw;

/// Distribution of random delays about their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// All delays from mean − jitter to mean + jitter are equally likely.
    #[default]
    Uniform,
    /// The normal distribution; jitter is its standard deviation.
    Normal,
    /// A Pareto distribution of shape 3, with a long tail towards long delays: mean + ⁴⁄₃ jitter (x
    /// − ³⁄₂), where x > 1.
    Pareto,
    /// Three parts Pareto, one part normal: a bell with a long tail.
    ParetoNormal,
}

impl Distribution {
    const ALL: [Self; 4] = [
        Self::Uniform,
        Self::Normal,
        Self::Pareto,
        Self::ParetoNormal,
    ];
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Normal => "normal",
            Self::Pareto => "pareto",
            Self::ParetoNormal => "paretonormal",
        })
    }
}

/// A text that names no distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDistribution;

impl fmt::Display for NoDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no distribution: choose uniform, normal, pareto or paretonormal")
    }
}

impl Error for NoDistribution {}

impl FromStr for Distribution {
    type Err = NoDistribution;

    fn from_str(text: &str) -> Result<Self, NoDistribution> {
        let named = |name: &Self| match name {
            Self::Uniform => text == "uniform",
            Self::Normal => text == "normal",
            Self::Pareto => text == "pareto",
            Self::ParetoNormal => text == "paretonormal",
        };
        Self::ALL.into_iter().find(named).ok_or(NoDistribution)
    }
}

/// Entries of a table, as in `tc`'s.
const SIZE: usize = 4096;

/// The value of one jitter in a table.
const SCALE: i64 = 8192;

/// Delays of one mean, jitter and distribution.
#[derive(Debug)]
pub(super) struct Spread {
    mean: i64,
    jitter: i64,
    /// Deviations in units of jitter / [`SCALE`], each as likely as the others, ascending. `None`
    /// for a uniform spread.
    table: Option<Box<[i16]>>,
    draw: Draw,
}

impl Spread {
    pub(super) fn new(
        mean: Duration,
        jitter: Duration,
        distribution: Distribution,
        draw: Draw,
    ) -> Self {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Self {
            mean: nanos(mean),
            jitter: nanos(jitter),
            table: table(distribution),
            draw,
        }
    }

    /// True if every delay is the mean.
    pub(super) fn is_fixed(&self) -> bool {
        self.jitter == 0
    }

    /// The delay in nanoseconds that belongs to `random`; may be negative.
    pub(super) fn at(&self, random: u32) -> i64 {
        let deviation = match &self.table {
            _ if self.jitter == 0 => 0,
            None => {
                i128::from(self.pick(random, 2 * self.jitter.unsigned_abs()))
                    - i128::from(self.jitter)
            }
            Some(table) => {
                let deviations = i128::from(self.jitter)
                    * i128::from(table[self.pick(random, SIZE as u64) as usize]);
                let half = i128::from(SCALE / 2) * deviations.signum();
                (deviations + half) / i128::from(SCALE)
            }
        };
        (i128::from(self.mean) + deviation).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// A number below `bound`.
    fn pick(&self, random: u32, bound: u64) -> u64 {
        match self.draw {
            Draw::Scaled => ((u128::from(random) * u128::from(bound)) >> 32) as u64,
            Draw::Remainder => u64::from(random) % bound,
        }
    }
}

fn table(distribution: Distribution) -> Option<Box<[i16]>> {
    let entry = |deviation: f64| {
        libm::rint(deviation * SCALE as f64).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    };
    // Cut off where the table ends, also within the mixture, as in `tc`'s.
    let longest = f64::from(i16::MAX) / SCALE as f64;
    let pareto =
        |at: usize| (4.0 / 3.0 * (libm::pow(1.0 - middle(at), -1.0 / 3.0) - 1.5)).min(longest);
    let normal = normal();
    Some(match distribution {
        Distribution::Uniform => return None,
        Distribution::Normal => normal.map(entry).collect(),
        Distribution::Pareto => (0..SIZE).map(pareto).map(entry).collect(),
        Distribution::ParetoNormal => normal
            .zip(0..)
            .map(|(normal, at)| 0.25 * normal + 0.75 * pareto(at))
            .map(entry)
            .collect(),
    })
}

/// The probability in the middle of entry `at`.
fn middle(at: usize) -> f64 {
    (at as f64 + 0.5) / SIZE as f64
}

/// Quantiles of the normal distribution in the middle of each entry.
///
/// Newton's method, from the quantile before: above the median the distribution function is
/// concave, so the steps approach from below and never overshoot. Below the median they are
/// mirrored.
fn normal() -> impl Iterator<Item = f64> {
    const STEPS: usize = 8;
    let mut quantile = 0.0;
    let upper: Vec<f64> = (SIZE / 2..SIZE)
        .map(|at| {
            for _ in 0..STEPS {
                let above = 0.5 * libm::erfc(quantile / core::f64::consts::SQRT_2);
                let density =
                    libm::exp(-0.5 * quantile * quantile) / libm::sqrt(core::f64::consts::TAU);
                quantile += (above - (1.0 - middle(at))) / density;
            }
            quantile
        })
        .collect();
    let lower: Vec<f64> = upper.iter().rev().map(|quantile| -quantile).collect();
    lower.into_iter().chain(upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(distribution: Distribution) -> (f64, f64, i16, i16) {
        let table = table(distribution).expect("a table");
        let deviations: Vec<f64> = table
            .iter()
            .map(|&entry| f64::from(entry) / SCALE as f64)
            .collect();
        let mean = deviations.iter().sum::<f64>() / SIZE as f64;
        let variance = deviations
            .iter()
            .map(|deviation| (deviation - mean) * (deviation - mean))
            .sum::<f64>()
            / SIZE as f64;
        assert!(table.is_sorted() && table.len() == SIZE);
        (
            mean,
            variance.sqrt(),
            table[SIZE / 2],
            table[SIZE * 19 / 20],
        )
    }

    /// Means, deviations, medians and 95th percentiles, of the table as it is cut off at four
    /// jitters.
    #[test]
    fn tables_have_the_moments_of_their_distributions() {
        let near = |value: f64, expected: f64| (value - expected).abs() < 0.005;
        let (mean, deviation, median, high) = moments(Distribution::Normal);
        assert!(
            near(mean, 0.0) && near(deviation, 1.0),
            "{mean} {deviation}"
        );
        assert!(median.abs() < 5 && near(f64::from(high) / 8192.0, 1.645));
        let (mean, _, median, high) = moments(Distribution::Pareto);
        // Cut off: the integral of what exceeds four, (4/3) ∫ (x − 4.5) 3 x⁻⁴ dx above 4.5, is
        // missing from the mean.
        assert!(near(mean, -4.0 / 3.0 * 0.5 / 4.5 / 4.5), "{mean}");
        assert!(near(
            f64::from(median) / 8192.0,
            4.0 / 3.0 * (2f64.cbrt() - 1.5)
        ));
        assert!(near(
            f64::from(high) / 8192.0,
            4.0 / 3.0 * (20f64.cbrt() - 1.5)
        ));
        let (_, deviation, mixed, _) = moments(Distribution::ParetoNormal);
        assert!(near(
            f64::from(mixed) / 8192.0,
            0.75 * f64::from(median) / 8192.0
        ));
        assert!(near(deviation, 0.834), "that of `tc`'s table: {deviation}");
    }

    #[test]
    fn delays_are_spread_about_their_mean() {
        let ms = Duration::from_millis;
        for draw in [Draw::Scaled, Draw::Remainder] {
            let uniform = Spread::new(ms(10), ms(2), Distribution::Uniform, draw);
            assert_eq!(uniform.at(0), 8_000_000);
            let delays = (0..1000u32).map(|step| uniform.at(step.wrapping_mul(0x9e37_79b9)));
            assert!(
                delays
                    .clone()
                    .all(|delay| (8_000_000..12_000_000).contains(&delay))
            );
            assert!(delays.max() > Some(11_950_000));
            assert_eq!(
                Spread::new(ms(10), ms(0), Distribution::Uniform, draw).at(77),
                10_000_000
            );
        }
        let normal = Spread::new(ms(10), ms(2), Distribution::Normal, Draw::Scaled);
        assert!((normal.at(1 << 31) - 10_000_000).abs() < 2000);
        assert!(
            (normal.at((1u64 << 32).div_ceil(20) as u32) - (10_000_000 - 3_289_707)).abs() < 3000
        );
        for distribution in Distribution::ALL {
            let endless = Spread::new(Duration::MAX, Duration::MAX, distribution, Draw::Scaled);
            assert!(endless.at(u32::MAX) > endless.at(0));
            assert_eq!(distribution.to_string().parse(), Ok(distribution));
        }
        assert_eq!("cauchy".parse::<Distribution>(), Err(NoDistribution));
        let choices = NoDistribution.to_string();
        let mut all = Distribution::ALL.into_iter();
        assert!(all.all(|distribution| choices.contains(&distribution.to_string())));
    }

    use std::string::ToString;
}
