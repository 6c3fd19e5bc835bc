//! [`Traffic`]: times of messages: at a constant rate, always or in bursts of constant or random
//! length.

use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant, Rate};

use crate::config_error::ConfigError;

/// Minimum mean duration of a burst.
const SHORTEST: Duration = Duration::from_micros(1);
/// Messages later than this are skipped: the machine was suspended.
const FORGIVEN: Duration = Duration::from_secs(1);

/// Sums of times saturate at this value.
pub(super) const END_OF_TIME: Instant = Instant::from_nanos(u64::MAX);

/// Messages of one size at one rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Payload rate during a burst, above 0.
    pub rate: Rate,
    /// Payload of one message, at least 16 bytes for its time and number. Default 1000.
    pub size: Bytes,
    /// Number of messages. Default unlimited.
    pub count: Option<u64>,
    /// Default: one burst forever.
    pub bursts: Option<OnOff>,
    /// Seed of random lengths. Default 1.
    pub seed: u64,
}

/// Bursts and pauses in turn, beginning with a burst. The mean rate is the rate times on/(on +
/// off).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// Duration of a burst.
    pub on: Period,
    /// Duration of a pause.
    pub off: Period,
}

/// A fixed or random duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// A constant.
    Fixed(Duration),
    /// Exponentially distributed with this mean.
    Exponential(Duration),
}

impl Period {
    fn mean(self) -> Duration {
        match self {
            Self::Fixed(time) | Self::Exponential(time) => time,
        }
    }

    fn draw(self, rng: &mut Pcg32) -> Duration {
        match self {
            Self::Fixed(time) => time,
            Self::Exponential(mean) => {
                // Above 0 and at most 1, in steps of 2⁻⁵³.
                let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                Duration::from_nanos((-libm::log(uniform) * mean.as_nanos() as f64) as u64)
            }
        }
    }
}

impl Traffic {
    /// Bytes of a message that hold its time and number.
    pub const LEAST: Bytes = Bytes::new(16);

    /// 1000-byte messages at `rate`.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            size: Bytes::new(1000),
            count: None,
            bursts: None,
            seed: 1,
        }
    }

    /// 1000-byte messages at `rate`, in bursts.
    pub fn on_off(rate: Rate, on: Period, off: Period) -> Self {
        Self {
            bursts: Some(OnOff { on, off }),
            ..Self::new(rate)
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(self.rate > Rate::ZERO, "rate", self.rate, "above 0")?;
        let size = (Self::LEAST..=Bytes::kib(64)).contains(&self.size);
        ConfigError::check(size, "size", self.size, "from 16 to 65536 bytes")?;
        let on = self.bursts.map_or(Duration::MAX, |bursts| bursts.on.mean());
        ConfigError::check(on >= SHORTEST, "on", format!("{on:?}"), "at least 1 µs")
    }
}

/// The messages of a [`Traffic`]. Message n is due when the bursts so far have lasted n times
/// size/rate: rounding errors do not add up, and a burst continues where the one before it ended.
#[derive(Debug)]
pub(super) struct Departures {
    traffic: Traffic,
    rng: Pcg32,
    /// Number of messages so far.
    number: u64,
    burst: Burst,
}

/// A burst.
#[derive(Clone, Copy, Debug)]
struct Burst {
    began: Instant,
    ends: Option<Instant>,
    /// Nanoseconds of bursts before it.
    before: u128,
}

impl Departures {
    /// The first message is due at `now`.
    pub(super) fn new(traffic: Traffic, now: Instant) -> Self {
        let mut rng = Pcg32::seed_from_u64(traffic.seed);
        let ends = traffic.bursts.map(|bursts| now + bursts.on.draw(&mut rng));
        Self {
            traffic,
            rng,
            number: 0,
            burst: Burst {
                began: now,
                ends,
                before: 0,
            },
        }
    }

    /// Nanoseconds of bursts before the next message.
    fn on_time(&self) -> u128 {
        let bytes = u128::from(self.number) * u128::from(self.traffic.size.get());
        bytes.saturating_mul(1_000_000_000) / u128::from(self.traffic.rate.as_bytes_per_sec())
    }

    /// When the next message is due if the burst lasts that long.
    fn due(&self) -> Instant {
        let within = self.on_time().saturating_sub(self.burst.before);
        self.burst.began + Duration::from_nanos(u64::try_from(within).unwrap_or(u64::MAX))
    }

    /// When to call [`take`](Self::take) again: for a message or the end of a burst.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let due = self.due();
        (!self.is_over()).then_some(self.burst.ends.map_or(due, |ends| ends.min(due)))
    }

    /// True after the last message.
    pub(super) fn is_over(&self) -> bool {
        self.traffic.count.is_some_and(|count| self.number >= count)
    }

    /// Due time and number of the next message, if it is due.
    pub(super) fn take(&mut self, now: Instant) -> Option<(Instant, u64)> {
        if self.is_over() {
            return None;
        }
        if now - self.burst.began > FORGIVEN && now - self.due().max(self.burst.began) > FORGIVEN {
            self.begin_burst(now, self.on_time());
        }
        let due = self.due();
        match self.burst.ends {
            Some(ends) if ends <= due => {
                if let Some(bursts) = self.traffic.bursts.filter(|_| ends <= now) {
                    let on = (ends - self.burst.began).as_nanos();
                    let begin = ends + bursts.off.draw(&mut self.rng);
                    self.begin_burst(begin, self.burst.before + on);
                }
                None
            }
            // A saturated time would be due forever.
            _ if due > now || due == END_OF_TIME => None,
            _ => {
                self.number += 1;
                Some((due, self.number - 1))
            }
        }
    }

    fn begin_burst(&mut self, began: Instant, before: u128) {
        let ends = self
            .traffic
            .bursts
            .map(|bursts| began + bursts.on.draw(&mut self.rng));
        self.burst = Burst {
            began,
            ends,
            before,
        };
    }
}

/// Writes the due time and number of a message into it.
pub(super) fn stamp(message: &mut [u8], due: Instant, number: u64) {
    message[..8].copy_from_slice(&due.as_nanos().to_be_bytes());
    message[8..16].copy_from_slice(&number.to_be_bytes());
}

/// Due time and number of a message; `None` if it is too short.
pub(super) fn read_stamp(message: &[u8]) -> Option<(Instant, u64)> {
    let (due, rest) = message.split_first_chunk()?;
    let (number, _) = rest.split_first_chunk()?;
    Some((
        Instant::from_nanos(u64::from_be_bytes(*due)),
        u64::from_be_bytes(*number),
    ))
}

#[cfg(test)]
mod tests;
