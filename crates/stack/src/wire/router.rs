//! Router discovery: solicitations sent and advertisements received (RFC 4861 §4.1, §4.2, §4.6,
//! §6.1.2).
//!
//! An advertisement that passed a router, comes from another address than a link-local one, has
//! another code, is cut short, or has an option of length zero is refused (§6.1.2). Redirects are not
//! supported.

use std::net::Ipv6Addr;
use std::time::Duration;

use smoltcp::wire::{EthernetAddress, IpProtocol};
use tautline_base::Ecn;

use super::icmp_checksum::fill_checksum;
use super::{Addresses, Ends, MAX_HOP_LIMIT, Mac, Malformed, as_ipv6, ndisc, write_ip};

/// Type of a router solicitation.
const SOLICITATION: u8 = 133;
/// Type of a router advertisement.
pub(super) const ADVERTISEMENT: u8 = 134;
/// Type to the retransmission timer.
const FIXED: usize = 16;
/// Kinds of options.
const SOURCE: u8 = 1;
const PREFIX: u8 = 3;
const MTU: u8 = 5;
/// Bytes of a prefix information option.
const PREFIX_LEN: usize = 32;
/// Flags of a prefix.
const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// A valid advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advertisement<'a> {
    /// Hop limit for packets of the host; 0 if the router does not say.
    pub(crate) hop_limit: u8,
    /// Seconds for which the router is a default router; 0: not at all.
    pub(crate) lifetime: u16,
    /// How long neighbors count as reachable, and the time between requests for one; zero if the router
    /// does not say.
    pub(crate) reachable_time: Duration,
    pub(crate) retransmission: Duration,
    options: &'a [u8],
}

/// An option of an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouterOption {
    /// The router's hardware address.
    Source(Mac),
    /// The link's MTU.
    Mtu(u32),
    /// A prefix.
    Prefix(Prefix),
}

/// A prefix information option. Lifetimes are in seconds, `u32::MAX` without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) network: Ipv6Addr,
    pub(crate) len: u8,
    /// Addresses of the prefix are on the link.
    pub(crate) on_link: bool,
    /// Hosts form addresses of it.
    pub(crate) autonomous: bool,
    pub(crate) valid: u32,
    pub(crate) preferred: u32,
}

impl<'a> Advertisement<'a> {
    /// Its options, without those of unknown kinds or impossible lengths.
    pub(crate) fn options(&self) -> impl Iterator<Item = RouterOption> + use<'a> {
        ndisc::options(self.options)
            .map_while(Result::ok)
            .filter_map(|option| match (option[0], option.len()) {
                (SOURCE, 8) => Some(RouterOption::Source(EthernetAddress::from_bytes(
                    &option[2..8],
                ))),
                (MTU, 8) => Some(RouterOption::Mtu(word(option, 4))),
                (PREFIX, PREFIX_LEN) => Some(RouterOption::Prefix(prefix(option))),
                _ => None,
            })
    }
}

/// Parses an advertisement whose checksum is valid.
pub(super) fn parse<'a>(ends: &Ends, message: &'a [u8]) -> Result<Advertisement<'a>, Malformed> {
    let (fixed, options) = message
        .split_first_chunk::<FIXED>()
        .ok_or(Malformed::Header)?;
    let is_link_local = as_ipv6(ends.source).is_unicast_link_local();
    if ends.hop_limit != MAX_HOP_LIMIT || !is_link_local {
        return Err(Malformed::Header);
    }
    for option in ndisc::options(options) {
        option?;
    }
    Ok(Advertisement {
        hop_limit: fixed[4],
        lifetime: u16::from_be_bytes([fixed[6], fixed[7]]),
        reachable_time: Duration::from_millis(word(fixed, 8).into()),
        retransmission: Duration::from_millis(word(fixed, 12).into()),
        options,
    })
}

fn prefix(option: &[u8]) -> Prefix {
    let octets: [u8; 16] = option[16..PREFIX_LEN].try_into().unwrap_or_default();
    Prefix {
        network: octets.into(),
        len: option[2].min(128),
        on_link: option[3] & ON_LINK != 0,
        autonomous: option[3] & AUTONOMOUS != 0,
        valid: word(option, 4),
        preferred: word(option, 8),
    }
}

fn word(option: &[u8], at: usize) -> u32 {
    option[at..]
        .first_chunk()
        .copied()
        .map_or(0, u32::from_be_bytes)
}

/// Writes a router solicitation, with our hardware address unless the source is unspecified.
pub(crate) fn write_solicitation(frame: &mut [u8], addresses: &Addresses) -> usize {
    let named = !addresses.source.is_unspecified();
    let len = if named { 16 } else { 8 };
    let message = write_ip(frame, addresses, IpProtocol::Icmpv6, Ecn::NotEct, len);
    message.fill(0);
    message[0] = SOLICITATION;
    if named {
        message[8..10].copy_from_slice(&[SOURCE, 1]);
        message[10..].copy_from_slice(&addresses.source_mac.0);
    }
    fill_checksum(message, addresses);
    addresses.headers_len() + len
}
