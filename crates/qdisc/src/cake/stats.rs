//! CAKE's counters (`net/sched/sch_cake.c` `cake_dump_stats`).

use core::time::Duration;

use tautline_base::{Bytes, Rate};

use super::Cake;
use super::tin::{Delays, Tin};

/// Measurements of [`Cake`] over all tins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Times a packet had to wait for the shaper.
    pub overlimits: u64,
    /// Most memory held at once.
    pub memory_used: Bytes,
    /// Memory it may hold.
    pub memory_limit: Bytes,
    /// Estimated rate of the bottleneck, or the configured one before there is an estimate.
    pub capacity_estimate: Rate,
    /// Shortest and longest network-layer length in bytes.
    pub network_size: (u32, u32),
    /// Shortest and longest length on the link in bytes.
    pub adjusted_size: (u32, u32),
    /// Mean offset of the network header in bytes.
    pub mean_offset: u32,
}

/// Counters of one tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinStats {
    /// Its name: `Voice`.
    pub name: &'static str,
    /// The rate above which it yields to others.
    pub threshold: Rate,
    /// COBALT's target.
    pub target: Duration,
    /// COBALT's interval.
    pub interval: Duration,
    /// Mean sojourn time, leaning to the longest.
    pub peak_delay: Duration,
    /// Mean sojourn time.
    pub average_delay: Duration,
    /// Mean sojourn time, leaning to the shortest.
    pub base_delay: Duration,
    /// Bytes queued.
    pub backlog: Bytes,
    /// Packets that arrived.
    pub packets: u64,
    /// Bytes that arrived.
    pub bytes: Bytes,
    /// Hashes that found their queue in another way of the set.
    pub way_hits: u64,
    /// Hashes that found an unused queue.
    pub way_misses: u64,
    /// Hashes that had to share a queue with another flow.
    pub way_collisions: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Acknowledgments dropped by the filter.
    pub ack_drops: u64,
    /// Sparse flows.
    pub sparse_flows: usize,
    /// Bulk flows.
    pub bulk_flows: usize,
    /// Queues that BLUE drops from.
    pub unresponsive_flows: usize,
    /// Longest packet, before it was split.
    pub max_len: Bytes,
    /// Bytes a flow sends per turn.
    pub quantum: u32,
}

impl<P> Cake<P> {
    /// Measurements over all tins.
    pub fn stats(&self) -> Stats {
        // Linux begins the estimate with the bandwidth.
        let estimate = Some(self.autorate.peak()).filter(|peak| *peak > Rate::ZERO);
        Stats {
            overlimits: self.overlimits,
            memory_used: self.memory.most,
            memory_limit: self.memory.limit,
            capacity_estimate: estimate.or_else(|| self.rate()).unwrap_or(Rate::ZERO),
            network_size: self.sizes.network,
            adjusted_size: self.sizes.adjusted,
            mean_offset: self.sizes.mean_offset(),
        }
    }

    /// Counters of each tin, the least urgent first.
    pub fn tins(&self) -> impl Iterator<Item = TinStats> {
        let tins = self.config.tins;
        let names = tins.names().iter().zip(tins.order());
        names.map(|(name, &tin)| self.tins[tin].stats(name))
    }
}

impl Tin {
    fn stats(&self, name: &'static str) -> TinStats {
        let (counters, census, params) = (&self.counters, &self.census, self.aqm.params());
        let Delays {
            average,
            peak,
            base,
        } = counters.delays;
        TinStats {
            name,
            threshold: self.threshold,
            target: params.target,
            interval: params.interval,
            peak_delay: Duration::from_nanos(peak),
            average_delay: Duration::from_nanos(average),
            base_delay: Duration::from_nanos(base),
            backlog: self.bytes,
            packets: counters.packets,
            bytes: counters.bytes,
            way_hits: counters.way_hits,
            way_misses: counters.way_misses,
            way_collisions: counters.way_collisions,
            drops: counters.drops,
            marks: counters.marks,
            ack_drops: counters.ack_drops,
            sparse_flows: census.sparse + census.decaying,
            bulk_flows: census.bulk,
            unresponsive_flows: counters.unresponsive,
            max_len: counters.max_len,
            quantum: self.flow_quantum,
        }
    }
}
