//! Ethernet frames and IP packets as bytes, written from RFC 791, 826, 1071 and 8200 without the code
//! under test.

use std::net::{IpAddr, Ipv4Addr};

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;

/// The Internet checksum (RFC 1071) of the concatenated `parts`, each but the last of even length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum = words.fold(0u32, |sum, word| {
        let sum = sum + u32::from(word[0]) * 256 + u32::from(*word.get(1).unwrap_or(&0));
        (sum & 0xffff) + (sum >> 16)
    });
    !(sum as u16)
}

/// The pseudo-header of a transport checksum: both addresses, the protocol and the length (RFC 9293
/// §3.1, RFC 8200 §8.1; the fields of IPv6 are wider, but their sum is the same).
pub fn pseudo_header(addresses: &[u8], protocol: u8, len: usize) -> Vec<u8> {
    [addresses, &[0, protocol], &(len as u16).to_be_bytes()].concat()
}

/// An Ethernet frame.
pub fn ethernet(destination: [u8; 6], source: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&destination[..], &source, &ethertype.to_be_bytes(), payload].concat()
}

/// An ARP packet (RFC 826): operation 1 is a request, 2 a reply.
pub fn arp(operation: u16, sender: ([u8; 6], Ipv4Addr), target: ([u8; 6], Ipv4Addr)) -> Vec<u8> {
    [
        &[0, 1, 8, 0, 6, 4][..],
        &operation.to_be_bytes(),
        &sender.0,
        &sender.1.octets(),
        &target.0,
        &target.1.octets(),
    ]
    .concat()
}

/// An IP header.
#[derive(Clone, Debug)]
pub struct Ip {
    /// Source address, of the same family as the destination.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol, or next header, of the payload.
    pub protocol: u8,
    /// Hop limit, or time to live. Default 64.
    pub hop_limit: u8,
    /// TOS or traffic-class byte. Default 0.
    pub tos: u8,
    /// Identification, flags and fragment offset of IPv4. Default 0.
    pub fragment: u32,
    /// Options of IPv4, a multiple of four bytes. Default empty.
    pub options: Vec<u8>,
}

impl Ip {
    /// A header with the defaults.
    pub fn new(source: impl Into<IpAddr>, destination: impl Into<IpAddr>, protocol: u8) -> Self {
        Self {
            source: source.into(),
            destination: destination.into(),
            protocol,
            hop_limit: 64,
            tos: 0,
            fragment: 0,
            options: Vec::new(),
        }
    }

    /// The Ethertype of this header.
    pub const fn ethertype(&self) -> u16 {
        if self.source.is_ipv4() { IPV4 } else { IPV6 }
    }

    /// Both addresses, as in the header.
    ///
    /// # Panics
    /// If they are of two families.
    pub fn addresses(&self) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                [source.octets(), destination.octets()].concat()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                [source.octets(), destination.octets()].concat()
            }
            _ => panic!(
                "{} and {} are of two families",
                self.source, self.destination
            ),
        }
    }

    /// The packet with `payload`; in TCP, UDP, ICMP and ICMPv6 its checksum is replaced by a valid one.
    pub fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let mut payload = payload.to_vec();
        let at = match self.protocol {
            1 | 58 => 2,
            6 => 16,
            17 => 6,
            _ => usize::MAX,
        };
        if payload.len() >= at.saturating_add(2) {
            payload[at..at + 2].fill(0);
            let pseudo = pseudo_header(&self.addresses(), self.protocol, payload.len());
            let covered: &[u8] = if self.protocol == 1 { &[] } else { &pseudo };
            let sum = checksum(&[covered, &payload]);
            payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        self.packet_of(&payload)
    }

    /// The packet with `payload` as it is.
    pub fn packet_of(&self, payload: &[u8]) -> Vec<u8> {
        let header = if self.source.is_ipv4() {
            let len = 20 + self.options.len();
            let mut header = vec![0x40 | (len / 4) as u8, self.tos];
            header.extend(((len + payload.len()) as u16).to_be_bytes());
            header.extend(self.fragment.to_be_bytes());
            header.extend([self.hop_limit, self.protocol, 0, 0]);
            header.extend(self.addresses());
            header.extend(&self.options);
            let sum = checksum(&[&header]);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        } else {
            let mut header = vec![0x60 | self.tos >> 4, self.tos << 4, 0, 0];
            header.extend((payload.len() as u16).to_be_bytes());
            header.extend([self.protocol, self.hop_limit]);
            header.extend(self.addresses());
            header
        };
        [&header, payload].concat()
    }

    /// The Ethernet frame with [`packet`](Self::packet).
    pub fn frame(&self, destination: [u8; 6], source: [u8; 6], payload: &[u8]) -> Vec<u8> {
        ethernet(destination, source, self.ethertype(), &self.packet(payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    /// RFC 1071: the sum over a packet with its checksum is zero.
    #[test]
    fn checksums_are_valid_in_both_families() {
        let v4 = Ip::new([10, 7, 0, 1], [10, 7, 0, 2], 17);
        let v6 = Ip::new(Ipv6Addr::LOCALHOST, Ipv6Addr::from(7), 6);
        for (ip, header, transport) in [(v4, 20, 8), (v6, 40, 20)] {
            let packet = ip.packet(&vec![7; transport + 5]);
            let (head, body) = packet.split_at(header);
            let pseudo = pseudo_header(&ip.addresses(), ip.protocol, body.len());
            assert_eq!(checksum(&[&pseudo, body]), 0);
            assert!(header == 40 || checksum(&[head]) == 0);
        }
    }
}
