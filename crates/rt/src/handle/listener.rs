//! [`TcpListener`]: an application's handle to a listening port.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_stack::{ListenAt, TcpConfig};

use super::command::{Command, SocketRef};
use super::listener_host::{AcceptQueue, Arrived, HostEnd, Shared};
use super::request::TcpRequest;
use super::waiters::Waiters;
use super::{StackHandle, TcpStream};

/// A listening socket. Dropping it frees the port and resets the connections that were not
/// accepted.
pub struct TcpListener {
    // Dropped before `socket` notifies the host's thread, which then finds the queue abandoned.
    queue: Mutex<Consumer<Waiting>>,
    socket: SocketRef<Shared>,
    at: ListenAt,
}

/// A connection that is not accepted yet. Dropping it sends a reset.
#[derive(Debug)]
enum Waiting {
    Stream(Option<TcpStream>),
    Request(Option<TcpRequest>),
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Self::Stream(stream) = self
            && let Some(stream) = stream.take()
        {
            stream.abort();
        }
    }
}

/// The host's end of the accept queue.
#[derive(Debug)]
struct Accepted(Producer<Waiting>);

impl AcceptQueue for Accepted {
    fn push(&mut self, arrived: Arrived, stack: &StackHandle) -> bool {
        let waiting = match arrived {
            Arrived::Connection(end) => Waiting::Stream(Some(TcpStream::new(end, stack))),
            Arrived::Request(id, local, peer, tcp) => {
                Waiting::Request(Some(TcpRequest::new(id, local, peer, (stack, tcp))))
            }
        };
        self.0.push(waiting).is_ok()
    }

    fn is_released(&self) -> bool {
        self.0.is_abandoned()
    }
}

impl TcpListener {
    /// Listens on a port, named alone or with one of the host's addresses; see [`ListenAt`].
    ///
    /// # Errors
    /// [`Failure`](super::Failure): the port is 0 or taken, the address is not the host's, or the host is gone.
    pub async fn bind(stack: &StackHandle, at: impl Into<ListenAt>) -> io::Result<Self> {
        Self::bind_with(stack, at, stack.config().tcp.clone()).await
    }

    /// Like [`bind`](Self::bind), with a configuration for its connections.
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

    /// Like [`bind_with`](Self::bind_with); a new connection wakes `acceptor`.
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
            queue: Box::new(Accepted(accepted)),
            stack: stack.clone(),
            at,
            tcp: Arc::new(tcp),
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
    /// Never; the return type is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.at.address())
    }

    /// Accepts a connection; returns it with its peer's address. Any number of tasks may wait; each
    /// connection goes to one of them. Cancel safe.
    ///
    /// # Errors
    /// [`Failure::HostGone`](super::Failure::HostGone).
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.socket.acceptor.wait(|| self.take()).await
    }

    /// Like [`accept`](Self::accept). Wakes the last task that called.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.socket.acceptor.poll(context, || self.take())
    }

    /// The next SYN at a listener with
    /// [`TcpConfig::deferred_accept`]: the application decides whether it becomes a connection.
    /// Cancel safe.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub async fn request(&self) -> io::Result<TcpRequest> {
        self.socket.acceptor.wait(|| self.take_request()).await
    }

    /// Like [`request`](Self::request). Wakes the last task that called.
    pub fn poll_request(&self, context: &mut Context<'_>) -> Poll<io::Result<TcpRequest>> {
        self.socket.acceptor.poll(context, || self.take_request())
    }

    fn take_request(&self) -> Option<io::Result<TcpRequest>> {
        loop {
            match self.next()? {
                Ok(mut waiting) => {
                    if let Waiting::Request(request) = &mut waiting
                        && let Some(request) = request.take()
                    {
                        return Some(Ok(request));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The next connection. SYNs of a deferred listener are reset.
    pub(super) fn take(&self) -> Option<io::Result<(TcpStream, SocketAddr)>> {
        loop {
            match self.next()? {
                Ok(mut waiting) => {
                    if let Waiting::Stream(stream) = &mut waiting
                        && let Some(stream) = stream.take()
                    {
                        let peer = stream.peer_addr();
                        return Some(peer.map(|peer| (stream, peer)));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn next(&self) -> Option<io::Result<Waiting>> {
        // Read before the queue: the end is declared after the last connection.
        let end = self.socket.end.get();
        let next = self
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        match next.ok() {
            Some(waiting) => Some(Ok(waiting)),
            None => end.map(|why| Err((*why).into())),
        }
    }
}
