//! The checksum of ICMP messages: over the message (RFC 792), in IPv6 over a pseudo-header, too (RFC
//! 4443 §2.3).

use smoltcp::wire::{IpAddress, IpProtocol, checksum};

use super::{Addresses, network};

/// Writes the checksum of a message whose checksum field is zero.
pub(super) fn fill_checksum(message: &mut [u8], addresses: &Addresses) {
    let sum = if addresses.source.is_ipv4() {
        checksum::data(message)
    } else {
        let (source, destination) = network(addresses.source, addresses.destination);
        sum_v6(&source, &destination, message)
    };
    message[2..4].copy_from_slice(&(!sum).to_be_bytes());
}

/// The sum of a message and its pseudo-header.
pub(super) fn sum_v6(source: &IpAddress, destination: &IpAddress, message: &[u8]) -> u16 {
    let pseudo = checksum::pseudo_header(
        source,
        destination,
        IpProtocol::Icmpv6,
        message.len() as u32,
    );
    checksum::combine(&[pseudo, checksum::data(message)])
}
