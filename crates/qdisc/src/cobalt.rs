//! [`Cobalt`]: one FIFO under COBALT, the AQM of CAKE ("CoDel and BLUE alternate"; spec §10.7).
//!
//! CoDel tells senders that answer; its count decays step by step when the delay falls, so that a
//! queue which returns soon is told off at the pace it was used to. BLUE cuts back senders that do
//! not answer: each time the queue overflows it drops with a higher probability, whether a packet
//! could be marked or not.
//!
//! | module | holds |
//! |---|---|
//! | `params` | [`Params`]: target, interval, BLUE's steps, [`Start`] |
//! | `law` | the time between signals, in Linux' integers |
//! | `aqm` | [`Aqm`]: the algorithm over any queue, [`State`] per queue |

mod aqm;
mod law;
mod params;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Backlog, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

pub use aqm::{Aqm, State, Verdict};
pub use params::{Params, Start};

use crate::discipline::{Change, Inspect};
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
    /// Seed of BLUE's dice. Default 0.
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
#[derive(Debug)]
pub struct Cobalt<P> {
    config: Config,
    aqm: Aqm,
    state: State,
    packets: VecDeque<P>,
    backlog: Backlog,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    drop_target: u64,
    drop_blue: u64,
    drop_overlimit: u64,
    ecn_mark: u64,
}

impl<P> Cobalt<P> {
    /// An empty queue.
    ///
    /// # Errors
    /// If `interval`, `increment` or `decrement` is outside its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let aqm = Aqm::new(config.cobalt.clone(), config.seed)?;
        let (state, counters) = (aqm.fresh(), Counters::default());
        Ok(Self {
            config,
            aqm,
            state,
            packets: VecDeque::new(),
            backlog: Backlog::default(),
            counters,
        })
    }

    /// Where the queue stands.
    pub fn state(&self) -> &State {
        &self.state
    }
}

impl<P: Item> Cobalt<P> {
    /// Takes new parameters; a new seed begins with the next queue. Packets above a lowered limit
    /// are dropped at the head.
    ///
    /// # Errors
    /// As [`new`](Self::new); then nothing changes.
    pub fn reconfigure(&mut self, config: Config, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        self.aqm.set_params(config.cobalt.clone())?;
        self.config = config;
        while self.packets.len() > self.config.limit as usize
            && let Some(packet) = self.pop()
        {
            self.counters.drop_overlimit += 1;
            drops.push(packet, DropReason::Overlimit);
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.backlog.remove(packet.len());
        Some(packet)
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

impl<P: Item> Qdisc<P> for Cobalt<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        if self.packets.len() >= self.config.limit as usize {
            self.aqm.queue_full(&mut self.state, now);
            self.counters.drop_overlimit += 1;
            return drops.push(packet, DropReason::Overlimit);
        }
        packet.set_enqueued(now);
        self.backlog.add(packet.len());
        self.packets.push_back(packet);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        while let Some(mut packet) = self.pop() {
            let verdict = self.aqm.judge(&mut self.state, &mut packet, 0, now);
            // The last packet is never dropped: that would cost its sender a timeout and shorten no
            // queue.
            let Some(reason) = verdict.drop.filter(|_| !self.packets.is_empty()) else {
                self.counters.ecn_mark += u64::from(verdict.marked);
                return Some(packet);
            };
            match reason {
                DropReason::Target => self.counters.drop_target += 1,
                _ => self.counters.drop_blue += 1,
            }
            drops.push(packet, reason);
        }
        self.aqm.queue_empty(&mut self.state, now);
        None
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.packets.is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P> Inspect for Cobalt<P> {
    fn report(&self) -> Report {
        let Counters {
            drop_target,
            drop_blue,
            drop_overlimit,
            ecn_mark,
        } = self.counters;
        let counters = vec![
            ("count", Value::Count(self.state.count().into())),
            ("dropping", Value::Flag(self.state.is_dropping())),
            ("p_drop", Value::Share(self.state.drop_probability())),
            ("drop_target", Value::Count(drop_target)),
            ("drop_blue", Value::Count(drop_blue)),
            ("drop_overlimit", Value::Count(drop_overlimit)),
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
