//! [`TcpRequest`]: a SYN that waits for its application's answer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tautline_base::SocketId;
use tautline_stack::{Rejection, TcpConfig};

use super::command::Command;
use super::connection::pair;
use super::stream::Attempt;
use super::{StackHandle, TcpStream};

/// A SYN at a listener with [`deferred_accept`](tautline_stack::TcpConfig::deferred_accept). Dropping
/// it resets the requested connection.
pub struct TcpRequest {
    id: SocketId,
    local: SocketAddr,
    peer: SocketAddr,
    stack: StackHandle,
    /// The listener's.
    tcp: Arc<TcpConfig>,
    is_answered: bool,
}

impl TcpRequest {
    pub(super) fn new(
        id: SocketId,
        local: SocketAddr,
        peer: SocketAddr,
        (stack, tcp): (&StackHandle, Arc<TcpConfig>),
    ) -> Self {
        Self {
            id,
            local,
            peer,
            stack: stack.clone(),
            tcp,
            is_answered: false,
        }
    }

    /// The requested destination.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Answers by a SYN-ACK and waits until the connection is open. Dropping the future resets it.
    ///
    /// # Errors
    /// [`Failure`](super::Failure): the request has expired, the peer does not answer or has given up,
    /// or the host is gone.
    pub async fn accept(mut self) -> io::Result<TcpStream> {
        self.is_answered = true;
        let (app, end) = pair(&self.stack, self.peer, &self.tcp);
        let shared = Arc::clone(&app.shared);
        let stream = TcpStream::new(app, &self.stack);
        // Dropped before the stream, which notifies the host.
        let attempt = Attempt::new(shared);
        self.stack.command(Command::Accept(self.id, Box::new(end)));
        stream.opened().await?;
        attempt.succeed();
        Ok(stream)
    }

    /// Refuses the connection.
    pub fn reject(mut self, how: Rejection) {
        self.is_answered = true;
        self.stack.command(Command::Reject(self.id, how));
    }
}

impl Drop for TcpRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            self.stack
                .command(Command::Reject(self.id, Rejection::Reset));
        }
    }
}
