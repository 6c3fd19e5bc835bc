//! [`FairQueue`]: deficit round robin with two lists over many queues (RFC 8290 §4),
//! as fq_codel and fq_pie share it.
//!
//! Packets are spread by flow hash over a fixed number of queues, each with the state of an AQM. A
//! flow that has just become active stands on a list that is served first. The qdisc decides the
//! fate of packets; this module keeps the order, the account, and the fattest flow.

pub(crate) mod bounds;
mod flow;

use core::fmt;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Item, SplitMix64};

use crate::codel::Source;
use crate::index::{Chain, Index};
use crate::random::{check_secret, secret};
use crate::slab::Slab;
use crate::units;

pub(crate) use flow::{Flow, Flows, List};

/// A flow never owes more than this, however large its packets: it bounds the turns that pass
/// before it may send again.
const MAX_DEBT: Bytes = Bytes::mib(1);

/// Places for packets before the first growth; the slab then doubles, up to the largest backlog.
const FIRST_CAPACITY: usize = 256;

/// Handling of a new flow whose queue ran empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emptied {
    /// It waits once among the old flows, with what is left of its deficit (RFC 8290 §4.2). The
    /// default.
    #[default]
    Waits,
    /// It does so if there are old flows; else it is removed at once and returns as a new flow with
    /// a full quantum, as in Linux. While no flow is old, new flows then share less evenly.
    Forgotten,
}

impl fmt::Display for Emptied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waits => "waits",
            Self::Forgotten => "forgotten",
        })
    }
}

/// The parameters that every fair queue has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Limit of all queues together in packets.
    pub(crate) limit: u32,
    /// Number of queues.
    pub(crate) flows: u32,
    /// Bytes a flow sends per turn.
    pub(crate) quantum: Bytes,
    /// Memory limit of all queues together.
    pub(crate) memory_limit: Bytes,
    /// Moves flows to other queues; drawn if `None`.
    pub(crate) perturbation: Option<u64>,
    /// Handling of a new flow that ran empty.
    pub(crate) emptied: Emptied,
}

impl Shape {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let Self { flows, quantum, .. } = self;
        ConfigError::check(
            (1..=65_536).contains(flows),
            "flows",
            flows,
            "from 1 to 65536",
        )?;
        let quanta = Bytes::new(64)..=MAX_DEBT;
        ConfigError::check(
            quanta.contains(quantum),
            "quantum",
            units::size(*quantum),
            "from 64b to 1Mb",
        )
    }

    fn quantum(&self) -> i32 {
        i32::try_from(self.quantum.get()).expect("checked to be at most 1 MiB")
    }
}

/// Fair queues of packets, each with an AQM's state `S`.
#[derive(Debug)]
pub(crate) struct FairQueue<P, S> {
    shape: Shape,
    /// Mixed into every flow hash.
    key: u64,
    quantum: i32,
    flows: Flows<S>,
    new_flows: Chain,
    old_flows: Chain,
    packets: Slab<P>,
    held: Account,
    /// A parent has dequeued a packet to learn its length.
    peeked: bool,
    /// Packets that the limit allows beside that one.
    room: usize,
    new_flow_count: u64,
}

/// Occupancy of the queues of a fair-queueing qdisc, and the lists its flows are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Memory of all packets held.
    pub memory_used: Bytes,
    /// Times a flow became active.
    pub new_flow_count: u64,
    /// Flows on the list that is served first.
    pub new_flows_len: usize,
    /// Flows on the other list.
    pub old_flows_len: usize,
}

/// Packets, bytes and memory of all queues.
#[derive(Debug, Default)]
struct Account {
    backlog: Backlog,
    memory: Bytes,
}

