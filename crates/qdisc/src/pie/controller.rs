//! [`Controller`]: the drop probability from the delay (RFC 8033 §4.2, §5; `net/sched/sch_pie.c`
//! `pie_calculate_probability`).
//!
//! Probabilities are 56-bit fractions for every law, so that a step is one addition and many equal
//! advance are one multiplication.

use core::time::Duration;

use super::params::{Law, Params};

/// Probability 1.
pub(crate) const ONE: u64 = u64::MAX >> 8;

/// The most that a step adds once the probability has reached a tenth: 2 %.
const GENTLE: i64 = (ONE / 100 * 2) as i64;

/// RFC 8034's probabilities may exceed one, for packets below its mean of 1024 bytes: up to 0.85
/// for the shortest, of 64.
const CEILING_RFC8034: u64 = (ONE / 100 * 85) * (1024 / 64);

/// Delays of `Linux` (250 ms) and RFC 8034 (200 ms) that call for another 2 % per step.
const HIGH_LINUX: Duration = Duration::from_millis(250);
const HIGH_RFC8034: Duration = Duration::from_millis(200);
/// RFC 8034: the probability decays below this delay.
const LOW_RFC8034: Duration = Duration::from_millis(5);

/// Equal advance are taken one at a time at most so often; more only oscillate.
const MAX_STRIDES: usize = 4096;

/// Below this a decaying probability becomes zero: 2⁻³⁰.
const NOTHING: u64 = ONE >> 30;

/// Input of an update of the probability; delays in the law's ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    /// The delay now.
    pub(crate) delay: u64,
    /// The delay at the update before.
    pub(crate) old: u64,
    /// Whether nothing is queued.
    pub(crate) empty: bool,
}

/// The controller with its constants, in the law's ticks.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    law: Law,
    target: u64,
    /// The increment per tick of delay, in 2⁻⁵⁶: whole numbers for Linux.
    alpha: f64,
    beta: f64,
    high: u64,
    low: u64,
}

impl Controller {
    pub(crate) fn new(params: &Params) -> Self {
        let law = params.law;
        // DIVERGES: Linux's gains are cut to whole numbers, and so are its products below.
        let gain = |per_second: f64| match law {
            Law::Linux => (((per_second * 16.0) as u64 * (ONE / TICKS_PER_SECOND)) >> 4) as f64,
            Law::Rfc8033 | Law::Rfc8034 => per_second * ONE as f64 / 1e9,
        };
        let high = if law == Law::Linux {
            HIGH_LINUX
        } else {
            HIGH_RFC8034
        };
        Self {
            law,
            target: law.ticks_of(params.target),
            alpha: gain(params.alpha),
            beta: gain(params.beta),
            high: law.ticks_of(high),
            low: law.ticks_of(LOW_RFC8034),
        }
    }

    /// Half the target: delays below are no congestion.
    pub(crate) fn is_low(&self, delay: u64) -> bool {
        delay < self.target / 2
    }

    /// The probability after one update.
    pub(crate) fn step(&self, p: u64, input: Input) -> u64 {
        let moved = self.add(p, self.delta(p, input));
        if self.decays(input) {
            self.decay(moved)
        } else {
            moved
        }
    }

    /// The probability after `count` updates during which nothing changes (`old` equals `delay`).
    pub(crate) fn advance(&self, mut p: u64, input: Input, mut count: u64) -> u64 {
        for _ in 0..MAX_STRIDES {
            let stride = if self.decays(input) {
                1
            } else {
                self.stride(p, self.delta(p, input)).min(count)
            };
            let next = match stride {
                0 => p,
                1 => self.step(p, input),
                _ => self.add(p, i128::from(stride).saturating_mul(self.delta(p, input))),
            };
            count -= stride.min(count);
            if next == p || count == 0 {
                return next;
            }
            p = next;
        }
        p
    }

