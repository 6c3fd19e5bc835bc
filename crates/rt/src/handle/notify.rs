//! [`NotifyFlag`]: queues a socket for the host's thread at most once.

use std::sync::OnceLock;

use tautline_base::SocketId;

use super::sync::{AtomicBool, Ordering};

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

    /// The host's id of the socket, once it is open.
    pub(super) fn id(&self) -> Option<SocketId> {
        self.socket.get().copied()
    }

    /// Returns the id if the socket is to be queued.
    pub(super) fn set(&self) -> Option<SocketId> {
        let first = !self.is_set.swap(true, Ordering::AcqRel);
        self.socket.get().copied().filter(|_| first)
    }
}

/// State of a socket that its handles share with the host's thread.
pub(super) trait Notified {
    fn notify_flag(&self) -> &NotifyFlag;
}
