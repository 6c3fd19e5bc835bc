//! [`FlowKey`]: parses a frame's headers once for the schedulers, with keyed hashes.
//!
//! Programs that queue frames they did not make (a router, a VPN, an adapter beneath another stack)
//! parse each as it comes in and put the [`FlowInfo`] into the packet. The hashes are SipHash-1-3
//! under a secret key, so that a peer cannot choose addresses and ports that share a queue (hash
//! flooding).

use tautline_base::headers::{ETHERNET_HEADER, Headers};
use tautline_base::{HashKey, Medium};

use crate::pfifo_fast::priority_of_tos;

/// A secret that keys the hashes of flows and hosts.
///
/// ```
/// use tautline_base::{HeapFrame, Item, Packet};
/// use tautline_qdisc::FlowKey;
///
/// let key = FlowKey::from_seed(1); // in a program: FlowKey::new(HashKey::random())
/// let frame = HeapFrame::new(); // holds 60 received bytes
/// # use tautline_base::Frame;
/// let info = key.parse(&frame.bytes()[..60]);
/// let packet = Packet::new(frame, 60)
///     .with_hashes(info.flow, info.source, info.destination)
///     .with_tos(info.tos, info.priority);
/// assert_eq!(packet.flow_hash(), info.flow);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey(HashKey);

/// The metadata of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowInfo {
    /// Of the addresses, protocol and ports, of fragments without the ports; of a frame that is not
    /// IP, of its addresses and type.
    pub flow: u64,
    /// Of the source address.
    pub source: u32,
    /// Of the destination address.
    pub destination: u32,
    /// The TOS or traffic-class byte; 0 if the frame is not IP.
    pub tos: u8,
    /// The local priority that Linux derives from it.
    pub priority: u8,
}

/// Separates the uses of one key.
#[derive(Hash)]
enum Use {
    Flow,
    Link,
    Host,
}

impl FlowKey {
    /// Hashes under `key`.
    pub const fn new(key: HashKey) -> Self {
        Self(key)
    }

    /// The key of `seed`: a random number, or a fixed one where runs must repeat.
    pub fn from_seed(seed: u64) -> Self {
        Self(HashKey::from_seed(seed))
    }

    /// Parses an Ethernet frame.
    pub fn parse(&self, frame: &[u8]) -> FlowInfo {
        self.parse_on(Medium::Ethernet, frame)
    }

    /// Parses a frame of `medium`: with [`Medium::Ip`] a packet without a link header, as a TUN interface
    /// or a tunnel carries it.
    pub fn parse_on(&self, medium: Medium, frame: &[u8]) -> FlowInfo {
        let headers = Headers::parse(frame, medium.link_header());
        let Some(ip) = headers.ip else {
            let link = frame.get(..ETHERNET_HEADER).unwrap_or(frame);
            return FlowInfo {
                flow: self.0.hash((Use::Link, link)),
                ..FlowInfo::default()
            };
        };
        let tos = ip.tos(frame);
        // All fragments of a datagram are of one flow, and only the first has the ports.
        let ports = ip.ports.filter(|_| !ip.is_fragment);
        FlowInfo {
            flow: self
                .0
                .hash((Use::Flow, (ip.source, ip.destination, ip.protocol, ports))),
            source: self.0.hash((Use::Host, ip.source)) as u32,
            destination: self.0.hash((Use::Host, ip.destination)) as u32,
            tos,
            priority: priority_of_tos(tos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn udp(tos: u8, source: [u8; 4], port: u16) -> Vec<u8> {
        let mut frame = std::vec![0u8; 60];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14..24].copy_from_slice(&[0x45, tos, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[26..30].copy_from_slice(&source);
        frame[30..34].copy_from_slice(&[192, 0, 2, 9]);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame
    }

    #[test]
    fn flows_hosts_and_classes_are_told_apart() {
        let key = FlowKey::from_seed(1);
        let one = key.parse(&udp(0x10, [192, 0, 2, 1], 1000));
        assert_eq!((one.tos, one.priority), (0x10, 6));
        let (other_port, other_host) = (
            key.parse(&udp(0x10, [192, 0, 2, 1], 1001)),
            key.parse(&udp(0x10, [192, 0, 2, 2], 1000)),
        );
        assert!(one.flow != other_port.flow && one.flow != other_host.flow);
        assert_eq!(
            (one.source, one.destination),
            (other_port.source, other_port.destination)
        );
        assert!(one.source != other_host.source && one.destination == other_host.destination);
        assert_eq!(
            one.flow,
            key.parse(&udp(0x20, [192, 0, 2, 1], 1000)).flow,
            "the class is not part of the flow"
        );
        assert_ne!(
            one.flow,
            FlowKey::from_seed(2)
                .parse(&udp(0x10, [192, 0, 2, 1], 1000))
                .flow
        );
    }

    /// Only the first fragment has the ports: in a flow of its own it would be reordered with the
    /// others (Linux `__skb_flow_dissect` without `FLOW_DISSECTOR_F_PARSE_1ST_FRAG`).
    #[test]
    fn all_fragments_of_a_datagram_are_of_one_flow() {
        let key = FlowKey::from_seed(1);
        let whole = udp(0, [192, 0, 2, 1], 1000);
        let fragment = |more: u8, offset: u8| {
            let mut frame = whole.clone();
            (frame[20], frame[21]) = (more, offset);
            key.parse(&frame)
        };
        let (more, none) = (0x20, 0);
        assert_eq!(fragment(more, 0), fragment(more, 100));
        assert_eq!(fragment(more, 0), fragment(none, 200));
        assert_ne!(fragment(more, 0).flow, key.parse(&whole).flow);
        let dont_fragment = 0x40;
        assert_eq!(fragment(dont_fragment, 0), key.parse(&whole));

        let fragment = |offset: u16| {
            let mut frame = std::vec![0u8; 14 + 40 + 8 + 8];
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            (frame[14], frame[20]) = (0x60, 44);
            frame[54] = 17;
            frame[56..58].copy_from_slice(&(offset | 1).to_be_bytes());
            frame[62..66].copy_from_slice(&[3, 232, 0, 53]);
            key.parse(&frame)
        };
        assert_eq!(fragment(0), fragment(800));
    }

    #[test]
    fn a_packet_without_a_link_header_is_of_the_same_flow_as_with_one() {
        let key = FlowKey::from_seed(1);
        let frame = udp(0xb8, [192, 0, 2, 1], 1000);
        let packet = &frame[ETHERNET_HEADER..];
        assert_eq!(key.parse_on(Medium::Ip, packet), key.parse(&frame));
        for len in 0..packet.len() {
            key.parse_on(Medium::Ip, &packet[..len]);
        }
    }

    #[test]
    fn what_is_no_ip_has_a_flow_too() {
        let key = FlowKey::from_seed(1);
        let mut arp = std::vec![0; 42];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let info = key.parse(&arp);
        arp[3] = 1;
        assert_ne!(info.flow, key.parse(&arp).flow);
        assert_eq!((info.source, info.tos), (0, 0));
        for len in 0..60 {
            key.parse(&udp(0, [0; 4], 1)[..len]);
        }
    }
}
