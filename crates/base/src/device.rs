//! [`Device`]: a transmit ring that takes packets and returns them, and a receive ring that lends
//! frames.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU16;

use crate::frame::Frame;
use crate::headers::{ETHERNET_HEADER, Medium, VLAN_TAG};
use crate::packet::Packet;
use crate::time::Instant;

/// A received packet that the host keeps: [`Device::keep`].
pub struct KeptPacket {
    /// Its bytes.
    pub bytes: Box<dyn AsRef<[u8]> + Send>,
    /// Bytes of memory that it holds, which count in the host's limit.
    pub memory: usize,
}

impl fmt::Debug for KeptPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptPacket")
            .field("len", &(*self.bytes).as_ref().len())
            .field("memory", &self.memory)
            .finish()
    }
}

/// A network device: AF_XDP socket, TAP, simulated NIC.
///
/// Transmit: *permission first, work second*. A caller of [`put`](Self::put) has seen
/// [`room`](Self::room) above zero, so `put` cannot fail. The device owns a packet from `put` until
/// `reap` or `reset` returns it; it loses none.
///
/// Receive: the device lends a frame; the caller reads it and returns it with
/// [`recycle`](Self::recycle), or [keeps](Self::keep) the packet if the device can.
pub trait Device {
    /// The buffers of this device's packets.
    type Frame: Frame;

    /// Largest IP packet in bytes, without the link header.
    fn mtu(&self) -> usize;

    /// Kind of its frames, both ways. Default [`Medium::Ethernet`].
    fn medium(&self) -> Medium {
        Medium::Ethernet
    }

    /// The packets of several segments that it accepts and cuts into frames of the MTU itself (TCP
    /// segmentation offload). Default `None`: each packet is a frame.
    fn tso(&self) -> Option<Tso> {
        None
    }

    /// True if it writes the [`Deferred`](crate::Deferred) parts of packets of one segment. Default
    /// false.
    fn completes(&self) -> bool {
        false
    }

    /// True if it gathers the payload of packets of several segments from their
    /// [fragments](Frame::fragments) ([`Deferred::Payload`](crate::Deferred); Linux's `NETIF_F_SG`): the
    /// payload need not be copied into the frame. Default false.
    fn gathers(&self) -> bool {
        false
    }

    /// True if it may [send](Self::put) and [recycle](Self::recycle) `frame`, whichever device received
    /// it: two devices that accept each other's frames may exchange them, one for one. Default:
    /// [`Frame::is_portable`].
    fn accepts(&self, frame: &Self::Frame) -> bool {
        frame.is_portable()
    }

    /// Number of packets that the transmit ring accepts now.
    fn room(&self) -> usize;

    /// Puts a packet into the transmit ring. It may stay unsent until the
    /// [`doorbell`](Self::doorbell).
    ///
    /// # Panics
    /// If there is no [`room`](Self::room): the caller broke the contract.
    fn put(&mut self, packet: Packet<Self::Frame>, now: Instant);

    /// Notifies the device of packets put; one call per burst.
    fn doorbell(&mut self, now: Instant);

    /// Appends every packet whose transmission has completed to `done`.
    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<Self::Frame>>);

    /// True if every completion wakes the driver (a simulated interrupt), so that it need not poll
    /// for them. Default false.
    fn announces_completions(&self) -> bool {
        false
    }

    /// True if packets are known to have completed, so that [`reap`](Self::reap) returns some. Default
    /// false: only `reap` can tell.
    fn has_completed(&self) -> bool {
        false
    }

    /// Packets put and not yet reaped.
    fn in_flight(&self) -> usize;

    /// The next received frame, if any.
    #[must_use = "a received frame must be recycled"]
    fn receive(&mut self, now: Instant) -> Option<Received<Self::Frame>>;

    /// Returns a received frame for reuse.
    fn recycle(&mut self, frame: Self::Frame);

    /// A received packet in memory for the caller to keep, about half of which the packet fills at least. The
    /// device may reuse it once the caller drops it. The host asks for packets of 8 KiB and more.
    ///
    /// # Errors
    /// The packet, whose frame must be recycled: the device has no such memory (the default).
    fn keep(
        &mut self,
        received: Received<Self::Frame>,
    ) -> Result<KeptPacket, Received<Self::Frame>> {
        Err(received)
    }

    /// True once the device will never work again: its interface was removed. May cost a system
    /// call. Default false.
    fn is_gone(&mut self) -> bool {
        false
    }

    /// True if the device works again only after a [`reset`](Self::reset): its driver completes
    /// nothing, or its queues have changed. For a few calls a second; may cost system calls. Default
    /// false.
    fn needs_reset(&mut self, _now: Instant) -> bool {
        false
    }

    /// Stops transmission and appends every packet in flight to `lost`. Afterwards
    /// [`in_flight`](Self::in_flight) is zero.
    fn reset(&mut self, lost: &mut Vec<Packet<Self::Frame>>);
}

