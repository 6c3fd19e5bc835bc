//! Virtio-net headers (virtio 1.2 §5.1.6.2), which TAP interfaces and packet sockets put before
//! packets of several segments and packets without checksums.

use std::io::IoSlice;
use std::iter;
use std::num::NonZeroU16;

use tautline_base::headers::IPV6_HEADER;
use tautline_base::{Deferred, HeapFrame, Item, MAX_FRAGMENTS, Medium, Offload, Packet, checksum};
use tun_rs::VirtioNetHdr;

use crate::frame_device::Unit;

/// The checksum covers the pseudo-header only (`VIRTIO_NET_HDR_F_NEEDS_CSUM`), or was found right
/// (`..._DATA_VALID`).
const NEEDS_CHECKSUM: u8 = 1;
const CHECKSUM_VALID: u8 = 2;
/// Type of a packet of several segments (`VIRTIO_NET_HDR_GSO_...`), and the bit of one of whose segments
/// only the first has CWR (`VIRTIO_NET_HDR_GSO_ECN`).
const NO_GSO: u8 = 0;
const TCP_IPV4: u8 = 1;
const TCP_IPV6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// The virtio header of `packet`.
pub(crate) fn header_of(packet: &Packet<HeapFrame>) -> VirtioNetHdr {
    let segments = packet.segments();
    if segments == 1 && packet.deferred() == Deferred::Nothing {
        return VirtioNetHdr::default();
    }
    let Some(whole) = packet.segmentation() else {
        return VirtioNetHdr::default();
    };
    let (transport, checksum) = whole.checksum_at();
    let short = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
    let single = VirtioNetHdr {
        flags: NEEDS_CHECKSUM,
        hdr_len: short(whole.header_len()),
        csum_start: short(transport),
        csum_offset: short(checksum),
        ..VirtioNetHdr::default()
    };
    if segments == 1 {
        return single;
    }
    VirtioNetHdr {
        gso_type: if whole.is_ipv6() { TCP_IPV6 } else { TCP_IPV4 },
        gso_size: short(whole.size()),
        ..single
    }
}

/// Room for the slices of a packet behind its virtio header.
pub(crate) type Slices<'a> = [IoSlice<'a>; 2 + MAX_FRAGMENTS];

/// The slices of a write of `packet` behind its virtio `header`.
pub(crate) fn slices_of<'s, 'a>(
    slices: &'s mut Slices<'a>,
    header: &'a [u8],
    packet: &'a Packet<HeapFrame>,
) -> &'s [IoSlice<'a>] {
    let mut used = 0;
    for (slice, part) in slices
        .iter_mut()
        .zip(iter::once(header).chain(packet.slices()))
    {
        *slice = IoSlice::new(part);
        used += 1;
    }
    &slices[..used]
}

/// The unit of `packet`, which `header` describes. A checksum that nobody else would find is written here:
/// one in a tunnel, or behind two tags or the extension headers of IPv6.
pub(crate) fn unit_of(header: &VirtioNetHdr, medium: Medium, packet: &mut [u8]) -> Unit {
    let needs_checksum = header.flags & NEEDS_CHECKSUM != 0;
    if needs_checksum && header.gso_type == NO_GSO && !is_in_plain_sight(header, medium, packet) {
        write_checksum(header, packet);
        return Unit::Frame(Offload::default());
    }
    let checksum_known = header.flags & (NEEDS_CHECKSUM | CHECKSUM_VALID) != 0;
    match header.gso_type & !ECN {
        UDP => Unit::Datagrams(header.gso_size.into()),
        kind => {
            let segment_size = NonZeroU16::new(header.gso_size).filter(|_| kind != NO_GSO);
            Unit::Frame(Offload {
                checksum_known,
                segment_size,
                cwr_once: header.gso_type & ECN != 0,
                ..Offload::default()
            })
        }
    }
}

/// Whether the checksum that `header` asks for is that of the protocol behind the IP header.
fn is_in_plain_sight(header: &VirtioNetHdr, medium: Medium, packet: &[u8]) -> bool {
    let network = medium.network_offset(packet);
    let ip_header = match packet.get(network) {
        Some(first) if first >> 4 == 4 => usize::from(first & 0xf) * 4,
        Some(first) if first >> 4 == 6 => IPV6_HEADER,
        _ => return false,
    };
    usize::from(header.csum_start) == network + ip_header
}

