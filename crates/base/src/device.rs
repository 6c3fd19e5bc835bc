//! [`Device`]: a transmit ring that takes packets and gives them back, and a receive ring that
//! lends frames.

use alloc::vec::Vec;
use core::num::NonZeroU16;

use crate::frame::Frame;
use crate::headers::{ETHERNET_HEADER, VLAN_TAG};
use crate::packet::Packet;
use crate::time::Instant;

/// A network device as the host sees it: AF_XDP socket, TAP, simulated NIC.
///
/// Transmit: *permission first, work second*. Whoever calls [`put`](Self::put) has seen
/// [`room`](Self::room) above zero, so putting cannot fail. The device owns a packet from `put`
/// until `reap` or `reset` gives it back; it loses none.
///
/// Receive: the device lends a frame; the caller reads it and gives it back with
/// [`recycle`](Self::recycle).
pub trait Device {
    /// The memory of this device's packets.
    type Frame: Frame;

    /// Largest IP packet in bytes, link header not counted.
    fn mtu(&self) -> usize;

    /// The packets of several segments that it takes, and cuts into frames of the MTU itself (TCP
    /// segmentation offload). Default none: each packet is a frame.
    fn tso(&self) -> Option<Tso> {
        None
    }

    /// Whether it writes what is still [`Due`](crate::Due) in a packet of one segment, so that
    /// nobody else needs to. Default no.
    fn completes(&self) -> bool {
        false
    }

    /// How many packets the transmit ring accepts now.
    fn room(&self) -> usize;

    /// Places a packet in the transmit ring. It may stay unsent until the
    /// [`doorbell`](Self::doorbell).
    ///
    /// # Panics
    /// If there is no [`room`](Self::room): the caller broke the contract.
    fn put(&mut self, packet: Packet<Self::Frame>, now: Instant);

    /// Tells the device that packets were put; one call per burst.
    fn doorbell(&mut self, now: Instant);

    /// Appends every packet whose transmission has completed to `done`.
    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<Self::Frame>>);

    /// True when the driver is woken by every completion (a simulated interrupt), so that nobody
    /// needs to look for them.
    fn announces_completions(&self) -> bool {
        false
    }

    /// Packets put and not yet reaped.
    fn in_flight(&self) -> usize;

    /// The next received frame, if any.
    #[must_use = "a received frame must be recycled"]
    fn receive(&mut self, now: Instant) -> Option<Received<Self::Frame>>;

    /// Gives a received frame back for reuse.
    fn recycle(&mut self, frame: Self::Frame);

    /// Stops transmission and appends every packet in flight to `lost`. Afterwards
    /// [`in_flight`](Self::in_flight) is zero.
    fn reset(&mut self, lost: &mut Vec<Packet<Self::Frame>>);
}

/// The packets of several TCP segments that a device takes. In such a packet headers stand once,
/// before the payload of all; it is cut into segments of equal payload
/// ([`Segmentation`](crate::Segmentation)), and only then checksummed: its TCP checksum covers the
/// pseudo-header only (Linux's `CHECKSUM_PARTIAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tso {
    /// Bytes of its IP packet, headers standing once (Linux `gso_max_size`).
    pub max_size: u16,
    /// Segments in it (Linux `gso_max_segs`).
    pub max_segments: u16,
}

impl Tso {
    /// As long as IPv4 can say, in any number of segments: Linux's default (`GSO_LEGACY_MAX_SIZE`,
    /// `GSO_MAX_SEGS`), less a byte that no IPv4 packet has.
    pub const MOST: Self = Self {
        max_size: u16::MAX,
        max_segments: u16::MAX,
    };

    /// Bytes a frame must have for the largest of these packets, with an Ethernet header and a VLAN
    /// tag.
    pub const fn frame_len(&self) -> usize {
        self.max_size as usize + LINK_HEADER
    }

    /// Such packets as fit frames of `len` bytes.
    #[must_use]
    pub const fn within(self, len: usize) -> Self {
        let room = len.saturating_sub(LINK_HEADER);
        if room < self.max_size as usize {
            Self {
                max_size: room as u16,
                ..self
            }
        } else {
            self
        }
    }
}

/// Ethernet header and VLAN tag.
const LINK_HEADER: usize = ETHERNET_HEADER + VLAN_TAG;

impl Default for Tso {
    fn default() -> Self {
        Self::MOST
    }
}

/// A received frame: memory and the part of it that was written.
#[derive(Debug)]
#[must_use = "a received frame must be recycled"]
pub struct Received<F> {
    /// The memory, to be given back with [`Device::recycle`].
    pub frame: F,
    /// Where in the memory the Ethernet header begins.
    pub start: u32,
    /// Bytes received, Ethernet header included.
    pub len: u32,
    /// What the device, or the kernel behind it, has done already.
    pub offload: Offload,
}

/// What was done to a received frame before it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The checksum of what IP carries need not be looked at: it is known to be right, or the
    /// packet has never left this machine and has none yet (Linux's `CHECKSUM_UNNECESSARY` and
    /// `CHECKSUM_PARTIAL`).
    pub checksum_known: bool,
    /// The payload of the TCP segment is nothing but zeros, which need not be in the frame.
    pub zeros: bool,
    /// It is several TCP segments, joined or never cut (GRO): so many bytes of payload each but
    /// perhaps the last.
    pub segment_size: Option<NonZeroU16>,
}

impl<F: Frame> Received<F> {
    /// A frame as it was on the wire.
    pub fn new(frame: F, start: u32, len: u32) -> Self {
        Self {
            frame,
            start,
            len,
            offload: Offload::default(),
        }
    }

    /// The received bytes; empty if the device lied about their place.
    pub fn bytes(&self) -> &[u8] {
        let start = self.start as usize;
        self.frame
            .bytes()
            .get(start..start + self.len as usize)
            .unwrap_or(&[])
    }
}
