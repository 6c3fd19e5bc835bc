//! Configuration of one direction of a link.

use std::str::FromStr;
use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_bql::Waking;
use tautline_tc::Tree;

use crate::config_error::ConfigError;
use crate::nic::Coalesce;
use crate::probability::Probability;
use crate::ring_limit::RingLimit;
use crate::schedule::Schedule;

/// One direction of a link. The default is a perfect wire: no delay, a rate above that of anything
/// that feeds it.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Rate at which frames are serialized, without FCS. Default [`Rate::MAX`].
    pub rate: Rate,
    /// Changes of the rate. Default constant.
    pub schedule: Schedule,
    /// Overhead of each frame on the wire: 24 bytes on Ethernet, for preamble, FCS and gap. Default
    /// 0.
    pub framing: Bytes,
    /// Propagation delay. Default 0.
    pub delay: Duration,
    /// The queue before the wire or NIC. Default 1000 packets, tail drop.
    pub queue: Buffer,
    /// The NIC between queue and wire, as a router has. Default none: a packet is dequeued whenever
    /// the wire is free.
    pub nic: Option<LinkNicConfig>,
    /// Default none.
    pub impair: Impairments,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: Rate::MAX,
            schedule: Schedule::Constant,
            framing: Bytes::ZERO,
            delay: Duration::ZERO,
            queue: Buffer::default(),
            nic: None,
            impair: Impairments::default(),
        }
    }
}

impl LinkConfig {
    /// A link of `rate` and `delay` with a buffer of one bandwidth-delay product of `rtt`, and at
    /// least ten full frames.
    pub fn bottleneck(rate: Rate, delay: Duration, rtt: Duration) -> Self {
        let bytes = (rate * rtt).max(Bytes::new(15_140));
        Self {
            rate,
            delay,
            queue: Buffer::TailDrop {
                packets: usize::MAX,
                bytes,
            },
            ..Self::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(self.rate > Rate::ZERO, "rate", self.rate, "above 0")?;
        self.schedule.check()
    }
}

/// The NIC through which a router feeds a link, at the rate of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkNicConfig {
    /// Descriptors of its ring, at least 1. Default 256 (Linux e1000e, igb).
    pub ring: usize,
    /// Free descriptors at which a full ring takes packets again, as
    /// [`NicConfig::restart`](crate::NicConfig::restart). Default 1.
    pub restart: usize,
    /// Bytes that the ring holds, as [`NicConfig::ring_bytes`](crate::NicConfig::ring_bytes): full
    /// frames of 2048 bytes are assumed. Default [`Bytes::MAX`].
    pub ring_bytes: Bytes,
    /// Time to move one packet from the queue to the ring. Packets of a burst are dequeued that far
    /// apart, which an estimator of the departure rate sees; nothing else waits for it. Default 0.
    pub copy: Duration,
    /// Interrupt moderation of completions.
    pub coalesce: Coalesce,
    /// Maximum interrupt latency of the driver, drawn uniformly from zero to this: a busy CPU.
    /// Default 0.
    pub late: Duration,
    /// The limit on the bytes in the ring. Default dynamic queue limits.
    pub limit: RingLimit,
    /// The NIC has a ring with a limit of its own for each access category, and a ring with free
    /// space again wakes this part of the qdisc. [`Waking::Child`] needs `mq queues 4`. Default
    /// none: one ring.
    pub access_categories: Option<Waking>,
}

impl Default for LinkNicConfig {
    fn default() -> Self {
        let (coalesce, limit) = (Coalesce::default(), RingLimit::default());
        Self {
            ring: 256,
            restart: 1,
            ring_bytes: Bytes::MAX,
            copy: Duration::ZERO,
            coalesce,
            late: Duration::ZERO,
            limit,
            access_categories: None,
        }
    }
}

/// The queue in front of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Buffer {
    /// A FIFO with tail drop at the first limit reached.
    TailDrop {
        /// Limit in packets.
        packets: usize,
        /// Limit in bytes.
        bytes: Bytes,
    },
    /// A qdisc, for example an AQM.
    Qdisc(Tree),
}

impl Default for Buffer {
    /// 1000 packets, the transmit queue length of a Linux Ethernet device.
    fn default() -> Self {
        Self::TailDrop {
            packets: 1000,
            bytes: Bytes::MAX,
        }
    }
}

impl FromStr for Buffer {
    type Err = ConfigError;

    /// Parses the words of a qdisc: `fq_codel limit 1000 target 5ms`.
    fn from_str(words: &str) -> Result<Self, ConfigError> {
        Ok(Self::Qdisc(words.parse()?))
    }
}

/// Probabilities of impairments, each independent. A frame that is not lost may be duplicated; each
/// copy may then be corrupted and delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// A frame is lost.
    pub loss: Probability,
    /// A frame is duplicated.
    pub duplicate: Probability,
    /// One random bit of the IP packet is flipped. Frames without an IPv4 packet are unaffected: on
    /// a real link the FCS protects them.
    pub corrupt: Probability,
    /// A frame is delayed, so that later ones overtake it.
    pub reorder: Probability,
    /// Additional delay of a reordered frame. Default 1 ms.
    pub reorder_delay: Duration,
}

impl Impairments {
    /// No impairments.
    pub const NONE: Self = {
        let never = Probability::NEVER;
        Self {
            loss: never,
            duplicate: never,
            corrupt: never,
            reorder: never,
            reorder_delay: Duration::from_millis(1),
        }
    };

    /// True if all probabilities are zero.
    pub(crate) fn are_none(&self) -> bool {
        Self {
            reorder_delay: Self::NONE.reorder_delay,
            ..*self
        } == Self::NONE
    }
}

impl Default for Impairments {
    fn default() -> Self {
        Self::NONE
    }
}
