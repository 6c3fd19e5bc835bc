//! [`Headers`]: the link, network and transport headers of a frame, parsed once with every length
//! checked; sizes and protocol numbers of these headers.
//!
//! The TOS byte is not part of them: [`Item::tos`] may be newer than the bytes ([`Item::finish`]).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::Item;

/// Bytes of an Ethernet header without a tag.
pub const ETHERNET_HEADER: usize = 14;
/// Bytes of a VLAN tag (IEEE 802.1Q).
pub const VLAN_TAG: usize = 4;
/// Bytes of an IPv4 header without options (RFC 791 §3.1).
pub const IPV4_HEADER: usize = 20;
/// Bytes of an IPv6 header (RFC 8200 §3).
pub const IPV6_HEADER: usize = 40;
/// Bytes of a TCP header without options (RFC 9293 §3.1).
pub const TCP_HEADER: usize = 20;
/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER: usize = 8;

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of a customer's VLAN tag (IEEE 802.1Q).
pub const VLAN: u16 = 0x8100;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Ethertype of a provider's VLAN tag (IEEE 802.1ad).
pub const QINQ: u16 = 0x88a8;

/// Protocol number of TCP in an IP header.
pub const TCP: u8 = 6;
/// Protocol number of UDP in an IP header.
pub const UDP: u8 = 17;
pub(crate) const HOP_BY_HOP: u8 = 0;
const DCCP: u8 = 33;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
pub(crate) const DESTINATION: u8 = 60;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Most VLAN tags that are skipped.
const TAGS: usize = 2;
/// Most IPv6 extension headers that are skipped.
pub(crate) const EXTENSIONS: usize = 8;

/// The 16-bit number at `at`, in network byte order.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|&number| u16::from_be_bytes(number))
}

/// The 32-bit number at `at`, in network byte order.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|&number| u32::from_be_bytes(number))
}

/// Kind of the frames of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Medium {
    /// Ethernet frames: ARP and neighbor discovery resolve the hardware addresses of neighbors.
    #[default]
    Ethernet,
    /// IP packets without a link header, as on a TUN interface: every destination is at the other
    /// end.
    Ip,
}

impl Medium {
    /// Bytes of the link header without a tag.
    pub const fn link_header(self) -> usize {
        match self {
            Self::Ethernet => ETHERNET_HEADER,
            Self::Ip => 0,
        }
    }

    /// Offset of the network header of `frame`; in an Ethernet frame after at most one IEEE 802.1Q
    /// tag.
    #[inline]
    pub fn network_offset(self, frame: &[u8]) -> usize {
        match self {
            Self::Ethernet if u16_at(frame, ETHERNET_HEADER - 2) == Some(VLAN) => {
                ETHERNET_HEADER + VLAN_TAG
            }
            medium => medium.link_header(),
        }
    }

    /// Ethertype of the network header of `frame`; without a link header, the one of its IP
    /// version.
    #[inline]
    pub fn ethertype(self, frame: &[u8]) -> Option<u16> {
        match self {
            Self::Ethernet => u16_at(frame, self.network_offset(frame) - 2),
            Self::Ip => ethertype_of_version(frame.first()),
        }
    }

