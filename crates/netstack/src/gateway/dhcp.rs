//! DHCP (RFC 2131) for one client per port, whose address is that of the port.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress, EthernetFrame,
    EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, UdpPacket,
    UdpRepr,
};

use super::{MAC, Subnet};

const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
/// Seconds of a lease: the address never changes.
const LEASE: u32 = 86_400;
/// Option "interface MTU" (RFC 2132 §5.1).
const INTERFACE_MTU: u8 = 26;

/// The datagram to a DHCP server in `frame`.
fn datagram(frame: &[u8]) -> Option<&[u8]> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    if frame.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
    if packet.next_header() != IpProtocol::Udp || packet.frag_offset() != 0 {
        return None;
    }
    let datagram = UdpPacket::new_checked(packet.payload()).ok()?;
    let is_for_server = datagram.dst_port() == SERVER_PORT;
    is_for_server.then(|| datagram.payload())
}

/// Whether `frame` is for a DHCP server.
pub(super) fn is_request(frame: &[u8]) -> bool {
    datagram(frame).is_some()
}

/// The frame with the answer to the client at `port`, if there is one.
pub(super) fn answer(subnet: Subnet, port: usize, mtu: usize, frame: &[u8]) -> Option<Vec<u8>> {
    let packet = DhcpPacket::new_checked(datagram(frame)?).ok()?;
    let request = DhcpRepr::parse(&packet).ok()?;
    let (gateway, address) = (subnet.gateway(), subnet.sandbox(port));
    if request
        .server_identifier
        .is_some_and(|server| server != gateway)
    {
        return None;
    }
    let bound = Some(request.client_ip).filter(|ip| !ip.is_unspecified());
    let wanted = request.requested_ip.or(bound);
    let message_type = match request.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Request if wanted.is_some_and(|wanted| wanted != address) => {
            DhcpMessageType::Nak
        }
        DhcpMessageType::Request | DhcpMessageType::Inform => DhcpMessageType::Ack,
        _ => return None,
    };
    let is_nak = message_type == DhcpMessageType::Nak;
    let is_lease = !is_nak && request.message_type != DhcpMessageType::Inform;
    let mtu = (mtu as u16).to_be_bytes();
    let options = [DhcpOption {
        kind: INTERFACE_MTU,
        data: &mtu,
    }];
    let lease = is_lease.then_some(LEASE);
    let reply = DhcpRepr {
        message_type,
        transaction_id: request.transaction_id,
        secs: 0,
        client_hardware_address: request.client_hardware_address,
        client_ip: request.client_ip,
        your_ip: if is_lease {
            address
        } else {
            Ipv4Address::UNSPECIFIED
        },
        server_ip: gateway,
        router: (!is_nak).then_some(gateway),
        subnet_mask: (!is_nak).then(|| subnet.mask()),
        relay_agent_ip: Ipv4Address::UNSPECIFIED,
        broadcast: request.broadcast,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(gateway),
        parameter_request_list: None,
        dns_servers: (!is_nak).then(|| [subnet.resolver()].into_iter().collect()),
        max_size: None,
        lease_duration: lease,
        renew_duration: None,
        rebind_duration: None,
        additional_options: if is_nak { &[] } else { &options },
    };
    Some(frame_of(&reply))
}

