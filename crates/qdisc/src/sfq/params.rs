//! [`Config`]: the parameters of SFQ.

use core::time::Duration;

use tautline_base::{Bytes, ConfigError};

use crate::red;
use crate::units;

/// Parameters of [`Sfq`](super::Sfq).
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Limit of all flows together in packets, at least 1. Default 127 (Linux).
    pub limit: u32,
    /// Bytes a flow sends per turn, 64 to 1 MiB. Default 1514, one Ethernet frame (Linux).
    pub quantum: Bytes,
    /// Limit of a flow in packets, 1 to 127. Default 127 (Linux).
    pub depth: u32,
    /// Drop the oldest packet of a flow instead of the newest, so that its sender learns of it
    /// sooner. Default off (Linux).
    pub headdrop: bool,
    /// Flows that may hold packets at once, 1 to 65 408. Default 128 (Linux).
    pub flows: u32,
    /// Buckets that flow hashes are spread over, a power of two of at most 65 536. Default 1024
    /// (Linux).
    pub divisor: u32,
    /// Lifetime of a hash key, at least a second. Default unlimited (Linux).
    pub perturb: Option<Duration>,
    /// RED on every flow. Default none (Linux).
    pub red: Option<FlowRed>,
    /// Secret seed of the hash keys and of RED's random numbers. Default `None`: drawn at creation,
    /// which fails without the feature `std`. Give it where runs must repeat.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 127,
            quantum: Bytes::new(1514),
            depth: 127,
            headdrop: false,
            flows: 128,
            divisor: 1024,
            perturb: None,
            red: None,
            seed: None,
        }
    }
}

/// RED as SFQ applies it to the queue of one flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowRed {
    /// The length that thresholds are derived from where they are not given. As in Linux it bounds
    /// nothing itself.
    pub limit: Bytes,
    /// Thresholds, weight and probability; the idle decay does not matter, an empty flow is
    /// forgotten.
    pub red: red::Params,
    /// Mark instead of dropping where the packet allows it. Default off (Linux).
    pub ecn: bool,
    /// Drop even what could be marked when the average is above `max`. Default off (Linux).
    pub harddrop: bool,
}

impl Config {
    /// The longest queue of a flow that Linux can count.
    const MOST_DEPTH: u32 = 127;
    /// The most flows that Linux can number.
    const MOST_FLOWS: u32 = 65_408;

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Self {
            limit,
            quantum,
            depth,
            flows,
            divisor,
            perturb,
            red,
            headdrop: _,
            seed: _,
        } = self;
        ConfigError::check(*limit >= 1, "limit", limit, "at least 1")?;
        let quanta = Bytes::new(64)..=super::MAX_DEBT;
        ConfigError::check(
            quanta.contains(quantum),
            "quantum",
            units::size(*quantum),
            "from 64b to 1Mb",
        )?;
        ConfigError::check(
            (1..=Self::MOST_DEPTH).contains(depth),
            "depth",
            depth,
            "from 1 to 127",
        )?;
        ConfigError::check(
            (1..=Self::MOST_FLOWS).contains(flows),
            "flows",
            flows,
            "from 1 to 65408",
        )?;
        let fits = divisor.is_power_of_two() && *divisor <= 65_536;
        ConfigError::check(fits, "divisor", divisor, "a power of two of at most 65536")?;
        let period = perturb.unwrap_or(Duration::from_secs(1));
        ConfigError::check(
            period >= Duration::from_secs(1),
            "perturb",
            units::time(period),
            "at least 1s, or 0 for never",
        )?;
        red.as_ref().map_or(Ok(()), |FlowRed { limit, red, .. }| {
            ConfigError::check(
                *limit > Bytes::ZERO,
                "redflowlimit",
                units::size(*limit),
                "given and above 0",
            )?;
            let min = red.min(*limit);
            ConfigError::check(min > Bytes::ZERO, "min", units::size(min), "above 0")
        })
    }
}
