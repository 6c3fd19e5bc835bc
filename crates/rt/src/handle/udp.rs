//! [`UdpSocket`]: an application's handle to a datagram socket.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tautline_base::{Ecn, SocketId};
use tautline_stack::udp::Datagram;
use tautline_stack::{SendError, SendOptions, UdpConfig, UdpInfo};

use super::command::{Command, SocketRef};
use super::datagram_ring::{DatagramReceiver, DatagramSender, Ends, datagram_ring};
use super::oneshot::oneshot;
use super::readiness::{Interest, Ready, wait_for};
use super::udp_host::{Bind, HostEnd, LONGEST, Shared, lock};
use super::{Failure, StackHandle};

/// Most datagrams between the threads, in each direction.
const DATAGRAMS: usize = 512;

/// A datagram socket. Dropping it frees the port; datagrams that were sent still leave.
///
/// It has the methods and semantics of tokio's `UdpSocket`: all of them take `&self`, so tasks may
/// share it in an `Arc`; one of them receives each datagram. Every future is cancel safe.
///
/// Sending returns once the datagram is queued for the host's thread. Errors that only the host
/// detects (no route, port unreachable) are returned once, by a later call.
pub struct UdpSocket {
    // Dropped before `socket` notifies the host's thread, which then finds the rings abandoned.
    incoming: Mutex<DatagramReceiver>,
    outgoing: Mutex<DatagramSender>,
    socket: SocketRef<Shared>,
}

impl UdpSocket {
    /// Binds a socket to `local`: `0.0.0.0` stands for all IPv4 addresses of the host, `::` for all
    /// of both families, port 0 for any free port.
    ///
    /// # Errors
    /// [`Failure`]: not the host's address, in use, or the host is gone.
    pub async fn bind(stack: &StackHandle, local: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::bind_with(stack, local, stack.config().udp).await
    }

