//! Generic receive offload: segments of a flow that arrive in order become one packet (Linux
//! `tcp_gro_receive`, `inet_gro_receive`).
//!
//! Segments are merged if their headers are equal in all but length, identification, sequence number
//! and checksums. A segment with PSH, or one shorter than those before it, ends its packet, and so
//! does the end of what has arrived: merging delays nothing. The order within a flow is kept; frames
//! without TCP overtake the segments held, as in Linux.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::ops::Range;

use tautline_base::checksum::{copy, fold, sum};
use tautline_base::headers::{
    IPV4, IPV4_HEADER, IPV6, IPV6_HEADER, Medium, TCP, TCP_HEADER, UDP, u16_at, u32_at,
};
use tautline_base::{Frame, HeapFrame, Offload, Received};

/// Most flows with an unfinished packet (Linux `MAX_GRO_SKBS`).
const FLOWS: usize = 8;
/// Most packets queued for the host; the device is read again when the host has taken them.
const READY: usize = 64;
/// Most bytes of link, IP and TCP headers, IPv4 without options.
const HEADERS: usize = 128;

/// Protocol number of ICMPv6.
const ICMPV6: u8 = 58;

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;
/// Flag of AccECN in the byte before the others (RFC 9768 §3.1).
const AE: u8 = 0x01;

/// Offsets in the TCP header.
const SEQ: usize = 4;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;

/// Packets being merged and packets ready for the host.
#[derive(Debug)]
pub(crate) struct Gro {
    held: Vec<Merged>,
    /// Probable index of the packet that the next segment continues: segments come in runs.
    latest: usize,
    ready: VecDeque<Received<HeapFrame>>,
    /// Free frames: for merged packets, and ordinary ones.
    large: Vec<HeapFrame>,
    ordinary: Vec<HeapFrame>,
    large_len: usize,
    medium: Medium,
}

/// A packet that may grow.
#[derive(Debug)]
struct Merged {
    frame: HeapFrame,
    segment: Layout,
    /// Bytes used.
    len: usize,
    /// Payload bytes of each segment; the last may be shorter.
    size: usize,
    segments: usize,
    next_seq: u32,
    constant: Constant,
}

/// The parts of the headers that all segments of a packet share.
#[derive(Debug)]
struct Constant {
    /// A one for each header bit that must be equal.
    mask: [u8; HEADERS],
    /// Sum of the IPv4 header, without length, identification and checksum.
    network: u64,
    /// Sum of pseudo-header and TCP header, without length, sequence number, flags and checksum.
    transport: u64,
}

/// Offsets of a TCP segment in a frame.
#[derive(Clone, Copy, Debug)]
struct Layout {
    network: usize,
    transport: usize,
    payload: usize,
    /// End of the IP packet; a short frame has padding behind it.
    end: usize,
    /// It has payload, and no flags but ACK, PSH and those of ECN.
    mergeable: bool,
}

impl Layout {
    /// The segment in `frame`: TCP over IPv4 without options or fragments or over IPv6.
    fn of(frame: &[u8], medium: Medium) -> Option<Self> {
        let network = medium.network_offset(frame);
        let ip = frame.get(network..)?;
        let (transport, end) = match medium.ethertype(frame)? {
            IPV4 => {
                // Version 4, five words; neither an offset nor more fragments.
                let plain = *ip.first()? == 0x45 && u16_at(ip, 6)? & 0x3fff == 0;
                let len = usize::from(u16_at(ip, 2)?);
                (plain && *ip.get(9)? == TCP && sum(ip.get(..IPV4_HEADER)?) == u16::MAX)
                    .then_some((network + IPV4_HEADER, network + len))?
            }
            IPV6 => {
                let len = usize::from(u16_at(ip, 4)?);
                (*ip.first()? >> 4 == 6 && *ip.get(6)? == TCP)
                    .then_some((network + IPV6_HEADER, network + IPV6_HEADER + len))?
            }
            _ => return None,
        };
        let tcp = frame.get(transport..end)?;
        let header = usize::from(*tcp.get(FLAGS - 1)? >> 4) * 4;
        (TCP_HEADER..=tcp.len()).contains(&header).then(|| Self {
            network,
            transport,
            payload: transport + header,
            end,
            mergeable: header < tcp.len() && may_merge(ip, [tcp[FLAGS - 1], tcp[FLAGS]]),
        })
    }

    fn is_ipv6(&self) -> bool {
        self.transport - self.network == IPV6_HEADER
    }

