//! [`Switch`]: a port for each sandbox, as one device.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::task::{Context, Poll};

use smoltcp::wire::{
    ArpPacket, EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv6Packet, IpProtocol,
    Ipv4Packet, Ipv6Packet,
};
use tautline_base::Medium;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{GatewayConfig, MAC, Subnet, dhcp, router};
use crate::Cidr;
use crate::device::PacketIo;

/// Most answers about neighbors that the stack has not received; it asks again.
const ANSWERS: usize = 64;
/// Least MTU of IPv6 (RFC 8200 §5).
const IPV6_MTU: usize = 1280;
/// Dropped frames before other tasks run.
const DROPPED: usize = 64;

/// A device for the port of a sandbox.
pub(super) type Attached = (usize, Box<dyn PacketIo>);

/// The devices of all sandboxes as one, in front of which is the queueing discipline.
pub struct Switch {
    subnet: Subnet,
    /// Networks behind the first port, of IPv4 and IPv6.
    behind: [Option<Cidr>; 2],
    mtu: usize,
    ports: Vec<Option<Box<dyn PacketIo>>>,
    /// By port, the hardware address of its last packet or advertisement of IPv6.
    macs: Vec<Option<EthernetAddress>>,
    /// Frames for the stack that answer its neighbor solicitations.
    answers: VecDeque<Vec<u8>>,
    attached: UnboundedReceiver<Attached>,
    /// Router advertisements to every port.
    advertise: Interval,
    /// The port that is polled first.
    next: usize,
}

/// The addresses in a frame: sender and receiver of a packet, or those of an ARP message.
fn ends(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    match frame.ethertype() {
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
            Some((packet.src_addr().into(), packet.dst_addr().into()))
        }
        EthernetProtocol::Ipv6 => ends_v6(frame.payload()),
        EthernetProtocol::Arp => {
            let packet = ArpPacket::new_checked(frame.payload()).ok()?;
            let address = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from);
            let sender = address(packet.source_protocol_addr())?;
            let target = address(packet.target_protocol_addr())?;
            Some((sender.into(), target.into()))
        }
        _ => None,
    }
}

/// [`ends`] of a packet of IPv6. None for neighbor discovery, in which the switch stands between the
/// stack and the ports, nor for one with extension headers, behind which a message of it could be.
fn ends_v6(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let packet = Ipv6Packet::new_checked(packet).ok()?;
    match packet.next_header() {
        IpProtocol::Tcp | IpProtocol::Udp => {}
        IpProtocol::Icmpv6 => {
            let message = Icmpv6Packet::new_checked(packet.payload()).ok()?;
            if message.msg_type().is_ndisc() {
                return None;
            }
        }
        _ => return None,
    }
    Some((packet.src_addr().into(), packet.dst_addr().into()))
}

impl Switch {
    pub(super) fn new(config: &GatewayConfig, attached: UnboundedReceiver<Attached>) -> Self {
        let mut advertise = interval(router::INTERVAL);
        advertise.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            subnet: config.subnet,
            behind: [config.behind, config.behind_v6],
            mtu: config.mtu,
            ports: Vec::new(),
            macs: Vec::new(),
            answers: VecDeque::new(),
            attached,
            advertise,
            next: 0,
        }
    }

    /// Advertises the router to the devices at `ports` that have one. A device that is busy gets the next
    /// one.
    fn advertise(&mut self, ports: std::ops::Range<usize>, context: &mut Context<'_>) {
        if self.mtu < IPV6_MTU {
            return;
        }
        for (number, device) in self.ports.iter_mut().enumerate() {
            if let Some(device) = device.as_mut().filter(|_| ports.contains(&number)) {
                let frame = router::advertisement(self.subnet, number, self.mtu);
                let _ = device.poll_send(context, &frame);
            }
        }
    }

    fn take_attached(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some((port, device))) = self.attached.poll_recv(context) {
            if self.ports.len() <= port {
                self.ports.resize_with(port + 1, || None);
                self.macs.resize(port + 1, None);
            }
            self.ports[port] = Some(device);
            self.macs[port] = None;
            self.advertise(port..port + 1, context);
        }
        while self.advertise.poll_tick(context).is_ready() {
            self.advertise(0..self.ports.len(), context);
        }
    }

    /// Whether the stack receives this frame from a port. DHCP and questions to the router are answered
    /// here, where the port is known; what has another sandbox's address is dropped.
    fn accepts(&mut self, port: usize, frame: &[u8], context: &mut Context<'_>) -> bool {
        let reply = if dhcp::is_request(frame) {
            dhcp::answer(self.subnet, port, self.mtu, frame)
        } else if self.mtu >= IPV6_MTU && router::is_question(frame) {
            router::answer(self.subnet, port, self.mtu, frame)
        } else if let Some(neighbor) = router::offered(frame) {
            self.learn(port, neighbor, context);
            return false;
        } else {
            let sender = ends(frame).map(|(sender, _)| sender);
            let accepted = sender.is_some_and(|sender| self.port_of(sender) == Some(port));
            if accepted && let Some(IpAddr::V6(address)) = sender {
                let mac = EthernetFrame::new_unchecked(frame).src_addr();
                self.note((address, mac), port, context);
            }
            return accepted;
        };
        if let (Some(device), Some(reply)) = (self.ports[port].as_mut(), reply) {
            // The client asks again if this does not get through.
            let _ = device.poll_send(context, &reply);
        }
        false
    }

    /// The stack, at `stack`, receives the answer to its solicitation of the neighbor at `address`. A port
    /// that has sent nothing is asked for it.
    fn answer_for(&mut self, address: Ipv6Addr, stack: router::Host, context: &mut Context<'_>) {
        let Some(port) = self.port_of(address.into()) else {
            return;
        };
        if let Some(&Some(mac)) = self.macs.get(port) {
            self.tell_stack((address, mac), stack, context);
        } else if let Some(Some(device)) = self.ports.get_mut(port) {
            // The stack asks again if this does not get through.
            let _ = device.poll_send(context, &router::solicitation(address));
        }
    }

    /// A packet of `host` came from `port`. A new hardware address is reported to the stack: another guest may
    /// have taken the place of one that it knows.
    fn note(&mut self, host: router::Host, port: usize, context: &mut Context<'_>) {
        let (_, mac) = host;
        if mac.is_unicast() && self.macs[port] != Some(mac) {
            self.macs[port] = Some(mac);
            let stack = (self.subnet.gateway_v6(), EthernetAddress(MAC));
            self.tell_stack(host, stack, context);
        }
    }

    /// A neighbor at `port` advertises itself; the stack, which may wait for it, is told.
    fn learn(&mut self, port: usize, neighbor: router::Host, context: &mut Context<'_>) {
        let (address, mac) = neighbor;
        if self.port_of(address.into()) == Some(port) && mac.is_unicast() {
            self.macs[port] = Some(mac);
            let stack = (self.subnet.gateway_v6(), EthernetAddress(MAC));
            self.tell_stack(neighbor, stack, context);
        }
    }

    fn tell_stack(
        &mut self,
        neighbor: router::Host,
        stack: router::Host,
        context: &mut Context<'_>,
    ) {
        if self.answers.len() < ANSWERS {
            self.answers.push_back(router::neighbor(neighbor, stack));
            context.waker().wake_by_ref();
        }
    }

    /// The port to which `address` belongs.
    fn port_of(&self, address: IpAddr) -> Option<usize> {
        if self.subnet.contains(address) {
            return self.subnet.number_of(address);
        }
        let mut behind = self.behind.iter().flatten();
        behind.any(|network| network.contains(address)).then_some(0)
    }
}

