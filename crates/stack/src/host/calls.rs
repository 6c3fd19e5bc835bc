//! What applications call: listen, connect, send, receive, close (RFC 9293 §3.9.1).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_cc::Factory;
use tautline_qdisc::Qdisc;

use super::Host;
use crate::attribution::Attribution;
use crate::config::{Keepalive, TcpConfig};
use crate::socket::{ConnectError, ListenAt, ListenError, Recv, SocketError};
use crate::sockets::{Listener, Socket};
use crate::tcp::info::TcpInfo;
use crate::tcp::{Connection, Opening, Tuple};
use crate::trace::Tracer;

/// Local ports of active opens (Linux `ip_local_port_range`).
pub(super) const EPHEMERAL: std::ops::Range<u32> = 32_768..61_000;

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Accepts connections on a port, of every address or of the one that is named; each will
    /// behave as `config` says, and shares it.
    ///
    /// # Errors
    /// [`ListenError`]: port 0, a port that is taken, an address that is not the host's.
    pub fn listen(
        &mut self,
        at: impl Into<ListenAt>,
        config: impl Into<Arc<TcpConfig>>,
    ) -> Result<SocketId, ListenError> {
        let at = at.into();
        let address = at.address();
        if address.port() == 0 {
            return Err(ListenError::PortZero);
        }
        if !address.ip().is_unspecified() && !self.addressing.is_own(address.ip()) {
            return Err(ListenError::NotOurs(address.ip()));
        }
        if self.listeners.contains_key(&at) {
            return Err(ListenError::InUse(address.port()));
        }
        let config = config.into();
        self.attributing |= config.attribution;
        let id = self
            .sockets
            .insert(|_| Socket::Listener(Box::new(Listener::new(at, config, self.key))));
        self.listeners.insert(at, id);
        Ok(id)
    }

    /// Begins to connect to `remote`. Many connections can share one `config`. A `Connected` or
    /// `Closed` event tells the outcome; data may be sent at once and waits.
    pub fn connect(
        &mut self,
        remote: impl Into<SocketAddr>,
        config: impl Into<Arc<TcpConfig>>,
        now: Instant,
    ) -> Result<SocketId, ConnectError> {
        let now = self.advance_clock(now);
        let remote = remote.into();
        // The socket API's way to write an IPv4 address as one of IPv6 (RFC 4291 §2.5.5.2).
        let address = remote.ip().to_canonical();
        if remote.port() == 0 || !self.addressing.is_peer(address) {
            return Err(ConnectError::BadAddress(remote));
        }
        let next_hop = self
            .addressing
            .next_hop(address)
            .ok_or(ConnectError::NoRoute(address))?;
        let local = self
            .addressing
            .source_for(address)
            .ok_or(ConnectError::NoRoute(address))?;
        let tuple = self
            .free_tuple(local, SocketAddr::new(address, remote.port()))
            .ok_or(ConnectError::NoPort(remote))?;
        let opening = self.opening(tuple, next_hop, None, now);
        let config = config.into();
        self.attributing |= config.attribution;
        let id = self
            .sockets
            .insert(|id| Socket::Connection(Box::new(Connection::connect(opening(id), config))));
        self.demux.insert(tuple, id);
        self.touch(id);
        Ok(id)
    }

    /// What a new connection is born with; its initial sequence number may be given.
    pub(super) fn opening(
        &self,
        tuple: Tuple,
        next_hop: IpAddr,
        isn: Option<u32>,
        now: Instant,
    ) -> impl FnOnce(SocketId) -> Opening + use<Q, D, T, L> {
        let isn = isn.unwrap_or_else(|| self.key.initial_sequence(&tuple, now));
        let timestamp_offset = self.key.timestamp_offset(&tuple);
        let (hashes, flow_label) = (self.key.flow(&tuple), self.key.flow_label(&tuple));
        let mtu = self.mtu;
        move |id| Opening {
            id,
            tuple,
            next_hop,
            flow_label,
            isn,
            timestamp_offset,
            hashes,
            mtu,
            now,
        }
    }

    /// A local port that is free towards `remote`, found from a keyed start (RFC 6056 §3.3.3).
    fn free_tuple(&mut self, local: IpAddr, remote: SocketAddr) -> Option<Tuple> {
        let count = EPHEMERAL.end - EPHEMERAL.start;
        let offset = self.key.port_offset(remote);
        (0..count).find_map(|_| {
            let local_port = (EPHEMERAL.start + offset.wrapping_add(self.next_port) % count) as u16;
            self.next_port = self.next_port.wrapping_add(1);
            let tuple = Tuple {
                local,
                remote: remote.ip(),
                local_port,
                remote_port: remote.port(),
            };
            (!self.demux.contains(&tuple) && !self.time_waits.contains(&tuple)).then_some(tuple)
        })
    }

    /// Takes data to send; returns how much was taken. 0 means the buffer is full; a `Writable`
    /// event follows.
    pub fn send(&mut self, id: SocketId, data: &[u8]) -> Result<usize, SocketError> {
        self.take(id, |connection| connection.write(data))
    }

    /// [`send`](Self::send) with `count` zeros, which take no memory as long as nothing else waits
    /// to be sent: for whoever measures.
    pub fn send_zeros(&mut self, id: SocketId, count: usize) -> Result<usize, SocketError> {
        self.take(id, |connection| connection.write_zeros(count))
    }

    fn take(
        &mut self,
        id: SocketId,
        write: impl FnOnce(&mut Connection) -> Result<usize, SocketError>,
    ) -> Result<usize, SocketError> {
        let connection = self
            .sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?;
        let taken = write(connection)?;
        connection.note_written(self.now);
        self.runnable.push(connection);
        if !self.holdings.are_settled_with(connection) {
            self.charge(id);
        }
        Ok(taken)
    }

    /// Reads received data.
    pub fn recv(&mut self, id: SocketId, out: &mut [u8]) -> Result<Recv, SocketError> {
        let connection = self
            .sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?;
        let read = connection.read(out)?;
        // Reading may have opened the window.
        self.runnable.push(connection);
        if !self.holdings.are_settled_with(connection) {
            self.charge(id);
        }
        Ok(read)
    }

    /// Closes the sending half: the peer reads the end of the stream after what was sent. Receiving
    /// goes on.
    pub fn shutdown(&mut self, id: SocketId) -> Result<(), SocketError> {
        self.sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?
            .shutdown();
        self.touch(id);
        Ok(())
    }

    /// Lets go of a socket: a listener stops, a connection sends what it has and closes in order by
    /// itself. No event follows.
    pub fn close(&mut self, id: SocketId, now: Instant) {
        let now = self.advance_clock(now);
        if let Some(connection) = self.sockets.connection_mut(id) {
            connection.release(now);
            self.adopt(id);
            self.touch(id);
        } else if self.sockets.udp(id).is_some() {
            self.release_udp(id);
        } else if let Some(Socket::Listener(listener)) = self.sockets.remove(id) {
            self.listeners.remove(&listener.at);
        }
    }

    /// Ends a connection at once with a reset. A `Closed` event follows.
    pub fn abort(&mut self, id: SocketId) -> Result<(), SocketError> {
        self.sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?
            .abort();
        self.touch(id);
        Ok(())
    }

    /// From now on `congestion` controls a connection. It begins with the window of the controller
    /// before it.
    pub fn set_congestion(&mut self, id: SocketId, congestion: Factory) -> Result<(), SocketError> {
        self.sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?
            .set_congestion(congestion);
        self.touch(id);
        Ok(())
    }

    /// From now on a quiet peer is asked whether it lives (Linux `SO_KEEPALIVE`), or with `None`
    /// not.
    pub fn set_keepalive(
        &mut self,
        id: SocketId,
        keepalive: Option<Keepalive>,
    ) -> Result<(), SocketError> {
        let now = self.now;
        self.sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?
            .set_keepalive(keepalive, now);
        self.touch(id);
        Ok(())
    }

    /// From now on a connection that makes no progress for so long is given up (Linux
    /// `TCP_USER_TIMEOUT`); with `None` its retries decide.
    pub fn set_user_timeout(
        &mut self,
        id: SocketId,
        limit: Option<Duration>,
    ) -> Result<(), SocketError> {
        self.sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?
            .configure(|config| config.user_timeout = limit);
        self.touch(id);
        Ok(())
    }

    /// True: small segments no longer wait for acknowledgements (Linux `TCP_NODELAY`). What waits
    /// now goes.
    pub fn set_nodelay(&mut self, id: SocketId, nodelay: bool) -> Result<(), SocketError> {
        self.sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?
            .configure(|config| config.nagle = !nodelay);
        self.touch(id);
        Ok(())
    }

    /// What [`close`](Self::close) does with data that was not delivered; see
    /// [`TcpConfig::linger`].
    pub fn set_linger(
        &mut self,
        id: SocketId,
        linger: Option<Duration>,
    ) -> Result<(), SocketError> {
        self.sockets
            .connection_mut(id)
            .ok_or(SocketError::NoSuchSocket)?
            .configure(|config| config.linger = linger);
        Ok(())
    }

    /// A look into a connection.
    pub fn info(&self, id: SocketId) -> Option<TcpInfo> {
        self.sockets
            .connection(id)
            .map(|connection| connection.info(self.now))
    }

    /// What the bytes of a connection waited for; `None` unless its configuration has it kept.
    pub fn attribution(&self, id: SocketId) -> Option<&Attribution> {
        self.sockets
            .connection(id)
            .and_then(Connection::attribution)
    }

    /// The peer of a connection.
    pub fn peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.sockets
            .connection(id)
            .map(|connection| connection.tuple.peer())
    }

    /// Our end of a connection.
    pub fn local(&self, id: SocketId) -> Option<SocketAddr> {
        self.sockets
            .connection(id)
            .map(|connection| connection.tuple.here())
    }

    /// How many sockets exist, those in TIME-WAIT included.
    pub fn socket_count(&self) -> usize {
        self.sockets.len() + self.time_waits.len()
    }
}
