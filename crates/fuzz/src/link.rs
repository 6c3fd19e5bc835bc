//! Messages of automatic configuration, nearly right: router advertisements, claims to addresses,
//! queries for multicast groups.

use std::net::{IpAddr, Ipv6Addr};

use arbitrary::Arbitrary;
use tautline_testkit::Ip;

/// All nodes, and their hardware address.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 9, 9];

/// A message.
#[derive(Arbitrary, Clone, Debug)]
pub enum LinkMessage {
    Router {
        number: u8,
        hop_limit: u8,
        lifetime: u16,
        mtu: Option<u16>,
        prefixes: Vec<Prefix>,
        rest: Vec<u8>,
    },
    /// Another host has the tentative address of this number, or probes for it.
    Claim {
        at: u8,
        probes: bool,
        nonce: Option<[u8; 6]>,
    },
    Query {
        within: u16,
        group: Option<u8>,
    },
}

/// A prefix of an advertisement.
#[derive(Arbitrary, Clone, Debug)]
pub struct Prefix {
    number: u8,
    len: u8,
    flags: u8,
    valid: u16,
    preferred: u16,
}

impl LinkMessage {
    /// The frame with the message. `tentative`: addresses that a host tests.
    pub fn frame(&self, tentative: &[IpAddr]) -> Vec<u8> {
        match self {
            Self::Router {
                number,
                hop_limit,
                lifetime,
                mtu,
                prefixes,
                rest,
            } => {
                let mut message = vec![134, 0, 0, 0, *hop_limit, 0];
                message.extend(lifetime.to_be_bytes());
                message.extend([0; 8]);
                if let Some(mtu) = mtu {
                    message.extend([5, 1, 0, 0, 0, 0]);
                    message.extend(mtu.to_be_bytes());
                }
                for prefix in prefixes.iter().take(30) {
                    message.extend(prefix.option());
                }
                message.extend(rest.iter().take(64));
                let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 9, u16::from(number % 16));
                frame(from, 255, &message)
            }
            Self::Claim { at, probes, nonce } => {
                let target = tentative.get(usize::from(*at) % tentative.len().max(1));
                let Some(IpAddr::V6(target)) = target else {
                    return Vec::new();
                };
                let (kind, from) = if *probes {
                    (135, Ipv6Addr::UNSPECIFIED)
                } else {
                    (136, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 9, 99))
                };
                let mut message = vec![kind, 0, 0, 0, 0x20, 0, 0, 0];
                message.extend(target.octets());
                if let Some(nonce) = nonce {
                    message.extend([14, 1]);
                    message.extend(nonce);
                }
                frame(from, 255, &message)
            }
            Self::Query { within, group } => {
                let group = group.map_or(Ipv6Addr::UNSPECIFIED, |last| {
                    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, last.into())
                });
                let mut message = vec![130, 0, 0, 0];
                message.extend(within.to_be_bytes());
                message.extend([0; 2]);
                message.extend(group.octets());
                message.extend([2, 125, 0, 0]);
                frame(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 9, 1), 1, &message)
            }
        }
    }
}

impl Prefix {
    fn option(&self) -> Vec<u8> {
        let len = if self.len < 200 { 64 } else { self.len };
        let mut option = vec![3, 4, len, self.flags];
        option.extend(u32::from(self.valid).to_be_bytes());
        option.extend(u32::from(self.preferred).to_be_bytes());
        option.extend([0; 4]);
        option.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, self.number.into(), 0, 0, 0, 0).octets());
        option
    }
}

fn frame(from: Ipv6Addr, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let ip = Ip {
        hop_limit,
        ..Ip::new(from, ALL_NODES, 58)
    };
    ip.frame(ALL_NODES_MAC, ROUTER_MAC, message)
}
