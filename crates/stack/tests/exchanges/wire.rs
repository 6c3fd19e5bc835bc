//! Frames: written and read here, without the code under test. Checksums of what the host sends are
//! verified.

use std::net::IpAddr;

use crate::device::{OUR_MAC, THEIR_MAC, ours, theirs};
use crate::segment::{Choice, Segment};
use tautline_testkit::{Ip, Segment as Raw, TCP, checksum, frame as bytes, pseudo_header};

const ETHERNET: usize = 14;
const ICMPV6: u8 = 58;

/// Network protocol of a script's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// The EtherType field of a frame.
    fn ether_type(self) -> [u8; 2] {
        match self {
            Self::V4 => [8, 0],
            Self::V6 => [0x86, 0xdd],
        }
    }
}

/// The addresses of a packet from `from` to `to`, as they follow one another in either header.
fn addresses(from: IpAddr, to: IpAddr) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
        (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
        _ => unreachable!("both ends of a script are of one family"),
    }
}

/// A frame of the host.
pub(crate) enum Sent {
    /// Who has the peer's address?
    Question,
    Tcp(Raw),
}

/// The frame that carries `segment` to the host.
pub(crate) fn frame(segment: &Raw, family: Family, damaged: bool) -> Vec<u8> {
    let ip = Ip {
        tos: segment.ecn,
        fragment: 0x4000,
        ..Ip::new(theirs(family), ours(family), TCP)
    };
    let mut frame = ip.frame(OUR_MAC, THEIR_MAC, &segment.to_bytes());
    let header = frame.len() - segment.to_bytes().len();
    frame[header + 17] ^= u8::from(damaged);
    frame
}

/// Understands a frame of the host.
pub(crate) fn read(frame: &[u8], family: Family) -> Result<Sent, String> {
    if is_question(frame, family) {
        return Ok(Sent::Question);
    }
    if frame[12..14] != family.ether_type() {
        return Err("of another family".into());
    }
    let (ip, tcp) = frame[ETHERNET..].split_at(if family == Family::V4 { 20 } else { 40 });
    let (protocol, len, codepoint, ends) = match family {
        Family::V4 => (
            ip[9],
            u16::from_be_bytes([ip[2], ip[3]]).checked_sub(20),
            ip[1],
            &ip[12..],
        ),
        Family::V6 => (
            ip[6],
            Some(u16::from_be_bytes([ip[4], ip[5]])),
            ip[0] << 4 | ip[1] >> 4,
            &ip[8..],
        ),
    };
    if protocol != TCP {
        return Err(format!(
            "neither a question nor TCP, but protocol {protocol}"
        ));
    }
    if frame[..12] != [THEIR_MAC, OUR_MAC].concat()
        || *ends != addresses(ours(family), theirs(family))
    {
        return Err("wrong addresses".into());
    }
    if len.map(usize::from) != Some(tcp.len()) {
        return Err("wrong length in the IP header".into());
    }
    let header = family == Family::V6 || checksum(&[ip]) == 0;
    if !header || checksum(&[&pseudo_header(ends, TCP, tcp.len()), tcp]) != 0 {
        return Err("wrong checksum".into());
    }
    Ok(Sent::Tcp(Raw::from_bytes(tcp, codepoint)))
}

/// Whether a frame asks for the peer's address on the link: ARP, or a neighbor solicitation (RFC
/// 4861 §4.3).
fn is_question(frame: &[u8], family: Family) -> bool {
    match family {
        Family::V4 => frame[12..14] == [8, 6],
        Family::V6 => {
            frame[12..14] == [0x86, 0xdd]
                && frame[ETHERNET + 6] == ICMPV6
                && frame[ETHERNET + 40] == 135
        }
    }
}

