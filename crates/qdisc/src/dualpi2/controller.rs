//! [`Controller`]: the base probability of both queues from their delay (RFC 9332 §A.1), in
//! Linux's integers.

use super::params::{Config, Overload};

/// Probability 1: fractions of 32 bits.
pub(crate) const ONE: u32 = u32::MAX;

/// Gains count per 64 ns of delay.
const SCALE: i128 = 64;

/// Updates made one by one when many are due at once; the rest is summed up.
const MAX_UPDATES: u64 = 64;

/// A proportional integral controller.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    target: u64,
    alpha: i128,
    beta: i128,
    /// The probability never exceeds this.
    ceiling: u32,
    probability: u32,
    /// The delay at the last update.
    delay: u64,
}

/// The delays that updates in a row see: at first `first`, growing by `growth` with each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    /// Nanoseconds at the first update.
    pub(crate) first: u64,
    /// Nanoseconds from one update to the next.
    pub(crate) growth: u64,
    /// Number of updates.
    pub(crate) count: u64,
}

impl Controller {
    pub(crate) fn new(config: &Config) -> Self {
        // Linux takes gains in 256ths per second.
        let gain = |per_second: f64| {
            (nearest(per_second * 256.0) * u64::from(ONE) / 256 * 64 / 1_000_000_000).into()
        };
        Self {
            target: u64::try_from(config.target.as_nanos()).unwrap_or(u64::MAX),
            alpha: gain(config.alpha),
            beta: gain(config.beta),
            ceiling: match config.overload {
                Overload::Drop => ONE,
                Overload::Overflow => ONE / u32::from(config.coupling),
            },
            probability: 0,
            delay: 0,
        }
    }

    /// The same with other parameters.
    pub(crate) fn with(&self, config: &Config) -> Self {
        let new = Self::new(config);
        Self {
            probability: self.probability.min(new.ceiling),
            delay: self.delay,
            ..new
        }
    }

    /// The base probability.
    pub(crate) fn probability(&self) -> u32 {
        self.probability
    }

    /// Makes the updates that were due.
    pub(crate) fn update(
        &mut self,
        Delays {
            mut first,
            growth,
            count,
        }: Delays,
    ) {
        let singly = count.min(MAX_UPDATES);
        for _ in 0..singly {
            self.step(first);
            first = first.saturating_add(growth);
        }
        if count > singly {
            self.leap(Delays {
                first,
                growth,
                count: count - singly,
            });
        }
    }

    fn step(&mut self, delay: u64) {
        let (now, before) = (i128::from(delay), i128::from(self.delay));
        let sum = self.alpha * (now - i128::from(self.target)) + self.beta * (now - before);
        let changed = i128::from(self.probability) + sum / SCALE;
        self.probability = changed.clamp(0, self.ceiling.into()) as u32;
        self.delay = delay;
    }

    /// Sums up `count` steps whose delays grow evenly. The changes grow evenly too: those that
    /// lower the probability come first.
    fn leap(
        &mut self,
        Delays {
            first,
            growth,
            count,
        }: Delays,
    ) {
        let (count, growth) = (count as f64, growth as f64);
        let (alpha, beta, scale) = (self.alpha as f64, self.beta as f64, SCALE as f64);
        let change = (alpha * (first as f64 - self.target as f64) + beta * growth) / scale;
        let slope = alpha * growth / scale;
        let falling = match (change < 0.0, slope > 0.0) {
            (false, _) => 0.0,
            (true, false) => count,
            (true, true) => ((-change / slope) as u64 as f64 + 1.0).min(count),
        };
        let sum = |from: f64, until: f64| {
            (until - from) * change + slope * (until * (until - 1.0) - from * (from - 1.0)) / 2.0
        };
        let low = (f64::from(self.probability) + sum(0.0, falling)).max(0.0);
        self.probability = (low + sum(falling, count)).clamp(0.0, self.ceiling.into()) as u32;
        self.delay = (first as f64 + (count - 1.0) * growth) as u64;
    }

    #[cfg(test)]
    pub(crate) fn steady(&mut self, probability: f64, delay: u64) {
        (self.probability, self.delay) = ((probability * f64::from(ONE)) as u32, delay);
    }
}

/// The nearest whole number of one that is not negative.
fn nearest(value: f64) -> u64 {
    (value + 0.5) as u64
}
