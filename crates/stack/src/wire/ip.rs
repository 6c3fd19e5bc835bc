//! IPv4 (RFC 791) and IPv6 (RFC 8200), read and written.
//!
//! Fragments are refused: no supported protocol needs them, and reassembly invites exhaustion of
//! buffers (CVE-2018-5391). An atomic fragment (RFC 6946) counts as a whole packet. Extension
//! headers are skipped as far as they require no action.

use std::net::{IpAddr, Ipv4Addr};

use smoltcp::wire::{EthernetProtocol, IpProtocol, Ipv6Packet, Ipv6Repr};
use tautline_base::{Ecn, checksum};

use super::{Addresses, Ends, IPV4_HEADER, IPV6_HEADER, Malformed, as_ipv6, ip_header_len};

/// Most extension headers skipped. More in one packet are an attack on the parser (RFC 8504 §5.3).
const MAX_EXTENSIONS: usize = 8;
/// Extension headers, by the number that announces them.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// IPv4 options that route a packet, or its answer, through routers of the sender's choice (RFC 791
/// §3.1).
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;

/// The bits of a TOS byte, or traffic class, that are not the application's (RFC 3168 §5).
pub(crate) const ECN_BITS: u8 = 0b11;

/// Fast path for nearly every packet: whole, valid, without options, and not ICMP. `None` for
/// anything else, which [`parse`](super::parse) reads.
#[inline]
pub(super) fn plain_ipv4(payload: &[u8]) -> Option<(Ends, u8, &[u8])> {
    let header = payload.first_chunk::<IPV4_HEADER>()?;
    let [
        first,
        tos,
        len_high,
        len_low,
        _,
        _,
        fragment,
        offset,
        hop_limit,
        protocol,
        _,
        _,
        addresses @ ..,
    ] = *header;
    let [a, b, c, d, e, f, g, h] = addresses;
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    // The flag that forbids to fragment, and a reserved one, do not matter.
    let plain = first == 0x45
        && fragment & 0b0011_1111 == 0
        && offset == 0
        && protocol != u8::from(IpProtocol::Icmp)
        && header_sum(header) == u16::MAX;
    let whole = payload
        .get(..len)
        .filter(|whole| plain && whole.len() >= IPV4_HEADER)?;
    let (source, destination) = (
        Ipv4Addr::new(a, b, c, d).into(),
        Ipv4Addr::new(e, f, g, h).into(),
    );
    Some((
        Ends {
            source,
            destination,
            hop_limit,
            tos,
        },
        protocol,
        whole,
    ))
}

/// The sum of all words of a header.
#[inline]
fn header_sum(header: &[u8; IPV4_HEADER]) -> u16 {
    checksum::fold(
        header
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from(u32::from_be_bytes(*word)))
            .sum(),
    )
}

pub(super) fn source_routed(mut options: &[u8]) -> bool {
    loop {
        match *options {
            [] | [0, ..] | [_] => return false,
            [1, ..] => options = &options[1..],
            [LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, ..] => return true,
            [_, len, ..] => match options.get(usize::from(len.max(2))..) {
                Some(rest) => options = rest,
                None => return false,
            },
        }
    }
}

/// End of a walk over extension headers.
pub(super) enum Walk<'a> {
    /// At the payload.
    Upper {
        protocol: u8,
        fragmented: bool,
        body: &'a [u8],
    },
    /// At a part of a packet.
    Fragment,
    /// At an unknown header that must be understood.
    Unknown,
}

