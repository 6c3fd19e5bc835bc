//! [`Cake`]: shaper, classes of service, fair queues with host isolation and COBALT in one (`tc`'s
//! `cake`; `net/sched/sch_cake.c`).
//!
//! The link is held at its rate by a clock (`shaper`), in bytes as the link beyond frames them
//! (`overhead`). It is divided into tins (`diffserv`), each with 1024 queues that flows find by
//! hash in sets of eight (`hash`, `tin`). Deficit round robin shares a tin between hosts and
//! between the flows of a host (`hosts`); flows that send little go first. Every queue has a
//! COBALT; when memory runs out, the longest queue loses its head.

mod ack_filter;
mod autorate;
mod change;
mod diffserv;
mod flow;
mod hash;
mod headers;
mod hosts;
mod overhead;
mod params;
mod rate;
mod shaper;
mod stats;
#[cfg(test)]
mod tests;
mod tin;

use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{
    Backlog, Bytes, CallerClock, ConfigError, DropReason, Drops, Instant, Item, Qdisc, Rate,
};

pub use diffserv::Tins;
pub use hosts::Isolation;
pub use overhead::{Framing, Overhead};
pub use params::{AckFilter, Bandwidth, Config, PRESETS, Profile};
pub use stats::{Stats, TinStats};

use crate::drr_plus::bounds::Bounds;
use crate::filter::{Filters, Verdict};
use crate::random::{Random, secret};
use crate::slab::Slab;

use autorate::Autorate;
use diffserv::MAX_TINS;
use flow::{FLOWS, FlowId};
use hash::Hashes;
use overhead::Sizes;
use shaper::Shaper;
use tin::Tin;

/// Places for packets before the first growth; the slab then doubles, up to the largest backlog.
const FIRST_CAPACITY: usize = 256;

/// Shaper, classes of service, fair queues and COBALT in one.
///
/// ```
/// use tautline_base::{Instant, Packet, Rate};
/// use tautline_qdisc::{Cake, Drops, Qdisc, cake::{Bandwidth, Config}};
///
/// let bandwidth = Bandwidth::Shaped(Rate::mbit(20));
/// let mut cake = Cake::new(Config { bandwidth, ..Config::default() })?;
/// let (mut drops, now) = (Drops::new(), Instant::from_secs(1));
/// for flow in 1..=2 {
///     cake.enqueue(Packet::new((), 1514).with_hashes(flow, 1, 2), now, &mut drops);
/// }
/// assert!(cake.dequeue(now, &mut drops).is_some());
/// assert!(cake.ready_at() > Some(now)); // the shaper holds the second packet
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Cake<P> {
    config: Config,
    /// Mixed into every hash.
    key: u64,
    filters: Filters,
    /// The rate the link is held at; zero is no limit.
    rate: Rate,
    shaper: Shaper,
    tins: Vec<Tin>,
    /// The tin whose turn it is when there is no shaper.
    current: usize,
    packets: Slab<Weighed<P>>,
    /// Bytes of all queues of all tins: finds the longest.
    weights: Bounds,
    backlog: Backlog,
    memory: Memory,
    sizes: Sizes,
    autorate: Autorate,
    overlimits: u64,
    random: Random,
    clock: CallerClock,
}

/// A packet and its weight on the link.
#[derive(Debug)]
struct Weighed<P> {
    packet: P,
    weight: u32,
    /// A pure TCP acknowledgment; false without an ACK filter.
    pure_ack: bool,
}

#[derive(Debug, Default)]
struct Memory {
    used: Bytes,
    most: Bytes,
    limit: Bytes,
}

/// A queue: its tin and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowPosition {
    tin: usize,
    flow: FlowId,
}

impl FlowPosition {
    /// Its number among the queues of all tins.
    fn number(self) -> usize {
        self.tin * FLOWS + usize::from(self.flow)
    }

    fn of_number(number: usize) -> Self {
        Self {
            tin: number / FLOWS,
            flow: (number % FLOWS) as FlowId,
        }
    }
}

