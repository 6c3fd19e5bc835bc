//! [`FqCodel`]: flow queueing with CoDel on every queue (RFC 8290; `tc`'s `fq_codel`).
//!
//! Packets are spread by flow hash over a fixed number of queues. Deficit round robin shares the link by bytes; a flow that has just
//! become active stands on a list that is served first, so flows that send little are hardly delayed. When the whole exceeds
//! its limit, the queue with most bytes loses packets at its head.
//!
//! The packets of all queues lie in one slab and are linked by index, so nothing is allocated per packet. The cost of a packet
//! does not depend on the number of flows, also when the limit is exceeded with every packet: the fattest flow is found by
//! bounds, not by a scan (`bounds`).

mod bounds;
mod flow;
#[cfg(test)]
mod tests;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use tautline_base::{Bytes, Instant, Item};

use crate::codel::{Aqm, Law, Params, Source, Stats};
use crate::config::ConfigError;
use crate::discipline::{Backlog, Change, Inspect, Qdisc};
use crate::drops::{DropReason, Drops};
use crate::index::{Chain, Index};
use crate::report::{Report, Value};
use crate::slab::Slab;
use crate::words::{NUMBER, Options, PACKETS, ParseError, SIZE, Word, Words, units};

use flow::{Flow, Flows, List};

/// Which backlog CoDel compares with one MTU before it concludes that a queue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BacklogScope {
    /// The flow's own queue: each queue is a CoDel by itself (RFC 8290 §4). The default: the only packet of a sparse flow is
    /// never dropped, which would cost its sender a timeout and would shorten no queue.
    #[default]
    Queue,
    /// All queues together, as in Linux: CoDel also drops a flow's only packet while others are backlogged. Keeps the delay lower
    /// when there are more flows than the link can carry packets in a target time.
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
    /// Packets all queues hold at most. Default 10240 (RFC 8290 §5.2).
    pub limit: u32,
    /// Number of queues, 1 to 65 536. Default 1024 (RFC 8290 §5.2).
    pub flows: u32,
    /// Bytes a flow sends per turn, 64 to 1 MiB. Default 1514, one Ethernet frame (RFC 8290 §5.2).
    pub quantum: Bytes,
    /// Memory all queues hold at most. Default 32 MiB (Linux).
    pub memory_limit: Bytes,
    /// Packets dropped at once from the fattest flow, at least 1. Default 64 (Linux).
    pub drop_batch: u32,
    /// CoDel of every queue. Default as [`Params`], but with ECN on (Linux).
    pub codel: Params,
    /// What CoDel takes for the backlog. Default [`BacklogScope::Queue`].
    pub backlog: BacklogScope,
    /// This instance's secret, a random number: it moves the flows to other queues, so that nobody can aim at one
    /// (RFC 8290 §4.1). Default 0, which is as good while the flow hash itself is keyed and the key is kept.
    pub perturbation: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 10_240,
            flows: 1024,
            quantum: Bytes::new(1514),
            memory_limit: Bytes::mib(32),
            drop_batch: 64,
            codel: Params { ecn: true, ..Params::default() },
            backlog: BacklogScope::default(),
            perturbation: 0,
        }
    }
}

impl Config {
    /// As Linux' `fq_codel` behaves, where it differs from the RFCs.
    pub fn linux() -> Self {
        let default = Self::default();
        Self { codel: Params { law: Law::Linux, ..default.codel }, backlog: BacklogScope::Qdisc, ..default }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let Self { limit: _, flows, quantum, memory_limit: _, drop_batch, codel: _, backlog: _, perturbation: _ } = self;
        ConfigError::check((1..=65_536).contains(flows), "flows", flows, "from 1 to 65536")?;
        let quanta = Bytes::new(64)..=MAX_DEBT;
        ConfigError::check(quanta.contains(quantum), "quantum", units::size(*quantum), "from 64b to 1Mb")?;
        ConfigError::check(*drop_batch >= 1, "drop_batch", drop_batch, "at least 1")
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "fq_codel"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, flows N, quantum SIZE, memory_limit SIZE, drop_batch N, backlog queue|qdisc, perturbation N, target \
         TIME, interval TIME, mtu SIZE, ecn, noecn, ce_threshold TIME, ce_threshold_selector VALUE/MASK, law rfc8289|linux, \
         linux (all as Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "flows" => self.flows = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "quantum" => self.quantum = words.value(option, units::parse_size, SIZE)?,
            "memory_limit" => self.memory_limit = words.value(option, units::parse_size, SIZE)?,
            "drop_batch" => self.drop_batch = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "backlog" => self.backlog = words.value(option, parse_scope, "queue or qdisc")?,
            "perturbation" => self.perturbation = words.value(option, units::parse_integer, NUMBER)?,
            "linux" => (self.codel.law, self.backlog) = (Law::Linux, BacklogScope::Qdisc),
            _ => return self.codel.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("limit", Value::Packets(self.limit.into())),
            ("flows", Value::Count(self.flows.into())),
            ("quantum", Value::Size(self.quantum)),
            ("memory_limit", Value::Size(self.memory_limit)),
            ("drop_batch", Value::Count(self.drop_batch.into())),
            ("backlog", Value::Word(self.backlog.to_string())),
        ];
        options.extend(self.codel.options());
        options
    }
}

