//! The router of a port: neighbor discovery (RFC 4861), and an address without DHCP (RFC 4862) in the
//! port's own prefix. Hosts at different ports may have equal link-local addresses and none may claim
//! another's, so the switch answers: to them for the router, and to the stack for them. It asks a port
//! that the stack wants to reach before anything came from there.

use std::net::Ipv6Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IPV6_LINK_LOCAL_ALL_NODES,
    Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags,
    NdiscPrefixInfoFlags, NdiscPrefixInformation, NdiscRepr, NdiscRouterFlags,
};

use super::{MAC, Subnet};

/// Neighbor discovery is of this link: routers forward no packet with it (RFC 4861 §3.1).
const HOP_LIMIT: u8 = 255;
/// RFC 4861 §6.2.1's default for advertisements every ten minutes.
const ROUTER_LIFETIME: Duration = Duration::from_secs(1800);
/// Time between two unsolicited advertisements (`MaxRtrAdvInterval`).
pub(super) const INTERVAL: std::time::Duration = std::time::Duration::from_secs(600);
/// Lifetimes of an address, renewed by every advertisement.
const VALID: Duration = Duration::from_secs(86_400);
const PREFERRED: Duration = Duration::from_secs(14_400);
/// Recursive DNS server, an option of 24 bytes with one address (RFC 8106 §5.1).
const DNS_SERVER: [u8; 2] = [25, 3];
const DNS_SERVER_LEN: usize = 24;
/// All hosts on the link.
const ALL_NODES: EthernetAddress = EthernetAddress([0x33, 0x33, 0, 0, 0, 1]);

/// An address and the hardware address that goes with it.
pub(super) type Host = (Ipv6Addr, EthernetAddress);
/// The router.
const OWN: Host = (Subnet::ROUTER, EthernetAddress(MAC));

/// A message about neighbors, and the addresses that it came from.
struct Message {
    sender: Ipv6Addr,
    mac: EthernetAddress,
    subject: Subject,
}

/// The subject of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Routers, which the sender wants to know.
    Routers,
    /// A neighbor whose hardware address the sender wants.
    Wanted(Ipv6Addr),
    /// A neighbor at the sender's hardware address.
    Offered(Ipv6Addr),
}

/// The message about neighbors in `frame`, if there is one.
fn message(frame: &[u8]) -> Option<Message> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    if frame.ethertype() != EthernetProtocol::Ipv6 {
        return None;
    }
    let packet = Ipv6Packet::new_checked(frame.payload()).ok()?;
    if packet.next_header() != IpProtocol::Icmpv6 || packet.hop_limit() != HOP_LIMIT {
        return None;
    }
    let (sender, to) = (packet.src_addr(), packet.dst_addr());
    let message = Icmpv6Packet::new_checked(packet.payload()).ok()?;
    let checksums = ChecksumCapabilities::default();
    let message = Icmpv6Repr::parse(&sender, &to, &message, &checksums).ok()?;
    let subject = match message {
        Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { .. }) => Subject::Routers,
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, .. }) => {
            Subject::Wanted(target_addr)
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { target_addr, .. }) => {
            Subject::Offered(target_addr)
        }
        _ => return None,
    };
    Some(Message {
        sender,
        mac: frame.src_addr(),
        subject,
    })
}

/// The address that a neighbor solicitation in `frame` is about, and the host that wants it.
pub(super) fn wanted(frame: &[u8]) -> Option<(Ipv6Addr, Host)> {
    let message = message(frame)?;
    match message.subject {
        Subject::Wanted(address) => Some((address, (message.sender, message.mac))),
        _ => None,
    }
}

/// The neighbor that an advertisement in `frame` offers.
pub(super) fn offered(frame: &[u8]) -> Option<Host> {
    let message = message(frame)?;
    match message.subject {
        Subject::Offered(address) => Some((address, message.mac)),
        _ => None,
    }
}

/// The frame in which `neighbor` answers a solicitation of `to`.
pub(super) fn neighbor(neighbor: Host, to: Host) -> Vec<u8> {
    let (target_addr, mac) = neighbor;
    let reply = NdiscRepr::NeighborAdvert {
        flags: NdiscNeighborFlags::OVERRIDE | NdiscNeighborFlags::SOLICITED,
        target_addr,
        lladdr: Some(mac.into()),
    };
    frame_of(reply, neighbor, to, &[])
}

/// The frame in which the router solicits the neighbor at `address`, by its group (RFC 4291 §2.7.1).
pub(super) fn solicitation(address: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = address.octets();
    let [high, low] = [u16::from_be_bytes([0xff, a]), u16::from_be_bytes([b, c])];
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, high, low);
    let solicitation = NdiscRepr::NeighborSolicit {
        target_addr: address,
        lladdr: Some(OWN.1.into()),
    };
    let to = (group, EthernetAddress([0x33, 0x33, 0xff, a, b, c]));
    frame_of(solicitation, OWN, to, &[])
}

/// Whether `frame` is for the router.
pub(super) fn is_question(frame: &[u8]) -> bool {
    let own = [Subject::Routers, Subject::Wanted(Subnet::ROUTER)];
    message(frame).is_some_and(|message| own.contains(&message.subject))
}

