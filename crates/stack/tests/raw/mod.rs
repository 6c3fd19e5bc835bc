//! [`Segment`]: a TCP segment with the numbers of the wire, written and read from the RFCs, without
//! the code under test.
#![expect(
    unreachable_pub,
    reason = "a module shared by test files; each is a crate of its own"
)]

/// A TCP segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub source_port: u16,
    pub destination_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u16,
    pub window: u16,
    pub urgent: u16,
    /// The ECN field of its packet.
    pub ecn: u8,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Segment {
    /// Header and payload (RFC 9293 §3.1). The checksum, which depends on the packet, is zero.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        assert!(options.len() <= 40, "options fit the header");
        let mut bytes = Vec::new();
        bytes.extend(self.source_port.to_be_bytes());
        bytes.extend(self.destination_port.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([
            (5 + options.len() as u8 / 4) << 4 | (self.flags >> 8) as u8,
            self.flags as u8,
        ]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend(options);
        bytes.extend(&self.payload);
        bytes
    }

    /// The segment in `tcp`, which a packet with this ECN field held.
    pub fn from_bytes(tcp: &[u8], ecn: u8) -> Self {
        let u16_at = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let u32_at =
            |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let header = usize::from(tcp[12] >> 4) * 4;
        Self {
            source_port: u16_at(0),
            destination_port: u16_at(2),
            seq: u32_at(4),
            ack: u32_at(8),
            flags: u16_at(12) & 0x1ff,
            window: u16_at(14),
            urgent: u16_at(18),
            ecn,
            options: tcp[20..header].to_vec(),
            payload: tcp[header..].to_vec(),
        }
    }
}

/// The protocol's number.
pub const TCP: u8 = 6;

/// What a checksum covers beside the packet: the addresses, the protocol, the length (RFC 9293
/// §3.1, RFC 8200 §8.1: the numbers are wider in IPv6, but the sum is the same).
pub fn pseudo_header(ends: &[u8], protocol: u8, len: usize) -> Vec<u8> {
    [ends, &[0, protocol], &(len as u16).to_be_bytes()].concat()
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
