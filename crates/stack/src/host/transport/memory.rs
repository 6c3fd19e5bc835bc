//! [`Memory`]: the buffers, orphans and TIME-WAIT states of all connections together, and the
//! connections that are reset when they exceed [`Limits`].

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Instant, SocketId};

use super::Transport;
use crate::limits::Limits;
use crate::socket::CloseReason;
use crate::sockets::Socket;
use crate::tcp::{Connection, ReceiveShare};

/// How long an application may leave all of its data unread when memory is short.
const STALLED: Duration = Duration::from_millis(100);
/// Part of the free memory that the window of one connection may offer to fill.
const SHARE: u64 = 8;
/// Connections examined per poll.
const EXAMINED: usize = 64;
/// Time between polls that examine any, until memory overflows: memory may stay full for long.
const PAUSE: Duration = Duration::from_millis(10);

/// A connection that has buffers.
#[derive(Debug)]
struct Holder {
    id: SocketId,
    /// Bytes that its application had read at `since`, and no more when it was last examined.
    read: u64,
    since: Instant,
}

/// The account of what all connections hold.
#[derive(Debug, Default)]
pub(in crate::host) struct Memory {
    limits: Limits,
    /// Bytes in buffers.
    buffered: u64,
    orphans: usize,
    /// Closed connections and those held back by the peer's window: the first to be reset when
    /// memory is short, oldest first.
    suspects: VecDeque<SocketId>,
    /// The connections that took buffers while half of the memory or more was taken, examined in
    /// turn when the former are not enough.
    holders: VecDeque<Holder>,
    /// When they were last examined.
    examined: Instant,
}

impl Memory {
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(in crate::host) fn buffered(&self) -> u64 {
        self.buffered
    }

    pub(in crate::host) fn is_full(&self) -> bool {
        self.buffered > self.limits.memory.get()
    }

    /// Whether more is held than pressure on senders and receivers allows for.
    fn overflows(&self) -> bool {
        self.buffered > self.limits.memory.get().saturating_mul(5) / 4
    }

    /// Bytes that the window of one connection may offer. The share falls as memory fills, so that windows
    /// close before data must be dropped: the dynamic threshold of Choudhury and Hahne ("Dynamic
    /// Queue Length Thresholds for Shared-Memory Packet Switches", 1998).
    fn share(&self) -> ReceiveShare {
        let free = self.limits.memory.get().saturating_sub(self.buffered);
        ReceiveShare::new(free / SHARE)
    }

    /// Whether a connection's charge is current and below the limit: true after nearly every
    /// segment.
    #[inline]
    pub(in crate::host) fn is_charged(&self, connection: &Connection) -> bool {
        let is_listed = connection.links.suspect || !connection.is_suspect();
        is_listed
            && connection.memory() == connection.links.charged
            && !connection.host_memory.pressure
            && connection.host_memory.share.is_none()
            && !self.is_full()
    }
}

impl Transport {
    /// Replaces the limits and enforces them.
    pub(in crate::host) fn set_limits(&mut self, limits: Limits) {
        self.memory.limits = limits;
        self.shed_memory();
    }

    /// Charges a connection for its buffers unless it is charged already.
    pub(in crate::host) fn charge_if_changed(&mut self, id: SocketId) {
        let connection = self.sockets.connection(id);
        if connection.is_some_and(|connection| !self.memory.is_charged(connection)) {
            self.charge(id);
        }
    }

    /// Charges a connection for its buffers, frees memory if necessary, and informs the connection
    /// whether memory is short.
    pub(super) fn charge(&mut self, id: SocketId) {
        let is_half_full = self.memory.buffered >= self.memory.limits.memory.get() / 2;
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        let memory = connection.memory();
        let is_new_suspect = !connection.links.suspect && connection.is_suspect();
        let is_new_holder = memory > 0 && is_half_full && !connection.set_listed(true).0;
        let charged = std::mem::replace(&mut connection.links.charged, memory);
        self.memory.buffered = (self.memory.buffered + memory).saturating_sub(charged);
        if is_new_suspect {
            connection.links.suspect = true;
            self.memory.suspects.push_back(id);
            self.prune_suspects();
        }
        if is_new_holder {
            self.memory.holders.push_back(Holder {
                id,
                read: u64::MAX,
                since: Instant::ZERO,
            });
            if self.memory.holders.len() > 2 * self.sockets.len() + 64 {
                let sockets = &self.sockets;
                self.memory
                    .holders
                    .retain(|holder| sockets.connection(holder.id).is_some());
            }
        }
        self.shed_memory();
        let (is_full, share) = (self.memory.is_full(), self.memory.share());
        if let Some(connection) = self.sockets.connection_mut(id) {
            connection.host_memory.pressure = is_full;
            let most = connection.config.receive_buffer.get();
            let share = Some(share).filter(|share| share.bytes() < most);
            connection.host_memory.share = share;
        }
    }

