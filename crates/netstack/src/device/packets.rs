//! [`Packets`]: a byte stream whose reads and writes are whole packets.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::PacketIo;

/// A device that reads and writes one IP packet per call, as the asynchronous devices of TUN crates
/// do.
#[derive(Debug)]
pub struct Packets<T> {
    io: T,
    mtu: usize,
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Packets<T> {
    /// A device on `io` for packets of up to `mtu` bytes.
    pub fn new(io: T, mtu: usize) -> Self {
        Self { io, mtu }
    }
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> PacketIo for Packets<T> {
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(out);
        ready!(Pin::new(&mut self.io).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_send(&mut self, context: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(context, frame))?;
        Poll::Ready(if written == frame.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        })
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }
}
