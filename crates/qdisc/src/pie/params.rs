//! [`Params`]: the parameters of PIE; shared by all queues it governs.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use tautline_base::{Bytes, ConfigError};

use crate::units;

/// The specification followed, where they differ in more than parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Law {
    /// RFC 8033 with its appendix B: packets are chosen without chance clusters, the probability
    /// rises by at most 2 % per update above 10 %, and decays by 2 % per update while the delay
    /// stays below half the target. Not taken over from the appendix: PIE is always active (no
    /// third of a buffer decides), and nothing accumulates while a burst is let through (§4.4
    /// bypasses all).
    #[default]
    Rfc8033,
    /// RFC 8034, for DOCSIS modems: inactive below a third of the buffer, the burst allowance
    /// begins with the first drop, packets are chosen in proportion to their length.
    Rfc8034,
    /// Linux's integers, on a clock of 64 ns: the burst allowance is used up by dequeues, the
    /// probability rises by 2 % more above 250 ms. Two of its flaws show in traces and are copied:
    /// the probability can grow far beyond one, after which everything is dropped for a long time;
    /// and the accumulated probability is not cleared by a mark, so that marks can come in unbroken
    /// rows.
    Linux,
}

/// Nanoseconds of Linux's tick, as a shift.
const TICK_SHIFT: u32 = 6;

impl Law {
    /// A time in the law's own ticks.
    #[inline]
    pub(crate) const fn tick(self, nanos: u64) -> u64 {
        match self {
            Self::Rfc8033 | Self::Rfc8034 => nanos,
            Self::Linux => nanos >> TICK_SHIFT,
        }
    }

    /// The time of so many ticks.
    pub(crate) fn time(self, ticks: u64) -> Duration {
        let shift = if self == Self::Linux { TICK_SHIFT } else { 0 };
        Duration::from_nanos(ticks.saturating_mul(1 << shift))
    }

    /// Ticks of `time`, which saturates.
    pub(crate) fn ticks_of(self, time: Duration) -> u64 {
        self.tick(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rfc8033 => "rfc8033",
            Self::Rfc8034 => "rfc8034",
            Self::Linux => "linux",
        })
    }
}

/// How PIE determines the queueing delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DelaySource {
    /// From the sojourn time of the last packet. The default: right below every device.
    #[default]
    Timestamp,
    /// From the backlog and an estimate of the departure rate, measured over
    /// [`Params::dq_threshold`]. A device that takes packets in bursts makes the estimate far too
    /// high: a whole measurement fits into one burst, and PIE never drops.
    DepartureRate,
}

/// Parameters of the algorithm. `Default` is RFC 8033's.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The delay it steers for. Default 15 ms (RFC 8033).
    pub target: Duration,
    /// Time between updates of the probability. Default 15 ms (RFC 8033).
    pub tupdate: Duration,
    /// Weight of the delay's distance from the target, per second. Default 1/8 (RFC 8033). In words
    /// in sixteenths, as in `tc`.
    pub alpha: f64,
    /// Weight of the delay's growth, per second. Default 5/4 (RFC 8033). In words in sixteenths, as
    /// in `tc`.
    pub beta: f64,
    /// Burst allowance: time without drops after the queue was short. Default 150 ms (RFC 8033).
    pub max_burst: Duration,
    /// Mark instead of dropping where the packet allows it. Default off, as in Linux.
    pub ecn: bool,
    /// Above this probability, in percent, packets are dropped also if they could be marked.
    /// Default 10 (RFC 8033).
    pub ecn_prob: u8,
    /// Spare short packets, in proportion to their length. Default off.
    pub bytemode: bool,
    /// The longest usual packet: a backlog of two is let be. Default 1514 bytes, one Ethernet
    /// frame.
    pub mtu: Bytes,
    /// Source of the queueing delay. Default [`DelaySource::Timestamp`].
    pub delay: DelaySource,
    /// A departure rate is measured only while at least so many bytes are queued, and over at least
    /// as many. Default 16 KiB (RFC 8033: 2^14; Linux's constant too, which once was 10 000 bytes).
    pub dq_threshold: Bytes,
    /// Arithmetic and rules. Default [`Law::Rfc8033`].
    pub law: Law,
    /// Backlog from which on PIE becomes active; of [`Law::Rfc8034`] alone, which says a third of
    /// the buffer. Default 0.
    pub active_above: Bytes,
    /// Ticks per second of the timer that Linux would update by: `tupdate` and `first_update` are
    /// rounded up to whole ticks, and one more passes, since Linux never lets a timer fire early.
    /// Default none.
    pub hz: Option<NonZeroU32>,
    /// Time from the first call to the first update. Default 15 ms, one `tupdate`.
    pub first_update: Duration,
    /// Seed of the random number generator. Default 0.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            max_burst: Duration::from_millis(150),
            ecn: false,
            ecn_prob: 10,
            bytemode: false,
            mtu: Bytes::new(1514),
            delay: DelaySource::Timestamp,
            dq_threshold: Bytes::kib(16),
            law: Law::Rfc8033,
            active_above: Bytes::ZERO,
            hz: None,
            first_update: Duration::from_millis(15),
            seed: 0,
        }
    }
}

