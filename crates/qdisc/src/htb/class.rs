//! [`Class`]: two buckets, a place in the tree, and what it may do now.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

use super::params::{ClassConfig, Config, Depth};
use super::ring::Ring;
use super::{DEPTH, PRIORITIES};
use crate::rate::Cost;

/// Neither credit for idle time nor debt exceeds a minute.
const LONGEST: i64 = 60_000_000_000;

/// The mode of a class by its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is at its ceiling.
    CannotSend,
    /// It is at its rate, below its ceiling: it may send if an ancestor lends.
    MayBorrow,
    /// It is below its rate.
    CanSend,
}

/// The node below a class.
#[derive(Debug)]
pub(super) enum Node {
    /// A qdisc. With each level that lends to it, its deficit in the round there.
    Leaf([i64; DEPTH]),
    /// Classes.
    Inner(Box<Inner>),
}

/// Classes below a class.
#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Their positions among all classes, in the order of their numbers.
    pub(super) children: Vec<usize>,
    /// The children that borrow, by priority and index in `children`.
    pub(super) feeds: [Ring; PRIORITIES],
}

/// A class without its qdisc.
#[derive(Debug)]
pub(super) struct Class {
    /// As it was given.
    pub(super) config: ClassConfig,
    /// The parameters in force: every value filled in.
    pub(super) resolved: ClassConfig,
    pub(super) parent: Option<usize>,
    /// Its place among the children of its parent.
    pub(super) place: usize,
    /// 0 for leaves, 7 for classes below the root that have classes below them, and so on
    /// downwards.
    pub(super) level: usize,
    pub(super) node: Node,
    pub(super) mode: Mode,
    /// The priorities, one bit each, at which it or classes below it have packets (and, for these,
    /// ask it to lend).
    pub(super) activity: u8,
    pub(super) quantum: i64,
    buckets: Buckets,
    pub(super) counters: Counters,
}

#[derive(Debug)]
struct Buckets {
    rate: Cost,
    ceil: Cost,
    depth: i64,
    ceil_depth: i64,
    tokens: i64,
    ceil_tokens: i64,
    filled: Instant,
    /// While it borrows, its own bucket fills beyond its depth.
    overflows: bool,
}

/// Counters of a class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Packets sent by what this class may send itself.
    pub(super) lends: u64,
    /// Packets sent with an ancestor's leave.
    pub(super) borrows: u64,
    /// Packets longer than its `mtu`.
    pub(super) giants: u64,
    /// Times it came to its ceiling.
    pub(super) overlimits: u64,
    /// Packets sent, of classes that have classes below them.
    pub(super) sent_bytes: Bytes,
    pub(super) sent_packets: u64,
}

/// The quantum of a class as deficits are counted; `resolved` has every value filled in.
fn quantum(resolved: &ClassConfig) -> i64 {
    resolved.quantum.map_or(1, |quantum| {
        i64::try_from(quantum.get()).unwrap_or(i64::MAX / 2)
    })
}

impl Class {
    /// A leaf with full buckets.
    pub(super) fn new(config: ClassConfig, parent: Option<usize>, shape: &Config) -> Self {
        let resolved = config.resolved(shape);
        let buckets = Buckets::full(&resolved, shape.depth);
        let node = Node::Leaf([0; DEPTH]);
        let (mode, counters) = (Mode::CanSend, Counters::default());
        let quantum = quantum(&resolved);
        Self {
            config,
            resolved,
            parent,
            place: 0,
            level: 0,
            node,
            mode,
            activity: 0,
            quantum,
            buckets,
            counters,
        }
    }

    /// Replaces the parameters; the buckets keep what they hold, as far as it fits.
    pub(super) fn reconfigure(&mut self, config: ClassConfig, shape: &Config) {
        let resolved = config.resolved(shape);
        let fresh = Buckets::full(&resolved, shape.depth);
        let Buckets {
            tokens,
            ceil_tokens,
            filled,
            ..
        } = self.buckets;
        self.buckets = Buckets {
            tokens: tokens.min(fresh.depth),
            ceil_tokens: ceil_tokens.min(fresh.ceil_depth),
            filled,
            ..fresh
        };
        self.quantum = quantum(&resolved);
        (self.config, self.resolved) = (config, resolved);
    }

