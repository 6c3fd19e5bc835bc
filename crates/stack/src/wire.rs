//! Parses and emits frames, through `smoltcp::wire` where it has the format. The few headers of
//! every packet of a bulk flow have their own code here, byte for byte equal to smoltcp's.
//!
//! Parsing never trusts a length and never panics; a bad frame yields a [`Malformed`] to be
//! counted. Outgoing frames are written once, in place.

mod arp;
mod ecn;
mod fast_open;
pub(crate) mod icmp;
mod icmp_checksum;
mod ip;
pub(crate) mod mld;
pub(crate) mod ndisc;
pub(crate) mod router;
mod tcp;
mod template;
pub(crate) mod udp;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, Ipv6Packet,
};
use tautline_base::headers::{IPV4, Medium, VLAN};
use tautline_base::{Ecn, Offload};

pub(crate) use tautline_base::headers::{
    ETHERNET_HEADER, IPV4_HEADER, IPV6_HEADER, TCP_HEADER, VLAN_TAG,
};

pub(crate) use arp::{ARP_LEN, write_arp};
pub(crate) use ecn::{EchoedBytes, EcnFlags, growth};
pub(crate) use fast_open::FastOpenCookie;
pub(crate) use ip::{ECN_BITS, ParameterProblem, write_ip};
pub(crate) use tcp::{
    Flags, Payload, Segment, SynOffers, TcpHeader, write_incomplete, write_tcp, write_tso,
};
pub(crate) use template::Template;

/// Most bytes of options in a TCP header (RFC 9293 §3.1).
pub(crate) const OPTION_SPACE: usize = 40;
/// Bytes a timestamp option takes in a data segment, padding included.
pub(crate) const TIMESTAMP_OPTION: usize = 12;
/// Bytes of a SACK block.
pub(crate) const SACK_BLOCK: usize = 8;
/// Most SACK blocks in a segment: three beside a timestamp (RFC 2018 §3).
pub(crate) const SACK_BLOCKS: usize = 4;
/// Largest shift of a window (RFC 7323 §2.3).
pub(crate) const MAX_WINDOW_SCALE: u8 = 14;
/// Every IPv6 link carries packets of this size (RFC 8200 §5).
pub(crate) const IPV6_MIN_MTU: usize = 1280;
/// Hop limit of outgoing packets.
pub(crate) const HOP_LIMIT: u8 = 64;
/// Hop limit of a packet that passed no router: no off-link sender can produce it (RFC 4861 §3.1,
/// RFC 5082).
pub(crate) const MAX_HOP_LIMIT: u8 = 255;
/// The bits of a tag that name the VLAN.
const VLAN_ID: u16 = 0x0fff;

/// An Ethernet address.
pub(crate) type Mac = EthernetAddress;

/// Why a frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// A header is cut short or contradicts the frame's length.
    Header,
    /// A checksum does not match.
    Checksum,
}

/// Source, destination and IP fields of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) hop_limit: u8,
    /// TOS byte, or traffic class.
    pub(crate) tos: u8,
}

/// A parsed frame.
#[derive(Debug)]
pub(crate) enum Parsed<'a> {
    /// An ARP request or reply.
    Arp {
        request: bool,
        sender_mac: Mac,
        sender: Ipv4Addr,
        target: Ipv4Addr,
    },
    /// A TCP segment.
    Tcp { ends: Ends, segment: Segment<'a> },
    /// A datagram; `packet` begins with its IP header.
    Udp {
        ends: Ends,
        datagram: udp::Datagram<'a>,
        packet: &'a [u8],
    },
    /// A message about the network.
    Icmp {
        ends: Ends,
        message: icmp::Message<'a>,
    },
    /// A packet of an unsupported transport protocol; `packet` begins with its IP header.
    Transport {
        ends: Ends,
        protocol: u8,
        packet: &'a [u8],
    },
    /// An IPv6 packet with a header that stops it; `packet` begins with its IP header.
    Refused {
        ends: Ends,
        problem: ParameterProblem,
        packet: &'a [u8],
    },
    /// Part of a packet.
    Fragment,
    /// Well-formed, but of an unsupported protocol or another VLAN.
    Other,
}

/// Parses a frame of `medium`, on Ethernet of VLAN `vlan`. `offload`: work that the device has done on
/// it.
pub(crate) fn parse_over(
    medium: Medium,
    frame: &[u8],
    vlan: Option<u16>,
    offload: Offload,
) -> Result<Parsed<'_>, Malformed> {
    match (medium, frame.first().map(|first| first >> 4)) {
        (Medium::Ethernet, _) => parse(frame, vlan, offload),
        (Medium::Ip, Some(4)) => parse_ipv4(frame, offload),
        (Medium::Ip, Some(6)) => parse_ipv6(frame, offload),
        _ => Err(Malformed::Header),
    }
}

