//! [`Htb`]: hierarchical token buckets, a link shared out among a tree of classes
//! (`net/sched/sch_htb.c`; `tc`'s `htb`).
//!
//! Each class has a rate that it is guaranteed and a ceiling. A leaf below its rate sends by its
//! own right; above it, up to its ceiling, what its ancestors lend, the nearest first, lower
//! priorities' numbers before higher ones, equal ones in turn by their quantum. Packets that belong
//! to no class leave at once, before all others. Arithmetic and order of service are Linux 6.1's.
//!
//! The cost of a packet grows with the depth of the tree and the logarithm of the number of
//! classes. Only leaves whose own qdiscs hold packets back (a shaper below a shaper) are asked one
//! after the other. A packet's local priority has four bits and names no class, so classification
//! begins with the filters.

mod bits;
mod class;
mod edit;
mod params;
mod ring;
#[cfg(test)]
mod tests;
mod tree;
mod waiting;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Backlog, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::children::Children;
use crate::class::ClassId;
use crate::classful::Classful;
use crate::filter::{Filters, Verdict};
use crate::stats::Common;

use tree::Tree;

pub use params::{ClassConfig, Config, Depth};

/// Maximum depth of the tree.
const DEPTH: usize = 8;
/// Number of priorities.
const PRIORITIES: usize = 8;
/// Asked again after this time at the latest, should nothing be known to happen before.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A tree of classes that share a link.
///
/// ```
/// use tautline_base::{Instant, Packet, Rate};
/// use tautline_qdisc::htb::{ClassConfig, Config};
/// use tautline_qdisc::{ClassId, Drops, Htb, Pfifo, Qdisc, pfifo};
///
/// let mut htb = Htb::new(1, Config { default: Some(0x10), ..Config::default() })?;
/// let (link, class) = (ClassId::new(1, 1), ClassId::new(1, 0x10));
/// let fifo = || Pfifo::new(pfifo::Config::default());
/// let rate = |mbit| ClassConfig { rate: Rate::mbit(mbit), ..ClassConfig::default() };
/// htb.add_class(link, None, rate(10), fifo())?;
/// let borrowing = ClassConfig { ceil: Some(Rate::mbit(10)), ..rate(2) };
/// htb.add_class(class, Some(link), borrowing, fifo())?;
/// let mut drops = Drops::new();
/// htb.enqueue(Packet::new((), 1514), Instant::from_secs(1), &mut drops);
/// assert!(htb.dequeue(Instant::from_secs(1), &mut drops).is_some());
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Htb<P, Q> {
    config: Config,
    filters: Filters,
    tree: Tree,
    /// Beside the classes of the tree, in the same order. A class with classes below it keeps the
    /// qdisc it was given, empty, for the time when they are gone.
    children: Children<P, Q>,
    direct: VecDeque<P>,
    direct_backlog: Backlog,
    direct_packets: u64,
    /// Set when nothing may leave: until then there is no use in asking again.
    closed_until: Option<Instant>,
}

/// State and counters of a class of [`Htb`].
#[derive(Clone, Debug, PartialEq)]
pub struct ClassStats {
    /// Its name.
    pub id: ClassId,
    /// The class above it.
    pub parent: Option<ClassId>,
    /// 0 for leaves, up to 7 for a class below the root.
    pub level: usize,
    /// Its parameters, including the derived values in force.
    pub config: ClassConfig,
    /// Packets sent within its own rate.
    pub lends: u64,
    /// Packets sent with an ancestor's tokens.
    pub borrows: u64,
    /// Packets longer than its `mtu`.
    pub giants: u64,
    /// Times it came to its ceiling.
    pub overlimits: u64,
    /// Nanoseconds in the bucket of its rate; negative if it owes.
    pub tokens: i64,
    /// Nanoseconds in the bucket of its ceiling.
    pub ceil_tokens: i64,
    /// Packets sent and dropped; a class with classes below it counts what they sent.
    pub common: Common,
}

/// The destination of a packet.
enum Destination {
    Class(usize),
    Direct,
    Dropped,
}

