//! [`TcpStream`]: an application's handle to a connection, and its two halves.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use rtrb::{Consumer, Producer};
use tautline_stack::TcpConfig;

use super::connection::{Shared, pair};
use super::doorbell::{Command, Line};
use super::sockets::Connect;
use super::{Failure, Stack, wait_for};

/// A connection. When it is dropped, what was written is still sent, and the connection closes in order; it is reset if
/// received data was left unread.
#[derive(Debug)]
pub struct TcpStream {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
}

/// The receiving half of a [`TcpStream`].
#[derive(Debug)]
pub struct OwnedReadHalf {
    // Dropped before the line rings, which is how the host's thread sees that it is gone.
    ring: Consumer<u8>,
    line: Line<Shared>,
}

/// The sending half of a [`TcpStream`]. When it is dropped, the peer reads the end of the stream after what was written.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    /// `None` once shut down. Dropped before the line rings, which is how the host's thread sees that it is gone.
    ring: Option<Producer<u8>>,
    line: Line<Shared>,
}

impl TcpStream {
    pub(super) fn new(read: Consumer<u8>, write: Producer<u8>, line: impl Fn() -> Line<Shared>) -> Self {
        let (read, write) = (OwnedReadHalf { ring: read, line: line() }, OwnedWriteHalf { ring: Some(write), line: line() });
        Self { read, write }
    }

    /// Connects to `remote`.
    ///
    /// # Errors
    /// [`Failure`]: refused, timed out, unreachable, a bad address, or the host is gone.
    pub async fn connect(stack: &Stack, remote: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::connect_with(stack, remote, stack.config().tcp.clone()).await
    }

    /// Connects to `remote`; the connection behaves as `tcp` says. If the future is dropped, nothing remains.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(stack: &Stack, remote: impl Into<SocketAddr>, tcp: TcpConfig) -> io::Result<Self> {
        let (mut stream, end) = pair(stack, remote.into());
        stack.command(Command::Connect(Box::new(Connect { tcp, end })));
        poll_fn(|context| stream.write.poll_open(context)).await?;
        Ok(stream)
    }

    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.read.peer_addr()
    }

    /// Reads into `out`. 0 bytes mean the end of the stream, unless `out` is empty.
    pub fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        self.read.poll_recv(context, out)
    }

    /// Writes some of `data`; the host's thread sends it on.
    pub fn poll_send(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.write.poll_send(context, data)
    }

    /// Closes the sending half: the peer reads the end of the stream after what was written. Reading goes on.
    pub fn finish(&mut self) {
        self.write.finish();
    }

    /// Resets the connection: what was written and not yet received may be lost.
    pub fn abort(self) {
        self.read.line.abort.store(true, Ordering::Release);
    }

    /// The two halves, each usable on a thread of its own. The connection lives until both are dropped.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        (self.read, self.write)
    }

    pub(crate) fn halves(&mut self) -> (&mut OwnedReadHalf, &mut OwnedWriteHalf) {
        (&mut self.read, &mut self.write)
    }
}

impl OwnedReadHalf {
    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.line.peer
    }

    /// Reads into `out`. 0 bytes mean the end of the stream, unless `out` is empty.
    pub fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { ring, line } = self;
        let read = wait_for(&line.reader, context, || {
            // Asked before the bytes: the end is declared after the last of them.
            let end = line.receive_end.get();
            match ring.pop_partial_slice(out).0.len() {
                0 if !out.is_empty() => end.map(|end| end.map(|()| 0).map_err(Into::into)),
                count => Some(Ok(count)),
            }
        });
        self.offer_room();
        read
    }

    /// Lets the host's thread fill the ring again once half of it is free, if it had found it full.
    fn offer_room(&self) {
        if self.ring.slots() <= self.ring.buffer().capacity() / 2 && self.line.full.swap(false, Ordering::AcqRel) {
            self.line.ring();
        }
    }
}

impl OwnedWriteHalf {
    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.line.peer
    }

    /// Waits for the end of the handshake.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = &self.line;
        wait_for(&line.writer, context, || match line.send_end.get() {
            Some(why) => Some(Err((*why).into())),
            None => line.open.load(Ordering::Acquire).then_some(Ok(())),
        })
    }

    /// Writes some of `data`; the host's thread sends it on.
    pub fn poll_send(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let Self { ring, line } = self;
        let Some(ring) = ring else { return Poll::Ready(Err(Failure::ShutDown.into())) };
        let written = wait_for(&line.writer, context, || match line.send_end.get() {
            Some(why) => Some(Err((*why).into())),
            None => Some(ring.push_partial_slice(data).0.len()).filter(|count| *count > 0 || data.is_empty()).map(Ok),
        });
        if matches!(written, Poll::Ready(Ok(1..))) {
            line.ring();
        }
        written
    }

    /// Closes this half: the peer reads the end of the stream after what was written.
    pub fn finish(&mut self) {
        self.ring = None;
        self.line.ring();
    }
}
