//! ICMP of both families: echo, and errors with the packet they quote (RFC 792, RFC 1191, RFC 4443).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::wire::{IpProtocol, checksum};
use tautline_base::Ecn;

use super::icmp_checksum::{fill_checksum, sum_v6};
use super::ip::{ParameterProblem, Walk, upper_at, walk};
use super::{
    Addresses, Ends, IPV4_HEADER, IPV6_HEADER, IPV6_MIN_MTU, Malformed, mld, ndisc, network,
    router, write_ip,
};

/// Type, code, checksum and four bytes that depend on the type.
pub(crate) const ICMP_HEADER: usize = 8;
/// Every IPv4 link carries packets of this size (RFC 791).
const IPV4_MIN_MTU: u32 = 68;
/// Longest IPv4 packet that carries an error (RFC 1812 §4.3.2.3).
const IPV4_ERROR: usize = 576;

/// Numbers of the messages: IPv4's, then IPv6's.
const ECHO_REPLY: [u8; 2] = [0, 129];
const ECHO_REQUEST: [u8; 2] = [8, 128];
const UNREACHABLE: [u8; 2] = [3, 1];
const PARAMETER_PROBLEM: [u8; 2] = [12, 4];
const TOO_BIG_V6: u8 = 2;
/// ICMPv6: the first type that is no error, and the redirect, which is not answered either.
const FIRST_INFORMATION: u8 = 128;
const REDIRECT: u8 = 137;
/// IPv4: fragmentation needed and DF set.
const FRAGMENTATION_NEEDED: u8 = 4;

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// Echo request: identifier, number and data.
    EchoRequest(&'a [u8]),
    /// Echo reply: identifier, number and data.
    EchoReply(&'a [u8]),
    /// An error about a packet of ours.
    Error(IcmpError),
    /// Neighbor discovery.
    Neighbor(ndisc::Message),
    /// A router advertisement.
    Router(router::Advertisement<'a>),
    /// A query for members of multicast groups.
    Query(mld::Query),
    /// An unsupported message.
    Other,
}

/// An error and the quoted part of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpError {
    pub(crate) problem: Problem,
    /// The ends of the quoted packet: the source should be us.
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// The first bytes of its payload: of TCP, the ports and the sequence number.
    pub(crate) head: [u8; 8],
}

impl IcmpError {
    /// Ports of source and destination.
    pub(crate) fn ports(&self) -> (u16, u16) {
        let [a, b, c, d, ..] = self.head;
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }

    /// It reports an MTU that no link has: it is forged (RFC 8201 §4, RFC 791). IPv4 routers from before
    /// RFC 1191 report 0.
    pub(crate) fn is_impossible(&self) -> bool {
        match (self.problem, self.source) {
            (Problem::TooBig { mtu }, IpAddr::V4(_)) => (1..IPV4_MIN_MTU).contains(&mtu),
            (Problem::TooBig { mtu }, IpAddr::V6(_)) => mtu < IPV6_MIN_MTU as u32,
            _ => false,
        }
    }

    /// TCP's sequence number.
    pub(crate) fn seq(&self) -> u32 {
        let [_, _, _, _, a, b, c, d] = self.head;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// The reason of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The network or the host is unreachable.
    HostUnreachable,
    /// Nobody listens on the port, or the host does not speak the protocol.
    PortUnreachable,
    /// A filter forbids it.
    Prohibited,
    /// The packet was too big for a link that carries `mtu` bytes; 0 if the router does not say.
    TooBig { mtu: u32 },
    /// The packet exceeded its hop limit.
    TimeExceeded,
    /// A header was not understood.
    Parameter,
}

/// Parses an ICMPv4 message.
pub(super) fn parse_v4(message: &[u8]) -> Result<Message<'_>, Malformed> {
    let (header, body) = message
        .split_first_chunk::<ICMP_HEADER>()
        .ok_or(Malformed::Header)?;
    if checksum::data(message) != !0 {
        return Err(Malformed::Checksum);
    }
    let [kind, code, _, _, rest @ ..] = *header;
    let problem = match (kind, code) {
        (8, 0) => return Ok(Message::EchoRequest(&message[4..])),
        (0, 0) => return Ok(Message::EchoReply(&message[4..])),
        (3, 2 | 3) => Problem::PortUnreachable,
        (3, FRAGMENTATION_NEEDED) => Problem::TooBig {
            mtu: u32::from(u16::from_be_bytes([rest[2], rest[3]])),
        },
        (3, 9 | 10 | 13) => Problem::Prohibited,
        (3, 0..=15) => Problem::HostUnreachable,
        (11, 0) => Problem::TimeExceeded,
        (12, _) => Problem::Parameter,
        _ => return Ok(Message::Other),
    };
    Ok(quoted_v4(problem, body).map_or(Message::Other, Message::Error))
}

/// Parses an ICMPv6 message.
pub(super) fn parse_v6<'a>(ends: &Ends, message: &'a [u8]) -> Result<Message<'a>, Malformed> {
    let (header, body) = message
        .split_first_chunk::<ICMP_HEADER>()
        .ok_or(Malformed::Header)?;
    let (source, destination) = network(ends.source, ends.destination);
    if sum_v6(&source, &destination, message) != !0 {
        return Err(Malformed::Checksum);
    }
    let [kind, code, _, _, rest @ ..] = *header;
    let problem = match (kind, code) {
        (128, 0) => return Ok(Message::EchoRequest(&message[4..])),
        (129, 0) => return Ok(Message::EchoReply(&message[4..])),
        (ndisc::SOLICITATION | ndisc::ADVERTISEMENT, 0) => return ndisc::parse(ends, message),
        (router::ADVERTISEMENT, 0) => {
            return router::parse(ends, message).map(Message::Router);
        }
        (mld::QUERY, 0) => {
            let query = mld::parse(ends, message)?;
            return Ok(query.map_or(Message::Other, Message::Query));
        }
        (1, 4) => Problem::PortUnreachable,
        (1, 1 | 5 | 6) => Problem::Prohibited,
        (1, _) => Problem::HostUnreachable,
        (TOO_BIG_V6, _) => Problem::TooBig {
            mtu: u32::from_be_bytes(rest),
        },
        (3, 0) => Problem::TimeExceeded,
        // An unknown next header: the host does not speak the protocol.
        (4, 1) => Problem::PortUnreachable,
        (4, _) => Problem::Parameter,
        _ => return Ok(Message::Other),
    };
    Ok(quoted_v6(problem, body).map_or(Message::Other, Message::Error))
}

