//! [`Tin`]: one class of service: its queues, who is in which, whose turn it is, and how many flows
//! stand where.

use tautline_base::{Bytes, Instant, Rate};

use super::autorate::follow;
use super::flow::{FLOWS, Flow, FlowId, Flows, Phase, Rotation};
use super::hash::{Hashes, ways};
use super::hosts::{Hosts, Isolation};
use super::params::Config;
use super::rate::Pace;
use super::shaper::Clock;
use crate::cobalt::Aqm;
use crate::random::Random;

/// Flows by where they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    /// Sparse ones, with or without packets.
    pub(super) sparse: usize,
    pub(super) bulk: usize,
    pub(super) decaying: usize,
}

impl Census {
    fn of(&mut self, phase: Phase) -> Option<&mut usize> {
        match phase {
            Phase::Idle => None,
            Phase::Sparse | Phase::Waiting => Some(&mut self.sparse),
            Phase::Bulk => Some(&mut self.bulk),
            Phase::Decaying => Some(&mut self.decaying),
        }
    }
}

/// Counters of one tin.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// Packets and bytes that arrived.
    pub(super) packets: u64,
    pub(super) bytes: Bytes,
    pub(super) drops: u64,
    pub(super) ack_drops: u64,
    pub(super) marks: u64,
    /// Largest packet that arrived, before it was split.
    pub(super) max_len: Bytes,
    /// Hashes that found their queue in another way of the set, an unused queue, none but
    /// another's.
    pub(super) way_hits: u64,
    pub(super) way_misses: u64,
    pub(super) way_collisions: u64,
    /// Queues that BLUE drops from.
    pub(super) unresponsive: usize,
    pub(super) delays: Delays,
}

/// Means of the time packets stayed, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    pub(super) average: u64,
    /// Leaning to the longest.
    pub(super) peak: u64,
    /// Leaning to the shortest.
    pub(super) base: u64,
}

impl Delays {
    fn add(&mut self, delay: u64) {
        self.average = follow(self.average, delay, 8);
        self.peak = follow(self.peak, delay, if delay > self.peak { 2 } else { 8 });
        self.base = follow(self.base, delay, if delay < self.base { 2 } else { 8 });
    }
}

/// One class of service.
#[derive(Debug)]
pub(super) struct Tin {
    pub(super) flows: Flows,
    /// Sources and destinations.
    hosts: [Hosts; 2],
    /// Whether a source's, and a destination's, flows share one turn.
    divides: [bool; 2],
    pub(super) aqm: Aqm,
    pub(super) clock: Clock,
    pub(super) threshold: Rate,
    /// Bytes a flow sends per turn, 300 to 1514.
    pub(super) flow_quantum: u32,
    /// Bytes this tin sends per turn, and may still send: only without a shaper.
    pub(super) quantum: i32,
    pub(super) deficit: i32,
    pub(super) bytes: Bytes,
    pub(super) census: Census,
    pub(super) counters: Counters,
}

impl Tin {
    /// An empty tin, number `tin` of its kind.
    pub(super) fn new(config: &Config, tin: usize) -> Self {
        let params = config.cobalt(core::time::Duration::ZERO);
        let aqm = Aqm::new(params, config.seed.wrapping_add(tin as u64))
            .expect("a checked configuration");
        Self {
            flows: Flows::new(&aqm.fresh()),
            hosts: [Hosts::new(), Hosts::new()],
            divides: config.isolation.divides(),
            aqm,
            clock: Clock::default(),
            threshold: Rate::ZERO,
            flow_quantum: 0,
            quantum: 0,
            deficit: 0,
            bytes: Bytes::ZERO,
            census: Census::default(),
            counters: Counters::default(),
        }
    }

    /// Takes its parameters from those of the whole, whose rate is `rate`.
    pub(super) fn configure(&mut self, config: &Config, tin: usize, rate: Rate) {
        self.set_threshold(config.tins.threshold(tin, rate));
        self.quantum = config.tins.quantum(tin);
        self.flow_quantum = flow_quantum(self.threshold);
        let mtu = u32::try_from(config.mtu.get()).expect("checked to be at most 1 MiB");
        let mtu_time =
            core::time::Duration::from_nanos(self.clock.pace.map_or(0, |pace| pace.time(mtu)));
        self.aqm
            .set_params(config.cobalt(mtu_time))
            .expect("a checked configuration");
    }

    /// Sets the rate below which it goes first; zero is no limit.
    pub(super) fn set_threshold(&mut self, threshold: Rate) {
        self.threshold = threshold;
        self.clock.pace = Pace::new(threshold);
    }

    /// Counts hosts as `isolation` asks: flows leave the hosts that no longer matter, and join new
    /// ones with their next packet.
    pub(super) fn isolate(&mut self, isolation: Isolation) {
        self.divides = isolation.divides();
        for side in [0, 1]
            .into_iter()
            .filter(|&side| !isolation.divides()[side])
        {
            for id in 0..FLOWS as FlowId {
                let Flow { hosts, phase, .. } = &mut self.flows[id];
                if let (Some(host), Phase::Bulk) = (hosts[side].take(), *phase) {
                    self.hosts[side].remove(host);
                }
            }
        }
    }

