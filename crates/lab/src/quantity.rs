//! [`Quantity`]: what a series measures, and in which unit.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Last part of a number's name. Only some quantities have `total`, `fairness`, `dips` and
/// `dip_gap`.
pub(crate) const STATISTICS: [&str; 16] = [
    "count", "mean", "sd", "min", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max", "total",
    "fairness", "dips", "dip_gap",
];

/// Names of what is counted over a whole run: `counters.NAME`. `kernel_ping` is of runs on the wire.
pub(crate) const COUNTERS: [&str; 11] = [
    "fast_recoveries",
    "kernel_ping_count",
    "kernel_ping_p50_us",
    "kernel_ping_p90_us",
    "local_drops",
    "packets",
    "ping_lost",
    "refused",
    "retransmits",
    "timeouts",
    "tsq_throttles",
];

/// A measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quantity {
    /// Payload that the receiving program read in a sample interval, in Mbit/s. Stamped with the
    /// interval's end.
    Goodput,
    /// Round trip of an ICMP echo in ms, one point for each reply, at the time its request was
    /// sent.
    Ping,
    /// The latest round trip that TCP measured, in ms.
    Rtt,
    /// TCP's smoothed round trip in ms.
    SmoothedRtt,
    /// Congestion window in packets.
    Cwnd,
    /// Pacing rate in Mbit/s.
    PacingRate,
    /// Bytes below the socket, in qdisc and ring.
    TsqCharge,
    /// Limit of TCP Small Queues on these bytes.
    TsqLimit,
    /// One-way delay between the programs in ms, at the time of arrival.
    OneWay,
    /// Duration of the fetch of a page with all its objects in ms, at its end.
    Fetch,
    /// Backlog of the qdisc in packets.
    Backlog,
    /// Backlog of the qdisc in bytes.
    BacklogBytes,
    /// Occupancy of the device's ring in packets.
    Ring,
    /// Occupancy of the device's ring in bytes.
    RingBytes,
    /// Limit of the device's ring in bytes.
    RingLimit,
    /// Packets that the qdisc dropped in a sample interval.
    Drops,
    /// Packets that the qdisc marked "congestion experienced" in a sample interval.
    Marks,
    /// Bytes that left the port in a sample interval.
    Sent,
    /// Sojourn time of the latest packet to leave the qdisc, in ms.
    Sojourn,
    /// PIE's estimate of the departure rate in Mbit/s, if it makes one.
    DepartureRate,
    /// Probability with which PIE drops, 0 to 1.
    DropProbability,
    /// Times in a sample interval that the full ring stopped the qdisc and left packets in it. Linux
    /// then puts back what it had dequeued and counts a requeue.
    RingFull,
    /// Packets that the qdisc handed to the device at once, as a mean over a sample interval.
    Burst,
    /// Duration of PIE's measurement of the departure rate in ms: the geometric middle of a power of
    /// two of nanoseconds, so at most 1.5 times too long or short. One point for each measurement.
    Cycle,
}

impl Quantity {
    /// All, in order.
    pub const ALL: [Self; 24] = [
        Self::Goodput,
        Self::Ping,
        Self::Rtt,
        Self::SmoothedRtt,
        Self::Cwnd,
        Self::PacingRate,
        Self::TsqCharge,
        Self::TsqLimit,
        Self::OneWay,
        Self::Fetch,
        Self::Backlog,
        Self::BacklogBytes,
        Self::Ring,
        Self::RingBytes,
        Self::RingLimit,
        Self::Drops,
        Self::Marks,
        Self::Sent,
        Self::Sojourn,
        Self::DepartureRate,
        Self::DropProbability,
        Self::RingFull,
        Self::Burst,
        Self::Cycle,
    ];

    /// Its name in files and in checks of shapes.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Title of a plot's axis.
    pub const fn title(self) -> &'static str {
        self.row().1
    }

    /// Unit of its values, shown in brackets at a plot's axis.
    pub const fn unit(self) -> &'static str {
        self.row().2
    }

    /// Whether values of several flows or ports at one time add up to one of all.
    pub const fn adds_up(self) -> bool {
        matches!(
            self,
            Self::Goodput | Self::Drops | Self::Marks | Self::Sent | Self::RingFull
        )
    }

    /// Whether a value counts events of a sample interval, so that the values sum up to a total.
    pub const fn counts(self) -> bool {
        matches!(
            self,
            Self::Drops | Self::Marks | Self::Sent | Self::RingFull
        )
    }

    /// Whether a series of it is searched for dips.
    pub const fn dips(self) -> bool {
        matches!(self, Self::Ping | Self::Rtt | Self::SmoothedRtt)
    }

    const fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Goodput => ("goodput", "Goodput", "Mbit/s"),
            Self::Ping => ("ping", "Ping", "ms"),
            Self::Rtt => ("rtt", "TCP round trip", "ms"),
            Self::SmoothedRtt => ("smoothed_rtt", "Smoothed TCP round trip", "ms"),
            Self::Cwnd => ("cwnd", "Congestion window", "packets"),
            Self::PacingRate => ("pacing_rate", "Pacing rate", "Mbit/s"),
            Self::TsqCharge => ("tsq_charge", "Below the socket", "bytes"),
            Self::TsqLimit => ("tsq_limit", "TSQ limit", "bytes"),
            Self::OneWay => ("one_way", "One-way delay", "ms"),
            Self::Fetch => ("fetch", "Page fetch", "ms"),
            Self::Backlog => ("backlog", "Qdisc backlog", "packets"),
            Self::BacklogBytes => ("backlog_bytes", "Qdisc backlog", "bytes"),
            Self::Ring => ("ring", "Ring occupancy", "packets"),
            Self::RingBytes => ("ring_bytes", "Ring occupancy", "bytes"),
            Self::RingLimit => ("ring_limit", "Ring limit", "bytes"),
            Self::Drops => ("drops", "Drops", "packets"),
            Self::Marks => ("marks", "Marks", "packets"),
            Self::Sent => ("sent", "Sent", "bytes"),
            Self::Sojourn => ("sojourn", "Sojourn", "ms"),
            Self::DepartureRate => ("departure_rate", "Departure rate (PIE)", "Mbit/s"),
            Self::DropProbability => ("drop_probability", "Drop probability (PIE)", "share"),
            Self::RingFull => ("ring_full", "Stops by a full ring", "stops"),
            Self::Burst => ("burst", "Handed over at once", "packets"),
            Self::Cycle => ("cycle", "Measurement of the rate (PIE)", "ms"),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_written_by_its_name_and_all_stand_in_order() {
        for quantity in Quantity::ALL {
            assert_eq!(
                serde_json::to_value(quantity).expect("a word"),
                quantity.name()
            );
        }
        assert!(Quantity::ALL.is_sorted(), "files are in this order");
    }
}
