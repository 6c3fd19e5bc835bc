//! [`DualPi2`]: two queues coupled so that classic and scalable congestion controls share a link
//! fairly, the scalable ones without its delay (L4S: RFC 9332; `tc`'s `dualpi2`).
//!
//! One base probability follows the delay of both queues. A packet of the classic queue is dropped
//! or marked with its square, one of the low-latency queue is marked with a multiple of it, so that
//! a Reno-like flow and one that halves per mark get the same rate. Besides, the low-latency queue
//! marks at once what has stayed a millisecond. It is served first, but for a share of the link
//! that is the classic queue's while both hold packets.

mod controller;
mod params;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use core::time::Duration;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Ecn, Instant, Item, Qdisc};

pub use params::{Config, DropAt, Identifier, Native, Overload};

use crate::class::ClassId;
use crate::codel::Source;
use crate::filter::{Filters, Verdict};
use crate::queue::Queue;
use crate::random::Random;
use crate::ticker::Ticker;
use controller::{Controller, Delays, ONE};

/// Two coupled queues.
///
/// ```
/// use tautline_base::{Instant, Item, Packet};
/// use tautline_qdisc::{Drops, DualPi2, Qdisc, dualpi2::Config};
///
/// let (mut queue, mut drops) = (DualPi2::new(Config::default())?, Drops::new());
/// for tos in [0, 1] { // ECT(1) identifies L4S packets
///     queue.enqueue(Packet::new((), 1514).with_tos(tos, 0), Instant::ZERO, &mut drops);
/// }
/// let first = queue.dequeue(Instant::ZERO, &mut drops);
/// assert_eq!(first.map(|packet| packet.tos()), Some(1)); // low latency first
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct DualPi2<P> {
    config: Config,
    filters: Filters,
    controller: Controller,
    ticker: Ticker,
    updated: u64,
    random: Random,
    classic: Queue<P>,
    low: Queue<P>,
    /// Beside the packets of `low`: whether a filter spares them marks and drops.
    spared: VecDeque<bool>,
    memory: Bytes,
    /// Packets that a parent has dequeued to learn their length: none or one.
    peeked: usize,
    /// Bytes that the low-latency queue is ahead of its share; the classic queue's turn is while it
    /// is positive.
    credit: i64,
    /// Probabilities of the packets since the last mark, where marks are spread evenly.
    recur: [f64; 2],
    stats: Stats,
}

/// Counters and peaks of [`DualPi2`]. Pairs hold the value of the classic queue, then of the
/// low-latency queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets queued.
    pub packets_in: [u64; 2],
    /// Most packets held at once.
    pub max_queue: usize,
    /// Most memory held at once.
    pub max_memory: Bytes,
    /// Packets marked.
    pub ecn_mark: u64,
    /// Packets marked for the low-latency queue's own delay.
    pub step_mark: u64,
    /// Packets dropped at the limit.
    pub overlimits: u64,
    /// Time that the packet at the head had waited at the last update; zero without one.
    pub delays: [Duration; 2],
}

/// One of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Classic,
    Low,
}

/// The class of a packet (`dualpi2_classification_results`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// It goes to the classic queue.
    Classic,
    /// It goes to the low-latency queue.
    L4s,
    /// It goes to the low-latency queue, and is neither marked nor dropped.
    Spared,
}

impl Class {
    fn side(self) -> Side {
        match self {
            Self::Classic => Side::Classic,
            Self::L4s | Self::Spared => Side::Low,
        }
    }
}

/// The decision about the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Mark,
    Drop,
}