/// A device whose kind is known at run time only (`Box<dyn Device<Frame = F>>`): code above it is compiled
/// once for all kinds.
impl<D: Device + ?Sized> Device for Box<D> {
    type Frame = D::Frame;

    fn mtu(&self) -> usize {
        (**self).mtu()
    }

    fn medium(&self) -> Medium {
        (**self).medium()
    }

    fn tso(&self) -> Option<Tso> {
        (**self).tso()
    }

    fn completes(&self) -> bool {
        (**self).completes()
    }

    fn gathers(&self) -> bool {
        (**self).gathers()
    }

    fn accepts(&self, frame: &D::Frame) -> bool {
        (**self).accepts(frame)
    }

    fn room(&self) -> usize {
        (**self).room()
    }

    fn put(&mut self, packet: Packet<Self::Frame>, now: Instant) {
        (**self).put(packet, now);
    }

    fn doorbell(&mut self, now: Instant) {
        (**self).doorbell(now);
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<Self::Frame>>) {
        (**self).reap(now, done);
    }

    fn announces_completions(&self) -> bool {
        (**self).announces_completions()
    }

    fn has_completed(&self) -> bool {
        (**self).has_completed()
    }

    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }

    fn receive(&mut self, now: Instant) -> Option<Received<Self::Frame>> {
        (**self).receive(now)
    }

    fn recycle(&mut self, frame: Self::Frame) {
        (**self).recycle(frame);
    }

    fn keep(
        &mut self,
        received: Received<Self::Frame>,
    ) -> Result<KeptPacket, Received<Self::Frame>> {
        (**self).keep(received)
    }

    fn is_gone(&mut self) -> bool {
        (**self).is_gone()
    }

    fn needs_reset(&mut self, now: Instant) -> bool {
        (**self).needs_reset(now)
    }

    fn reset(&mut self, lost: &mut Vec<Packet<Self::Frame>>) {
        (**self).reset(lost);
    }
}

/// The packets of several TCP segments that a device accepts. Such a packet has the headers once,
/// before the payload of all segments. It is cut into segments of equal payload
/// ([`Segmentation`](crate::Segmentation)) and only then checksummed: its TCP checksum covers the
/// pseudo-header only (Linux's `CHECKSUM_PARTIAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tso {
    /// Most bytes of the IP packet, with its headers once (Linux `gso_max_size`).
    pub max_size: u16,
    /// Most segments (Linux `gso_max_segs`).
    pub max_segments: u16,
}

impl Tso {
    /// The longest IPv4 packet in any number of segments: Linux's default (`GSO_LEGACY_MAX_SIZE`,
    /// `GSO_MAX_SEGS`), less one byte that exceeds IPv4.
    pub const MOST: Self = Self {
        max_size: u16::MAX,
        max_segments: u16::MAX,
    };

    /// Bytes of a frame for the largest of these packets, with Ethernet header and VLAN tag.
    pub const fn frame_len(&self) -> usize {
        self.max_size as usize + LINK_HEADER
    }

    /// These packets, limited to frames of `len` bytes.
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

/// A received frame: a buffer and the part of it that was written.
#[derive(Debug)]
#[must_use = "a received frame must be recycled"]
pub struct Received<F> {
    /// The buffer, to be returned with [`Device::recycle`].
    pub frame: F,
    /// Offset of the link header, or of the IP header of [`Medium::Ip`], in the buffer.
    pub start: u32,
    /// Bytes received, link header included.
    pub len: u32,
    /// Work that the device, or the kernel behind it, has done already.
    pub offload: Offload,
}

/// Receive offloads applied to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The transport checksum needs no verification: it is known to be right, or the packet has never
    /// left this machine and has none yet (Linux's `CHECKSUM_UNNECESSARY` and `CHECKSUM_PARTIAL`).
    pub checksum_known: bool,
    /// The payload of the TCP segment is all zeros, which need not be in the frame.
    pub zeros: bool,
    /// Bytes of payload per segment if the frame holds several TCP segments, merged or never cut
    /// (GRO); the last may be shorter.
    pub segment_size: Option<NonZeroU16>,
    /// Of several segments only the first has the CWR flag of the header (Linux's `SKB_GSO_TCP_ECN`): a
    /// sender responds to classic ECN once (RFC 3168 §6.1.2). If false, all have it, as part of AccECN's
    /// count (RFC 9768 §3.2.2).
    pub cwr_once: bool,
}

impl<F: Frame> Received<F> {
    /// A frame as on the wire, without offloads.
    pub fn new(frame: F, start: u32, len: u32) -> Self {
        Self {
            frame,
            start,
            len,
            offload: Offload::default(),
        }
    }

    /// The received bytes; empty if `start` and `len` exceed the buffer.
    pub fn bytes(&self) -> &[u8] {
        let start = self.start as usize;
        self.frame
            .bytes()
            .get(start..start + self.len as usize)
            .unwrap_or(&[])
    }
}
