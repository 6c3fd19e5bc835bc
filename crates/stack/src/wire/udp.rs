//! Parses and emits UDP datagrams (RFC 768; over IPv6 RFC 8200 §8.1).

use std::net::IpAddr;

use smoltcp::wire::{IpProtocol, UdpPacket};
use tautline_base::{Ecn, Offload};

use super::{Addresses, Ends, Malformed, network, write_ip};

/// The number that announces UDP.
pub(crate) const PROTOCOL: u8 = 17;
/// Bytes of a UDP header.
pub(crate) const UDP_HEADER: usize = 8;

/// A datagram as received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) payload: &'a [u8],
}

/// Parses a datagram. IPv4 allows a checksum of zero (no checksum), IPv6 does not.
pub(super) fn parse_udp<'a>(
    ends: &Ends,
    offload: Offload,
    body: &'a [u8],
) -> Result<Datagram<'a>, Malformed> {
    let packet = UdpPacket::new_checked(body).map_err(|_| Malformed::Header)?;
    let (source, destination) = network(ends.source, ends.destination);
    let checked = match packet.checksum() {
        0 => matches!(ends.source, IpAddr::V4(_)),
        _ if offload.checksum_known => true,
        _ => packet.verify_checksum(&source, &destination),
    };
    if !checked {
        return Err(Malformed::Checksum);
    }
    Ok(Datagram {
        source_port: packet.src_port(),
        destination_port: packet.dst_port(),
        payload: packet.payload(),
    })
}

/// Writes a datagram from and to these ports whose payload is `payload.0` followed by `payload.1`.
/// Returns the frame's length.
///
/// # Panics
/// If `frame` is too short: callers refuse datagrams that exceed the MTU.
pub(crate) fn write_udp(
    frame: &mut [u8],
    addresses: &Addresses,
    (source_port, destination_port): (u16, u16),
    payload: (&[u8], &[u8]),
) -> usize {
    let len = UDP_HEADER + payload.0.len() + payload.1.len();
    let body = write_ip(frame, addresses, IpProtocol::Udp, Ecn::NotEct, len);
    body[UDP_HEADER..][..payload.0.len()].copy_from_slice(payload.0);
    body[UDP_HEADER + payload.0.len()..].copy_from_slice(payload.1);
    let mut packet = UdpPacket::new_unchecked(body);
    packet.set_src_port(source_port);
    packet.set_dst_port(destination_port);
    packet.set_len(len as u16);
    let (source, destination) = network(addresses.source, addresses.destination);
    // A sum of zero is written as all ones: zero means no checksum.
    packet.fill_checksum(&source, &destination);
    addresses.headers_len() + len
}