    /// Counts what the buckets hold or owe at the rates of `config` instead of its own: the bytes
    /// stay, the time they take changes.
    pub(super) fn convert_buckets(&mut self, config: &ClassConfig) {
        let convert = |held: i64, from: Rate, to: Rate| {
            let [from, to] = [from, to].map(|rate| i128::from(rate.as_bytes_per_sec()));
            let converted = i128::from(held) * from / to;
            converted.clamp((1 - LONGEST).into(), (i64::MAX / 2).into()) as i64
        };
        let Buckets {
            tokens,
            ceil_tokens,
            ..
        } = &mut self.buckets;
        *tokens = convert(*tokens, self.config.rate, config.rate);
        *ceil_tokens = convert(*ceil_tokens, self.config.ceil(), config.ceil());
    }

    /// Fills the buckets again, as those of a new class.
    pub(super) fn refill(&mut self) {
        (self.buckets.tokens, self.buckets.ceil_tokens) =
            (self.buckets.depth, self.buckets.ceil_depth);
    }

    pub(super) fn is_leaf(&self) -> bool {
        matches!(self.node, Node::Leaf(_))
    }

    /// The classes below it.
    pub(super) fn inner_mut(&mut self) -> Option<&mut Inner> {
        match &mut self.node {
            Node::Leaf(_) => None,
            Node::Inner(inner) => Some(inner),
        }
    }

    pub(super) fn prio(&self) -> usize {
        self.config.prio.min(7).into()
    }

    /// Nanoseconds of credit earned since the buckets were last filled.
    pub(super) fn earned(&self, now: Instant) -> i64 {
        i64::try_from(now.nanos_since(self.buckets.filled))
            .unwrap_or(i64::MAX)
            .min(LONGEST)
    }

    /// Its mode with `earned` more tokens in its buckets, and the nanoseconds until the mode can
    /// change.
    pub(super) fn mode_with(&self, earned: i64, now: Instant) -> (Mode, i64) {
        let [tokens, ceil_tokens] = [
            self.buckets.tokens + earned,
            self.buckets.ceil_tokens + earned,
        ];
        // A saturated time cannot be waited for.
        let forced = now == Instant::from_nanos(u64::MAX);
        if ceil_tokens < 0 && !forced {
            (Mode::CannotSend, -ceil_tokens)
        } else if tokens < 0 && !forced {
            (Mode::MayBorrow, -tokens)
        } else {
            (Mode::CanSend, 0)
        }
    }

    /// Pays for a packet that left by leave of `level`. A class below that level pays only from its
    /// ceiling's bucket.
    #[inline]
    pub(super) fn pay(&mut self, len: Bytes, level: usize, now: Instant) {
        let earned = self.earned(now);
        let Buckets {
            rate,
            ceil,
            depth,
            ceil_depth,
            tokens,
            ceil_tokens,
            filled,
            overflows,
        } = &mut self.buckets;
        let pay =
            |held: i64, depth: i64, cost: i64| ((held + earned).min(depth) - cost).max(1 - LONGEST);
        if self.level >= level {
            self.counters.lends += u64::from(self.level == level);
            *tokens = pay(*tokens, *depth, rate.nanos(len));
        } else {
            self.counters.borrows += 1;
            let most = if *overflows { LONGEST } else { *depth };
            *tokens = (*tokens + earned).min(most);
        }
        *ceil_tokens = pay(*ceil_tokens, *ceil_depth, ceil.nanos(len));
        *filled = now;
    }

    /// The fill of the buckets, in nanoseconds: by the rate, by the ceiling.
    pub(super) fn tokens(&self) -> (i64, i64) {
        (self.buckets.tokens, self.buckets.ceil_tokens)
    }

    /// The clock stepped back.
    pub(super) fn step_back(&mut self, step: Duration) {
        self.buckets.filled = self.buckets.filled - step;
    }
}

impl Buckets {
    /// `config` has every value filled in.
    fn full(config: &ClassConfig, depth: Depth) -> Self {
        let ceiling = config.ceil();
        let nanos = |burst: Option<Bytes>, rate| depth.nanos(burst.unwrap_or(config.mtu), rate);
        let overflows = depth == Depth::Ticks;
        let (depth, ceil_depth) = (
            nanos(config.burst, config.rate),
            nanos(config.cburst, ceiling),
        );
        Self {
            rate: Cost::new(config.rate, config.framing),
            ceil: Cost::new(ceiling, config.framing),
            overflows,
            depth,
            ceil_depth,
            tokens: depth,
            ceil_tokens: ceil_depth,
            filled: Instant::ZERO,
        }
    }
}
