//! The host's end of a [`TcpListener`](super::TcpListener).

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use tautline_base::SocketId;
use tautline_stack::{ListenAt, TcpConfig};

use super::connection::{self, AppEnd};
use super::notify::{Notified, NotifyFlag};
use super::waiters::Waiters;
use super::{Failure, StackHandle};

/// An arrival at a listener.
#[derive(Debug)]
pub(super) enum Arrived {
    Connection(AppEnd),
    /// A SYN that waits for an answer, its local address, its peer and the listener's configuration.
    Request(SocketId, SocketAddr, SocketAddr, Arc<TcpConfig>),
}

/// The connections that the application has not accepted yet.
pub(super) trait AcceptQueue: Debug + Send {
    /// Returns false, and resets the connection, if the queue is full.
    fn push(&mut self, arrived: Arrived, stack: &StackHandle) -> bool;

    /// Whether the application has dropped the listener.
    fn is_released(&self) -> bool;
}

/// State of a listener that both threads access.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) notify_flag: NotifyFlag,
    pub(super) acceptor: Arc<Waiters>,
    pub(super) bound: OnceLock<()>,
    /// Why accepting has ended.
    pub(super) end: OnceLock<Failure>,
}

impl Notified for Shared {
    fn notify_flag(&self) -> &NotifyFlag {
        &self.notify_flag
    }
}

/// The host's end of a listener. Dropping it ends the listener with [`Failure::HostGone`], unless
/// it has ended before.
#[derive(Debug)]
pub(super) struct HostEnd {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Box<dyn AcceptQueue>,
    pub(super) stack: StackHandle,
    pub(super) at: ListenAt,
    pub(super) tcp: Arc<TcpConfig>,
}

impl HostEnd {
    /// Publishes that the host listens as `socket`.
    pub(super) fn bound(&self, socket: SocketId) {
        self.shared.notify_flag.set_socket(socket);
        // Set only here.
        let _ = self.shared.bound.set(());
        self.shared.acceptor.wake();
    }

    /// Ends accepting. The first reason stays.
    pub(super) fn end(&self, why: Failure) {
        let _ = self.shared.end.set(why);
        self.shared.acceptor.wake();
    }

    /// See [`NotifyFlag::clear`].
    pub(super) fn clear_notification(&self) {
        self.shared.notify_flag.clear();
    }

    /// Whether the application has dropped the listener.
    pub(super) fn is_released(&self) -> bool {
        self.queue.is_released()
    }

    /// Queues the new connection `socket` for the application. `None` if the accept queue is full.
    pub(super) fn push(
        &mut self,
        socket: SocketId,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<connection::HostEnd> {
        let (app, end) = connection::pair(&self.stack, peer, &self.tcp);
        end.set_socket(socket, Some(local));
        end.opened();
        self.queue
            .push(Arrived::Connection(app), &self.stack)
            .then(|| {
                self.shared.acceptor.wake();
                end
            })
    }

    /// Queues a SYN for the application. False if the accept queue is full.
    pub(super) fn push_request(
        &mut self,
        request: SocketId,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> bool {
        let arrived = Arrived::Request(request, local, peer, Arc::clone(&self.tcp));
        let is_queued = self.queue.push(arrived, &self.stack);
        self.shared.acceptor.wake();
        is_queued
    }
}

impl Drop for HostEnd {
    fn drop(&mut self) {
        self.end(Failure::HostGone);
    }
}
