//! [`Config`]: the path that netem emulates.

use core::time::Duration;

use tautline_base::{Bytes, ConfigError, Rate};

use super::delay::Distribution;

/// A probability, and its correlation with the previous draw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chance {
    /// Share of one. Default 0: never.
    pub probability: f64,
    /// Correlation: share of the last random number in the next one, 0 to 1. Default 0:
    /// independent. A correlation changes how often the thing happens; a Markov model
    /// ([`Loss::States`], [`Loss::GilbertElliott`]) says what it does.
    pub correlation: f64,
}

impl Chance {
    /// Independent events of `probability`.
    pub const fn of(probability: f64) -> Self {
        Self {
            probability,
            correlation: 0.0,
        }
    }
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Each by chance.
    Random(Chance),
    /// By a Markov chain of four states.
    States(States),
    /// By a channel that is good or bad.
    GilbertElliott(GilbertElliott),
}

impl Default for Loss {
    fn default() -> Self {
        Self::Random(Chance::default())
    }
}

/// Probabilities of the transitions between: 1, received; 2, received within a burst; 3, lost
/// within a burst; 4, lost alone. From 4 the chain returns to 1. The rest of each state's
/// probability keeps the chain in that state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct States {
    /// From 1 to 3: a burst begins.
    pub p13: f64,
    /// From 3 to 1: the burst ends.
    pub p31: f64,
    /// From 3 to 2: a packet passes within the burst.
    pub p32: f64,
    /// From 2 to 3.
    pub p23: f64,
    /// From 1 to 4: one packet is lost.
    pub p14: f64,
}

/// A channel that is good or bad. A packet's fate is that of the state it finds; then the state may
/// change for the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// From good to bad, for each packet (`p`).
    pub to_bad: f64,
    /// From bad to good, for each packet (`r`).
    pub to_good: f64,
    /// Share lost while it is bad (`1-h`).
    pub bad_loss: f64,
    /// Share lost while it is good (`1-k`).
    pub good_loss: f64,
}

/// Packets that overtake all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that the candidate overtakes.
    pub chance: Chance,
    /// After one overtook, the next candidate is this many packets later, at least 1.
    pub gap: u32,
}

/// The link that packets are sent over, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its rate, above 0.
    pub rate: Rate,
    /// Bytes added to every packet, or taken off.
    pub packet_overhead: i32,
    /// Division of packets into cells, if any.
    pub cells: Option<Cells>,
}

/// Cells of a fixed size; the last of a packet is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Bytes of a packet that a cell carries, at least 1.
    pub size: u32,
    /// Bytes added to every cell, or taken off.
    pub overhead: i32,
}

impl Link {
    /// Transmission time of a packet of `len`.
    pub(super) fn time(&self, len: Bytes) -> Duration {
        let mut bytes = (i128::from(len.get()) + i128::from(self.packet_overhead)).max(0);
        if let Some(Cells { size, overhead }) = self.cells {
            let (size, overhead) = (i128::from(size), i128::from(overhead));
            bytes = ((bytes + size - 1) / size * (size + overhead)).max(0);
        }
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)) / self.rate
    }
}

/// Packets leave only while a window is open, as on a shared medium.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slots {
    /// Time from one window to the next.
    pub every: Spacing,
    /// Packets that leave in one; `None` for any number.
    pub packets: Option<u32>,
    /// Bytes that leave in one, but for the rest of a packet; `None` for any number.
    pub bytes: Option<Bytes>,
}

/// A random time between windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// Any time in a range, all equally likely.
    Range {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A time that is spread about a mean.
    Spread {
        /// Its distribution.
        distribution: Distribution,
        /// The mean.
        delay: Duration,
        /// Width of the distribution.
        jitter: Duration,
    },
}

/// Mapping of a random number to a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// By its size: near numbers give near delays, so correlated numbers give correlated delays.
    /// The default.
    #[default]
    Scaled,
    /// By its remainder, as in Linux. A correlation of the delays then has no effect that could be
    /// seen.
    Remainder,
}

