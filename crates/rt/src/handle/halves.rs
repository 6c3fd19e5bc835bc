//! The two halves of a [`TcpStream`], and how bytes pass between the application and the rings.
//!
//! A method that takes `&mut self` accesses its ring directly. One that takes `&self` locks a mutex
//! of the tasks that share the handle; the host's thread never takes it.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use super::byte_queue::{ByteReceiver, ByteSender};
use super::command::SocketRef;
use super::connection::{Received, Shared, Written};
use super::readiness::{Interest, Ready};
use super::{Failure, TcpStream};

/// The receiving half of a [`TcpStream`].
pub struct OwnedReadHalf {
    // Dropped before `socket` notifies the host's thread, which then finds the ring abandoned.
    ring: Mutex<ByteReceiver<Received>>,
    socket: SocketRef<Shared>,
}

/// The sending half of a [`TcpStream`]. Dropping it sends a FIN after the written data.
pub struct OwnedWriteHalf {
    /// `None` once shut down. Dropped before `socket` notifies the host's thread, which then finds
    /// the ring abandoned.
    ring: Mutex<Option<ByteSender<Written>>>,
    socket: SocketRef<Shared>,
}

/// The halves belong to different streams.
#[derive(Debug, thiserror::Error)]
#[error("these halves belong to different connections")]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

fn would_block<T>(answer: Option<io::Result<T>>) -> io::Result<T> {
    answer.unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))
}

impl OwnedReadHalf {
    pub(super) fn new(ring: ByteReceiver<Received>, socket: SocketRef<Shared>) -> Self {
        Self {
            ring: Mutex::new(ring),
            socket,
        }
    }

    /// Joins the halves to a stream.
    ///
    /// # Errors
    /// [`ReuniteError`] returns the halves if they belong to different streams.
    pub fn reunite(self, write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if self.socket.is_same(&write.socket) {
            Ok(TcpStream::of_halves(self, write))
        } else {
            Err(ReuniteError(self, write))
        }
    }

    /// The local address.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket.peer)
    }

    /// Like [`TcpStream::poll_recv`].
    pub fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Self { ring, socket } = self;
        let ring = own(ring);
        let read = socket.reader.poll(context, || take(ring, socket, out));
        offer_room(ring, socket);
        read
    }

    /// Like [`TcpStream::peek`].
    pub fn poll_peek(
        &mut self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Self { ring, socket } = self;
        let ring = own(ring);
        socket.reader.poll(context, || peek(ring, socket, out))
    }

    /// Like [`TcpStream::poll_fill`].
    pub fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let Self { ring, socket } = self;
        let ring = own(ring);
        let filled = socket.reader.poll(context, || {
            // Asked before the bytes: the end is declared after the last of them.
            let end = socket.receive_end();
            if ring.chunk().is_empty() {
                return end.map(|end| socket.report(end));
            }
            Some(Ok(()))
        });
        filled.map_ok(|()| ring.chunk())
    }

    /// Like [`TcpStream::consume`].
    pub fn consume(&mut self, count: usize) {
        let Self { ring, socket } = self;
        let ring = own(ring);
        let count = count.min(ring.chunk().len());
        ring.consume(count);
        offer_room(ring, socket);
    }

    /// Like [`TcpStream::poll_read_ready`].
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.reader.poll(context, || self.is_readable())
    }

    /// Like [`TcpStream::readable`].
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.reader.wait(|| self.is_readable()).await
    }

    /// Like [`TcpStream::peek`].
    ///
    /// # Errors
    /// Why the connection failed.
    pub async fn peek(&self, out: &mut [u8]) -> io::Result<usize> {
        self.socket
            .reader
            .wait(|| peek(&mut lock(&self.ring), &self.socket, out))
            .await
    }

    /// Like [`TcpStream::try_read`].
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if there is no data, or why the connection failed.
    pub fn try_read(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut ring = lock(&self.ring);
        let read = would_block(take(&mut ring, &self.socket, out));
        offer_room(&ring, &self.socket);
        read
    }

    /// Like [`TcpStream::try_read_vectored`].
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, out: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let socket = &self.socket;
        let mut ring = lock(&self.ring);
        let mut parts = out.iter_mut().filter(|part| !part.is_empty());
        let Some(first) = parts.next() else {
            return Ok(0);
        };
        let mut total = would_block(take(&mut ring, socket, first))?;
        let mut is_full = total == first.len();
        // Behind data, neither the end nor a failure is asked for: it would count as reported.
        while is_full && let Some(part) = parts.next() {
            let count = ring.pop(part);
            is_full = count == part.len();
            total += count;
        }
        offer_room(&ring, socket);
        Ok(total)
    }

    fn is_readable(&self) -> Option<io::Result<()>> {
        self.readiness().is_readable().then_some(Ok(()))
    }

    pub(super) fn readiness(&self) -> Ready {
        // Read before the ring: the end is declared after the last byte.
        let read_closed = self.socket.receive_end().is_some();
        Ready {
            read: !lock(&self.ring).is_empty(),
            read_closed,
            ..Ready::default()
        }
    }

    /// Like [`TcpStream::ready`], for this half.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.socket
            .reader
            .wait(|| self.readiness().of(interest).map(Ok))
            .await
    }

    pub(super) fn socket(&self) -> &SocketRef<Shared> {
        &self.socket
    }
}

