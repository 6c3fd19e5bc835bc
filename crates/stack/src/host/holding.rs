//! What connections hold of the host, and what happens when it is too much: memory of buffers,
//! orphans, TIME-WAIT ([`Limits`]).

use std::collections::VecDeque;

use tautline_base::{Device, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;

use super::Host;
use crate::limits::Limits;
use crate::sockets::Socket;
use crate::tcp::Connection;
use crate::trace::Tracer;

/// What all connections hold together.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) limits: Limits,
    /// Bytes in buffers.
    memory: u64,
    orphans: usize,
    /// Closed, or held back by the peer's window: the first to go when memory is short, oldest
    /// first.
    suspects: VecDeque<SocketId>,
}

impl Holdings {
    fn is_full(&self) -> bool {
        self.memory > self.limits.memory.get()
    }

    /// A connection has been charged for what it holds, and there is room: as it is after nearly
    /// every segment.
    #[inline]
    pub(super) fn are_settled_with(&self, connection: &Connection) -> bool {
        let known = connection.links.suspect || !connection.is_suspect();
        known
            && connection.memory() == connection.links.charged
            && !connection.memory_pressure
            && !self.is_full()
    }
}

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// From now on connections together hold no more than `limits` says.
    pub fn set_limits(&mut self, limits: Limits) {
        self.holdings.limits = limits;
        self.relieve();
    }

    /// Bytes that connections hold in their buffers, as counted against [`Limits::memory`].
    pub fn buffer_memory(&self) -> u64 {
        self.holdings.memory
    }

    /// A connection's buffers have grown or shrunk: charges it, tells it how things stand, and
    /// makes room if there is none.
    pub(super) fn charge(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        let holdings = &mut self.holdings;
        let memory = connection.memory();
        let suspected = !connection.links.suspect && connection.is_suspect();
        holdings.memory = (holdings.memory + memory).saturating_sub(connection.links.charged);
        connection.links.charged = memory;
        if suspected {
            connection.links.suspect = true;
            holdings.suspects.push_back(id);
            self.forget_ended_suspects();
        }
        self.relieve();
        let full = self.holdings.is_full();
        if let Some(connection) = self.sockets.connection_mut(id) {
            connection.memory_pressure = full;
        }
    }

    /// Connections end without a word to the queue of suspects; when more than half of it is stale
    /// it is swept.
    fn forget_ended_suspects(&mut self) {
        if self.holdings.suspects.len() > 2 * self.sockets.len() + 64 {
            let sockets = &self.sockets;
            self.holdings
                .suspects
                .retain(|id| sockets.connection(*id).is_some());
        }
    }

    /// While there is too little memory, resets those who have held some for longest with the least
    /// right to it.
    fn relieve(&mut self) {
        while self.holdings.is_full() {
            let Some(id) = self.holdings.suspects.pop_front() else {
                return;
            };
            let Some(connection) = self.sockets.connection_mut(id) else {
                continue;
            };
            connection.links.suspect = false;
            if !connection.is_suspect() {
                continue;
            }
            connection.starve();
            self.stats.out_of_memory += 1;
            self.holdings.memory -=
                std::mem::take(&mut connection.links.charged).min(self.holdings.memory);
            self.runnable.push(connection);
        }
    }

    /// The application has let go of a connection. Beyond the limit of orphans it is reset instead
    /// of delivered.
    pub(super) fn adopt(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        if connection.finished() || std::mem::replace(&mut connection.links.counted_orphan, true) {
            return;
        }
        self.holdings.orphans += 1;
        if self.holdings.orphans > self.holdings.limits.orphans && connection.still_delivers() {
            connection.abort();
            self.stats.too_many_orphans += 1;
        }
    }

    /// A connection that is only in TIME-WAIT becomes a record. True if it did.
    pub(super) fn retire(&mut self, id: SocketId) -> bool {
        let Some(connection) = self.sockets.connection(id) else {
            return false;
        };
        let Some(state) = connection.time_wait_state() else {
            return false;
        };
        let tuple = connection.tuple;
        self.forget(id);
        if !self.demux.contains(&tuple)
            && !self
                .time_waits
                .insert(tuple, state, self.holdings.limits.time_wait)
        {
            self.stats.time_wait_full += 1;
        }
        true
    }

    /// Frees a connection's slot.
    pub(super) fn forget(&mut self, id: SocketId) {
        let Some(Socket::Connection(connection)) = self.sockets.remove(id) else {
            return;
        };
        let Connection { tuple, links, .. } = &*connection;
        // A newer connection may have taken the dead one's place.
        if self.demux.get(tuple) == Some(id) {
            self.demux.remove(tuple);
        }
        self.holdings.memory = self.holdings.memory.saturating_sub(links.charged);
        self.holdings.orphans -= usize::from(links.counted_orphan);
        if let Some(listener) = links
            .counted_at
            .and_then(|at| self.sockets.listener_mut(at))
        {
            listener.count_out(tuple.remote);
        }
    }
}