/// The peer's answer to the question for its address.
pub(crate) fn answer(family: Family) -> Vec<u8> {
    match (theirs(family), ours(family)) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let reply = bytes::arp(2, (THEIR_MAC, from), (OUR_MAC, to));
            bytes::ethernet(OUR_MAC, THEIR_MAC, bytes::ARP, &reply)
        }
        (from @ IpAddr::V6(target), to) => {
            // Solicited, overrides; the target and its address on the link (RFC 4861 §4.4).
            let head = [136, 0, 0, 0, 0x60, 0, 0, 0];
            let message = [&head[..], &target.octets(), &[2, 1], &THEIR_MAC].concat();
            let ip = Ip {
                hop_limit: 255,
                ..Ip::new(from, to, ICMPV6)
            };
            ip.frame(OUR_MAC, THEIR_MAC, &message)
        }
        _ => unreachable!("both ends of a script are of one family"),
    }
}

/// How numbers of the wire and of a script differ: initial sequence numbers and the offset of the
/// host's timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Initial sequence number of who sends the segment.
    pub(crate) sender: u32,
    /// Of who receives it.
    pub(crate) receiver: u32,
    /// Subtrahends of the sender's timestamps and of the receiver's.
    pub(crate) sender_clock: u32,
    pub(crate) receiver_clock: u32,
}

impl Origin {
    /// The options of `segment` as bytes.
    pub(crate) fn options(&self, segment: &Segment) -> Vec<u8> {
        segment
            .options
            .iter()
            .flatten()
            .flat_map(|option| self.option(option))
            .collect()
    }

    fn option(&self, option: &Choice) -> Vec<u8> {
        let number = |value: i64, origin: u32| origin.wrapping_add(value as u32).to_be_bytes();
        match option {
            Choice::Mss(value) => [&[2, 4], &value.to_be_bytes()[..]].concat(),
            Choice::Scale(shift) => vec![3, 3, *shift],
            Choice::SackOk => vec![4, 2],
            Choice::Sack(blocks) => {
                let mut bytes = vec![5, 2 + 8 * blocks.len() as u8];
                bytes.extend(blocks.iter().flat_map(|(a, b)| {
                    [number(*a, self.receiver), number(*b, self.receiver)].concat()
                }));
                bytes
            }
            Choice::Stamp(value, echo) => {
                let value = number(value.unwrap_or(0), self.sender_clock);
                let echo = number(echo.unwrap_or(0), self.receiver_clock);
                [&[8, 10], &value[..], &echo].concat()
            }
            Choice::Other(kind, value) => [&[*kind, 2 + value.len() as u8], &value[..]].concat(),
        }
    }

    /// The options in `bytes`.
    pub(crate) fn parse_options(&self, bytes: &[u8]) -> Result<Vec<Choice>, String> {
        let mut found = Vec::new();
        let mut rest = bytes;
        loop {
            match rest {
                [] => return Ok(found),
                [0, padding @ ..] if padding.iter().all(|byte| *byte == 0) => return Ok(found),
                [1, after @ ..] => rest = after,
                [kind, len, ..] if (2..=rest.len()).contains(&usize::from(*len)) => {
                    found.push(self.parse_option(*kind, &rest[2..usize::from(*len)])?);
                    rest = &rest[usize::from(*len)..];
                }
                _ => return Err(format!("malformed options {bytes:02x?}")),
            }
        }
    }

    fn parse_option(&self, kind: u8, value: &[u8]) -> Result<Choice, String> {
        let word = |at: usize| {
            u32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]])
        };
        let relative = |number: u32, origin: u32| i64::from(number.wrapping_sub(origin) as i32);
        match (kind, value.len()) {
            (2, 2) => Ok(Choice::Mss(u16::from_be_bytes([value[0], value[1]]))),
            (3, 1) => Ok(Choice::Scale(value[0])),
            (4, 0) => Ok(Choice::SackOk),
            (5, len) if len > 0 && len % 8 == 0 => {
                let edge = |at| relative(word(at), self.receiver);
                Ok(Choice::Sack(
                    (0..len / 8)
                        .map(|block| (edge(8 * block), edge(8 * block + 4)))
                        .collect(),
                ))
            }
            (8, 8) => Ok(Choice::Stamp(
                Some(relative(word(0), self.sender_clock)),
                Some(relative(word(4), self.receiver_clock)),
            )),
            (2..=5 | 8, _) => Err(format!("option {kind} with {} bytes", value.len())),
            _ => Ok(Choice::Other(kind, value.to_vec())),
        }
    }
}
