//! [`FqCodel`]: flow queueing with CoDel on every queue (RFC 8290; `tc`'s `fq_codel`).
//!
//! Packets are spread by flow hash over a fixed number of queues. Deficit round robin shares the
//! link by bytes; a flow that has just become active is on a list that is served first, so flows
//! that send little are hardly delayed. When the whole exceeds its limit, the queue with most bytes
//! loses packets at its head.
//!
//! The packets of all queues lie in one slab and are linked by index, so nothing is allocated per
//! packet. The cost of a packet does not depend on the number of flows, also when the limit is
//! exceeded with every packet: the fattest flow is found by bounds, not by a scan. All this is
//! shared with fq_pie and lies in `drr_plus`; here is what makes it fq_codel.

#[cfg(test)]
mod tests;

use core::fmt;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::codel::{Aqm, Law, Params, Source, State, Stats};
pub use crate::drr_plus::{Emptied, QueueCounts};
use crate::drr_plus::{FairQueue, FlowQueue, Shape};

/// The backlog that CoDel compares with one MTU before it concludes that there is a standing queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BacklogScope {
    /// The flow's own queue: each queue is a CoDel by itself (RFC 8290 §4). The default: the only
    /// packet of a sparse flow is never dropped, which would cost its sender a timeout and would
    /// shorten no queue.
    #[default]
    Queue,
    /// All queues together, as in Linux: CoDel also drops a flow's only packet while others are
    /// backlogged. Keeps the delay lower when there are more flows than the link can carry packets
    /// in a target time.
    Qdisc,
}

impl fmt::Display for BacklogScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Qdisc => "qdisc",
        })
    }
}

/// Parameters of [`FqCodel`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit of all queues together in packets. Default 10240 (RFC 8290 §5.2).
    pub limit: u32,
    /// Number of queues, 1 to 65 536. Default 1024 (RFC 8290 §5.2).
    pub flows: u32,
    /// Bytes a flow sends per turn, 64 to 1 MiB. Default 1514, one Ethernet frame (RFC 8290 §5.2).
    pub quantum: Bytes,
    /// Memory limit of all queues together. Default 32 MiB (Linux).
    pub memory_limit: Bytes,
    /// Packets dropped at once from the fattest flow, at least 1. Default 64 (Linux).
    pub drop_batch: u32,
    /// CoDel of every queue. Default as [`Params`], but with ECN on (Linux).
    pub codel: Params,
    /// The backlog that CoDel sees. Default [`BacklogScope::Queue`].
    pub backlog: BacklogScope,
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
            drop_batch: 64,
            codel: Params {
                ecn: true,
                ..Params::default()
            },
            backlog: BacklogScope::default(),
            emptied: Emptied::default(),
            perturbation: None,
        }
    }
}

