//! [`ListenerGroup`]: one port of many hosts. A NIC with several queues has one host per queue, all
//! with the same addresses; its RSS hash assigns each connection to a host.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tautline_stack::{ListenAt, TcpConfig};

use super::waiters::Waiters;
use super::{Failure, StackHandle, TcpListener, TcpStream};

/// Listeners on the same port of several hosts, accepted from as one.
#[derive(Debug)]
pub struct ListenerGroup {
    listeners: Vec<TcpListener>,
    acceptor: Arc<Waiters>,
    /// Index of the listener to try first (round robin).
    first: AtomicUsize,
}

impl ListenerGroup {
    /// Listens on a port of every host, or on one address that all of them have.
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
            first: AtomicUsize::new(0),
        })
    }

    /// Accepts a connection of any host; returns it with its peer's address. Any number of tasks may
    /// wait. Cancel safe.
    ///
    /// # Errors
    /// [`Failure::HostGone`] once every host has ended.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.acceptor.wait(|| self.take()).await
    }

    /// Like [`accept`](Self::accept). Wakes the last task that called.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.acceptor.poll(context, || self.take())
    }

    fn take(&self) -> Option<io::Result<(TcpStream, SocketAddr)>> {
        let first = self.first.fetch_add(1, Ordering::Relaxed);
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