impl<P> DualPi2<P> {
    /// Empty queues. Their clock starts with the first call.
    ///
    /// # Errors
    /// If `tupdate`, `alpha`, `beta`, `coupling_factor`, `classic_protection` or `mtu` is outside
    /// its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            filters: Filters::default(),
            controller: Controller::new(&config),
            ticker: Ticker::new(config.tupdate, config.tupdate),
            updated: 0,
            random: Random::new(config.seed),
            classic: Queue::new(),
            low: Queue::new(),
            spared: VecDeque::new(),
            memory: Bytes::ZERO,
            peeked: 0,
            credit: initial_credit(&config),
            recur: [0.0; 2],
            stats: Stats::default(),
            config,
        })
    }

    /// Sets rules for packets that do not identify themselves as low-latency by ECN: those they
    /// assign to class `1` of any qdisc go to the low-latency queue all the same. There, a packet
    /// that cannot be marked is dropped instead, on [overload](Overload::Drop) with the classic queue's
    /// probability. Those of class `2` go there too, and are neither
    /// marked nor dropped but at the limit.
    pub fn set_filters(&mut self, filters: Filters) {
        self.filters = filters;
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Packets received, held and marked.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Bytes by which the low-latency queue is ahead of its share.
    pub fn credit(&self) -> i64 {
        self.credit
    }

    /// Memory of all packets held.
    pub fn memory(&self) -> Bytes {
        self.memory
    }

    /// The base probability: its square is a classic packet's, `coupling` times it a low-latency
    /// packet's.
    pub fn probability(&self) -> f64 {
        f64::from(self.controller.probability()) / f64::from(ONE)
    }
}

/// An idle link owes the low-latency queue as much as its share exceeds the other by.
fn initial_credit(config: &Config) -> i64 {
    let share = i64::from(config.classic_protection);
    i64::try_from(config.mtu.get())
        .unwrap_or(i64::MAX)
        .saturating_mul(2 * share - 100)
}

impl<P: Item> DualPi2<P> {
    /// Replaces the parameters. Packets above lowered limits are dropped at the head of the classic
    /// queue, then of the other.
    ///
    /// # Errors
    /// As [`new`](Self::new); then nothing changes.
    pub fn reconfigure(&mut self, config: Config, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        config.check()?;
        self.controller = self.controller.with(&config);
        self.ticker = self.ticker.with(config.tupdate, config.tupdate);
        if config.seed != self.config.seed {
            self.random = Random::new(config.seed);
        }
        if initial_credit(&config) != initial_credit(&self.config) {
            self.credit = initial_credit(&config);
        }
        self.config = config;
        while let Some(reason) = self.exceeded() {
            let classic = self.take(Side::Classic);
            let Some((packet, _)) = classic.or_else(|| self.take(Side::Low)) else {
                break;
            };
            self.stats.overlimits += 1;
            drops.push(packet, reason);
        }
        Ok(())
    }

    fn exceeded(&self) -> Option<DropReason> {
        if self.memory > self.config.memory() {
            return Some(DropReason::Memory);
        }
        (self.backlog().packets + self.peeked > self.config.limit as usize)
            .then_some(DropReason::Overlimit)
    }

    fn queue(&mut self, side: Side) -> &mut Queue<P> {
        match side {
            Side::Classic => &mut self.classic,
            Side::Low => &mut self.low,
        }
    }

    /// The packet at the head of a queue and its class.
    fn take(&mut self, side: Side) -> Option<(P, Class)> {
        let packet = self.queue(side).pop()?;
        self.memory -= packet.memory();
        let class = match side {
            Side::Classic => Class::Classic,
            Side::Low if self.spared.pop_front() == Some(true) => Class::Spared,
            Side::Low => Class::L4s,
        };
        Some((packet, class))
    }

    /// The class of `packet`; `None` if a filter drops it.
    fn classify(&mut self, packet: &mut P, now: Instant) -> Option<Class> {
        if self.config.selects(packet.tos()) {
            return Some(Class::L4s);
        }
        match self.filters.classify(packet, now) {
            Verdict::Drop => None,
            Verdict::Class(ClassId { minor: 1, .. }) => Some(Class::L4s),
            Verdict::Class(ClassId { minor: 2, .. }) => Some(Class::Spared),
            Verdict::Class(_) | Verdict::Continue => Some(Class::Classic),
        }
    }

