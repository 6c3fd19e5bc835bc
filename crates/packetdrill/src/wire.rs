//! Frames between the scripted peer and the host, through `etherparse`: independent of the parser
//! under test.

use std::net::IpAddr;

use etherparse::{
    EtherType, Icmpv4Type, Icmpv6Type, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header,
    Ipv6Extensions, Ipv6FlowLabel, Ipv6Header, NetSlice, PacketBuilder, SlicedPacket, TcpHeader,
    TcpSlice, TransportSlice, icmpv4, icmpv6,
};

use crate::syntax::IcmpKind;

/// Hardware address of the host.
pub(crate) const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Hardware address of the peer.
pub(crate) const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A TCP segment on the wire.
#[derive(Clone, Debug)]
pub(crate) struct WireSegment {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// Flag bits, the AE bit as bit 8.
    pub(crate) flags: u16,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) ecn: u8,
    /// Options as bytes.
    pub(crate) options: Vec<u8>,
    pub(crate) len: usize,
}

/// A frame of the host.
pub(crate) enum Sent {
    /// A request for the peer's hardware address, by ARP or neighbor discovery.
    AddressRequest,
    /// A TCP segment.
    Tcp(WireSegment),
    /// Anything else.
    Other,
}

/// Both ends of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) host: IpAddr,
    pub(crate) peer: IpAddr,
}

impl Ends {
    fn ip(&self, from_peer: bool, protocol: IpNumber, ecn: u8, len: usize) -> IpHeaders {
        let (source, destination) = if from_peer {
            (self.peer, self.host)
        } else {
            (self.host, self.peer)
        };
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = Ipv4Header::new(
                    len as u16,
                    64,
                    protocol,
                    source.octets(),
                    destination.octets(),
                )
                .expect("a segment fits an IPv4 packet");
                header.ecn = ecn.try_into().expect("two bits");
                IpHeaders::Ipv4(header, Ipv4Extensions::default())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    traffic_class: ecn,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: len as u16,
                    next_header: protocol,
                    hop_limit: 64,
                    source: source.octets(),
                    destination: destination.octets(),
                };
                IpHeaders::Ipv6(header, Ipv6Extensions::default())
            }
            _ => unreachable!("both ends are of one family"),
        }
    }

    /// The frame that carries `segment` to the host.
    pub(crate) fn segment_to_host(&self, segment: &WireSegment) -> Vec<u8> {
        let header = tcp_header(segment);
        let ip = self.ip(
            true,
            IpNumber::TCP,
            segment.ecn,
            header.header_len() + segment.len,
        );
        let builder = PacketBuilder::ethernet2(PEER_MAC, HOST_MAC)
            .ip(ip)
            .tcp_header(header);
        written(|frame| builder.write(frame, &vec![0; segment.len]).is_ok())
    }

    /// The ICMP error of a router about a segment of the host's.
    pub(crate) fn icmp_error(&self, kind: IcmpKind, quoted: &WireSegment) -> Vec<u8> {
        let header = tcp_header(quoted);
        let ip = self.ip(
            false,
            IpNumber::TCP,
            quoted.ecn,
            header.header_len() + quoted.len,
        );
        let mut quote = Vec::new();
        ip.write(&mut quote).expect("a vector takes all");
        header.write(&mut quote).expect("a vector takes all");
        let outer = PacketBuilder::ethernet2(PEER_MAC, HOST_MAC);
        match self.host {
            IpAddr::V4(_) => {
                let outer = outer.ip(self.ip(true, IpNumber::ICMP, 0, 8 + quote.len()));
                let builder = outer.icmpv4(icmpv4_type(kind));
                written(|frame| builder.write(frame, &quote).is_ok())
            }
            IpAddr::V6(_) => {
                let outer = outer.ip(self.ip(true, IpNumber::IPV6_ICMP, 0, 8 + quote.len()));
                let builder = outer.icmpv6(icmpv6_type(kind));
                written(|frame| builder.write(frame, &quote).is_ok())
            }
        }
    }

    /// The peer's answer to the question for its hardware address (RFC 826; RFC 4861 §4.4).
    pub(crate) fn address_reply(&self) -> Vec<u8> {
        match (self.peer, self.host) {
            (IpAddr::V4(peer), IpAddr::V4(host)) => {
                let head = [0, 1, 8, 0, 6, 4, 0, 2];
                let ends = [&PEER_MAC[..], &peer.octets(), &HOST_MAC, &host.octets()].concat();
                [
                    &HOST_MAC[..],
                    &PEER_MAC,
                    &EtherType::ARP.0.to_be_bytes(),
                    &head,
                    &ends,
                ]
                .concat()
            }
            (IpAddr::V6(peer), _) => {
                let message = [&peer.octets()[..], &[2, 1], &PEER_MAC].concat();
                let mut ip = self.ip(true, IpNumber::IPV6_ICMP, 0, 8 + message.len());
                if let IpHeaders::Ipv6(header, _) = &mut ip {
                    header.hop_limit = 255;
                }
                let builder = PacketBuilder::ethernet2(PEER_MAC, HOST_MAC)
                    .ip(ip)
                    .icmpv6_raw(136, 0, [0x60, 0, 0, 0]);
                written(|frame| builder.write(frame, &message).is_ok())
            }
            _ => unreachable!("both ends are of one family"),
        }
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> bool) -> Vec<u8> {
    let mut frame = Vec::new();
    assert!(write(&mut frame), "a vector takes every frame");
    frame
}

