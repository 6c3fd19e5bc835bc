//! [`Fq`]: flow queueing that keeps departure times (`net/sched/sch_fq.c`; `tc`'s `fq`).
//!
//! Each flow has a queue of its own, in order of departure: of [`Item::departure`], or of arrival
//! if the packet names none. Deficit round robin shares the link by bytes among the flows whose
//! first packet is due. A flow whose first packet must wait is throttled: it costs nothing until
//! its time has come. This is the qdisc for a stack that paces by departure times; it can also pace
//! every flow itself, by `maxrate`.
//!
//! Flows are served in three bands by weight. A packet that finds every queue empty or throttled
//! takes a short cut past all flows. [`Config::linux`] is the older form, which the kernel had up
//! to 6.6: no bands, one limit, a FIFO for control packets.
//!
//! Departure times are those of the caller's clock: if that steps back, packets that wait for theirs wait
//! longer by the step.
//!
//! A packet costs a look into a hash table; only packets that leave late or arrive out of order
//! cost O(log n).

mod change;
mod flow;
mod params;
mod stats;
#[cfg(test)]
mod tests;
mod throttled;

use core::time::Duration;

use alloc::collections::VecDeque;

use tautline_base::{
    Backlog, Bytes, CallerClock, ConfigError, DropReason, Drops, Instant, Item, Qdisc, Rate,
};

use crate::index::{Chain, Index};
use crate::timed::Timed;

use flow::{FlowStatus, Flows};
use stats::Counters;
use throttled::Throttled;

pub use params::{BeyondHorizon, Config, Priorities, Weighted};
pub use stats::Stats;

/// Number of bands; band 0 is that of the urgent.
pub const BANDS: usize = 3;

/// The local priority of control packets (`TC_PRIO_CONTROL`).
const CONTROL: u8 = 7;

/// Packets that may take the short cut while flows wait for their time; more compete as flows.
const SHORT_CUT: usize = 8;

/// A flow or band never owes more than this, however large its packets: it bounds the turns that
/// pass before it may send again.
const MAX_DEBT: Bytes = Bytes::mib(1);