    /// Addresses in the IP header.
    fn addresses(&self) -> Range<usize> {
        let len = if self.is_ipv6() { 32 } else { 8 };
        self.transport - len..self.transport
    }

    /// True if the TCP checksum of `frame` is correct; `payload` is the sum over its payload.
    fn checksum_holds(&self, frame: &[u8], payload: u16) -> bool {
        let len = self.end - self.transport;
        let pseudo = u64::from(sum(&frame[self.addresses()])) + u64::from(TCP) + len as u64;
        let header = sum(&frame[self.transport..self.payload]);
        fold(pseudo + u64::from(header) + u64::from(payload)) == u16::MAX
    }

    /// True if `one` and `other` are of the same flow and this layout.
    fn same_flow(&self, one: &[u8], other: &[u8]) -> bool {
        let from = self.addresses().start;
        one[..self.network] == other[..self.network]
            && one[from..self.transport + 4] == other[from..self.transport + 4]
    }

    /// The parts of the headers in `frame` that further segments must repeat: all but length,
    /// identification and checksum of IPv4, length of IPv6, sequence number, PSH and checksum of TCP.
    fn constant(&self, frame: &[u8]) -> Constant {
        let mut mask = [u8::MAX; HEADERS];
        let ip = &frame[self.network..self.transport];
        let parts = |header: &[u8], ranges: &[Range<usize>]| -> u64 {
            let sums = ranges.iter().map(|range| sum(&header[range.clone()]));
            sums.map(u64::from).sum()
        };
        let network = if self.is_ipv6() {
            mask[self.network + 4..self.network + 6].fill(0);
            0
        } else {
            mask[self.network + 2..self.network + 6].fill(0);
            mask[self.network + 10..self.network + 12].fill(0);
            parts(ip, &[0..2, 6..10, 12..IPV4_HEADER])
        };
        let tcp = &frame[self.transport..self.payload];
        let varying = &mut mask[self.transport..];
        varying[SEQ..SEQ + 4].fill(0);
        varying[FLAGS] = !PSH;
        varying[CHECKSUM..CHECKSUM + 2].fill(0);
        let transport = parts(
            tcp,
            &[
                0..SEQ,
                SEQ + 4..FLAGS - 1,
                FLAGS + 1..CHECKSUM,
                CHECKSUM + 2..tcp.len(),
            ],
        );
        let addresses = u64::from(sum(&frame[self.addresses()]));
        Constant {
            mask,
            network,
            transport: transport + addresses + u64::from(TCP),
        }
    }
}

/// Whether the flags in the bytes `before` and `flags` let a segment behind the header `ip` be merged.
///
/// Flags of ECN need only be equal. With AccECN they are a count that is rarely zero; a receiver that
/// sees each marked segment acknowledges before the three bits wrap (RFC 9768 §3.2.2.5.1), so those
/// stay single.
fn may_merge(ip: &[u8], [before, flags]: [u8; 2]) -> bool {
    let counts = before & AE != 0 || flags & (CWR | ECE) != 0;
    let is_marked = match ip {
        [first, second, ..] if first >> 4 == 6 => second >> 4 & 3 == 3,
        [_, tos, ..] => tos & 3 == 3,
        _ => false,
    };
    flags & !(PSH | CWR | ECE) == ACK && !(counts && is_marked)
}

/// False if `frame` holds no part of a TCP segment: a datagram, ICMP, ARP. Extension headers of IPv6
/// are not searched.
fn may_hold_tcp(frame: &[u8], medium: Medium) -> bool {
    let ip = |at: usize| frame.get(medium.network_offset(frame) + at);
    match medium.ethertype(frame) {
        Some(IPV4) => ip(9).is_none_or(|protocol| *protocol == TCP),
        Some(IPV6) => !matches!(ip(6), Some(&(UDP | ICMPV6))),
        Some(_) => false,
        None => true,
    }
}

impl Constant {
    /// True if the headers `one` and `other`, of equal length, are not those of one packet.
    #[inline]
    fn differs(&self, one: &[u8], other: &[u8]) -> bool {
        let mask = &self.mask[..one.len().min(HEADERS)];
        let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        let changed = |(one, other), mask| (word(one) ^ word(other)) & word(mask);
        let words = one.as_chunks().0.iter().zip(other.as_chunks().0);
        let words = words.zip(mask.as_chunks().0);
        let differing = words.fold(0, |all, (pair, mask)| all | changed(pair, mask));
        // The last word overlaps the one before it.
        let last = one
            .last_chunk()
            .zip(other.last_chunk())
            .zip(mask.last_chunk());
        differing | last.map_or(0, |(pair, mask)| changed(pair, mask)) != 0
    }
}

