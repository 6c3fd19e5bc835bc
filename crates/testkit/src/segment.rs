//! [`Segment`]: a TCP segment, serialized and parsed independently of the code under test.

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// No more data from the sender.
pub const FIN: u16 = 1;
/// Synchronize sequence numbers.
pub const SYN: u16 = 2;
/// Reset the connection.
pub const RST: u16 = 4;
/// Push.
pub const PSH: u16 = 8;
/// The acknowledgment field is significant.
pub const ACK: u16 = 16;

/// A TCP segment with the sequence numbers on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// The nine flags, with AE (RFC 9768) as the highest.
    pub flags: u16,
    /// Window, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// The ECN field of its packet.
    pub ecn: u8,
    /// Options; padded with zeros to a multiple of four bytes, at most 40.
    pub options: Vec<u8>,
    /// Payload.
    pub payload: Vec<u8>,
}

impl Segment {
    /// Header and payload (RFC 9293 §3.1) with a checksum of zero, which [`Ip::packet`](crate::Ip::packet)
    /// fills in.
    ///
    /// # Panics
    /// If the options exceed 40 bytes.
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

    /// Parses `tcp`, the payload of a packet with the ECN field `ecn`.
    ///
    /// # Panics
    /// If `tcp` is truncated or its data offset is wrong.
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

    /// Sequence numbers that it consumes.
    pub fn len(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags & SYN != 0)
            + u32::from(self.flags & FIN != 0)
    }

    /// True if it consumes no sequence number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of option `kind`, if present.
    ///
    /// # Panics
    /// If an option is truncated.
    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        let mut rest = &self.options[..];
        loop {
            match rest {
                [] | [0, ..] | [_] => return None,
                [1, after @ ..] => rest = after,
                [found, len, ..] if *found == kind => return Some(&rest[2..usize::from(*len)]),
                [_, len, ..] => rest = &rest[usize::from(*len)..],
            }
        }
    }
}
