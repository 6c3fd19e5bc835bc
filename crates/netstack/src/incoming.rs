//! SYNs and datagrams to any destination.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tautline_rt::{TcpListener, TcpRequest, UdpSocket};

/// Connection requests to every destination, from
/// [`Netstack::tcp_incoming`](crate::Netstack::tcp_incoming). Dropping it resets the pending ones.
#[derive(Debug)]
pub struct TcpIncoming {
    listener: TcpListener,
}

impl TcpIncoming {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener }
    }

    /// Waits for the next SYN. Cancel safe.
    ///
    /// # Errors
    /// If the stack has ended.
    pub async fn next(&self) -> io::Result<TcpRequest> {
        self.listener.request().await
    }

    /// Like [`next`](Self::next). Wakes the last task that called.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<io::Result<TcpRequest>> {
        self.listener.poll_request(context)
    }
}

/// Datagrams to every destination, from [`Netstack::udp_incoming`](crate::Netstack::udp_incoming).
/// Tasks may share it in an `Arc`; each datagram goes to one of them. Its buffer is
/// [bounded](crate::Builder::udp); datagrams beyond it are dropped.
#[derive(Debug)]
pub struct UdpIncoming {
    socket: UdpSocket,
}

impl UdpIncoming {
    pub(crate) fn new(socket: UdpSocket) -> Self {
        Self { socket }
    }

    /// Receives a datagram, truncated to `out`. Returns the number of bytes copied, the source and
    /// the destination. Cancel safe.
    ///
    /// # Errors
    /// If the stack has ended.
    pub async fn recv(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr, SocketAddr)> {
        self.socket.recv_between(out).await
    }

    /// Like [`recv`](Self::recv). Wakes the last task that called.
    pub fn poll_recv(
        &self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr, SocketAddr)>> {
        self.socket.poll_recv_between(context, out)
    }

    /// Sends a datagram from `from`, any address and port of the stack, to `to`. It is never
    /// fragmented, so it must fit into one packet. One between addresses that the stack refuses, or from or
    /// to port 0, is lost.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is too long; or if the stack has ended.
    pub async fn send(&self, data: &[u8], from: SocketAddr, to: SocketAddr) -> io::Result<usize> {
        self.socket.send_between(data, from, to).await
    }

    /// Like [`send`](Self::send). Wakes the last task that called.
    pub fn poll_send(
        &self,
        context: &mut Context<'_>,
        data: &[u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_send_between(context, data, from, to)
    }
}
