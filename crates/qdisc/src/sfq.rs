//! [`Sfq`]: stochastic fairness queueing (McKenney 1990; `tc`'s `sfq`).
//!
//! Flows are spread by hash over buckets and served in turn, a quantum of bytes each. When all
//! together hold too many packets, the flow with most of them loses one. Optionally each flow's
//! queue is governed by [RED](crate::red), and the hash gets a new key from time to time, so that
//! flows which share a bucket do not for long.
//!
//! As in Linux since 3.3. A turn is counted in bytes; kernels without the repair of 6.13 (stable
//! ones have it) count in eighths, rounding every packet up to a multiple of eight bytes.

mod depths;
mod packets;
mod params;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

pub use params::{Config, FlowRed};

use crate::drr_plus::mix;
use crate::index::{Chain, Index, Links};
use crate::random::{Random, check_secret, secret};
use crate::red::{Aqm, Congestion, State};

use depths::Depths;
use packets::{Packets, Queue};

/// A flow never owes more than this, however large its packets: it bounds the turns that pass
/// before it may send again.
const MAX_DEBT: Bytes = Bytes::mib(1);

/// Flows served in turn, the longest of which pays for overload.
///
/// ```
/// use tautline_base::{Instant, Item, Packet};
/// use tautline_qdisc::{Drops, Qdisc, Sfq, sfq::Config};
///
/// let mut queue = Sfq::new(Config { limit: 3, seed: Some(0), ..Config::default() })?;
/// let mut drops = Drops::new();
/// for flow in [1, 1, 1, 2] {
///     queue.enqueue(Packet::new((), 1514).with_hashes(flow, 0, 0), Instant::ZERO, &mut drops);
/// }
/// assert!(drops.drain().all(|(packet, _)| packet.flow_hash() == 1)); // the longest flow pays
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Sfq<P> {
    config: Config,
    quantum: i64,
    aqm: Option<Aqm>,
    /// The keys and the random numbers follow from it.
    seed: u64,
    random: Random,
    hash: Hash,
    /// The flow that each bucket's packets belong to.
    buckets: Box<[Option<Index>]>,
    flows: Flows,
    /// Flows with packets, in the order of their turns.
    turns: Chain,
    depths: Depths,
    packets: Packets<P>,
    backlog: Backlog,
    /// Packets that a parent has dequeued to learn their length: none or one.
    peeked: usize,
    stats: Stats,
}

/// The key of the hash, and when it is to be changed; that is unknown until something happens.
#[derive(Debug)]
struct Hash {
    key: u64,
    until: Option<Instant>,
}

#[derive(Debug)]
struct Flows(Box<[Flow]>);

/// One flow; without packets it belongs to no bucket.
#[derive(Clone, Debug, Default)]
struct Flow {
    queue: Queue,
    bytes: Bytes,
    /// Bytes it may still send in this turn.
    allot: i64,
    bucket: usize,
    red: State,
    next: Option<Index>,
}

impl Flows {
    fn at(&mut self, at: Index) -> &mut Flow {
        &mut self.0[at.get()]
    }
}

impl Links for Flows {
    fn next(&self, at: Index) -> Option<Index> {
        self.0[at.get()].next
    }

    fn set_next(&mut self, at: Index, next: Option<Index>) {
        self.0[at.get()].next = next;
    }
}

/// Counters of [`Sfq`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets marked by chance as they came.
    pub prob_mark: u64,
    /// Packets marked by chance at the head, when another came (with `headdrop`).
    pub prob_mark_head: u64,
    /// Packets dropped by chance.
    pub prob_drop: u64,
    /// Packets marked as they came because their flow's average was above the thresholds.
    pub forced_mark: u64,
    /// Packets marked at the head for the same reason.
    pub forced_mark_head: u64,
    /// Packets dropped for the same reason.
    pub forced_drop: u64,
    /// Packets whose flow was congested, by RED.
    pub overlimits: u64,
    /// Packets dropped because their flow held as many as it may.
    pub drop_depth: u64,
    /// Packets dropped because all flows together held too many, or there were too many flows.
    pub drop_overlimit: u64,
    /// Number of new hash keys.
    pub perturbed: u64,
}

