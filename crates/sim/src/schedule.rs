//! [`Schedule`]: changes of a rate over time, in steps or by a recorded [`Trace`].
//!
//! A schedule begins with virtual time. A step in the middle of a frame changes the rate of the
//! bytes that are left.

mod trace;

use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

use crate::config_error::ConfigError;

pub use trace::{Trace, TraceError};

/// Nanoseconds in a second.
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Changes of a rate over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// No changes.
    #[default]
    Constant,
    /// A new rate from each time on. Times increase. A rate of 0 is an outage; the last must be
    /// above 0.
    Steps(Vec<(Duration, Rate)>),
    /// Recorded delivery opportunities: the rate beside this schedule has no effect.
    Trace(Trace),
}

impl Schedule {
    /// # Errors
    /// If the steps are out of order, or nothing could ever leave after the last.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let Self::Steps(steps) = self else {
            return Ok(());
        };
        if let Some(pair) = steps.windows(2).find(|pair| pair[1].0 <= pair[0].0) {
            let value = format!("{:?} after {:?}", pair[1].0, pair[0].0);
            return ConfigError::check(false, "schedule", value, "steps in order of time");
        }
        let last = steps.last().map_or(Rate::MAX, |(_, rate)| *rate);
        ConfigError::check(
            last > Rate::ZERO,
            "schedule",
            last,
            "above 0 in its last step",
        )
    }

    /// The rate at `now`, which is `base` before the first step. For a trace, its mean.
    pub fn rate_at(&self, base: Rate, now: Instant) -> Rate {
        match self {
            Self::Constant => base,
            Self::Steps(steps) => {
                let passed = steps.partition_point(|(from, _)| Instant::ZERO + *from <= now);
                passed.checked_sub(1).map_or(base, |step| steps[step].1)
            }
            Self::Trace(trace) => trace.mean_rate(),
        }
    }
}

/// Serializes frames one after the other by a schedule, whose time begins with [`Instant::ZERO`].
#[derive(Clone, Debug)]
pub struct LineRate {
    rate: Rate,
    /// Overhead of each frame, without effect on a trace.
    framing: Bytes,
    schedule: Schedule,
    /// The current delivery opportunity of a trace.
    opportunity: trace::Opportunity,
}

impl LineRate {
    /// A line of `rate`, unless `schedule` says another one; `framing` is the overhead of each frame
    /// but on a trace.
    pub fn new(rate: Rate, framing: Bytes, schedule: Schedule) -> Self {
        Self {
            rate,
            framing,
            schedule,
            opportunity: trace::Opportunity::default(),
        }
    }

    /// Discards the frames whose departure was computed: they are not sent.
    pub(crate) fn reset(&mut self) {
        self.opportunity = trace::Opportunity::default();
    }

    /// When the last bit of a frame of `len` leaves whose first may leave at `start`. Starts must
    /// not decrease, except after a reset.
    #[inline]
    pub fn departure(&mut self, start: Instant, len: Bytes) -> Instant {
        match &self.schedule {
            Schedule::Constant => start + (len + self.framing) / self.rate,
            Schedule::Steps(steps) => across_steps(self.rate, steps, start, len + self.framing),
            Schedule::Trace(trace) => trace.departure(&mut self.opportunity, start, len),
        }
    }
}

/// When `len` bytes from `start` on are sent, at `rate` until the first of `steps`.
fn across_steps(mut rate: Rate, steps: &[(Duration, Rate)], start: Instant, len: Bytes) -> Instant {
    let passed = steps.partition_point(|(from, _)| Instant::ZERO + *from <= start);
    if let Some((_, current)) = steps[..passed].last() {
        rate = *current;
    }
    // In bytes per second × nanoseconds there is no rounding error at a step.
    let (mut at, mut left) = (start, u128::from(len.get()) * NANOS_PER_SEC);
    for (from, next) in &steps[passed..] {
        let until = Instant::ZERO + *from;
        let carried = u128::from(rate.as_bytes_per_sec()) * (until - at).as_nanos();
        if carried >= left {
            break;
        }
        (at, left, rate) = (until, left - carried, *next);
    }
    let nanos = left.div_ceil(u128::from(rate.as_bytes_per_sec()).max(1));
    at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