/// The frame with `reply`: to all, for its receiver may have no address yet.
fn frame_of(reply: &DhcpRepr<'_>) -> Vec<u8> {
    let checksums = ChecksumCapabilities::default();
    let udp = UdpRepr {
        src_port: SERVER_PORT,
        dst_port: CLIENT_PORT,
    };
    let gateway = reply.server_ip;
    let ip = Ipv4Repr {
        src_addr: gateway,
        dst_addr: Ipv4Address::BROADCAST,
        next_header: IpProtocol::Udp,
        payload_len: udp.header_len() + reply.buffer_len(),
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(MAC),
        dst_addr: if reply.broadcast {
            EthernetAddress::BROADCAST
        } else {
            reply.client_hardware_address
        },
        ethertype: EthernetProtocol::Ipv4,
    };
    let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len() + ip.payload_len];
    let mut outer = EthernetFrame::new_unchecked(&mut frame[..]);
    ethernet.emit(&mut outer);
    let mut packet = Ipv4Packet::new_unchecked(outer.payload_mut());
    ip.emit(&mut packet, &checksums);
    let write = |payload: &mut [u8]| {
        // The buffer has the length that the message wants.
        let _ = reply.emit(&mut DhcpPacket::new_unchecked(payload));
    };
    udp.emit(
        &mut UdpPacket::new_unchecked(packet.payload_mut()),
        &ip.src_addr.into(),
        &ip.dst_addr.into(),
        reply.buffer_len(),
        write,
        &checksums,
    );
    frame
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tautline_base::{Instant, Offload};
    use tautline_stack::dhcp::{Action, Client, message_in};

    use super::*;

    const CLIENT: EthernetAddress = EthernetAddress([2, 9, 9, 9, 9, 9]);

    /// A client's message; the answer's message, its frame's receiver and the address in it.
    fn ask(
        message_type: DhcpMessageType,
        change: impl FnOnce(&mut DhcpRepr<'_>),
    ) -> Option<(DhcpMessageType, EthernetAddress, Ipv4Address)> {
        let mut request = DhcpRepr {
            message_type,
            transaction_id: 0x1234_5678,
            secs: 0,
            client_hardware_address: CLIENT,
            client_ip: Ipv4Address::UNSPECIFIED,
            your_ip: Ipv4Address::UNSPECIFIED,
            server_ip: Ipv4Address::UNSPECIFIED,
            router: None,
            subnet_mask: None,
            relay_agent_ip: Ipv4Address::UNSPECIFIED,
            broadcast: false,
            requested_ip: None,
            client_identifier: None,
            server_identifier: None,
            parameter_request_list: None,
            dns_servers: None,
            max_size: None,
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        change(&mut request);
        // A client's frame differs from the server's in its ports.
        let mut frame = frame_of(&request);
        frame[34..38].copy_from_slice(&[0, 68, 0, 67]);
        frame[40..42].fill(0);
        assert!(is_request(&frame));
        for len in 0..frame.len() {
            answer(Subnet::default(), 1, 1500, &frame[..len]);
        }
        let reply = answer(Subnet::default(), 1, 1400, &frame)?;
        let ethernet = EthernetFrame::new_checked(&reply[..]).expect("whole");
        let packet = Ipv4Packet::new_checked(ethernet.payload()).expect("whole");
        assert!(packet.verify_checksum());
        let datagram = UdpPacket::new_checked(packet.payload()).expect("whole");
        assert!(datagram.verify_checksum(&packet.src_addr().into(), &packet.dst_addr().into()));
        assert_eq!((datagram.src_port(), datagram.dst_port()), (67, 68));
        let message = DhcpPacket::new_checked(datagram.payload()).expect("whole");
        let reply = DhcpRepr::parse(&message).expect("DHCP");
        assert_eq!(reply.transaction_id, 0x1234_5678);
        if reply.message_type != DhcpMessageType::Nak {
            assert_eq!(reply.router, Some(Ipv4Address::new(10, 0, 2, 2)));
            let mtu = message
                .options()
                .find(|option| option.kind == INTERFACE_MTU);
            assert_eq!(mtu.expect("an option").data, 1400_u16.to_be_bytes());
        }
        Some((reply.message_type, ethernet.dst_addr(), reply.your_ip))
    }

    #[test]
    fn a_client_gets_the_address_of_its_port_and_no_other() {
        let own = Ipv4Address::new(10, 0, 2, 16);
        let offer = ask(DhcpMessageType::Discover, |_| {});
        assert_eq!(offer, Some((DhcpMessageType::Offer, CLIENT, own)));
        let granted = ask(DhcpMessageType::Request, |request| {
            request.requested_ip = Some(own);
            request.broadcast = true;
        });
        let to_all = EthernetAddress::BROADCAST;
        assert_eq!(granted, Some((DhcpMessageType::Ack, to_all, own)));
        let (refused, ..) = ask(DhcpMessageType::Request, |request| {
            request.client_ip = Ipv4Address::new(10, 0, 2, 15);
        })
        .expect("an answer");
        assert_eq!(refused, DhcpMessageType::Nak);
        let elsewhere = ask(DhcpMessageType::Request, |request| {
            request.server_identifier = Some(own);
        });
        assert_eq!(elsewhere, None);
        assert_eq!(ask(DhcpMessageType::Release, |_| {}), None);
    }

    /// The stack's own client in front of this server.
    #[test]
    fn our_client_gets_a_lease_and_renews_it() {
        let (start, mac) = (Instant::from_secs(1), CLIENT.0);
        let mut client = Client::new(mac, 1, start);
        let mut exchange = |now: Instant| {
            let mut bound = None;
            while let Some(action) = client.poll(now) {
                match action {
                    Action::Send(message) => {
                        let frame = message.to_frame(mac);
                        let reply = answer(Subnet::default(), 1, 1500, &frame).expect("an answer");
                        let reply = message_in(&reply, Offload::default()).expect("for clients");
                        client.receive(reply, now);
                    }
                    Action::Bound(lease) => bound = Some(lease),
                    Action::Lost(why) => panic!("{why}"),
                }
            }
            (bound, client.deadline())
        };
        let (lease, renewal) = exchange(start);
        let lease = lease.expect("a lease");
        assert_eq!(lease.cidr().to_string(), "10.0.2.16/24");
        assert_eq!(lease.router, Some(Ipv4Address::new(10, 0, 2, 2)));
        let half = Duration::from_secs(u64::from(LEASE) / 2);
        assert_eq!(renewal, Some(start + half));
        assert_eq!(exchange(start + half), (None, Some(start + half + half)));
    }
}
