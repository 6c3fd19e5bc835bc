//! [`UdpSocket`] for blocking threads.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::Timeout;
use crate::handle::{self, StackHandle};

/// A datagram socket. Threads may share it.
#[derive(Debug)]
pub struct UdpSocket {
    handle: handle::UdpSocket,
    reading: Timeout,
    writing: Timeout,
}

impl UdpSocket {
    /// A socket on `local`, as [`handle::UdpSocket::bind`].
    ///
    /// # Errors
    /// As [`handle::UdpSocket::bind`].
    pub fn bind(stack: &StackHandle, local: impl Into<SocketAddr>) -> io::Result<Self> {
        let handle = Timeout::default().wait(handle::UdpSocket::bind(stack, local))?;
        Ok(Self {
            handle,
            reading: Timeout::default(),
            writing: Timeout::default(),
        })
    }

    /// The underlying handle, whose methods do not block.
    pub fn handle(&self) -> &handle::UdpSocket {
        &self.handle
    }

    /// Connects the socket: it receives from `remote` only, and [`send`](Self::send) sends there.
    ///
    /// # Errors
    /// As [`handle::UdpSocket::connect`].
    pub fn connect(&self, remote: impl Into<SocketAddr>) -> io::Result<()> {
        Timeout::default().wait(self.handle.connect(remote))
    }

    /// Sends a datagram to the connected address.
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

    /// Receives a datagram, truncated to `out`.
    ///
    /// # Errors
    /// As [`handle::UdpSocket::recv`], and [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        self.reading.wait(self.handle.recv(out))
    }

    /// Receives a datagram, truncated to `out`; returns its length and sender.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.reading.wait(self.handle.recv_from(out))
    }

    /// Sets the timeout of a receive, which then fails with [`TimedOut`](io::ErrorKind::TimedOut).
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.reading.set(timeout)
    }

    /// Sets the timeout of a send, which then fails with [`TimedOut`](io::ErrorKind::TimedOut).
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.writing.set(timeout)
    }
}
