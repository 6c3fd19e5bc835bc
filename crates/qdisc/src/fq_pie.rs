//! [`FqPie`]: flow queueing with PIE on every queue (`tc`'s `fq_pie`; `net/sched/sch_fq_pie.c`).
//!
//! The queues, their lists and their turns are those of [`FqCodel`](crate::FqCodel) (`drr_plus`).
//! Each has a PIE of its own, which sees the flow's backlog and the delay of the flow's packets;
//! packets are judged when they arrive. A flow's probability is updated when the flow is touched
//! next, as often as has fallen due, so that idle flows cost nothing.

#[cfg(test)]
mod tests;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::codel::Source;
use crate::discipline::{Change, Inspect};
pub use crate::drr_plus::Emptied;
use crate::drr_plus::{EMPTIED, FairQueue, Shape};
use crate::pie::{Aqm, Params, State, Stats, Verdict};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, SIZE, Word, Words, units};

/// Parameters of [`FqPie`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Packets all queues hold at most. Default 10240 (Linux).
    pub limit: u32,
    /// Number of queues, 1 to 65 536. Default 1024 (Linux).
    pub flows: u32,
    /// Bytes a flow sends per turn, 64 to 1 MiB. Default 1514, one Ethernet frame (Linux).
    pub quantum: Bytes,
    /// Memory all queues hold at most. Default 32 MiB (Linux, which counts packets beyond it and
    /// queues them all the same).
    pub memory_limit: Bytes,
    /// PIE of every queue. Default as [`Params`].
    pub pie: Params,
    /// Handling of a new flow that ran empty. Default [`Emptied::Waits`].
    pub emptied: Emptied,
    /// This instance's secret, a random number: it moves the flows to other queues, so that nobody
    /// can aim at one. Default 0, which is as good while the flow hash itself is keyed and the key
    /// is kept.
    pub perturbation: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 10_240,
            flows: 1024,
            quantum: Bytes::new(1514),
            memory_limit: Bytes::mib(32),
            pie: Params::default(),
            emptied: Emptied::default(),
            perturbation: 0,
        }
    }
}

impl Config {
    /// As Linux's `fq_pie` behaves, with a timer of 250 ticks per second, but for the memory limit,
    /// which holds.
    pub fn linux() -> Self {
        Self {
            pie: Params::linux(),
            emptied: Emptied::Forgotten,
            ..Self::default()
        }
    }

    fn shape(&self) -> Shape {
        let Self {
            limit,
            flows,
            quantum,
            memory_limit,
            perturbation,
            emptied,
            ..
        } = *self;
        Shape {
            limit,
            flows,
            quantum,
            memory_limit,
            perturbation,
            emptied,
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "fq_pie"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, flows N, quantum SIZE, memory_limit SIZE, emptied waits|forgotten, perturbation N, target TIME, tupdate TIME, alpha SIXTEENTHS, \
         beta SIXTEENTHS, ecn, noecn, bytemode, nobytemode, dq_rate_estimator, no_dq_rate_estimator, dq_threshold SIZE, ecn_prob PERCENT, \
         max_burst TIME, mtu SIZE, law rfc8033|rfc8034|linux, active_above SIZE, hz N, first_update TIME, seed N, linux (all as \
         Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "flows" => self.flows = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "quantum" => self.quantum = words.value(option, units::parse_size, SIZE)?,
            "memory_limit" => self.memory_limit = words.value(option, units::parse_size, SIZE)?,
            "perturbation" => {
                self.perturbation = words.value(option, units::parse_integer, NUMBER)?
            }
            "emptied" => self.emptied = words.value(option, Emptied::parse, EMPTIED)?,
            "linux" => {
                self.pie = Params {
                    seed: self.pie.seed,
                    ..Params::linux()
                };
                self.emptied = Emptied::Forgotten;
            }
            _ => return self.pie.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("limit", Value::Packets(self.limit.into())),
            ("flows", Value::Count(self.flows.into())),
            ("quantum", Value::Size(self.quantum)),
            ("memory_limit", Value::Size(self.memory_limit)),
            ("emptied", Value::Word(self.emptied.to_string())),
        ];
        options.extend(self.pie.options());
        options
    }
}

/// Fair queues under PIE.
#[derive(Debug)]
pub struct FqPie<P> {
    config: Config,
    aqm: Aqm,
    queues: FairQueue<P, State>,
    packets_in: u64,
    overlimit: u64,
    overmemory: u64,
}

impl<P> FqPie<P> {
    /// Empty queues. Their clock starts with the first call.
    ///
    /// # Errors
    /// If `flows` or `quantum` is outside its range, or as [`Aqm::new`].
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self {
            queues: FairQueue::new(config.shape())?,
            aqm: Aqm::new(config.pie.clone())?,
            config,
            packets_in: 0,
            overlimit: 0,
            overmemory: 0,
        })
    }

    /// Drops and marks, of all flows together.
    pub fn stats(&self) -> &Stats {
        self.aqm.stats()
    }

    fn count(&mut self, reason: DropReason) {
        match reason {
            DropReason::Memory => self.overmemory += 1,
            _ => self.overlimit += 1,
        }
    }
}