impl<P: Item, Q: Qdisc<P>> Htb<P, Q> {
    /// A qdisc called `handle`, without classes yet: every packet leaves unshaped.
    ///
    /// # Errors
    /// If `r2q` or `hz` is zero.
    pub fn new(handle: u16, config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            filters: Filters::default(),
            tree: Tree::new(),
            children: Children::new(handle),
            direct: VecDeque::new(),
            direct_backlog: Backlog::default(),
            direct_packets: 0,
            closed_until: None,
        })
    }

    /// Replaces the parameters. Packets above a lowered limit stay; quanta and buckets follow when
    /// their class is next changed.
    ///
    /// # Errors
    /// As [`new`](Self::new). Then nothing changes.
    pub fn reconfigure(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// Adds `class` below `parent`, or at the top, with the qdisc `child`, which must be empty. The
    /// qdisc of a parent that was a leaf rests until the parent is one again.
    ///
    /// # Errors
    /// If the class exists or is not of this qdisc, there is no such parent, the parent holds
    /// packets (let it run empty or [`graft`](Self::graft) an empty qdisc), the tree would be
    /// deeper than eight classes, or a value of `config` is out of its range. Then nothing changes.
    pub fn add_class(
        &mut self,
        class: ClassId,
        parent: Option<ClassId>,
        config: ClassConfig,
        child: Q,
    ) -> Result<(), ConfigError> {
        config.check()?;
        let above = parent
            .map(|parent| self.children.known(parent, "parent"))
            .transpose()?;
        if let (Some(above), Some(parent)) = (above, parent) {
            ConfigError::check(
                self.tree.admits_below(above),
                "parent",
                parent,
                "at most seven classes deep",
            )?;
            let empty = self.children.held(above).is_empty();
            ConfigError::check(
                empty,
                "parent",
                parent,
                "a class without packets of its own",
            )?;
        }
        let at = self.children.insert(class, child)?;
        self.tree.add(at, above, config, &self.config);
        Ok(())
    }

    /// Gives a class new parameters. Queued packets stay; what it owes is owed in bytes.
    ///
    /// # Errors
    /// If there is no such class, or a value is out of its range. Then nothing changes.
    pub fn change_class_config(
        &mut self,
        class: ClassId,
        config: ClassConfig,
        now: Instant,
    ) -> Result<(), ConfigError> {
        config.check()?;
        let at = self.children.known(class, "classid")?;
        self.tree.change(at, config, &self.config, now);
        self.closed_until = None;
        Ok(())
    }

    /// Removes a class; its packets go to `drops`. A parent that has no other is a leaf again.
    ///
    /// # Errors
    /// If there is no such class, or it has classes below it. Then nothing changes.
    pub fn remove_class(
        &mut self,
        class: ClassId,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        let at = self.children.known(class, "classid")?;
        let leaf = self.tree.classes[at].is_leaf();
        ConfigError::check(leaf, "classid", class, "a class without classes below it")?;
        self.children.remove(at, drops);
        self.tree.remove(at);
        self.closed_until = None;
        Ok(())
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Packets that belonged to no class and left unshaped.
    pub fn direct_packets(&self) -> u64 {
        self.direct_packets
    }

    /// Times a class came to its ceiling.
    pub fn overlimits(&self) -> u64 {
        self.tree.overlimits
    }

    /// The parameters that `class` was given.
    pub fn class_config(&self, class: ClassId) -> Option<&ClassConfig> {
        let at = self.children.find(class)?;
        Some(&self.tree.classes[at].config)
    }

    /// Every class: its state, what passed it, and its qdisc if it is a leaf.
    pub fn classes(&self) -> impl Iterator<Item = (ClassStats, Option<&Q>)> {
        let classes = self.tree.classes.iter().zip(self.children.iter());
        classes.map(|(class, (id, queue, common))| {
            let counters = class.counters;
            let (tokens, ceil_tokens) = class.tokens();
            let inner = Common {
                sent_bytes: counters.sent_bytes,
                sent_packets: counters.sent_packets,
                ..Common::default()
            };
            let stats = ClassStats {
                id,
                parent: class.parent.map(|above| self.children.id(above)),
                level: class.level,
                config: class.resolved.clone(),
                lends: counters.lends,
                borrows: counters.borrows,
                giants: counters.giants,
                overlimits: counters.overlimits,
                tokens,
                ceil_tokens,
                common: if class.is_leaf() { common } else { inner },
            };
            (stats, class.is_leaf().then_some(queue))
        })
    }

    /// Sets the rules that choose a class. The qdisc's own handle (`1:`) lets a packet leave
    /// unshaped.
    pub fn set_filters(&mut self, filters: Filters) {
        self.filters = filters;
    }

    /// Destination of `packet`: to the leaf that a filter names, else to the default class, else
    /// past all classes.
    fn classify(&mut self, packet: &mut P, now: Instant) -> Destination {
        let leaf = |class| {
            self.children
                .find(class)
                .filter(|&at| self.tree.classes[at].is_leaf())
        };
        let default = || {
            let class = self.config.default.map(|minor| ClassId {
                minor,
                ..self.children.handle()
            });
            class
                .and_then(leaf)
                .map_or(Destination::Direct, Destination::Class)
        };
        match self.filters.classify(packet, now) {
            Verdict::Drop => Destination::Dropped,
            Verdict::Class(class) if class == self.children.handle() => Destination::Direct,
            Verdict::Class(class) => leaf(class).map_or_else(default, Destination::Class),
            Verdict::Continue => default(),
        }
    }

    /// Queues `packet` in the leaf at `at`.
    fn enqueue_to(&mut self, at: usize, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.children.enqueue(at, packet, now, drops);
        if !self.children.held(at).is_empty() {
            self.tree.activate(at);
        }
        self.closed_until = None;
    }

    fn enqueue_direct(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        if self.direct.len() >= self.config.direct_qlen as usize {
            return drops.push(packet, DropReason::Overlimit);
        }
        packet.set_enqueued(now);
        self.direct_packets += 1;
        self.direct_backlog.add(packet.len());
        self.direct.push_back(packet);
    }

    /// A packet that may leave at `level` and `prio`; `opens` learns when the qdiscs that hold
    /// theirs back will give one.
    fn dequeue_at(
        &mut self,
        (level, prio): (usize, usize),
        now: Instant,
        opens: &mut Option<Instant>,
        drops: &mut Drops<P>,
    ) -> Option<P> {
        let mut at = self.tree.leaf_in_turn(level, prio)?;
        let mut first = at;
        loop {
            if self.children.held(at).is_empty() {
                self.tree.deactivate(at);
                if !self.tree.is_sendable(level, prio) {
                    return None;
                }
                let next = self.tree.leaf_in_turn(level, prio)?;
                if at == first {
                    first = next;
                }
                at = next;
                continue;
            }
            if let Some(packet) = self.children.dequeue(at, now, drops) {
                self.tree.count_turn(at, level, prio, packet.len());
                if self.children.held(at).is_empty() {
                    self.tree.deactivate(at);
                }
                self.tree.pay(at, level, packet.len(), packet.segments());
                return Some(packet);
            }
            *opens = [*opens, self.children.ready_at(at)]
                .into_iter()
                .flatten()
                .min();
            self.tree.end_turn(at, level, prio);
            at = self.tree.leaf_in_turn(level, prio)?;
            if at == first {
                return None;
            }
        }
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Htb<P, Q> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        match self.classify(&mut packet, now) {
            Destination::Class(at) => self.enqueue_to(at, packet, now, drops),
            Destination::Direct => self.enqueue_direct(packet, now, drops),
            Destination::Dropped => drops.push(packet, DropReason::Filter),
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        if let Some(packet) = self.direct.pop_front() {
            self.direct_backlog.remove(packet.len());
            return Some(packet);
        }
        if self.children.backlog().is_empty() {
            return None;
        }
        self.tree.advance_to(now);
        self.closed_until = None;
        let mut opens = None;
        for level in 0..DEPTH {
            self.tree.wake(level);
            for prio in self.tree.sendable(level) {
                if let Some(packet) = self.dequeue_at((level, prio), now, &mut opens, drops) {
                    return Some(packet);
                }
            }
        }
        let event = [self.tree.waiting.next_event(), opens]
            .into_iter()
            .flatten()
            .min();
        self.closed_until = Some(event.map_or(now + LONGEST_WAIT, |event| {
            event.max(now + Duration::from_nanos(1))
        }));
        None
    }

    fn ready_at(&self) -> Option<Instant> {
        if !self.direct.is_empty() {
            return Some(Instant::ZERO);
        }
        (!self.children.backlog().is_empty()).then(|| self.closed_until.unwrap_or(Instant::ZERO))
    }

    fn backlog(&self) -> Backlog {
        let (direct, children) = (self.direct_backlog, self.children.backlog());
        Backlog {
            packets: direct.packets + children.packets,
            bytes: direct.bytes + children.bytes,
        }
    }
}

impl<P: Item, Q: Qdisc<P>> Classful<P> for Htb<P, Q> {
    type Child = Q;

    fn handle(&self) -> u16 {
        self.children.handle().major
    }

    fn leaves(&self) -> Vec<ClassId> {
        let classes = self.children.iter().zip(&self.tree.classes);
        let leaves = classes.filter(|(_, class)| class.is_leaf());
        leaves.map(|((id, ..), _)| id).collect()
    }

    fn graft(&mut self, class: ClassId, child: Q, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        let at = self.children.known(class, "parent")?;
        let leaf = self.tree.classes[at].is_leaf();
        ConfigError::check(leaf, "parent", class, "a class without classes below it")?;
        self.children.replace(at, child, drops);
        self.closed_until = None;
        Ok(())
    }

    fn with_child<R>(
        &mut self,
        class: ClassId,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> R,
    ) -> Option<R> {
        self.closed_until = None;
        let at = self.children.find(class)?;
        if !self.tree.classes[at].is_leaf() {
            return None;
        }
        Some(self.children.with_child(at, drops, call))
    }
}
