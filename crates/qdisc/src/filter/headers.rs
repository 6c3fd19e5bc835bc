//! [`Headers`]: what the rules want to know of a packet's bytes, read once, without trust in any of
//! them.
//!
//! A link header of at least 14 bytes is taken for Ethernet, tagged or not; a shorter one tells
//! nothing, and the IP version decides. The TOS byte is not read here: [`Item::tos`] knows it, the
//! bytes may lag behind ([`Item::finish`]).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tautline_base::Item;

use super::protocol::{IPV4, IPV6, QINQ, VLAN};

/// Length of an Ethernet header without tags.
pub(crate) const ETHERNET: usize = 14;
/// VLAN tags that are looked behind.
const TAGS: usize = 2;
/// IPv6 extension headers that are looked behind.
const EXTENSIONS: usize = 8;

/// A packet's headers, as far as there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    /// What the link layer says follows it: the outermost tag if there is one.
    pub(crate) protocol: Option<u16>,
    /// The outermost VLAN tag.
    pub(crate) vlan: Option<Vlan>,
    /// The network header, if it is IP.
    pub(crate) ip: Option<Ip>,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vlan {
    /// Number of the VLAN.
    pub(crate) id: u16,
    /// Priority, 0..=7.
    pub(crate) priority: u8,
    /// The protocol behind it.
    pub(crate) ethertype: u16,
}

/// An IP header, and what of the transport header rules ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    /// Where it begins.
    pub(crate) at: usize,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    /// The transport protocol, behind all extension headers; `None` if it cannot be reached.
    pub(crate) protocol: Option<u8>,
    /// Source and destination port; `None` if the protocol has none, or in a later fragment.
    pub(crate) ports: Option<(u16, u16)>,
    /// The twelve bits of flags of a TCP header.
    pub(crate) tcp_flags: Option<u16>,
}

impl Headers {
    /// Reads the headers of `packet`.
    pub(crate) fn of<P: Item>(packet: &P) -> Self {
        Self::read(packet.headers(), packet.network_offset())
    }

    /// Reads `bytes`, whose network header is said to begin at `network`.
    pub(crate) fn read(bytes: &[u8], network: usize) -> Self {
        if network < ETHERNET {
            let protocol = match bytes.get(network).map(|first| first >> 4) {
                Some(4) => Some(IPV4),
                Some(6) => Some(IPV6),
                _ => None,
            };
            return Self {
                protocol,
                vlan: None,
                ip: protocol.and_then(|protocol| Ip::read(bytes, network, protocol)),
            };
        }
        let protocol = half(bytes, ETHERNET - 2);
        let (mut inner, mut at, mut vlan) = (protocol, ETHERNET, None);
        for _ in 0..TAGS {
            let Some(VLAN | QINQ) = inner else { break };
            inner = half(bytes, at + 2);
            if let (Some(tag), Some(ethertype), None) = (half(bytes, at), inner, vlan) {
                vlan = Some(Vlan {
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
            ip: inner.and_then(|inner| Ip::read(bytes, at, inner)),
        }
    }
}

impl Ip {
    fn read(bytes: &[u8], at: usize, ethertype: u16) -> Option<Self> {
        match ethertype {
            IPV4 => Self::read4(bytes, at),
            IPV6 => Self::read6(bytes, at),
            _ => None,
        }
    }

    fn read4(bytes: &[u8], at: usize) -> Option<Self> {
        let header: &[u8; 20] = bytes.get(at..)?.first_chunk()?;
        let length = usize::from(header[0] & 0xf) * 4;
        if header[0] >> 4 != 4 || length < header.len() {
            return None;
        }
        let address = |from: usize| Ipv4Addr::from_bits(whole(header, from).unwrap_or(0)).into();
        let later_fragment = half(header, 6).is_some_and(|flags| flags & 0x1fff != 0);
        let ip = Self {
            at,
            source: address(12),
            destination: address(16),
            ttl: header[8],
            protocol: Some(header[9]),
            ports: None,
            tcp_flags: None,
        };
        Some(if later_fragment {
            ip
        } else {
            ip.with_transport(bytes, at + length)
        })
    }

    fn read6(bytes: &[u8], at: usize) -> Option<Self> {
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
            if next == FRAGMENT && half(bytes, at + 2).is_none_or(|offset| offset & 0xfff8 != 0) {
                // A later fragment: the transport header is elsewhere, but its protocol stands
                // here.
                ip.protocol = bytes.get(at).copied();
                return Some(ip);
            }
            let Some(&following) = bytes.get(at) else {
                return Some(ip);
            };
            next = following;
            at += length;
        }
        Some(ip)
    }

    /// The TOS or traffic-class byte of this header, in `bytes` that it was read from.
    pub(crate) fn tos(&self, bytes: &[u8]) -> u8 {
        match (half(bytes, self.at), self.source) {
            (Some(first), IpAddr::V4(_)) => first as u8,
            (Some(first), IpAddr::V6(_)) => (first >> 4) as u8,
            (None, _) => 0,
        }
    }

    fn with_transport(self, bytes: &[u8], at: usize) -> Self {
        let Some(TCP | UDP | DCCP | SCTP | UDP_LITE) = self.protocol else {
            return self;
        };
        let ports = half(bytes, at).zip(half(bytes, at + 2));
        let tcp_flags = if self.protocol == Some(TCP) {
            half(bytes, at + 12).map(|flags| flags & 0xfff)
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

const HOP_BY_HOP: u8 = 0;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// The 16-bit number at `at`.
#[inline]
pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|&number| u16::from_be_bytes(number))
}

/// The 32-bit number at `at`.
#[inline]
pub(super) fn whole(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|&number| u32::from_be_bytes(number))
}
