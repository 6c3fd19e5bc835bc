//! How a handle tells the host's thread that there is something to do: a queue of [`Command`]s and a wake-up.
//!
//! Each socket is in the queue at most once, so the queue is bounded by the number of sockets, and the host's thread looks only
//! at those that have something to do.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tautline_base::SocketId;

use super::{Stack, listener, sockets};

/// What a handle asks of the host's thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Open a connection.
    Connect(Box<sockets::Connect>),
    /// Open a listener.
    Listen(Box<listener::HostEnd>),
    /// Look at a socket: its handle did something.
    Attend(SocketId),
}

/// Whether a socket is in the queue.
#[derive(Debug, Default)]
pub(super) struct Notice {
    /// The host's name for the socket, once it has one.
    socket: OnceLock<SocketId>,
    given: AtomicBool,
}

impl Notice {
    /// On the host's thread: the socket is called `socket`. The caller looks at it afterwards: notices that were given before
    /// had no name to carry.
    pub(super) fn name(&self, socket: SocketId) {
        self.socket.set(socket).expect("a socket is named once, by the thread that made it");
        self.take();
    }

    /// On the host's thread, before looking at the socket: what is done from now on needs another notice.
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

/// A handle's way to its shared state and to the host's thread. Dropping it asks for attention too: the handle is gone.
#[derive(Debug)]
pub(super) struct Line<S: Shared> {
    shared: Arc<S>,
    stack: Stack,
}

impl<S: Shared> Line<S> {
    pub(super) fn new(shared: Arc<S>, stack: Stack) -> Self {
        Self { shared, stack }
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
