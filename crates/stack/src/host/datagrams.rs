//! UDP: arriving datagrams, and steps 1 to 4 of sent ones.

use std::net::SocketAddr;

use tautline_base::{Device, Ecn, Instant, Medium, Packet, Qdisc, SocketId};
use tautline_bql::Limit;

use super::Host;
use super::transport::DropStage;
use crate::socket::PathError;
use crate::trace::Tracer;
use crate::wire::udp::{self, UDP_HEADER};
use crate::wire::{Ends, Mac, ip_header_len};

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    pub(super) fn on_datagram(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        datagram: &udp::Datagram<'_>,
        packet: &[u8],
        now: Instant,
    ) {
        let is_broadcast = self.interface.medium == Medium::Ethernet
            && frame.get(..6) == Some(&[0xff; 6])
            && self.interface.addressing.is_broadcast(ends.destination)
            && self.interface.addressing.is_peer(ends.source);
        if !is_broadcast && !self.interface.is_for_us(frame, ends) {
            return;
        }
        let from = SocketAddr::new(ends.source, datagram.source_port);
        let id = self
            .transport
            .udp_at(ends.destination, datagram.destination_port);
        let socket = id.and_then(|id| self.transport.sockets.udp_mut(id));
        match socket.filter(|socket| socket.accepts(from, ends.destination, is_broadcast)) {
            Some(socket) => {
                let to = SocketAddr::new(ends.destination, datagram.destination_port);
                socket.deliver(from, to, Ecn::of_tos(ends.tos), datagram.payload);
                let id = socket.id;
                self.transport.notify_udp(id);
            }
            // A broadcast is never answered by an error (RFC 1122 §3.2.2).
            None if is_broadcast => self.interface.stats.not_for_us += 1,
            None => self
                .interface
                .refuse(frame, ends, udp::PROTOCOL, packet, now),
        }
    }

    /// Takes one datagram of one socket through steps 1 to 4. False if something blocks it; the end
    /// of that makes the socket runnable again.
    pub(super) fn birth_datagram(&mut self, id: SocketId, now: Instant) -> bool {
        let Some(socket) = self.transport.sockets.udp_mut(id) else {
            return false;
        };
        let Some((label, (front, back))) = socket.next() else {
            if socket.finished() {
                self.transport.sockets.remove(id);
            }
            return false;
        };
        let addressing = &self.interface.addressing;
        let next_hop = addressing.next_hop(label.to.ip());
        let has_way = label.broadcast || next_hop.is_some();
        let len = ip_header_len(label.to.ip()) + UDP_HEADER + front.len() + back.len();
        // Its source or its route may have ended while it waited, and the MTU may have fallen.
        let mtu = self.interface.mtu.of(label.to.ip());
        let refused = if !has_way || !addressing.is_own(label.from.ip()) {
            Some(PathError::HostUnreachable)
        } else {
            (len > mtu).then_some(PathError::TooBig {
                mtu: u16::try_from(mtu).ok(),
            })
        };
        if let Some(why) = refused {
            socket.discard(why);
            self.transport.notify_udp(id);
            return true;
        }
        let mac = match next_hop {
            Some(next_hop) if !label.broadcast => {
                self.interface
                    .resolve(next_hop, Some(id), (Instant::ZERO, now))
            }
            _ => Some(Mac::BROADCAST),
        };
        self.settle_drops(DropStage::Later, now);
        let Some(mac) = mac else {
            if let Some(socket) = self.transport.sockets.udp_mut(id) {
                socket.set_aside();
            }
            return true;
        };
        let Some(frame) = self.interface.pool.take() else {
            self.transport.wait_for_frame(id);
            return false;
        };
        let socket = self.transport.sockets.udp_mut(id);
        let socket = socket.expect("it has a datagram to send");
        let packet = self.interface.commit_datagram(socket, mac, frame, now);
        self.enqueue(packet, now);
        true
    }
}
