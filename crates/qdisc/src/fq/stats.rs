//! [`Stats`]: occupancy and counters of FQ, in the order of `tc`.

use core::time::Duration;

use super::{BANDS, Fq};

/// Occupancy and counters of [`Fq`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Flows it remembers.
    pub flows: usize,
    /// Flows without packets.
    pub inactive: usize,
    /// Flows whose next packet is not due.
    pub throttled_flows: usize,
    /// Time until the next of them is due.
    pub next_packet_delay: Duration,
    /// Flows forgotten.
    pub forgotten: u64,
    /// Packets that passed by all flows: of high priority, or on the fast path.
    pub internal: u64,
    /// Times a flow was throttled.
    pub throttled: u64,
    /// How late throttled flows go on, averaged over eight.
    pub latency: Duration,
    /// Packets marked above `ce_threshold`.
    pub ce_mark: u64,
    /// Packets dropped at a flow's limit.
    pub flows_plimit: u64,
    /// Packets longer than a second at their flow's rate.
    pub pkts_too_long: u64,
    /// Packets dropped beyond the horizon.
    pub horizon_drops: u64,
    /// Packets whose departure was capped to the horizon.
    pub horizon_caps: u64,
    /// Packets each band dropped at the limit.
    pub band_drops: [u64; BANDS],
    /// Packets each band holds.
    pub band_packets: [usize; BANDS],
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) internal: u64,
    pub(super) throttled: u64,
    /// How late flows go on, averaged over eight.
    pub(super) latency: u64,
    pub(super) ce_mark: u64,
    pub(super) flows_plimit: u64,
    pub(super) pkts_too_long: u64,
    pub(super) horizon_drops: u64,
    pub(super) horizon_caps: u64,
}

impl<P> Fq<P> {
    /// Occupancy and counters.
    pub fn stats(&self) -> Stats {
        let Counters {
            internal,
            throttled,
            latency,
            ce_mark,
            flows_plimit,
            pkts_too_long,
            horizon_drops,
            horizon_caps,
        } = self.counters;
        let earliest = self.throttled.earliest();
        Stats {
            flows: self.flows.len(),
            inactive: self.flows.len() - self.holding,
            throttled_flows: self.throttled.len(),
            next_packet_delay: earliest.map_or(Duration::ZERO, |earliest| earliest - self.clock),
            forgotten: self.flows.forgotten,
            internal,
            throttled,
            latency: Duration::from_nanos(latency),
            ce_mark,
            flows_plimit,
            pkts_too_long,
            horizon_drops,
            horizon_caps,
            band_drops: self.bands.each_ref().map(|band| band.drops),
            band_packets: self.bands.each_ref().map(|band| band.packets),
        }
    }
}