/// Sixteenths: the unit of `alpha` and `beta` in words.
const SIXTEENTHS: f64 = 16.0;
/// The largest weight, in sixteenths.
const MAX_WEIGHT: f64 = 2048.0;

impl Params {
    /// Behaves like Linux's `pie`, with a timer of 250 ticks per second: updates every 20 ms, the
    /// first after 504 ms.
    pub fn linux() -> Self {
        let first_update = Duration::from_millis(500);
        Self {
            law: Law::Linux,
            hz: NonZeroU32::new(250),
            first_update,
            ..Self::default()
        }
    }

    /// As RFC 8034 asks of a modem with a buffer of `buffer`: target 10 ms, updates each 16 ms,
    /// twice the weights.
    pub fn docsis(buffer: Bytes) -> Self {
        Self {
            target: Duration::from_millis(10),
            tupdate: Duration::from_millis(16),
            alpha: 0.25,
            beta: 2.5,
            max_burst: Duration::from_millis(142),
            mtu: Bytes::new(1024),
            law: Law::Rfc8034,
            active_above: buffer / 3,
            first_update: Duration::from_millis(16),
            ..Self::default()
        }
    }

    /// Time between updates, on the timer it has.
    pub(crate) fn period(&self) -> Duration {
        self.timed(self.tupdate)
    }

    /// Time to the first update, on the timer it has.
    pub(crate) fn first(&self) -> Duration {
        self.timed(self.first_update)
    }

    fn timed(&self, time: Duration) -> Duration {
        let Some(hz) = self.hz else { return time };
        let tick = 1_000_000_000 / u64::from(hz.get());
        let ticks = u64::try_from(time.as_nanos().div_ceil(tick.into())).unwrap_or(u64::MAX);
        Duration::from_nanos(ticks.saturating_add(1).saturating_mul(tick))
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let positive = !self.tupdate.is_zero();
        ConfigError::check(
            positive,
            "tupdate",
            units::time(self.tupdate),
            "longer than 0",
        )?;
        for (name, weight) in [
            ("alpha", self.alpha * SIXTEENTHS),
            ("beta", self.beta * SIXTEENTHS),
        ] {
            let whole = self.law != Law::Linux || weight % 1.0 == 0.0;
            let allowed = "from 0 to 2048 sixteenths, whole ones with law linux";
            ConfigError::check(
                (0.0..=MAX_WEIGHT).contains(&weight) && whole,
                name,
                weight,
                allowed,
            )?;
        }
        ConfigError::check(
            self.mtu > Bytes::ZERO,
            "mtu",
            units::size(self.mtu),
            "at least 1b",
        )?;
        let tickable = self.hz.is_none_or(|hz| hz.get() <= 1_000_000_000);
        ConfigError::check(
            tickable,
            "hz",
            self.hz.map_or(0, NonZeroU32::get),
            "from 1 to 1000000000",
        )?;
        ConfigError::check(
            self.ecn_prob <= 100,
            "ecn_prob",
            self.ecn_prob,
            "from 0 to 100 percent",
        )
    }
}