/// A table of buckets, the flows, and their lengths, all empty.
fn tables(config: &Config) -> (Box<[Option<Index>]>, Flows, Depths) {
    // Flows without a bucket never hold any packets.
    let flows = config.flows.min(config.divisor) as usize;
    let buckets = vec![None; config.divisor as usize].into_boxed_slice();
    (
        buckets,
        Flows(vec![Flow::default(); flows].into_boxed_slice()),
        Depths::new(flows, config.depth as usize),
    )
}

fn aqm(config: &Config) -> Result<Option<Aqm>, ConfigError> {
    config
        .red
        .as_ref()
        .map(|flow| Aqm::new(&flow.red, flow.limit))
        .transpose()
}

/// The quantum as flows count it.
fn allotment(config: &Config) -> i64 {
    i64::try_from(config.quantum.get()).expect("checked to be at most 1 MiB")
}

/// The cost of sending `len`: at least 1, or a flow of empty packets would have its turn forever.
fn cost(len: Bytes) -> i64 {
    i64::try_from(len.clamp(Bytes::new(1), MAX_DEBT).get()).expect("at most 1 MiB")
}

impl<P> Sfq<P> {
    /// Empty queues.
    ///
    /// # Errors
    /// If a parameter is out of range, or RED's contradict each other.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let seed = secret("seed", config.seed)?;
        let mut random = Random::new(seed);
        let (buckets, flows, depths) = tables(&config);
        Ok(Self {
            quantum: allotment(&config),
            aqm: aqm(&config)?,
            hash: Hash {
                key: random.bits64(),
                until: None,
            },
            seed,
            random,
            buckets,
            flows,
            turns: Chain::default(),
            depths,
            packets: Packets::new(),
            backlog: Backlog::default(),
            peeked: 0,
            stats: Stats::default(),
            config,
        })
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The bucket of a flow.
    fn bucket_of(&self, flow_hash: u64) -> usize {
        // The divisor is a power of two; the upper bits are the best mixed.
        ((mix(flow_hash ^ self.hash.key) >> 32) & u64::from(self.config.divisor - 1)) as usize
    }

    /// Gives `bucket` a flow without packets, if there is one left.
    fn open(&mut self, bucket: usize) -> Option<Index> {
        let at = self.depths.first(0)?;
        self.buckets[bucket] = Some(at);
        *self.flows.at(at) = Flow {
            bucket,
            ..Flow::default()
        };
        Some(at)
    }

    /// Takes the flow whose turn it is, which has no packets left, out of its bucket.
    fn close(&mut self) {
        if let Some(at) = self.turns.pop_front(&self.flows) {
            self.buckets[self.flows.at(at).bucket] = None;
        }
    }
}

impl<P: Item> Sfq<P> {
    /// Replaces the parameters. When the flows, the buckets or the depth change, all packets are
    /// hashed again. What exceeds a lowered limit is dropped where this qdisc always drops: from
    /// the longest flow, at the tail unless `headdrop`.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if `seed` differs: the random sequence has begun. Then nothing
    /// changes.
    pub fn reconfigure(&mut self, config: Config, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        config.check()?;
        check_secret("seed", config.seed, self.seed)?;
        let aqm = aqm(&config)?;
        for flow in &mut self.flows.0 {
            match (&self.aqm, &aqm) {
                (Some(old), Some(new)) => old.hand_over(&mut flow.red, new),
                _ => flow.red = State::default(),
            }
        }
        let shape = |config: &Config| (config.flows, config.divisor, config.depth);
        let reshaped = shape(&config) != shape(&self.config);
        (self.quantum, self.aqm, self.config) = (allotment(&config), aqm, config);
        if reshaped {
            let all = self.gather();
            (self.buckets, self.flows, self.depths) = tables(&self.config);
            self.scatter(all, drops);
        }
        self.keep_limit(drops);
        Ok(())
    }

