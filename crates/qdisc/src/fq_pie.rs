//! [`FqPie`]: flow queueing with PIE on every queue (`tc`'s `fq_pie`; `net/sched/sch_fq_pie.c`).
//!
//! The queues, their lists and their turns are those of [`FqCodel`](crate::FqCodel) (`drr_plus`).
//! Each has a PIE of its own, which sees the flow's backlog and the delay of the flow's packets;
//! packets are judged when they arrive. A flow's probability is updated when the flow is touched
//! next, as often as has fallen due, so that idle flows cost nothing.

#[cfg(test)]
mod tests;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::codel::Source;
pub use crate::drr_plus::{Emptied, QueueCounts};
use crate::drr_plus::{FairQueue, Shape};
use crate::pie::{Aqm, Params, State, Stats, Verdict};

/// Parameters of [`FqPie`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Limit of all queues together in packets. Default 10240 (Linux).
    pub limit: u32,
    /// Number of queues, 1 to 65 536. Default 1024 (Linux).
    pub flows: u32,
    /// Bytes a flow sends per turn, 64 to 1 MiB. Default 1514, one Ethernet frame (Linux).
    pub quantum: Bytes,
    /// Memory limit of all queues together. Default 32 MiB (Linux, which counts packets beyond it
    /// and queues them all the same).
    pub memory_limit: Bytes,
    /// PIE of every queue. Default as [`Params`].
    pub pie: Params,
    /// Handling of a new flow that ran empty. Default [`Emptied::Waits`].
    pub emptied: Emptied,
    /// Secret key of the flow hash, so that an attacker cannot aim at a queue (RFC 8290 §4.1).
    /// Default `None`: drawn at creation, which fails without the feature `std`. Give it where runs
    /// must repeat.
    pub perturbation: Option<u64>,
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
            perturbation: None,
        }
    }
}

impl Config {
    /// Behaves like Linux's `fq_pie`, with a timer of 250 ticks per second, but for the memory
    /// limit, which holds.
    pub fn linux() -> Self {
        Self {
            pie: Params::linux(),
            emptied: Emptied::Forgotten,
            ..Self::default()
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            limit: self.limit,
            flows: self.flows,
            quantum: self.quantum,
            memory_limit: self.memory_limit,
            perturbation: self.perturbation,
            emptied: self.emptied,
        }
    }
}

/// Fair queues under PIE.
///
/// ```
/// use tautline_base::{Instant, Item, Packet};
/// use tautline_qdisc::{Drops, FqPie, Qdisc, fq_pie::Config};
///
/// // A given key makes runs repeat; without, each queue draws one.
/// let config = Config { perturbation: Some(0), ..Config::default() };
/// let mut queue = FqPie::new(config)?;
/// let mut drops = Drops::new();
/// for flow in [1, 1, 1, 2] {
///     queue.enqueue(Packet::new((), 1514).with_hashes(flow, 0, 0), Instant::ZERO, &mut drops);
/// }
/// let order = core::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut drops));
/// assert!(order.map(|packet| packet.flow_hash()).eq([1, 2, 1, 1]));
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct FqPie<P> {
    config: Config,
    aqm: Aqm,
    queues: FairQueue<P, State>,
    counters: Counters,
}

/// Packets that [`FqPie`] received and refused for its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets queued.
    pub packets_in: u64,
    /// Packets dropped at the limit in packets.
    pub overlimit: u64,
    /// Packets dropped at the limit in memory.
    pub overmemory: u64,
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
            counters: Counters::default(),
        })
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Memory and flows.
    pub fn queues(&self) -> QueueCounts {
        self.queues.counts()
    }

    /// Packets received and refused.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Drops and marks, of all flows together.
    pub fn stats(&self) -> &Stats {
        self.aqm.stats()
    }

    fn count(&mut self, reason: DropReason) {
        match reason {
            DropReason::Memory => self.counters.overmemory += 1,
            _ => self.counters.overlimit += 1,
        }
    }
}

impl<P: Item> FqPie<P> {
    /// Replaces the parameters. Packets above a lowered limit are dropped from the heads of the
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
        self.counters.packets_in += 1;
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

    fn set_peeked(&mut self, peeked: bool) {
        self.queues.set_peeked(peeked);
    }
}
