//! [`TcpStream`] and [`TcpListener`] for blocking threads.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use tautline_stack::ListenAt;

use super::Timeout;
use crate::handle::{self, StackHandle};

/// A connection. `&TcpStream` reads and writes too, so that threads may share one in an
/// [`Arc`](std::sync::Arc).
#[derive(Debug)]
pub struct TcpStream {
    handle: handle::TcpStream,
    reading: Timeout,
    writing: Timeout,
}

impl From<handle::TcpStream> for TcpStream {
    fn from(handle: handle::TcpStream) -> Self {
        Self {
            handle,
            reading: Timeout::default(),
            writing: Timeout::default(),
        }
    }
}

impl TcpStream {
    /// Connects to `remote`; the retries of [`TcpConfig`](tautline_stack::TcpConfig) limit the wait.
    ///
    /// # Errors
    /// As [`handle::TcpStream::connect`].
    pub fn connect(stack: &StackHandle, remote: impl Into<SocketAddr>) -> io::Result<Self> {
        Timeout::default()
            .wait(handle::TcpStream::connect(stack, remote))
            .map(Self::from)
    }

    /// Connects to `remote` within `timeout`. A timeout aborts the attempt.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut), or as [`connect`](Self::connect); also if the time is zero.
    pub fn connect_timeout(
        stack: &StackHandle,
        remote: impl Into<SocketAddr>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let limit = Timeout::default();
        limit.set(Some(timeout))?;
        let stream = limit.wait(handle::TcpStream::connect(stack, remote))?;
        Ok(stream.into())
    }

    /// The handle: options, addresses, `try_read`.
    pub fn handle(&self) -> &handle::TcpStream {
        &self.handle
    }

    /// Returns the handle, for an async program.
    pub fn into_handle(self) -> handle::TcpStream {
        self.handle
    }

    /// Sets the longest wait of a read, which then fails with [`TimedOut`](ErrorKind::TimedOut).
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.reading.set(timeout)
    }

    /// Sets the longest wait of a write, which then fails with [`TimedOut`](ErrorKind::TimedOut).
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.writing.set(timeout)
    }

    /// Waits for data and copies it to `out` without removing it.
    ///
    /// # Errors
    /// As a read.
    pub fn peek(&self, out: &mut [u8]) -> io::Result<usize> {
        self.reading.wait(self.handle.peek(out))
    }

    /// Closes the sending half: sends a FIN after the written data. TCP cannot close the receiving
    /// half alone.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for the receiving half.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Write {
            return Err(io::Error::new(
                ErrorKind::Unsupported,
                "only the sending half can be shut down; drop the stream to end both",
            ));
        }
        self.handle.finish_shared();
        Ok(())
    }
}

/// Repeats `attempt` while it would block; waits for `ready` in between.
fn until<T, R>(
    timeout: &Timeout,
    mut attempt: impl FnMut() -> io::Result<T>,
    ready: impl Fn() -> R,
) -> io::Result<T>
where
    R: Future<Output = io::Result<()>>,
{
    timeout.wait(async {
        loop {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready().await?,
                result => return result,
            }
        }
    })
}

impl Read for &TcpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        until(
            &self.reading,
            || self.handle.try_read(out),
            || self.handle.readable(),
        )
    }

    fn read_vectored(&mut self, out: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        until(
            &self.reading,
            || self.handle.try_read_vectored(out),
            || self.handle.readable(),
        )
    }
}

impl Write for &TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        until(
            &self.writing,
            || self.handle.try_write(data),
            || self.handle.writable(),
        )
    }

    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        until(
            &self.writing,
            || self.handle.try_write_vectored(data),
            || self.handle.writable(),
        )
    }

    /// Has no effect: every write has notified the host's thread.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        (&*self).read(out)
    }

    fn read_vectored(&mut self, out: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(out)
    }
}

impl Write for TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct TcpListener {
    handle: handle::TcpListener,
    timeout: Timeout,
}

impl TcpListener {
    /// Listens on a port, named alone or with one of the host's addresses; see [`ListenAt`].
    ///
    /// # Errors
    /// As [`handle::TcpListener::bind`].
    pub fn bind(stack: &StackHandle, at: impl Into<ListenAt>) -> io::Result<Self> {
        let handle = Timeout::default().wait(handle::TcpListener::bind(stack, at))?;
        Ok(Self {
            handle,
            timeout: Timeout::default(),
        })
    }

    /// Accepts a connection; returns it with its peer's address. Threads may share the listener.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut), or as [`handle::TcpListener::accept`].
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.timeout
            .wait(self.handle.accept())
            .map(|(stream, peer)| (stream.into(), peer))
    }

    /// Sets the longest wait of [`accept`](Self::accept).
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_accept_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeout.set(timeout)
    }

    /// Accepts connections without end.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }
}

/// See [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a>(&'a TcpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}