    /// Removes suspects that have ended, once more than half of the queue is stale.
    fn prune_suspects(&mut self) {
        if self.memory.suspects.len() > 2 * self.sockets.len() + 64 {
            let sockets = &self.sockets;
            self.memory
                .suspects
                .retain(|id| sockets.connection(*id).is_some());
        }
    }

    /// Resets suspects, oldest first, until memory is within its limit.
    fn shed_memory(&mut self) {
        while self.memory.is_full() {
            let Some(id) = self.memory.suspects.pop_front() else {
                return;
            };
            let Some(connection) = self.sockets.connection_mut(id) else {
                continue;
            };
            connection.links.suspect = false;
            if connection.is_suspect() {
                self.reset_for_memory(id);
            }
        }
    }

    /// Resets connections whose application does not read, while memory overflows. It examines them
    /// from when memory is full, so that some are known to be stalled by then.
    pub(super) fn shed_stalled(&mut self, now: Instant) {
        if !self.memory.overflows() && now - self.memory.examined < PAUSE {
            return;
        }
        self.memory.examined = now;
        for _ in 0..EXAMINED.min(self.memory.holders.len()) {
            if !self.memory.is_full() {
                return;
            }
            let Some(mut holder) = self.memory.holders.pop_front() else {
                return;
            };
            let Some(connection) = self.sockets.connection_mut(holder.id) else {
                continue;
            };
            if connection.memory() == 0 {
                connection.set_listed(false);
                continue;
            }
            match connection.set_listed(true).1 {
                Some(read)
                    if read == holder.read
                        && now - holder.since >= STALLED
                        && self.memory.overflows() =>
                {
                    connection.set_listed(false);
                    self.reset_for_memory(holder.id);
                    continue;
                }
                Some(read) if read == holder.read => {}
                read => (holder.read, holder.since) = (read.unwrap_or(u64::MAX), now),
            }
            self.memory.holders.push_back(holder);
        }
    }

    fn reset_for_memory(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        connection.abort(CloseReason::OutOfMemory);
        self.stats.out_of_memory += 1;
        let charged = std::mem::take(&mut connection.links.charged);
        self.memory.buffered -= charged.min(self.memory.buffered);
        self.runnable.push(connection);
    }

    /// Counts a connection that its application released. Beyond the limit of orphans it is reset
    /// instead of delivered.
    pub(in crate::host) fn adopt_orphan(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        if connection.finished() || std::mem::replace(&mut connection.links.counted_orphan, true) {
            return;
        }
        self.memory.orphans += 1;
        if self.memory.orphans > self.memory.limits.orphans && !connection.state().is_over() {
            connection.abort(CloseReason::Aborted);
            self.stats.too_many_orphans += 1;
        }
    }

    /// Replaces a connection that is only in TIME-WAIT by a record. True if it did.
    pub(super) fn retire(&mut self, id: SocketId) -> bool {
        let Some(connection) = self.sockets.connection(id) else {
            return false;
        };
        let Some(state) = connection.time_wait_state() else {
            return false;
        };
        let tuple = connection.tuple;
        self.remove(id);
        let limit = self.memory.limits.time_wait;
        if self.demux.get(&tuple, &self.sockets).is_none()
            && !self.time_waits.insert(tuple, state, limit)
        {
            self.stats.time_wait_full += 1;
        }
        true
    }

    /// Frees a connection's slot.
    pub(super) fn remove(&mut self, id: SocketId) {
        let Some(Socket::Connection(connection)) = self.sockets.remove(id) else {
            return;
        };
        let Connection { tuple, links, .. } = &*connection;
        self.demux.remove(tuple, id);
        self.memory.buffered = self.memory.buffered.saturating_sub(links.charged);
        self.memory.orphans -= usize::from(links.counted_orphan);
        let listener = links.counted_at;
        if let Some(listener) = listener.and_then(|at| self.sockets.listener_mut(at)) {
            listener.count_out(tuple.remote);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::Bytes;

    #[test]
    fn memory_is_full_above_its_limit_and_overflows_a_quarter_later() {
        let mut memory = Memory::default();
        memory.limits.memory = Bytes::new(1000);
        for (buffered, is_full, overflows) in [
            (1000, false, false),
            (1001, true, false),
            (1250, true, false),
            (1251, true, true),
        ] {
            memory.buffered = buffered;
            assert_eq!(
                (memory.is_full(), memory.overflows()),
                (is_full, overflows),
                "{buffered}"
            );
        }
    }
}
