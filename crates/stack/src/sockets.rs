//! The table of sockets: slots with generations, so that an old handle never reaches the slot's next tenant.

use std::num::NonZeroU32;

use tautline_base::SocketId;

use crate::config::TcpConfig;
use crate::tcp::Connection;

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

/// A socket. Connections are boxed: slots stay small, and idle slots hold nothing.
pub(crate) enum Socket {
    Listener(Listener),
    Connection(Box<Connection>),
}

/// Waits for connections on a port.
pub(crate) struct Listener {
    pub(crate) port: u16,
    pub(crate) config: TcpConfig,
    /// Connections that are half open.
    pub(crate) pending: usize,
}

impl Sockets {
    /// Reserves a slot, fills it with what `make` builds for its id.
    pub(crate) fn insert(&mut self, make: impl FnOnce(SocketId) -> Socket) -> SocketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: NonZeroU32::MIN, tenant: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let id = SocketId { index, generation: slot.generation };
        slot.tenant = Some(make(id));
        id
    }

    /// Empties a slot and ends its generation.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Socket> {
        let slot = self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        let tenant = slot.tenant.take()?;
        slot.generation = slot.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.free.push(id.index);
        Some(tenant)
    }

    fn tenant(&self, id: SocketId) -> Option<&Socket> {
        let slot = self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        slot.tenant.as_ref()
    }

    fn tenant_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let slot = self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        slot.tenant.as_mut()
    }

    /// The connection `id` names.
    pub(crate) fn connection(&self, id: SocketId) -> Option<&Connection> {
        match self.tenant(id)? {
            Socket::Connection(connection) => Some(connection),
            Socket::Listener(_) => None,
        }
    }

    /// The connection `id` names.
    pub(crate) fn connection_mut(&mut self, id: SocketId) -> Option<&mut Connection> {
        match self.tenant_mut(id)? {
            Socket::Connection(connection) => Some(connection),
            Socket::Listener(_) => None,
        }
    }

    /// The listener `id` names.
    pub(crate) fn listener_mut(&mut self, id: SocketId) -> Option<&mut Listener> {
        match self.tenant_mut(id)? {
            Socket::Listener(listener) => Some(listener),
            Socket::Connection(_) => None,
        }
    }

    /// How many sockets there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_handle_does_not_reach_the_next_tenant() {
        let mut sockets = Sockets::default();
        let listener = |_| Socket::Listener(Listener { port: 1, config: TcpConfig::default(), pending: 0 });
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
