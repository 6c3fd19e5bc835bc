//! Commands from the handles to the host's thread: a queue of [`Command`]s and a wake-up.
//!
//! A socket has at most one [`Command::Serve`] in the queue, so their number is bounded by that of
//! the sockets, and the host's thread serves only sockets with work. Options and queries take one
//! command per call.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tautline_base::SocketId;
use tautline_stack::{Replaced, TcpInfo, UdpInfo};
use tautline_tc::Tree;

use super::oneshot::Reply;
use super::options::Setting;
use super::{StackHandle, listener, sockets, udp};

/// A request to the host's thread.
#[derive(Debug)]
pub(super) enum Command {
    Connect(Box<sockets::Connect>),
    Listen(Box<listener::HostEnd>),
    BindUdp(Box<udp::Bind>),
    ConnectUdp(SocketId, SocketAddr, Reply<()>),
    UdpInfo(SocketId, Reply<UdpInfo>),
    /// Replace the root qdisc.
    Qdisc(Box<Tree>, Reply<Replaced>),
    /// Move the bytes of a socket whose handle wrote, made room or was dropped.
    Serve(SocketId),
    Set(SocketId, Setting),
    TcpInfo(SocketId, Reply<TcpInfo>),
}

/// Whether a socket is in the queue.
#[derive(Debug, Default)]
pub(super) struct NotifyFlag {
    /// Known once the host has opened the socket.
    socket: OnceLock<SocketId>,
    is_set: AtomicBool,
}

impl NotifyFlag {
    /// On the host's thread: names the socket. The caller serves it afterwards: earlier
    /// notifications could not be queued without its id.
    pub(super) fn set_socket(&self, socket: SocketId) {
        self.socket
            .set(socket)
            .expect("a socket is named once, by the thread that made it");
        self.clear();
    }

    /// On the host's thread, before it serves the socket: later work needs another notification.
    pub(super) fn clear(&self) {
        self.is_set.swap(false, Ordering::AcqRel);
    }

    /// Returns the id if the socket is to be queued.
    fn set(&self) -> Option<SocketId> {
        let first = !self.is_set.swap(true, Ordering::AcqRel);
        self.socket.get().copied().filter(|_| first)
    }
}

/// State of a socket that its handles share with the host's thread.
pub(super) trait Notified {
    fn notify_flag(&self) -> &NotifyFlag;
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
        self.shared.notify_flag().socket.get().copied()
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
