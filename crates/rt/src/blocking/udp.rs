//! [`UdpSocket`] for threads that wait.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::Patience;
use crate::handle::{self, StackHandle};

/// A datagram socket. Threads may share it.
#[derive(Debug)]
pub struct UdpSocket {
    handle: handle::UdpSocket,
    reading: Patience,
    writing: Patience,
}

impl UdpSocket {
    /// A socket on `local`, as [`handle::UdpSocket::bind`].
    ///
    /// # Errors
    /// As [`handle::UdpSocket::bind`].
    pub fn bind(stack: &StackHandle, local: impl Into<SocketAddr>) -> io::Result<Self> {
        let handle = Patience::default().wait(handle::UdpSocket::bind(stack, local))?;
        Ok(Self {
            handle,
            reading: Patience::default(),
            writing: Patience::default(),
        })
    }

    /// The handle, for everything that does not wait.
    pub fn handle(&self) -> &handle::UdpSocket {
        &self.handle
    }

    /// From now on only `remote` is heard, and [`send`](Self::send) speaks to it.
    ///
    /// # Errors
    /// As [`handle::UdpSocket::connect`].
    pub fn connect(&self, remote: impl Into<SocketAddr>) -> io::Result<()> {
        Patience::default().wait(self.handle.connect(remote))
    }

    /// Sends a datagram to whom the socket is connected to.
    ///
    /// # Errors
    /// As [`handle::UdpSocket::send`], and [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.writing.wait(self.handle.send(data))
    }

    /// Sends a datagram to `to`.
    ///
    /// # Errors
    /// As [`handle::UdpSocket::send_to`], and [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn send_to(&self, data: &[u8], to: impl Into<SocketAddr>) -> io::Result<usize> {
        self.writing.wait(self.handle.send_to(data, to))
    }

    /// The next datagram, cut off where `out` ends.
    ///
    /// # Errors
    /// As [`handle::UdpSocket::recv`], and [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        self.reading.wait(self.handle.recv(out))
    }

    /// The next datagram, cut off where `out` ends, and who sent it.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.reading.wait(self.handle.recv_from(out))
    }

    /// How long a receive may wait; then it fails with [`TimedOut`](io::ErrorKind::TimedOut).
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.reading.set(timeout)
    }

    /// How long a send may wait; then it fails with [`TimedOut`](io::ErrorKind::TimedOut).
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.writing.set(timeout)
    }
}
