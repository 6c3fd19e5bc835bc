//! UDP: the calls of applications, arriving datagrams, and steps 1 to 4 of sent ones.

use std::net::SocketAddr;

use tautline_base::{Device, Frame, Instant, Owner, Packet, Qdisc, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::pfifo_fast::priority_of_tos;

use super::Host;
use crate::socket::SocketError;
use crate::tcp::Tuple;
use crate::trace::Tracer;
use crate::udp::socket::{Label, UdpSocket};
use crate::udp::{BindError, SendError, UdpConfig, UdpInfo, UdpRecv};
use crate::wire::udp;
use crate::wire::{Addresses, ECN_BITS, Ends, Mac};

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// A datagram socket on `local`. `0.0.0.0` stands for all IPv4 addresses of the host, `::` for
    /// all of both families; port 0 for any free port.
    ///
    /// # Errors
    /// [`BindError`]: not an address of the host, or in use.
    pub fn udp_bind(
        &mut self,
        local: impl Into<SocketAddr>,
        config: UdpConfig,
    ) -> Result<SocketId, BindError> {
        let addressing = &self.interface.addressing;
        self.transport.bind_udp(local.into(), config, addressing)
    }

    /// Connects a datagram socket: it receives only from `remote`, and sends there unless a call
    /// names another destination.
    ///
    /// # Errors
    /// [`SendError`]: no such socket, or `remote` cannot be sent to.
    pub fn udp_connect(
        &mut self,
        id: SocketId,
        remote: impl Into<SocketAddr>,
    ) -> Result<(), SendError> {
        let socket = self.transport.sockets.udp_mut(id);
        let socket = socket.ok_or(SendError::NoSuchSocket)?;
        let label = self.interface.label(socket, remote.into(), 0)?;
        socket.connect(label.to);
        Ok(())
    }

    /// Queues a datagram for `to`, or for the connected peer. It leaves in the next polls.
    ///
    /// # Errors
    /// [`SendError`]; after [`Full`](SendError::Full) a `Writable` event follows.
    pub fn send_to(
        &mut self,
        id: SocketId,
        data: &[u8],
        to: Option<SocketAddr>,
    ) -> Result<(), SendError> {
        let socket = self.transport.sockets.udp_mut(id);
        let socket = socket.ok_or(SendError::NoSuchSocket)?;
        if let Some(failure) = socket.take_failure() {
            return Err(SendError::Path(failure));
        }
        let to = to.or_else(|| socket.remote());
        let to = to.ok_or(SendError::NotConnected)?;
        let label = self.interface.label(socket, to, data.len())?;
        socket.send(label, data)?;
        self.transport.runnable.add(id, &mut socket.links.queued);
        Ok(())
    }

    /// Most payload bytes of a datagram over IPv4, or IPv6.
    pub fn longest_datagram(&self, ipv4: bool) -> usize {
        self.interface.longest_datagram(ipv4)
    }

    /// Reads the next datagram. Bytes that do not fit into `out` are cut off.
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`].
    pub fn recv_from(&mut self, id: SocketId, out: &mut [u8]) -> Result<UdpRecv, SocketError> {
        let socket = self.transport.sockets.udp_mut(id);
        Ok(socket.ok_or(SocketError::NoSuchSocket)?.recv(out))
    }

    /// Counters and queues of a datagram socket.
    pub fn udp_info(&self, id: SocketId) -> Option<UdpInfo> {
        self.transport.sockets.udp(id).map(UdpSocket::info)
    }

    /// The address a datagram socket is bound to.
    pub fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.transport.sockets.udp(id).map(|socket| socket.local)
    }

    pub(super) fn on_datagram(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        datagram: &udp::Datagram<'_>,
        packet: &[u8],
        now: Instant,
    ) {
        let is_broadcast = frame.get(..6) == Some(&[0xff; 6])
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
                socket.deliver(from, datagram.payload);
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
        let Some((label, _)) = socket.next() else {
            if socket.finished() {
                self.transport.sockets.remove(id);
            }
            return false;
        };
        let mac = match self.interface.addressing.next_hop(label.to.ip()) {
            _ if label.broadcast => Some(Mac::BROADCAST),
            Some(next_hop) => self.resolve(next_hop, id, now),
            None => None,
        };
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
        let packet = self.commit_datagram(id, &label, mac, frame, now);
        self.enqueue(packet, now);
        true
    }

    fn commit_datagram(
        &mut self,
        id: SocketId,
        label: &Label,
        mac: Mac,
        mut frame: D::Frame,
        now: Instant,
    ) -> Packet<D::Frame> {
        let socket = self.transport.sockets.udp_mut(id);
        let socket = socket.expect("it has a datagram to send");
        let tuple = Tuple {
            local: label.from,
            remote: label.to.ip(),
            local_port: socket.local.port(),
            remote_port: label.to.port(),
        };
        let tos = socket.config.tos & !ECN_BITS;
        let addresses = Addresses {
            tos,
            ..self.interface.addresses_of(&tuple, mac)
        };
        let ports = (tuple.local_port, tuple.remote_port);
        let next = socket.next();
        let payload = next.map_or((&[][..], &[][..]), |(_, payload)| payload);
        let len = udp::write_udp(frame.bytes_mut(), &addresses, ports, payload) as u32;
        let (flow, source, destination) = self.interface.key.flow(&tuple);
        let owner = Owner {
            socket: id,
            segment: None,
        };
        Packet::new(frame, len)
            .with_owner(owner, socket.departed())
            .with_hashes(flow, source, destination)
            .with_tos(tos, priority_of_tos(tos))
            .with_departure(now)
    }
}