impl<P, S: Clone + Default> FairQueue<P, S> {
    /// Empty queues.
    pub(crate) fn new(shape: Shape) -> Result<Self, ConfigError> {
        shape.check()?;
        Ok(Self {
            key: secret("perturbation", shape.perturbation)?,
            quantum: shape.quantum(),
            flows: Flows::new(shape.flows as usize),
            new_flows: Chain::default(),
            old_flows: Chain::default(),
            packets: Slab::with_capacity(FIRST_CAPACITY.min(shape.limit as usize)),
            held: Account::default(),
            peeked: false,
            room: shape.limit as usize,
            new_flow_count: 0,
            shape,
        })
    }
}

impl<P, S> FairQueue<P, S> {
    /// Replaces the parameters, but keeps the number of queues and the perturbation: they are fixed
    /// while packets lie in the queues.
    pub(crate) fn reshape(&mut self, shape: Shape) -> Result<(), ConfigError> {
        shape.check()?;
        let fixed = "what it was at creation";
        ConfigError::check(shape.flows == self.shape.flows, "flows", shape.flows, fixed)?;
        check_secret("perturbation", shape.perturbation, self.key)?;
        self.quantum = shape.quantum();
        self.shape = shape;
        self.set_peeked(self.peeked);
        Ok(())
    }

    /// Notes whether a parent has dequeued a packet to learn its length: it counts in the limit.
    pub(crate) fn set_peeked(&mut self, peeked: bool) {
        self.peeked = peeked;
        self.room = (self.shape.limit as usize).saturating_sub(usize::from(peeked));
    }

    /// The queue of a flow: the mixed hash scaled to the number of queues, which is fair for any
    /// number.
    #[inline]
    pub(crate) fn queue_of(&self, flow_hash: u64) -> Index {
        let mixed = mix(flow_hash ^ self.key) >> 32;
        Index::new(((mixed * self.flows.len() as u64) >> 32) as usize)
    }

    /// Packets and bytes of all queues.
    #[inline]
    pub(crate) fn held(&self) -> Backlog {
        self.held.backlog
    }

    /// Memory and flows.
    pub(crate) fn counts(&self) -> QueueCounts {
        QueueCounts {
            memory_used: self.held.memory,
            new_flow_count: self.new_flow_count,
            new_flows_len: self.new_flows.count(&self.flows),
            old_flows_len: self.old_flows.count(&self.flows),
        }
    }

    /// The memory it takes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> Bytes {
        self.held.memory
    }

    /// The exceeded limit, if any.
    #[inline]
    pub(crate) fn exceeded(&self) -> Option<DropReason> {
        if self.held.memory > self.shape.memory_limit {
            return Some(DropReason::Memory);
        }
        (self.held.backlog.packets > self.room).then_some(DropReason::Overlimit)
    }

    /// The limit that another packet of `memory` bytes would exceed.
    #[inline]
    pub(crate) fn refuses(&self, memory: Bytes) -> Option<DropReason> {
        if self.held.backlog.packets >= self.room {
            return Some(DropReason::Overlimit);
        }
        (memory > self.shape.memory_limit.saturating_sub(self.held.memory))
            .then_some(DropReason::Memory)
    }

    /// The flow whose turn it is, and the list it heads.
    #[inline]
    fn turn(&self) -> Option<(Index, List)> {
        let new = self.new_flows.front().map(|at| (at, List::New));
        new.or_else(|| self.old_flows.front().map(|at| (at, List::Old)))
    }

    /// Takes the flow at the head of `from` and puts it at the end of the old flows, or on no list.
    fn move_head(&mut self, from: List, to: List) {
        let source = if from == List::New {
            &mut self.new_flows
        } else {
            &mut self.old_flows
        };
        let at = source
            .pop_front(&self.flows)
            .expect("the flow whose turn it is heads its list");
        self.flows[at].list = to;
        if to == List::Old {
            self.old_flows.push_back(&mut self.flows, at);
        }
    }

    /// The state and the queue of a flow.
    #[inline]
    pub(crate) fn flow(&mut self, at: Index) -> (&mut S, FlowQueue<'_, P>) {
        let Flow {
            queue, bytes, aqm, ..
        } = &mut self.flows[at];
        (
            aqm,
            FlowQueue {
                packets: &mut self.packets,
                queue,
                bytes,
                held: &mut self.held,
            },
        )
    }

    /// The state and the queue of the flow with most bytes; `None` if all are empty.
    pub(crate) fn fattest(&mut self) -> Option<(&mut S, FlowQueue<'_, P>)> {
        let at = self.flows.fattest()?;
        Some(self.flow(at))
    }
}