/// Parameters of [`Netem`](super::Netem). The default path does nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Packets held at most. Default 1000.
    pub limit: u32,
    /// Delay of every packet. Default 0.
    pub delay: Duration,
    /// Width of the distribution about it; a packet that draws less than nothing leaves at once.
    /// Jitter reorders, unless there is a `link` or a qdisc below. Default 0.
    pub jitter: Duration,
    /// Correlation: share of one packet's random number in the next one's, 0 to 1. Default 0. It
    /// also narrows the spread.
    pub delay_correlation: f64,
    /// Distribution of delays. Default [`Distribution::Uniform`].
    pub distribution: Distribution,
    /// Mapping of random numbers to delays. Default [`Draw::Scaled`].
    pub draw: Draw,
    /// Which packets are lost. Default none.
    pub loss: Loss,
    /// Whether packets that understand it are marked instead of lost. Default false.
    pub ecn: bool,
    /// Packets to duplicate. Default none.
    pub duplicate: Chance,
    /// Packets to corrupt by one flipped bit. Default none.
    pub corrupt: Chance,
    /// Packets that overtake; needs a delay. Default none.
    pub reorder: Option<Reorder>,
    /// The link, which takes its time for each packet. Default none.
    pub link: Option<Link>,
    /// Windows in which packets leave. Default none: they leave at any time.
    pub slots: Option<Slots>,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 1000,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            delay_correlation: 0.0,
            distribution: Distribution::Uniform,
            draw: Draw::Scaled,
            loss: Loss::default(),
            ecn: false,
            duplicate: Chance::default(),
            corrupt: Chance::default(),
            reorder: None,
            link: None,
            slots: None,
            seed: 0,
        }
    }
}

impl Config {
    /// Behaves like Linux.
    pub fn linux() -> Self {
        Self {
            draw: Draw::Remainder,
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        shares("delay", &[self.delay_correlation])?;
        let spread = self.distribution == Distribution::Uniform || !self.jitter.is_zero();
        ConfigError::check(
            spread,
            "distribution",
            self.distribution,
            "uniform where there is no jitter",
        )?;
        self.check_loss()?;
        for (
            name,
            Chance {
                probability,
                correlation,
            },
        ) in [("duplicate", self.duplicate), ("corrupt", self.corrupt)]
        {
            shares(name, &[probability, correlation])?;
        }
        self.check_order_and_link()
    }

    fn check_loss(&self) -> Result<(), ConfigError> {
        match self.loss {
            Loss::Random(Chance {
                probability,
                correlation,
            }) => shares("loss", &[probability, correlation]),
            Loss::States(States {
                p13,
                p31,
                p32,
                p23,
                p14,
            }) => {
                shares("loss", &[p13, p31, p32, p23, p14])?;
                let sum = (p13 + p14).max(p31 + p32);
                ConfigError::check(
                    sum <= 1.0 + SLIP,
                    "loss",
                    sum,
                    "at most 100% from one state together",
                )
            }
            Loss::GilbertElliott(GilbertElliott {
                to_bad,
                to_good,
                bad_loss,
                good_loss,
            }) => shares("loss", &[to_bad, to_good, bad_loss, good_loss]),
        }
    }

    fn check_order_and_link(&self) -> Result<(), ConfigError> {
        if let Some(Reorder { chance, gap }) = self.reorder {
            shares("reorder", &[chance.probability, chance.correlation])?;
            ConfigError::check(gap >= 1, "gap", gap, "at least 1")?;
            ConfigError::check(
                !self.delay.is_zero(),
                "reorder",
                "without delay",
                "used with a delay, or nothing is overtaken",
            )?;
        }
        if let Some(Link {
            rate,
            packet_overhead: _,
            cells,
        }) = self.link
        {
            ConfigError::check(rate > Rate::ZERO, "rate", 0, "above 0")?;
            ConfigError::check(
                cells.is_none_or(|cells| cells.size >= 1),
                "rate",
                0,
                "given with cells of at least one byte",
            )?;
        }
        if let Some(Slots {
            every,
            packets,
            bytes,
        }) = self.slots
        {
            if let Spacing::Range { min, max } = every {
                ConfigError::check(
                    min <= max,
                    "slot",
                    "a range that ends before it begins",
                    "a range, shortest first",
                )?;
            }
            ConfigError::check(packets != Some(0), "packets", 0, "at least 1")?;
            ConfigError::check(bytes != Some(Bytes::ZERO), "bytes", 0, "at least 1")?;
        }
        Ok(())
    }
}

/// Excess of a sum of percentages over one that rounding explains.
const SLIP: f64 = 1e-9;

/// Refuses the first of `shares` that is no share of one.
fn shares(name: &'static str, shares: &[f64]) -> Result<(), ConfigError> {
    let bad = shares.iter().find(|share| !(0.0..=1.0).contains(*share));
    bad.map_or(Ok(()), |bad| {
        ConfigError::check(false, name, bad, "shares from 0% to 100%")
    })
}
