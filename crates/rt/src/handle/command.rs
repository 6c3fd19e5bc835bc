//! Commands from the handles to the host's thread: a queue of [`Command`]s and a wake-up.
//!
//! A socket has at most one [`Command::Serve`] in the queue, so their number is bounded by that of
//! the sockets, and the host's thread serves only sockets with work. Options and queries take one
//! command per call.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use tautline_base::SocketId;
use tautline_stack::{HostStats, Rejection, Replaced, SocketOption, TcpConfig, TcpInfo, UdpInfo};
use tautline_tc::{Report, Tree};

use super::byte_queue::Budget;
use super::notify::Notified;
use super::oneshot::Reply;
use super::{StackHandle, connection, listener_host, udp_host};

/// A request to the host's thread.
#[derive(Debug)]
pub(super) enum Command {
    Connect(Box<Connect>),
    /// Answer a request by a SYN-ACK, or by a refusal.
    Accept(SocketId, Box<connection::HostEnd>),
    Reject(SocketId, Rejection),
    Listen(Box<listener_host::HostEnd>),
    BindUdp(Box<udp_host::Bind>),
    ConnectUdp(SocketId, SocketAddr, Reply<()>),
    UdpInfo(SocketId, Reply<UdpInfo>),
    /// Replace the root qdisc.
    Qdisc(Box<Tree>, Reply<Replaced>),
    QdiscReport(Reply<Report>),
    /// Whether the host has something to deliver for streams that were dropped.
    IsDelivering(Reply<bool>),
    /// Never answered: waits for the end of the host.
    End(Reply<Infallible>),
    /// Move the bytes of a socket whose handle wrote, freed space or was dropped.
    Serve(SocketId),
    Set(SocketId, SocketOption),
    TcpInfo(SocketId, Reply<TcpInfo>),
    HostStats(Reply<(HostStats, usize, u64)>, Arc<Budget>),
}

/// A request to open a connection.
#[derive(Debug)]
pub(super) struct Connect {
    pub(super) local: Option<SocketAddr>,
    pub(super) tcp: Arc<TcpConfig>,
    pub(super) end: connection::HostEnd,
}

/// A handle's reference to its shared state and to the host's thread. Dropping it notifies the
/// host.
#[derive(Debug)]
pub(super) struct SocketRef<S: Notified> {
    shared: Arc<S>,
    stack: StackHandle,
}

impl<S: Notified> SocketRef<S> {
    pub(super) fn new(shared: Arc<S>, stack: StackHandle) -> Self {
        Self { shared, stack }
    }

    /// Whether both refer to the same socket.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The host's id of the socket, once it is open.
    pub(super) fn id(&self) -> Option<SocketId> {
        self.shared.notify_flag().id()
    }

    /// Queues a command and wakes the host's thread.
    pub(super) fn command(&self, command: Command) {
        self.stack.command(command);
    }

    /// Lets the host's thread serve the socket.
    pub(super) fn notify_host(&self) {
        if let Some(socket) = self.shared.notify_flag().set() {
            self.stack.command(Command::Serve(socket));
        }
    }
}

impl<S: Notified> Deref for SocketRef<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.shared
    }
}

impl<S: Notified> Drop for SocketRef<S> {
    fn drop(&mut self) {
        self.notify_host();
    }
}
