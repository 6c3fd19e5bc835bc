//! The table of sockets: slots with generations, so that an old handle never reaches the slot's
//! next tenant.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use tautline_base::{Instant, SocketId};

use crate::config::TcpConfig;
use crate::fast_open::Unconfirmed;
use crate::keyed::Key;
use crate::socket::ListenAt;
use crate::tcp::{Connection, Tuple};
use crate::udp::socket::UdpSocket;

/// All sockets of a host.
#[derive(Default)]
pub(crate) struct Sockets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: NonZeroU32,
    tenant: Option<Socket>,
}

/// A socket. They are boxed: slots stay small, and idle slots hold nothing.
pub(crate) enum Socket {
    Listener(Box<Listener>),
    Connection(Box<Connection>),
    Udp(Box<UdpSocket>),
    Request(Box<Request>),
}

/// A SYN that waits for the answer of its listener's application.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) listener: SocketId,
    pub(crate) tuple: Tuple,
    /// The frame of the SYN, whose checksum holds.
    pub(crate) frame: Box<[u8]>,
    /// Our initial sequence number, if the SYN follows a connection in TIME-WAIT.
    pub(crate) isn: Option<u32>,
}

/// A listener on a port.
pub(crate) struct Listener {
    pub(crate) at: ListenAt,
    /// Every connection shares it until it changes its own.
    pub(crate) config: Arc<TcpConfig>,
    /// Connections that are half open.
    pub(crate) pending: usize,
    /// Connections that rest on a Fast Open cookie.
    pub(crate) unconfirmed: Unconfirmed,
    /// Established connections and requests whose event the application has not taken yet.
    pub(crate) waiting: usize,
    /// Time of the last SYN cookie.
    pub(crate) cookies_at: Option<Instant>,
    /// Connections of each peer, if their number is limited.
    pub(crate) peers: HashMap<IpAddr, usize, Key>,
}

impl Listener {
    pub(crate) fn new(at: ListenAt, config: Arc<TcpConfig>, key: Key) -> Self {
        let peers = HashMap::with_hasher(key);
        Self {
            at,
            config,
            pending: 0,
            unconfirmed: Unconfirmed::default(),
            waiting: 0,
            cookies_at: None,
            peers,
        }
    }

    /// Whether the accept queue is full.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting >= self.config.accept_queue
    }

    /// Whether `peer` has reached the limit of connections per peer.
    pub(crate) fn has_enough_of(&self, peer: IpAddr) -> bool {
        self.config
            .per_peer
            .is_some_and(|most| self.peers.get(&peer).copied().unwrap_or(0) >= most)
    }

    /// Counts one more connection of `peer`.
    pub(crate) fn count_in(&mut self, peer: IpAddr) {
        if self.config.per_peer.is_some() {
            *self.peers.entry(peer).or_default() += 1;
        }
    }

    /// Counts one connection less.
    pub(crate) fn count_out(&mut self, peer: IpAddr) {
        if let Some(count) = self.peers.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&peer);
            }
        }
    }
}

