//! [`BulkSender`] and [`BulkReceiver`]: applications that move a given stream from one host to
//! another.

use std::io::Read;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use tautline_base::{Instant, SocketId};
use tautline_stack::{Event, Recv, TcpConfig};

use super::applications::CHUNK;
use super::{AppError, Application, Context};

/// Connects, sends everything that `source` yields, closes its half, and waits for the peer to
/// close the other.
#[derive(Debug)]
pub struct BulkSender<S> {
    remote: SocketAddr,
    tcp: Arc<TcpConfig>,
    source: S,
    chunk: Box<[u8]>,
    /// Part of `chunk` that the host has not accepted.
    unsent: Range<usize>,
    /// The source has ended and our half is closed.
    ended: bool,
    socket: Option<SocketId>,
    done: bool,
}

impl<S: Read> BulkSender<S> {
    /// A sender of `source` to `remote`.
    pub fn new(remote: SocketAddr, tcp: impl Into<Arc<TcpConfig>>, source: S) -> Self {
        Self {
            remote,
            tcp: tcp.into(),
            source,
            chunk: vec![0; CHUNK].into(),
            unsent: 0..0,
            ended: false,
            socket: None,
            done: false,
        }
    }

    /// Sends until the host accepts no more.
    fn send(&mut self, cx: &mut Context<'_>, socket: SocketId) -> Result<(), AppError> {
        while !self.ended {
            if self.unsent.is_empty() {
                self.unsent = 0..self.source.read(&mut self.chunk)?;
            }
            if self.unsent.is_empty() {
                self.ended = true;
                return Ok(cx.host.shutdown(socket)?);
            }
            let accepted = cx.send(socket, &self.chunk[self.unsent.clone()])?;
            self.unsent.start += accepted;
            if accepted == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl<S: Read> Application for BulkSender<S> {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.socket = Some(cx.connect(self.remote, Arc::clone(&self.tcp), 0)?);
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: Event, _: u32) -> Result<(), AppError> {
        match event {
            Event::Connected(socket) | Event::Writable(socket) => self.send(cx, socket)?,
            Event::Readable(socket) => {
                let is_read = cx.recv_all(socket)? == Recv::EndOfStream;
                if is_read && self.ended {
                    cx.close(socket);
                    (self.socket, self.done) = (None, true);
                }
            }
            Event::Closed { why, .. } => return Err(AppError::Closed(why)),
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn connections(&self) -> &[SocketId] {
        self.socket.as_slice()
    }
}

/// Accepts one connection, passes everything it receives to `sink`, and closes after the peer.
pub struct BulkReceiver<F> {
    port: u16,
    tcp: Arc<TcpConfig>,
    sink: F,
    reads_from: Instant,
    listener: Option<SocketId>,
    socket: Option<SocketId>,
    done: bool,
}

impl<F: FnMut(&[u8])> BulkReceiver<F> {
    /// A receiver on `port`.
    pub fn new(port: u16, tcp: impl Into<Arc<TcpConfig>>, sink: F) -> Self {
        Self {
            port,
            tcp: tcp.into(),
            sink,
            reads_from: Instant::ZERO,
            listener: None,
            socket: None,
            done: false,
        }
    }

    /// Reads nothing before `time`, so that the receive window closes.
    #[must_use]
    pub fn reading_from(mut self, time: Instant) -> Self {
        self.reads_from = time;
        self
    }

    fn read(&mut self, cx: &mut Context<'_>, socket: SocketId) -> Result<(), AppError> {
        if cx.now < self.reads_from {
            return Ok(());
        }
        loop {
            match cx.recv(socket)? {
                Recv::Data(count) => (self.sink)(&cx.buffer[..count]),
                Recv::Empty => return Ok(()),
                Recv::EndOfStream => {
                    cx.close(socket);
                    (self.socket, self.done) = (None, true);
                    return Ok(());
                }
            }
        }
    }
}

impl<F: FnMut(&[u8])> Application for BulkReceiver<F> {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.listener = Some(cx.listen(self.port, Arc::clone(&self.tcp), 0)?);
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: Event, _: u32) -> Result<(), AppError> {
        match event {
            Event::Accepted { socket, .. } => {
                if let Some(listener) = self.listener.take() {
                    cx.close(listener);
                }
                cx.own(socket, 0);
                self.socket = Some(socket);
                self.read(cx, socket)
            }
            Event::Readable(socket) => self.read(cx, socket),
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            _ => Ok(()),
        }
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.reads_from = Instant::ZERO;
        self.socket.map_or(Ok(()), |socket| self.read(cx, socket))
    }

    fn deadline(&self) -> Option<Instant> {
        (self.reads_from > Instant::ZERO).then_some(self.reads_from)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn connections(&self) -> &[SocketId] {
        self.socket.as_slice()
    }
}
