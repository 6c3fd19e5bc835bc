//! [`Switch`]: a port for each sandbox, as one device.

use std::io;
use std::net::Ipv4Addr;
use std::task::{Context, Poll};

use smoltcp::wire::{ArpPacket, EthernetFrame, EthernetProtocol, Ipv4Packet};
use tautline_base::Medium;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{GatewayConfig, Subnet, dhcp};
use crate::Cidr;
use crate::device::PacketIo;

/// Dropped frames before other tasks run.
const DROPPED: usize = 64;

/// A device for the port of a sandbox.
pub(super) type Attached = (usize, Box<dyn PacketIo>);

/// The devices of all sandboxes as one, in front of which is the queueing discipline.
pub struct Switch {
    subnet: Subnet,
    /// A network behind the first port.
    behind: Option<Cidr>,
    mtu: usize,
    ports: Vec<Option<Box<dyn PacketIo>>>,
    attached: UnboundedReceiver<Attached>,
    /// The port that is polled first.
    next: usize,
}

/// The IPv4 addresses in a frame: sender and receiver of a packet, or those of an ARP message.
fn ends(frame: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    match frame.ethertype() {
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
            Some((packet.src_addr(), packet.dst_addr()))
        }
        EthernetProtocol::Arp => {
            let packet = ArpPacket::new_checked(frame.payload()).ok()?;
            let address = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from);
            let sender = address(packet.source_protocol_addr())?;
            Some((sender, address(packet.target_protocol_addr())?))
        }
        _ => None,
    }
}

impl Switch {
    pub(super) fn new(config: &GatewayConfig, attached: UnboundedReceiver<Attached>) -> Self {
        Self {
            subnet: config.subnet,
            behind: config.behind,
            mtu: config.mtu,
            ports: Vec::new(),
            attached,
            next: 0,
        }
    }

    fn take_attached(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some((port, device))) = self.attached.poll_recv(context) {
            if self.ports.len() <= port {
                self.ports.resize_with(port + 1, || None);
            }
            self.ports[port] = Some(device);
        }
    }

    /// Whether the stack receives this frame from a port. DHCP is answered here, where the port is
    /// known; what has another sandbox's address is dropped.
    fn accepts(&mut self, port: usize, frame: &[u8], context: &mut Context<'_>) -> bool {
        if dhcp::is_request(frame) {
            let device = self.ports[port].as_mut();
            if let Some(device) = device
                && let Some(reply) = dhcp::answer(self.subnet, port, self.mtu, frame)
            {
                // The client asks again if this does not get through.
                let _ = device.poll_send(context, &reply);
            }
            return false;
        }
        ends(frame).is_some_and(|(sender, _)| self.port_of(sender) == Some(port))
    }

    /// The port to which `address` belongs.
    fn port_of(&self, address: Ipv4Addr) -> Option<usize> {
        if self.subnet.contains(address) {
            return self.subnet.number_of(address);
        }
        let network = self.behind?;
        network.contains(address.into()).then_some(0)
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