impl Config {
    /// Behaves like Linux's `fq_codel`, where it differs from the RFCs.
    pub fn linux() -> Self {
        let default = Self::default();
        Self {
            codel: Params {
                law: Law::Linux,
                ..default.codel
            },
            backlog: BacklogScope::Qdisc,
            emptied: Emptied::Forgotten,
            ..default
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.shape().check()?;
        ConfigError::check(
            self.drop_batch >= 1,
            "drop_batch",
            self.drop_batch,
            "at least 1",
        )
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

/// Fair queues under CoDel.
///
/// ```
/// use tautline_base::{Instant, Item, Packet};
/// use tautline_qdisc::{Drops, FqCodel, Qdisc, fq_codel::Config};
///
/// // A given key makes runs repeat; without, each queue draws one.
/// let config = Config { perturbation: Some(0), ..Config::default() };
/// let mut queue = FqCodel::new(config)?;
/// let mut drops = Drops::new();
/// for flow in [1, 1, 1, 2] {
///     queue.enqueue(Packet::new((), 1514).with_hashes(flow, 0, 0), Instant::ZERO, &mut drops);
/// }
/// let order = core::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut drops));
/// assert!(order.map(|packet| packet.flow_hash()).eq([1, 2, 1, 1]));
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct FqCodel<P> {
    config: Config,
    aqm: Aqm,
    queues: FairQueue<P, State>,
    limit_drops: LimitDrops,
}

/// Packets that [`FqCodel`] dropped for its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitDrops {
    /// Above the limit in packets.
    pub overlimit: u64,
    /// Above the limit in memory.
    pub overmemory: u64,
}

impl<P> FqCodel<P> {
    /// Empty queues.
    ///
    /// # Errors
    /// If `flows`, `quantum`, `drop_batch` or `interval` is outside its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            aqm: Aqm::new(config.codel.clone())?,
            queues: FairQueue::new(config.shape())?,
            limit_drops: LimitDrops::default(),
            config,
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

    /// Drops at the limits.
    pub fn limit_drops(&self) -> &LimitDrops {
        &self.limit_drops
    }

    /// Signals and delays, of all flows together.
    pub fn stats(&self) -> &Stats {
        self.aqm.stats()
    }
}

/// One flow's queue as CoDel sees it.
struct Scoped<'a, 'b, P> {
    queue: &'a mut FlowQueue<'b, P>,
    scope: BacklogScope,
}

impl<P: Item> Source<P> for Scoped<'_, '_, P> {
    #[inline]
    fn pop(&mut self) -> Option<P> {
        self.queue.pop()
    }

    #[inline]
    fn backlog(&self) -> Bytes {
        match self.scope {
            BacklogScope::Queue => self.queue.backlog(),
            BacklogScope::Qdisc => self.queue.held().bytes,
        }
    }
}

impl<P: Item> FqCodel<P> {
    /// Drops from the head of the flow with most bytes until half of them are gone, but at most a
    /// batch.
    ///
    /// The RFC speaks of half the packets; Linux halves bytes, which is what makes a flow fat.
    fn drop_from_fattest(&mut self, reason: DropReason, drops: &mut Drops<P>) {
        let (codel, mut source) = self
            .queues
            .fattest()
            .expect("a limit is exceeded, so some flow holds packets");
        let enough = source.backlog() - source.backlog() / 2;
        let mut dropped = 0;
        while dropped < self.config.drop_batch
            && let Some(packet) = source.pop()
        {
            dropped += 1;
            drops.push(packet, reason);
            if source.backlog() <= enough {
                break;
            }
        }
        codel.count_drops(dropped);
        self.limit_drops.overlimit += u64::from(dropped);
        if reason == DropReason::Memory {
            self.limit_drops.overmemory += u64::from(dropped);
        }
    }

    /// Replaces the parameters. Packets above a lowered limit are dropped from the fattest flows.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if `flows` or `perturbation` differ: they are fixed while packets
    /// lie in the queues. Then nothing changes.
    pub fn reconfigure(&mut self, config: Config, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        config.check()?;
        let mut aqm = self.aqm.clone();
        aqm.set_params(config.codel.clone())?;
        self.queues.reshape(config.shape())?;
        self.aqm = aqm;
        self.config = config;
        self.keep_limits(drops);
        Ok(())
    }

    /// Drops until every limit holds.
    #[inline]
    fn keep_limits(&mut self, drops: &mut Drops<P>) {
        // DIVERGES: Linux drops one batch and may stay above its memory limit; here the limits hold
        // after every call.
        while let Some(reason) = self.queues.exceeded() {
            self.drop_from_fattest(reason, drops);
        }
    }
}

impl<P: Item> Qdisc<P> for FqCodel<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        packet.set_enqueued(now);
        let at = self.queues.queue_of(packet.flow_hash());
        self.queues.push(at, packet);
        self.keep_limits(drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let (aqm, scope) = (&mut self.aqm, self.config.backlog);
        self.queues
            .dequeue(|codel, queue| aqm.dequeue(codel, &mut Scoped { queue, scope }, now, drops))
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
