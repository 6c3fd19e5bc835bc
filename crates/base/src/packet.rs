//! [`Packet`]: the linear packet that crosses the send path; [`Item`]: the interface of a packet for
//! queueing disciplines.
//!
//! A packet is moved, never cloned, and ends by a completion or a drop, which meet in
//! [`Pool::settle`](crate::Pool::settle). It carries the metadata that schedulers need, so they
//! never touch the frame.

use alloc::vec::Vec;
use core::num::{NonZeroU16, NonZeroU32};

use crate::frame::Frame;
use crate::headers::{ETHERNET_HEADER, Medium};
use crate::segmentation::{self, Segmentation};
use crate::time::Instant;
use crate::units::Bytes;

/// A socket of a host: slot index and generation, so that a stale handle never reaches the next
/// socket in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    /// Slot in the socket table of the host.
    pub index: u32,
    /// Number of sockets the slot has had, this one included.
    pub generation: NonZeroU32,
}

/// The segment of a connection that a packet carries: the connection's running number of its segment
/// records. A packet of several segments has the number of the first; the others follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub NonZeroU32);

impl SegmentId {
    /// The segment `count` after this one. A connection's numbers stay within 31 bits and wrap
    /// there, so this is no overflow.
    #[must_use]
    pub const fn plus(self, count: u16) -> Self {
        Self(self.0.saturating_add(count as u32))
    }
}

/// The sender of a packet, notified when the packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The socket that sent it.
    pub socket: SocketId,
    /// The segment it carries, or the first of several; `None` for pure acknowledgments, probes
    /// and resets.
    pub segment: Option<SegmentId>,
}

impl Owner {
    /// The owner of segment `index` of its packet.
    fn of_segment(self, index: u16) -> Self {
        Self {
            segment: self.segment.map(|first| first.plus(index)),
            ..self
        }
    }
}

/// Bytes that a connection may have queued below itself (TCP Small Queues). Linear: released exactly
/// once, when its packet ends.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a credit must travel in a packet or be released"]
pub struct Credit(NonZeroU32);

impl Credit {
    /// A credit for `bytes` bytes.
    pub const fn new(bytes: NonZeroU32) -> Self {
        Self(bytes)
    }

    /// Bytes granted.
    pub const fn bytes(&self) -> u32 {
        self.0.get()
    }

    /// Splits off 1/`parts` of the credit; `None` if either part would be zero.
    fn share(&mut self, parts: u32) -> Option<Self> {
        let share = NonZeroU32::new(self.0.get() / parts.max(1))?;
        self.0 = NonZeroU32::new(self.0.get() - share.get())?;
        Some(Self(share))
    }
}

/// The ECN field of the IP header (RFC 3168 §5, RFC 9331).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable transport.
    NotEct,
    /// ECN-capable, with a scalable congestion response (RFC 9331).
    Ect1,
    /// ECN-capable, with a classic congestion response.
    Ect0,
    /// Congestion was experienced.
    Ce,
}

