//! [`Pie`]: proportional integral controller enhanced (RFC 8033; RFC 8034 for DOCSIS; `tc`'s
//! `pie`).
//!
//! | module | holds |
//! |---|---|
//! | `params` | [`Params`]: target, update interval, weights, burst allowance; [`Law`], [`DelaySource`] |
//! | `controller` | the drop probability from the delay, in 56-bit fractions |
//! | `meter` | the departure rate, and the time between dequeues |
//! | `aqm` | [`Aqm`]: the algorithm over any queue, [`State`] per queue, shared [`Stats`] |

mod aqm;
mod controller;
mod meter;
mod params;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

pub use aqm::{Aqm, State, Stats, Verdict};
pub use params::{DelaySource, Law, Params};

use crate::codel::Source;
use crate::discipline::{Change, Inspect};
use crate::queue::Queue;
use crate::report::{Report, Value};
use crate::words::{Options, PACKETS, ParseError, Word, Words, units};

/// Parameters of [`Pie`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Packets it holds at most; what is above is dropped at the tail. Default 1000 (Linux).
    pub limit: u32,
    /// Parameters of the algorithm.
    pub pie: Params,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 1000,
            pie: Params::default(),
        }
    }
}

impl Config {
    /// As Linux' `pie` behaves, with a timer of 250 ticks per second.
    pub fn linux() -> Self {
        Self {
            pie: Params::linux(),
            ..Self::default()
        }
    }

    /// As RFC 8034 asks of a DOCSIS modem that buffers `limit` full packets.
    pub fn docsis(limit: u32) -> Self {
        Self {
            limit,
            pie: Params::docsis(Bytes::new(1514) * u64::from(limit)),
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "pie"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, target TIME, tupdate TIME, alpha SIXTEENTHS, beta SIXTEENTHS, ecn, noecn, bytemode, nobytemode, \
         dq_rate_estimator, no_dq_rate_estimator, dq_threshold SIZE, ecn_prob PERCENT, max_burst TIME, mtu SIZE, law rfc8033|rfc8034|linux, \
         active_above SIZE, hz N, first_update TIME, seed N, linux (all as Linux does), docsis (all as RFC 8034 does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "linux" => {
                self.pie = Params {
                    seed: self.pie.seed,
                    ..Params::linux()
                }
            }
            "docsis" => {
                self.pie = Params {
                    seed: self.pie.seed,
                    ..Self::docsis(self.limit).pie
                }
            }
            _ => return self.pie.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("limit", Value::Packets(self.limit.into()))];
        options.extend(self.pie.options());
        options
    }
}

/// One FIFO under PIE.
#[derive(Debug)]
pub struct Pie<P> {
    config: Config,
    aqm: Aqm,
    state: State,
    queue: Queue<P>,
    /// Only with [`Law::Linux`]: a packet that a parent has looked at. For Linux it has left, as
    /// far as rate and delay are concerned, and still counts in backlog and limit.
    looked_at: Option<P>,
    packets_in: u64,
    overlimit: u64,
    max_queue: usize,
}

impl<P> Pie<P> {
    /// An empty queue. Its clock starts with the first call.
    ///
    /// # Errors
    /// As [`Aqm::new`].
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self {
            aqm: Aqm::new(config.pie.clone())?,
            config,
            state: State::default(),
            queue: Queue::new(),
            looked_at: None,
            packets_in: 0,
            overlimit: 0,
            max_queue: 0,
        })
    }

    /// Where the queue stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Drops and marks.
    pub fn stats(&self) -> &Stats {
        self.aqm.stats()
    }
}

impl<P: Item> Pie<P> {
    fn held(&self) -> Backlog {
        let mut held = self.queue.held();
        if let Some(packet) = &self.looked_at {
            held.add(packet.len());
        }
        held
    }

    /// Takes new parameters. Packets above a lowered limit are dropped at the head.
    ///
    /// # Errors
    /// As [`Aqm::set_params`]; then nothing changes.
    pub fn reconfigure(&mut self, config: Config, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        self.aqm.set_params(config.pie.clone())?;
        self.config = config;
        while self.held().packets > self.config.limit as usize
            && let Some(packet) = self.queue.pop()
        {
            self.overlimit += 1;
            drops.push(packet, DropReason::Overlimit);
        }
        Ok(())
    }
}

impl<P: Item> Change<P> for Pie<P> {
    fn change(
        &mut self,
        words: &mut Words<'_>,
        _now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        let mut config = self.config.clone();
        words.apply(&mut config)?;
        self.reconfigure(config, drops)
            .map_err(|error| words.refused("pie", error))
    }
}

impl<P: Item> Qdisc<P> for Pie<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        let held = self.held();
        if held.packets >= self.config.limit as usize {
            self.overlimit += 1;
            self.aqm.overflowed(&mut self.state);
            return drops.push(packet, DropReason::Overlimit);
        }
        if self
            .aqm
            .admit(&mut self.state, &mut packet, held.bytes, now)
            == Verdict::Dropped
        {
            return drops.push(packet, DropReason::Early);
        }
        packet.set_enqueued(now);
        self.packets_in += 1;
        self.queue.push(packet);
        self.max_queue = self.max_queue.max(self.held().packets);
    }

    fn dequeue(&mut self, now: Instant, _drops: &mut Drops<P>) -> Option<P> {
        let held = self.held().bytes;
        self.aqm.catch_up(&mut self.state, held, now);
        self.looked_at
            .take()
            .or_else(|| self.aqm.dequeue(&mut self.state, &mut self.queue, now))
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.held().is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.held()
    }

    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        if self.config.pie.law != Law::Linux {
            return self.queue.front().map(Item::len);
        }
        if self.looked_at.is_none() {
            self.looked_at = self.dequeue(now, drops);
        }
        self.looked_at.as_ref().map(Item::len)
    }
}

impl<P> Inspect for Pie<P> {
    fn report(&self) -> Report {
        let Stats { dropped, ecn_mark } = *self.aqm.stats();
        let counters = vec![
            ("prob", Value::Share(self.state.probability())),
            ("delay", Value::Time(self.aqm.delay(&self.state))),
            (
                "avg_dq_rate",
                Value::Count(self.aqm.departure_rate(&self.state)),
            ),
            ("pkts_in", Value::Count(self.packets_in)),
            ("overlimit", Value::Count(self.overlimit)),
            ("dropped", Value::Count(dropped + self.overlimit)),
            ("maxq", Value::Count(self.max_queue as u64)),
            ("ecn_mark", Value::Count(ecn_mark)),
        ];
        Report {
            kind: "pie",
            options: self.config.options(),
            counters,
            ..Report::default()
        }
    }
}
