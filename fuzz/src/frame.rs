//! Frames from the peer to the host, with right checksums, and frames of the host taken apart,
//! their checksums verified.
//!
//! Written from RFC 791, 826 and 9293 without the code under test.

use std::net::Ipv4Addr;

/// The host under test.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);
/// Its hardware address.
pub const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The peer that the fuzzer plays.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);
/// The peer's hardware address.
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const PROTOCOL_TCP: u8 = 6;

/// A TCP segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    pub source_port: u16,
    pub destination_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// At most 40 bytes; padded with zeroes to a multiple of four.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Tcp {
    /// Sequence space it takes.
    pub fn len(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags & SYN != 0)
            + u32::from(self.flags & FIN != 0)
    }

    /// True for a segment that takes no sequence space.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of option `kind`, if it is there.
    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        let mut rest = &self.options[..];
        loop {
            match rest {
                [0, ..] | [] | [_] => return None,
                [1, after @ ..] => rest = after,
                [found, len, ..] => {
                    let value = rest
                        .get(2..usize::from(*len))
                        .expect("the host's options are well-formed");
                    if *found == kind {
                        return Some(value);
                    }
                    rest = &rest[usize::from(*len)..];
                }
            }
        }
    }

    /// The frame that carries it from the peer to the host.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 0);
        let mut bytes = Vec::new();
        bytes.extend(self.source_port.to_be_bytes());
        bytes.extend(self.destination_port.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([(5 + options.len() as u8 / 4) << 4, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.extend(&self.payload);
        let sum = checksum(&[&pseudo_header(PEER, HOST, bytes.len()), &bytes]);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        ipv4(PROTOCOL_TCP, &bytes)
    }

    /// The segment in a frame of the host; `None` if it holds none.
    ///
    /// # Panics
    /// If a length or a checksum in it is wrong.
    pub fn from_frame(frame: &[u8]) -> Option<Self> {
        if frame[12..14] != IPV4.to_be_bytes() || frame[23] != PROTOCOL_TCP {
            return None;
        }
        let (ip, tcp) = frame[14..].split_at(20);
        assert_eq!(checksum(&[ip]), 0, "the host wrote a wrong IP checksum");
        assert_eq!(
            usize::from(u16::from_be_bytes([ip[2], ip[3]])),
            frame.len() - 14,
            "the host wrote a wrong length"
        );
        let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
        let sum = checksum(&[&pseudo_header(address(12), address(16), tcp.len()), tcp]);
        assert_eq!(sum, 0, "the host wrote a wrong TCP checksum");
        let u16_at = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let u32_at =
            |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let header = usize::from(tcp[12] >> 4) * 4;
        Some(Self {
            source_port: u16_at(0),
            destination_port: u16_at(2),
            seq: u32_at(4),
            ack: u32_at(8),
            flags: tcp[13],
            window: u16_at(14),
            options: tcp[20..header].to_vec(),
            payload: tcp[header..].to_vec(),
        })
    }
}

fn pseudo_header(source: Ipv4Addr, destination: Ipv4Addr, len: usize) -> Vec<u8> {
    let len = (len as u16).to_be_bytes();
    [
        &source.octets()[..],
        &destination.octets(),
        &[0, PROTOCOL_TCP],
        &len,
    ]
    .concat()
}

/// An IPv4 packet from the peer to the host, in its frame.
pub fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    header[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    header[12..16].copy_from_slice(&PEER.octets());
    header[16..20].copy_from_slice(&HOST.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(HOST_MAC, IPV4, &[&header, payload].concat())
}

/// A frame of the peer.
pub fn ethernet(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &PEER_MAC, &kind.to_be_bytes(), payload].concat()
}

/// An ARP packet: `operation` 1 asks, 2 answers; `sender` claims to be at `mac`.
pub fn arp(operation: u16, mac: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let payload = [
        &[0, 1, 8, 0, 6, 4][..],
        &operation.to_be_bytes(),
        &mac,
        &sender.octets(),
        &HOST_MAC,
        &target.octets(),
    ];
    ethernet([0xff; 6], ARP, &payload.concat())
}

/// The Internet checksum (RFC 1071) of `parts` one after the other, each but the last of even
/// length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum = words.fold(0u32, |sum, word| {
        let sum = sum + u32::from(word[0]) * 256 + u32::from(*word.get(1).unwrap_or(&0));
        (sum & 0xffff) + (sum >> 16)
    });
    !(sum as u16)
}
