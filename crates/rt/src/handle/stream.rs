//! [`TcpStream`]: an application's handle to a connection.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tautline_stack::TcpConfig;

use super::StackHandle;
use super::command::{Command, Connect, SocketRef};
use super::connection::{AppEnd, Shared, pair};
use super::halves::{OwnedReadHalf, OwnedWriteHalf};
use super::readiness::{Interest, Ready, wait_for};

/// A connection. Dropping it sends the written data and closes the connection; it resets the
/// connection if received data is unread, or after [`set_zero_linger`](Self::set_zero_linger).
///
/// It has the methods and semantics of tokio's `TcpStream`. Cancel safety:
///
/// | call | effect if dropped before it returns |
/// |---|---|
/// | [`connect`](Self::connect), [`connect_with_data`](Self::connect_with_data) | the attempt is aborted and its port freed |
/// | `read`, [`peek`](Self::peek), [`readable`](Self::readable), [`info`](Self::info) | no data is taken from the stream |
/// | `write`, [`writable`](Self::writable), `flush` | no data is taken from the caller |
/// | `shutdown` | the sending half is shut down or not; the call may be repeated |
/// | `read_exact`, `read_to_end`, `write_all` | not cancel safe, as with every tokio stream |
///
/// Unlike the kernel's sockets, a failed connection returns its error from every later read.
pub struct TcpStream {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
}

impl TcpStream {
    pub(super) fn new(end: AppEnd, stack: &StackHandle) -> Self {
        let socket = || SocketRef::new(Arc::clone(&end.shared), stack.clone());
        let (read, write) = (socket(), socket());
        Self::of_halves(
            OwnedReadHalf::new(end.read, read),
            OwnedWriteHalf::new(end.write, write),
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
        Self::connect_with(stack, remote, Arc::clone(&stack.0.tcp)).await
    }

    /// Connects to `remote` with a configuration of its own. Dropping the future aborts the attempt.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(
        stack: &StackHandle,
        remote: impl Into<SocketAddr>,
        tcp: impl Into<Arc<TcpConfig>>,
    ) -> io::Result<Self> {
        Self::connect_from(stack, None, remote, tcp).await
    }

    /// Like [`connect_with`](Self::connect_with) from `local`, an address that the host has or
    /// [owns](tautline_stack::HostConfig::owned); port 0 stands for any free port, `None` for the
    /// address that suits `remote`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); also a `local` that is not the host's, or in use.
    pub async fn connect_from(
        stack: &StackHandle,
        local: Option<SocketAddr>,
        remote: impl Into<SocketAddr>,
        tcp: impl Into<Arc<TcpConfig>>,
    ) -> io::Result<Self> {
        Self::open(stack, local, remote.into(), tcp.into(), &[]).await
    }

    /// Connects to `remote` and writes all of `data`. With [`TcpConfig::fast_open`] and a cookie from
    /// an earlier connection to `remote`, the beginning of it travels in the SYN, which saves a
    /// round trip (RFC 7413). The peer may get that part twice: `data` must not do harm when
    /// repeated.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); also those of a write.
    pub async fn connect_with_data(
        stack: &StackHandle,
        remote: impl Into<SocketAddr>,
        tcp: impl Into<Arc<TcpConfig>>,
        data: &[u8],
    ) -> io::Result<Self> {
        Self::open(stack, None, remote.into(), tcp.into(), data).await
    }

    /// Opens a connection and writes `data`; what fits of it is there before the SYN leaves.
    async fn open(
        stack: &StackHandle,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        tcp: Arc<TcpConfig>,
        data: &[u8],
    ) -> io::Result<Self> {
        let (app, end) = pair(stack, remote, &tcp);
        let shared = Arc::clone(&app.shared);
        let mut stream = Self::new(app, stack);
        // Dropped before the stream, which notifies the host.
        let attempt = Attempt::new(shared);
        let mut written = 0;
        if !data.is_empty() {
            written = stream.try_write(data)?;
        }
        stack.command(Command::Connect(Box::new(Connect { local, tcp, end })));
        stream.opened().await?;
        while written < data.len() {
            written += poll_fn(|context| stream.poll_send(context, &data[written..])).await?;
        }
        attempt.succeed();
        Ok(stream)
    }