/// The output function of SplitMix64: every bit of the hash and of the secret reaches the upper
/// half, which chooses the queue.
#[inline]
pub(crate) fn mix(value: u64) -> u64 {
    SplitMix64::new(value).next_u64()
}

/// One flow's queue: what is taken from it leaves every account.
pub(crate) struct FlowQueue<'a, P> {
    packets: &'a mut Slab<P>,
    queue: &'a mut Chain,
    bytes: &'a mut Bytes,
    held: &'a mut Account,
}

impl<P> FlowQueue<'_, P> {
    /// Packets, bytes and memory of all queues.
    #[inline]
    pub(crate) fn held(&self) -> Backlog {
        self.held.backlog
    }
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

    #[inline]
    fn backlog(&self) -> Bytes {
        *self.bytes
    }
}

impl<P: Item, S> FairQueue<P, S> {
    /// Appends `packet` to the queue `at`, and the flow to the new ones if it had no turn to wait
    /// for.
    #[inline]
    pub(crate) fn push(&mut self, at: Index, packet: P) {
        let len = packet.len();
        self.held.backlog.add(len);
        self.held.memory += packet.memory();
        self.packets.push_back(&mut self.flows[at].queue, packet);
        self.flows.grow(at, len);
        if self.flows[at].list == List::Idle {
            self.flows[at].list = List::New;
            self.flows[at].deficit = self.quantum;
            self.new_flows.push_back(&mut self.flows, at);
            self.new_flow_count += 1;
        }
    }

    /// The packet whose turn it is. `take` takes it from the flow's queue, after whatever the AQM
    /// drops ahead of it.
    #[inline]
    pub(crate) fn dequeue(
        &mut self,
        mut take: impl FnMut(&mut S, &mut FlowQueue<'_, P>) -> Option<P>,
    ) -> Option<P> {
        loop {
            let (at, list) = self.turn()?;
            let flow = &mut self.flows[at];
            if flow.deficit <= 0 {
                if self.old_flows.back() == Some(at) {
                    // It is the only old flow, so none has a turn before it can send again.
                    flow.deficit += self.quantum * (-flow.deficit / self.quantum + 1);
                } else {
                    flow.deficit += self.quantum;
                    self.move_head(list, List::Old);
                    continue;
                }
            }
            let (aqm, mut queue) = self.flow(at);
            let head = take(aqm, &mut queue);
            if let Some(packet) = &head {
                let len = i32::try_from(packet.len().min(MAX_DEBT).get()).expect("1 MiB fits");
                self.flows[at].deficit -= len;
                return head;
            }
            // A new flow that ran empty waits once among the old flows, or it could return ahead of
            // them forever.
            let waits = list == List::New
                && (self.shape.emptied == Emptied::Waits || self.old_flows.front().is_some());
            let to = if waits { List::Old } else { List::Idle };
            self.move_head(list, to);
        }
    }
}

#[cfg(test)]
impl<P, S> FairQueue<P, S> {
    /// Flow hashes that fall into queues of their own.
    pub(crate) fn hashes_apart<const N: usize>(&self) -> [u64; N] {
        let mut taken = alloc::vec::Vec::new();
        core::array::from_fn(|_| {
            let hash = (0..)
                .find(|&hash| !taken.contains(&self.queue_of(hash)))
                .expect("enough queues");
            taken.push(self.queue_of(hash));
            hash
        })
    }

    /// The record of a flow.
    pub(crate) fn peek(&self, at: Index) -> &Flow<S> {
        &self.flows[at]
    }

    /// Number of packets in a queue.
    pub(crate) fn packets_of(&self, at: Index) -> usize {
        self.flows[at].queue.count(&self.packets)
    }
}