impl<P> Cake<P> {
    /// Empty queues.
    ///
    /// # Errors
    /// If `bandwidth`, `rtt`, `overhead`, `mpu` or `mtu` is outside its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let mut cake = Self {
            key: secret("perturbation", config.perturbation)?,
            rate: config.bandwidth.at_first(),
            shaper: Shaper::default(),
            tins: (0..config.tins.count())
                .map(|tin| Tin::new(&config, tin))
                .collect(),
            current: 0,
            packets: Slab::with_capacity(FIRST_CAPACITY),
            weights: Bounds::new(MAX_TINS * FLOWS),
            backlog: Backlog::default(),
            memory: Memory::default(),
            sizes: Sizes::default(),
            autorate: Autorate::default(),
            overlimits: 0,
            random: Random::new(config.seed),
            filters: Filters::default(),
            clock: CallerClock::default(),
            config,
        };
        cake.configure(Instant::ZERO);
        cake.autorate = Autorate::new(cake.rate);
        Ok(cake)
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The rate the link is held at; `None` while it is not limited.
    pub fn rate(&self) -> Option<Rate> {
        Some(self.rate).filter(|_| self.shaper.is_limited())
    }

    /// Takes new rules that decide before the hash does: the minor number of a class names the
    /// queue, the major one the host at both ends, each from 1 to 1024 (0 leaves it to the hash).
    /// The tin is that of the code point or mark all the same.
    pub fn set_filters(&mut self, filters: Filters) {
        self.filters = filters;
    }

    /// Sets everything that follows from the configuration and the rate, as of `now`.
    fn configure(&mut self, now: Instant) {
        let was_limited = self.shaper.is_limited();
        self.rate = match self.config.bandwidth {
            Bandwidth::Unlimited => Rate::ZERO,
            Bandwidth::Shaped(rate) => rate,
            Bandwidth::AutorateIngress { .. } => self.rate,
        };
        self.shaper.set_rate(self.rate);
        for (number, tin) in self.tins.iter_mut().enumerate() {
            tin.configure(&self.config, number, self.rate);
        }
        // DIVERGES: in Linux the clocks of a link without a limit stand still while packets are
        // queued, and the first limit lets through what it would have allowed since.
        if !was_limited {
            self.shaper.restart(now);
            self.tins.iter_mut().for_each(|tin| tin.clock.restart(now));
        }
        self.memory.limit = self.config.memory_limit(self.rate);
    }

    /// Holds the link at `part` of the configured rate, which other instances share. COBALT and the
    /// memory limit stay those of the whole.
    pub(crate) fn set_part(&mut self, part: Rate) {
        self.rate = part;
        self.shaper.set_rate(part);
        for (number, tin) in self.tins.iter_mut().enumerate() {
            tin.set_threshold(self.config.tins.threshold(number, part));
        }
    }

    /// Notes the time. If the clock stepped back, all that was to happen happens that much earlier.
    /// DIVERGES: Linux's clock is monotonic; there the link would stay closed for the whole step.
    #[inline]
    fn advance_to(&mut self, now: Instant) {
        if let Some(step) = self.clock.step_back(now) {
            self.step_back(step);
        }
    }

    #[cold]
    fn step_back(&mut self, step: Duration) {
        self.shaper.step_back(step);
        self.autorate.step_back(step);
        self.tins
            .iter_mut()
            .for_each(|tin| tin.clock.step_back(step));
    }

    /// The tin whose turn it is, if a packet may leave.
    fn turn(&mut self, now: Instant) -> Option<usize> {
        if self.backlog.is_empty() {
            return None;
        }
        if !self.shaper.is_limited() {
            return self.turn_by_deficit();
        }
        if self.shaper.is_closed(now) {
            self.overlimits += 1;
            return None;
        }
        self.turn_by_clock(now)
    }

    /// The last of the tins that are below their share, which is the most urgent; without one, the
    /// one that will be first.
    fn turn_by_clock(&self, now: Instant) -> Option<usize> {
        let active = self
            .tins
            .iter()
            .enumerate()
            .filter(|(_, tin)| tin.is_active());
        active
            .rev()
            .min_by_key(|(_, tin)| tin.clock.next.max(now))
            .map(|(number, _)| number)
    }

    /// Deficit round robin between tins.
    fn turn_by_deficit(&mut self) -> Option<usize> {
        if !self.tins.iter().any(Tin::is_active) {
            return None;
        }
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.is_active() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.quantum;
            }
            self.current = (self.current + 1) % self.tins.len();
        }
    }
}

impl<P: Item> Cake<P> {
    /// The tin of a packet; clears its code point if asked to.
    fn tin_of(&self, packet: &mut P) -> usize {
        let Config {
            tins, wash, fwmark, ..
        } = self.config;
        let dscp = diffserv::dscp(packet);
        if wash {
            diffserv::wash(packet);
        }
        let marked = (packet.mark() & fwmark)
            .checked_shr(fwmark.trailing_zeros())
            .unwrap_or(0) as usize;
        let by_mark = marked
            .checked_sub(1)
            .and_then(|mark| tins.order().get(mark).copied());
        by_mark
            .filter(|_| tins != Tins::BestEffort)
            .unwrap_or_else(|| tins.tin_of(dscp))
    }