impl Ecn {
    /// The ECN field of a TOS byte.
    pub const fn of_tos(tos: u8) -> Self {
        match tos & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The lower two bits of a TOS byte.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

/// A packet as a queueing discipline sees it.
///
/// The defaults are those of an untagged best-effort packet of one segment without bytes. Queueing
/// disciplines stamp the arrival time with [`set_enqueued`](Self::set_enqueued), so an `Item` stores
/// it.
pub trait Item {
    /// Accounted length: on Ethernet the frame without FCS; the frames of all its segments, each
    /// with its headers, if it has several (Linux `qdisc_pkt_len`).
    fn len(&self) -> Bytes;

    /// True for a packet without bytes.
    fn is_empty(&self) -> bool {
        self.len() == Bytes::ZERO
    }

    /// The time at which it entered its qdisc or ring.
    fn enqueued(&self) -> Instant;

    /// Stamps the time of entry into a qdisc or ring.
    fn set_enqueued(&mut self, now: Instant);

    /// Bytes of memory it occupies, for memory limits (Linux `truesize`).
    fn memory(&self) -> Bytes {
        self.len()
    }

    /// Hash of the flow it belongs to, equal for all packets of the flow, keyed against chosen
    /// collisions ([`HashKey`](crate::HashKey)). A constant makes all packets one flow: fair queues
    /// are then a single queue.
    fn flow_hash(&self) -> u64;

    /// Keyed hashes of source and destination host, for host isolation.
    fn host_hashes(&self) -> (u32, u32) {
        (0, 0)
    }

    /// The TOS or traffic-class byte: DSCP in the upper six bits, ECN in the lower two. A packet that
    /// stores it implements [`set_tos`](Self::set_tos) too, else AQMs drop it instead of marking it.
    fn tos(&self) -> u8 {
        0
    }

    /// Sets the TOS byte; [`finish`](Self::finish) writes it into the header. Default: keeps the old
    /// one, so the packet cannot be marked or washed.
    fn set_tos(&mut self, _tos: u8) {}

    /// Local priority, 0..=15, the index into the priomap of pfifo_fast and prio.
    fn priority(&self) -> u8 {
        0
    }

    /// The earliest departure time, set by the sender; [`Instant::ZERO`]: any time.
    fn departure(&self) -> Instant {
        Instant::ZERO
    }

    /// Number of segments (GSO), at least 1, of equal payload except for the last.
    fn segments(&self) -> u16 {
        1
    }

    /// Bytes of headers that each segment repeats. Default 54: Ethernet, IPv4, TCP without options.
    fn header_len(&self) -> Bytes {
        Bytes::new(DEFAULT_HEADERS as u64)
    }

    /// The bytes from the link header on, for classifiers that parse. May be empty.
    fn headers(&self) -> &[u8] {
        &[]
    }

    /// Offset of the network header, the bytes of the link header. Default 14, Ethernet.
    fn network_offset(&self) -> usize {
        ETHERNET_HEADER
    }

    /// Sets the local priority, 0..=15.
    fn set_priority(&mut self, _priority: u8) {}

    /// The mark set by a firewall or an action.
    fn mark(&self) -> u32 {
        0
    }

    /// Sets the mark.
    fn set_mark(&mut self, _mark: u32) {}

    /// Splits a packet of several segments into packets of one segment, handed to `each` in order
    /// with the metadata of the whole.
    ///
    /// # Errors
    /// The packet itself, unchanged, if it is a single segment or the pieces cannot be allocated.
    fn split(self, _each: &mut dyn FnMut(Self)) -> Result<(), Self>
    where
        Self: Sized,
    {
        Err(self)
    }

    /// A copy with the same bytes and metadata but without owner or credit; `None` if it cannot be
    /// allocated.
    fn duplicate(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Flips bit `bit`, modulo the length in bits. Returns false if the packet has no bytes.
    fn corrupt(&mut self, _bit: u64) -> bool {
        false
    }

    /// Marks "congestion experienced". Returns true if the packet carries CE now, also if it already
    /// did; false, without a change, for Not-ECT and for a packet whose TOS byte cannot be set.
    fn set_ce(&mut self) -> bool {
        if Ecn::of_tos(self.tos()) == Ecn::NotEct {
            return false;
        }
        self.set_tos(self.tos() | 0b11);
        Ecn::of_tos(self.tos()) == Ecn::Ce
    }

    /// Writes metadata changes (TOS, CE) into the bytes; called once, on the way to the device. The ring
    /// of `tautline-bql` calls it; a loop of your own does after `dequeue`, else marks are lost
    /// ([`Medium::write_tos`](crate::Medium::write_tos)).
    fn finish(&mut self) {}
}

/// The remains of a packet after its end.
#[derive(Debug)]
#[must_use = "the credit must be released"]
pub struct Settled {
    /// Its sender, if a connection sent it.
    pub owner: Option<Owner>,
    /// Its TSQ credit.
    pub credit: Option<Credit>,
    /// Number of segments it stood for.
    pub segments: u16,
    /// Bytes on the wire.
    pub len: u32,
}

/// The parts of a TCP segment in a frame that are not written yet, because the device
/// [completes](crate::Device::completes) or [gathers](crate::Device::gathers) them, or nothing will read
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deferred {
    /// All bytes are as on the wire.
    #[default]
    Nothing,
    /// The checksum (Linux's `CHECKSUM_PARTIAL`).
    Checksum,
    /// The payload, all zeros, and the checksum.
    Zeros,
    /// The payload of a packet of several segments, which is in the [fragments](Frame::fragments) of its
    /// frame.
    Payload,
}

/// Ethernet, IPv4, and TCP without options.
const DEFAULT_HEADERS: usize = 54;

/// An outgoing packet: a frame and its metadata. At most 64 bytes, moved by value.
#[derive(Debug)]
#[must_use = "a packet ends only by completion or drop: pass it on"]
pub struct Packet<F> {
    frame: F,
    owner: Option<Owner>,
    credit: Option<Credit>,
    flow_hash: u64,
    departure: Instant,
    enqueued: Instant,
    source_hash: u32,
    destination_hash: u32,
    /// Bytes on the wire.
    len: u32,
    /// Bytes on the wire of each segment but the last; 0 for a packet of one segment. With `len` it
    /// says how many segments there are and how much payload each has, in the room of their number.
    segment_len: u16,
    tos: u8,
    /// Priority in the lower four bits, then two of [`Deferred`]; the uppermost: [`Medium::Ip`].
    flags: u8,
}

/// Mask of the priority in [`Packet::flags`], mask and shift of [`Deferred`], the bit of
/// [`Medium::Ip`].
const PRIORITY: u8 = 0x0f;
const DEFERRED_BITS: u8 = 0x30;
const DEFERRED: u32 = 4;
const BARE_IP: u8 = 0x80;

const _: () = assert!(
    size_of::<Packet<crate::frame::HeapFrame>>() <= 64,
    "a packet fits a cache line"
);

impl<F: Frame> Packet<F> {
    /// A packet of the first `len` bytes of `frame`, an Ethernet frame, with no owner and neutral
    /// metadata.
    pub fn new(frame: F, len: u32) -> Self {
        Self {
            frame,
            owner: None,
            credit: None,
            flow_hash: 0,
            departure: Instant::ZERO,
            enqueued: Instant::ZERO,
            source_hash: 0,
            destination_hash: 0,
            len,
            segment_len: 0,
            tos: 0,
            flags: 0,
        }
    }

    /// Sets the kind of its frame.
    pub fn with_medium(mut self, medium: Medium) -> Self {
        self.flags &= !BARE_IP;
        self.flags |= if medium == Medium::Ip { BARE_IP } else { 0 };
        self
    }

    /// The kind of its frame.
    pub fn medium(&self) -> Medium {
        if self.flags & BARE_IP == 0 {
            Medium::Ethernet
        } else {
            Medium::Ip
        }
    }

    /// Makes it a packet of `segments` TCP segments, with their headers once and the payload of all
    /// in its frame, in equal parts ([`Tso`](crate::Tso)); of fewer if equal parts make fewer. A frame
    /// without TCP or UDP stays one segment.
    pub fn with_segments(self, segments: u16) -> Self {
        if segments > 1 {
            self.cut_into(|payload| payload.div_ceil(segments.into()))
        } else {
            self
        }
    }

    /// Makes it a packet of TCP segments of `size` bytes of payload, the last of what is left, as they
    /// were merged ([`Offload::segment_size`](crate::Offload)); else as
    /// [`with_segments`](Self::with_segments).
    pub fn with_segment_size(self, size: NonZeroU16) -> Self {
        self.cut_into(|_| size.get().into())
    }

    /// Makes it a packet of segments of the size that `size_of` returns for its payload.
    fn cut_into(mut self, size_of: impl FnOnce(usize) -> usize) -> Self {
        if self.segment_len == 0
            && let Some(header) = self.headers_len()
        {
            let payload = self.len as usize - header;
            let size = size_of(payload).max(1);
            // No IP packet is longer, so no segment of one is.
            if let Ok(segment_len) = u16::try_from(header + size)
                && let Ok(segments @ 2..) = u16::try_from(payload.div_ceil(size))
            {
                let repeated = u32::from(segments - 1) * header as u32;
                self.len = self.len.saturating_add(repeated);
                self.segment_len = segment_len;
            }
        }
        self
    }

    /// Sets the sender and its credit.
    pub fn with_owner(mut self, owner: Owner, credit: Option<Credit>) -> Self {
        self.owner = Some(owner);
        self.credit = credit;
        self
    }

    /// Sets the keyed hashes of flow, source host and destination host.
    pub fn with_hashes(mut self, flow: u64, source: u32, destination: u32) -> Self {
        self.flow_hash = flow;
        self.source_hash = source;
        self.destination_hash = destination;
        self
    }

    /// Sets the earliest departure time.
    pub fn with_departure(mut self, departure: Instant) -> Self {
        self.departure = departure;
        self
    }

    /// Sets the TOS byte, which the headers already carry, and the local priority.
    pub fn with_tos(mut self, tos: u8, priority: u8) -> Self {
        self.tos = tos;
        crate::Item::set_priority(&mut self, priority);
        self
    }

    /// Sets the parts that are not written yet. The checksums of a packet of several segments are
    /// deferred in any case.
    pub fn with_deferred(mut self, deferred: Deferred) -> Self {
        self.flags = (self.flags & !DEFERRED_BITS) | (deferred as u8) << DEFERRED;
        self
    }

    /// The parts that are not written yet.
    pub fn deferred(&self) -> Deferred {
        match (self.flags & DEFERRED_BITS) >> DEFERRED {
            0 => Deferred::Nothing,
            1 => Deferred::Checksum,
            2 => Deferred::Zeros,
            _ => Deferred::Payload,
        }
    }

    /// Writes the deferred parts: its bytes are as on the wire from now on, but for the checksums of a
    /// packet of several segments.
    pub fn complete(&mut self) {
        let (deferred, used, network) = (self.deferred(), self.used(), self.network_offset());
        self.flags &= !DEFERRED_BITS;
        match deferred {
            Deferred::Nothing => {}
            Deferred::Payload => self.gather(),
            Deferred::Checksum | Deferred::Zeros => {
                if let Some(bytes) = self.frame.bytes_mut().get_mut(..used) {
                    segmentation::complete(bytes, network, deferred == Deferred::Zeros);
                }
            }
        }
    }

    /// Copies the payload from the fragments into the buffer.
    fn gather(&mut self) {
        let (Some(at), Some(fragments)) = (self.headers_len(), self.frame.fragments_mut()) else {
            return;
        };
        let fragments = core::mem::take(fragments);
        if let Some(place) = self.frame.bytes_mut().get_mut(at..) {
            segmentation::gather(&fragments, place);
        }
        self.recycle_fragments(fragments);
    }

    /// Drops the fragments, and returns the memory of their list to the frame.
    fn recycle_fragments(&mut self, mut fragments: Vec<bytes::Bytes>) {
        fragments.clear();
        if let Some(list) = self.frame.fragments_mut() {
            *list = fragments;
        }
    }

    /// Writes the deferred parts for a device that computes the transport checksum itself: the payload
    /// in full, as checksum the sum of the pseudo-header only (Linux's `CHECKSUM_PARTIAL`). A packet
    /// that is neither TCP nor UDP is completed as by [`complete`](Self::complete).
    pub fn leave_checksum(&mut self) {
        let (used, network) = (self.used(), self.network_offset());
        let left = self.deferred() == Deferred::Checksum
            && (self.frame.bytes_mut().get_mut(..used))
                .is_some_and(|bytes| segmentation::leave_checksum(bytes, network));
        if !left {
            self.complete();
        }
    }

    /// Its sender; `None` for duplicates and packets of no connection.
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// The bytes on the wire; for a packet of several segments the headers once and the payload of
    /// all. [Deferred](Self::deferred) parts are arbitrary.
    pub fn bytes(&self) -> &[u8] {
        self.frame.bytes().get(..self.used()).unwrap_or(&[])
    }

    /// The same bytes in slices: those in the buffer, then the [fragments](Frame::fragments).
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (inside, outside) = match self.deferred() {
            Deferred::Payload => (self.headers_len().unwrap_or(0), self.frame.fragments()),
            _ => (self.used(), &[][..]),
        };
        let inside = self.frame.bytes().get(..inside).unwrap_or(&[]);
        core::iter::once(inside).chain(outside.iter().map(AsRef::as_ref))
    }

    /// Its TCP segments or datagrams, to be cut; `None` if it holds neither, or its headers were
    /// [damaged](Item::corrupt).
    pub fn segmentation(&self) -> Option<Segmentation<'_>> {
        let (bytes, network) = (self.bytes(), self.network_offset());
        let whole = match self.segment_size() {
            None => Segmentation::new(bytes, network, 1),
            // Damaged headers may say otherwise than those that were counted.
            Some(size) => Segmentation::of_size(bytes, network, size)
                .filter(|whole| whole.count() == usize::from(self.segments())),
        }?;
        Some(match self.deferred() {
            Deferred::Payload => whole.with_fragments(self.frame.fragments()),
            _ => whole,
        })
    }

    /// Bytes of the frame in use.
    fn used(&self) -> usize {
        let repeated = usize::from(self.segments() - 1) * self.repeated();
        (self.len as usize).saturating_sub(repeated)
    }

    /// Bytes of payload in each segment but the last; `None` for a packet of one segment.
    fn segment_size(&self) -> Option<usize> {
        let size = || usize::from(self.segment_len).saturating_sub(self.repeated());
        (self.segment_len > 0).then(size)
    }

    /// Bytes that each segment after the first repeats on the wire.
    fn repeated(&self) -> usize {
        if self.segment_len == 0 {
            0
        } else {
            let bytes = self.frame.bytes();
            segmentation::header_len(bytes, self.medium().network_offset(bytes)).unwrap_or(0)
        }
    }

    /// Bytes of headers before the payload, if it is TCP or UDP.
    fn headers_len(&self) -> Option<usize> {
        segmentation::header_len(self.bytes(), self.network_offset())
    }

    /// The frame, for devices that need its address.
    pub fn frame(&self) -> &F {
        &self.frame
    }

    /// Replaces the frame and returns the old one, with the bytes of the packet. So a frame is passed
    /// on without a copy while the packet returns to its pool. For packets of one segment.
    pub fn replace_frame(&mut self, frame: F) -> F {
        core::mem::replace(&mut self.frame, frame)
    }

    /// A packet in `frame` with the same metadata, but without owner or credit.
    fn like(&self, frame: F) -> Self {
        let Self {
            flow_hash,
            departure,
            enqueued,
            source_hash,
            destination_hash,
            len,
            segment_len,
            tos,
            flags,
            ..
        } = *self;
        let (owner, credit) = (None, None);
        Self {
            frame,
            owner,
            credit,
            flow_hash,
            departure,
            enqueued,
            source_hash,
            destination_hash,
            len,
            segment_len,
            tos,
            flags,
        }
    }

    /// Takes the packet apart, for [`Pool::settle`](crate::Pool::settle) only.
    pub(crate) fn dismantle(self) -> (F, Settled) {
        let segments = self.segments();
        let Self {
            frame,
            owner,
            credit,
            len,
            ..
        } = self;
        (
            frame,
            Settled {
                owner,
                credit,
                segments,
                len,
            },
        )
    }

    /// Writes the TOS byte into the IP header.
    fn write_tos(&mut self) {
        let (tos, medium) = (self.tos, self.medium());
        // Untagged IPv4 with the same TOS byte: nearly every packet.
        if medium == Medium::Ethernet
            && let Some([.., 0x08, 0x00, _, written]) = self.frame.bytes().first_chunk::<16>()
            && *written == tos
        {
            return;
        }
        let used = self.used();
        if let Some(bytes) = self.frame.bytes_mut().get_mut(..used) {
            medium.write_tos(bytes, tos);
        }
    }
}

impl<F: Frame> Item for Packet<F> {
    fn len(&self) -> Bytes {
        Bytes::new(u64::from(self.len))
    }

