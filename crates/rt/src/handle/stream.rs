//! [`TcpStream`]: an application's handle to a connection.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use rtrb::{Consumer, Producer};
use tautline_stack::TcpConfig;

use super::StackHandle;
use super::command::{Command, SocketRef};
use super::connection::{Shared, pair};
use super::halves::{OwnedReadHalf, OwnedWriteHalf};
use super::readiness::{Interest, Ready};
use super::sockets::Connect;

/// A connection. When it is dropped, what was written is still sent, and the connection closes in
/// order; it is reset if received data was left unread, or if
/// [`set_zero_linger`](Self::set_zero_linger) asked for that.
///
/// It has the methods of tokio's `TcpStream`, with the same habits. What may be dropped half-way
/// without losing or doubling anything:
///
/// | call | dropped before it returned |
/// |---|---|
/// | [`connect`](Self::connect) | the attempt is taken back; its port is free again |
/// | `read`, [`peek`](Self::peek), [`readable`](Self::readable), [`info`](Self::info) | nothing was taken from the stream |
/// | `write`, [`writable`](Self::writable), `flush` | nothing of the data was taken |
/// | `shutdown` | the sending half is shut down or not; asking again is harmless |
/// | `read_exact`, `read_to_end`, `write_all` | not safe, as with every stream of tokio's: an unknown part was moved |
///
/// Different from the kernel's sockets: a connection that failed says so in every later read, never
/// as if it had ended in order.
#[derive(Debug)]
pub struct TcpStream {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
}

impl TcpStream {
    pub(super) fn new(
        read: Consumer<u8>,
        write: Producer<u8>,
        socket: impl Fn() -> SocketRef<Shared>,
    ) -> Self {
        Self::of_halves(
            OwnedReadHalf::new(read, socket()),
            OwnedWriteHalf::new(write, socket()),
        )
    }

    pub(super) fn of_halves(read: OwnedReadHalf, write: OwnedWriteHalf) -> Self {
        Self { read, write }
    }

    /// Connects to `remote`.
    ///
    /// # Errors
    /// [`Failure`](super::Failure): refused, timed out, unreachable, a bad address, or the host is
    /// gone.
    pub async fn connect(stack: &StackHandle, remote: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::connect_with(stack, remote, stack.config().tcp.clone()).await
    }

    /// Connects to `remote`; the connection behaves as `tcp` says. If the future is dropped,
    /// nothing remains.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(
        stack: &StackHandle,
        remote: impl Into<SocketAddr>,
        tcp: TcpConfig,
    ) -> io::Result<Self> {
        let (stream, end) = pair(stack, remote.into(), &tcp);
        stack.command(Command::Connect(Box::new(Connect { tcp, end })));
        stream.write.opened().await?;
        Ok(stream)
    }

    /// Waits until there is something to read: data, the end of the stream or an error. Any number
    /// of tasks may wait.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub async fn readable(&self) -> io::Result<()> {
        self.read.readable().await
    }

    /// Waits until something can be written, or writing fails at once.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub async fn writable(&self) -> io::Result<()> {
        self.write.writable().await
    }

    /// Waits until one of the things asked for would not wait, and says which of them. Any number
    /// of tasks may wait.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let now = || (self.read.readiness() | self.write.readiness()).of(interest);
        let (mut read, mut write) = (
            pin!(self.read.ready(interest)),
            pin!(self.write.ready(interest)),
        );
        poll_fn(|context| {
            let read = interest.is_readable() && read.as_mut().poll(context).is_ready();
            let write = interest.is_writable() && write.as_mut().poll(context).is_ready();
            // Nothing is ready any more if whoever shares the stream was faster.
            if read || write {
                Poll::Ready(Ok(now().unwrap_or_default()))
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Lets `action` try something with the stream, if what is asked for would not wait.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would; those of `action`.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        action: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        (self.read.readiness() | self.write.readiness()).try_io(interest, action)
    }

    /// Reads what is there, without waiting. 0 bytes mean the end of the stream, unless `out` is
    /// empty.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing is there, or why the connection failed.
    pub fn try_read(&self, out: &mut [u8]) -> io::Result<usize> {
        self.read.try_read(out)
    }

    /// As [`try_read`](Self::try_read) into several buffers, one after the other.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, out: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        self.read.try_read_vectored(out)
    }

    /// Writes what fits, without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing fits, or why nothing can be written any
    /// more.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        self.write.try_write(data)
    }

    /// As [`try_write`](Self::try_write) from several buffers, one after the other.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, data: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.write.try_write_vectored(data)
    }

    /// Copies what is there into `out` and leaves it in the stream; waits until something is. It
    /// sees no further than the [receive ring](super::Config::receive_ring).
    ///
    /// # Errors
    /// Why the connection failed.
    pub async fn peek(&self, out: &mut [u8]) -> io::Result<usize> {
        self.read.peek(out).await
    }

    /// As [`peek`](Self::peek).
    pub fn poll_peek(
        &mut self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.read.poll_peek(context, out)
    }

    /// Ready when there is something to read. The last task that called is woken.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.read.poll_read_ready(context)
    }

    /// Ready when something can be written. The last task that called is woken.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write.poll_write_ready(context)
    }

    /// Reads into `out`. 0 bytes mean the end of the stream, unless `out` is empty.
    pub fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.read.poll_recv(context, out)
    }

    /// Writes some of `data`; the host's thread sends it on.
    pub fn poll_send(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.write.poll_send(context, data)
    }

    /// Closes the sending half: the peer reads the end of the stream after what was written.
    /// Reading goes on.
    pub fn finish(&mut self) {
        self.write.finish();
    }

    /// As [`finish`](Self::finish), for a handle that is shared.
    pub(crate) fn finish_shared(&self) {
        self.write.finish_shared();
    }

    /// Resets the connection: what was written and not yet received may be lost.
    pub fn abort(self) {
        self.socket().abort.store(true, Ordering::Release);
    }

    /// Two halves that borrow the stream: for reading and writing in one task at the same time.
    pub fn split(&mut self) -> (&mut OwnedReadHalf, &mut OwnedWriteHalf) {
        (&mut self.read, &mut self.write)
    }

    /// The two halves, each usable on a thread of its own. The connection lives until both are
    /// dropped. They can be [reunited](OwnedReadHalf::reunite).
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        (self.read, self.write)
    }

    pub(super) fn socket(&self) -> &SocketRef<Shared> {
        self.read.socket()
    }
}
