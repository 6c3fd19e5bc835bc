//! [`Probability`] of a random event.

use std::fmt;
use std::str::FromStr;

use rand_core::Rng;

use crate::config_error::ConfigError;

/// A probability as a threshold over 2³², so that the same seed gives the same decisions on every
/// machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability {
    threshold: u64,
}

impl Probability {
    /// Probability 0.
    pub const NEVER: Self = Self { threshold: 0 };
    /// Probability 1.
    pub const ALWAYS: Self = Self { threshold: 1 << 32 };

    /// `percent` / 100, rounded down to a multiple of 2⁻³².
    ///
    /// # Errors
    /// If `percent` is not from 0 to 100.
    pub fn percent(percent: f64) -> Result<Self, ConfigError> {
        ConfigError::check(
            (0.0..=100.0).contains(&percent),
            "probability",
            percent,
            "from 0 to 100 percent",
        )?;
        Ok(Self {
            threshold: (percent / 100.0 * Self::ALWAYS.threshold as f64) as u64,
        })
    }

    /// Draws one decision. A certain decision draws nothing from `rng`.
    pub fn draw(self, rng: &mut impl Rng) -> bool {
        match self {
            Self::NEVER => false,
            Self::ALWAYS => true,
            Self { threshold } => u64::from(rng.next_u32()) < threshold,
        }
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.4}%",
            self.threshold as f64 / Self::ALWAYS.threshold as f64 * 100.0
        )
    }
}

impl FromStr for Probability {
    type Err = ConfigError;

    /// Parses a percentage, with or without the sign: `1`, `0.5%`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let percent = text.strip_suffix('%').unwrap_or(text).parse();
        let allowed = "a percentage such as 1 or 0.5%";
        Self::percent(percent.map_err(|_| {
            tautline_base::ConfigError::new("probability", format!("{text:?}"), allowed)
        })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg32;

    #[test]
    fn happens_as_often_as_it_says() {
        let mut rng = Pcg32::new(1, 1);
        let one_percent: Probability = "1%".parse().expect("valid");
        let hits = (0..100_000).filter(|_| one_percent.draw(&mut rng)).count();
        // Mean 1000, standard deviation 31.5.
        assert!((900..1100).contains(&hits), "{hits}");
        assert!(
            (0..100)
                .all(|_| Probability::ALWAYS.draw(&mut rng) && !Probability::NEVER.draw(&mut rng))
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "-1", "100.1", "NaN", "inf", "one"] {
            assert!(text.parse::<Probability>().is_err(), "{text:?}");
        }
        assert_eq!("100".parse(), Ok(Probability::ALWAYS));
        assert_eq!("0%".parse(), Ok(Probability::NEVER));
    }
}