/// The frame with the answer to the question in `frame` from `port`.
pub(super) fn answer(subnet: Subnet, port: usize, mtu: usize, frame: &[u8]) -> Option<Vec<u8>> {
    let Message {
        sender,
        mac,
        subject,
    } = message(frame)?;
    match subject {
        Subject::Routers => return Some(advertisement(subnet, port, mtu)),
        Subject::Wanted(Subnet::ROUTER) => {}
        _ => return None,
    }
    // A host that probes for a duplicate has no address yet.
    let is_probe = sender.is_unspecified();
    let solicited = if is_probe {
        NdiscNeighborFlags::empty()
    } else {
        NdiscNeighborFlags::SOLICITED
    };
    let reply = NdiscRepr::NeighborAdvert {
        flags: NdiscNeighborFlags::ROUTER | NdiscNeighborFlags::OVERRIDE | solicited,
        target_addr: Subnet::ROUTER,
        lladdr: Some(EthernetAddress(MAC).into()),
    };
    let to = if is_probe {
        (IPV6_LINK_LOCAL_ALL_NODES, ALL_NODES)
    } else {
        (sender, mac)
    };
    Some(frame_of(reply, OWN, to, &[]))
}

/// The frame that advertises the router, the prefix of `port` and the name server to all hosts there.
pub(super) fn advertisement(subnet: Subnet, port: usize, mtu: usize) -> Vec<u8> {
    let prefix = NdiscPrefixInformation {
        prefix_len: Subnet::PREFIX_V6,
        flags: NdiscPrefixInfoFlags::ON_LINK | NdiscPrefixInfoFlags::ADDRCONF,
        valid_lifetime: VALID,
        preferred_lifetime: PREFERRED,
        prefix: subnet.network_v6(port),
    };
    let message = NdiscRepr::RouterAdvert {
        hop_limit: 64,
        flags: NdiscRouterFlags::empty(),
        router_lifetime: ROUTER_LIFETIME,
        reachable_time: Duration::ZERO,
        retrans_time: Duration::ZERO,
        lladdr: Some(EthernetAddress(MAC).into()),
        mtu: Some(mtu as u32),
        prefix_info: Some(prefix),
    };
    let lifetime = (ROUTER_LIFETIME.secs() as u32).to_be_bytes();
    let resolver = subnet.resolver_v6().octets();
    let server = [&DNS_SERVER[..], &[0; 2], &lifetime, &resolver].concat();
    debug_assert_eq!(server.len(), DNS_SERVER_LEN);
    let to = (IPV6_LINK_LOCAL_ALL_NODES, ALL_NODES);
    frame_of(message, OWN, to, &server)
}