/// Moves bytes from the ring to `out`. `None` if it is empty and has not ended.
fn take(
    ring: &mut ByteReceiver<Received>,
    socket: &Shared,
    out: &mut [u8],
) -> Option<io::Result<usize>> {
    // Asked before the bytes: the end is declared after the last of them.
    let end = socket.receive_end();
    match ring.pop(out) {
        0 if !out.is_empty() => end.map(|end| socket.report(end).map(|()| 0)),
        count => Some(Ok(count)),
    }
}

/// Like [`take`], but leaves the bytes in the ring. If that is too few and the host waits for room, the next call
/// finds more: nobody else would make room while a reader only peeks.
fn peek(
    ring: &mut ByteReceiver<Received>,
    socket: &SocketRef<Shared>,
    out: &mut [u8],
) -> Option<io::Result<usize>> {
    let end = socket.receive_end();
    match ring.peek(out) {
        0 if !out.is_empty() => end.map(|end| socket.report(end).map(|()| 0)),
        count => {
            let host_waits = || socket.full.load(Ordering::Acquire);
            if count < out.len() && !ring.is_full() && host_waits() {
                socket.is_peeked.store(true, Ordering::Release);
                socket.notify_host();
            }
            Some(Ok(count))
        }
    }
}

/// Lets the host's thread refill a full ring once half of it is free.
fn offer_room(ring: &ByteReceiver<Received>, socket: &SocketRef<Shared>) {
    if ring.is_half_empty() && socket.full.swap(false, Ordering::AcqRel) {
        socket.notify_host();
    }
}

impl OwnedWriteHalf {
    pub(super) fn new(ring: ByteSender<Written>, socket: SocketRef<Shared>) -> Self {
        Self {
            ring: Mutex::new(Some(ring)),
            socket,
        }
    }

    /// Joins the halves to a stream.
    ///
    /// # Errors
    /// [`ReuniteError`] returns the halves if they belong to different streams.
    pub fn reunite(self, read: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        read.reunite(self)
    }

    /// The local address.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket.peer)
    }

    /// Waits for the end of the handshake.
    pub(super) async fn opened(&self) -> io::Result<()> {
        let socket = &self.socket;
        let open = || match socket.send_end() {
            Some(why) => Some(socket.report(Err(why))),
            None => socket.open.load(Ordering::Acquire).then_some(Ok(())),
        };
        socket.writer.wait(open).await
    }

    /// Like [`TcpStream::poll_send`].
    pub fn poll_send(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let Self { ring, socket } = self;
        let ring = own(ring);
        let written = socket.writer.poll(context, || {
            put(ring, socket, &mut [IoSlice::new(data)].into_iter())
        });
        notify_if_written(socket, &written);
        written
    }

    /// Like [`poll_send`](Self::poll_send), from several buffers, one after the other.
    pub fn poll_send_vectored(
        &mut self,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { ring, socket } = self;
        let ring = own(ring);
        let written = socket
            .writer
            .poll(context, || put(ring, socket, &mut data.iter().copied()));
        notify_if_written(socket, &written);
        written
    }

    /// Like [`TcpStream::poll_write_ready`].
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.writer.poll(context, || self.is_writable())
    }

    /// Like [`TcpStream::writable`].
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writer.wait(|| self.is_writable()).await
    }

    /// Like [`TcpStream::try_write`].
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if the ring is full, or why the connection ended.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(data)])
    }

    /// Like [`TcpStream::try_write_vectored`].
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = put(
            &mut lock(&self.ring),
            &self.socket,
            &mut data.iter().copied(),
        );
        if matches!(written, Some(Ok(1..))) {
            self.socket.notify_host();
        }
        would_block(written)
    }

    /// Closes this half: sends a FIN after the written data.
    pub fn finish(&mut self) {
        *own(&mut self.ring) = None;
        self.socket.notify_host();
    }

    /// Like [`finish`](Self::finish), for a shared handle. Other tasks may wait for room: they fail now.
    pub(crate) fn finish_shared(&self) {
        *lock(&self.ring) = None;
        self.socket.writer.wake();
        self.socket.notify_host();
    }

    fn is_writable(&self) -> Option<io::Result<()>> {
        self.readiness().is_writable().then_some(Ok(()))
    }

    pub(super) fn readiness(&self) -> Ready {
        // The ring is gone after shutdown.
        let (write, shut) = match lock(&self.ring).as_ref() {
            Some(ring) => (ring.room() > 0, false),
            None => (false, true),
        };
        Ready {
            write,
            write_closed: shut || self.socket.send_end().is_some(),
            ..Ready::default()
        }
    }

    /// Like [`TcpStream::ready`], for this half.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.socket
            .writer
            .wait(|| self.readiness().of(interest).map(Ok))
            .await
    }
}

/// Moves bytes of `parts`, in order, to the ring. `None` if it is full.
fn put(
    ring: &mut Option<ByteSender<Written>>,
    socket: &Shared,
    parts: &mut dyn Iterator<Item = IoSlice<'_>>,
) -> Option<io::Result<usize>> {
    let Some(ring) = ring else {
        return Some(Err(Failure::ShutDown.into()));
    };
    if let Some(why) = socket.send_end() {
        return Some(socket.fail_again(why));
    }
    let (total, empty) = ring.push_parts(parts);
    (total > 0 || empty).then_some(Ok(total))
}

/// Notifies the host's thread of written bytes.
fn notify_if_written(socket: &SocketRef<Shared>, written: &Poll<io::Result<usize>>) {
    if matches!(written, Poll::Ready(Ok(1..))) {
        socket.notify_host();
    }
}