    /// Gives the hash a new key when the old one has been used for its time.
    fn perturb(&mut self, now: Instant, drops: &mut Drops<P>) {
        let Some(period) = self.config.perturb else {
            return;
        };
        // A clock that stepped back does not keep a key for as long as it stepped.
        let until = self
            .hash
            .until
            .map_or(now + period, |until| until.min(now + period));
        if now < until {
            self.hash.until = Some(until);
            return;
        }
        self.hash = Hash {
            key: self.random.bits64(),
            until: Some(now + period),
        };
        self.stats.perturbed += 1;
        let all = self.gather();
        self.scatter(all, drops);
    }

    /// Takes the packets out of all flows, flow by flow, and closes these.
    fn gather(&mut self) -> Queue {
        let mut all = Queue::default();
        while let Some(at) = self.turns.front() {
            let queue = self.flows.at(at).queue.take();
            self.packets.append(&mut all, queue);
            (0..self.depths.of(at)).for_each(|_| self.depths.shrink(at));
            self.close();
        }
        all
    }

    /// Sorts packets into flows by the hash as it is now. What finds no place is dropped; each flow
    /// keeps its order.
    fn scatter(&mut self, mut all: Queue, drops: &mut Drops<P>) {
        while let Some(packet) = self.packets.pop_front(&mut all) {
            self.backlog.remove(packet.len());
            let bucket = self.bucket_of(packet.flow_hash());
            match self.buckets[bucket].or_else(|| self.open(bucket)) {
                None => self.refuse(packet, DropReason::Overlimit, drops),
                Some(at) if self.is_deep(at) => self.refuse(packet, DropReason::FlowLimit, drops),
                Some(at) => {
                    let flow = self.flows.at(at);
                    if let Some(aqm) = &self.aqm {
                        aqm.observe(&mut flow.red, flow.bytes);
                    }
                    self.append(at, packet);
                }
            }
        }
    }

    fn is_deep(&self, at: Index) -> bool {
        self.depths.of(at) >= self.config.depth as usize
    }

    /// Drops a packet that was not queued.
    fn refuse(&mut self, packet: P, reason: DropReason, drops: &mut Drops<P>) {
        match reason {
            DropReason::FlowLimit => self.stats.drop_depth += 1,
            DropReason::Overlimit => self.stats.drop_overlimit += 1,
            _ => {}
        }
        drops.push(packet, reason);
    }

    /// Puts a packet at the end of its flow, and a flow that had none at the end of the turns: to
    /// serve new flows first would starve the old ones.
    fn append(&mut self, at: Index, packet: P) {
        let (len, flow) = (packet.len(), self.flows.at(at));
        self.packets.push_back(&mut flow.queue, packet);
        flow.bytes += len;
        self.backlog.add(len);
        if self.depths.of(at) == 0 {
            flow.allot = self.quantum;
            self.turns.push_back(&mut self.flows, at);
        }
        self.depths.grow(at);
    }

    /// Takes a packet from a flow, which stays open.
    fn remove(&mut self, at: Index, head: bool) -> Option<P> {
        let flow = self.flows.at(at);
        let end = if head {
            Packets::pop_front
        } else {
            Packets::pop_back
        };
        let packet = end(&mut self.packets, &mut flow.queue)?;
        flow.bytes -= packet.len();
        self.backlog.remove(packet.len());
        self.depths.shrink(at);
        Some(packet)
    }