    /// Writes the TOS or traffic-class byte into the IP header of `frame`; for IPv4 updates the checksum
    /// incrementally (RFC 1624 eqn. 3). Frames without a whole IP header stay as they are.
    ///
    /// ```
    /// use tautline_base::Medium;
    ///
    /// let mut packet = [0x45, 2, 0, 20, 0, 0, 0, 0, 64, 17, 0x66, 0xd5, 10, 0, 0, 1, 10, 0, 0, 2];
    /// Medium::Ip.write_tos(&mut packet, 3); // CE
    /// assert_eq!((packet[1], &packet[10..12]), (3, &[0x66, 0xd4][..]));
    /// ```
    pub fn write_tos(self, frame: &mut [u8], tos: u8) {
        let start = self.network_offset(frame);
        let (Some(ethertype), Some(ip)) = (self.ethertype(frame), frame.get_mut(start..)) else {
            return;
        };
        if ethertype == IPV4 && ip.len() >= IPV4_HEADER && ip[1] != tos {
            let word = |high, low| u32::from(u16::from_be_bytes([high, low]));
            let (before, after) = (word(ip[0], ip[1]), word(ip[0], tos));
            let mut sum = (!word(ip[10], ip[11]) & 0xffff) + (!before & 0xffff) + after;
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            ip[1] = tos;
            ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        } else if ethertype == IPV6 && ip.len() >= IPV6_HEADER {
            ip[0] = (ip[0] & 0xf0) | (tos >> 4);
            ip[1] = (ip[1] & 0x0f) | (tos << 4);
        }
    }
}

/// The ethertype of an IP packet whose first byte is `first`.
fn ethertype_of_version(first: Option<&u8>) -> Option<u16> {
    match first.map(|first| first >> 4) {
        Some(4) => Some(IPV4),
        Some(6) => Some(IPV6),
        _ => None,
    }
}

/// The headers of a packet, as far as they are present.
///
/// ```
/// use tautline_base::headers::Headers;
///
/// let mut frame = [0; 54];
/// frame[12..15].copy_from_slice(&[8, 0, 0x45]); // Ethernet, IPv4
/// frame[23] = 6; // TCP
/// frame[36..38].copy_from_slice(&443u16.to_be_bytes());
/// let ip = Headers::parse(&frame, 14).ip.expect("an IPv4 header");
/// assert_eq!(ip.ports, Some((0, 443)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Ethertype in the link header: that of the outermost tag if there is one.
    pub protocol: Option<u16>,
    /// The outermost VLAN tag.
    pub vlan: Option<VlanTag>,
    /// The IP header, if it is IPv4 or IPv6.
    pub ip: Option<IpHeader>,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// VLAN identifier, 0..=4095.
    pub id: u16,
    /// Priority code point, 0..=7.
    pub priority: u8,
    /// Ethertype of the payload.
    pub ethertype: u16,
}

/// An IP header, with the ports and flags of the transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Offset of this header in the frame.
    pub at: usize,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Protocol after all extension headers; `None` if they are truncated or more than eight.
    pub protocol: Option<u8>,
    /// Source and destination port; `None` if the protocol has none, or in a later fragment.
    pub ports: Option<(u16, u16)>,
    /// Reserved bits and flags of a TCP header: the low twelve bits of its bytes 12 and 13.
    pub tcp_flags: Option<u16>,
    /// True for each fragment of a datagram, the first one, which has the ports, included.
    pub is_fragment: bool,
}

impl Headers {
    /// Parses the headers of `packet`.
    pub fn of<P: Item>(packet: &P) -> Self {
        Self::parse(packet.headers(), packet.network_offset())
    }

    /// Parses `bytes`, whose network header begins at `network`. A link header of at least 14 bytes is
    /// Ethernet, tagged or not; with a shorter one the IP version is the protocol.
    pub fn parse(bytes: &[u8], network: usize) -> Self {
        if network < ETHERNET_HEADER {
            let protocol = ethertype_of_version(bytes.get(network));
            return Self {
                protocol,
                vlan: None,
                ip: protocol.and_then(|protocol| IpHeader::parse(bytes, network, protocol)),
            };
        }
        let protocol = u16_at(bytes, ETHERNET_HEADER - 2);
        let (mut inner, mut at, mut vlan) = (protocol, ETHERNET_HEADER, None);
        for _ in 0..TAGS {
            let Some(VLAN | QINQ) = inner else { break };
            inner = u16_at(bytes, at + 2);
            if let (Some(tag), Some(ethertype), None) = (u16_at(bytes, at), inner, vlan) {
                vlan = Some(VlanTag {
                    id: tag & 0xfff,
                    priority: (tag >> 13) as u8,
                    ethertype,
                });
            }
            at += 4;
        }
        Self {
            protocol,
            vlan,
            ip: inner.and_then(|inner| IpHeader::parse(bytes, at, inner)),
        }
    }
}

