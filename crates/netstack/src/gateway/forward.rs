//! Datagrams from sockets of the host to a port of a sandbox.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use tautline_rt::StackHandle;
use tautline_rt::handle::Failure;
use tokio::net::UdpSocket;

use crate::relay::{Associate, Association, Datagrams};

/// A socket of the host, all of whose datagrams are for one port of a sandbox.
pub(super) struct Outside {
    pub(super) socket: UdpSocket,
    pub(super) to: SocketAddr,
}

impl Datagrams for Outside {
    async fn recv(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, SocketAddr)> {
        let (len, client) = self.socket.recv_from(buffer).await?;
        Ok((len, client, self.to))
    }

    async fn send(&self, data: &[u8], _: SocketAddr, client: SocketAddr) -> io::Result<usize> {
        self.socket.send_to(data, client).await
    }
}

/// Each client has a port of the gateway's address, by which the sandbox tells it from others.
pub(super) struct Inside {
    pub(super) stack: StackHandle,
    pub(super) gateway: SocketAddr,
    /// The destination; datagrams from other addresses are dropped.
    pub(super) to: SocketAddr,
}

impl Associate for Inside {
    type Association = tautline_rt::UdpSocket;

    async fn associate(&self) -> io::Result<tautline_rt::UdpSocket> {
        let socket = tautline_rt::UdpSocket::bind(&self.stack, self.gateway).await?;
        socket.connect(self.to).await?;
        Ok(socket)
    }
}

impl Association for tautline_rt::UdpSocket {
    async fn send(&self, to: SocketAddr, data: &[u8]) -> io::Result<()> {
        // An earlier datagram's error would be returned in place of sending this one.
        self.take_error()?;
        // A datagram that the stack refuses is dropped.
        let _ = self.send_to(data, to).await;
        Ok(())
    }

    async fn recv(&self, buffer: &mut [u8]) -> io::Result<(SocketAddr, Range<usize>)> {
        loop {
            match self.recv_from(buffer).await {
                Ok((len, from)) => return Ok((from, 0..len)),
                // The server is not up, or not reachable, yet: the client keeps its port.
                Err(error) if is_of_one_datagram(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// An error that an earlier datagram met, such as a port unreachable; the socket works.
fn is_of_one_datagram(error: &io::Error) -> bool {
    let failure = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Failure>());
    matches!(failure, Some(Failure::Path(_) | Failure::Send(_)))
}