fn tcp_header(segment: &WireSegment) -> TcpHeader {
    let mut header = TcpHeader::new(
        segment.source,
        segment.destination,
        segment.seq,
        segment.window,
    );
    let is_set = |bit: u16| segment.flags & bit != 0;
    (header.fin, header.syn, header.rst, header.psh) = (is_set(1), is_set(2), is_set(4), is_set(8));
    (header.ack, header.urg, header.ece, header.cwr) =
        (is_set(16), is_set(32), is_set(64), is_set(128));
    header.ns = is_set(256);
    header.acknowledgment_number = segment.ack;
    header.urgent_pointer = segment.urgent;
    header
        .set_options_raw(&segment.options)
        .expect("the parser bounds the options");
    header
}

fn icmpv4_type(kind: IcmpKind) -> Icmpv4Type {
    use icmpv4::{DestUnreachableHeader as Unreachable, TimeExceededCode};
    match kind {
        IcmpKind::TooBig(mtu) => {
            Icmpv4Type::DestinationUnreachable(Unreachable::FragmentationNeeded {
                next_hop_mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            })
        }
        IcmpKind::Unreachable(code) => {
            let header = Unreachable::from_values(code, 0).unwrap_or(Unreachable::Host);
            Icmpv4Type::DestinationUnreachable(header)
        }
        IcmpKind::TimeExceeded => Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit),
    }
}

fn icmpv6_type(kind: IcmpKind) -> Icmpv6Type {
    use icmpv6::{DestUnreachableCode as Code, TimeExceededCode};
    match kind {
        IcmpKind::TooBig(mtu) => Icmpv6Type::PacketTooBig { mtu },
        IcmpKind::Unreachable(code) => Icmpv6Type::DestinationUnreachable(match code {
            0 => Code::NoRoute,
            3 => Code::Port,
            9 | 10 | 13 => Code::Prohibited,
            _ => Code::Address,
        }),
        IcmpKind::TimeExceeded => Icmpv6Type::TimeExceeded(TimeExceededCode::HopLimitExceeded),
    }
}

/// Parses a frame of the host and verifies its checksums.
///
/// # Errors
/// A malformed frame or a wrong checksum.
pub(crate) fn read(frame: &[u8]) -> Result<Sent, String> {
    let packet = SlicedPacket::from_ethernet(frame).map_err(|error| error.to_string())?;
    let ecn = match &packet.net {
        Some(NetSlice::Arp(_)) => return Ok(Sent::AddressRequest),
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header().to_header();
            if header.calc_header_checksum() != header.header_checksum {
                return Err("wrong checksum in the IP header".into());
            }
            header.ecn.value()
        }
        Some(NetSlice::Ipv6(ip)) => ip.header().traffic_class() & 3,
        None => return Ok(Sent::Other),
    };
    let tcp = match &packet.transport {
        Some(TransportSlice::Icmpv6(icmp)) if icmp.type_u8() == 135 => {
            return Ok(Sent::AddressRequest);
        }
        Some(TransportSlice::Tcp(tcp)) => tcp,
        _ => return Ok(Sent::Other),
    };
    let expected = match &packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
        }
        Some(NetSlice::Ipv6(ip)) => {
            tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
        }
        _ => return Ok(Sent::Other),
    };
    if expected.ok() != Some(tcp.checksum()) {
        return Err("wrong TCP checksum".into());
    }
    Ok(Sent::Tcp(segment(tcp, ecn)))
}

fn segment(tcp: &TcpSlice<'_>, ecn: u8) -> WireSegment {
    let flags = [
        tcp.fin(),
        tcp.syn(),
        tcp.rst(),
        tcp.psh(),
        tcp.ack(),
        tcp.urg(),
        tcp.ece(),
        tcp.cwr(),
        tcp.ns(),
    ];
    let bit = |(bit, is_set): (usize, &bool)| u16::from(*is_set) << bit;
    WireSegment {
        source: tcp.source_port(),
        destination: tcp.destination_port(),
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flags: flags.iter().enumerate().map(bit).sum(),
        window: tcp.window_size(),
        urgent: tcp.urgent_pointer(),
        ecn,
        options: tcp.options().to_vec(),
        len: tcp.payload().len(),
    }
}