    /// Binds a socket to `local` with a configuration of its own.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn bind_with(
        stack: &StackHandle,
        local: impl Into<SocketAddr>,
        udp: UdpConfig,
    ) -> io::Result<Self> {
        Self::bind_at(stack, Some(local.into()), udp).await
    }

    /// A socket for datagrams to any address and port of the host that no other socket is bound to;
    /// [`recv_between`](Self::recv_between) and [`send_between`](Self::send_between) name both ends
    /// of each datagram. A datagram that the host refuses to send is dropped without an error: the error
    /// would reach the next caller, which may send for another peer.
    ///
    /// # Errors
    /// [`Failure`]: such a socket exists already, or the host is gone.
    pub async fn bind_everywhere(stack: &StackHandle, udp: UdpConfig) -> io::Result<Self> {
        Self::bind_at(stack, None, udp).await
    }

    async fn bind_at(
        stack: &StackHandle,
        local: Option<SocketAddr>,
        udp: UdpConfig,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (sender, outgoing) =
            datagram_ring(DATAGRAMS, stack.config().send_ring.get().max(LONGEST));
        let (incoming, receiver) =
            datagram_ring(DATAGRAMS, stack.config().receive_ring.get().max(LONGEST));
        let socket = SocketRef::new(Arc::clone(&shared), stack.clone());
        let socket = Self {
            incoming: Mutex::new(receiver),
            outgoing: Mutex::new(sender),
            socket,
        };
        let end = HostEnd {
            shared,
            outgoing,
            incoming,
            is_everywhere: local.is_none(),
        };
        stack.command(Command::BindUdp(Box::new(Bind { local, udp, end })));
        let shared = &socket.socket;
        let bound = || match shared.end.get() {
            Some(why) => Some(Err(io::Error::from(*why))),
            None => shared.bound.get().map(|_| Ok(())),
        };
        shared.writer.wait(bound).await?;
        Ok(socket)
    }

    /// Connects the socket: it receives from `remote` only, and [`send`](Self::send) sends there.
    /// Datagrams that were received before stay readable.
    ///
    /// # Errors
    /// [`Failure::Send`], as a datagram to `remote` would.
    pub async fn connect(&self, remote: impl Into<SocketAddr>) -> io::Result<()> {
        let (reply, receiver) = oneshot();
        self.socket
            .command(Command::ConnectUdp(self.id()?, remote.into(), reply));
        Ok(receiver.received().await?)
    }

    /// The local address.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket
            .bound
            .get()
            .map(|bound| bound.local)
            .ok_or_else(|| Failure::NotOpen.into())
    }

    /// The address that the socket is connected to.
    ///
    /// # Errors
    /// [`NotConnected`](ErrorKind::NotConnected).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        (*lock(&self.socket.remote)).ok_or_else(|| Failure::Send(SendError::NotConnected).into())
    }

    /// Counters and queue lengths of the socket at the host.
    ///
    /// # Errors
    /// [`Failure::HostGone`].
    pub async fn info(&self) -> io::Result<UdpInfo> {
        let (reply, receiver) = oneshot();
        self.socket.command(Command::UdpInfo(self.id()?, reply));
        Ok(receiver.received().await?)
    }

    /// The error of an earlier datagram, if no call has returned it yet (`SO_ERROR`).
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.socket.take_error().map(Into::into))
    }

    fn id(&self) -> io::Result<SocketId> {
        self.socket.id().ok_or_else(|| Failure::NotOpen.into())
    }

    /// Sends a datagram to the connected address.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to), and [`NotConnected`](ErrorKind::NotConnected).
    pub async fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.socket.writer.wait(|| self.put(data, None)).await
    }

    /// Sends a datagram to `to`. It is never fragmented, so it must fit into one packet.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) if it is too long; the error of an earlier
    /// datagram; [`Failure::HostGone`].
    pub async fn send_to(&self, data: &[u8], to: impl Into<SocketAddr>) -> io::Result<usize> {
        let to = to.into();
        self.socket.writer.wait(|| self.put(data, Some(to))).await
    }

    /// Sends a datagram from `from`, any address and port of the host, to `to`.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to).
    pub async fn send_between(
        &self,
        data: &[u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> io::Result<usize> {
        let options = between(from, to);
        let put = || self.put_with(data, options);
        self.socket.writer.wait(put).await
    }

    /// Like [`send_between`](Self::send_between). The last task that called is woken.
    pub fn poll_send_between(
        &self,
        context: &mut Context<'_>,
        data: &[u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        let options = between(from, to);
        let put = || self.put_with(data, options);
        self.socket.writer.poll(context, put)
    }

    /// Receives a datagram, truncated to `out`. Returns the number of bytes copied, the source and
    /// the destination.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_between(
        &self,
        out: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, SocketAddr)> {
        let datagram = self.socket.reader.wait(|| self.take(out, true)).await?;
        Ok((datagram.len, datagram.from, datagram.to))
    }

    /// Like [`recv_between`](Self::recv_between). The last task that called is woken.
    pub fn poll_recv_between(
        &self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr, SocketAddr)>> {
        self.poll_recv_datagram(context, out)
            .map_ok(|datagram| (datagram.len, datagram.from, datagram.to))
    }

    /// Sends a datagram with an address to send from and an ECN field of its own, without waiting.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`WouldBlock`](ErrorKind::WouldBlock) if the buffer is full.
    pub fn try_send_with(&self, data: &[u8], options: SendOptions) -> io::Result<usize> {
        would_block(self.put_with(data, options))
    }

    /// Receives a datagram, truncated to `out`, with both ends and its ECN field. Wakes the last
    /// task that called.
    pub fn poll_recv_datagram(
        &self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<Datagram>> {
        self.socket.reader.poll(context, || self.take(out, true))
    }

    /// Like [`poll_recv_datagram`](Self::poll_recv_datagram), without waiting.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`WouldBlock`](ErrorKind::WouldBlock) if no datagram is queued.
    pub fn try_recv_datagram(&self, out: &mut [u8]) -> io::Result<Datagram> {
        would_block(self.take(out, true))
    }

    /// Like [`send`](Self::send), without waiting.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`WouldBlock`](ErrorKind::WouldBlock) if the buffer is full.
    pub fn try_send(&self, data: &[u8]) -> io::Result<usize> {
        would_block(self.put(data, None))
    }

    /// Like [`send_to`](Self::send_to), without waiting.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to), and [`WouldBlock`](ErrorKind::WouldBlock) if there is no
    /// room.
    pub fn try_send_to(&self, data: &[u8], to: impl Into<SocketAddr>) -> io::Result<usize> {
        would_block(self.put(data, Some(to.into())))
    }

    /// Like [`send_to`](Self::send_to). The last task that called is woken.
    pub fn poll_send_to(
        &self,
        context: &mut Context<'_>,
        data: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.socket
            .writer
            .poll(context, || self.put(data, Some(to)))
    }

    /// Like [`send`](Self::send). The last task that called is woken.
    pub fn poll_send(&self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.writer.poll(context, || self.put(data, None))
    }

    /// Receives a datagram, truncated to `out`. Returns the number of bytes copied.
    ///
    /// # Errors
    /// The error of an earlier datagram; [`Failure::HostGone`].
    pub async fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        self.recv_from(out).await.map(|(count, _)| count)
    }

    /// Receives a datagram, truncated to `out`. Returns the number of bytes copied and the sender.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let datagram = self.socket.reader.wait(|| self.take(out, true)).await?;
        Ok((datagram.len, datagram.from))
    }

    /// Like [`recv_from`](Self::recv_from), but leaves the datagram in the queue.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn peek_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let datagram = self.socket.reader.wait(|| self.take(out, false)).await?;
        Ok((datagram.len, datagram.from))
    }

    /// Like [`recv`](Self::recv), without waiting.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`WouldBlock`](ErrorKind::WouldBlock) if no datagram is queued.
    pub fn try_recv(&self, out: &mut [u8]) -> io::Result<usize> {
        self.try_recv_from(out).map(|(count, _)| count)
    }

    /// Like [`recv_from`](Self::recv_from), without waiting.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`WouldBlock`](ErrorKind::WouldBlock) if no datagram is queued.
    pub fn try_recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let datagram = self.try_recv_datagram(out)?;
        Ok((datagram.len, datagram.from))
    }

    /// Like [`recv_from`](Self::recv_from). The last task that called is woken.
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.poll_recv_datagram(context, out)
            .map_ok(|datagram| (datagram.len, datagram.from))
    }

    /// Waits until a datagram can be received or receiving fails.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.reader.wait(|| self.is_readable()).await
    }

    /// Waits until a datagram of any length can be sent or sending fails.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writer.wait(|| self.is_writable()).await
    }

    /// Waits until an operation of `interest` would not block; returns those that are ready. Any
    /// number of tasks may wait.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let now = || self.readiness().of(interest);
        let read = self.socket.reader.wait(now);
        let write = self.socket.writer.wait(now);
        Ok(wait_for(interest, read, write, now).await)
    }

    /// Runs `action` if an operation of `interest` would not block.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if all of them would; those of `action`.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        action: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        self.readiness().try_io(interest, action)
    }

    fn readiness(&self) -> Ready {
        Ready {
            read: self.is_readable().is_some(),
            write: self.is_writable().is_some(),
            ..Ready::default()
        }
    }

    /// Like [`readable`](Self::readable). The last task that called is woken.
    pub fn poll_recv_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.reader.poll(context, || self.is_readable())
    }

    /// Like [`writable`](Self::writable). The last task that called is woken.
    pub fn poll_send_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.writer.poll(context, || self.is_writable())
    }

    fn is_readable(&self) -> Option<io::Result<()>> {
        let is_ready =
            !lock(&self.incoming).is_empty() || self.socket.has_error.load(Ordering::Acquire);
        (is_ready || self.socket.end.get().is_some()).then_some(Ok(()))
    }

    fn is_writable(&self) -> Option<io::Result<()>> {
        let longest = self.socket.bound.get().map_or(0, |bound| bound.longest_v4);
        let is_ready =
            lock(&self.outgoing).fits(longest) || self.socket.has_error.load(Ordering::Acquire);
        (is_ready || self.socket.end.get().is_some()).then_some(Ok(()))
    }

    fn take(&self, out: &mut [u8], pop: bool) -> Option<io::Result<Datagram>> {
        let socket = &self.socket;
        if let Some(error) = socket.take_error() {
            return Some(Err(error.into()));
        }
        // Read before the ring: the end is declared after the last datagram.
        let end = socket.end.get();
        let mut incoming = lock(&self.incoming);
        let Some(first) = incoming.peek(out) else {
            return end.map(|why| Err((*why).into()));
        };
        // The host names both ends of every datagram.
        let (from, Some(to)) = (first.ends.remote, first.ends.local) else {
            return end.map(|why| Err((*why).into()));
        };
        if pop {
            incoming.pop();
            if incoming.is_half_empty() && socket.full.swap(false, Ordering::AcqRel) {
                socket.notify_host();
            }
        }
        Some(Ok(Datagram {
            len: first.copied,
            whole: first.len,
            from,
            to,
            ecn: first.ends.ecn,
        }))
    }

    fn put(&self, data: &[u8], to: Option<SocketAddr>) -> Option<io::Result<usize>> {
        let options = SendOptions {
            to,
            ..SendOptions::default()
        };
        self.put_with(data, options)
    }

    fn put_with(&self, data: &[u8], options: SendOptions) -> Option<io::Result<usize>> {
        let socket = &self.socket;
        if let Some(why) = socket.end.get().copied().or_else(|| socket.take_error()) {
            return Some(Err(why.into()));
        }
        // The connected address of now: the datagram may wait until the socket is connected to another.
        let Some(remote) = options.to.or_else(|| *lock(&socket.remote)) else {
            return Some(Err(Failure::Send(SendError::NotConnected).into()));
        };
        let most = socket.bound.get().map_or(LONGEST, |bound| {
            if remote.ip().to_canonical().is_ipv4() {
                bound.longest_v4
            } else {
                bound.longest_v6
            }
        });
        if data.len() > most {
            let len = data.len();
            return Some(Err(Failure::Send(SendError::TooLong { len, most }).into()));
        }
        let ends = Ends {
            remote,
            local: options.from,
            ecn: options.ecn,
        };
        lock(&self.outgoing).push(ends, data).then(|| {
            socket.notify_host();
            Ok(data.len())
        })
    }
}

fn between(from: SocketAddr, to: SocketAddr) -> SendOptions {
    SendOptions {
        from: Some(from),
        to: Some(to),
        ecn: Ecn::NotEct,
    }
}

fn would_block<T>(answer: Option<io::Result<T>>) -> io::Result<T> {
    answer.unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))
}
