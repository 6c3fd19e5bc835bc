//! Neighbor discovery: the hardware address of an IPv6 neighbor (RFC 4861 §4.3, §4.4, §7.1).
//!
//! A message that passed a router, has another code, is cut short, or has an option of length zero
//! is refused (§7.1). Router advertisements and redirects are not supported: routes are configured,
//! and any host on the link can forge both (RFC 6104).

use std::net::{IpAddr, Ipv6Addr};

use smoltcp::wire::{EthernetAddress, IpProtocol};
use tautline_base::Ecn;

use super::{Addresses, Ends, MAX_HOP_LIMIT, Mac, Malformed, as_ipv6, icmp, write_ip};

/// Type of a neighbor solicitation.
pub(super) const SOLICITATION: u8 = 135;
/// Type of a neighbor advertisement.
pub(super) const ADVERTISEMENT: u8 = 136;
/// Type to target.
const FIXED: usize = 24;
/// An option with a hardware address.
const OPTION: usize = 8;
/// Kinds of that option: of the sender, of the target.
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;
/// Flags of an advertisement.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A solicitation or an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A request for `target`. `sender`: the requester's hardware address; `None` for duplicate
    /// address detection (RFC 4862).
    Solicitation {
        target: Ipv6Addr,
        sender: Option<Mac>,
    },
    /// `target` is at this address. `solicited`: answers a request; `replace`: overrides existing
    /// entries.
    Advertisement {
        target: Ipv6Addr,
        mac: Option<Mac>,
        solicited: bool,
        replace: bool,
    },
}

/// Parses a message whose checksum is valid.
pub(super) fn parse<'a>(ends: &Ends, message: &[u8]) -> Result<icmp::Message<'a>, Malformed> {
    let (fixed, options) = message
        .split_first_chunk::<FIXED>()
        .ok_or(Malformed::Header)?;
    let octets: [u8; 16] = fixed[8..].try_into().map_err(|_| Malformed::Header)?;
    let target = Ipv6Addr::from(octets);
    let source = as_ipv6(ends.source);
    let destination = as_ipv6(ends.destination);
    if ends.hop_limit != MAX_HOP_LIMIT || target.is_multicast() {
        return Err(Malformed::Header);
    }
    if fixed[0] == SOLICITATION {
        let sender = hardware_address(options, SOURCE_OPTION)?;
        // Duplicate address detection goes to the group, without a source address option.
        if source.is_unspecified() && (sender.is_some() || destination != solicited_node(target)) {
            return Err(Malformed::Header);
        }
        return Ok(icmp::Message::Neighbor(Message::Solicitation {
            target,
            sender,
        }));
    }
    let mac = hardware_address(options, TARGET_OPTION)?;
    let (solicited, replace) = (fixed[4] & SOLICITED != 0, fixed[4] & OVERRIDE != 0);
    // An answer to a group is never solicited.
    if solicited && destination.is_multicast() {
        return Err(Malformed::Header);
    }
    Ok(icmp::Message::Neighbor(Message::Advertisement {
        target,
        mac,
        solicited,
        replace,
    }))
}

/// The hardware address in the first option of kind `wanted`.
fn hardware_address(mut options: &[u8], wanted: u8) -> Result<Option<Mac>, Malformed> {
    let mut found = None;
    while let [kind, units, ..] = *options {
        let len = usize::from(units) * OPTION;
        if len == 0 {
            return Err(Malformed::Header);
        }
        let (option, rest) = options.split_at_checked(len).ok_or(Malformed::Header)?;
        if kind == wanted && len == OPTION && found.is_none() {
            found = Some(EthernetAddress::from_bytes(&option[2..]));
        }
        options = rest;
    }
    if options.is_empty() {
        Ok(found)
    } else {
        Err(Malformed::Header)
    }
}

/// The solicited-node multicast group of `address` (RFC 4291 §2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() as u32 & 0x00ff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | u128::from(low))
}

/// The Ethernet address of a group (RFC 2464 §7).
pub(crate) fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    EthernetAddress([0x33, 0x33, a, b, c, d])
}

/// Writes a solicitation for `target`, or the advertisement that it is at `addresses.source_mac`
/// (solicited unless the requester has no address).
pub(crate) fn write_neighbor(
    frame: &mut [u8],
    addresses: &Addresses,
    target: IpAddr,
    solicit: bool,
) -> usize {
    let len = FIXED + OPTION;
    let message = write_ip(frame, addresses, IpProtocol::Icmpv6, Ecn::NotEct, len);
    let asked = as_ipv6(addresses.destination).is_multicast();
    let flags = match (solicit, asked) {
        (true, _) => 0,
        (false, true) => OVERRIDE,
        (false, false) => SOLICITED | OVERRIDE,
    };
    message[..8].copy_from_slice(&[
        if solicit { SOLICITATION } else { ADVERTISEMENT },
        0,
        0,
        0,
        flags,
        0,
        0,
        0,
    ]);
    message[8..FIXED].copy_from_slice(&as_ipv6(target).octets());
    message[FIXED..FIXED + 2].copy_from_slice(&[
        if solicit {
            SOURCE_OPTION
        } else {
            TARGET_OPTION
        },
        1,
    ]);
    message[FIXED + 2..].copy_from_slice(&addresses.source_mac.0);
    icmp::fill_checksum(message, addresses);
    addresses.headers_len() + len
}
