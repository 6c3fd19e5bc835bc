//! [`DynRlc`], **experimental**: a limit that follows a delay target (paper 002 §5.2, after Kumar,
//! Francini, Panwar and Sharma, WCNC 2018).
//!
//! It models the dynamic buffer of an LTE bearer: a packet moves down to the radio link only while
//! less than a threshold is stored there, and each period the threshold is adjusted so that the
//! sojourn time is about the target. Neither the period nor the rule is published; here the
//! threshold moves part of the way to threshold × target / delay.
//!
//! It exists in the simulator only, for comparison: a patent (US 11,425,592 B2) may read on the
//! method. Paper 002 finds that it depends on how the radio link reports its buffer, and that
//! dynamic queue limits do better without a target.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_bql::Limit;

use crate::config_error::ConfigError;

/// Parameters of [`DynRlc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Target sojourn time, above 0. Default 20 ms, the shorter one of the thesis.
    pub target: Duration,
    /// Time between adjustments, above 0. Default 100 ms: our choice.
    pub period: Duration,
    /// The delay of a period that is compared with the target. Default the mean.
    pub metric: Metric,
    /// Lower bound of the threshold, at least 1 byte. Default two full frames: our choice.
    pub limit_min: Bytes,
    /// Upper bound and initial value of the threshold: the physical buffer. Default 500 KB
    /// (thesis).
    pub limit_max: Bytes,
    /// The threshold moves 1/`smoothing` of the way to its new value, at least 1. Default 2: our
    /// choice.
    pub smoothing: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(20),
            period: Duration::from_millis(100),
            metric: Metric::Mean,
            limit_min: Bytes::new(2 * 1514),
            limit_max: Bytes::new(500_000),
            smoothing: 2,
        }
    }
}

/// Statistic of the delays of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The mean.
    Mean,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}

/// A limit that follows a delay target.
#[derive(Clone, Debug)]
pub struct DynRlc {
    config: Config,
    limit: Bytes,
    in_flight: Bytes,
    /// Packets stored, oldest first: bytes left, and time of storing.
    stored: VecDeque<(Bytes, Instant)>,
    delays: Option<Delays>,
}

/// The delays of a period, which began at `since`.
#[derive(Clone, Copy, Debug)]
struct Delays {
    since: Instant,
    count: u32,
    sum: Duration,
    least: Duration,
    most: Duration,
}

impl DynRlc {
    /// A limit at the whole buffer, with nothing in flight.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let Config {
            target,
            period,
            limit_min,
            limit_max,
            smoothing,
            metric: _,
        } = config;
        ConfigError::check(!target.is_zero(), "target", "0", "above 0")?;
        ConfigError::check(!period.is_zero(), "period", "0", "above 0")?;
        ConfigError::check(
            limit_min > Bytes::ZERO,
            "limit_min",
            limit_min,
            "at least 1 byte",
        )?;
        ConfigError::check(
            limit_min <= limit_max,
            "limit_max",
            limit_max,
            "no less than limit_min",
        )?;
        ConfigError::check(smoothing > 0, "smoothing", smoothing, "at least 1")?;
        Ok(Self {
            config,
            limit: limit_max,
            in_flight: Bytes::ZERO,
            stored: VecDeque::new(),
            delays: None,
        })
    }

    /// Records the delay of a packet.
    fn sample(&mut self, delay: Duration, now: Instant) {
        let delays = self.delays.get_or_insert(Delays {
            since: now,
            count: 0,
            sum: Duration::ZERO,
            least: delay,
            most: delay,
        });
        delays.count = delays.count.saturating_add(1);
        delays.sum = delays.sum.saturating_add(delay);
        (delays.least, delays.most) = (delays.least.min(delay), delays.most.max(delay));
    }

    /// Adjusts the threshold at the end of a period.
    fn adapt(&mut self, now: Instant) {
        let Some(delays) = self
            .delays
            .filter(|delays| now >= delays.since + self.config.period)
        else {
            return;
        };
        self.delays = None;
        let delay = match self.config.metric {
            Metric::Mean => delays.sum / delays.count.max(1),
            Metric::Min => delays.least,
            Metric::Max => delays.most,
        };
        let Config {
            target,
            limit_min,
            limit_max,
            smoothing,
            ..
        } = self.config;
        let scaled = u128::from(self.limit.get()).saturating_mul(target.as_nanos())
            / delay.as_nanos().max(1);
        let wanted =
            Bytes::new(u64::try_from(scaled).unwrap_or(u64::MAX)).clamp(limit_min, limit_max);
        let part = u64::from(smoothing);
        self.limit = if wanted > self.limit {
            self.limit + (wanted - self.limit) / part
        } else {
            self.limit - (self.limit - wanted) / part
        };
    }
}

impl Limit for DynRlc {
    fn opens_at(&self) -> Option<Instant> {
        (self.in_flight < self.limit).then_some(Instant::ZERO)
    }

    fn queued(&mut self, bytes: Bytes, now: Instant) {
        self.in_flight += bytes;
        self.stored.push_back((bytes, now));
    }

    fn completed(&mut self, bytes: Bytes, now: Instant) {
        let mut left = bytes.min(self.in_flight);
        self.in_flight -= left;
        while let Some((stored, since)) = self.stored.front_mut() {
            if *stored > left {
                *stored -= left;
                break;
            }
            left -= *stored;
            let delay = now - *since;
            self.stored.pop_front();
            self.sample(delay, now);
        }
        self.adapt(now);
    }

    fn reset(&mut self) {
        (self.limit, self.in_flight, self.delays) = (self.config.limit_max, Bytes::ZERO, None);
        self.stored.clear();
    }

    fn limit(&self) -> Bytes {
        self.limit
    }

    fn in_flight(&self) -> Bytes {
        self.in_flight
    }
}

#[cfg(test)]
mod tests;
