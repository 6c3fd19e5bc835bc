//! TCP calls of applications: listen, connect, send, receive, close (RFC 9293 §3.9.1).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tautline_base::{Device, Instant, Packet, Qdisc, SocketId};
use tautline_bql::Limit;

use super::Host;
use super::tcp_socket::TcpSocket;
use crate::attribution::Attribution;
use crate::config::TcpConfig;
use crate::limits::Limits;
use crate::socket::{
    CloseReason, ConnectError, Event, ListenAt, ListenError, Recv, SocketError, SocketOption,
};
use crate::tcp::info::TcpInfo;
use crate::tcp::{AppData, Boundary, Connection, Reading, State, Tuple};
use crate::trace::Tracer;

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Accepts connections on a port, of every address of the host or of one; each shares `config`.
    ///
    /// # Errors
    /// [`ListenError`]: port 0, a port in use, an address that is not the host's.
    pub fn listen(
        &mut self,
        at: impl Into<ListenAt>,
        config: impl Into<Arc<TcpConfig>>,
    ) -> Result<SocketId, ListenError> {
        let addressing = &self.interface.addressing;
        self.transport.listen(at.into(), config.into(), addressing)
    }

    /// Begins to connect to `remote`. Many connections can share one `config`. A `Connected` or
    /// `Closed` event reports the outcome; data may be sent at once and waits.
    ///
    /// # Errors
    /// [`ConnectError`]: `remote` cannot be connected to, no route, or no free port.
    pub fn connect(
        &mut self,
        remote: impl Into<SocketAddr>,
        config: impl Into<Arc<TcpConfig>>,
        now: Instant,
    ) -> Result<SocketId, ConnectError> {
        self.connect_from(None, remote, config, now)
    }

    /// Like [`connect`](Self::connect) from `local`, any [owned](crate::HostConfig::owned) address; port
    /// 0 stands for any free port, `None` for the address that suits `remote`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); also a `local` that is not the host's, or in use.
    pub fn connect_from(
        &mut self,
        local: Option<SocketAddr>,
        remote: impl Into<SocketAddr>,
        config: impl Into<Arc<TcpConfig>>,
        now: Instant,
    ) -> Result<SocketId, ConnectError> {
        let now = self.advance_clock(now);
        let remote = remote.into();
        // IPv4-mapped addresses stand for IPv4 (RFC 4291 §2.5.5.2).
        let address = remote.ip().to_canonical();
        let addressing = &self.interface.addressing;
        if remote.port() == 0 || !addressing.is_peer(address) {
            return Err(ConnectError::BadAddress(remote));
        }
        let no_route = ConnectError::NoRoute(address);
        let next_hop = addressing.next_hop(address).ok_or(no_route)?;
        let peer = SocketAddr::new(address, remote.port());
        let from = match local.map(|local| local.ip().to_canonical()) {
            Some(from) if !addressing.is_own(from) => return Err(ConnectError::NotOurs(from)),
            Some(from) if from.is_ipv4() != address.is_ipv4() => return Err(no_route),
            Some(from) => from,
            None => addressing.source_for(address).ok_or(no_route)?,
        };
        let tuple = match local.map_or(0, |local| local.port()) {
            0 => self.transport.free_tuple(from, peer),
            port => Some(Tuple {
                local: from,
                remote: address,
                local_port: port,
                remote_port: remote.port(),
            }),
        };
        let tuple = tuple.ok_or(ConnectError::NoPort(remote))?;
        if self.transport.is_taken(&tuple) {
            return Err(ConnectError::InUse(tuple.here(), peer));
        }
        let opening = self.transport.opening(tuple, next_hop, None, now);
        let config = config.into();
        self.transport.note_attribution(&config);
        let fast_open = self.transport.begin_fast_open(&tuple, &config, now);
        let build = |id| Connection::new(opening(id), config, State::SynSent);
        let id = self.transport.insert_connection(tuple, build);
        if let Some(connection) = self.transport.sockets.connection_mut(id) {
            connection.fast_open = fast_open;
        }
        self.transport.mark_runnable(id);
        Ok(id)
    }

    /// Whether the SYN to `remote` of a connection with [`fast_open`](TcpConfig::fast_open) would carry
    /// data: its cookie is known, and no recent loss speaks against it.
    pub fn has_fast_open_cookie(&self, remote: impl Into<IpAddr>) -> bool {
        let remote = remote.into().to_canonical();
        let known = self.transport.servers.cookie_for(remote, self.now);
        known.is_some_and(|(cookie, _)| !cookie.is_request())
    }

    /// Queues data to send; returns how many bytes were taken. 0 means that the buffer is full; a
    /// `Writable` event follows.
    ///
    /// # Errors
    /// [`SocketError`]: no such socket, its sending half is shut down, or it is closed.
    pub fn send(&mut self, id: SocketId, data: &[u8]) -> Result<usize, SocketError> {
        let data = AppData::Bytes(data);
        self.transport.write(id, data, Boundary::None, self.now)
    }

    /// The calls on a connection beyond plain sending and receiving.
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`].
    pub fn tcp(&mut self, id: SocketId) -> Result<TcpSocket<'_>, SocketError> {
        TcpSocket::new(&mut self.transport, id, self.now)
    }

    /// Reads received data.
    ///
    /// # Errors
    /// [`SocketError`]: no such socket, or a connection that ended with everything read.
    pub fn recv(&mut self, id: SocketId, out: &mut [u8]) -> Result<Recv, SocketError> {
        let stays = false;
        self.transport
            .read(id, Reading::Copied { out, stays }, self.now)
    }

    /// Closes the sending half: the peer reads the end of the stream after all sent data. Receiving
    /// goes on.
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`].
    pub fn shutdown(&mut self, id: SocketId) -> Result<(), SocketError> {
        self.transport.with_connection(id, Connection::shutdown)
    }

    /// Releases a socket: a listener stops, a request is dropped, a connection delivers its data and closes by itself. No
    /// event follows.
    pub fn close(&mut self, id: SocketId, now: Instant) {
        let now = self.advance_clock(now);
        if let Some(connection) = self.transport.sockets.connection_mut(id) {
            connection.release(now);
            self.transport.adopt_orphan(id);
            self.transport.mark_runnable(id);
        } else if self.transport.sockets.udp(id).is_some() {
            self.transport.release_udp(id);
        } else if self.transport.take_request(id).is_none() {
            self.transport.remove_listener(id);
        }
    }

    /// Resets a connection. A `Closed` event follows.
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`].
    pub fn abort(&mut self, id: SocketId) -> Result<(), SocketError> {
        let abort = |connection: &mut Connection| connection.abort(CloseReason::Aborted);
        self.transport.with_connection(id, abort)
    }

    /// Changes an option of an open connection.
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`]; [`SocketError::Invalid`]: a value outside its range.
    pub fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<(), SocketError> {
        if !option.is_valid() {
            return Err(SocketError::Invalid);
        }
        let now = self.now;
        self.transport
            .with_connection(id, |connection| connection.set_option(option, now))
    }

    /// The next event of any socket, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.transport.next_event()
    }

    /// State and counters of a connection, as Linux's `TCP_INFO` has them.
    pub fn info(&self, id: SocketId) -> Option<TcpInfo> {
        let connection = self.transport.sockets.connection(id)?;
        Some(connection.info(self.now))
    }

    /// Latency attribution of a connection; `None` unless its configuration keeps it.
    pub fn attribution(&self, id: SocketId) -> Option<&Attribution> {
        let connection = self.transport.sockets.connection(id)?;
        connection.attribution.as_deref()
    }

    /// The peer's end of a connection or a request.
    pub fn peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.transport.sockets.tuple(id).map(Tuple::peer)
    }

    /// The local end of a connection or a request: the requested destination.
    pub fn local(&self, id: SocketId) -> Option<SocketAddr> {
        self.transport.sockets.tuple(id).map(Tuple::here)
    }

    /// The number of sockets, those in TIME-WAIT included.
    pub fn socket_count(&self) -> usize {
        self.transport.sockets.len() + self.transport.time_waits.len()
    }

    /// Whether a connection that was [closed](Self::close), or has sent its FIN, still delivers: its peer has
    /// not acknowledged all data and the FIN. The time that this takes is linear in the number of
    /// connections: it is for an application that is about to stop.
    pub fn is_delivering(&self) -> bool {
        let mut connections = self.transport.sockets.connections();
        connections.any(|connection| {
            let state = connection.state();
            state.may_deliver() && (connection.orphan || state.has_sent_fin())
        })
    }

    /// Limits what all connections hold together.
    pub fn set_limits(&mut self, limits: Limits) {
        self.transport.set_limits(limits);
    }

    /// Bytes that connections hold in their buffers, as counted against [`Limits::memory`].
    pub fn buffer_memory(&self) -> u64 {
        self.transport.memory.buffered()
    }
}
