//! Ethernet frames over sockets, as QEMU's `-netdev stream` and `-netdev dgram` carry them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tautline_base::Medium;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::PacketIo;

/// Bytes of a length.
const PREFIX: usize = 4;
/// Bytes buffered each way.
const BUFFER: usize = 64 << 10;
/// Ethernet header and VLAN tag.
const LINK: usize = 18;

/// Ethernet frames over a byte stream, each behind its length as four bytes in network byte order.
#[derive(Debug)]
pub struct FrameStream<T> {
    io: T,
    mtu: usize,
    /// Received bytes from `start` on.
    received: Vec<u8>,
    start: usize,
    /// Bytes to send from `sent` on.
    sending: Vec<u8>,
    sent: usize,
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> FrameStream<T> {
    /// A device on a connected stream, for IP packets of up to `mtu` bytes. A longer frame ends it with an
    /// error, and so does the end of the stream within a frame.
    pub fn new(io: T, mtu: usize) -> Self {
        Self {
            io,
            mtu,
            received: Vec::new(),
            start: 0,
            sending: Vec::new(),
            sent: 0,
        }
    }

    /// The next whole frame that was received.
    fn take_frame(&mut self, out: &mut [u8]) -> io::Result<Option<usize>> {
        let Some((prefix, rest)) = self.received[self.start..].split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len == 0 || len > (self.mtu + LINK).min(out.len()) {
            let why = format!(
                "a frame of {len} bytes on a device for packets of {}",
                self.mtu
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let Some(frame) = rest.get(..len) else {
            return Ok(None);
        };
        out[..len].copy_from_slice(frame);
        self.start += PREFIX + len;
        Ok(Some(len))
    }
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> PacketIo for FrameStream<T> {
    fn medium(&self) -> Medium {
        Medium::Ethernet
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if let Some(len) = self.take_frame(out)? {
                return Poll::Ready(Ok(len));
            }
            self.received.drain(..self.start);
            self.start = 0;
            let had = self.received.len();
            self.received
                .resize(BUFFER.max(self.mtu + LINK + PREFIX), 0);
            let mut buffer = ReadBuf::new(&mut self.received[had..]);
            let read = Pin::new(&mut self.io).poll_read(context, &mut buffer);
            let count = buffer.filled().len();
            self.received.truncate(had + count);
            ready!(read)?;
            if count == 0 && had > 0 {
                let why = "the stream of frames ended within a frame: its other end has failed";
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, why);
                return Poll::Ready(Err(error));
            }
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>> {
        if self.sending.len() >= BUFFER {
            ready!(self.poll_flush(context))?;
        }
        let len = frame.len() as u32;
        self.sending.extend_from_slice(&len.to_be_bytes());
        self.sending.extend_from_slice(frame);
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.sending.len() {
            let rest = &self.sending[self.sent..];
            match ready!(Pin::new(&mut self.io).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        self.sending.clear();
        self.sent = 0;
        Pin::new(&mut self.io).poll_flush(context)
    }
}

/// Ethernet frames over a Unix datagram socket (`SOCK_DGRAM`), one each. Empty datagrams are skipped.
#[cfg(unix)]
#[derive(Debug)]
pub struct FrameSocket {
    socket: tokio::net::UnixDatagram,
    mtu: usize,
    /// For an unconnected socket, the path of the last sender.
    peer: Option<std::path::PathBuf>,
    is_connected: bool,
}

#[cfg(unix)]
impl FrameSocket {
    /// A device on `socket` for IP packets of up to `mtu` bytes. If it is bound and not connected,
    /// frames go to the one that has sent last.
    pub fn new(socket: tokio::net::UnixDatagram, mtu: usize) -> Self {
        Self {
            is_connected: socket.peer_addr().is_ok(),
            socket,
            mtu,
            peer: None,
        }
    }
}

#[cfg(unix)]
impl PacketIo for FrameSocket {
    fn medium(&self) -> Medium {
        Medium::Ethernet
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(out);
        // An empty datagram is neither a frame nor the end of the device.
        while buffer.filled().is_empty() {
            if self.is_connected {
                ready!(self.socket.poll_recv(context, &mut buffer))?;
            } else {
                let sender = ready!(self.socket.poll_recv_from(context, &mut buffer))?;
                self.peer = sender.as_pathname().map(Into::into);
            }
        }
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_send(&mut self, context: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>> {
        let sent = match &self.peer {
            None => self.socket.poll_send(context, frame),
            Some(peer) => self.socket.poll_send_to(context, frame, peer),
        };
        sent.map_ok(drop)
    }
}

/// Ethernet frames of a descriptor, one per read and write: a TAP interface that the caller has
/// opened with `IFF_NO_PI` and without `IFF_VNET_HDR`.
#[cfg(unix)]
#[derive(Debug)]
pub struct FrameDescriptor {
    file: tokio::io::unix::AsyncFd<std::fs::File>,
    mtu: usize,
}

#[cfg(unix)]
impl FrameDescriptor {
    /// A device on a non-blocking descriptor, for IP packets of up to `mtu` bytes.
    ///
    /// # Errors
    /// If the descriptor cannot be polled.
    #[expect(
        deprecated,
        reason = "`register` is unsafe for the sake of types other than `File`"
    )]
    pub fn new(descriptor: std::os::fd::OwnedFd, mtu: usize) -> io::Result<Self> {
        let file = tokio::io::unix::AsyncFd::new(descriptor.into())?;
        Ok(Self { file, mtu })
    }
}

#[cfg(unix)]
impl PacketIo for FrameDescriptor {
    fn medium(&self) -> Medium {
        Medium::Ethernet
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.file.poll_read_ready(context))?;
            if let Ok(read) = guard.try_io(|file| io::Read::read(&mut file.get_ref(), out)) {
                return Poll::Ready(read);
            }
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.file.poll_write_ready(context))?;
            if let Ok(written) = guard.try_io(|file| io::Write::write(&mut file.get_ref(), frame)) {
                return Poll::Ready(written.map(drop));
            }
        }
    }
}