impl Gro {
    /// Merges into packets of frames of at most `large_len` bytes.
    pub(crate) fn new(large_len: usize, medium: Medium) -> Self {
        Self {
            held: Vec::with_capacity(FLOWS),
            latest: 0,
            ready: VecDeque::with_capacity(READY + FLOWS),
            large: Vec::new(),
            ordinary: Vec::new(),
            // Larger than an ordinary frame in any case: `recycle` tells the two kinds apart by
            // length.
            large_len: large_len.max(HeapFrame::LEN + 1),
            medium,
        }
    }

    /// False while the host has enough packets to process.
    pub(crate) fn takes_more(&self) -> bool {
        self.ready.len() < READY
    }

    /// The next packet for the host.
    pub(crate) fn next(&mut self) -> Option<Received<HeapFrame>> {
        self.ready.pop_front()
    }

    /// Returns a frame that the host has read. Those longer than merged packets need are not kept.
    pub(crate) fn recycle(&mut self, frame: HeapFrame) {
        match frame.bytes().len() {
            HeapFrame::LEN => self.ordinary.push(frame),
            len if len == self.large_len => self.large.push(frame),
            _ => {}
        }
    }

    /// Takes a copy of `received`, merged with what is held if `merge`.
    pub(crate) fn take<F: Frame>(&mut self, received: &Received<F>, merge: bool) {
        let (bytes, offload) = (received.bytes(), received.offload);
        let merge = merge && !offload.zeros && offload.segment_size.is_none();
        if merge && self.append(self.latest, bytes, offload) {
            return;
        }
        let layout = merge.then(|| Layout::of(bytes, self.medium)).flatten();
        match layout {
            Some(layout) if layout.mergeable && layout.end <= self.large_len => {
                self.merge(bytes, layout, offload);
            }
            Some(layout) => {
                // It must not overtake its own flow.
                if let Some(index) = self.held_of(bytes, layout) {
                    self.finish(index);
                }
                self.forward(bytes, offload);
            }
            None => {
                // It may belong to any held flow.
                if may_hold_tcp(bytes, self.medium) {
                    self.flush();
                }
                self.forward(bytes, offload);
            }
        }
    }

    /// Index of the held packet with the flow of the segment in `bytes`.
    fn held_of(&self, bytes: &[u8], layout: Layout) -> Option<usize> {
        self.held.iter().position(|held| {
            held.segment.transport == layout.transport
                && layout.same_flow(held.frame.bytes(), bytes)
        })
    }

    /// Passes an unmodified copy of `bytes` to the host.
    fn forward(&mut self, bytes: &[u8], offload: Offload) {
        let mut frame = self.frame(bytes.len());
        frame.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.ready.push_back(Received {
            offload,
            ..Received::new(frame, 0, bytes.len() as u32)
        });
    }

    /// Appends the segment in `bytes` to the packet of its flow, or holds it as the first of one. A
    /// segment with a wrong checksum continues no packet, and goes on alone.
    fn merge(&mut self, bytes: &[u8], layout: Layout, offload: Offload) {
        let seq = u32_at(bytes, layout.transport + SEQ).unwrap_or(0);
        let payload = &bytes[layout.payload..layout.end];
        let ends = bytes[layout.transport + FLAGS] & PSH != 0;
        if let Some(index) = self.held_of(bytes, layout) {
            if self.append(index, bytes, offload) {
                return;
            }
            self.finish(index);
        } else if self.held.len() == FLOWS {
            self.finish(0);
        }
        let mut frame = self.frame(self.large_len);
        let (headers, rest) = frame.bytes_mut().split_at_mut(layout.payload);
        headers.copy_from_slice(&bytes[..layout.payload]);
        let sum = copy(payload, &mut rest[..payload.len()]);
        let first = Merged {
            frame,
            segment: layout,
            len: layout.end,
            size: payload.len(),
            segments: 1,
            next_seq: seq.wrapping_add(payload.len() as u32),
            constant: layout.constant(bytes),
        };
        if !offload.checksum_known && !layout.checksum_holds(bytes, sum) {
            self.ready.push_back(Received {
                offload,
                ..first.end()
            });
            return;
        }
        self.latest = self.held.len();
        self.held.push(first);
        if ends {
            self.finish(self.latest);
        }
    }

