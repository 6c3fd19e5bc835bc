//! [`TcpListener`]: an application's handle to a listening port.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use tautline_base::SocketId;
use tautline_stack::{ListenAt, TcpConfig};

use super::command::{Command, Notified, NotifyFlag, SocketRef};
use super::waiters::Waiters;
use super::{Failure, StackHandle, TcpStream, connection};

/// A listening socket. Dropping it frees the port and resets the connections that were not
/// accepted.
#[derive(Debug)]
pub struct TcpListener {
    // Dropped before `socket` notifies the host's thread, which then finds the queue abandoned.
    queue: Mutex<Consumer<Waiting>>,
    socket: SocketRef<Shared>,
    at: ListenAt,
}

/// A connection that is not accepted yet. Dropping it sends a reset.
#[derive(Debug)]
struct Waiting(Option<TcpStream>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            stream.abort();
        }
    }
}

/// State of a listener that both threads access.
#[derive(Debug, Default)]
pub(super) struct Shared {
    notify_flag: NotifyFlag,
    acceptor: Arc<Waiters>,
    bound: OnceLock<()>,
    /// Why accepting has ended.
    end: OnceLock<Failure>,
}

impl Notified for Shared {
    fn notify_flag(&self) -> &NotifyFlag {
        &self.notify_flag
    }
}

impl TcpListener {
    /// Listens on a port, named alone or with one of the host's addresses; see [`ListenAt`].
    ///
    /// # Errors
    /// [`Failure`]: the port is 0 or taken, the address is not the host's, or the host is gone.
    pub async fn bind(stack: &StackHandle, at: impl Into<ListenAt>) -> io::Result<Self> {
        Self::bind_with(stack, at, stack.config().tcp.clone()).await
    }

    /// As [`bind`](Self::bind), with a configuration for its connections.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn bind_with(
        stack: &StackHandle,
        at: impl Into<ListenAt>,
        tcp: TcpConfig,
    ) -> io::Result<Self> {
        Self::bind_for(stack, at.into(), tcp, Arc::default()).await
    }

    /// As [`bind_with`](Self::bind_with); a new connection wakes `acceptor`.
    pub(super) async fn bind_for(
        stack: &StackHandle,
        at: ListenAt,
        tcp: TcpConfig,
        acceptor: Arc<Waiters>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            acceptor,
            ..Shared::default()
        });
        let (accepted, queue) = RingBuffer::new(stack.config().accept_queue.get());
        let listener = Self {
            queue: Mutex::new(queue),
            socket: SocketRef::new(Arc::clone(&shared), stack.clone()),
            at,
        };
        let end = HostEnd {
            shared,
            queue: accepted,
            stack: stack.clone(),
            at,
            tcp,
        };
        stack.command(Command::Listen(Box::new(end)));
        listener.bound().await?;
        Ok(listener)
    }

    async fn bound(&self) -> io::Result<()> {
        let bound = || match self.socket.end.get() {
            Some(why) => Some(Err((*why).into())),
            None => self.socket.bound.get().map(|()| Ok(())),
        };
        self.socket.acceptor.wait(bound).await
    }

    /// The local port.
    pub fn port(&self) -> u16 {
        self.at.address().port()
    }

    /// The local address; unspecified if the listener accepts on several.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.at.address())
    }

    /// Accepts a connection; returns it with its peer's address. Any number of tasks may wait, each
    /// connection goes to one of them. Cancel safe.
    ///
    /// # Errors
    /// [`Failure::HostGone`].
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.socket.acceptor.wait(|| self.take()).await
    }

    /// As [`accept`](Self::accept). Wakes the last task that called.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.socket.acceptor.poll(context, || self.take())
    }

    pub(super) fn take(&self) -> Option<io::Result<(TcpStream, SocketAddr)>> {
        // Read before the queue: the end is declared after the last connection.
        let end = self.socket.end.get();
        let next = self
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        match next.ok().and_then(|mut waiting| waiting.0.take()) {
            Some(stream) => {
                let peer = stream.peer_addr();
                Some(peer.map(|peer| (stream, peer)))
            }
            None => end.map(|why| Err((*why).into())),
        }
    }
}

/// The host's end of a listener. Dropping it ends the listener with [`Failure::HostGone`], unless
/// it has ended before.
#[derive(Debug)]
pub(super) struct HostEnd {
    shared: Arc<Shared>,
    queue: Producer<Waiting>,
    stack: StackHandle,
    pub(super) at: ListenAt,
    pub(super) tcp: TcpConfig,
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
        self.queue.is_abandoned()
    }

    /// Queues the new connection `socket` for the application. `None` if the accept queue is full.
    pub(super) fn push(
        &mut self,
        socket: SocketId,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<connection::HostEnd> {
        let (stream, end) = connection::pair(&self.stack, peer, &self.tcp);
        end.set_socket(socket, Some(local));
        end.opened();
        match self.queue.push(Waiting(Some(stream))) {
            Ok(()) => {
                self.shared.acceptor.wake();
                Some(end)
            }
            Err(PushError::Full(_)) => None,
        }
    }
}

impl Drop for HostEnd {
    fn drop(&mut self) {
        self.end(Failure::HostGone);
    }
}