    /// Makes the updates that were due up to `now`. The packets at the heads are those that a timer
    /// would have seen.
    fn catch_up(&mut self, now: Instant) {
        let count = self.ticker.count(now);
        let due = count - self.updated;
        let Some(last) = self.ticker.last().filter(|_| due > 0) else {
            return;
        };
        self.updated = count;
        let period = u64::try_from(self.config.tupdate.as_nanos()).unwrap_or(u64::MAX);
        let first = Instant::from_nanos(
            last.as_nanos()
                .saturating_sub(period.saturating_mul(due - 1)),
        );
        let delays = |at: Instant| {
            [&self.classic, &self.low].map(|queue| queue.front().map(|head| at - head.enqueued()))
        };
        let delay = delays(first).into_iter().flatten().max();
        let growth = if delay.is_some() { period } else { 0 };
        let first = u64::try_from(delay.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
        self.stats.delays = delays(last).map(Option::unwrap_or_default);
        self.controller.update(Delays {
            first,
            growth,
            count: due,
        });
    }

    /// Queues a packet that is one segment, or stays whole.
    fn admit(&mut self, mut packet: P, class: Class, now: Instant, drops: &mut Drops<P>) {
        let side = class.side();
        let held = self.backlog();
        let room = self.config.memory().saturating_sub(self.memory);
        let refusal = match () {
            () if held.packets + self.peeked >= self.config.limit as usize => {
                Some(DropReason::Overlimit)
            }
            () if packet.memory() > room => Some(DropReason::Memory),
            () => None,
        };
        if let Some(reason) = refusal {
            self.stats.overlimits += 1;
            return drops.push(packet, reason);
        }
        if self.judged_at(class) == Some(DropAt::Enqueue) {
            let fate = self.coupled(side, held.bytes, &packet, now);
            if self.carry_out(fate, &mut packet) == Fate::Drop {
                return drops.push(packet, DropReason::Early);
            }
        }
        packet.set_enqueued(now);
        self.memory += packet.memory();
        self.queue(side).push(packet);
        if side == Side::Low {
            self.spared.push_back(class == Class::Spared);
        }
        self.stats.packets_in[side as usize] += 1;
        self.stats.max_queue = self.stats.max_queue.max(held.packets + 1);
        self.stats.max_memory = self.stats.max_memory.max(self.memory);
    }

    /// When the coupled probability decides about packets of `class`, if it does. A ramp needs the
    /// sojourn time, which is known at dequeue.
    fn judged_at(&self, class: Class) -> Option<DropAt> {
        match (class, self.config.native) {
            (Class::Spared, _) => None,
            (Class::L4s, Native::Ramp { .. }) => Some(DropAt::Dequeue),
            (Class::Classic | Class::L4s, _) => Some(self.config.drop_at),
        }
    }

    /// Decides about a packet while `backlog` is queued. With a ramp the low-latency queue's own
    /// probability takes part here.
    fn coupled(&mut self, side: Side, backlog: Bytes, packet: &P, now: Instant) -> Fate {
        let ramp = matches!(self.config.native, Native::Ramp { .. });
        let short = backlog.get() < self.config.mtu.get().saturating_mul(2);
        if short && !(ramp && side == Side::Low) {
            return Fate::Pass;
        }
        let base = self.controller.probability();
        let linked = u64::from(base) * u64::from(self.config.coupling);
        let overload = linked > u64::from(ONE);
        match side {
            Side::Classic if !self.squared(base) => Fate::Pass,
            Side::Classic if overload => Fate::Drop,
            Side::Low
                if overload
                    && !short
                    && self.should_drop(base.into())
                    && self.should_drop(base.into()) =>
            {
                Fate::Drop
            }
            // Filters put it here: dropping it because all are to be marked would drop all such packets.
            Side::Low if overload && Ecn::of_tos(packet.tos()) == Ecn::NotEct => Fate::Pass,
            Side::Low if overload => Fate::Mark,
            Side::Low if !self.low_marks(linked, packet, now) => Fate::Pass,
            Side::Classic | Side::Low => Fate::Mark,
        }
    }

    /// Whether a classic packet is chosen: with the square of the base probability.
    fn squared(&mut self, base: u32) -> bool {
        match self.config.native {
            Native::Ramp { .. } => {
                let p = f64::from(base) / f64::from(ONE);
                self.recur_drop_due(Side::Classic, p * p)
            }
            Native::Delay(_) | Native::Packets(_) => {
                self.should_drop(base.into()) && self.should_drop(base.into())
            }
        }
    }

    /// Whether a low-latency packet is chosen by the coupled probability, or the ramp.
    fn low_marks(&mut self, linked: u64, packet: &P, now: Instant) -> bool {
        let Native::Ramp { min, range } = self.config.native else {
            return self.should_drop(linked);
        };
        let alone = self.low.held().packets < self.config.min_qlen_step as usize;
        let above = (now - packet.enqueued()).saturating_sub(min);
        let native = match () {
            () if alone || above.is_zero() => 0.0,
            () if above >= range => 1.0,
            () => above.as_secs_f64() / range.as_secs_f64(),
        };
        self.recur_drop_due(Side::Low, f64::max(native, linked as f64 / f64::from(ONE)))
    }

    fn should_drop(&mut self, probability: u64) -> bool {
        u64::from(self.random.bits32()) < probability
    }

    /// Whether the probabilities of this packet and those before add up to one more mark.
    fn recur_drop_due(&mut self, side: Side, probability: f64) -> bool {
        let sum = &mut self.recur[side as usize];
        *sum += probability;
        let due = *sum >= 1.0;
        if due {
            *sum -= 1.0;
        }
        due
    }

    /// Marks a packet that is to be; one that cannot be marked is to be dropped.
    fn carry_out(&mut self, fate: Fate, packet: &mut P) -> Fate {
        match fate {
            Fate::Mark if packet.set_ce() => {
                self.stats.ecn_mark += 1;
                Fate::Pass
            }
            Fate::Mark => Fate::Drop,
            Fate::Pass | Fate::Drop => fate,
        }
    }

    /// Whether a low-latency packet has stayed too long, or leaves too many behind.
    ///
    /// DIVERGES: `min_qlen_step` counts the packets left behind now, as for a ramp; Linux counts
    /// those that were there when the packet came.
    fn exceeds_step(&self, packet: &P, now: Instant) -> bool {
        let left = self.low.held().packets;
        let above = match self.config.native {
            Native::Delay(threshold) => now - packet.enqueued() > threshold,
            Native::Packets(threshold) => left > threshold as usize,
            Native::Ramp { .. } => false,
        };
        above && left >= self.config.min_qlen_step as usize
    }

    /// The queue whose turn it is, and what sending a byte from it adds to the credit; `None` if
    /// both are empty.
    fn turn(&self) -> Option<(Side, i64)> {
        let share = i64::from(self.config.classic_protection);
        match (self.classic.held().is_empty(), self.low.held().is_empty()) {
            (true, true) => None,
            (true, false) => Some((Side::Low, 0)),
            (false, true) => Some((Side::Classic, 0)),
            (false, false) if self.credit <= 0 => Some((Side::Low, share)),
            (false, false) => Some((Side::Classic, share - 100)),
        }
    }
}

impl<P: Item> Qdisc<P> for DualPi2<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        self.catch_up(now);
        let Some(class) = self.classify(&mut packet, now) else {
            return drops.push(packet, DropReason::Filter);
        };
        if !self.config.split_gso || packet.segments() <= 1 {
            return self.admit(packet, class, now, drops);
        }
        let (len, mut pieces, mut bytes) = (packet.len(), 0u64, Bytes::ZERO);
        let whole = packet.split(&mut |piece| {
            pieces += 1;
            bytes += piece.len();
            self.admit(piece, class, now, drops);
        });
        match whole {
            Ok(()) => drops.note_births(pieces.saturating_sub(1), bytes.saturating_sub(len)),
            Err(packet) => self.admit(packet, class, now, drops),
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        self.catch_up(now);
        while let Some((side, weight)) = self.turn() {
            let (mut packet, class) = self.take(side)?;
            let mut fate = match self.judged_at(class) {
                Some(DropAt::Dequeue) => self.coupled(side, self.backlog().bytes, &packet, now),
                Some(DropAt::Enqueue) | None => Fate::Pass,
            };
            fate = self.carry_out(fate, &mut packet);
            if fate == Fate::Pass && class == Class::L4s && self.exceeds_step(&packet, now) {
                fate = self.carry_out(Fate::Mark, &mut packet);
                self.stats.step_mark += u64::from(fate == Fate::Pass);
            }
            if fate == Fate::Pass {
                let len = i64::try_from(packet.len().get()).unwrap_or(i64::MAX);
                self.credit = self.credit.saturating_add(weight.saturating_mul(len));
                return Some(packet);
            }
            drops.push(packet, DropReason::Early);
        }
        self.credit = initial_credit(&self.config);
        None
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.backlog().is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        let (classic, low) = (self.classic.held(), self.low.held());
        Backlog {
            packets: classic.packets + low.packets,
            bytes: classic.bytes + low.bytes,
        }
    }

    fn set_peeked(&mut self, peeked: bool) {
        self.peeked = usize::from(peeked);
    }
}