    fn enqueued(&self) -> Instant {
        self.enqueued
    }

    fn set_enqueued(&mut self, now: Instant) {
        self.enqueued = now;
    }

    fn memory(&self) -> Bytes {
        Bytes::new(self.frame.memory(self.used()) as u64)
    }

    fn flow_hash(&self) -> u64 {
        self.flow_hash
    }

    fn host_hashes(&self) -> (u32, u32) {
        (self.source_hash, self.destination_hash)
    }

    fn tos(&self) -> u8 {
        self.tos
    }

    fn set_tos(&mut self, tos: u8) {
        self.tos = tos;
    }

    fn priority(&self) -> u8 {
        self.flags & PRIORITY
    }

    fn departure(&self) -> Instant {
        self.departure
    }

    #[inline]
    fn segments(&self) -> u16 {
        match self.segment_len {
            0 => 1,
            // At least a byte of payload in each, of an IP packet.
            segment_len => self.len.div_ceil(segment_len.into()) as u16,
        }
    }

    fn header_len(&self) -> Bytes {
        Bytes::new(self.headers_len().unwrap_or(DEFAULT_HEADERS) as u64)
    }

    fn network_offset(&self) -> usize {
        self.medium().network_offset(self.bytes())
    }

    /// Without a payload that is not in the buffer.
    fn headers(&self) -> &[u8] {
        self.slices().next().unwrap_or(&[])
    }

