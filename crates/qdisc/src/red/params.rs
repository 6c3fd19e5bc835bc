//! [`Config`] and [`Params`]: the parameters of RED, with `tc`'s names and derived values.

use alloc::string::ToString;

use tautline_base::{Bytes, ConfigError, Rate};

use super::decay::{Decay, IdleDecay};
use crate::units;

/// Parameters of the average and of the probability. What is `None` is derived from the limit, as
/// `tc` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Average backlog below which nothing is signaled. Default a third of `max` (Linux).
    pub min: Option<Bytes>,
    /// Average backlog above which every packet is signaled, or from which the probability rises
    /// more steeply if [`gentle`](Self::gentle). Default three times `min`, or a quarter of the
    /// limit (Linux).
    pub max: Option<Bytes>,
    /// Length of a usual packet. Default 1000 bytes (`tc`'s manual).
    pub avpkt: Bytes,
    /// Packets that may come in a burst before the average reaches `min`; with `avpkt` it gives the
    /// weight of the average. Default (2 `min` + `max`) / (3 `avpkt`) (Linux).
    pub burst: Option<u32>,
    /// Probability of a signal when the average is at `max`, above 0. Default 0.02 (Linux).
    pub probability: f64,
    /// Rate of the link, by which the average falls while the queue is empty. Default 10 Mbit/s
    /// (Linux).
    pub bandwidth: Rate,
    /// Let the probability rise from `probability` at `max` to one at twice `max` instead of
    /// leaping there. Default off, as in Linux, which has no such mode; ns-3's default is on.
    pub gentle: bool,
    /// Decay of the average while the queue is empty. Default [`IdleDecay::Exact`].
    pub idle: IdleDecay,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            min: None,
            max: None,
            avpkt: Bytes::new(1000),
            burst: None,
            probability: 0.02,
            bandwidth: Rate::mbit(10),
            gentle: false,
            idle: IdleDecay::default(),
        }
    }
}

/// Lengths of queues are 32 bits wide, so that their products with a weight are 64.
const LONGEST: Bytes = Bytes::new(u32::MAX as u64);

impl Params {
    /// The upper threshold of a queue of at most `limit`.
    pub fn max(&self, limit: Bytes) -> Bytes {
        self.max
            .unwrap_or_else(|| self.min.map_or(limit / 4, |min| min * 3))
    }

    /// The lower threshold of a queue of at most `limit`.
    pub fn min(&self, limit: Bytes) -> Bytes {
        self.min.unwrap_or_else(|| self.max(limit) / 3)
    }

    /// The burst allowed to a queue of at most `limit`.
    pub fn burst(&self, limit: Bytes) -> u32 {
        let fitting =
            || (self.min(limit) * 2 + self.max(limit)).get() / self.avpkt.get().max(1) / 3;
        self.burst
            .unwrap_or_else(|| u32::try_from(fitting()).unwrap_or(u32::MAX))
    }

    /// These parameters with everything that is derived from `limit` written out.
    pub fn derived(&self, limit: Bytes) -> Self {
        let (min, max, burst) = (self.min(limit), self.max(limit), self.burst(limit));
        Self {
            min: Some(min),
            max: Some(max),
            burst: Some(burst),
            ..self.clone()
        }
    }

    /// The logarithm of the average's weight, and the decay, if all parameters are usable.
    ///
    /// # Errors
    /// If `max` is below `min` or above 4 GiB, `avpkt` or `bandwidth` is 0, `probability` is 0 or
    /// above 1, or no weight suits `burst`.
    pub(super) fn check(&self, limit: Bytes) -> Result<(u32, Decay), ConfigError> {
        let (min, max) = (self.min(limit), self.max(limit));
        let sized = |size: Bytes| units::size(size);
        ConfigError::check(
            (Bytes::new(1)..=LONGEST).contains(&self.avpkt),
            "avpkt",
            sized(self.avpkt),
            "at least 1b and below 4Gb",
        )?;
        ConfigError::check(
            max >= min && max <= LONGEST,
            "max",
            sized(max),
            "at least `min` and below 4Gb",
        )?;
        let share = self.probability;
        ConfigError::check(
            share > 0.0 && share <= 1.0,
            "probability",
            share,
            "above 0 and at most 1",
        )?;
        ConfigError::check(
            self.bandwidth > Rate::ZERO,
            "bandwidth",
            units::rate(self.bandwidth),
            "above 0",
        )?;
        let burst = self.burst(limit);
        let wlog = weight_log(min, burst, self.avpkt).ok_or_else(|| {
            ConfigError::new(
                "burst",
                burst.to_string(),
                "more than `min` / `avpkt`, and few enough for an average of weight 2^-31 to smooth",
            )
        })?;
        let decay = Decay::new(self.idle, wlog, self.avpkt, self.bandwidth).ok_or_else(|| {
            ConfigError::new(
                "bandwidth",
                units::rate(self.bandwidth),
                "high enough for the table of idle linux",
            )
        })?;
        Ok((wlog, decay))
    }
}

/// The least logarithm with which a burst on an empty queue leaves the average at `min` at most.
fn weight_log(min: Bytes, burst: u32, avpkt: Bytes) -> Option<u32> {
    let above = f64::from(burst) + 1.0 - min.get() as f64 / avpkt.get() as f64;
    (1..32).find(|&log| {
        let weight = libm::exp2(-f64::from(log));
        above <= (1.0 - libm::pow(1.0 - weight, f64::from(burst))) / weight
    })
}

/// Parameters of [`Red`](super::Red).
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Limit in bytes. Default 400 000, of `tc`'s manual: Linux has no default.
    pub limit: Bytes,
    /// The average and the probability.
    pub red: Params,
    /// Mark instead of dropping where the packet allows it. Default off (Linux).
    pub ecn: bool,
    /// Drop even what could be marked when the average is above all thresholds. Default off (Linux;
    /// ns-3: on).
    pub harddrop: bool,
    /// Let pass what cannot be marked, until the limit. Only with `ecn`. Default off (Linux).
    pub nodrop: bool,
    /// Move the probability so that the average stays halfway between the thresholds (Floyd,
    /// Gummadi, Shenker 2001). Default off (Linux).
    pub adaptive: bool,
    /// Seed of the random number generator. Default 0.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: Bytes::new(400_000),
            red: Params::default(),
            ecn: false,
            harddrop: false,
            nodrop: false,
            adaptive: false,
            seed: 0,
        }
    }
}

impl Config {
    /// Behaves like Linux's `red`, including its idle decay.
    pub fn linux() -> Self {
        Self {
            red: Params {
                idle: IdleDecay::Linux,
                ..Params::default()
            },
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let limits = Bytes::new(1)..=LONGEST;
        ConfigError::check(
            limits.contains(&self.limit),
            "limit",
            units::size(self.limit),
            "at least 1b and below 4Gb",
        )?;
        ConfigError::check(
            self.ecn || !self.nodrop,
            "nodrop",
            "without `ecn`",
            "given with `ecn`",
        )
    }
}