    /// A flow must lose a packet: the newcomer, or the oldest in favor of the newcomer. Its length
    /// stays.
    fn replace(&mut self, at: Index, packet: P, reason: DropReason, drops: &mut Drops<P>) {
        let flow = self.flows.at(at);
        let oldest = if self.config.headdrop {
            self.packets.pop_front(&mut flow.queue)
        } else {
            None
        };
        let Some(oldest) = oldest else {
            return self.refuse(packet, reason, drops);
        };
        flow.bytes = flow.bytes - oldest.len() + packet.len();
        self.backlog.remove(oldest.len());
        self.backlog.add(packet.len());
        self.packets.push_back(&mut flow.queue, packet);
        self.refuse(oldest, reason, drops);
    }

    /// Tells the sender of a packet that met congestion; false if that takes dropping one.
    fn signal(&mut self, at: Index, congestion: Congestion, packet: &mut P) -> bool {
        self.stats.overlimits += 1;
        let forced = congestion == Congestion::Forced;
        let Stats {
            prob_mark,
            prob_mark_head,
            prob_drop,
            forced_mark,
            forced_mark_head,
            forced_drop,
            ..
        } = &mut self.stats;
        let (mark, mark_head, drop) = match forced {
            true => (forced_mark, forced_mark_head, forced_drop),
            false => (prob_mark, prob_mark_head, prob_drop),
        };
        if self
            .config
            .red
            .as_ref()
            .is_some_and(|red| red.ecn && !(forced && red.harddrop))
        {
            let queue = self.flows.at(at).queue;
            if self.config.headdrop && self.packets.front_mut(queue).is_some_and(Item::set_ce) {
                *mark_head += 1;
                return true;
            }
            if packet.set_ce() {
                *mark += 1;
                return true;
            }
        }
        *drop += 1;
        false
    }

    /// A packet of a flow that holds some already.
    fn join(&mut self, at: Index, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        if let Some(aqm) = &self.aqm {
            let flow = self.flows.at(at);
            let congestion = aqm.arrive(&mut flow.red, flow.bytes, now, &mut self.random);
            if congestion != Congestion::None && !self.signal(at, congestion, &mut packet) {
                return self.replace(at, packet, DropReason::Early, drops);
            }
        }
        if self.is_deep(at) {
            return self.replace(at, packet, DropReason::FlowLimit, drops);
        }
        self.append(at, packet);
    }

    /// Drops from the longest flow until the limit holds. Of several, the one that came to its
    /// length last pays; when all have but one packet, the one whose turn it is.
    fn keep_limit(&mut self, drops: &mut Drops<P>) {
        while self.backlog.packets + self.peeked > self.config.limit as usize {
            let longest = self.depths.longest();
            let at = if longest > 1 {
                self.depths.first(longest)
            } else {
                self.turns.front()
            };
            let Some(at) = at else { return };
            let Some(packet) = self.remove(at, self.config.headdrop) else {
                return;
            };
            if longest == 1 {
                self.close();
            }
            self.refuse(packet, DropReason::Overlimit, drops);
        }
    }
}

impl<P: Item> Qdisc<P> for Sfq<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        self.perturb(now, drops);
        packet.set_enqueued(now);
        let bucket = self.bucket_of(packet.flow_hash());
        if let Some(at) = self.buckets[bucket] {
            self.join(at, packet, now, drops);
        } else if let Some(at) = self.open(bucket) {
            self.append(at, packet);
        } else {
            return self.refuse(packet, DropReason::Overlimit, drops);
        }
        self.keep_limit(drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        self.perturb(now, drops);
        loop {
            let at = self.turns.front()?;
            let flow = self.flows.at(at);
            if flow.allot <= 0 {
                flow.allot += self.quantum;
                self.turns.pop_front(&self.flows);
                self.turns.push_back(&mut self.flows, at);
                continue;
            }
            let packet = self.remove(at, true)?;
            if self.depths.of(at) == 0 {
                self.close();
            } else {
                self.flows.at(at).allot -= cost(packet.len());
            }
            return Some(packet);
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.backlog.is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn set_peeked(&mut self, peeked: bool) {
        self.peeked = usize::from(peeked);
    }
}