    fn set_priority(&mut self, priority: u8) {
        self.flags = (self.flags & !PRIORITY) | (priority & PRIORITY);
    }

    /// Each piece gets its share of the credit and its own segment. The last keeps the frame, which
    /// belongs to the pool.
    fn split(mut self, each: &mut dyn FnMut(Self)) -> Result<(), Self> {
        let (count, network) = (self.segments(), self.network_offset());
        let Some(size) = self.segment_size() else {
            return Err(self);
        };
        let longest = self.segmentation().map(|whole| whole.len_of(0));
        let fits = |frame: &F| longest.is_some_and(|longest| frame.bytes().len() >= longest);
        // All or nothing: allocate every piece first.
        let frames = longest.and_then(|longest| {
            (1..count)
                .map(|_| self.frame.allocate(longest).filter(fits))
                .collect::<Option<Vec<F>>>()
        });
        let Some(frames) = frames else {
            return Err(self);
        };
        for (index, mut frame) in (0..).zip(frames) {
            let whole = self.segmentation();
            let len = whole
                .and_then(|whole| whole.write(usize::from(index), frame.bytes_mut()))
                .unwrap_or(0);
            let owner = self.owner.map(|owner| owner.of_segment(index));
            let credit = self
                .credit
                .as_mut()
                .and_then(|credit| credit.share(u32::from(count - index)));
            each(Self {
                owner,
                credit,
                len: len as u32,
                segment_len: 0,
                flags: self.flags & !DEFERRED_BITS,
                ..self.like(frame)
            });
        }
        let used = self.used();
        let fragments = self.frame.fragments_mut().map(core::mem::take);
        let fragments = fragments.unwrap_or_default();
        let last = self
            .frame
            .bytes_mut()
            .get_mut(..used)
            .and_then(|whole| Segmentation::keep_last(whole, &fragments, network, size));
        self.recycle_fragments(fragments);
        self.flags &= !DEFERRED_BITS;
        self.len = last.unwrap_or(used) as u32;
        self.segment_len = 0;
        self.owner = self.owner.map(|owner| owner.of_segment(count - 1));
        each(self);
        Ok(())
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.like(self.frame.duplicate()?))
    }

    /// Completes the packet first: a checksum written later would hide the damage.
    fn corrupt(&mut self, bit: u64) -> bool {
        self.complete();
        let used = self.used();
        let Some(bytes) = self.frame.bytes_mut().get_mut(..used) else {
            return false;
        };
        let Some(bit) = bit.checked_rem(8 * bytes.len() as u64) else {
            return false;
        };
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        true
    }

    fn finish(&mut self) {
        self.write_tos();
    }
}

#[cfg(test)]
mod tests;