    /// Appends a packet to a queue.
    fn put(&mut self, place: FlowPosition, item: Weighed<P>) {
        let (len, tin) = (item.packet.len(), &mut self.tins[place.tin]);
        self.memory.used += item.packet.memory();
        self.backlog.add(len);
        tin.bytes += len;
        let flow = &mut tin.flows[place.flow];
        flow.bytes += len;
        flow.pure_acks += u32::from(item.pure_ack);
        self.packets.push_back(&mut flow.queue, item);
        self.weights.raise(place.number(), flow.weight());
    }

    /// Takes the packet at the head of a queue.
    fn take(&mut self, place: FlowPosition) -> Option<Weighed<P>> {
        let item = self
            .packets
            .pop_front(&mut self.tins[place.tin].flows[place.flow].queue)?;
        self.note_gone(place, &item);
        Some(item)
    }

    /// Subtracts a packet that has left a queue from every count.
    fn note_gone(&mut self, place: FlowPosition, item: &Weighed<P>) {
        let (len, tin) = (item.packet.len(), &mut self.tins[place.tin]);
        self.memory.used -= item.packet.memory();
        self.backlog.remove(len);
        tin.bytes -= len;
        let flow = &mut tin.flows[place.flow];
        flow.bytes -= len;
        flow.pure_acks -= u32::from(item.pure_ack);
    }

    /// Queues an arrived packet.
    fn arrive(&mut self, place: FlowPosition, mut packet: P, now: Instant) {
        packet.set_enqueued(now);
        let weight = self.sizes.weigh(self.config.overhead, &packet);
        let pure_ack = self.config.ack_filter != AckFilter::Off && ack_filter::is_pure_ack(&packet);
        let Tin { counters, .. } = &mut self.tins[place.tin];
        counters.packets += 1;
        counters.bytes += packet.len();
        self.autorate.arrive(packet.len());
        self.put(
            place,
            Weighed {
                packet,
                weight,
                pure_ack,
            },
        );
    }