/// No packet delays the next of its flow by more (Linux).
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Fair queues that keep departure times.
///
/// ```
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Drops, Fq, Qdisc, fq::Config};
///
/// let mut queue = Fq::new(Config::default())?;
/// let (mut drops, departure) = (Drops::new(), Instant::from_millis(3));
/// let packet = Packet::new((), 1514).with_hashes(1, 0, 0).with_departure(departure);
/// queue.enqueue(packet, Instant::from_millis(1), &mut drops);
/// assert!(queue.dequeue(Instant::from_millis(2), &mut drops).is_none());
/// assert!(queue.ready_at() >= Some(departure)); // `timer_slack` later at most
/// assert!(queue.dequeue(departure, &mut drops).is_some());
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Fq<P> {
    config: Config,
    flows: Flows,
    /// Without bands, the first is that of all flows.
    bands: [Band; BANDS],
    /// The band whose turn it is.
    band: usize,
    packets: Timed<P>,
    /// Packets that pass by all flows.
    internal: VecDeque<P>,
    throttled: Throttled,
    /// Flows that hold packets.
    holding: usize,
    /// The latest moment seen since it was empty: what arrives while the clock stands or steps back
    /// still stands behind what came before.
    clock: Instant,
    /// The clock of `dequeue`.
    served: CallerClock,
    backlog: Backlog,
    /// Packets that a parent has dequeued to learn their length: none or one.
    peeked: usize,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Band {
    new_flows: Chain,
    old_flows: Chain,
    credit: i32,
    packets: usize,
    drops: u64,
}

impl Band {
    /// The flow to be served next, and whether it is a new one.
    fn front(&self) -> Option<(Index, FlowStatus)> {
        let new = self.new_flows.front().map(|at| (at, FlowStatus::New));
        new.or_else(|| self.old_flows.front().map(|at| (at, FlowStatus::Old)))
    }
}

impl<P> Fq<P> {
    /// No flows.
    ///
    /// # Errors
    /// If `quantum`, `initial_quantum`, `buckets`, `priomap` or `weights` is outside its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let mut bands = [(); BANDS].map(|()| Band::default());
        if let Priorities::Bands(Weighted { weights, .. }) = &config.priorities {
            for (band, weight) in bands.iter_mut().zip(weights) {
                band.credit = signed(*weight);
            }
        }
        Ok(Self {
            flows: Flows::new(config.buckets as usize),
            bands,
            band: 0,
            packets: Timed::new(),
            internal: VecDeque::new(),
            throttled: Throttled::new(),
            holding: 0,
            clock: Instant::ZERO,
            served: CallerClock::default(),
            backlog: Backlog::default(),
            peeked: 0,
            counters: Counters::default(),
            config,
        })
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The flow whose turn it is.
    fn turn(&mut self) -> Option<(Index, FlowStatus)> {
        let Priorities::Bands(Weighted { weights, .. }) = &self.config.priorities else {
            return self.bands[0].front();
        };
        let mut found_empty = 0;
        loop {
            let band = &self.bands[self.band];
            if band.credit > 0
                && let Some(turn) = band.front()
            {
                return Some(turn);
            }
            if found_empty == BANDS {
                return None;
            }
            self.band = (self.band + 1) % BANDS;
            let (band, weight) = (&mut self.bands[self.band], signed(weights[self.band]));
            band.credit = band.credit.saturating_add(weight).min(weight);
            // A band in debt says nothing about what it holds: only a round in which all may send
            // shows that none can.
            found_empty = if band.credit > 0 { found_empty + 1 } else { 0 };
        }
    }

    /// Takes the flow `at`, which heads list `from`, and puts it at the end of the old flows, or on
    /// no list.
    fn move_head(&mut self, at: Index, from: FlowStatus, to: FlowStatus) {
        let band = &mut self.bands[usize::from(self.flows[at].band)];
        let list = if from == FlowStatus::New {
            &mut band.new_flows
        } else {
            &mut band.old_flows
        };
        list.pop_front(&self.flows);
        self.flows[at].place = to;
        if to == FlowStatus::Old {
            band.old_flows.push_back(&mut self.flows, at);
        }
    }

    /// Puts the first of the throttled flows back among the others.
    fn release_first(&mut self) {
        let Some(at) = self.throttled.pop(&mut self.flows) else {
            return;
        };
        let band = usize::from(self.flows[at].band);
        self.bands[band].old_flows.push_back(&mut self.flows, at);
    }

    /// Marks a packet that leaves later than `ce_threshold` after its time.
    fn mark_late(&mut self, packet: &mut impl Item, late: Duration) {
        let threshold = self.config.ce_threshold;
        if threshold.is_some_and(|threshold| late > threshold) && packet.set_ce() {
            self.counters.ce_mark += 1;
        }
    }

    /// Takes a flow that ran empty off its list. A new one waits once among the old flows, or it
    /// could return ahead of them forever.
    fn retire(&mut self, at: Index, list: FlowStatus, now: Instant) {
        let band = usize::from(self.flows[at].band);
        let waits = list == FlowStatus::New && !self.bands[band].old_flows.is_empty();
        let to = if waits {
            FlowStatus::Old
        } else {
            FlowStatus::Idle { since: now }
        };
        self.move_head(at, list, to);
    }

    /// The clock stepped back by `step`: every flow is paced on from where it was. Packets that name their
    /// departure keep it.
    #[cold]
    fn step_back(&mut self, step: Duration) {
        self.flows.step_back(step);
        while self.throttled.len() > 0 {
            self.release_first();
        }
    }

    /// Puts back the throttled flows whose time has come.
    fn release(&mut self, now: Instant) {
        let Some(earliest) = self.throttled.earliest() else {
            return;
        };
        let due = now + self.config.offload_horizon;
        if earliest <= due {
            let late = now.nanos_since(earliest);
            self.counters.latency =
                self.counters.latency - (self.counters.latency >> 3) + (late >> 3);
        }
        while self
            .throttled
            .earliest()
            .is_some_and(|earliest| earliest <= due)
        {
            self.release_first();
        }
    }

    /// The rate every flow keeps to, if it must keep to any.
    fn rate(&self) -> Option<Rate> {
        self.config.maxrate.filter(|_| self.config.pacing)
    }

    /// Notes when the next packet of the flow may leave, after one of `len` left that was allowed
    /// to leave at `allowed`.
    fn pace(
        &mut self,
        at: Index,
        len: Bytes,
        names_departure: bool,
        allowed: Instant,
        now: Instant,
    ) {
        let Some(rate) = self.rate() else { return };
        let flow = &mut self.flows[at];
        let mut charge = len;
        if !names_departure {
            if rate <= self.config.low_rate_threshold {
                flow.credit = 0;
            } else if flow.credit > 0 {
                return;
            } else {
                charge = len.max(self.config.quantum);
            }
        }
        let mut delay = charge / rate;
        if delay > MAX_DELAY {
            delay = MAX_DELAY;
            self.counters.pkts_too_long += 1;
        }
        if allowed != Instant::ZERO {
            // Whoever drives this came late: make up for it, by half the delay at most.
            delay -= (delay / 2).min(now - allowed);
        }
        flow.time_next = now + delay;
    }
}

/// An amount that is known to fit.
fn signed(amount: Bytes) -> i32 {
    i32::try_from(amount.get()).expect("checked to be below 2 GiB")
}

/// The cost of sending `len`: at least 1, or a flow of empty packets would have its turn forever.
fn cost(len: Bytes) -> i32 {
    signed(len.clamp(Bytes::new(1), MAX_DEBT))
}

impl<P: Item> Fq<P> {
    /// Whether a packet may pass by all flows.
    fn passes_by(&self, packet: &P, now: Instant) -> bool {
        if self.config.priorities == Priorities::Control {
            return packet.priority() & 15 == CONTROL;
        }
        if packet.departure() > now || self.config.maxrate.is_some() {
            return false;
        }
        // Nothing that is due may be overtaken: neither flows on the lists nor throttled ones that
        // are late.
        let due = now + self.config.offload_horizon;
        self.backlog.is_empty()
            || self.holding == self.throttled.len()
                && self.internal.len() < SHORT_CUT
                && self
                    .throttled
                    .earliest()
                    .is_none_or(|earliest| earliest > due)
    }

    /// The band of a packet that finds its flow idle.
    fn band_of(&self, packet: &P) -> usize {
        match &self.config.priorities {
            Priorities::Bands(Weighted { priomap, .. }) => {
                priomap[usize::from(packet.priority() & 15)].into()
            }
            Priorities::Control => 0,
        }
    }

    /// Takes the first packet of flow `at`.
    fn pop(&mut self, at: Index) -> Option<P> {
        let flow = &mut self.flows[at];
        let packet = self.packets.pop(&mut flow.queue)?;
        flow.packets -= 1;
        self.holding -= usize::from(flow.packets == 0);
        self.bands[usize::from(flow.band)].packets -= 1;
        self.backlog.remove(packet.len());
        Some(packet)
    }

    /// The packets that the limit of `band` counts.
    fn held_by(&self, band: usize) -> usize {
        match self.config.priorities {
            Priorities::Bands(_) => self.bands[band].packets,
            Priorities::Control => self.backlog.packets + self.peeked,
        }
    }

    fn drop_for_limit(&mut self, packet: P, band: usize, drops: &mut Drops<P>) {
        self.bands[band].drops += 1;
        drops.push(packet, DropReason::Overlimit);
    }

    /// When `packet` is to leave: at its departure, or at once. `None` if that lies beyond the
    /// horizon and is not accepted.
    fn time_of(&mut self, packet: &P, now: Instant) -> Option<Instant> {
        let horizon = now + self.config.horizon;
        if packet.departure() <= horizon {
            // DIVERGES: Linux lets a packet whose departure has passed overtake those that arrived
            // before it and are due as well.
            let named = packet.departure() != Instant::ZERO && self.config.is_linux();
            return Some(if named {
                packet.departure()
            } else {
                packet.departure().max(self.clock)
            });
        }
        match self.config.beyond_horizon {
            BeyondHorizon::Drop => {
                self.counters.horizon_drops += 1;
                None
            }
            BeyondHorizon::Cap => {
                self.counters.horizon_caps += 1;
                Some(horizon)
            }
        }
    }

    /// The key of a packet's flow.
    fn key_of(&self, packet: &P) -> u64 {
        let mask = self.config.orphan_mask.map_or(u64::MAX, u64::from);
        packet.flow_hash() & mask
    }

    /// The flow of `key`, which is not known yet.
    fn add_flow(&mut self, key: u64, now: Instant) -> Index {
        let (known, held) = (self.flows.len(), self.holding);
        if known >= 2 * self.config.buckets as usize && known - held > known / 2 {
            self.flows.forget_some(now);
        }
        self.flows
            .add(key, signed(self.config.initial_quantum), now)
    }

    /// Puts `packet` into its flow, if neither that nor its band is full.
    fn enqueue_in_flow(&mut self, packet: P, time: Instant, now: Instant, drops: &mut Drops<P>) {
        let key = self.key_of(&packet);
        let found = self.flows.find(key);
        let active = found
            .map(|at| &self.flows[at])
            .filter(|flow| !matches!(flow.place, FlowStatus::Idle { .. }));
        let band = active.map_or_else(|| self.band_of(&packet), |flow| flow.band.into());
        if self.held_by(band) >= self.config.limit as usize {
            return self.drop_for_limit(packet, band, drops);
        }
        if active.map_or(0, |flow| flow.packets) >= self.config.flow_limit {
            self.counters.flows_plimit += 1;
            return drops.push(packet, DropReason::FlowLimit);
        }
        let at = found.unwrap_or_else(|| self.add_flow(key, now));
        let due = due(&packet, time);
        self.backlog.add(packet.len());
        self.bands[band].packets += 1;
        let rated = self.rate().is_some();
        let flow = &mut self.flows[at];
        self.packets.push(&mut flow.queue, time, packet);
        flow.packets += 1;
        self.holding += usize::from(flow.packets == 1);
        match flow.place {
            FlowStatus::Idle { since } => {
                // DIVERGES: Linux 6.1 takes a debt for a large credit and forgives it never.
                let keeps_debt = self.config.is_linux() && flow.credit < 0;
                if self.config.refills(since, now) && !keeps_debt {
                    flow.credit = flow.credit.max(signed(self.config.quantum));
                }
                (flow.place, flow.band) = (FlowStatus::New, band as u8);
                self.bands[band].new_flows.push_back(&mut self.flows, at);
            }
            // DIVERGES: in Linux a packet that may leave earlier waits all the same.
            FlowStatus::Throttled { .. } if self.config.is_linux() => {}
            FlowStatus::Throttled { .. } => {
                let allowed = if rated { due.max(flow.time_next) } else { due };
                self.throttled.advance(&mut self.flows, at, allowed);
            }
            FlowStatus::New | FlowStatus::Old | FlowStatus::Unused => {}
        }
    }
}

/// When `packet`, queued for `time`, may leave at the earliest: at any time if it names no
/// departure, even if the clock stepped back.
fn due(packet: &impl Item, time: Instant) -> Instant {
    packet.departure().min(time)
}

/// From when a packet is late: from `due`, and `only` from there if it names its departure in Linux's form,
/// else not before it was queued. Its place among the others does not tell: that may be the latest time
/// before the clock stepped back.
fn late_from(packet: &impl Item, due: Instant, only: bool) -> Instant {
    if only {
        due
    } else {
        due.max(packet.enqueued())
    }
}

impl<P: Item> Qdisc<P> for Fq<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        packet.set_enqueued(now);
        self.clock = if self.backlog.is_empty() {
            now
        } else {
            self.clock.max(now)
        };
        let band = self.band_of(&packet);
        if self.held_by(band) >= self.config.limit as usize {
            return self.drop_for_limit(packet, band, drops);
        }
        let Some(time) = self.time_of(&packet, now) else {
            return drops.push(packet, DropReason::Horizon);
        };
        if self.passes_by(&packet, now) {
            self.counters.internal += 1;
            self.backlog.add(packet.len());
            self.internal.push_back(packet);
        } else {
            self.enqueue_in_flow(packet, time, now, drops);
        }
    }

    fn dequeue(&mut self, now: Instant, _drops: &mut Drops<P>) -> Option<P> {
        self.clock = self.clock.max(now);
        if let Some(step) = self.served.step_back(now) {
            self.step_back(step);
        }
        if let Some(packet) = self.internal.pop_front() {
            self.backlog.remove(packet.len());
            return Some(packet);
        }
        let linux = self.config.is_linux();
        if linux && self.backlog.is_empty() {
            // Flows that ran empty keep their turn and their debt until others have packets.
            return None;
        }
        self.release(now);
        let rated = self.rate().is_some();
        loop {
            let (at, list) = self.turn()?;
            let flow = &mut self.flows[at];
            let band = usize::from(flow.band);
            if flow.credit <= 0 {
                flow.credit += signed(self.config.quantum);
                self.move_head(at, list, FlowStatus::Old);
                continue;
            }
            let Some((time, packet)) = self.packets.front(flow.queue) else {
                self.retire(at, list, now);
                continue;
            };
            let (due, names_departure) = (due(packet, time), packet.departure() != Instant::ZERO);
            let time_next = if rated || linux {
                flow.time_next
            } else {
                Instant::ZERO
            };
            let allowed = due.max(time_next);
            if allowed > now + self.config.offload_horizon {
                if linux {
                    // Whoever comes for an earlier time waits for this one too.
                    flow.time_next = allowed;
                }
                self.move_head(at, list, FlowStatus::Throttled { until: allowed });
                self.throttled.push(at, allowed);
                self.counters.throttled += 1;
                continue;
            }
            let mut packet = self.pop(at)?;
            let since = late_from(&packet, due, linux && names_departure);
            self.mark_late(&mut packet, now - since.max(time_next));
            let cost = cost(packet.len());
            self.flows[at].credit -= cost;
            self.bands[band].credit = self.bands[band].credit.saturating_sub(cost);
            self.pace(at, packet.len(), names_departure, allowed, now);
            return Some(packet);
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        if self.backlog.is_empty() {
            return None;
        }
        let waits = self.internal.is_empty() && self.holding == self.throttled.len();
        let earliest = self.throttled.earliest().filter(|_| waits);
        Some(earliest.map_or(Instant::ZERO, |earliest| {
            earliest - self.config.offload_horizon + self.config.timer_slack
        }))
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn set_peeked(&mut self, peeked: bool) {
        self.peeked = usize::from(peeked);
    }
}