    /// How many advance of `delta` stay on the rung of the ladder on which `p` stands, the one that
    /// leaves it included.
    fn stride(&self, p: u64, delta: i128) -> u64 {
        let (low, high) = rung(p);
        let advance = match delta {
            0 => 0,
            1.. => i128::from(high - p)
                .unsigned_abs()
                .div_ceil(delta.unsigned_abs()),
            _ => u128::from(p - low) / delta.unsigned_abs() + 1,
        };
        u64::try_from(advance).unwrap_or(u64::MAX)
    }

    fn add(&self, p: u64, delta: i128) -> u64 {
        let sum = i128::from(p).saturating_add(delta).max(0);
        match self.law {
            Law::Rfc8033 => sum.min(ONE.into()) as u64,
            Law::Rfc8034 => sum.min(CEILING_RFC8034.into()) as u64,
            // As measured on Linux: its check for overflow sees 64 bits, not 56.
            Law::Linux => u64::try_from(sum).unwrap_or(ONE),
        }
    }

    /// The increment of an update, decay aside.
    fn delta(&self, p: u64, input: Input) -> i128 {
        let mut delta = match self.law {
            Law::Linux => self.delta_linux(p, input),
            Law::Rfc8033 | Law::Rfc8034 => self.delta_exact(p, input),
        };
        if p >= ONE / 10 {
            delta = delta.min(GENTLE.into());
        }
        if self.law != Law::Rfc8033 && input.delay > self.high && !self.decays(input) {
            delta += i128::from(GENTLE);
        }
        delta
    }

    fn delta_linux(&self, p: u64, Input { delay, old, .. }: Input) -> i128 {
        let shift = if p < ONE / 10 {
            1 + 2 * decades_below_a_tenth(p)
        } else {
            0
        };
        // Two bits at a time lose nothing against all at once: both are floors.
        let part = |gain: f64, difference: i128| {
            i128::from((gain as u64) >> shift).saturating_mul(difference)
        };
        let (delay, old) = (i128::from(delay), i128::from(old));
        part(self.alpha, delay - i128::from(self.target))
            .saturating_add(part(self.beta, delay - old))
    }

    fn delta_exact(&self, p: u64, Input { delay, old, .. }: Input) -> i128 {
        let tuned = match p {
            _ if p < ONE / 10 => 0.5 / f64::from(1u32 << (2 * decades_below_a_tenth(p))),
            _ if self.law == Law::Rfc8033 => 1.0,
            _ if p < ONE => 2.0,
            _ if p < 10 * ONE => 8.0,
            _ => 32.0,
        };
        let (delay, old) = (delay as f64, old as f64);
        ((self.alpha * (delay - self.target as f64) + self.beta * (delay - old)) * tuned) as i128
    }

    fn decays(&self, Input { delay, old, empty }: Input) -> bool {
        match self.law {
            Law::Rfc8033 => self.is_low(delay) && self.is_low(old),
            Law::Rfc8034 => delay < self.low && old < self.low,
            Law::Linux => delay == 0 && old == 0 && empty,
        }
    }

    fn decay(&self, p: u64) -> u64 {
        match self.law {
            Law::Linux => p - p / 64,
            Law::Rfc8033 | Law::Rfc8034 if p < NOTHING => 0,
            Law::Rfc8033 | Law::Rfc8034 => p - p / 50,
        }
    }
}

/// Linux's clock.
const TICKS_PER_SECOND: u64 = 15_625_000;

/// How many of 10⁻², 10⁻³ … 10⁻⁶ are above `p`: gains shrink fourfold with each.
fn decades_below_a_tenth(p: u64) -> u32 {
    (2..=6)
        .take_while(|&power| p < ONE / 10u64.pow(power))
        .count() as u32
}

/// The probabilities, from the first to before the second, that share the gains of `p`.
fn rung(p: u64) -> (u64, u64) {
    let below = |power: u32| ONE / 10u64.pow(power);
    let bounds = [
        0,
        below(6),
        below(5),
        below(4),
        below(3),
        below(2),
        below(1),
        ONE,
        10 * ONE,
        u64::MAX,
    ];
    let at = bounds
        .iter()
        .rposition(|&bound| bound <= p)
        .unwrap_or(0)
        .min(bounds.len() - 2);
    (bounds[at], bounds[at + 1])
}