/// The frame with `message` and a further option.
fn frame_of(message: NdiscRepr<'_>, from: Host, to: Host, option: &[u8]) -> Vec<u8> {
    let ip = Ipv6Repr {
        src_addr: from.0,
        dst_addr: to.0,
        next_header: IpProtocol::Icmpv6,
        payload_len: message.buffer_len() + option.len(),
        hop_limit: HOP_LIMIT,
    };
    let ethernet = EthernetRepr {
        src_addr: from.1,
        dst_addr: to.1,
        ethertype: EthernetProtocol::Ipv6,
    };
    let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len() + ip.payload_len];
    let mut outer = EthernetFrame::new_unchecked(&mut frame[..]);
    ethernet.emit(&mut outer);
    let mut packet = Ipv6Packet::new_unchecked(outer.payload_mut());
    ip.emit(&mut packet);
    let payload = packet.payload_mut();
    payload[message.buffer_len()..].copy_from_slice(option);
    // Its checksum is over the whole buffer, with the option.
    Icmpv6Repr::Ndisc(message).emit(
        &ip.src_addr,
        &ip.dst_addr,
        &mut Icmpv6Packet::new_unchecked(payload),
        &ChecksumCapabilities::default(),
    );
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: EthernetAddress = EthernetAddress([2, 9, 9, 9, 9, 9]);

    /// The guest's message to the router.
    fn ask(message: NdiscRepr<'_>, sender: Ipv6Addr, hop_limit: u8) -> Vec<u8> {
        let mut frame = frame_of(message, (sender, GUEST), OWN, &[]);
        let mut outer = EthernetFrame::new_unchecked(&mut frame[..]);
        let mut packet = Ipv6Packet::new_unchecked(outer.payload_mut());
        packet.set_hop_limit(hop_limit);
        frame
    }

    /// Receiver and message of a reply, whose checksum is verified.
    fn read(frame: &[u8]) -> (EthernetAddress, Ipv6Addr, Vec<u8>) {
        let outer = EthernetFrame::new_checked(frame).expect("whole");
        let packet = Ipv6Packet::new_checked(outer.payload()).expect("whole");
        assert_eq!(
            (packet.src_addr(), packet.hop_limit()),
            (Subnet::ROUTER, 255)
        );
        let message = Icmpv6Packet::new_checked(packet.payload()).expect("whole");
        assert!(message.verify_checksum(&packet.src_addr(), &packet.dst_addr()));
        (
            outer.dst_addr(),
            packet.dst_addr(),
            packet.payload().to_vec(),
        )
    }

    #[test]
    fn a_guest_learns_its_prefix_the_router_and_the_name_server() {
        let (subnet, link_local) = (Subnet::default(), "fe80::9".parse().expect("an address"));
        let solicitation = NdiscRepr::RouterSolicit { lladdr: None };
        let frame = ask(solicitation, link_local, HOP_LIMIT);
        assert!(is_question(&frame));
        for len in 0..frame.len() {
            answer(subnet, 1, 1500, &frame[..len]);
        }
        let reply = answer(subnet, 1, 1400, &frame).expect("an answer");
        assert_eq!(reply, advertisement(subnet, 1, 1400));
        let (mac, to, message) = read(&reply);
        assert_eq!((mac, to), (ALL_NODES, IPV6_LINK_LOCAL_ALL_NODES));
        let packet = Icmpv6Packet::new_checked(&message[..]).expect("whole");
        let parsed = Icmpv6Repr::parse(
            &Subnet::ROUTER,
            &to,
            &packet,
            &ChecksumCapabilities::default(),
        );
        let Ok(Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert {
            mtu,
            prefix_info,
            lladdr,
            ..
        })) = parsed
        else {
            panic!("{parsed:?}")
        };
        let prefix = prefix_info.expect("a prefix");
        assert_eq!(
            (mtu, prefix.prefix_len, prefix.prefix),
            (Some(1400), 64, subnet.network_v6(1))
        );
        assert_eq!(lladdr, Some(EthernetAddress(MAC).into()));
        assert_eq!(message[message.len() - 16..], subnet.resolver_v6().octets());
        let forwarded = ask(solicitation, link_local, HOP_LIMIT - 1);
        assert!(!is_question(&forwarded), "it came from another link");
    }

    #[test]
    fn the_router_alone_is_answered_for() {
        let guest: Ipv6Addr = "fe80::9".parse().expect("an address");
        let solicit = |target_addr, sender| {
            let message = NdiscRepr::NeighborSolicit {
                target_addr,
                lladdr: None,
            };
            answer(Subnet::default(), 0, 1500, &ask(message, sender, HOP_LIMIT))
        };
        let (mac, to, message) = read(&solicit(Subnet::ROUTER, guest).expect("an answer"));
        // Router, solicited, override (RFC 4861 §4.4).
        assert_eq!((mac, to, message[0], message[4]), (GUEST, guest, 136, 0xe0));
        let probe = solicit(Subnet::ROUTER, Ipv6Addr::UNSPECIFIED).expect("an answer");
        let (mac, to, message) = read(&probe);
        assert_eq!(
            (mac, to, message[4]),
            (ALL_NODES, IPV6_LINK_LOCAL_ALL_NODES, 0xa0)
        );
        assert_eq!(solicit(guest, guest), None);
    }

    #[test]
    fn the_stack_learns_where_a_guest_is_from_the_switch() {
        let (own, guest) = (
            Subnet::default().gateway_v6(),
            Subnet::default().sandbox_v6(0),
        );
        let message = NdiscRepr::NeighborSolicit {
            target_addr: guest,
            lladdr: None,
        };
        let frame = frame_of(message, (own, EthernetAddress(MAC)), (guest, GUEST), &[]);
        let stack = (own, EthernetAddress(MAC));
        assert_eq!(wanted(&frame), Some((guest, stack)));
        assert!(!is_question(&frame));
        let reply = neighbor((guest, GUEST), stack);
        assert_eq!(offered(&reply), Some((guest, GUEST)));
        let outer = EthernetFrame::new_checked(&reply[..]).expect("whole");
        assert_eq!(
            (outer.src_addr(), outer.dst_addr()),
            (GUEST, EthernetAddress(MAC))
        );
        let packet = Ipv6Packet::new_checked(outer.payload()).expect("whole");
        assert_eq!((packet.src_addr(), packet.dst_addr()), (guest, own));
        // Solicited, override; the target's hardware address is the option at the end.
        assert_eq!((packet.payload()[0], packet.payload()[4]), (136, 0x60));
        assert!(packet.payload().ends_with(&GUEST.0));
    }

    #[test]
    fn the_router_solicits_a_neighbor_by_its_group() {
        let guest = "fd00:a00:200:f:5054:ff:fe12:3456".parse();
        let guest = guest.expect("an address");
        let (mac, to, message) = read(&solicitation(guest));
        let group = "ff02::1:ff12:3456".parse().expect("an address");
        assert_eq!((mac.0, to), ([0x33, 0x33, 0xff, 0x12, 0x34, 0x56], group));
        // A solicitation of `guest`, with the router's hardware address (RFC 4861 §4.3).
        assert_eq!((message[0], &message[8..24]), (135, &guest.octets()[..]));
        assert_eq!(message[24..], [&[1, 1][..], &MAC].concat());
        assert_eq!(wanted(&solicitation(guest)), Some((guest, OWN)));
        assert_eq!(offered(&solicitation(guest)), None);
    }
}
