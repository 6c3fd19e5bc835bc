//! [`Cobalt`]: one FIFO under COBALT, the AQM of CAKE ("CoDel and BLUE alternate";
//! `net/sched/sch_cake.c` `cobalt_should_drop`).
//!
//! CoDel signals senders that answer; its count decays step by step when the delay falls, so that
//! signals to a queue that returns soon resume at its former pace. BLUE cuts back senders that do
//! not answer: each time the queue overflows it drops with a higher probability, whether a packet
//! could be marked or not.

mod aqm;
mod law;
mod params;
#[cfg(test)]
mod tests;

use core::time::Duration;

use tautline_base::{Backlog, ConfigError, DropReason, Drops, Instant, Item};

pub use aqm::{Aqm, State, Verdict};
pub use params::{Params, Start};

use crate::aqm_fifo::{AqmFifo, FifoAqm};
use crate::codel::Source;
use crate::queue::Queue;

/// Parameters of [`Cobalt`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Limit in packets; packets above it are dropped at the tail and reported to BLUE.
    /// Default 1000 (ns-3).
    pub limit: u32,
    /// Parameters of the algorithm.
    pub cobalt: Params,
    /// Seed of BLUE's random numbers. Default 0.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 1000,
            cobalt: Params::default(),
            seed: 0,
        }
    }
}

impl Config {
    /// Behaves like a queue of Linux 6.1's CAKE.
    pub fn linux() -> Self {
        Self {
            cobalt: Params {
                start: Start::Linux,
                ..Params::default()
            },
            ..Self::default()
        }
    }

    /// Behaves like ns-3's `CobaltQueueDisc`: a delay above 400 ms counts as a full queue, and
    /// nothing is marked unless asked.
    pub fn ns3() -> Self {
        let cobalt = Params {
            blue_threshold: Some(Duration::from_millis(400)),
            ecn: false,
            ..Params::default()
        };
        Self {
            cobalt,
            ..Self::default()
        }
    }
}

/// One FIFO under COBALT.
///
/// ```
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Cobalt, Drops, Qdisc, cobalt::Config};
///
/// let mut cobalt = Cobalt::new(Config { limit: 1, ..Config::default() })?;
/// let mut drops = Drops::new();
/// for _ in 0..2 {
///     cobalt.enqueue(Packet::new((), 1514), Instant::from_secs(1), &mut drops);
/// }
/// assert_eq!(cobalt.drop_overlimit(), 1);
/// assert!(cobalt.state().is_unresponsive()); // BLUE begins to drop
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
pub type Cobalt<P> = AqmFifo<P, Control>;

/// COBALT and the state of its one queue.
#[derive(Debug)]
pub struct Control {
    aqm: Aqm,
    state: State,
    stats: Stats,
}

/// Drops and marks of [`Cobalt`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets dropped by CoDel's part.
    pub drop_target: u64,
    /// Packets dropped by BLUE's part.
    pub drop_blue: u64,
    /// Packets marked.
    pub ecn_mark: u64,
}

impl FifoAqm for Control {
    type Config = Config;

    fn new(config: &Config) -> Result<Self, ConfigError> {
        let aqm = Aqm::new(config.cobalt.clone(), config.seed)?;
        Ok(Self {
            state: aqm.fresh(),
            aqm,
            stats: Stats::default(),
        })
    }

    /// A new seed takes effect with the next queue.
    fn reconfigure(&mut self, _old: &Config, new: &Config) -> Result<(), ConfigError> {
        self.aqm.set_params(new.cobalt.clone())
    }

    #[inline]
    fn limit(config: &Config) -> u32 {
        config.limit
    }

    #[inline]
    fn admit<P: Item>(
        &mut self,
        _config: &Config,
        _packet: &mut P,
        _held: Backlog,
        full: bool,
        now: Instant,
    ) -> Option<DropReason> {
        if full {
            self.aqm.queue_full(&mut self.state, now);
        }
        full.then_some(DropReason::Overlimit)
    }

    #[inline]
    fn dequeue<P: Item>(
        &mut self,
        queue: &mut Queue<P>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Option<P> {
        // The packet stays in one place, the result: moving it costs more than judging it.
        let mut head = queue.pop();
        while let Some(packet) = &mut head {
            let verdict = self.aqm.judge(&mut self.state, packet, 0, now);
            // The last packet is never dropped: that would cost its sender a timeout and shorten no
            // queue.
            let Some(reason) = verdict.drop.filter(|_| queue.front().is_some()) else {
                self.stats.ecn_mark += u64::from(verdict.marked);
                return head;
            };
            match reason {
                DropReason::Target => self.stats.drop_target += 1,
                _ => self.stats.drop_blue += 1,
            }
            if let Some(packet) = core::mem::replace(&mut head, queue.pop()) {
                drops.push(packet, reason);
            }
        }
        self.aqm.queue_empty(&mut self.state, now);
        None
    }
}

impl<P> Cobalt<P> {
    /// The state of the queue.
    pub fn state(&self) -> &State {
        &self.control.state
    }

    /// Drops and marks.
    pub fn stats(&self) -> &Stats {
        &self.control.stats
    }
}
