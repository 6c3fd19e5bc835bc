//! ARP: the hardware address of an IPv4 neighbor (RFC 826).

use std::net::IpAddr;

use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol};

use super::{Addresses, Malformed, Parsed};

/// Bytes of a message about IPv4 addresses over Ethernet.
pub(crate) const ARP_LEN: usize = 28;

/// Reads a message.
pub(super) fn parse_arp(payload: &[u8]) -> Result<Parsed<'_>, Malformed> {
    let packet = ArpPacket::new_checked(payload).map_err(|_| Malformed::Header)?;
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr,
        target_protocol_addr,
        ..
    } = ArpRepr::parse(&packet).map_err(|_| Malformed::Header)?
    else {
        return Ok(Parsed::Other);
    };
    match operation {
        ArpOperation::Request | ArpOperation::Reply => Ok(Parsed::Arp {
            request: operation == ArpOperation::Request,
            sender_mac: source_hardware_addr,
            sender: source_protocol_addr,
            target: target_protocol_addr,
        }),
        ArpOperation::Unknown(_) => Ok(Parsed::Other),
    }
}

/// Writes an ARP request for `target`, or a reply that `addresses.source` is at
/// `addresses.source_mac`; `None` unless both are of IPv4.
pub(crate) fn write_arp(frame: &mut [u8], addresses: &Addresses, request: bool) -> Option<usize> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (addresses.source, addresses.destination)
    else {
        return None;
    };
    let repr = ArpRepr::EthernetIpv4 {
        operation: if request {
            ArpOperation::Request
        } else {
            ArpOperation::Reply
        },
        source_hardware_addr: addresses.source_mac,
        source_protocol_addr: source,
        target_hardware_addr: if request {
            EthernetAddress([0; 6])
        } else {
            addresses.destination_mac
        },
        target_protocol_addr: destination,
    };
    let len = addresses.link_len() + repr.buffer_len();
    let message = addresses.write_link(&mut frame[..len], EthernetProtocol::Arp);
    repr.emit(&mut ArpPacket::new_unchecked(message));
    Some(len)
}
