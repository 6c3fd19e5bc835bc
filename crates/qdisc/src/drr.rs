//! [`Drr`]: deficit round robin among classes (Shreedhar and Varghese 1996; `net/sched/sch_drr.c`;
//! `tc`'s `drr`).
//!
//! A class in turn sends while its head fits its deficit; if it does not, the deficit grows by the
//! quantum and the next class has its turn. So each gets bytes in proportion to its quantum,
//! whatever the sizes of its packets. A class that runs empty loses what is left of its deficit.
//! Packets that no filter puts into a class are dropped.
//!
//! Linux stops at a class whose qdisc holds its packets back (a shaper); here the next class is
//! served.

mod params;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::children::Children;
use crate::class::ClassId;
use crate::classful::Parent;
use crate::filter::{Filters, Verdict};
use crate::rounds::Rounds;
use crate::stats::Common;

pub use params::{ClassConfig, Config};

/// Classes that take turns.
///
/// ```
/// use tautline_base::{Bytes, Instant};
/// use tautline_qdisc::filter::{Filter, Filters, Masked, Matcher};
/// use tautline_qdisc::{ClassId, Drops, Drr, Pfifo, Qdisc, drr::ClassConfig, pfifo};
/// use tautline_testkit::Probe;
///
/// let (mut drr, mut filters, mut drops) = (Drr::new(1), Filters::default(), Drops::new());
/// for (mark, quantum) in [(1, 1514), (2, 3028)] {
///     let class = ClassId::new(1, mark);
///     let config = ClassConfig { quantum: Bytes::new(quantum) };
///     drr.add_class(class, config, Pfifo::new(pfifo::Config::default()))?;
///     filters.add(Filter::new(Matcher::Mark(Masked::new(mark.into(), !0)), Some(class)))?;
/// }
/// drr.set_filters(filters);
/// for packet in 0..12 {
///     drr.enqueue(Probe::new(packet).marked(1 + packet % 2), Instant::ZERO, &mut drops);
/// }
/// let sent = (0..6).filter_map(|_| drr.dequeue(Instant::ZERO, &mut drops));
/// assert_eq!(sent.filter(|packet| packet.id % 2 == 1).count(), 4); // twice the quantum: two of three
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Drr<P, Q> {
    filters: Filters,
    children: Children<P, Q>,
    /// Beside the children, in the same order.
    configs: Vec<ClassConfig>,
    rounds: Rounds,
    /// Set when all children held their packets back: none yields one before this time.
    closed_until: Option<Instant>,
}

impl<P: Item, Q: Qdisc<P>> Drr<P, Q> {
    /// A qdisc called `handle`, without classes yet: it drops everything.
    pub fn new(handle: u16) -> Self {
        let (filters, children) = (Filters::default(), Children::new(handle));
        Self {
            filters,
            children,
            configs: Vec::new(),
            rounds: Rounds::default(),
            closed_until: None,
        }
    }

    /// Adds `class` with the qdisc `child`, which must be empty.
    ///
    /// # Errors
    /// If the class exists or is not of this qdisc, or `quantum` is zero. Then nothing changes.
    pub fn add_class(
        &mut self,
        class: ClassId,
        config: ClassConfig,
        child: Q,
    ) -> Result<(), ConfigError> {
        config.check()?;
        let at = self.children.insert(class, child)?;
        self.rounds.insert(at, config.quantum);
        self.configs.insert(at, config);
        Ok(())
    }

    /// Gives a class new parameters. Its deficit stays.
    ///
    /// # Errors
    /// If there is no such class, or `quantum` is zero. Then nothing changes.
    pub fn change_class_config(
        &mut self,
        class: ClassId,
        config: ClassConfig,
        _now: Instant,
    ) -> Result<(), ConfigError> {
        config.check()?;
        let at = self.children.known(class, "classid")?;
        self.rounds.set_quantum(at, config.quantum);
        self.configs[at] = config;
        Ok(())
    }

    /// Removes a class; its packets go to `drops`.
    ///
    /// # Errors
    /// If there is no such class.
    pub fn remove_class(
        &mut self,
        class: ClassId,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        let at = self.children.known(class, "classid")?;
        self.children.remove(at, drops);
        self.configs.remove(at);
        self.rounds.remove(at);
        Ok(())
    }

    /// Every class, its qdisc and what passed it.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Q, Common)> {
        self.children.iter()
    }

    /// The parameters of `class` and its deficit in bytes.
    pub fn class(&self, class: ClassId) -> Option<(&ClassConfig, Bytes)> {
        let at = self.children.find(class)?;
        Some((&self.configs[at], self.rounds.deficit(at)))
    }

    /// Sets the rules that choose a class.
    pub fn set_filters(&mut self, filters: Filters) {
        self.filters = filters;
    }

    /// Queues `packet` in the class at `at`, whose turn comes last if it had none.
    fn enqueue_to(&mut self, at: usize, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.children.enqueue(at, packet, now, drops);
        if !self.children.held(at).is_empty() {
            self.rounds.activate(at);
        }
        self.closed_until = None;
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Drr<P, Q> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        let found = match self.filters.classify(&mut packet, now) {
            Verdict::Class(class) => self.children.find(class),
            Verdict::Continue | Verdict::Drop => None,
        };
        match found {
            Some(at) => self.enqueue_to(at, packet, now, drops),
            None => drops.push(packet, DropReason::Filter),
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        self.closed_until = None;
        if let Some(packet) = self.rounds.dequeue(&mut self.children, now, drops) {
            return Some(packet);
        }
        let opens = self.rounds.opens(&self.children);
        self.closed_until = opens.map(|opens| opens.max(now + Duration::from_nanos(1)));
        None
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.backlog().is_empty()).then(|| self.closed_until.unwrap_or(Instant::ZERO))
    }

    fn backlog(&self) -> Backlog {
        self.children.backlog()
    }
}

impl<P: Item, Q: Qdisc<P>> Parent for Drr<P, Q> {
    type Packet = P;
    type Child = Q;

    fn children(&self) -> &Children<P, Q> {
        &self.children
    }

    fn children_mut(&mut self) -> &mut Children<P, Q> {
        self.closed_until = None;
        &mut self.children
    }

    fn note_change(&mut self, at: usize) {
        if self.children.held(at).is_empty() {
            self.rounds.deactivate(at);
        }
    }
}
