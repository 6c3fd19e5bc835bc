//! Frames to meaning and back: Ethernet, ARP, IPv4, ICMP echo and TCP through `smoltcp::wire`.
//!
//! Parsing never trusts a length and never panics; what is wrong comes back as a [`Malformed`] to be counted. Outgoing frames
//! are written once, in place. The formats are RFC 826, 791, 792, 9293, 7323 (window scale, timestamps) and 2018 (SACK).

mod ecn;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::{Checksum, ChecksumCapabilities};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Message,
    Icmpv4Packet, IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpControl, TcpPacket, TcpRepr,
    TcpSeqNumber, TcpTimestampRepr,
};
use tautline_base::Ecn;

pub(crate) use ecn::{EchoedBytes, EcnFlags, growth};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// Bytes of an IPv4 header without options; we send none.
pub(crate) const IPV4_HEADER: usize = 20;
/// Bytes of an IPv6 header; we send no extensions.
pub(crate) const IPV6_HEADER: usize = 40;
/// Bytes of a TCP header without options.
pub(crate) const TCP_HEADER: usize = 20;
/// Bytes a timestamp option takes in a data segment, padding included.
pub(crate) const TIMESTAMP_OPTION: usize = 12;
/// Bytes of a SACK block.
pub(crate) const SACK_BLOCK: usize = 8;
/// Most SACK blocks in a segment (RFC 2018 §3 with the timestamp option present).
pub(crate) const SACK_BLOCKS: usize = 3;
const HOP_LIMIT: u8 = 64;
/// The option that fills.
const NO_OPERATION: u8 = 1;

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

/// A received frame, understood.
#[derive(Debug)]
pub(crate) enum Parsed<'a> {
    /// Somebody asks for, or tells, a hardware address.
    Arp { request: bool, sender_mac: Mac, sender: Ipv4Addr, target: Ipv4Addr },
    /// An ICMP echo request: identifier, sequence and data as they stand after the checksum.
    Echo { source: IpAddr, destination: IpAddr, source_mac: Mac, icmp: &'a [u8] },
    /// A TCP segment.
    Tcp { source: IpAddr, destination: IpAddr, segment: Segment<'a> },
    /// Well-formed, but nothing we speak.
    Other,
}

/// A TCP segment as received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) window: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) mss: Option<u16>,
    pub(crate) sack_permitted: bool,
    pub(crate) sack: [Option<(u32, u32)>; SACK_BLOCKS],
    pub(crate) timestamp: Option<(u32, u32)>,
    pub(crate) ecn_flags: EcnFlags,
    pub(crate) echoed_bytes: Option<EchoedBytes>,
    /// The ECN field of the packet it came in.
    pub(crate) codepoint: Ecn,
    pub(crate) payload: &'a [u8],
}

/// Reads a frame.
pub(crate) fn parse(frame: &[u8]) -> Result<Parsed<'_>, Malformed> {
    let ethernet = EthernetFrame::new_checked(frame).map_err(|_| Malformed::Header)?;
    match ethernet.ethertype() {
        EthernetProtocol::Arp => parse_arp(ethernet.payload()),
        EthernetProtocol::Ipv4 => parse_ipv4(ethernet.src_addr(), ethernet.payload()),
        _ => Ok(Parsed::Other),
    }
}

fn parse_arp(payload: &[u8]) -> Result<Parsed<'_>, Malformed> {
    let packet = ArpPacket::new_checked(payload).map_err(|_| Malformed::Header)?;
    let ArpRepr::EthernetIpv4 { operation, source_hardware_addr, source_protocol_addr, target_protocol_addr, .. } =
        ArpRepr::parse(&packet).map_err(|_| Malformed::Header)?
    else {
        return Ok(Parsed::Other);
    };
    match operation {
        ArpOperation::Request | ArpOperation::Reply => Ok(Parsed::Arp {
            request: operation == ArpOperation::Request,
            sender_mac: source_hardware_addr,
            sender: source_protocol_addr,
            target: target_protocol_addr,
        }),
        ArpOperation::Unknown(_) => Ok(Parsed::Other),
    }
}

fn parse_ipv4(source_mac: Mac, payload: &[u8]) -> Result<Parsed<'_>, Malformed> {
    let packet = Ipv4Packet::new_checked(payload).map_err(|_| Malformed::Header)?;
    if packet.version() != 4 {
        return Err(Malformed::Header);
    }
    if !packet.verify_checksum() {
        return Err(Malformed::Checksum);
    }
    // Fragments are refused: nothing we speak needs them, and reassembly is a memory attack (CVE-2018-5391).
    if packet.more_frags() || packet.frag_offset() != 0 {
        return Ok(Parsed::Other);
    }
    let (source, destination) = (IpAddr::V4(packet.src_addr()), IpAddr::V4(packet.dst_addr()));
    match packet.next_header() {
        IpProtocol::Icmp => parse_icmp(source, destination, source_mac, packet.payload()),
        IpProtocol::Tcp => {
            let segment = parse_tcp(source, destination, Ecn::of_tos(packet.ecn()), packet.payload())?;
            Ok(Parsed::Tcp { source, destination, segment })
        }
        _ => Ok(Parsed::Other),
    }
}