fn parse_scope(text: &str) -> Option<BacklogScope> {
    [BacklogScope::Queue, BacklogScope::Qdisc].into_iter().find(|scope| scope.to_string() == text)
}

/// A flow never owes more than this, however large its packets: it bounds the turns that pass before it may send again.
const MAX_DEBT: Bytes = Bytes::mib(1);

/// Places for packets before the first growth; the slab then doubles, up to the largest backlog.
const FIRST_CAPACITY: usize = 256;

/// Fair queues under CoDel.
#[derive(Debug)]
pub struct FqCodel<P> {
    config: Config,
    quantum: i32,
    aqm: Aqm,
    flows: Flows,
    new_flows: Chain,
    old_flows: Chain,
    packets: Slab<P>,
    held: Held,
    counters: Counters,
}

/// What all queues hold together.
#[derive(Debug, Default)]
struct Held {
    backlog: Backlog,
    memory: Bytes,
}

#[derive(Debug, Default)]
struct Counters {
    drop_overlimit: u64,
    drop_overmemory: u64,
    new_flow_count: u64,
}

impl<P> FqCodel<P> {
    /// Empty queues.
    ///
    /// # Errors
    /// If `flows`, `quantum`, `drop_batch` or `interval` is outside its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            quantum: i32::try_from(config.quantum.get()).expect("checked to be at most 1 MiB"),
            aqm: Aqm::new(config.codel.clone())?,
            flows: Flows::new(config.flows as usize),
            new_flows: Chain::default(),
            old_flows: Chain::default(),
            packets: Slab::with_capacity(FIRST_CAPACITY.min(config.limit as usize)),
            held: Held::default(),
            counters: Counters::default(),
            config,
        })
    }

    /// Signals and delays, of all flows together.
    pub fn stats(&self) -> &Stats {
        self.aqm.stats()
    }

    /// The queue of a flow: the mixed hash scaled to the number of queues, which is fair for any number.
    fn queue_of(&self, flow_hash: u64) -> Index {
        let mixed = mix(flow_hash ^ self.config.perturbation) >> 32;
        Index::new(((mixed * self.flows.len() as u64) >> 32) as usize)
    }

    /// The flow whose turn it is, and the list it heads.
    fn turn(&self) -> Option<(Index, List)> {
        let new = self.new_flows.front().map(|at| (at, List::New));
        new.or_else(|| self.old_flows.front().map(|at| (at, List::Old)))
    }

    /// Takes the flow at the head of `from` and puts it at the end of the old flows, or on no list.
    fn move_head(&mut self, from: List, to: List) {
        let source = if from == List::New { &mut self.new_flows } else { &mut self.old_flows };
        let at = source.pop_front(&self.flows).expect("the flow whose turn it is heads its list");
        self.flows[at].list = to;
        if to == List::Old {
            self.old_flows.push_back(&mut self.flows, at);
        }
    }

    /// Which limit is exceeded, if one is.
    fn exceeded(&self) -> Option<DropReason> {
        if self.held.memory > self.config.memory_limit {
            return Some(DropReason::Memory);
        }
        (self.held.backlog.packets > self.config.limit as usize).then_some(DropReason::Overlimit)
    }
}

/// The output function of SplitMix64: every bit of the hash and of the secret reaches the upper half, which chooses the queue.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// One flow's queue as CoDel sees it.
struct FlowQueue<'a, P> {
    packets: &'a mut Slab<P>,
    queue: &'a mut Chain,
    bytes: &'a mut Bytes,
    held: &'a mut Held,
    scope: BacklogScope,
}

impl<P: Item> Source<P> for FlowQueue<'_, P> {
    #[inline]
    fn pop(&mut self) -> Option<P> {
        let head = self.packets.pop_front(self.queue);
        if let Some(packet) = &head {
            *self.bytes -= packet.len();
            self.held.backlog.remove(packet.len());
            self.held.memory -= packet.memory();
        }
        head
    }

    fn backlog(&self) -> Bytes {
        match self.scope {
            BacklogScope::Queue => *self.bytes,
            BacklogScope::Qdisc => self.held.backlog.bytes,
        }
    }
}

