//! [`Drops`]: the sink of dropped packets, each with its [`DropReason`].

use alloc::vec::Vec;
use core::fmt;

use crate::tally::Tally;
use crate::units::Bytes;

/// Why a qdisc or device dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// The queue's packet or byte limit was reached.
    Overlimit,
    /// The queue's memory limit was reached.
    Memory,
    /// An AQM dropped it for persistent delay (CoDel's control law).
    Target,
    /// Its device or path was reset.
    Reset,
    /// An AQM dropped it with a probability that controls the delay (RED, PIE, DualPI2).
    Early,
    /// Its queue does not respond to congestion signals (BLUE, also within COBALT).
    Unresponsive,
    /// The limit of its flow was reached (FQ, SFQ).
    FlowLimit,
    /// Its departure lies beyond the horizon (FQ).
    Horizon,
    /// It is longer than the bucket of the shaper (TBF).
    TooLong,
    /// A filter or an action dropped it, or it belongs to no class.
    Filter,
    /// A newer acknowledgment makes it redundant (CAKE's ACK filter).
    AckFilter,
    /// It was lost on an emulated path (netem).
    Loss,
}

impl DropReason {
    /// Every reason, in the order of [`index`](Self::index).
    pub const ALL: [Self; 12] = [
        Self::Overlimit,
        Self::Memory,
        Self::Target,
        Self::Reset,
        Self::Early,
        Self::Unresponsive,
        Self::FlowLimit,
        Self::Horizon,
        Self::TooLong,
        Self::Filter,
        Self::AckFilter,
        Self::Loss,
    ];

    /// Position in [`ALL`](Self::ALL), for counter arrays.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Overlimit => "overlimit",
            Self::Memory => "memory",
            Self::Target => "target",
            Self::Reset => "reset",
            Self::Early => "early",
            Self::Unresponsive => "unresponsive",
            Self::FlowLimit => "flow_limit",
            Self::Horizon => "horizon",
            Self::TooLong => "too_long",
            Self::Filter => "filter",
            Self::AckFilter => "ack_filter",
            Self::Loss => "loss",
        })
    }
}

/// Packets dropped during one or more calls. The caller owns and reuses it, so that dropping does not
/// allocate in steady state; it must [`drain`](Self::drain) and settle the packets.
///
/// ```
/// use tautline_base::{DropReason, Drops, Packet};
///
/// let mut drops = Drops::new();
/// drops.push(Packet::new((), 1514), DropReason::Overlimit);
/// for (_packet, reason) in drops.drain() {
///     assert_eq!(reason.to_string(), "overlimit");
/// }
/// assert!(drops.is_empty());
/// ```
#[derive(Debug)]
pub struct Drops<P> {
    dropped: Vec<(P, DropReason)>,
    births: Tally,
}

impl<P> Drops<P> {
    /// An empty sink.
    pub const fn new() -> Self {
        Self {
            dropped: Vec::new(),
            births: Tally {
                packets: 0,
                bytes: Bytes::ZERO,
            },
        }
    }

    /// Drops `packet` because of `reason`.
    pub fn push(&mut self, packet: P, reason: DropReason) {
        self.dropped.push((packet, reason));
    }

    /// Counts packets that a qdisc made itself: `n - 1` packets and the bytes of their headers for a
    /// split into `n` pieces, one packet and its length for a duplicate. With it the packets and
    /// bytes into and out of a qdisc balance.
    pub fn note_births(&mut self, packets: u64, bytes: Bytes) {
        self.births.packets += packets;
        self.births.bytes += bytes;
    }

    /// Packets and bytes that qdiscs made since creation; draining does not reset them.
    pub fn births(&self) -> Tally {
        self.births
    }

    /// Removes every dropped packet, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (P, DropReason)> + '_ {
        self.dropped.drain(..)
    }

    /// The dropped packets, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &(P, DropReason)> {
        self.dropped.iter()
    }

    /// Number of packets not drained yet.
    pub fn len(&self) -> usize {
        self.dropped.len()
    }

    /// True if every packet is drained.
    pub fn is_empty(&self) -> bool {
        self.dropped.is_empty()
    }
}

impl<P> Default for Drops<P> {
    fn default() -> Self {
        Self::new()
    }
}
