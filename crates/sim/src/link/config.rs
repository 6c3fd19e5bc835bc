//! What one direction of a link is like.

use std::str::FromStr;
use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_qdisc::words::Tree;

use crate::chance::Probability;
use crate::config_error::ConfigError;
use crate::nic::Coalesce;
use crate::ring_limit::RingLimit;
use crate::schedule::Schedule;

/// One direction of a link. The default is a perfect wire: no delay, faster than anything that
/// feeds it.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// How fast frames are serialised onto it, counting their bytes without FCS. Default
    /// [`Rate::MAX`].
    pub rate: Rate,
    /// How the rate changes. Default not at all.
    pub schedule: Schedule,
    /// What each frame takes on the wire beyond its bytes: 24 on Ethernet, for preamble, FCS and
    /// gap. Default 0.
    pub framing: Bytes,
    /// Propagation delay. Default 0.
    pub delay: Duration,
    /// Where frames wait for the serialiser.
    pub queue: Buffer,
    /// The card between queue and wire, as a router has. Default none: the queue is asked whenever
    /// the wire is free.
    pub card: Option<CardConfig>,
    /// What goes wrong on the way.
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
            card: None,
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

/// The card through which a router feeds a link. Its line is the link's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardConfig {
    /// Descriptors of its ring, at least 1. Default 256 (Linux e1000e, igb).
    pub ring: usize,
    /// Free descriptors at which a full ring takes packets again, as
    /// [`NicConfig::restart`](crate::NicConfig::restart). Default 1.
    pub restart: usize,
    /// Bytes that the ring holds, as [`NicConfig::ring_bytes`](crate::NicConfig::ring_bytes): room
    /// for full frames of 2048 bytes is counted. Default [`Bytes::MAX`].
    pub ring_bytes: Bytes,
    /// What it takes to hand one packet from the queue to the ring: those of a burst are taken one
    /// after the other, which an estimator of the departure rate sees. It keeps nothing else
    /// waiting. Default 0.
    pub copy: Duration,
    /// When it announces completions.
    pub coalesce: Coalesce,
    /// Longest the driver takes to answer an interrupt, drawn evenly from nothing to this: a
    /// processor that is busy. Default 0.
    pub late: Duration,
    /// The limit on the bytes in the ring. Default dynamic queue limits.
    pub limit: RingLimit,
}

impl Default for CardConfig {
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
        }
    }
}

/// The queue in front of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Buffer {
    /// First in, first out, bounded by whichever limit is reached first.
    TailDrop {
        /// Most packets that wait.
        packets: usize,
        /// Most bytes that wait.
        bytes: Bytes,
    },
    /// A discipline, as a router with an AQM would have.
    Discipline(Tree),
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

    /// The words of a discipline: `fq_codel limit 1000 target 5ms`.
    fn from_str(words: &str) -> Result<Self, ConfigError> {
        Ok(Self::Discipline(words.parse()?))
    }
}

/// What goes wrong on the way, each independently. A frame is first lost or not; if not, it may
/// gain a copy; then each copy may be damaged and may be held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// A frame disappears.
    pub loss: Probability,
    /// A frame arrives twice.
    pub duplicate: Probability,
    /// One random bit of the IP packet flips. Frames without an IP packet are spared: on a real
    /// link the FCS protects them.
    pub corrupt: Probability,
    /// A frame is held back, so that later ones overtake it.
    pub reorder: Probability,
    /// How long a reordered frame is held back. Default 1 ms.
    pub reorder_delay: Duration,
}

impl Impairments {
    /// Nothing goes wrong.
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

    /// Whether anything can go wrong.
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
