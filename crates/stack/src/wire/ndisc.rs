//! Neighbor discovery: the hardware address of an IPv6 neighbor (RFC 4861 §4.3, §4.4, §7.1).
//!
//! A message that passed a router, has another code, is cut short, or has an option of length zero
//! is refused (§7.1). Redirects are not supported: any host on the link can forge them (RFC 6104).

use std::net::{IpAddr, Ipv6Addr};

use smoltcp::wire::{EthernetAddress, IpProtocol};
use tautline_base::Ecn;

use super::icmp_checksum::fill_checksum;
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
/// Kind of the option with the nonce of a probe (RFC 7527 §4).
const NONCE_OPTION: u8 = 14;
/// Flags of an advertisement.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Six random bytes by which a host recognizes its own probe, looped back to it (RFC 7527).
pub(crate) type Nonce = [u8; 6];

/// A solicitation or an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A request for `target`. `sender`: the requester's hardware address; `None` for duplicate
    /// address detection (RFC 4862).
    Solicitation {
        target: Ipv6Addr,
        sender: Option<Mac>,
        /// The nonce of a probe.
        nonce: Option<Nonce>,
    },
    /// `target` is at this address. `solicited`: answers a request; `replace`: overrides existing
    /// entries; `is_router`: it forwards packets.
    Advertisement {
        target: Ipv6Addr,
        mac: Option<Mac>,
        solicited: bool,
        replace: bool,
        is_router: bool,
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
        let nonce = six_bytes(options, NONCE_OPTION)?;
        return Ok(icmp::Message::Neighbor(Message::Solicitation {
            target,
            sender,
            nonce,
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
        is_router: fixed[4] & ROUTER != 0,
    }))
}

/// The hardware address in the first option of kind `wanted`.
fn hardware_address(options: &[u8], wanted: u8) -> Result<Option<Mac>, Malformed> {
    Ok(six_bytes(options, wanted)?.map(EthernetAddress))
}

/// The content of the first option of kind `wanted` that holds six bytes.
fn six_bytes(bytes: &[u8], wanted: u8) -> Result<Option<[u8; 6]>, Malformed> {
    let mut found = None;
    for option in options(bytes) {
        let option = option?;
        if found.is_none()
            && let [kind, 1, content @ ..] = option
            && *kind == wanted
        {
            found = content.first_chunk().copied();
        }
    }
    Ok(found)
}

/// The options in `bytes`, each with its kind and its length; the first that is cut short or of
/// length zero is an error, and the last.
pub(super) fn options(mut bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    std::iter::from_fn(move || {
        let len = match *bytes {
            [] => return None,
            [_, units, ..] if units > 0 => usize::from(units) * OPTION,
            _ => usize::MAX,
        };
        let Some((option, rest)) = bytes.split_at_checked(len) else {
            bytes = &[];
            return Some(Err(Malformed::Header));
        };
        bytes = rest;
        Some(Ok(option))
    })
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
    fill_checksum(message, addresses);
    addresses.headers_len() + len
}

/// Writes the probe of duplicate address detection for `target`: a solicitation from the unspecified
/// address with a nonce (RFC 4862 §5.4.2, RFC 7527 §4.1).
pub(crate) fn write_probe(
    frame: &mut [u8],
    addresses: &Addresses,
    target: Ipv6Addr,
    nonce: Nonce,
) -> usize {
    let len = FIXED + OPTION;
    let message = write_ip(frame, addresses, IpProtocol::Icmpv6, Ecn::NotEct, len);
    message[..8].copy_from_slice(&[SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    message[8..FIXED].copy_from_slice(&target.octets());
    message[FIXED..FIXED + 2].copy_from_slice(&[NONCE_OPTION, 1]);
    message[FIXED + 2..].copy_from_slice(&nonce);
    fill_checksum(message, addresses);
    addresses.headers_len() + len
}