impl PacketIo for Switch {
    fn medium(&self) -> Medium {
        Medium::Ethernet
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        self.take_attached(context);
        if let Some(answer) = self.answers.pop_front()
            && let Some(out) = out.get_mut(..answer.len())
        {
            out.copy_from_slice(&answer);
            return Poll::Ready(Ok(answer.len()));
        }
        let mut dropped = 0;
        for _ in 0..self.ports.len() {
            let port = self.next % self.ports.len();
            self.next = port + 1;
            while let Some(device) = &mut self.ports[port] {
                match device.poll_recv(context, out) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(0) | Err(_)) => self.ports[port] = None,
                    Poll::Ready(Ok(len)) => {
                        if self.accepts(port, &out[..len], context) {
                            return Poll::Ready(Ok(len));
                        }
                        dropped += 1;
                        if dropped >= DROPPED {
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
            }
        }
        Poll::Pending
    }

    /// A sandbox that does not read loses its frames; the others do not wait for it. A single one's
    /// frames wait in the queueing discipline.
    fn poll_send(&mut self, context: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>> {
        if let Some((address, stack)) = router::wanted(frame) {
            self.answer_for(address, stack, context);
            return Poll::Ready(Ok(()));
        }
        let port = ends(frame).and_then(|(_, to)| self.port_of(to));
        let alone = self.ports.len() == 1;
        let device = port.and_then(|port| self.ports.get_mut(port)?.as_mut());
        match device.map(|device| device.poll_send(context, frame)) {
            Some(Poll::Pending) if alone => Poll::Pending,
            Some(Poll::Ready(sent)) => Poll::Ready(sent),
            Some(Poll::Pending) | None => Poll::Ready(Ok(())),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        for port in &mut self.ports {
            // A device that fails leaves its port.
            port.take_if(|device| matches!(device.poll_flush(context), Poll::Ready(Err(_))));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of IPv6 from 2001:db8::1 to 2001:db8::2.
    fn frame(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let address = |host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).octets();
        let mut frame = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0]].concat();
        frame.extend([payload.len() as u8, next_header, 255]);
        frame.extend(address(1));
        frame.extend(address(2));
        frame.extend(payload);
        frame
    }

    /// A sandbox cannot claim another's address toward the stack: no neighbor discovery passes, bare or
    /// behind an extension header.
    #[test]
    fn neighbor_discovery_passes_in_no_form() {
        const ECHO_REQUEST: u8 = 128;
        let expected = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().expect("an address"));
        let icmp = |kind| frame(58, &[&[kind, 0, 0, 0][..], &[0; 24]].concat());
        for passing in [frame(6, &[0; 20]), frame(17, &[0; 8]), icmp(ECHO_REQUEST)] {
            assert_eq!(ends(&passing), Some(expected.into()));
            for len in 0..passing.len() {
                let whole = ends(&passing[..len]);
                assert!(whole.is_none() || len >= 54, "{len} bytes");
            }
        }
        for kind in 133..=137 {
            assert_eq!(ends(&icmp(kind)), None, "ICMPv6 type {kind}");
        }
        // Hop-by-hop options, routing, fragment and destination options before a neighbor advertisement.
        for extension in [0, 43, 44, 60] {
            let message = [&[58, 0, 1, 4, 0, 0, 0, 0][..], &[136, 0, 0, 0], &[0; 20]].concat();
            let frame = frame(extension, &message);
            assert_eq!(ends(&frame), None, "header {extension}");
        }
    }
}