fn parse_icmp(source: IpAddr, destination: IpAddr, source_mac: Mac, payload: &[u8]) -> Result<Parsed<'_>, Malformed> {
    let packet = Icmpv4Packet::new_checked(payload).map_err(|_| Malformed::Header)?;
    if !packet.verify_checksum() {
        return Err(Malformed::Checksum);
    }
    if packet.msg_type() != Icmpv4Message::EchoRequest || packet.msg_code() != 0 {
        return Ok(Parsed::Other);
    }
    Ok(Parsed::Echo { source, destination, source_mac, icmp: payload })
}

fn parse_tcp(source: IpAddr, destination: IpAddr, codepoint: Ecn, payload: &[u8]) -> Result<Segment<'_>, Malformed> {
    let packet = TcpPacket::new_checked(payload).map_err(|_| Malformed::Header)?;
    let (source, destination) = (IpAddress::from(source), IpAddress::from(destination));
    if !packet.verify_checksum(&source, &destination) {
        return Err(Malformed::Checksum);
    }
    // The checksum has been looked at: a second look would cost as much as the copy of the payload.
    let repr = TcpRepr::parse(&packet, &source, &destination, &no_checksums()).map_err(|_| Malformed::Header)?;
    Ok(Segment {
        source_port: repr.src_port,
        destination_port: repr.dst_port,
        seq: repr.seq_number.0 as u32,
        ack: repr.ack_number.map(|ack| ack.0 as u32),
        syn: repr.control == TcpControl::Syn,
        fin: repr.control == TcpControl::Fin,
        rst: repr.control == TcpControl::Rst,
        window: repr.window_len,
        window_scale: repr.window_scale,
        mss: repr.max_seg_size,
        sack_permitted: repr.sack_permitted,
        sack: repr.sack_ranges,
        timestamp: repr.timestamp.map(|t| (t.tsval, t.tsecr)),
        ecn_flags: EcnFlags::new(packet.ns(), packet.cwr(), packet.ece()),
        echoed_bytes: EchoedBytes::find(packet.options()),
        codepoint,
        payload: repr.payload,
    })
}

fn no_checksums() -> ChecksumCapabilities {
    let mut capabilities = ChecksumCapabilities::ignored();
    capabilities.ipv4 = Checksum::Both;
    capabilities
}

/// Link and network addresses of an outgoing packet, both of one family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) source_mac: Mac,
    pub(crate) destination_mac: Mac,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

impl Addresses {
    /// Bytes of the network header.
    pub(crate) fn header_len(&self) -> usize {
        if self.source.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER }
    }
}

/// The header of an outgoing TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpHeader {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) mss: Option<u16>,
    pub(crate) sack_permitted: bool,
    pub(crate) sack: [Option<(u32, u32)>; SACK_BLOCKS],
    pub(crate) timestamp: Option<(u32, u32)>,
    pub(crate) ecn_flags: EcnFlags,
    pub(crate) echoed_bytes: Option<EchoedBytes>,
    /// The ECN field of the packet it travels in.
    pub(crate) codepoint: Ecn,
}

/// The control flag of an outgoing segment; ACK follows from the acknowledgement number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    None,
    Psh,
    Syn,
    Fin,
    Rst,
}

/// Writes a TCP segment whose payload is `payload.0` followed by `payload.1`. Returns the frame's length.
///
/// # Panics
/// If `frame` is shorter than the segment: segments are cut to the MTU, and frames hold an MTU.
pub(crate) fn write_tcp(frame: &mut [u8], addresses: &Addresses, header: &TcpHeader, payload: (&[u8], &[u8])) -> usize {
    let repr = TcpRepr {
        src_port: header.source_port,
        dst_port: header.destination_port,
        control: match header.flags {
            Flags::None => TcpControl::None,
            Flags::Psh => TcpControl::Psh,
            Flags::Syn => TcpControl::Syn,
            Flags::Fin => TcpControl::Fin,
            Flags::Rst => TcpControl::Rst,
        },
        seq_number: TcpSeqNumber(header.seq as i32),
        ack_number: header.ack.map(|ack| TcpSeqNumber(ack as i32)),
        window_len: header.window,
        window_scale: header.window_scale,
        max_seg_size: header.mss,
        sack_permitted: header.sack_permitted,
        sack_ranges: header.sack,
        timestamp: header.timestamp.map(|(value, echo)| TcpTimestampRepr::new(value, echo)),
        payload: &[],
    };
    let others = repr.header_len();
    let tcp_header = others + header.echoed_bytes.map_or(0, |option| option.padded_len());
    let tcp_len = tcp_header + payload.0.len() + payload.1.len();
    let segment = write_ip(frame, addresses, IpProtocol::Tcp, header.codepoint, tcp_len);
    let len = ETHERNET_HEADER + addresses.header_len() + tcp_len;
    segment[tcp_header..][..payload.0.len()].copy_from_slice(payload.0);
    segment[tcp_header + payload.0.len()..].copy_from_slice(payload.1);
    let (source, destination) = (IpAddress::from(addresses.source), IpAddress::from(addresses.destination));
    let mut packet = TcpPacket::new_unchecked(segment);
    repr.emit(&mut packet, &source, &destination, &no_checksums());
    if let Some(option) = header.echoed_bytes {
        packet.set_header_len(tcp_header as u8);
        let (before, place) = packet.options_mut().split_at_mut(others - TCP_HEADER);
        // The padding of the other options must not end the list.
        let padding = others - TCP_HEADER - options_len(&repr);
        let end = before.len();
        before[end - padding..].fill(NO_OPERATION);
        option.write(place);
    }
    packet.set_ns(header.ecn_flags.ae());
    packet.set_cwr(header.ecn_flags.cwr());
    packet.set_ece(header.ecn_flags.ece());
    packet.fill_checksum(&source, &destination);
    len
}

