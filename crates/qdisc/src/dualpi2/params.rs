//! [`Config`]: the parameters of DualPI2, with `tc`'s names.

use core::time::Duration;

use tautline_base::{Bytes, ConfigError, Ecn};

use crate::units;

/// The low-latency queue's own marking rule, in addition to the coupling from the classic queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// A packet that stayed longer than this is marked. Linux: 1 ms.
    Delay(Duration),
    /// A packet that leaves more than so many in its queue is marked.
    Packets(u32),
    /// The probability of a mark rises from 0 at a delay of `min` to 1 at `min + range`; the
    /// coupled probability counts if it is larger, and marks are spread evenly instead of at
    /// random, in both queues (RFC 9332 appendix A).
    Ramp {
        /// Delays up to this are not marked. RFC 9332: 800 µs.
        min: Duration,
        /// Width of the ramp, at whose end every packet is marked. RFC 9332: 400 µs.
        range: Duration,
    },
}

/// The action when marks no longer suffice: when the coupled probability exceeds one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// Packets of both queues are dropped, whether they could be marked or not. The default.
    #[default]
    Drop,
    /// The probability rises no further, and the queues grow up to the limit.
    Overflow,
}

/// When the coupled probability decides about packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DropAt {
    /// On arrival.
    Enqueue,
    /// At dequeue: the sender learns it earlier by the time they would have waited. The default.
    #[default]
    Dequeue,
}

/// Which packets go to the low-latency queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identifier {
    /// ECT(1) and CE: the packets of L4S (RFC 9331). The default.
    #[default]
    L4sEct,
    /// All that can be marked.
    AnyEct,
}

impl Identifier {
    /// Whether packets with this TOS byte are meant.
    pub(crate) const fn selects(self, tos: u8) -> bool {
        match (self, Ecn::of_tos(tos)) {
            (_, Ecn::Ect1 | Ecn::Ce) | (Self::AnyEct, Ecn::Ect0) => true,
            (Self::L4sEct, Ecn::Ect0) | (_, Ecn::NotEct) => false,
        }
    }
}

/// Parameters of [`DualPi2`](crate::DualPi2). `Default` is Linux's.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Limit of both queues together in packets. Default 10 000 (Linux).
    pub limit: u32,
    /// Memory limit of both queues together. Default none given: twice as much as `limit` full
    /// packets (Linux).
    pub memory_limit: Option<Bytes>,
    /// The delay that the classic queue is steered for. Default 15 ms (RFC 9332).
    pub target: Duration,
    /// Time between updates of the probability. Default 16 ms (RFC 9332).
    pub tupdate: Duration,
    /// Weight of the delay's distance from the target, per second. Default 0.16 (RFC 9332, for
    /// round trips up to 100 ms).
    pub alpha: f64,
    /// Weight of the delay's growth, per second. Default 3.2 (Linux; RFC 9332 has 3).
    pub beta: f64,
    /// The low-latency queue's own marking rule. Default above 1 ms (Linux).
    pub native: Native,
    /// The low-latency queue does so only while it holds at least so many more packets. Default 0.
    pub min_qlen_step: u32,
    /// Coupling factor k: a low-latency packet's marking probability relative to the square root of
    /// the classic drop probability. Default 2 (RFC 9332).
    pub coupling: u8,
    /// The action when marks no longer suffice. Default [`Overload::Drop`].
    pub overload: Overload,
    /// When the coupled probability decides about packets; about those under a [`Native::Ramp`]
    /// always at dequeue. Default [`DropAt::Dequeue`].
    pub drop_at: DropAt,
    /// Which packets go to the low-latency queue. Default [`Identifier::L4sEct`].
    pub identifier: Identifier,
    /// Whether packets marked as not queue-building (NQB, DSCP 45) go to the low-latency queue, too
    /// (RFC 9956). Nothing polices them here: trust the marks or rewrite them first. Default no
    /// (Linux has no such option).
    pub nqb: bool,
    /// Percent of the link that the classic queue gets at least, while both queues hold packets.
    /// Default 10 (Linux).
    pub classic_protection: u8,
    /// Whether packets of several segments are split on arrival, so that each segment is marked
    /// separately. Default yes (Linux).
    pub split_gso: bool,
    /// The longest usual packet: while both queues together hold less than two, nothing is dropped.
    /// Default 1514 bytes.
    pub mtu: Bytes,
    /// Seed of the random number generator. Default 0.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 10_000,
            memory_limit: None,
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            native: Native::Delay(Duration::from_millis(1)),
            min_qlen_step: 0,
            coupling: 2,
            overload: Overload::default(),
            drop_at: DropAt::default(),
            identifier: Identifier::default(),
            nqb: false,
            classic_protection: 10,
            split_gso: true,
            mtu: Bytes::new(1514),
            seed: 0,
        }
    }
}

