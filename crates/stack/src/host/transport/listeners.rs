//! Listeners: their ports, their backlogs of half-open connections, their accept queues.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tautline_base::{Instant, SocketId};

use super::Transport;
use crate::addressing::Addressing;
use crate::config::{SynCookies, TcpConfig};
use crate::fast_open::{self, Trust};
use crate::socket::{CloseReason, Event, ListenAt, ListenError};
use crate::sockets::{Listener, Socket};
use crate::tcp::fast_open::{FastOpen, Server};
use crate::tcp::{Connection, Handshake, State, Tuple};
use crate::wire::Segment;

/// The answer to a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::host) enum SynAction {
    Open,
    SendCookie,
    /// Ask the application.
    Hold,
    Drop,
}

impl Transport {
    /// Adds a listener.
    ///
    /// # Errors
    /// [`ListenError`]: port 0, a port in use, an address that is not the host's.
    pub(in crate::host) fn listen(
        &mut self,
        at: ListenAt,
        config: Arc<TcpConfig>,
        addressing: &Addressing,
    ) -> Result<SocketId, ListenError> {
        let address = at.address();
        if address.port() == 0 && !at.is_every_port() {
            return Err(ListenError::PortZero);
        }
        if !address.ip().is_unspecified() && !addressing.is_own(address.ip()) {
            return Err(ListenError::NotOurs(address.ip()));
        }
        if self.listeners.contains_key(&at) {
            return Err(ListenError::InUse(address.port()));
        }
        self.note_attribution(&config);
        let listener = Listener::new(at, config, self.key);
        let id = self
            .sockets
            .insert(|_| Socket::Listener(Box::new(listener)));
        self.listeners.insert(at, id);
        Ok(id)
    }

    /// Removes a listener. Its half-open connections end by themselves; those that the application
    /// has not accepted are reset (Linux `inet_csk_listen_stop`).
    pub(in crate::host) fn remove_listener(&mut self, id: SocketId) {
        let Some(Socket::Listener(listener)) = self.sockets.remove(id) else {
            return;
        };
        self.listeners.remove(&listener.at);
        self.drop_requests(id);
        let waiting = self.events.iter().filter_map(|event| match event {
            Event::Accepted { listener, socket } if *listener == id => Some(*socket),
            _ => None,
        });
        for socket in waiting.collect::<Vec<_>>() {
            if let Some(connection) = self.sockets.connection_mut(socket) {
                connection.orphan = true;
                connection.abort(CloseReason::Aborted);
                self.mark_runnable(socket);
            }
        }
        self.events.retain(|event| match event {
            Event::Accepted { listener, .. } | Event::Requested { listener, .. } => *listener != id,
            _ => true,
        });
    }

