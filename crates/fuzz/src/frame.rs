//! Frames from the peer to the host, with right checksums, and frames of the host taken apart,
//! their checksums verified.
//!
//! Written from RFC 791, 826 and 9293 without the code under test.

use std::net::Ipv4Addr;

use tautline_testkit::{Ip, frame, pseudo_header};

/// The host under test.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);
/// Its hardware address.
pub const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The peer that the fuzzer plays.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);
/// The peer's hardware address.
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

pub use tautline_testkit::{ACK, FIN, RST, SYN, Segment as Tcp, TCP, checksum};

/// Segments in frames between the peer and the host.
pub trait Framed: Sized {
    /// The frame that carries it from the peer to the host.
    fn to_frame(&self) -> Vec<u8>;

    /// The segment in a frame of the host; `None` if it holds none.
    ///
    /// # Panics
    /// If a length or a checksum in it is wrong.
    fn from_frame(frame: &[u8]) -> Option<Self>;
}

impl Framed for Tcp {
    fn to_frame(&self) -> Vec<u8> {
        let mut segment = self.clone();
        segment.options.truncate(40);
        to_host(TCP).frame(HOST_MAC, PEER_MAC, &segment.to_bytes())
    }

    fn from_frame(frame: &[u8]) -> Option<Self> {
        if frame[12..14] != frame::IPV4.to_be_bytes() || frame[23] != TCP {
            return None;
        }
        let (ip, tcp) = frame[14..].split_at(20);
        assert_eq!(checksum(&[ip]), 0, "the host wrote a wrong IP checksum");
        assert_eq!(
            usize::from(u16::from_be_bytes([ip[2], ip[3]])),
            frame.len() - 14,
            "the host wrote a wrong length"
        );
        let sum = checksum(&[&pseudo_header(&ip[12..], TCP, tcp.len()), tcp]);
        assert_eq!(sum, 0, "the host wrote a wrong TCP checksum");
        Some(Self::from_bytes(tcp, ip[1]))
    }
}

fn to_host(protocol: u8) -> Ip {
    Ip::new(PEER, HOST, protocol)
}

/// An IPv4 packet from the peer to the host, in its frame, with `payload` as it is.
pub fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(HOST_MAC, frame::IPV4, &to_host(protocol).packet_of(payload))
}

/// A frame of the peer.
pub fn ethernet(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    frame::ethernet(to, PEER_MAC, kind, payload)
}

/// An ARP packet: `operation` 1 asks, 2 answers; `sender` claims to be at `mac`.
pub fn arp(operation: u16, mac: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let packet = frame::arp(operation, (mac, sender), (HOST_MAC, target));
    ethernet([0xff; 6], frame::ARP, &packet)
}

/// The sequence number of a SYN over IPv4 without IP options, whatever else is wrong with the frame.
pub fn syn_number(frame: &[u8]) -> Option<u32> {
    let (ethernet_ip, tcp) = frame.split_at_checked(34)?;
    let is_tcp = ethernet_ip[12..14] == frame::IPV4.to_be_bytes() && ethernet_ip[23] == TCP;
    let number = tcp.get(4..8)?.try_into().ok()?;
    (is_tcp && u16::from(*tcp.get(13)?) & SYN != 0).then(|| u32::from_be_bytes(number))
}
