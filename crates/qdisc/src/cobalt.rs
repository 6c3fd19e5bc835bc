//! [`Cobalt`]: one FIFO under COBALT, the AQM of CAKE ("CoDel and BLUE alternate"; `net/sched/sch_cake.c`
//! `cobalt_should_drop`).
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

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Backlog, ConfigError, DropReason, Drops, Instant, Item};

pub use aqm::{Aqm, State, Verdict};
pub use params::{Params, Start};

use crate::aqm_fifo::{AqmFifo, FifoAqm};
use crate::codel::Source;
use crate::discipline::{Change, Inspect};
use crate::queue::Queue;
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, Word, Words, units};

/// Parameters of [`Cobalt`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Packets it holds at most; what is above is dropped at the tail and told to BLUE. Default
    /// 1000 (ns-3).
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
    /// As a queue of Linux 6.1's CAKE behaves.
    pub fn linux() -> Self {
        Self {
            cobalt: Params {
                start: Start::Linux,
                ..Params::default()
            },
            ..Self::default()
        }
    }

    /// As ns-3's `CobaltQueueDisc` behaves: a delay above 400 ms counts as a full queue, and
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

impl Options for Config {
    fn kind(&self) -> &'static str {
        "cobalt"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, target TIME, interval TIME, mtu_time TIME, increment SHARE, decrement SHARE, blue_threshold TIME, \
         no_blue_threshold, ecn, noecn, start patient|linux, seed N, linux (all as Linux does), ns3 (all as ns-3 does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            "linux" => self.cobalt = Self::linux().cobalt,
            "ns3" => self.cobalt = Self::ns3().cobalt,
            _ => return self.cobalt.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("limit", Value::Packets(self.limit.into()))];
        options.extend(self.cobalt.options());
        options.push(("seed", Value::Count(self.seed)));
        options
    }
}

/// One FIFO under COBALT.
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
        while let Some(mut packet) = queue.pop() {
            let verdict = self.aqm.judge(&mut self.state, &mut packet, 0, now);
            // The last packet is never dropped: that would cost its sender a timeout and shorten no
            // queue.
            let Some(reason) = verdict.drop.filter(|_| queue.front().is_some()) else {
                self.stats.ecn_mark += u64::from(verdict.marked);
                return Some(packet);
            };
            match reason {
                DropReason::Target => self.stats.drop_target += 1,
                _ => self.stats.drop_blue += 1,
            }
            drops.push(packet, reason);
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

impl<P: Item> Change<P> for Cobalt<P> {
    fn change(
        &mut self,
        words: &mut Words<'_>,
        _now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        let mut config = self.config.clone();
        words.apply(&mut config)?;
        self.reconfigure(config, drops)
            .map_err(|error| words.refused("cobalt", error))
    }
}

impl<P> Inspect for Cobalt<P> {
    fn report(&self) -> Report {
        let Stats {
            drop_target,
            drop_blue,
            ecn_mark,
        } = *self.stats();
        let counters = vec![
            ("count", Value::Count(self.state().count().into())),
            ("dropping", Value::Flag(self.state().is_dropping())),
            ("p_drop", Value::Share(self.state().drop_probability())),
            ("drop_target", Value::Count(drop_target)),
            ("drop_blue", Value::Count(drop_blue)),
            ("drop_overlimit", Value::Count(self.drop_overlimit)),
            ("ecn_mark", Value::Count(ecn_mark)),
        ];
        Report {
            kind: "cobalt",
            options: self.config.options(),
            counters,
            ..Report::default()
        }
    }
}
