//! [`Gain`]: a factor in 256ths, the unit of Linux's BBR (`BBR_UNIT`).

use core::fmt;

use tautline_base::Rate;

/// A factor of `n / 256`. Exact, so that rates and windows are reproducible bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gain(u32);

impl Gain {
    /// One.
    pub const UNIT: Self = Self(256);

    /// `numerator / 256`.
    pub const fn of_256(numerator: u32) -> Self {
        Self(numerator)
    }

    /// `percent` hundredths, rounded down to a 256th; saturating.
    pub const fn percent(percent: u32) -> Self {
        let numerator = percent as u64 * 256 / 100;
        Self(if numerator > u32::MAX as u64 {
            u32::MAX
        } else {
            numerator as u32
        })
    }

    /// The numerator.
    pub const fn as_256ths(self) -> u32 {
        self.0
    }

    /// The factor, for statistics.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 256.0
    }

    /// `rate` times the gain, rounded down, saturating.
    pub fn of(self, rate: Rate) -> Rate {
        let product = u128::from(rate.as_bytes_per_sec()) * u128::from(self.0) / 256;
        Rate::bytes_per_sec(u64::try_from(product).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_truncated_to_256ths_as_in_the_patches() {
        for (percent, numerator) in [
            (125, 320),
            (75, 192),
            (150, 384),
            (90, 230),
            (320, 819),
            (40, 102),
            (100, 256),
        ] {
            assert_eq!(Gain::percent(percent).as_256ths(), numerator, "{percent} %");
        }
        assert_eq!(Gain::percent(u32::MAX).as_256ths(), u32::MAX);
    }

    #[test]
    fn a_rate_times_a_gain_is_rounded_down_and_saturates() {
        assert_eq!(
            Gain::of_256(739).of(Rate::bytes_per_sec(362_000)),
            Rate::bytes_per_sec(1_044_992)
        );
        assert_eq!(Gain::percent(200).of(Rate::MAX), Rate::MAX);
    }
}
