//! [`Messages`]: a device made of a stream and a sink of packets.

use std::fmt::Display;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;

use super::PacketIo;

/// A device made of a `Stream` of received packets and a `Sink` for packets to send, one IP packet
/// per item.
#[derive(Debug)]
pub struct Messages<R, W> {
    received: R,
    sent: W,
    mtu: usize,
}

impl<R, W> Messages<R, W>
where
    R: Stream<Item = Bytes> + Send + Unpin + 'static,
    W: Sink<Bytes> + Send + Unpin + 'static,
    W::Error: Display,
{
    /// A device for packets of up to `mtu` bytes.
    pub fn new(received: R, sent: W, mtu: usize) -> Self {
        Self {
            received,
            sent,
            mtu,
        }
    }
}

fn failed(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl<R, W> PacketIo for Messages<R, W>
where
    R: Stream<Item = Bytes> + Send + Unpin + 'static,
    W: Sink<Bytes> + Send + Unpin + 'static,
    W::Error: Display,
{
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let Some(packet) = ready!(Pin::new(&mut self.received).poll_next(context)) else {
                return Poll::Ready(Ok(0));
            };
            // Skip messages that are empty or longer than the buffer.
            if let Some(room) = out.get_mut(..packet.len())
                && !packet.is_empty()
            {
                room.copy_from_slice(&packet);
                return Poll::Ready(Ok(packet.len()));
            }
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.sent).poll_ready(context)).map_err(failed)?;
        let packet = Bytes::copy_from_slice(frame);
        Poll::Ready(Pin::new(&mut self.sent).start_send(packet).map_err(failed))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.sent).poll_flush(context).map_err(failed)
    }
}