/// RFC 9332's ramp.
const RAMP_MIN: Duration = Duration::from_micros(800);
const RAMP_RANGE: Duration = Duration::from_micros(400);

/// Code point of traffic that is not queue-building (RFC 9956).
const NQB: u8 = 45;

/// The largest weight, per second.
const MAX_WEIGHT: f64 = 256.0;

impl Config {
    /// As RFC 9332 computes in its appendix A: a ramp that does not mark the only packet of its
    /// queue, marks spread evenly, weights for round trips up to 100 ms.
    pub fn rfc9332() -> Self {
        let native = Native::Ramp {
            min: RAMP_MIN,
            range: RAMP_RANGE,
        };
        Self {
            native,
            min_qlen_step: 1,
            beta: 3.0,
            ..Self::default()
        }
    }

    /// Sets target, update interval and weights for round trips that are usually `typical` and at
    /// most `max` (RFC 9332 §A.1).
    pub fn for_round_trips(self, typical: Duration, max: Duration) -> Self {
        let tupdate = typical.min(max / 3);
        let seconds = max.as_secs_f64();
        let alpha = 0.1 * tupdate.as_secs_f64() / (seconds * seconds);
        Self {
            target: typical,
            tupdate,
            alpha,
            beta: 0.3 / seconds,
            ..self
        }
    }

    /// Whether a packet with this TOS byte goes to the low-latency queue by itself.
    pub(crate) const fn selects(&self, tos: u8) -> bool {
        self.identifier.selects(tos) || (self.nqb && tos >> 2 == NQB)
    }

    /// The memory limit in force.
    pub(crate) fn memory(&self) -> Bytes {
        self.memory_limit.unwrap_or_else(|| {
            Bytes::new(
                self.mtu
                    .get()
                    .saturating_mul(2)
                    .saturating_mul(self.limit.into()),
            )
        })
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(
            !self.tupdate.is_zero(),
            "tupdate",
            units::time(self.tupdate),
            "longer than 0",
        )?;
        for (name, weight) in [("alpha", self.alpha), ("beta", self.beta)] {
            ConfigError::check(
                (0.0..=MAX_WEIGHT).contains(&weight),
                name,
                weight,
                "from 0 to 256 per second",
            )?;
        }
        ConfigError::check(
            self.coupling >= 1,
            "coupling_factor",
            self.coupling,
            "from 1 to 255",
        )?;
        let share = self.classic_protection;
        ConfigError::check(
            share <= 100,
            "classic_protection",
            share,
            "from 0 to 100 percent",
        )?;
        ConfigError::check(
            self.mtu > Bytes::ZERO,
            "mtu",
            units::size(self.mtu),
            "at least 1b",
        )
    }

    /// Start and range of the ramp; the defaults if [`Native`] is not a ramp.
    pub fn ramp(&self) -> (Duration, Duration) {
        match self.native {
            Native::Ramp { min, range } => (min, range),
            Native::Delay(_) | Native::Packets(_) => (RAMP_MIN, RAMP_RANGE),
        }
    }
}
