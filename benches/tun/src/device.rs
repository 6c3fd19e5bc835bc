//! [`PacketDevice`]: a TUN interface as a byte stream of whole packets, for every stack the same.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tun_rs::{AsyncDevice, DeviceBuilder};

/// Bytes of the largest packet.
pub(crate) const MTU: u16 = 1500;

/// One IP packet per read and per write, without offload.
pub(crate) struct PacketDevice(AsyncDevice);

impl PacketDevice {
    /// Attaches to `interface`.
    pub(crate) fn open(interface: &str) -> io::Result<Self> {
        let builder = DeviceBuilder::new().name(interface).mtu(MTU);
        builder.build_async().map(Self)
    }
}

impl AsyncRead for PacketDevice {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = ready!(self.0.poll_recv(context, out.initialize_unfilled()))?;
        out.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PacketDevice {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        packet: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send(context, packet)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