    /// Appends the segment in `bytes` to packet `index`. False, without a change that counts, if it
    /// does not continue it.
    fn append(&mut self, index: usize, bytes: &[u8], offload: Offload) -> bool {
        let Some(held) = self.held.get_mut(index) else {
            return false;
        };
        let Some(is_last) = held.append(bytes, offload.checksum_known) else {
            return false;
        };
        self.latest = index;
        if is_last {
            self.finish(index);
        }
        true
    }

    /// A frame of at least `len` bytes: an ordinary one, one for merged packets, or one of its own.
    fn frame(&mut self, len: usize) -> HeapFrame {
        let (spare, len) = if len <= HeapFrame::LEN {
            (self.ordinary.pop(), HeapFrame::LEN)
        } else if len <= self.large_len {
            (self.large.pop(), self.large_len)
        } else {
            (None, len)
        };
        spare.unwrap_or_else(|| HeapFrame::with_len(len))
    }

    /// Ends every held packet, in the order in which they began.
    pub(crate) fn flush(&mut self) {
        for held in self.held.drain(..) {
            self.ready.push_back(held.end());
        }
    }

    fn finish(&mut self, index: usize) {
        let held = self.held.remove(index);
        self.ready.push_back(held.end());
    }
}

impl Merged {
    /// Appends the segment in `bytes` if it continues the packet: it has the same headers but for the
    /// fields that may vary, the next sequence number, and correct checksums. True if it is the last
    /// one; `None` if it does not continue.
    #[inline]
    fn append(&mut self, bytes: &[u8], checksum_known: bool) -> Option<bool> {
        let Layout {
            network,
            transport,
            payload: headers,
            ..
        } = self.segment;
        let frame = self.frame.bytes_mut();
        let (head, rest) = bytes.split_at_checked(headers)?;
        let (held_head, _) = frame.split_at_checked(headers)?;
        let differs = self.constant.differs(held_head, head);
        let word = |at| u16_at(head, at).map(u64::from);
        let seq = u32_at(head, transport + SEQ)?;
        if differs || seq != self.next_seq {
            return None;
        }
        let total = if transport - network == IPV6_HEADER {
            usize::from(u16_at(head, network + 4)?) + IPV6_HEADER
        } else {
            let fields = word(network + 2)? + word(network + 4)? + word(network + 10)?;
            if fold(self.constant.network + fields) != u16::MAX {
                return None;
            }
            usize::from(u16_at(head, network + 2)?)
        };
        let len = (network + total).checked_sub(headers)?;
        let end = self.len + len;
        if len == 0 || len > self.size || end - network > usize::from(u16::MAX) {
            return None;
        }
        let sum = copy(rest.get(..len)?, frame.get_mut(self.len..end)?);
        let tcp_len = (network + total - transport) as u64;
        let fields = u64::from(seq) + word(transport + FLAGS - 1)? + word(transport + CHECKSUM)?;
        let sum = self.constant.transport + fields + tcp_len + u64::from(sum);
        if !checksum_known && fold(sum) != u16::MAX {
            return None;
        }
        let flags = head[transport + FLAGS];
        frame[transport + FLAGS] |= flags;
        self.len = end;
        self.segments += 1;
        self.next_seq = seq.wrapping_add(len as u32);
        Some(flags & PSH != 0 || len < self.size)
    }

    /// The packet for the host, with its length in the IP header and a verified checksum.
    fn end(mut self) -> Received<HeapFrame> {
        let Layout {
            network, transport, ..
        } = self.segment;
        let mut segment_size = None;
        if self.segments > 1 {
            segment_size = NonZeroU16::new(self.size as u16);
            let frame = self.frame.bytes_mut();
            if self.segment.is_ipv6() {
                let len = (self.len - transport) as u16;
                frame[network + 4..network + 6].copy_from_slice(&len.to_be_bytes());
            } else {
                let len = (self.len - network) as u16;
                let ip = &mut frame[network..transport];
                ip[2..4].copy_from_slice(&len.to_be_bytes());
                ip[10..12].fill(0);
                let checksum = !sum(ip);
                ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
        }
        Received {
            offload: Offload {
                checksum_known: true,
                segment_size,
                ..Offload::default()
            },
            ..Received::new(self.frame, 0, self.len as u32)
        }
    }
}