/// Skips extension headers, beginning with a header of kind `next` at the start of `body`.
pub(super) fn walk(mut next: u8, mut body: &[u8]) -> Result<Walk<'_>, Malformed> {
    let mut fragmented = false;
    for position in 0..=MAX_EXTENSIONS {
        match next {
            // Hop-by-hop options come first or not at all (RFC 8200 §4.1).
            HOP_BY_HOP if position > 0 => return Ok(Walk::Unknown),
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => {
                let len = (usize::from(*body.get(1).ok_or(Malformed::Header)?) + 1) * 8;
                let (header, rest) = body.split_at_checked(len).ok_or(Malformed::Header)?;
                // A routing header with segments left is not for us (RFC 8200 §4.4).
                let understood = if next == ROUTING {
                    header[3] == 0
                } else {
                    may_be_skipped(&header[2..])
                };
                if !understood {
                    return Ok(Walk::Unknown);
                }
                (next, body) = (header[0], rest);
            }
            FRAGMENT => {
                let (header, rest) = body.split_first_chunk::<8>().ok_or(Malformed::Header)?;
                // Offset and "more" are in bits 16 to 31, but for two that are reserved.
                if u16::from_be_bytes([header[2], header[3]]) & !0b110 != 0 {
                    return Ok(Walk::Fragment);
                }
                fragmented = true;
                (next, body) = (header[0], rest);
            }
            protocol => {
                return Ok(Walk::Upper {
                    protocol,
                    fragmented,
                    body,
                });
            }
        }
    }
    Ok(Walk::Unknown)
}

/// Offset of the field that names the first header of `packet` which is no extension header, or one
/// that is not whole: the next header of the one before (RFC 4443 §3.4).
pub(super) fn next_header_at(packet: &[u8]) -> usize {
    let (mut field, mut header) = (6, IPV6_HEADER);
    while let Some(next) = packet.get(field)
        && let Some([_, units, ..]) = packet.get(header..)
    {
        let len = match *next {
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => (usize::from(*units) + 1) * 8,
            FRAGMENT => 8,
            _ => break,
        };
        (field, header) = (header, header + len);
    }
    field
}

/// Whether every option is padding or marked as skippable if unknown (RFC 8200 §4.2).
fn may_be_skipped(mut options: &[u8]) -> bool {
    loop {
        match *options {
            [] => return true,
            [0, ..] => options = &options[1..],
            [kind, len, ..] if kind & 0b1100_0000 == 0 => match options.get(2 + usize::from(len)..)
            {
                Some(rest) => options = rest,
                None => return false,
            },
            _ => return false,
        }
    }
}

/// Writes link and network headers for `payload_len` bytes of `protocol` and returns the space for
/// the payload.
pub(crate) fn write_ip<'a>(
    frame: &'a mut [u8],
    addresses: &Addresses,
    protocol: IpProtocol,
    codepoint: Ecn,
    payload_len: usize,
) -> &'a mut [u8] {
    let header = ip_header_len(addresses.source);
    let frame = &mut frame[..addresses.link_len() + header + payload_len];
    let hop_limit = addresses.hop_limit;
    let tos = addresses.tos & !ECN_BITS | codepoint.bits();
    let network = match (addresses.source, addresses.destination) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let network = addresses.write_link(frame, EthernetProtocol::Ipv4);
            let len = (IPV4_HEADER + payload_len) as u16;
            // No identification, not to be fragmented (RFC 6864 §4.1).
            let words = [
                u32::from_be_bytes([0x45, tos, 0, 0]) | u32::from(len),
                0x4000,
                u32::from_be_bytes([hop_limit, protocol.into(), 0, 0]),
                src_addr.to_bits(),
                dst_addr.to_bits(),
            ];
            let sum = !checksum::fold(words.iter().map(|word| u64::from(*word)).sum());
            let header = network
                .first_chunk_mut::<IPV4_HEADER>()
                .expect("a frame holds its headers");
            for (place, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *place = word.to_be_bytes();
            }
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            network
        }
        (source, destination) => {
            let network = addresses.write_link(frame, EthernetProtocol::Ipv6);
            let (src_addr, dst_addr) = (as_ipv6(source), as_ipv6(destination));
            let mut packet = Ipv6Packet::new_unchecked(&mut *network);
            Ipv6Repr {
                src_addr,
                dst_addr,
                next_header: protocol,
                payload_len,
                hop_limit,
            }
            .emit(&mut packet);
            packet.set_traffic_class(tos);
            packet.set_flow_label(addresses.flow_label);
            network
        }
    };
    &mut network[header..]
}