impl<P: Item> FqCodel<P> {
    /// Drops from the head of the flow with most bytes until half of them are gone, but at most a batch.
    ///
    /// The RFC speaks of half the packets; Linux halves bytes, which is what makes a flow fat.
    fn drop_from_fattest(&mut self, reason: DropReason, drops: &mut Drops<P>) {
        let at = self.flows.fattest().expect("a limit is exceeded, so some flow holds packets");
        let Flow { queue, bytes, codel, .. } = &mut self.flows[at];
        let enough = *bytes - *bytes / 2;
        let scope = self.config.backlog;
        let mut source = FlowQueue { packets: &mut self.packets, queue, bytes, held: &mut self.held, scope };
        let mut dropped = 0;
        while dropped < self.config.drop_batch
            && let Some(packet) = source.pop()
        {
            dropped += 1;
            drops.push(packet, reason);
            if *source.bytes <= enough {
                break;
            }
        }
        codel.hear(dropped);
        self.counters.drop_overlimit += u64::from(dropped);
        if reason == DropReason::Memory {
            self.counters.drop_overmemory += u64::from(dropped);
        }
    }

    /// One packet of flow `at`, after CoDel dropped what it had to.
    fn dequeue_from(&mut self, at: Index, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let Flow { queue, bytes, codel, .. } = &mut self.flows[at];
        let scope = self.config.backlog;
        let mut source = FlowQueue { packets: &mut self.packets, queue, bytes, held: &mut self.held, scope };
        self.aqm.dequeue(codel, &mut source, now, drops)
    }
}

impl<P: Item> FqCodel<P> {
    /// Takes new parameters. What exceeds a lowered limit is dropped from the fattest flows.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if `flows` or `perturbation` differ: they are fixed while packets lie in the queues. Then nothing
    /// changes.
    pub fn reconfigure(&mut self, config: Config, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        config.check()?;
        let fixed = "what it was at creation";
        ConfigError::check(config.flows == self.config.flows, "flows", config.flows, fixed)?;
        ConfigError::check(config.perturbation == self.config.perturbation, "perturbation", config.perturbation, fixed)?;
        self.aqm.set_params(config.codel.clone())?;
        self.quantum = i32::try_from(config.quantum.get()).expect("checked to be at most 1 MiB");
        self.config = config;
        self.keep_limits(drops);
        Ok(())
    }

    /// Drops until every limit holds.
    fn keep_limits(&mut self, drops: &mut Drops<P>) {
        // DIVERGES: Linux drops one batch and may stay above its memory limit; here the limits hold after every call.
        while let Some(reason) = self.exceeded() {
            self.drop_from_fattest(reason, drops);
        }
    }
}

impl<P: Item> Change<P> for FqCodel<P> {
    fn change(&mut self, words: &mut Words<'_>, _now: Instant, drops: &mut Drops<P>) -> Result<(), ParseError> {
        let mut config = self.config.clone();
        words.apply(&mut config)?;
        self.reconfigure(config, drops).map_err(|error| words.refused("fq_codel", error))
    }
}

impl<P: Item> Qdisc<P> for FqCodel<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        packet.set_enqueued(now);
        let (len, at) = (packet.len(), self.queue_of(packet.flow_hash()));
        self.held.backlog.add(len);
        self.held.memory += packet.memory();
        self.packets.push_back(&mut self.flows[at].queue, packet);
        self.flows.grow(at, len);
        if self.flows[at].list == List::Idle {
            self.flows[at].list = List::New;
            self.flows[at].deficit = self.quantum;
            self.new_flows.push_back(&mut self.flows, at);
            self.counters.new_flow_count += 1;
        }
        self.keep_limits(drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        loop {
            let (at, list) = self.turn()?;
            if self.flows[at].deficit <= 0 {
                self.flows[at].deficit += self.quantum;
                self.move_head(list, List::Old);
                continue;
            }
            let head = self.dequeue_from(at, now, drops);
            if let Some(packet) = &head {
                let len = i32::try_from(packet.len().min(MAX_DEBT).get()).expect("1 MiB fits");
                self.flows[at].deficit -= len;
                return head;
            }
            // A new flow that ran empty waits once among the old flows, or it could come back ahead of them for ever.
            let to = if list == List::New { List::Old } else { List::Idle };
            self.move_head(list, to);
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.held.backlog.is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.held.backlog
    }
}

impl<P> Inspect for FqCodel<P> {
    fn report(&self) -> Report {
        let Counters { drop_overlimit, drop_overmemory, new_flow_count } = self.counters;
        let mut counters = self.aqm.stats().counters().to_vec();
        counters.extend([
            ("drop_overlimit", Value::Count(drop_overlimit)),
            ("drop_overmemory", Value::Count(drop_overmemory)),
            ("memory_used", Value::Count(self.held.memory.get())),
            ("new_flow_count", Value::Count(new_flow_count)),
            ("new_flows_len", Value::Count(self.new_flows.count(&self.flows) as u64)),
            ("old_flows_len", Value::Count(self.old_flows.count(&self.flows) as u64)),
        ]);
        Report { kind: "fq_codel", options: self.config.options(), counters, ..Report::default() }
    }
}