    /// The queue of the flow with these hashes: its own, else an unused one of its set, else one
    /// that it shares (`net/sched/sch_cake.c` `cake_get_flow_quantum`).
    pub(super) fn queue_of(&mut self, hashes: Hashes) -> FlowId {
        let natural = hashes.flow as usize % FLOWS;
        let flow = |way: usize| &self.flows[way as FlowId];
        let own = ways(natural).find(|&way| flow(way).tag == hashes.flow);
        let place = own
            .or_else(|| ways(natural).find(|&way| flow(way).phase == Phase::Idle))
            .unwrap_or(natural);
        let idle = flow(place).phase == Phase::Idle;
        match own {
            Some(way) => self.counters.way_hits += u64::from(way != natural),
            None if idle => self.counters.way_misses += 1,
            None => self.counters.way_collisions += 1,
        }
        let id = place as FlowId;
        self.flows[id].tag = hashes.flow;
        for side in [0, 1] {
            if self.divides[side] && (own.is_none() || idle || self.flows[id].hosts[side].is_none())
            {
                self.assign_host(id, side, hashes.hosts[side]);
            }
        }
        id
    }

    /// The hashes by which flow `id` got its queue and its hosts.
    pub(super) fn hashes_of(&self, id: FlowId) -> Hashes {
        let Flow { tag, hosts, .. } = &self.flows[id];
        let hash = |side: usize| hosts[side].map_or(0, |host| self.hosts[side].hash_of(host));
        Hashes {
            flow: *tag,
            hosts: [hash(0), hash(1)],
        }
    }

    /// Makes the host with this hash that of flow `id`.
    fn assign_host(&mut self, id: FlowId, side: usize, hash: u32) {
        let Flow { hosts, phase, .. } = &mut self.flows[id];
        let bulk = *phase == Phase::Bulk;
        if let Some(host) = hosts[side].filter(|_| bulk) {
            self.hosts[side].remove(host);
        }
        let host = self.hosts[side].place(hash);
        hosts[side] = Some(host);
        if bulk {
            self.hosts[side].add(host);
        }
    }

    /// Moves a flow to another phase, and with it the counts of flows and of the hosts' bulk flows.
    fn enter(&mut self, id: FlowId, phase: Phase) {
        let flow = &mut self.flows[id];
        let before = core::mem::replace(&mut flow.phase, phase);
        let places = flow.hosts;
        if let Some(count) = self.census.of(before) {
            *count = count.checked_sub(1).expect("every flow is counted once");
        }
        if let Some(count) = self.census.of(phase) {
            *count += 1;
        }
        for (hosts, place) in self.hosts.iter_mut().zip(places) {
            match (place, before == Phase::Bulk, phase == Phase::Bulk) {
                (Some(place), false, true) => hosts.add(place),
                (Some(place), true, false) => hosts.remove(place),
                _ => {}
            }
        }
    }

    /// Whether a flow wants to send.
    pub(super) fn is_active(&self) -> bool {
        self.census.sparse + self.census.bulk > 0
    }

    /// Bytes flow `id` gets for a turn: its share of that of its busier host, rounded up or down by
    /// chance so that nothing is lost on average.
    #[inline]
    pub(super) fn share(&self, id: FlowId, random: &mut Random) -> i32 {
        ((self.fraction(id) + (random.bits32() >> 16)) >> 16) as i32
    }

    /// The exact share, in parts of 2¹⁶ of a byte.
    fn fraction(&self, id: FlowId) -> u32 {
        let places = self.flows[id].hosts.into_iter().zip(&self.hosts);
        let loads = places.filter_map(|(place, hosts)| Some(hosts.bulk_flows(place?)));
        self.flow_quantum * (0xffff / u32::from(loads.fold(1, u16::max)))
    }

    /// Number of flows in the rotation.
    pub(super) fn lap(&self) -> usize {
        let Census {
            sparse,
            bulk,
            decaying,
        } = self.census;
        sparse + bulk + decaying
    }

    /// All flows have been passed over in one lap: gives them at once what they would get in all
    /// laps but the last before one of them may send. The flows of a busy host get a byte or two
    /// per turn, and may owe a thousand turns.
    pub(super) fn skip_laps(&mut self) {
        let gain = |tin: &Self, id| u64::from(tin.fraction(id)) + 0x8000;
        let laps =
            |id| (u64::from(self.flows[id].deficit.min(0).unsigned_abs()) << 16) / gain(self, id);
        let skipped = self
            .flows
            .members(Rotation::Old)
            .map(laps)
            .min()
            .unwrap_or(0)
            .saturating_sub(1);
        let mut next = self.flows.front(Rotation::Old).filter(|_| skipped > 0);
        while let Some(id) = next {
            let gained = (gain(self, id) * skipped) >> 16;
            self.flows[id].deficit += i32::try_from(gained).unwrap_or(MAX_DEBT);
            next = self.flows.following(id);
        }
    }

