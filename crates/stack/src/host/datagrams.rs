//! UDP: what applications call, arriving datagrams, and the way of one down to the discipline.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tautline_base::{Device, Frame, Instant, Owner, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_qdisc::pfifo_fast::priority_of_tos;

use super::Host;
use super::calls::EPHEMERAL;
use crate::socket::{Event, SocketError};
use crate::sockets::Socket;
use crate::tcp::Tuple;
use crate::trace::Tracer;
use crate::udp::socket::{Label, UdpSocket};
use crate::udp::{BindError, SendError, UdpConfig, UdpInfo, UdpRecv};
use crate::wire::icmp::Complaint;
use crate::wire::udp::{self, UDP_HEADER};
use crate::wire::{Addresses, ECN_BITS, Ends, IPV4_HEADER, IPV6_HEADER, Mac};

/// Stands for all addresses of the host in the table of ports.
const ALL: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// A datagram socket on `local`. `0.0.0.0` means all IPv4 addresses of the host, `::` all of
    /// both families; port 0 means any that is free.
    ///
    /// # Errors
    /// [`BindError`]: not our address, or in use.
    pub fn udp_bind(
        &mut self,
        local: impl Into<SocketAddr>,
        config: UdpConfig,
    ) -> Result<SocketId, BindError> {
        let mut local = local.into();
        local.set_ip(local.ip().to_canonical());
        if !local.ip().is_unspecified() && !self.addressing.is_own(local.ip()) {
            return Err(BindError::NotOurs(local));
        }
        if local.port() == 0 {
            local.set_port(self.free_udp_port(local).ok_or(BindError::NoPort)?);
        } else if self.udp_in_use(local) {
            return Err(BindError::InUse(local));
        }
        let id = self
            .sockets
            .insert(|id| Socket::Udp(Box::new(UdpSocket::new(id, local, config))));
        self.udp_ports.insert(place(local), id);
        Ok(id)
    }

    /// As with connections, the search begins at a keyed place (RFC 6056 §3.3.3).
    fn free_udp_port(&mut self, local: SocketAddr) -> Option<u16> {
        let count = EPHEMERAL.end - EPHEMERAL.start;
        let offset = self.key.port_offset(local);
        (0..count).find_map(|_| {
            let port = (EPHEMERAL.start + offset.wrapping_add(self.next_port) % count) as u16;
            self.next_port = self.next_port.wrapping_add(1);
            (!self.udp_in_use(SocketAddr::new(local.ip(), port))).then_some(port)
        })
    }

    /// A socket on all addresses and one on a single address cannot share a port.
    fn udp_in_use(&self, local: SocketAddr) -> bool {
        let taken = |address: IpAddr| self.udp_ports.contains_key(&(address, local.port()));
        taken(ALL)
            || if local.ip().is_unspecified() {
                self.addressing.own().any(taken)
            } else {
                taken(local.ip())
            }
    }

    /// From now on a datagram socket hears only `remote`, and speaks to it unless another
    /// destination is named.
    ///
    /// # Errors
    /// [`SendError`]: what sending there would meet.
    pub fn udp_connect(
        &mut self,
        id: SocketId,
        remote: impl Into<SocketAddr>,
    ) -> Result<(), SendError> {
        let remote = remote.into();
        let label = self.label(id, remote, 0)?;
        self.sockets
            .udp_mut(id)
            .ok_or(SendError::NoSuchSocket)?
            .connect(label.to);
        Ok(())
    }

    /// Takes a datagram for `to`, or for whom the socket is connected to. It leaves in the next
    /// polls.
    ///
    /// # Errors
    /// [`SendError`]; after [`Full`](SendError::Full) a `Writable` event follows.
    pub fn send_to(
        &mut self,
        id: SocketId,
        data: &[u8],
        to: Option<SocketAddr>,
    ) -> Result<(), SendError> {
        let socket = self.sockets.udp_mut(id).ok_or(SendError::NoSuchSocket)?;
        if let Some(failure) = socket.take_failure() {
            return Err(SendError::Path(failure));
        }
        let to = to
            .or_else(|| socket.remote())
            .ok_or(SendError::NotConnected)?;
        let label = self.label(id, to, data.len())?;
        let socket = self.sockets.udp_mut(id).ok_or(SendError::NoSuchSocket)?;
        socket.send(label, data)?;
        self.runnable.add(id, &mut socket.place.queued);
        Ok(())
    }

    /// Where a datagram of `len` bytes from socket `id` to `to` comes from and goes.
    fn label(&self, id: SocketId, to: SocketAddr, len: usize) -> Result<Label, SendError> {
        let socket = self.sockets.udp(id).ok_or(SendError::NoSuchSocket)?;
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let broadcast = self.addressing.is_broadcast(to.ip());
        if broadcast && !socket.config.broadcast {
            return Err(SendError::Broadcast(to));
        }
        if to.port() == 0 || !(broadcast || self.addressing.is_peer(to.ip())) {
            return Err(SendError::BadAddress(to));
        }
        let local = socket.local.ip();
        let from = match local {
            own if !own.is_unspecified() => Some(own),
            _ if broadcast => self.addressing.source_of_broadcast(to.ip()),
            _ => self.addressing.source_for(to.ip()),
        };
        let speaks =
            |from: &IpAddr| from.is_ipv4() == to.is_ipv4() && (local.is_ipv6() || to.is_ipv4());
        let from = from.filter(speaks).ok_or(SendError::NoRoute(to))?;
        if !broadcast && self.addressing.next_hop(to.ip()).is_none() {
            return Err(SendError::NoRoute(to));
        }
        let most = self.longest_datagram(to.is_ipv4());
        if len > most {
            return Err(SendError::TooLong { len, most });
        }
        Ok(Label {
            from,
            to,
            broadcast,
        })
    }

    /// Most payload of a datagram over IPv4, or IPv6.
    pub fn longest_datagram(&self, ipv4: bool) -> usize {
        let network = if ipv4 { IPV4_HEADER } else { IPV6_HEADER };
        self.mtu
            .min(usize::from(u16::MAX))
            .saturating_sub(network + UDP_HEADER)
    }

    /// Reads the next datagram. What does not fit into `out` is cut off.
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn recv_from(&mut self, id: SocketId, out: &mut [u8]) -> Result<UdpRecv, SocketError> {
        Ok(self
            .sockets
            .udp_mut(id)
            .ok_or(SocketError::NoSuchSocket)?
            .recv(out))
    }

    /// A look into a datagram socket.
    pub fn udp_info(&self, id: SocketId) -> Option<UdpInfo> {
        self.sockets.udp(id).map(UdpSocket::info)
    }

    /// Where a datagram socket is bound.
    pub fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.sockets.udp(id).map(|socket| socket.local)
    }

    /// The application lets go of a datagram socket: its port is free, and what it wrote is still
    /// sent.
    pub(super) fn release_udp(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.udp_mut(id) else {
            return;
        };
        socket.orphan = true;
        let at = place(socket.local);
        if socket.finished() {
            self.sockets.remove(id);
        }
        if self.udp_ports.get(&at) == Some(&id) {
            self.udp_ports.remove(&at);
        }
    }

    pub(super) fn on_datagram(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        datagram: &udp::Datagram<'_>,
        packet: &[u8],
        now: Instant,
    ) {
        let broadcast = frame.get(..6) == Some(&[0xff; 6])
            && self.addressing.is_broadcast(ends.destination)
            && self.addressing.is_peer(ends.source);
        if !broadcast && !self.concerns_us(frame, ends) {
            return;
        }
        let from = SocketAddr::new(ends.source, datagram.source_port);
        let at = |address| {
            self.udp_ports
                .get(&(address, datagram.destination_port))
                .copied()
        };
        let found = at(ends.destination).or_else(|| at(ALL));
        let socket = found.and_then(|id| self.sockets.udp_mut(id));
        match socket.filter(|socket| socket.hears(from, ends.destination, broadcast)) {
            Some(socket) => {
                socket.deliver(from, datagram.payload);
                let id = socket.id;
                self.tell_udp(id);
            }
            // Nobody answers a broadcast with an error (RFC 1122 §3.2.2).
            None if broadcast => self.stats.not_for_us += 1,
            None => self.refuse(frame, ends, udp::PROTOCOL, packet, now),
        }
    }

    /// Somebody says that a datagram did not arrive. Only a connected socket hears of it: it alone
    /// knows whom it asked (RFC 1122 §4.1.3.3).
    pub(super) fn complain_to_udp(&mut self, complaint: &Complaint) -> bool {
        let (local, remote) = complaint.ports();
        let at = |address| self.udp_ports.get(&(address, local)).copied();
        let Some(id) = at(complaint.source).or_else(|| at(ALL)) else {
            return false;
        };
        let Some(socket) = self.sockets.udp_mut(id) else {
            return false;
        };
        if socket.remote() != Some(SocketAddr::new(complaint.destination, remote)) {
            return false;
        }
        socket.fail(complaint.what.into());
        self.tell_udp(id);
        true
    }

    /// Steps 1 to 4 for a datagram. False when something holds it back; whatever that was will make
    /// the socket runnable again.
    pub(super) fn birth_datagram(&mut self, id: SocketId, now: Instant) -> bool {
        let Some(socket) = self.sockets.udp_mut(id) else {
            return false;
        };
        let Some((
            Label {
                from,
                to,
                broadcast,
            },
            _,
        )) = socket.next()
        else {
            if socket.finished() {
                self.sockets.remove(id);
            }
            return false;
        };
        let local_port = socket.local.port();
        let mac = match self.addressing.next_hop(to.ip()) {
            _ if broadcast => Some(Mac::BROADCAST),
            Some(next_hop) => self.resolve(next_hop, Some(id), now),
            None => None,
        };
        let Some(mac) = mac else {
            if let Some(socket) = self.sockets.udp_mut(id) {
                socket.set_aside();
            }
            return true;
        };
        let Some(mut frame) = self.pool.take() else {
            self.starve(id);
            return false;
        };
        let tuple = Tuple {
            local: from,
            remote: to.ip(),
            local_port,
            remote_port: to.port(),
        };
        let (addresses, hashes) = (self.addresses_of(&tuple, mac), self.key.flow(&tuple));
        let Some(socket) = self.sockets.udp_mut(id) else {
            return false;
        };
        let tos = socket.config.tos & !ECN_BITS;
        let addresses = Addresses { tos, ..addresses };
        let payload = socket
            .next()
            .map_or((&[][..], &[][..]), |(_, payload)| payload);
        let len = udp::write_udp(
            frame.bytes_mut(),
            &addresses,
            (local_port, to.port()),
            payload,
        ) as u32;
        let packet = Packet::new(frame, len)
            .with_owner(
                Owner {
                    socket: id,
                    segment: None,
                },
                socket.departed(),
            )
            .with_hashes(hashes.0, hashes.1, hashes.2)
            .with_tos(tos, priority_of_tos(tos))
            .with_departure(now);
        self.enqueue(packet, now);
        true
    }

    /// Passes on what happened to a datagram socket.
    pub(super) fn tell_udp(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.udp_mut(id) else {
            return;
        };
        let happened = std::mem::take(&mut socket.happened);
        if !socket.orphan {
            let told = [
                happened.readable.then_some(Event::Readable(id)),
                happened.writable.then_some(Event::Writable(id)),
            ];
            self.events.extend(told.into_iter().flatten());
        }
    }
}

/// Where a socket stands in the table of ports.
fn place(local: SocketAddr) -> (IpAddr, u16) {
    (
        if local.ip().is_unspecified() {
            ALL
        } else {
            local.ip()
        },
        local.port(),
    )
}