/// Parses an Ethernet frame of VLAN `vlan`. `offload`: work that the device has done on it.
pub(crate) fn parse(
    frame: &[u8],
    vlan: Option<u16>,
    offload: Offload,
) -> Result<Parsed<'_>, Malformed> {
    let ethernet = EthernetFrame::new_checked(frame).map_err(|_| Malformed::Header)?;
    let (mut ethertype, mut payload, mut tag) =
        (u16::from(ethernet.ethertype()), ethernet.payload(), None);
    if ethertype == VLAN {
        let (header, rest) = payload
            .split_first_chunk::<VLAN_TAG>()
            .ok_or(Malformed::Header)?;
        // A tag of VLAN 0 only carries a priority.
        tag = Some(u16::from_be_bytes([header[0], header[1]]) & VLAN_ID).filter(|tag| *tag != 0);
        ethertype = u16::from_be_bytes([header[2], header[3]]);
        payload = rest;
    }
    if tag != vlan {
        return Ok(Parsed::Other);
    }
    match EthernetProtocol::from(ethertype) {
        EthernetProtocol::Arp => arp::parse_arp(payload),
        EthernetProtocol::Ipv4 => parse_ipv4(payload, offload),
        EthernetProtocol::Ipv6 => parse_ipv6(payload, offload),
        _ => Ok(Parsed::Other),
    }
}

fn parse_ipv4(payload: &[u8], offload: Offload) -> Result<Parsed<'_>, Malformed> {
    let packet = Ipv4Packet::new_checked(payload).map_err(|_| Malformed::Header)?;
    if packet.version() != 4 {
        return Err(Malformed::Header);
    }
    if !packet.verify_checksum() {
        return Err(Malformed::Checksum);
    }
    if packet.more_frags() || packet.frag_offset() != 0 {
        return Ok(Parsed::Fragment);
    }
    if ip::source_routed(
        payload
            .get(IPV4_HEADER..usize::from(packet.header_len()))
            .unwrap_or(&[]),
    ) {
        return Ok(Parsed::Other);
    }
    let ends = Ends {
        source: IpAddr::V4(packet.src_addr()),
        destination: IpAddr::V4(packet.dst_addr()),
        hop_limit: packet.hop_limit(),
        tos: packet.dscp() << 2 | packet.ecn(),
    };
    match packet.next_header() {
        IpProtocol::Icmp => Ok(Parsed::Icmp {
            ends,
            message: icmp::parse_v4(packet.payload())?,
        }),
        protocol => {
            let whole = &payload[..usize::from(packet.total_len())];
            transport(
                ends,
                protocol.into(),
                (Ecn::of_tos(packet.ecn()), offload),
                packet.payload(),
                whole,
            )
        }
    }
}

fn parse_ipv6(payload: &[u8], offload: Offload) -> Result<Parsed<'_>, Malformed> {
    let packet = Ipv6Packet::new_checked(payload).map_err(|_| Malformed::Header)?;
    if packet.version() != 6 {
        return Err(Malformed::Header);
    }
    let ends = Ends {
        source: IpAddr::V6(packet.src_addr()),
        destination: IpAddr::V6(packet.dst_addr()),
        hop_limit: packet.hop_limit(),
        tos: packet.traffic_class(),
    };
    let whole = &payload[..packet.total_len()];
    let (protocol, fragmented, body) =
        match ip::walk(packet.next_header().into(), &whole[IPV6_HEADER..])? {
            ip::Walk::Upper {
                protocol,
                fragmented,
                body,
            } => (protocol, fragmented, body),
            ip::Walk::Fragment => return Ok(Parsed::Fragment),
            ip::Walk::Refused(None) => return Ok(Parsed::Other),
            ip::Walk::Refused(Some(problem)) => {
                return Ok(Parsed::Refused {
                    ends,
                    problem,
                    packet: whole,
                });
            }
        };
    match IpProtocol::from(protocol) {
        IpProtocol::Icmpv6 => {
            let message = icmp::parse_v6(&ends, body)?;
            // Neighbors are discovered in whole packets only (RFC 6980).
            let refused = fragmented
                && matches!(
                    message,
                    icmp::Message::Neighbor(_) | icmp::Message::Router(_)
                );
            Ok(if refused {
                Parsed::Fragment
            } else {
                Parsed::Icmp { ends, message }
            })
        }
        _ => transport(
            ends,
            protocol,
            (Ecn::of_tos(packet.traffic_class()), offload),
            body,
            whole,
        ),
    }
}

fn transport<'a>(
    ends: Ends,
    protocol: u8,
    (ecn, offload): (Ecn, Offload),
    body: &'a [u8],
    packet: &'a [u8],
) -> Result<Parsed<'a>, Malformed> {
    match IpProtocol::from(protocol) {
        IpProtocol::Tcp => Ok(Parsed::Tcp {
            segment: tcp::parse_tcp(&ends, ecn, offload, body)?,
            ends,
        }),
        IpProtocol::Udp => Ok(Parsed::Udp {
            datagram: udp::parse_udp(&ends, offload, body)?,
            ends,
            packet,
        }),
        // The other family's ICMP, no next header, and extension headers: not to be answered.
        IpProtocol::Icmp | IpProtocol::Icmpv6 | IpProtocol::Ipv6NoNxt => Ok(Parsed::Other),
        _ => Ok(Parsed::Transport {
            ends,
            protocol,
            packet,
        }),
    }
}