    /// Flow `id` got a packet.
    pub(super) fn wake(&mut self, id: FlowId, random: &mut Random) {
        match self.flows[id].phase {
            Phase::Idle | Phase::Decaying => {
                self.flows.move_to(id, Some(Rotation::New));
                self.enter(id, Phase::Sparse);
                self.flows[id].deficit = self.share(id, random);
            }
            Phase::Waiting => self.enter(id, Phase::Bulk),
            Phase::Sparse | Phase::Bulk => {}
        }
    }

    /// The flow whose turn it is. Flows without packets are visited once per packet that leaves,
    /// first.
    pub(super) fn turn(&self, first: bool) -> Option<FlowId> {
        let decaying = || self.flows.front(Rotation::Decaying);
        let early = if first { decaying() } else { None };
        early
            .or_else(|| self.flows.front(Rotation::New))
            .or_else(|| self.flows.front(Rotation::Old))
            .or_else(decaying)
    }

    /// If flow `id` has used its share up, gives it another and puts it last.
    #[inline]
    pub(super) fn passes_on(&mut self, id: FlowId, random: &mut Random) -> bool {
        if self.flows[id].deficit > 0 {
            return false;
        }
        if self.flows[id].phase == Phase::Sparse {
            let waits = self.flows[id].queue.is_empty();
            self.enter(id, if waits { Phase::Waiting } else { Phase::Bulk });
        }
        self.flows[id].deficit += self.share(id, random);
        self.flows.move_to(id, Some(Rotation::Old));
        true
    }

    /// Flow `id` has no packets at its turn: it is kept until its AQM has come to rest.
    #[inline]
    pub(super) fn rest(&mut self, id: FlowId, now: Instant) {
        let cobalt = &mut self.flows[id].cobalt;
        let calmed = self.aqm.queue_empty(cobalt, now);
        self.counters.unresponsive = self
            .counters
            .unresponsive
            .saturating_sub(usize::from(calmed));
        let (rotation, phase) = if cobalt.is_active(now) {
            (Some(Rotation::Decaying), Phase::Decaying)
        } else {
            (None, Phase::Idle)
        };
        self.flows.move_to(id, rotation);
        self.enter(id, phase);
    }

    /// Charges flow `id` for a packet that weighs `len`.
    pub(super) fn charge(&mut self, id: FlowId, len: u32) {
        let len = i32::try_from(len).unwrap_or(i32::MAX).min(MAX_DEBT);
        let deficit = &mut self.flows[id].deficit;
        *deficit = deficit.saturating_sub(len).max(-MAX_DEBT);
        self.deficit = self.deficit.saturating_sub(len).max(-MAX_DEBT);
    }

    /// Notes how long a packet stayed that leaves now.
    pub(super) fn note_delay(&mut self, enqueued: Instant, now: Instant) {
        self.counters.delays.add(now.nanos_since(enqueued));
    }

    /// Bulk flows counted on either side.
    #[cfg(test)]
    pub(super) fn bulk_flows_of_hosts(&self) -> [usize; 2] {
        [0, 1].map(|side| self.hosts[side].all_bulk_flows())
    }

    /// Panics unless every count is what a walk over all flows finds.
    #[cfg(test)]
    pub(super) fn verify(&self) {
        let mut census = Census::default();
        for flow in self.flows.iter() {
            census
                .of(flow.phase)
                .into_iter()
                .for_each(|count| *count += 1);
        }
        assert_eq!(census, self.census);
        for side in [0, 1] {
            let bulk = self
                .flows
                .iter()
                .filter(|flow| flow.phase == Phase::Bulk && flow.hosts[side].is_some());
            assert_eq!(
                self.hosts[side].all_bulk_flows(),
                bulk.count(),
                "bulk flows of hosts"
            );
        }
        assert_eq!(
            self.flows.iter().map(|flow| flow.bytes).sum::<Bytes>(),
            self.bytes
        );
        for flow in self.flows.iter() {
            assert!(
                flow.queue.is_empty() || matches!(flow.phase, Phase::Sparse | Phase::Bulk),
                "{flow:?}"
            );
        }
        assert_eq!(
            self.flows
                .iter()
                .filter(|flow| flow.cobalt.is_unresponsive())
                .count(),
            self.counters.unresponsive
        );
    }
}

/// A flow, and in turns a tin, never owes more than this, however large its packets: it bounds the
/// turns that pass before it may send again.
const MAX_DEBT: i32 = 1 << 20;

/// A 4096th of a second at `rate`, but no less than 300 bytes and no more than a frame.
fn flow_quantum(rate: Rate) -> u32 {
    match rate.as_bytes_per_sec() {
        0 => 1514,
        bytes => (bytes >> 12).clamp(300, 1514) as u32,
    }
}
