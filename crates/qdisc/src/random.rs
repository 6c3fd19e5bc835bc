//! [`Random`]: the random number generator of qdiscs: its sequence is the same on every machine,
//! seeded per instance.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tautline_base::ConfigError;

/// The secret of one qdisc: `given` as its `parameter`, else an unpredictable number.
///
/// # Errors
/// If none is given and there is no `std` to draw one.
pub(crate) fn secret(parameter: &'static str, given: Option<u64>) -> Result<u64, ConfigError> {
    let allowed = "a random number (the feature `std` draws one)";
    given
        .or_else(unpredictable)
        .ok_or_else(|| ConfigError::new(parameter, "absent", allowed))
}

#[cfg(feature = "std")]
fn unpredictable() -> Option<u64> {
    Some(tautline_base::HashKey::random().hash(0))
}

#[cfg(not(feature = "std"))]
fn unpredictable() -> Option<u64> {
    None
}

/// Refuses `new` as the `parameter` of a qdisc that runs with `secret`; `None` keeps that.
///
/// # Errors
/// If they differ.
pub(crate) fn check_secret(
    parameter: &'static str,
    new: Option<u64>,
    secret: u64,
) -> Result<(), ConfigError> {
    let new = new.unwrap_or(secret);
    ConfigError::check(new == secret, parameter, new, "what it was at creation")
}

/// A seeded generator of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    /// The sequence of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A number of 32 random bits.
    #[inline]
    pub(crate) fn bits32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A number of 64 random bits.
    #[inline]
    pub(crate) fn bits64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// True with `probability`, which is clamped to [0, 1].
    #[inline]
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number from [0, 1), in steps of 2⁻⁵³.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `bound`, or 0 if that is 0; the bias, at most bound / 2⁶⁴, is not corrected.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_fixed_by_the_seed_and_evenly_spread() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [(); 4].map(|()| random.bits64())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut random = Random::new(3);
        let mut hits = [0; 5];
        let mut heads = 0;
        for _ in 0..10_000 {
            hits[random.below(5) as usize] += 1;
            heads += usize::from(random.chance(0.25));
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert!(
            hits.iter().all(|hit| (1800..2200).contains(hit)),
            "{hits:?}"
        );
        assert!((2300..2700).contains(&heads), "{heads}");
        assert_eq!(random.below(0), 0);
        assert!(random.chance(1.0) && !random.chance(0.0));
    }
}