impl<P: Item> FqPie<P> {
    /// Replaces the parameters. What exceeds a lowered limit is dropped from the heads of the
    /// fattest flows.
    ///
    /// # Errors
    /// As [`new`](Self::new) and [`Aqm::set_params`], or if `flows` or `perturbation` differ: they
    /// are fixed while packets lie in the queues. Then nothing changes.
    pub fn reconfigure(&mut self, config: Config, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        let mut aqm = self.aqm.clone();
        aqm.set_params(config.pie.clone())?;
        self.queues.reshape(config.shape())?;
        (self.aqm, self.config) = (aqm, config);
        while let Some(reason) = self.queues.exceeded()
            && let Some(packet) = self.queues.fattest().and_then(|(_, mut queue)| queue.pop())
        {
            self.count(reason);
            drops.push(packet, reason);
        }
        Ok(())
    }
}

impl<P: Item> Change<P> for FqPie<P> {
    fn change(
        &mut self,
        words: &mut Words<'_>,
        _now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        let mut config = self.config.clone();
        words.apply(&mut config)?;
        self.reconfigure(config, drops)
            .map_err(|error| words.refused("fq_pie", error))
    }
}

impl<P: Item> Qdisc<P> for FqPie<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        let at = self.queues.queue_of(packet.flow_hash());
        let refusal = self.queues.refuses(packet.memory());
        let (state, queue) = self.queues.flow(at);
        if let Some(reason) = refusal {
            self.aqm.overflowed(state);
            self.count(reason);
            return drops.push(packet, reason);
        }
        if self.aqm.admit(state, &mut packet, queue.backlog(), now) == Verdict::Dropped {
            return drops.push(packet, DropReason::Early);
        }
        packet.set_enqueued(now);
        self.packets_in += 1;
        self.queues.push(at, packet);
    }

    fn dequeue(&mut self, now: Instant, _drops: &mut Drops<P>) -> Option<P> {
        let aqm = &mut self.aqm;
        self.queues
            .dequeue(|state, queue| aqm.dequeue(state, queue, now))
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.queues.held().is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.queues.held()
    }
}

impl<P> Inspect for FqPie<P> {
    fn report(&self) -> Report {
        let Stats { dropped, ecn_mark } = *self.aqm.stats();
        let mut counters = vec![
            ("pkts_in", Value::Count(self.packets_in)),
            (
                "dropped",
                Value::Count(dropped + self.overlimit + self.overmemory),
            ),
            ("overlimit", Value::Count(self.overlimit)),
            ("overmemory", Value::Count(self.overmemory)),
            ("ecn_mark", Value::Count(ecn_mark)),
        ];
        counters.extend(self.queues.counters());
        Report {
            kind: "fq_pie",
            options: self.config.options(),
            counters,
            ..Report::default()
        }
    }
}
