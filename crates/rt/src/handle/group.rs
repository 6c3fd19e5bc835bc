//! [`ListenerGroup`]: one port of many hosts. A network card with several queues has one host for
//! each, all with the same addresses; which of them gets a connection is the card's choice.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tautline_stack::{ListenAt, TcpConfig};

use super::waiters::Waiters;
use super::{Failure, StackHandle, TcpListener, TcpStream};

/// Listeners on the same port of several hosts, whose connections are accepted as if they were one.
#[derive(Debug)]
pub struct ListenerGroup {
    listeners: Vec<TcpListener>,
    acceptor: Arc<Waiters>,
    /// Who is asked first; they take turns.
    turn: AtomicUsize,
}

impl ListenerGroup {
    /// Listens on a port of every host, or of an address that all of them have.
    ///
    /// # Errors
    /// As [`TcpListener::bind`]; then no host listens.
    pub async fn bind(stacks: &[StackHandle], at: impl Into<ListenAt>) -> io::Result<Self> {
        let at = at.into();
        let acceptor = Arc::<Waiters>::default();
        let mut listeners = Vec::with_capacity(stacks.len());
        for stack in stacks {
            let tcp: TcpConfig = stack.config().tcp.clone();
            listeners.push(TcpListener::bind_for(stack, at, tcp, Arc::clone(&acceptor)).await?);
        }
        Ok(Self {
            listeners,
            acceptor,
            turn: AtomicUsize::new(0),
        })
    }

    /// The next connection of any host, and its peer. Any number of tasks may wait. Dropping the
    /// future loses nothing.
    ///
    /// # Errors
    /// [`Failure::HostGone`] when the last host has gone.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.acceptor.wait(|| self.take()).await
    }

    /// As [`accept`](Self::accept). The last task that called is woken.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.acceptor.poll(context, || self.take())
    }

    fn take(&self) -> Option<io::Result<(TcpStream, SocketAddr)>> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut gone = 0;
        for at in 0..self.listeners.len() {
            match self.listeners[first.wrapping_add(at) % self.listeners.len()].take() {
                Some(Ok(accepted)) => return Some(Ok(accepted)),
                Some(Err(_)) => gone += 1,
                None => {}
            }
        }
        (gone == self.listeners.len()).then(|| Err(Failure::HostGone.into()))
    }
}
