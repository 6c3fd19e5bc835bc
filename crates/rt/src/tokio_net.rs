//! tokio's traits for [`TcpStream`] and its halves.
//!
//! Reads and writes take part in tokio's cooperative scheduling, so that a task with a busy
//! connection yields to others. They are cancel safe.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;

use crate::handle::{OwnedReadHalf, OwnedWriteHalf, TcpStream};

impl AsyncRead for OwnedReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let turn = ready!(poll_proceed(context));
        let count = ready!(
            self.get_mut()
                .poll_recv(context, buffer.initialize_unfilled())
        );
        turn.made_progress();
        buffer.advance(count?);
        Poll::Ready(Ok(()))
    }
}

/// Received bytes are read where they are, without a buffer or a copy. Only the half has it: as a method
/// of [`TcpStream`], `AsyncBufReadExt::split` would hide [`TcpStream::split`].
impl AsyncBufRead for OwnedReadHalf {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let turn = ready!(poll_proceed(context));
        let filled = ready!(self.get_mut().poll_fill(context));
        turn.made_progress();
        Poll::Ready(filled)
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        Self::consume(self.get_mut(), count);
    }
}

impl AsyncWrite for OwnedWriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let turn = ready!(poll_proceed(context));
        let count = ready!(self.get_mut().poll_send(context, data));
        turn.made_progress();
        Poll::Ready(count)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let turn = ready!(poll_proceed(context));
        let count = ready!(self.get_mut().poll_send_vectored(context, data));
        turn.made_progress();
        Poll::Ready(count)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Has no effect: every write has notified the host's thread.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the sending half: sends a FIN after the written data. Reading continues.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().finish();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (read, _) = self.get_mut().split();
        Pin::new(read).poll_read(context, buffer)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (_, write) = self.get_mut().split();
        Pin::new(write).poll_write(context, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let (_, write) = self.get_mut().split();
        Pin::new(write).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (_, write) = self.get_mut().split();
        Pin::new(write).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (_, write) = self.get_mut().split();
        Pin::new(write).poll_shutdown(context)
    }
}
