//! [`Udp`]: the calls of applications on datagram sockets.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use tautline_base::{Ecn, SocketId};

use super::transport::Transport;
use crate::addressing::Addressing;
use crate::link_mtu::LinkMtu;
use crate::socket::SocketError;
use crate::udp::socket::{Label, UdpSocket};
use crate::udp::{BindError, SendError, SendOptions, UdpConfig, UdpInfo, UdpRecv};
use crate::wire::udp::UDP_HEADER;
use crate::wire::{IPV4_HEADER, IPV6_HEADER};

/// The datagram sockets of a [`Host`](super::Host), from [`Host::udp`](super::Host::udp).
pub struct Udp<'a> {
    pub(super) transport: &'a mut Transport,
    pub(super) paths: Paths<'a>,
}

/// The ways out of a host.
pub(super) struct Paths<'a> {
    pub(super) addressing: &'a Addressing,
    pub(super) mtu: LinkMtu,
}

impl Udp<'_> {
    /// A socket on `local`. `0.0.0.0` stands for all IPv4 addresses of the host, `::` for all of
    /// both families; port 0 for any free port.
    ///
    /// # Errors
    /// [`BindError`]: not an address of the host, or in use.
    pub fn bind(
        &mut self,
        local: impl Into<SocketAddr>,
        config: UdpConfig,
    ) -> Result<SocketId, BindError> {
        self.transport
            .bind_udp(local.into(), config, self.paths.addressing)
    }

    /// A socket for what is sent to any address and port of the host that no other socket has; with
    /// [`HostConfig::owned`](crate::HostConfig::owned) that is every destination behind it.
    /// [`Datagram::to`](crate::udp::Datagram::to) is its destination, and
    /// [`send_from`](Self::send_from) answers from it.
    ///
    /// # Errors
    /// [`BindError::InUse`]: there is one.
    pub fn bind_everywhere(&mut self, config: UdpConfig) -> Result<SocketId, BindError> {
        self.transport.bind_udp_everywhere(config)
    }

    /// Connects a socket: it receives only from `remote`, and sends there unless a call names
    /// another destination.
    ///
    /// # Errors
    /// [`SendError`]: no such socket, or `remote` cannot be sent to.
    pub fn connect(
        &mut self,
        id: SocketId,
        remote: impl Into<SocketAddr>,
    ) -> Result<(), SendError> {
        let socket = self.transport.sockets.udp_mut(id);
        let socket = socket.ok_or(SendError::NoSuchSocket)?;
        let label = self.paths.label(socket, None, remote.into(), 0)?;
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
        self.send_from(id, data, None, to)
    }

    /// Like [`send_to`](Self::send_to) from any address and port of the host; `None` for those of the
    /// socket.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to).
    pub fn send_from(
        &mut self,
        id: SocketId,
        data: &[u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
    ) -> Result<(), SendError> {
        let ecn = Ecn::NotEct;
        self.send_with(id, data, SendOptions { from, to, ecn })
    }

    /// Like [`send_to`](Self::send_to) with an address to send from and an ECN field for this
    /// datagram (Linux `sendmsg` with `IP_PKTINFO` and `IP_TOS`).
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to).
    pub fn send_with(
        &mut self,
        id: SocketId,
        data: &[u8],
        options: SendOptions,
    ) -> Result<(), SendError> {
        let socket = self.transport.sockets.udp_mut(id);
        let socket = socket.ok_or(SendError::NoSuchSocket)?;
        if let Some(failure) = socket.take_failure() {
            return Err(SendError::Path(failure));
        }
        let to = options.to.or_else(|| socket.remote());
        let to = to.ok_or(SendError::NotConnected)?;
        let mut label = self.paths.label(socket, options.from, to, data.len())?;
        label.ecn = options.ecn;
        socket.send(label, data)?;
        self.transport.runnable.add(id, &mut socket.links.queued);
        Ok(())
    }

    /// Reads the next datagram. Bytes that do not fit into `out` are cut off.
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`].
    pub fn recv_from(&mut self, id: SocketId, out: &mut [u8]) -> Result<UdpRecv, SocketError> {
        let socket = self.transport.sockets.udp_mut(id);
        Ok(socket.ok_or(SocketError::NoSuchSocket)?.recv(out))
    }

    /// Most payload bytes of a datagram over IPv4, or IPv6.
    pub fn longest_datagram(&self, ipv4: bool) -> usize {
        self.paths.longest(ipv4)
    }

    /// Counters and queues of a socket.
    pub fn info(&self, id: SocketId) -> Option<UdpInfo> {
        self.transport.sockets.udp(id).map(UdpSocket::info)
    }

    /// The address a socket is bound to.
    pub fn local(&self, id: SocketId) -> Option<SocketAddr> {
        self.transport.sockets.udp(id).map(|socket| socket.local)
    }
}

impl Paths<'_> {
    /// Source and destination of a datagram of `len` bytes from `socket`, or from `from`, to `to`;
    /// not ECN-capable.
    ///
    /// # Errors
    /// [`SendError`]: the destination cannot be sent to, or the datagram is too long.
    fn label(
        &self,
        socket: &UdpSocket,
        from: Option<SocketAddr>,
        to: SocketAddr,
        len: usize,
    ) -> Result<Label, SendError> {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let broadcast = self.addressing.is_broadcast(to.ip());
        if broadcast && !socket.config.broadcast {
            return Err(SendError::Broadcast(to));
        }
        if to.port() == 0 || !(broadcast || self.addressing.is_peer(to.ip())) {
            return Err(SendError::BadAddress(to));
        }
        let here = from.unwrap_or(socket.local);
        let local = here.ip().to_canonical();
        // The address of a bound socket may have ended since.
        let is_any = from.is_none() && local.is_unspecified();
        if here.port() == 0 || !(is_any || self.addressing.is_own(local)) {
            return Err(SendError::BadSource(here));
        }
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
        let most = self.longest(to.is_ipv4());
        if len > most {
            return Err(SendError::TooLong { len, most });
        }
        Ok(Label {
            from: SocketAddr::new(from, here.port()),
            to,
            broadcast,
            ecn: Ecn::NotEct,
        })
    }

    fn longest(&self, ipv4: bool) -> usize {
        let (network, mtu) = if ipv4 {
            (IPV4_HEADER, self.mtu.ipv4)
        } else {
            (IPV6_HEADER, self.mtu.ipv6)
        };
        mtu.min(usize::from(u16::MAX))
            .saturating_sub(network + UDP_HEADER)
    }
}

impl fmt::Debug for Udp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Udp").finish_non_exhaustive()
    }
}