/// Bytes of the options in `repr`, without padding.
fn options_len(repr: &TcpRepr<'_>) -> usize {
    let blocks = repr.sack_ranges.iter().flatten().count();
    let sack = match blocks {
        _ if repr.sack_permitted => 2,
        0 => 0,
        blocks => 2 + SACK_BLOCK * blocks,
    };
    repr.max_seg_size.map_or(0, |_| 4) + repr.window_scale.map_or(0, |_| 3) + sack + repr.timestamp.map_or(0, |_| 10)
}

/// Writes an ARP request for `target`, or a reply that `addresses.source` is at `addresses.source_mac`; `None` unless both are of
/// IPv4.
pub(crate) fn write_arp(frame: &mut [u8], addresses: &Addresses, request: bool) -> Option<usize> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (addresses.source, addresses.destination) else { return None };
    let repr = ArpRepr::EthernetIpv4 {
        operation: if request { ArpOperation::Request } else { ArpOperation::Reply },
        source_hardware_addr: addresses.source_mac,
        source_protocol_addr: source,
        target_hardware_addr: if request { EthernetAddress([0; 6]) } else { addresses.destination_mac },
        target_protocol_addr: destination,
    };
    let len = ETHERNET_HEADER + repr.buffer_len();
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..len]);
    EthernetRepr {
        src_addr: addresses.source_mac,
        dst_addr: if request { EthernetAddress::BROADCAST } else { addresses.destination_mac },
        ethertype: EthernetProtocol::Arp,
    }
    .emit(&mut ethernet);
    repr.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
    Some(len)
}

/// Writes the reply to an echo request whose ICMP message is `request`; `None` if it would not fit the frame.
pub(crate) fn write_echo_reply(frame: &mut [u8], addresses: &Addresses, request: &[u8]) -> Option<usize> {
    let len = ETHERNET_HEADER + addresses.header_len() + request.len();
    if len > frame.len() {
        return None;
    }
    let message = write_ip(frame, addresses, IpProtocol::Icmp, Ecn::NotEct, request.len());
    message.copy_from_slice(request);
    let mut packet = Icmpv4Packet::new_unchecked(message);
    packet.set_msg_type(Icmpv4Message::EchoReply);
    packet.fill_checksum();
    Some(len)
}

/// Writes Ethernet and network headers for `payload_len` bytes of `protocol` and returns the payload's place.
fn write_ip<'a>(
    frame: &'a mut [u8],
    addresses: &Addresses,
    protocol: IpProtocol,
    codepoint: Ecn,
    payload_len: usize,
) -> &'a mut [u8] {
    let header = addresses.header_len();
    let (link, network) = frame[..ETHERNET_HEADER + header + payload_len].split_at_mut(ETHERNET_HEADER);
    let ethertype = if addresses.source.is_ipv4() { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 };
    EthernetRepr { src_addr: addresses.source_mac, dst_addr: addresses.destination_mac, ethertype }
        .emit(&mut EthernetFrame::new_unchecked(link));
    match (addresses.source, addresses.destination) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            Ipv4Repr { src_addr, dst_addr, next_header: protocol, payload_len, hop_limit: HOP_LIMIT }
                .emit(&mut Ipv4Packet::new_unchecked(&mut *network), &no_checksums());
            if codepoint != Ecn::NotEct {
                let mut packet = Ipv4Packet::new_unchecked(&mut *network);
                packet.set_ecn(codepoint.bits());
                packet.fill_checksum();
            }
        }
        (source, destination) => {
            let (src_addr, dst_addr) = (as_ipv6(source), as_ipv6(destination));
            let mut packet = Ipv6Packet::new_unchecked(&mut *network);
            Ipv6Repr { src_addr, dst_addr, next_header: protocol, payload_len, hop_limit: HOP_LIMIT }.emit(&mut packet);
            packet.set_traffic_class(codepoint.bits());
        }
    }
    &mut network[header..]
}

fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}