/// Routers cut the quotation anywhere: its lengths prove nothing.
fn quoted_v4(problem: Problem, packet: &[u8]) -> Option<IcmpError> {
    let (header, _) = packet.split_first_chunk::<IPV4_HEADER>()?;
    let first_part = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    let len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || len < IPV4_HEADER || !first_part {
        return None;
    }
    let address = |at: usize| {
        Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into()
    };
    let (head, _) = packet.get(len..)?.split_first_chunk()?;
    Some(IcmpError {
        problem,
        source: address(12),
        destination: address(16),
        protocol: header[9],
        head: *head,
    })
}

fn quoted_v6(problem: Problem, packet: &[u8]) -> Option<IcmpError> {
    let (header, body) = packet.split_first_chunk::<IPV6_HEADER>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let Ok(Walk::Upper { protocol, body, .. }) = walk(header[6], body) else {
        return None;
    };
    let (head, _) = body.split_first_chunk()?;
    let address = |at: usize| {
        let octets: [u8; 16] = header[at..at + 16].try_into().unwrap_or_default();
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    Some(IcmpError {
        problem,
        source: address(8),
        destination: address(24),
        protocol,
        head: *head,
    })
}

/// Whether an IPv6 packet is an error, or may be one, since its type is missing: no error answers it
/// (RFC 4443 §2.4 e).
pub(crate) fn is_error(packet: &[u8]) -> bool {
    let (field, header) = upper_at(packet);
    let is_icmp = packet.get(field).copied() == Some(IpProtocol::Icmpv6.into());
    let kind = packet.get(header).copied();
    is_icmp && kind.is_none_or(|kind| kind < FIRST_INFORMATION || kind == REDIRECT)
}

/// An error we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nobody listens on the port.
    Port,
    /// The protocol is not supported.
    Protocol,
    /// The host cannot be reached.
    Host,
    /// A filter forbids it.
    Prohibited,
    /// A header of an IPv6 packet is not understood.
    Header(ParameterProblem),
}

/// Writes an echo request or the reply to one: `rest` is identifier, number and data. `None` if it
/// would not fit the frame.
pub(crate) fn write_echo(
    frame: &mut [u8],
    addresses: &Addresses,
    reply: bool,
    rest: [&[u8]; 2],
) -> Option<usize> {
    let kinds = if reply { ECHO_REPLY } else { ECHO_REQUEST };
    write(frame, addresses, (kinds, 0), &[], rest)
}

/// Writes the error that answers `packet`, as much of it as fits. `None` if nothing fits the frame.
pub(crate) fn write_refusal(
    frame: &mut [u8],
    addresses: &Addresses,
    refusal: Refusal,
    packet: &[u8],
) -> Option<usize> {
    let v4 = addresses.source.is_ipv4();
    let (kinds, code, pointer): (_, _, u32) = match (refusal, v4) {
        (Refusal::Port, true) => (UNREACHABLE, 3, 0),
        (Refusal::Port, false) => (UNREACHABLE, 4, 0),
        (Refusal::Host, true) => (UNREACHABLE, 1, 0),
        (Refusal::Host, false) => (UNREACHABLE, 3, 0),
        (Refusal::Prohibited, true) => (UNREACHABLE, 13, 0),
        (Refusal::Prohibited, false) => (UNREACHABLE, 1, 0),
        (Refusal::Protocol, true) => (UNREACHABLE, 2, 0),
        (Refusal::Protocol, false) => {
            let (field, _) = upper_at(packet);
            (
                PARAMETER_PROBLEM,
                ParameterProblem::NEXT_HEADER,
                field as u32,
            )
        }
        (Refusal::Header(problem), _) => (PARAMETER_PROBLEM, problem.code, problem.pointer),
    };
    let longest = if v4 {
        IPV4_ERROR - IPV4_HEADER
    } else {
        IPV6_MIN_MTU - IPV6_HEADER
    } - ICMP_HEADER;
    write(
        frame,
        addresses,
        (kinds, code),
        &pointer.to_be_bytes(),
        [&packet[..packet.len().min(longest)], &[]],
    )
}

fn write(
    frame: &mut [u8],
    addresses: &Addresses,
    (kinds, code): ([u8; 2], u8),
    rest: &[u8],
    body: [&[u8]; 2],
) -> Option<usize> {
    let v4 = addresses.source.is_ipv4();
    let len = 4 + rest.len() + body[0].len() + body[1].len();
    let total = addresses.headers_len() + len;
    if total > frame.len() {
        return None;
    }
    let protocol = if v4 {
        IpProtocol::Icmp
    } else {
        IpProtocol::Icmpv6
    };
    let message = write_ip(frame, addresses, protocol, Ecn::NotEct, len);
    message[..4].copy_from_slice(&[kinds[usize::from(!v4)], code, 0, 0]);
    let mut at = 4;
    for part in [rest, body[0], body[1]] {
        message[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    fill_checksum(message, addresses);
    Some(total)
}
