//! [`Blue`]: a FIFO that signals with a probability learnt from overflow and emptiness (W. Feng, K.
//! Shin, D. Kandlur, D. Saha, "The BLUE active queue management algorithms", IEEE/ACM Transactions
//! on Networking, 2002).
//!
//! RED derives the number of senders to signal from the queue length; with many senders the length
//! says little. BLUE remembers what probability it took: each time the buffer overflows it signals
//! more, each time the link finds nothing to send it signals less. [`Cobalt`](crate::Cobalt) uses
//! the same idea against senders that do not answer.

mod aqm;
#[cfg(test)]
mod tests;

use core::time::Duration;

use tautline_base::{Backlog, ConfigError, DropReason, Drops, Instant, Item};

pub use aqm::Aqm;

use crate::aqm_fifo::{AqmFifo, FifoAqm, Peek};
use crate::codel::Source;
use crate::queue::Queue;
use crate::random::Random;
use crate::units;

/// Parameters of [`Blue`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Limit in packets. Default 1000, the transmit queue length of a Linux Ethernet
    /// device.
    pub limit: u32,
    /// An arrival at a longer queue also counts as an overflow, which keeps the delay low and
    /// leaves space for bursts. Default none: only a real overflow is one.
    pub threshold: Option<u32>,
    /// Increment of the probability. Default 0.02 (Feng et al., section III).
    pub d1: f64,
    /// Decrement of the probability; much less than `d1`, since a queue runs empty more easily than
    /// it overflows. Default 0.002 (Feng et al.).
    pub d2: f64,
    /// Time between two moves, in which the last one can show its effect. Default 100 ms (Feng et
    /// al.).
    pub freeze_time: Duration,
    /// Mark instead of dropping where the packet allows it. Default off, as in Linux's AQMs.
    pub ecn: bool,
    /// Seed of the random number generator. Default 0.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 1000,
            threshold: None,
            d1: 0.02,
            d2: 0.002,
            freeze_time: Duration::from_millis(100),
            ecn: false,
            seed: 0,
        }
    }
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        for (name, step) in [("d1", self.d1), ("d2", self.d2)] {
            ConfigError::check((0.0..=1.0).contains(&step), name, step, "from 0 to 1")?;
        }
        let freeze = self.freeze_time;
        ConfigError::check(
            !freeze.is_zero(),
            "freeze_time",
            units::time(freeze),
            "above 0",
        )
    }
}

/// One FIFO under BLUE.
///
/// ```
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Blue, Drops, Qdisc, blue::Config};
///
/// let mut blue = Blue::new(Config { limit: 1, ..Config::default() })?;
/// let mut drops = Drops::new();
/// for _ in 0..2 {
///     blue.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
/// }
/// assert_eq!(blue.aqm().probability(), 0.02); // one overflow
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
pub type Blue<P> = AqmFifo<P, Control>;

/// BLUE and its random number generator.
#[derive(Debug)]
pub struct Control {
    aqm: Aqm,
    random: Random,
    stats: Stats,
}

/// Marks and drops of [`Blue`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets marked by chance.
    pub marked: u64,
    /// Packets dropped by chance.
    pub early: u64,
}

impl FifoAqm for Control {
    type Config = Config;

    fn new(config: &Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            aqm: Aqm::new(config.d1, config.d2, config.freeze_time),
            random: Random::new(config.seed),
            stats: Stats::default(),
        })
    }

    fn reconfigure(&mut self, old: &Config, new: &Config) -> Result<(), ConfigError> {
        new.check()?;
        ConfigError::check(
            new.seed == old.seed,
            "seed",
            new.seed,
            "what it was at creation",
        )?;
        self.aqm = self.aqm.with_steps(new.d1, new.d2, new.freeze_time);
        Ok(())
    }

    #[inline]
    fn limit(config: &Config) -> u32 {
        config.limit
    }

    #[inline]
    fn admit<P: Item>(
        &mut self,
        config: &Config,
        packet: &mut P,
        held: Backlog,
        full: bool,
        now: Instant,
    ) -> Option<DropReason> {
        if held.packets == 0 {
            self.aqm.empty(now);
        } else if config
            .threshold
            .is_some_and(|most| held.packets > most as usize)
        {
            self.aqm.overflow(now);
        }
        if self.random.chance(self.aqm.probability()) {
            if !(config.ecn && packet.set_ce()) {
                self.stats.early += 1;
                return Some(DropReason::Unresponsive);
            }
            self.stats.marked += 1;
        }
        if full {
            self.aqm.overflow(now);
            return Some(DropReason::Overlimit);
        }
        self.aqm.fill(now);
        None
    }

    #[inline]
    fn dequeue<P: Item>(
        &mut self,
        queue: &mut Queue<P>,
        now: Instant,
        _drops: &mut Drops<P>,
    ) -> Option<P> {
        let packet = queue.pop();
        if queue.front().is_none() {
            self.aqm.empty(now);
        }
        packet
    }

    #[inline]
    fn peek(&self) -> Peek {
        Peek::Head
    }
}

impl<P> Blue<P> {
    /// The probability of a signal, as of the last call.
    pub fn aqm(&self) -> &Aqm {
        &self.control.aqm
    }

    /// Marks and drops so far.
    pub fn stats(&self) -> &Stats {
        &self.control.stats
    }
}
