//! [`Config`]: the parameters of the token bucket filter.

use core::time::Duration;

use tautline_base::{Bytes, ConfigError, Rate};

use crate::rate::Framing;
use crate::units;

/// Parameters of [`Tbf`](super::Tbf).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The long-term rate. No default: it must be given.
    pub rate: Rate,
    /// The bucket: what may leave at once after a pause. Default none: it must be given. Longer
    /// packets are split or dropped. In real time it covers the longest pause between two calls of
    /// `dequeue`, else the rate is not reached: some ms at the rate for a thread that sleeps.
    pub burst: Bytes,
    /// A second, faster bucket that spreads the bursts. Default none.
    pub peak: Option<Peak>,
    /// The limit of the queue; the FIFO below gets it. Default 50 ms, the example of tc-tbf(8);
    /// `tc` has no default.
    pub limit: Limit,
    /// Framing of packets on the link. Default their own length.
    pub framing: Framing,
    /// The longest frame of the device: a bucket that does not hold one is refused, for it would
    /// drop all of them. Default 1514, Ethernet. `tc` has no such word: Linux knows its device and
    /// only warns.
    pub frame: Bytes,
}

/// The bucket that bounds the rate within a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The peak rate, above the rate of the filter (`tc`'s `peakrate`).
    pub rate: Rate,
    /// Bytes that leave at once: best one frame (`tc`'s `mtu` or `minburst`).
    pub mtu: Bytes,
}

/// The limit of the queue of a [`Tbf`](super::Tbf).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This much.
    Bytes(Bytes),
    /// The bytes sent within this time, beyond one burst.
    Latency(Duration),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rate: Rate::ZERO,
            burst: Bytes::ZERO,
            peak: None,
            limit: Limit::Latency(Duration::from_millis(50)),
            framing: Framing::default(),
            frame: Bytes::new(1514),
        }
    }
}

impl Config {
    /// Behaves like Linux: a burst of any length is accepted.
    pub fn linux() -> Self {
        Self {
            frame: Bytes::new(1),
            ..Self::default()
        }
    }

    /// The limit in bytes: for a latency, the bytes sent within it, and one burst.
    pub fn limit(&self) -> Bytes {
        match self.limit {
            Limit::Bytes(bytes) => bytes,
            Limit::Latency(latency) => {
                let lasting = self.rate * latency + self.burst;
                self.peak
                    .map_or(lasting, |peak| lasting.min(peak.rate * latency + peak.mtu))
            }
        }
    }

    /// The longest packet that ever fits.
    pub(super) fn max_size(&self) -> Bytes {
        self.peak
            .map_or(self.burst, |peak| self.burst.min(peak.mtu))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Self {
            rate,
            burst,
            peak,
            limit: _,
            framing: _,
            frame,
        } = self;
        let holds_a_frame = "at least one frame (1514b, or what `frame` says)";
        ConfigError::check(
            *rate > Rate::ZERO,
            "rate",
            units::rate(*rate),
            "at least 8bit",
        )?;
        ConfigError::check(
            *frame > Bytes::ZERO,
            "frame",
            units::size(*frame),
            "at least 1b",
        )?;
        ConfigError::check(burst >= frame, "burst", units::size(*burst), holds_a_frame)?;
        if let Some(peak) = peak {
            ConfigError::check(
                peak.rate > *rate,
                "peakrate",
                units::rate(peak.rate),
                "above `rate`",
            )?;
            ConfigError::check(
                peak.mtu >= *frame,
                "mtu",
                units::size(peak.mtu),
                holds_a_frame,
            )?;
        }
        Ok(())
    }
}
