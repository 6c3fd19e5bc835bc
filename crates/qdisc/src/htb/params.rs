//! [`Config`] and [`ClassConfig`]: the parameters of HTB and its classes.

use core::fmt;

use tautline_base::{Bytes, ConfigError, Rate};

use crate::rate::{Cost, Framing};
use crate::units;

/// Parameters of [`Htb`](super::Htb).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of the class for packets that no filter puts into one; `None`: they leave unshaped,
    /// before all others. Default none.
    pub default: Option<u16>,
    /// A class' quantum is its rate in bytes per second divided by this, within 1000 to 200 000
    /// bytes. At least 1; default 10.
    pub r2q: u32,
    /// Unshaped packets held at most. Default 1000, the transmit queue length of a Linux Ethernet
    /// device.
    pub direct_qlen: u32,
    /// Depth of a bucket of this many bytes. Default [`Depth::Exact`].
    pub depth: Depth,
    /// Ticks per second of the timers that `tc` reckons with: a burst that is not given holds what
    /// leaves within one, beside one packet. At least 1; default 10⁹, that of fine timers; a kernel
    /// without them has its `HZ`, such as 100.
    pub hz: u32,
}

/// Depth, in time, of a bucket of this many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The time these bytes take at the rate.
    #[default]
    Exact,
    /// As in Linux: while a class borrows, its own bucket fills beyond its depth. As `tc` (before
    /// 6.15) passes it: cut to whole microseconds, then to ticks of 64 ns. At 10 Gbit/s a bucket of
    /// 1600 bytes thus loses a quarter.
    Ticks,
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Ticks => "ticks",
        })
    }
}

impl Depth {
    /// Nanoseconds of a bucket of `burst` bytes.
    pub(super) fn nanos(self, burst: Bytes, rate: Rate) -> i64 {
        match self {
            Self::Exact => Cost::new(rate, Framing::default()).nanos(burst),
            Self::Ticks => {
                let micros = (1e6 * (burst.get() as f64 / rate.as_bytes_per_sec() as f64)) as u32;
                i64::from((f64::from(micros) * 15.625) as u32) * 64
            }
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default: None,
            r2q: 10,
            direct_qlen: 1000,
            depth: Depth::Exact,
            hz: 1_000_000_000,
        }
    }
}

impl Config {
    /// Behaves like Linux 6.1 with its `tc`.
    pub fn linux() -> Self {
        Self {
            depth: Depth::Ticks,
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(self.r2q > 0, "r2q", self.r2q, "at least 1")?;
        ConfigError::check(self.hz > 0, "hz", self.hz, "at least 1")
    }
}

/// Parameters of a class of [`Htb`](super::Htb).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// The guaranteed rate, if those of all leaves fit together into the link. Default none: it
    /// must be given.
    pub rate: Rate,
    /// The most it sends, its parent lending the rest. Default its rate: it borrows nothing. Below
    /// its rate, the rate has no effect, as in Linux (`htb_class_mode`).
    pub ceil: Option<Rate>,
    /// Burst at its own rate. Default
    /// [`mtu`](Self::mtu) and what leaves within a tick ([`Config::hz`]), as `tc` computes it.
    pub burst: Option<Bytes>,
    /// Burst above the ceiling. Default as [`burst`](Self::burst), by the ceiling.
    pub cburst: Option<Bytes>,
    /// Priority among borrowers: 0 before 1 before … 7; higher ones count as 7, as in Linux.
    /// Default 0.
    pub prio: u8,
    /// Bytes it sends per turn among those of its priority. Default by [`Config::r2q`].
    pub quantum: Option<Bytes>,
    /// The longest packet expected: decides the default bursts, and what is counted as a giant.
    /// Default 1600 (`tc`).
    pub mtu: Bytes,
    /// Framing of packets on the link. Default their own length.
    pub framing: Framing,
}

impl Default for ClassConfig {
    fn default() -> Self {
        Self {
            rate: Rate::ZERO,
            ceil: None,
            burst: None,
            cburst: None,
            prio: 0,
            quantum: None,
            mtu: Bytes::new(1600),
            framing: Framing::default(),
        }
    }
}

impl ClassConfig {
    /// A class that is guaranteed `rate` and may borrow up to `ceil`.
    pub fn new(rate: Rate, ceil: Rate) -> Self {
        Self {
            rate,
            ceil: Some(ceil),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(
            self.rate > Rate::ZERO,
            "rate",
            units::rate(self.rate),
            "at least 8bit",
        )?;
        let ceil = self.ceil();
        ConfigError::check(
            ceil > Rate::ZERO,
            "ceil",
            units::rate(ceil),
            "at least 8bit",
        )?;
        ConfigError::check(
            self.quantum != Some(Bytes::ZERO),
            "quantum",
            units::size(Bytes::ZERO),
            "at least 1b",
        )
    }

    pub(super) fn ceil(&self) -> Rate {
        self.ceil.unwrap_or(self.rate)
    }

    /// With all defaults filled in.
    pub(super) fn resolved(&self, shape: &Config) -> Self {
        let burst =
            |rate: Rate| self.mtu + Bytes::new(rate.as_bytes_per_sec() / u64::from(shape.hz));
        let quantum =
            Bytes::new((self.rate.as_bytes_per_sec() / u64::from(shape.r2q)).clamp(1000, 200_000));
        Self {
            ceil: Some(self.ceil()),
            burst: Some(self.burst.unwrap_or_else(|| burst(self.rate))),
            cburst: Some(self.cburst.unwrap_or_else(|| burst(self.ceil()))),
            prio: self.prio.min(7),
            quantum: self.quantum.or(Some(quantum)),
            ..self.clone()
        }
    }
}
