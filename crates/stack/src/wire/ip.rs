//! IPv4 (RFC 791) and IPv6 (RFC 8200), read and written.
//!
//! Fragments are refused: no supported protocol needs them, and reassembly invites exhaustion of
//! buffers (CVE-2018-5391). An atomic fragment (RFC 6946) counts as a whole packet. Extension
//! headers are skipped as far as they require no action; the others stop the packet, and
//! [`ParameterProblem`] says what its sender is told.

use std::net::{IpAddr, Ipv4Addr};

use smoltcp::wire::{EthernetProtocol, IpProtocol, Ipv6Packet, Ipv6Repr};
use tautline_base::{Ecn, checksum};

use super::{Addresses, Ends, IPV4_HEADER, IPV6_HEADER, Malformed, as_ipv6, ip_header_len};

/// Most extension headers skipped. More in one packet are an attack on the parser (RFC 8504 §5.3).
const MAX_EXTENSIONS: usize = 8;
/// Offset of the next header field in an IPv6 header.
const NEXT_HEADER: usize = 6;
/// Extension headers, by the number that announces them.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// The bits of an option's type that say what to do if it is unknown (RFC 8200 §4.2): skip it, drop
/// the packet, or drop it and tell the sender, even of a multicast packet or not.
const ACTION: u8 = 0b1100_0000;
const SKIP: u8 = 0b0000_0000;
const DROP: u8 = 0b0100_0000;
const ANSWER_ALWAYS: u8 = 0b1000_0000;
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

/// A field of an IPv6 packet by which its destination cannot go on (RFC 4443 §3.4, RFC 8883 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParameterProblem {
    pub(crate) code: u8,
    /// Offset of the field in the packet.
    pub(crate) pointer: u32,
    /// The sender of a multicast packet is told, too.
    pub(crate) answers_multicast: bool,
}

impl ParameterProblem {
    /// Codes: an erroneous field, an unknown next header, an unknown option, more extension headers
    /// than this host goes past.
    pub(super) const FIELD: u8 = 0;
    pub(super) const NEXT_HEADER: u8 = 1;
    pub(super) const OPTION: u8 = 2;
    pub(super) const TOO_MANY_HEADERS: u8 = 8;
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
    /// At a header that must be understood, and is not: the packet is dropped, and its sender told if
    /// there is a problem to tell.
    Refused(Option<ParameterProblem>),
}

impl Walk<'_> {
    /// At the field at offset `pointer`, which the sender of a unicast packet is told.
    fn refused(code: u8, pointer: usize) -> Self {
        Self::Refused(Some(ParameterProblem {
            code,
            pointer: pointer as u32,
            answers_multicast: false,
        }))
    }
}

/// Skips the extension headers of an IPv6 packet, in any order and number up to a limit (RFC 8200
/// §4.1), beginning with one of kind `next` at the start of `payload`.
pub(super) fn walk(mut next: u8, payload: &[u8]) -> Result<Walk<'_>, Malformed> {
    let (mut body, mut field, mut fragmented) = (payload, NEXT_HEADER, false);
    let mut skipped = 0;
    loop {
        let at = IPV6_HEADER + payload.len() - body.len();
        match next {
            // Hop-by-hop options come first or not at all (RFC 8200 §4.1).
            HOP_BY_HOP if skipped > 0 => {
                return Ok(Walk::refused(ParameterProblem::NEXT_HEADER, field));
            }
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING | FRAGMENT if skipped == MAX_EXTENSIONS => {
                return Ok(Walk::refused(ParameterProblem::TOO_MANY_HEADERS, at));
            }
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => {
                let len = (usize::from(*body.get(1).ok_or(Malformed::Header)?) + 1) * 8;
                let (header, rest) = body.split_at_checked(len).ok_or(Malformed::Header)?;
                let refused = if next == ROUTING {
                    refused_route(header, at)
                } else {
                    refused_option(&header[2..], at + 2)
                };
                if let Some(refused) = refused {
                    return Ok(refused);
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
        field = at;
        skipped += 1;
    }
}

/// Offsets of the first header of `packet` that is no extension header, or not whole, and of the field
/// that names it: the next header of the one before. The field comes first.
pub(super) fn upper_at(packet: &[u8]) -> (usize, usize) {
    let (mut field, mut header) = (NEXT_HEADER, IPV6_HEADER);
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
    (field, header)
}

/// The end of the walk at a routing header at offset `at`, if it has segments left: this host knows no
/// type of it (RFC 8200 §4.4; RFC 5095 §3 for type 0).
fn refused_route(header: &[u8], at: usize) -> Option<Walk<'static>> {
    let segments_left = header[3];
    (segments_left > 0).then(|| Walk::refused(ParameterProblem::FIELD, at + 2))
}

/// The end of the walk at the first of the options from offset `at` on that must not be skipped. This
/// host knows only padding (RFC 8200 §4.2).
fn refused_option(options: &[u8], at: usize) -> Option<Walk<'static>> {
    let mut left = options;
    loop {
        left = match *left {
            [] => return None,
            [0, ..] => &left[1..],
            [kind, len, ..] if kind & ACTION == SKIP => {
                match left.get(2 + usize::from(len)..) {
                    Some(rest) => rest,
                    // It is longer than its header.
                    None => return Some(Walk::Refused(None)),
                }
            }
            [kind, _, ..] if kind & ACTION != DROP => {
                return Some(Walk::Refused(Some(ParameterProblem {
                    code: ParameterProblem::OPTION,
                    pointer: (at + options.len() - left.len()) as u32,
                    answers_multicast: kind & ACTION == ANSWER_ALWAYS,
                })));
            }
            _ => return Some(Walk::Refused(None)),
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
