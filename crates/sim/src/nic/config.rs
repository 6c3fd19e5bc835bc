//! [`NicConfig`]: parameters of a NIC.

use std::time::Duration;

use tautline_base::headers::ETHERNET_HEADER;
use tautline_base::{Bytes, HeapFrame, Rate, Tso};

use crate::config_error::ConfigError;
use crate::schedule::Schedule;

/// Parameters of a [`SimNic`](super::SimNic).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// Largest IP packet in bytes, 68 to 2034. Default 1500 (Ethernet).
    pub mtu: usize,
    /// Descriptors of the transmit ring, at least 1. Default 256 (Linux e1000e, igb).
    pub tx_ring: usize,
    /// Free descriptors, from 1 to `tx_ring`, at which a full ring accepts packets again. Default 1.
    /// A larger value makes a device that stops and starts, and so dequeues in bursts, as e1000e and
    /// tg3 do in different ways.
    pub restart: usize,
    /// Capacity of the transmit ring in bytes, at least one full frame. Default [`Bytes::MAX`]: only
    /// descriptors count. The buffer of an LTE bearer counts bytes.
    pub ring_bytes: Bytes,
    /// Descriptors of the receive ring, at least 1. Default 256 (Linux e1000e, igb).
    pub rx_ring: usize,
    /// Delay of the interrupt of a received frame, which serves those that follow it, too
    /// (`ethtool -C rx-usecs`). A receiver acknowledges them once, as with GRO. Default 0.
    pub rx_delay: Duration,
    /// Line rate. Default 1 Gbit/s.
    pub rate: Rate,
    /// Changes of the rate. Default constant.
    pub schedule: Schedule,
    /// Time that the NIC spends on a packet before its first bit leaves, once on a TSO packet: the
    /// exits and copies of an emulated NIC. Default 0.
    pub tx_packet_time: Duration,
    /// Time that the NIC spends on a received frame, in which it sends nothing. Default 0.
    pub rx_frame_time: Duration,
    /// Overhead of each frame on the wire. Default 24 bytes: preamble, FCS and gap (IEEE 802.3).
    pub framing: Bytes,
    /// Interrupt moderation of completions.
    pub coalesce: Coalesce,
    /// Largest packet of several segments that the NIC cuts itself (`ethtool -K tso`); [`Tso::MOST`]
    /// is that of Linux NICs. Each takes one descriptor, and the last may exceed `ring_bytes`.
    /// Default none.
    pub tso: Option<Tso>,
}

impl Default for NicConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            tx_ring: 256,
            restart: 1,
            ring_bytes: Bytes::MAX,
            rx_ring: 256,
            rx_delay: Duration::ZERO,
            rate: Rate::gbit(1),
            schedule: Schedule::Constant,
            tx_packet_time: Duration::ZERO,
            rx_frame_time: Duration::ZERO,
            framing: Bytes::new(24),
            coalesce: Coalesce::default(),
            tso: None,
        }
    }
}

impl NicConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let largest = HeapFrame::LEN - ETHERNET_HEADER;
        ConfigError::check(
            (68..=largest).contains(&self.mtu),
            "mtu",
            self.mtu,
            "from 68 to 2034 bytes",
        )?;
        ConfigError::check(self.tx_ring > 0, "tx_ring", self.tx_ring, "at least 1")?;
        ConfigError::check(
            (1..=self.tx_ring).contains(&self.restart),
            "restart",
            self.restart,
            "from 1 to tx_ring",
        )?;
        ConfigError::check(
            self.ring_bytes >= self.largest_frame(),
            "ring_bytes",
            self.ring_bytes,
            "at least one full frame",
        )?;
        ConfigError::check(self.rx_ring > 0, "rx_ring", self.rx_ring, "at least 1")?;
        ConfigError::check(self.rate > Rate::ZERO, "rate", self.rate, "above 0")?;
        self.schedule.check()?;
        ConfigError::check(
            self.coalesce.frames > 0,
            "coalesce.frames",
            self.coalesce.frames,
            "at least 1",
        )
    }

    pub(super) fn largest_frame(&self) -> Bytes {
        Bytes::new((self.mtu + ETHERNET_HEADER) as u64)
    }
}

/// Interrupt moderation (`ethtool -C tx-frames/tx-usecs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// Pending completions that cause an interrupt at once, at least 1.
    pub frames: u32,
    /// Maximum delay of a completion.
    pub time: Duration,
}

impl Coalesce {
    /// Every completion interrupts at once.
    pub const OFF: Self = Self {
        frames: 1,
        time: Duration::ZERO,
    };
}

impl Default for Coalesce {
    /// 8 frames or 20 µs: our choice, about what moderated NICs do at 1 Gbit/s.
    fn default() -> Self {
        Self {
            frames: 8,
            time: Duration::from_micros(20),
        }
    }
}
