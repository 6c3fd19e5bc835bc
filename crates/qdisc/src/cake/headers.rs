//! The network header of a packet, behind VLAN tags or not.

use tautline_base::{Item, Medium};

/// Tags a frame may carry one behind the other (802.1ad).
const MOST_TAGS: usize = 2;

/// The type of what a packet's link header announces, or the version of a packet without one, and its
/// bytes; `None` if the packet does not show them.
pub(super) fn network(packet: &impl Item) -> Option<([u8; 2], &[u8])> {
    let (header, mut bytes) = packet.headers().split_at_checked(packet.network_offset())?;
    if header.is_empty() {
        return Some((Medium::Ip.ethertype(bytes)?.to_be_bytes(), bytes));
    }
    let mut ethertype = *header.last_chunk()?;
    for _ in 0..MOST_TAGS {
        if !matches!(ethertype, [0x81, 0x00] | [0x88, 0xa8]) {
            break;
        }
        let (tag, rest) = bytes.split_first_chunk::<4>()?;
        (ethertype, bytes) = ([tag[2], tag[3]], rest);
    }
    Some((ethertype, bytes))
}