impl IpHeader {
    fn parse(bytes: &[u8], at: usize, ethertype: u16) -> Option<Self> {
        match ethertype {
            IPV4 => Self::parse_ipv4(bytes, at),
            IPV6 => Self::parse_ipv6(bytes, at),
            _ => None,
        }
    }

    fn parse_ipv4(bytes: &[u8], at: usize) -> Option<Self> {
        let header: &[u8; 20] = bytes.get(at..)?.first_chunk()?;
        let length = usize::from(header[0] & 0xf) * 4;
        if header[0] >> 4 != 4 || length < header.len() {
            return None;
        }
        let address = |from: usize| Ipv4Addr::from_bits(u32_at(header, from).unwrap_or(0)).into();
        let fragment = u16_at(header, 6).unwrap_or(0);
        let ip = Self {
            at,
            source: address(12),
            destination: address(16),
            ttl: header[8],
            protocol: Some(header[9]),
            ports: None,
            tcp_flags: None,
            is_fragment: fragment & 0x3fff != 0,
        };
        Some(if fragment & 0x1fff != 0 {
            ip
        } else {
            ip.with_transport(bytes, at + length)
        })
    }

    fn parse_ipv6(bytes: &[u8], at: usize) -> Option<Self> {
        let header: &[u8; 40] = bytes.get(at..)?.first_chunk()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let address = |from: usize| {
            let octets: Option<[u8; 16]> = header
                .get(from..)
                .and_then(|rest| rest.first_chunk().copied());
            Ipv6Addr::from(octets.unwrap_or_default()).into()
        };
        let mut ip = Self {
            at,
            source: address(8),
            destination: address(24),
            ttl: header[7],
            protocol: None,
            ports: None,
            tcp_flags: None,
            is_fragment: false,
        };
        let (mut next, mut at) = (header[6], at + header.len());
        for _ in 0..EXTENSIONS {
            let units = usize::from(bytes.get(at + 1).copied().unwrap_or(0));
            let length = match next {
                HOP_BY_HOP | ROUTING | DESTINATION => 8 * (units + 1),
                AUTHENTICATION => 4 * (units + 2),
                FRAGMENT => 8,
                protocol => {
                    ip.protocol = Some(protocol);
                    return Some(ip.with_transport(bytes, at));
                }
            };
            if next == FRAGMENT {
                let fragment = u16_at(bytes, at + 2);
                ip.is_fragment = fragment.is_none_or(|fragment| fragment & 0xfff9 != 0);
                if fragment.is_none_or(|offset| offset & 0xfff8 != 0) {
                    // A later fragment names the protocol, but has no transport header.
                    ip.protocol = bytes.get(at).copied();
                    return Some(ip);
                }
            }
            let Some(&following) = bytes.get(at) else {
                return Some(ip);
            };
            next = following;
            at += length;
        }
        Some(ip)
    }

    /// The TOS or traffic-class byte of this header in `bytes`, the frame it was parsed from.
    pub fn tos(&self, bytes: &[u8]) -> u8 {
        match (u16_at(bytes, self.at), self.source) {
            (Some(first), IpAddr::V4(_)) => first as u8,
            (Some(first), IpAddr::V6(_)) => (first >> 4) as u8,
            (None, _) => 0,
        }
    }

    fn with_transport(self, bytes: &[u8], at: usize) -> Self {
        let Some(TCP | UDP | DCCP | SCTP | UDP_LITE) = self.protocol else {
            return self;
        };
        let ports = u16_at(bytes, at).zip(u16_at(bytes, at + 2));
        let tcp_flags = if self.protocol == Some(TCP) {
            u16_at(bytes, at + 12).map(|flags| flags & 0xfff)
        } else {
            None
        };
        Self {
            ports,
            tcp_flags,
            ..self
        }
    }
}
