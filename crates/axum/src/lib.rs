//! [`Listener`]: axum's trait of that name for the TCP sockets of a userspace stack.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::future::pending;
use std::io;
use std::net::SocketAddr;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tautline_rt::{ListenAt, StackHandle, TcpListener, TcpStream};

/// A listening socket for `axum::serve`.
///
/// axum's trait has no error, and accepting fails only once the stack has ended: from then on no
/// connection is accepted. `with_graceful_shutdown` ends the server.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens on a port, named alone or with one of the stack's addresses.
    ///
    /// # Errors
    /// As [`TcpListener::bind`].
    pub async fn bind(stack: &StackHandle, at: impl Into<ListenAt>) -> io::Result<Self> {
        TcpListener::bind(stack, at).await.map(Self)
    }
}

/// From a listener with parameters of its own; one with
/// [deferred accept](TcpListener::request) would reset every connection.
impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self(listener)
    }
}

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        match self.0.accept().await {
            Ok(accepted) => accepted,
            Err(_) => pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// The address of a client: `ConnectInfo<Peer>` after `into_make_service_with_connect_info::<Peer>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        Self(*stream.remote_addr())
    }
}