/// Writes the checksum that `header` asks for over the sum of the pseudo-header in its place (Linux
/// `skb_checksum_help`).
fn write_checksum(header: &VirtioNetHdr, packet: &mut [u8]) {
    let covered = packet.get_mut(usize::from(header.csum_start)..);
    let Some(covered) = covered else { return };
    let checksum = match !checksum::sum(covered) {
        // Of a datagram, where zero means none (RFC 768); in TCP it is the same number.
        0 => u16::MAX,
        checksum => checksum,
    };
    if let Some(place) = covered.get_mut(usize::from(header.csum_offset)..)
        && let Some(place) = place.first_chunk_mut()
    {
        *place = checksum.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::Frame;
    use tautline_base::segmentation::leave_checksum;
    use tautline_testkit::{ACK, Ip, Segment, TCP};

    /// Virtio 1.2 §5.1.6.2: where the checksum begins and lies, how long the headers are, and each
    /// segment's payload.
    #[test]
    fn the_virtio_header_says_where_to_segment() {
        let mut frame = HeapFrame::with_len(14 + 40 + 20 + 3000);
        let bytes = frame.bytes_mut();
        bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        (bytes[20], bytes[66]) = (6, 0x50);
        let packet = Packet::new(frame, 3074).with_segments(3);
        let VirtioNetHdr {
            flags,
            gso_type,
            hdr_len,
            gso_size,
            csum_start,
            csum_offset,
        } = header_of(&packet);
        assert_eq!(
            (flags, gso_type, hdr_len, gso_size),
            (NEEDS_CHECKSUM, TCP_IPV6, 74, 1000)
        );
        assert_eq!((csum_start, csum_offset), (54, 16));
        // The size of segments that were merged, the last of which was short.
        let mut frame = HeapFrame::with_len(14 + 20 + 20 + 2900);
        let bytes = frame.bytes_mut();
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        (bytes[23], bytes[46]) = (6, 0x50);
        let size = NonZeroU16::new(1448).expect("not zero");
        let merged = header_of(&Packet::new(frame, 2954).with_segment_size(size));
        assert_eq!((merged.gso_type, merged.gso_size), (TCP_IPV4, 1448));
        let single = header_of(&Packet::new(HeapFrame::new(), 60));
        assert_eq!(
            (single.flags, single.gso_type, single.gso_size),
            (0, NO_GSO, 0)
        );
    }

    #[test]
    fn virtio_headers_are_decoded() {
        let unit = |flags, gso_type, gso_size| {
            let header = VirtioNetHdr {
                flags,
                gso_type,
                gso_size,
                csum_start: 20,
                csum_offset: 16,
                ..VirtioNetHdr::default()
            };
            unit_of(&header, Medium::Ip, &mut [0x45; 40])
        };
        let frame = |checksum_known, size| {
            Unit::Frame(Offload {
                checksum_known,
                segment_size: NonZeroU16::new(size),
                ..Offload::default()
            })
        };
        assert_eq!(unit(0, NO_GSO, 0), frame(false, 0));
        assert_eq!(unit(NEEDS_CHECKSUM, NO_GSO, 77), frame(true, 0));
        assert_eq!(
            unit(NEEDS_CHECKSUM, TCP_IPV4 | ECN, 1448),
            Unit::Frame(Offload {
                checksum_known: true,
                segment_size: NonZeroU16::new(1448),
                cwr_once: true,
                ..Offload::default()
            })
        );
        assert_eq!(unit(NEEDS_CHECKSUM, TCP_IPV4, 1448), frame(true, 1448));
        assert_eq!(unit(CHECKSUM_VALID, TCP_IPV6, 0), frame(true, 0));
        assert_eq!(unit(NEEDS_CHECKSUM, UDP, 1200), Unit::Datagrams(1200));
    }

    /// As Linux sends TCP through a tunnel: the sum of the pseudo-header is in the inner header.
    #[test]
    fn the_checksum_of_a_tunneled_packet_is_written() {
        let ends = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let segment = Segment {
            flags: ACK,
            payload: b"odd".to_vec(),
            ..Segment::default()
        };
        let inner = Ip::new(ends.0, ends.1, TCP).packet(&segment.to_bytes());
        let outer = |inner: &[u8]| Ip::new(ends.0, ends.1, 4).packet(inner);
        let mut unfinished = inner.clone();
        assert!(leave_checksum(&mut unfinished, 0));
        let header = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            csum_start: 40,
            csum_offset: 16,
            ..VirtioNetHdr::default()
        };
        let mut packet = outer(&unfinished);
        assert_ne!(packet, outer(&inner));
        let unit = unit_of(&header, Medium::Ip, &mut packet);
        assert_eq!(unit, Unit::Frame(Offload::default()));
        assert_eq!(packet, outer(&inner));
        // What the header says of a packet that is shorter is no reason to fail.
        for len in 0..60 {
            unit_of(&header, Medium::Ip, &mut packet[..len]);
        }
    }
}