    /// Queues an arrived packet, split into segments if configured and possible. Returns whether it
    /// was split.
    fn arrive_split(
        &mut self,
        place: FlowPosition,
        packet: P,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> bool {
        // DIVERGES: Linux drops a packet that it cannot split.
        let whole = packet.len();
        let (mut pieces, mut bytes) = (0u64, Bytes::ZERO);
        let kept = if self.config.split_gso && packet.segments() > 1 {
            packet.split(&mut |piece| {
                pieces += 1;
                bytes += piece.len();
                self.arrive(place, piece, now);
            })
        } else {
            Err(packet)
        };
        match kept {
            Ok(()) => drops.note_births(pieces.saturating_sub(1), bytes.saturating_sub(whole)),
            Err(packet) => self.arrive(place, packet, now),
        }
        pieces > 0
    }

    /// Charges the link and a tin for a packet.
    fn charge_link(&mut self, tin: usize, weight: u32, dropped: bool, now: Instant) {
        if self.shaper.is_limited() {
            self.tins[tin].clock.advance(weight, now);
            self.shaper.advance(weight, dropped);
        }
    }

    /// Drops heads of the longest queues until the memory limit holds.
    #[inline]
    fn keep_memory(&mut self, now: Instant, drops: &mut Drops<P>) {
        while self.memory.used > self.memory.limit {
            self.drop_from_longest(now, drops);
        }
    }

    /// Drops the head of the longest queue.
    fn drop_from_longest(&mut self, now: Instant, drops: &mut Drops<P>) {
        let tins = &self.tins;
        let weight = |number| {
            let place = FlowPosition::of_number(number);
            tins.get(place.tin)
                .map_or(0, |tin| tin.flows[place.flow].weight())
        };
        let longest = self.weights.largest(weight).map(FlowPosition::of_number);
        let place = longest.expect("the memory limit is exceeded, so some queue holds packets");
        let item = self.take(place).expect("the longest queue is not empty");
        let Weighed { packet, weight, .. } = item;
        let tin = &mut self.tins[place.tin];
        let began = tin.aqm.queue_full(&mut tin.flows[place.flow].cobalt, now);
        tin.counters.unresponsive += usize::from(began);
        tin.counters.drops += 1;
        if self.config.ingress {
            self.charge_link(place.tin, weight, true, now);
        }
        drops.push(packet, DropReason::Memory);
    }

    /// Takes the next packet of the flow whose turn it is in `tin`; `None` if that flow has none
    /// left, and another turn is to be taken.
    fn serve(
        &mut self,
        tin: usize,
        first: &mut bool,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Option<P> {
        let mut passed = 0;
        loop {
            let flow = self.tins[tin].turn(core::mem::take(first))?;
            if self.tins[tin].passes_on(flow, &mut self.random) {
                passed += 1;
                // Linux takes every single turn, up to millions for a packet.
                if passed > self.tins[tin].lap() && self.config.profile == Profile::Design {
                    self.tins[tin].skip_laps();
                    passed = 0;
                }
                continue;
            }
            let place = FlowPosition { tin, flow };
            loop {
                let Some(Weighed {
                    mut packet, weight, ..
                }) = self.take(place)
                else {
                    self.tins[tin].rest(flow, now);
                    return None;
                };
                let Tin {
                    aqm,
                    flows,
                    census,
                    counters,
                    ..
                } = &mut self.tins[tin];
                let bulk_flows = if self.config.ingress {
                    census.bulk as u32
                } else {
                    0
                };
                let verdict = aqm.judge(&mut flows[flow].cobalt, &mut packet, bulk_flows, now);
                // The last packet of a queue is never dropped: that would cost its sender a timeout
                // and shorten no queue.
                let Some(reason) = verdict.drop.filter(|_| !flows[flow].queue.is_empty()) else {
                    counters.marks += u64::from(verdict.marked);
                    self.tins[tin].note_delay(packet.enqueued(), now);
                    self.charge_link(tin, weight, false, now);
                    self.tins[tin].charge(flow, weight);
                    return Some(packet);
                };
                counters.drops += 1;
                drops.push(packet, reason);
                if self.config.ingress {
                    self.charge_link(tin, weight, true, now);
                    self.tins[tin].charge(flow, weight);
                    break;
                }
            }
        }
    }
}

impl<P: Item> Qdisc<P> for Cake<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        self.advance_to(now);
        let verdict = self.filters.classify(&mut packet, now);
        if verdict == Verdict::Drop {
            return drops.push(packet, DropReason::Filter);
        }
        let number = self.tin_of(&mut packet);
        let mut hashes = Hashes::of(&packet, self.config.isolation, self.key);
        if let Verdict::Class(class) = verdict {
            hashes = hashes.decided(class, self.config.isolation);
        }
        let tin = &mut self.tins[number];
        let place = FlowPosition {
            tin: number,
            flow: tin.queue_of(hashes),
        };
        tin.counters.max_len = tin.counters.max_len.max(packet.len());
        if tin.bytes == Bytes::ZERO {
            tin.clock.restart(now);
            if self.backlog.is_empty() {
                self.overlimits +=
                    u64::from(self.shaper.is_limited() && self.shaper.is_closed(now));
                self.shaper.restart(now);
            }
        }
        if !self.arrive_split(place, packet, now, drops) && self.config.ack_filter != AckFilter::Off
        {
            self.filter_acks(place, now, drops);
        }
        self.estimate_rate(now);
        self.tins[place.tin].wake(place.flow, &mut self.random);
        self.memory.most = self.memory.most.max(self.memory.used);
        self.keep_memory(now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        self.advance_to(now);
        let mut first = true;
        loop {
            let tin = self.turn(now)?;
            let packet = self.serve(tin, &mut first, now, drops);
            if packet.is_some() {
                return packet;
            }
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        let opens = if self.shaper.is_limited() {
            self.shaper.opens_at()
        } else {
            Instant::ZERO
        };
        (!self.backlog.is_empty()).then_some(opens)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Item> Cake<P> {
    /// Lets the arrived packet, the last of its queue, supersede an older acknowledgment there.
    fn filter_acks(&mut self, place: FlowPosition, now: Instant, drops: &mut Drops<P>) {
        let aggressive = self.config.ack_filter == AckFilter::Aggressive;
        let flow = &mut self.tins[place.tin].flows[place.flow];
        let Some((last, newest)) = self.packets.back(flow.queue) else {
            return;
        };
        // Without other acknowledgments there is nothing to look for, however many packets the
        // queue has.
        if flow.pure_acks == u32::from(newest.pure_ack) {
            return;
        }
        let older = self
            .packets
            .iter(flow.queue)
            .take_while(|(at, _)| *at != last);
        let older = older.map(|(at, item)| (at, &item.packet));
        let Some(before) = ack_filter::superseded(older, &newest.packet, aggressive) else {
            return;
        };
        let Some(item) = self.packets.take_after(&mut flow.queue, before) else {
            return;
        };
        self.note_gone(place, &item);
        let Weighed { packet, weight, .. } = item;
        self.tins[place.tin].counters.ack_drops += 1;
        if self.config.ingress {
            self.charge_link(place.tin, weight, true, now);
        }
        drops.push(packet, DropReason::AckFilter);
    }

    /// Follows the rate of the bottleneck, if asked to.
    fn estimate_rate(&mut self, now: Instant) {
        if !matches!(self.config.bandwidth, Bandwidth::AutorateIngress { .. }) {
            self.autorate.idle(now);
        } else if let Some(rate) = self.autorate.packet(now, self.config.profile) {
            self.rate = rate;
            self.configure(now);
        }
    }
}