impl Sockets {
    /// Reserves a slot, fills it with what `make` builds for its id.
    pub(crate) fn insert(&mut self, make: impl FnOnce(SocketId) -> Socket) -> SocketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: NonZeroU32::MIN,
                tenant: None,
            });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let id = SocketId {
            index,
            generation: slot.generation,
        };
        slot.tenant = Some(make(id));
        id
    }

    /// Empties a slot and ends its generation.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Socket> {
        let slot = self
            .slots
            .get_mut(id.index as usize)
            .filter(|slot| slot.generation == id.generation)?;
        let tenant = slot.tenant.take()?;
        slot.generation = slot.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.free.push(id.index);
        Some(tenant)
    }

    fn tenant(&self, id: SocketId) -> Option<&Socket> {
        let slot = self
            .slots
            .get(id.index as usize)
            .filter(|slot| slot.generation == id.generation)?;
        slot.tenant.as_ref()
    }

    fn tenant_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let slot = self
            .slots
            .get_mut(id.index as usize)
            .filter(|slot| slot.generation == id.generation)?;
        slot.tenant.as_mut()
    }

    /// All connections.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection> {
        let tenants = self.slots.iter().filter_map(|slot| slot.tenant.as_ref());
        tenants.filter_map(|tenant| match tenant {
            Socket::Connection(connection) => Some(&**connection),
            _ => None,
        })
    }

    /// All connections.
    pub(crate) fn connections_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        let tenants = self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.tenant.as_mut());
        tenants.filter_map(|tenant| match tenant {
            Socket::Connection(connection) => Some(&mut **connection),
            _ => None,
        })
    }

    /// All datagram sockets.
    pub(crate) fn udp_sockets_mut(&mut self) -> impl Iterator<Item = &mut UdpSocket> {
        let tenants = self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.tenant.as_mut());
        tenants.filter_map(|tenant| match tenant {
            Socket::Udp(socket) => Some(&mut **socket),
            _ => None,
        })
    }

    /// The connection `id` names.
    pub(crate) fn connection(&self, id: SocketId) -> Option<&Connection> {
        match self.tenant(id)? {
            Socket::Connection(connection) => Some(connection),
            _ => None,
        }
    }

    /// The connection `id` names.
    pub(crate) fn connection_mut(&mut self, id: SocketId) -> Option<&mut Connection> {
        match self.tenant_mut(id)? {
            Socket::Connection(connection) => Some(connection),
            _ => None,
        }
    }

    /// The listener `id` names.
    pub(crate) fn listener(&self, id: SocketId) -> Option<&Listener> {
        match self.tenant(id)? {
            Socket::Listener(listener) => Some(listener),
            _ => None,
        }
    }

    /// The listener `id` names.
    pub(crate) fn listener_mut(&mut self, id: SocketId) -> Option<&mut Listener> {
        match self.tenant_mut(id)? {
            Socket::Listener(listener) => Some(listener),
            _ => None,
        }
    }

    /// The request `id` names.
    pub(crate) fn request(&self, id: SocketId) -> Option<&Request> {
        match self.tenant(id)? {
            Socket::Request(request) => Some(request),
            _ => None,
        }
    }

    /// The request `id` names.
    pub(crate) fn request_mut(&mut self, id: SocketId) -> Option<&mut Request> {
        match self.tenant_mut(id)? {
            Socket::Request(request) => Some(request),
            _ => None,
        }
    }

    /// The ends of the connection or request `id` names.
    pub(crate) fn tuple(&self, id: SocketId) -> Option<&Tuple> {
        match self.tenant(id)? {
            Socket::Connection(connection) => Some(&connection.tuple),
            Socket::Request(request) => Some(&request.tuple),
            _ => None,
        }
    }

    /// The datagram socket `id` names.
    pub(crate) fn udp(&self, id: SocketId) -> Option<&UdpSocket> {
        match self.tenant(id)? {
            Socket::Udp(socket) => Some(socket),
            _ => None,
        }
    }

    /// The datagram socket `id` names.
    pub(crate) fn udp_mut(&mut self, id: SocketId) -> Option<&mut UdpSocket> {
        match self.tenant_mut(id)? {
            Socket::Udp(socket) => Some(socket),
            _ => None,
        }
    }

    /// Whether socket `id` is on the run queue, and whether it waits for a frame.
    pub(crate) fn flags(&mut self, id: SocketId) -> Option<(&mut bool, &mut bool)> {
        match self.tenant_mut(id)? {
            Socket::Connection(connection) => {
                Some((&mut connection.links.queued, &mut connection.links.starved))
            }
            Socket::Udp(socket) => Some((&mut socket.links.queued, &mut socket.links.starved)),
            Socket::Listener(_) | Socket::Request(_) => None,
        }
    }

    /// Number of open sockets.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_counted_as_long_as_it_has_connections() {
        let config = TcpConfig {
            per_peer: Some(2),
            ..TcpConfig::default()
        };
        let mut listener = Listener::new(1.into(), config.into(), Key::from_seed(1));
        let peer = IpAddr::from([192, 0, 2, 1]);
        (0..2).for_each(|_| listener.count_in(peer));
        assert!(listener.has_enough_of(peer));
        listener.count_out(peer);
        assert!(!listener.has_enough_of(peer));
        listener.count_in(peer);
        assert!(listener.has_enough_of(peer));
        (0..2).for_each(|_| listener.count_out(peer));
        assert!(listener.peers.is_empty(), "no memory of who is gone");
    }

    #[test]
    fn an_old_handle_does_not_reach_the_next_tenant() {
        let mut sockets = Sockets::default();
        let listener = |_| {
            Socket::Listener(Box::new(Listener::new(
                1.into(),
                TcpConfig::default().into(),
                Key::from_seed(1),
            )))
        };
        let first = sockets.insert(listener);
        assert!(sockets.remove(first).is_some());
        let second = sockets.insert(listener);
        assert_eq!(first.index, second.index);
        assert!(sockets.listener_mut(first).is_none());
        assert!(sockets.remove(first).is_none());
        assert!(sockets.listener_mut(second).is_some());
        assert_eq!(sockets.len(), 1);
    }
}
