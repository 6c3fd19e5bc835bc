//! How a handle tells the host's thread that there is something to do: a queue of [`Command`]s and
//! a wake-up.
//!
//! Each socket asks for attention at most once at a time, so that part of the queue is bounded by
//! the number of sockets, and the host's thread looks only at those that have something to do.
//! Settings and questions come one for each call.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tautline_base::SocketId;
use tautline_stack::{Replaced, TcpInfo, UdpInfo};
use tautline_tc::Tree;

use super::answer::Answer;
use super::options::Setting;
use super::{Stack, listener, sockets, udp};

/// What a handle asks of the host's thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Open a connection.
    Connect(Box<sockets::Connect>),
    /// Open a listener.
    Listen(Box<listener::HostEnd>),
    /// Bind a datagram socket.
    BindUdp(Box<udp::Bind>),
    /// Connect a datagram socket.
    ConnectUdp(SocketId, SocketAddr, Answer<()>),
    /// Tell about a datagram socket.
    UdpInfo(SocketId, Answer<UdpInfo>),
    /// Replace the root discipline.
    Qdisc(Box<Tree>, Answer<Replaced>),
    /// Look at a socket: its handle did something.
    Attend(SocketId),
    /// Change a setting of a connection.
    Set(SocketId, Setting),
    /// Tell about a connection.
    Info(SocketId, Answer<TcpInfo>),
}

/// Whether a socket is in the queue.
#[derive(Debug, Default)]
pub(super) struct Notice {
    /// The host's name for the socket, once it has one.
    socket: OnceLock<SocketId>,
    given: AtomicBool,
}

impl Notice {
    /// On the host's thread: the socket is called `socket`. The caller looks at it afterwards:
    /// notices that were given before had no name to carry.
    pub(super) fn name(&self, socket: SocketId) {
        self.socket
            .set(socket)
            .expect("a socket is named once, by the thread that made it");
        self.take();
    }

    /// On the host's thread, before looking at the socket: what is done from now on needs another
    /// notice.
    pub(super) fn take(&self) {
        self.given.swap(false, Ordering::AcqRel);
    }

    /// Notes that the socket wants attention. `Some` if it is to be put into the queue.
    fn give(&self) -> Option<SocketId> {
        let first = !self.given.swap(true, Ordering::AcqRel);
        self.socket.get().copied().filter(|_| first)
    }
}

/// State of a socket that its handles share with the host's thread.
pub(super) trait Shared {
    /// Its place in the queue.
    fn notice(&self) -> &Notice;
}

/// A handle's way to its shared state and to the host's thread. Dropping it asks for attention too:
/// the handle is gone.
#[derive(Debug)]
pub(super) struct Line<S: Shared> {
    shared: Arc<S>,
    stack: Stack,
}

impl<S: Shared> Line<S> {
    pub(super) fn new(shared: Arc<S>, stack: Stack) -> Self {
        Self { shared, stack }
    }

    /// Both lead to the same socket.
    pub(super) fn is_the_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The host's name for the socket, once it has one.
    pub(super) fn socket(&self) -> Option<SocketId> {
        self.shared.notice().socket.get().copied()
    }

    /// Puts a command into the queue and wakes the host's thread.
    pub(super) fn command(&self, command: Command) {
        self.stack.command(command);
    }

    /// Asks the host's thread to look at the socket.
    pub(super) fn ring(&self) {
        if let Some(socket) = self.shared.notice().give() {
            self.stack.command(Command::Attend(socket));
        }
    }
}

impl<S: Shared> Deref for Line<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.shared
    }
}

impl<S: Shared> Drop for Line<S> {
    fn drop(&mut self) {
        self.ring();
    }
}
