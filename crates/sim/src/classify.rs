//! Metadata of a frame for the qdisc of a link: flow, hosts, TOS and priority, from its Ethernet,
//! IP and transport headers.
//!
//! The hash key is fixed, so that simulations are reproducible.

use siphasher::sip::SipHasher13;
use tautline_base::headers::{ETHERNET_HEADER as IP, IPV4, IPV6, IPV6_HEADER, TCP, UDP, u16_at};
use tautline_base::{HeapFrame, Packet};
use tautline_qdisc::pfifo_fast::priority_of_tos;

/// Sets the metadata of `packet` from its headers. Frames other than IP form one flow.
pub(crate) fn describe(packet: Packet<HeapFrame>) -> Packet<HeapFrame> {
    match Headers::read(packet.bytes()) {
        None => packet,
        Some(Headers {
            tos,
            source,
            destination,
            flow,
        }) => {
            // As Linux when it forwards (`net/ipv4/ip_forward.c` `ip_forward`).
            packet
                .with_tos(tos, priority_of_tos(tos))
                .with_hashes(flow, source, destination)
        }
    }
}

/// [`describe`] for a FIFO, which needs only the length.
pub(crate) fn describe_in_order(packet: Packet<HeapFrame>) -> Packet<HeapFrame> {
    // `Item::finish` writes the TOS byte of the metadata back.
    let tos = tos(packet.bytes()).unwrap_or_default();
    packet.with_tos(tos, 0)
}

/// True for an IPv4 packet, whose checksums cover everything.
pub(crate) fn is_ipv4(frame: &[u8]) -> bool {
    u16_at(frame, IP - 2) == Some(IPV4)
}

fn is_ipv6(frame: &[u8]) -> bool {
    u16_at(frame, IP - 2) == Some(IPV6)
}

/// The TOS byte or traffic class of an IP packet.
pub(crate) fn tos(frame: &[u8]) -> Option<u8> {
    if is_ipv6(frame) {
        return Some(frame.get(IP)? << 4 | frame.get(IP + 1)? >> 4);
    }
    if is_ipv4(frame) {
        frame.get(IP + 1).copied()
    } else {
        None
    }
}

struct Headers {
    tos: u8,
    source: u32,
    destination: u32,
    flow: u64,
}

impl Headers {
    fn read(frame: &[u8]) -> Option<Self> {
        let tos = tos(frame)?;
        let (addresses, protocol, header_len) = if is_ipv6(frame) {
            (
                frame.get(IP + 8..IP + 40)?,
                *frame.get(IP + 6)?,
                IPV6_HEADER,
            )
        } else {
            (
                frame.get(IP + 12..IP + 20)?,
                *frame.get(IP + 9)?,
                usize::from(frame[IP] & 0x0f) * 4,
            )
        };
        let ports = match protocol {
            TCP | UDP => frame.get(IP + header_len..IP + header_len + 4)?,
            _ => &[],
        };
        let (source, destination) = addresses.split_at(addresses.len() / 2);
        // Side by side they are hashed in one go: piece by piece costs 1.4 times the instructions.
        let mut flow = [0; LONGEST_FLOW];
        let len = addresses.len() + 1 + ports.len();
        flow[..addresses.len()].copy_from_slice(addresses);
        flow[addresses.len()] = protocol;
        flow[addresses.len() + 1..len].copy_from_slice(ports);
        Some(Self {
            tos,
            source: hash(source) as u32,
            destination: hash(destination) as u32,
            flow: hash(&flow[..len]),
        })
    }
}

/// Bytes of two IPv6 addresses, a protocol and two ports.
const LONGEST_FLOW: usize = 2 * 16 + 1 + 4;

fn hash(bytes: &[u8]) -> u64 {
    SipHasher13::new_with_keys(0x7461_7574, 0x6c69_6e65).hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::{Frame, Item};

    fn tcp(source_port: u16) -> Packet<HeapFrame> {
        let mut frame = HeapFrame::new();
        frame.bytes_mut()[12..14].copy_from_slice(&IPV4.to_be_bytes());
        frame.bytes_mut()[14..16].copy_from_slice(&[0x45, 0xb8 | 2]);
        frame.bytes_mut()[23] = TCP;
        frame.bytes_mut()[26..34].copy_from_slice(&[10, 7, 0, 1, 10, 7, 0, 2]);
        frame.bytes_mut()[34..36].copy_from_slice(&source_port.to_be_bytes());
        describe(Packet::new(frame, 60))
    }

    #[test]
    fn ports_make_flows_and_addresses_make_hosts() {
        let (a, b) = (tcp(1), tcp(2));
        assert_ne!(a.flow_hash(), b.flow_hash());
        assert_eq!(a.host_hashes(), b.host_hashes());
        assert_eq!(a.flow_hash(), tcp(1).flow_hash());
        assert_eq!(a.tos(), 0xba);
    }

    #[test]
    fn ipv6_has_flows_hosts_and_a_class() {
        let flow = |port: u8, host: u8| {
            let mut frame = HeapFrame::new();
            frame.bytes_mut()[12..16].copy_from_slice(&[0x86, 0xdd, 0x6b, 0xa0]);
            (
                frame.bytes_mut()[20],
                frame.bytes_mut()[37],
                frame.bytes_mut()[55],
            ) = (TCP, host, port);
            let packet = describe(Packet::new(frame, 80));
            (packet.flow_hash(), packet.host_hashes(), packet.tos())
        };
        let (a, b, c) = (flow(1, 1), flow(2, 1), flow(1, 2));
        assert_ne!(a.0, b.0);
        assert_eq!((a.1, a.2), (b.1, 0xba));
        assert!(a.1.0 != c.1.0 && a.1.1 == c.1.1);
    }

    #[test]
    fn short_and_foreign_frames_are_one_flow() {
        for len in 0..38 {
            assert_eq!(
                describe(Packet::new(HeapFrame::new(), len)).flow_hash(),
                0,
                "len {len}"
            );
        }
    }
}
