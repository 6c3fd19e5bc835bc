//! [`Drops`]: where packets that will not be sent come out, each with its reason.

use alloc::vec::Vec;
use core::fmt;

use crate::tally::Tally;
use crate::units::Bytes;

/// Why a discipline or device gave up a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// The queue's packet or byte limit was reached.
    Overlimit,
    /// The queue's memory limit was reached.
    Memory,
    /// An AQM dropped it for standing delay (CoDel's control law).
    Target,
    /// The device or the path it stood in was reset.
    Reset,
    /// An AQM dropped it by chance to hold the delay down (RED, PIE, DualPI2).
    Early,
    /// A queue that does not answer to signals was cut back (BLUE, also within COBALT).
    Unresponsive,
    /// Its flow's own limit was reached (FQ, SFQ).
    FlowLimit,
    /// Its departure lies beyond the horizon (FQ).
    Horizon,
    /// It never fits the bucket of a shaper (TBF).
    TooLong,
    /// A filter or its action dropped it, or it belongs to no class.
    Filter,
    /// A newer acknowledgement says all it said (CAKE's ACK filter).
    AckFilter,
    /// An emulated path lost it (netem).
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
        f.write_str(match self {
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

/// Packets dropped during one or more calls. The caller owns the vector and reuses it, so dropping
/// allocates nothing in steady state; it must [`drain`](Self::drain) it and settle what comes out.
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

    /// Notes that a discipline made packets itself: a split into `n` pieces bears `n - 1` packets
    /// and the bytes of their headers, a duplicate bears one packet and its length. Without this
    /// note an account around the discipline would not balance.
    pub fn note_births(&mut self, packets: u64, bytes: Bytes) {
        self.births.packets += packets;
        self.births.bytes += bytes;
    }

    /// Everything born since this sink was made; draining does not reset it.
    pub fn births(&self) -> Tally {
        self.births
    }

    /// Takes every dropped packet out, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (P, DropReason)> + '_ {
        self.dropped.drain(..)
    }

    /// The dropped packets, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &(P, DropReason)> {
        self.dropped.iter()
    }

    /// How many packets wait to be settled.
    pub fn len(&self) -> usize {
        self.dropped.len()
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.dropped.is_empty()
    }
}

impl<P> Default for Drops<P> {
    fn default() -> Self {
        Self::new()
    }
}