    /// The most specific listener for the local end of `tuple`: of its port, then of every port, each
    /// of its address, its family, any.
    pub(in crate::host) fn listener_for(&self, tuple: &Tuple) -> Option<SocketId> {
        let family = match tuple.local {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let addresses = [tuple.local, family, Ipv6Addr::UNSPECIFIED.into()];
        let of_port = |address| ListenAt::from((address, tuple.local_port));
        let of_every_port = addresses.into_iter().map(ListenAt::every_port);
        let mut places = addresses.into_iter().map(of_port).chain(of_every_port);
        places.find_map(|at| self.listeners.get(&at).copied())
    }

    /// How listener `id` answers a SYN. One that `reopens` a connection in TIME-WAIT passes a full
    /// backlog.
    pub(in crate::host) fn syn_action(
        &mut self,
        id: SocketId,
        tuple: &Tuple,
        reopens: bool,
    ) -> SynAction {
        let Some(listener) = self.sockets.listener(id) else {
            return SynAction::Drop;
        };
        if listener.has_enough_of(tuple.remote) {
            self.stats.too_many_of_peer += 1;
            return SynAction::Drop;
        }
        if listener.is_crowded() {
            self.stats.accept_queue_full += 1;
            return SynAction::Drop;
        }
        if listener.config.deferred_accept {
            return SynAction::Hold;
        }
        let is_full = listener.pending >= listener.config.backlog && !reopens;
        self.stats.backlog_full += u64::from(is_full);
        match listener.config.syn_cookies {
            SynCookies::Always => SynAction::SendCookie,
            SynCookies::WhenFull if is_full => SynAction::SendCookie,
            SynCookies::Never if is_full => {
                self.stats.backlog_refused += 1;
                SynAction::Drop
            }
            _ => SynAction::Open,
        }
    }

    /// Adds the half-open connection of a SYN that listener `id` accepts.
    pub(in crate::host) fn accept(
        &mut self,
        id: SocketId,
        tuple: Tuple,
        next_hop: IpAddr,
        isn: Option<u32>,
        fast_open: Option<Server>,
        now: Instant,
    ) -> Option<SocketId> {
        let listener = self.sockets.listener_mut(id)?;
        let is_trusted = fast_open
            .as_ref()
            .is_some_and(|server| server.trusted_by.is_some());
        if is_trusted {
            listener.unconfirmed.enter();
        } else {
            listener.pending += 1;
        }
        let config = listener.config.clone();
        let opening = self.opening(tuple, next_hop, isn, now);
        let half_open_at = (!is_trusted).then_some(id);
        let build = |new| Connection::accept(opening(new), config, half_open_at);
        let socket = self.insert_connection(tuple, build);
        if let Some(server) = fast_open {
            let connection = self.sockets.connection_mut(socket)?;
            connection.fast_open = FastOpen::server(server);
            if is_trusted {
                connection.links.handshake = Handshake::Unconfirmed;
            }
        }
        self.count_at(socket, id);
        Some(socket)
    }

    /// The answer of listener `id` to a SYN with the option of Fast Open (RFC 7413 §4.2.2; Linux
    /// `tcp_try_fastopen`): a cookie, belief in the one that came, or both if that is about to
    /// expire. `None`: as without the option.
    pub(in crate::host) fn answer_fast_open(
        &mut self,
        id: SocketId,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Option<Server> {
        let brought = segment.fast_open?;
        let listener = self.sockets.listener_mut(id)?;
        let most = listener.config.fast_open_queue;
        if most == 0 {
            return None;
        }
        if listener.unconfirmed.count(now) >= most {
            self.stats.fast_open_full += 1;
            return None;
        }
        let trust = fast_open::trust(&self.key, tuple, &brought, now);
        self.stats.fast_opened += u64::from(trust != Trust::None);
        Some(Server {
            cookie: (trust != Trust::Full).then(|| fast_open::issue(&self.key, tuple, now)),
            trusted_by: (trust != Trust::None).then_some(id),
            since: now,
        })
    }

    /// The part in Fast Open of an active open; none if it is off, or better not tried.
    pub(in crate::host) fn begin_fast_open(
        &self,
        tuple: &Tuple,
        config: &TcpConfig,
        now: Instant,
    ) -> FastOpen {
        if !config.fast_open {
            return FastOpen::default();
        }
        let known = self.servers.cookie_for(tuple.remote, now);
        known.map_or_else(FastOpen::default, |known| {
            FastOpen::client(known, (tuple, self.mtu.of(tuple.remote), config))
        })
    }

    /// Whether the last acknowledgment of a handshake is dropped because the accept queue is full:
    /// the SYN-ACK will be sent again.
    pub(in crate::host) fn must_wait(&mut self, id: SocketId, segment: &Segment<'_>) -> bool {
        let Some(connection) = self.sockets.connection(id) else {
            return false;
        };
        let State::SynReceived {
            listener: Some(listener),
        } = connection.state()
        else {
            return false;
        };
        let listener = self.sockets.listener(listener);
        let waits = segment.ack.is_some()
            && !segment.syn
            && !segment.rst
            && listener.is_some_and(Listener::is_crowded);
        self.stats.accept_queue_full += u64::from(waits);
        waits
    }

    /// Queues an established connection for its listener's application. Without a listener no
    /// application will serve it: it is reset.
    pub(in crate::host) fn hand_over(&mut self, socket: SocketId, listener: SocketId) {
        if let Some(at) = self.sockets.listener_mut(listener) {
            at.waiting += 1;
            self.events.push_back(Event::Accepted { listener, socket });
        } else if let Some(connection) = self.sockets.connection_mut(socket) {
            connection.orphan = true;
            connection.abort(CloseReason::Aborted);
        }
    }

    /// The next event, oldest first.
    pub(in crate::host) fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Accepted { listener, .. } | Event::Requested { listener, .. } = event
            && let Some(listener) = self.sockets.listener_mut(listener)
        {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
        Some(event)
    }

    /// Takes a half-open connection that was established or failed out of its listener's count.
    /// One of the backlog that failed frees itself: no application had it.
    pub(super) fn leave_backlog(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        if matches!(connection.state(), State::SynReceived { .. }) {
            return;
        }
        let counted = std::mem::take(&mut connection.links.handshake);
        let is_closed = connection.state() == State::Closed;
        connection.orphan |= counted == Handshake::InBacklog && is_closed;
        let was_reset = connection.pending.closed == Some(CloseReason::Reset);
        let peer = connection.tuple.remote;
        let suspicious = connection.fast_open.since().filter(|_| was_reset);
        let listener = connection.links.counted_at;
        let Some(listener) = listener.and_then(|at| self.sockets.listener_mut(at)) else {
            return;
        };
        match counted {
            Handshake::Uncounted => {}
            Handshake::InBacklog => {
                listener.pending -= 1;
                if !is_closed {
                    self.proven.add(peer);
                }
            }
            Handshake::Unconfirmed => listener.unconfirmed.leave(suspicious),
        }
    }

    /// Counts a connection among those of its peer at a listener.
    pub(in crate::host) fn count_at(&mut self, id: SocketId, at: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        connection.links.counted_at = Some(at);
        let peer = connection.tuple.remote;
        if let Some(listener) = self.sockets.listener_mut(at) {
            listener.count_in(peer);
        }
    }
}