    /// Waits until the handshake has ended.
    pub(super) async fn opened(&self) -> io::Result<()> {
        self.write.opened().await
    }

    /// Waits until data, the end of the stream or an error can be read. Any number of tasks may
    /// wait.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn readable(&self) -> io::Result<()> {
        self.read.readable().await
    }

    /// Waits until data can be written or writing fails.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn writable(&self) -> io::Result<()> {
        self.write.writable().await
    }

    /// Waits until an operation of `interest` would not block; returns those that are ready. Any
    /// number of tasks may wait.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let now = || (self.read.readiness() | self.write.readiness()).of(interest);
        let (read, write) = (self.read.ready(interest), self.write.ready(interest));
        Ok(wait_for(interest, read, write, now).await)
    }

    /// Runs `action` if an operation of `interest` would not block.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if all of them would; those of `action`.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        action: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        (self.read.readiness() | self.write.readiness()).try_io(interest, action)
    }

    /// Reads available data, without waiting. 0 bytes mean the end of the stream, unless `out` is
    /// empty.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no data, or why the connection failed.
    pub fn try_read(&self, out: &mut [u8]) -> io::Result<usize> {
        self.read.try_read(out)
    }

    /// Like [`try_read`](Self::try_read) into several buffers, one after the other.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, out: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        self.read.try_read_vectored(out)
    }

    /// Writes as much of `data` as the send ring holds, without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the ring is full, or why the connection ended.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        self.write.try_write(data)
    }

    /// Like [`try_write`](Self::try_write) from several buffers, one after the other.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, data: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.write.try_write_vectored(data)
    }

    /// Waits for data and copies it to `out` without removing it; at most the bytes in the
    /// [receive ring](super::Config::receive_ring), which fills up while peeks ask for more than is in it.
    ///
    /// # Errors
    /// Why the connection failed.
    pub async fn peek(&self, out: &mut [u8]) -> io::Result<usize> {
        self.read.peek(out).await
    }

    /// Like [`peek`](Self::peek).
    pub fn poll_peek(
        &mut self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.read.poll_peek(context, out)
    }

    /// Like [`readable`](Self::readable). Wakes the last task that called.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.read.poll_read_ready(context)
    }

    /// Like [`writable`](Self::writable). Wakes the last task that called.
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

    /// Received bytes where they are: [`consume`](Self::consume) removes those that were used. None mean
    /// the end of the stream. Wakes the last task that called.
    pub fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.read.poll_fill(context)
    }

    /// Removes `count` bytes of those that [`poll_fill`](Self::poll_fill) returned.
    pub fn consume(&mut self, count: usize) {
        self.read.consume(count);
    }

    /// Writes a part of `data` to the send ring; the host's thread sends it.
    pub fn poll_send(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.write.poll_send(context, data)
    }

    /// Closes the sending half: sends a FIN after the written data. Reading continues.
    pub fn finish(&mut self) {
        self.write.finish();
    }

    /// Like [`finish`](Self::finish), for a shared handle.
    pub(crate) fn finish_shared(&self) {
        self.write.finish_shared();
    }

    /// Resets the connection and discards unacknowledged data.
    pub fn abort(self) {
        self.socket().abort.store(true, Ordering::Release);
    }

    /// Borrows both halves, to read and write concurrently in one task.
    pub fn split(&mut self) -> (&mut OwnedReadHalf, &mut OwnedWriteHalf) {
        (&mut self.read, &mut self.write)
    }

    /// Splits the stream into halves for different threads. The connection lives until both are
    /// dropped. They can be [reunited](OwnedReadHalf::reunite).
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        (self.read, self.write)
    }

    pub(super) fn socket(&self) -> &SocketRef<Shared> {
        self.read.socket()
    }
}

/// An attempt to connect. One that is given up is reset: otherwise the host would go on to deliver its data.
pub(super) struct Attempt {
    shared: Arc<Shared>,
    has_succeeded: bool,
}

impl Attempt {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            has_succeeded: false,
        }
    }

    pub(super) fn succeed(mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.has_succeeded {
            self.shared.abort.store(true, Ordering::Release);
        }
    }
}