/// Fast path for nearly every frame: a whole, valid segment of an open connection in an untagged
/// IPv4 packet. `None` for anything else, which [`parse`] reads.
#[inline]
pub(crate) fn parse_plain(
    frame: &[u8],
    vlan: Option<u16>,
    offload: Offload,
) -> Option<(Ends, Segment<'_>)> {
    let (ethernet, packet) = frame.split_first_chunk::<ETHERNET_HEADER>()?;
    if ethernet[12..] != IPV4.to_be_bytes() || vlan.is_some() {
        return None;
    }
    parse_plain_ip(packet, offload)
}

/// [`parse_plain`] of an IPv4 packet without a link header.
#[inline]
pub(crate) fn parse_plain_ip(packet: &[u8], offload: Offload) -> Option<(Ends, Segment<'_>)> {
    let (ends, protocol, packet) = ip::plain_ipv4(packet)?;
    if protocol != tcp::PROTOCOL {
        return None;
    }
    let segment = tcp::parse_plain(
        &ends,
        Ecn::of_tos(ends.tos),
        offload,
        &packet[IPV4_HEADER..],
    )?;
    Some((ends, segment))
}

/// Link and network addresses of an outgoing packet, both of one family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// Over [`Medium::Ip`] there is no link header, and neither hardware addresses nor VLAN matter.
    pub(crate) medium: Medium,
    pub(crate) source_mac: Mac,
    pub(crate) destination_mac: Mac,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) hop_limit: u8,
    /// Names the flow to IPv6 routers (RFC 6437).
    pub(crate) flow_label: u32,
    /// TOS byte, or traffic class, but for its two bits of ECN.
    pub(crate) tos: u8,
    /// The VLAN of the frame's tag, if it has one.
    pub(crate) vlan: Option<u16>,
}

/// Bytes of the link header of frames in VLAN `vlan`.
pub(crate) fn link_len(medium: Medium, vlan: Option<u16>) -> usize {
    match (medium, vlan) {
        (Medium::Ethernet, Some(_)) => ETHERNET_HEADER + VLAN_TAG,
        (medium, _) => medium.link_header(),
    }
}

impl Addresses {
    /// Bytes of the link header.
    pub(crate) fn link_len(&self) -> usize {
        link_len(self.medium, self.vlan)
    }

    /// Bytes of link and network header.
    pub(crate) fn headers_len(&self) -> usize {
        self.link_len() + ip_header_len(self.source)
    }

    /// Writes the link header. Returns the rest of `frame`.
    fn write_link<'a>(&self, frame: &'a mut [u8], ethertype: EthernetProtocol) -> &'a mut [u8] {
        if self.medium == Medium::Ip {
            return frame;
        }
        let ethertype = u16::from(ethertype).to_be_bytes();
        let (link, mut rest) = frame
            .split_first_chunk_mut::<ETHERNET_HEADER>()
            .expect("a frame holds its headers");
        link[..6].copy_from_slice(&self.destination_mac.0);
        link[6..12].copy_from_slice(&self.source_mac.0);
        link[12..].copy_from_slice(&ethertype);
        if let Some(vlan) = self.vlan {
            link[12..].copy_from_slice(&VLAN.to_be_bytes());
            let (tag, behind) = rest
                .split_first_chunk_mut::<VLAN_TAG>()
                .expect("a frame holds its headers");
            tag[..2].copy_from_slice(&(vlan & VLAN_ID).to_be_bytes());
            tag[2..].copy_from_slice(&ethertype);
            rest = behind;
        }
        rest
    }
}

/// Bytes of the network header of packets from or to `address`.
pub(crate) fn ip_header_len(address: IpAddr) -> usize {
    if address.is_ipv4() {
        IPV4_HEADER
    } else {
        IPV6_HEADER
    }
}

/// Two addresses in `smoltcp`'s types, mapped to one family.
fn network(source: IpAddr, destination: IpAddr) -> (IpAddress, IpAddress) {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => (source.into(), destination.into()),
        (source, destination) => (as_ipv6(source).into(), as_ipv6(destination).into()),
    }
}

/// The sum of the pseudo-header of `len` bytes of `protocol` (RFC 9293 §3.1, RFC 8200 §8.1), not
/// yet folded.
#[inline]
fn pseudo_sum(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> u64 {
    let of = |address| match address {
        IpAddr::V4(address) => u64::from(Ipv4Addr::to_bits(address)),
        IpAddr::V6(address) => address
            .octets()
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from(u32::from_be_bytes(*word)))
            .sum(),
    };
    of(source) + of(destination) + u64::from(protocol) + len as u64
}

fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

#[cfg(test)]
mod tests;
