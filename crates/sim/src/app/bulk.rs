//! [`BulkSender`] and [`BulkReceiver`]: the two programs that move a given stream from one host to
//! another.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;

use tautline_base::{Instant, SocketId};
use tautline_stack::{Event, Recv, TcpConfig, TcpInfo};

use super::programs::CHUNK;
use super::{App, AppError, HostCalls, Program};

/// How far a stream has come.
#[derive(Debug)]
enum Progress {
    /// Before the connection.
    Waiting,
    /// Data may flow.
    Open(SocketId),
    /// The whole stream has passed, and this end has closed.
    Done,
    Failed(AppError),
}

impl Progress {
    fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    fn failure(&self) -> Option<&AppError> {
        if let Self::Failed(error) = self {
            Some(error)
        } else {
            None
        }
    }
}

/// Connects, sends all that `source` yields, closes its half, waits for the peer to close its own.
#[derive(Debug)]
pub struct BulkSender<S> {
    remote: SocketAddr,
    config: Arc<TcpConfig>,
    source: S,
    progress: Progress,
    chunk: Chunk,
    sent: u64,
    last_info: Option<Box<TcpInfo>>,
}

/// Data read from the source and not yet taken by the host.
#[derive(Debug)]
struct Chunk {
    data: Box<[u8]>,
    from: usize,
    to: usize,
    ended: bool,
}

impl<S: Read> BulkSender<S> {
    /// A sender of `source` to `remote`.
    pub fn new(
        remote: impl Into<SocketAddr>,
        config: impl Into<Arc<TcpConfig>>,
        source: S,
    ) -> Self {
        let chunk = Chunk {
            data: vec![0; CHUNK].into(),
            from: 0,
            to: 0,
            ended: false,
        };
        let config = config.into();
        Self {
            remote: remote.into(),
            config,
            source,
            progress: Progress::Waiting,
            chunk,
            sent: 0,
            last_info: None,
        }
    }

    /// The connection, once there is one and until it has ended.
    pub fn socket(&self) -> Option<SocketId> {
        if let Progress::Open(socket) = self.progress {
            Some(socket)
        } else {
            None
        }
    }

    /// Bytes the host has taken.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The connection as it was when the peer had closed.
    pub fn last_info(&self) -> Option<&TcpInfo> {
        self.last_info.as_deref()
    }

    /// Hands over data until the host takes no more.
    fn pump(&mut self, host: &mut impl HostCalls, socket: SocketId) -> Result<(), AppError> {
        while !self.chunk.ended {
            let Chunk {
                data,
                from,
                to,
                ended,
            } = &mut self.chunk;
            if from == to {
                (*from, *to) = (0, self.source.read(data)?);
            }
            if from == to {
                *ended = true;
                host.shutdown(socket)?;
                break;
            }
            let taken = host.send(socket, &data[*from..*to])?;
            *from += taken;
            self.sent += taken as u64;
            if taken == 0 {
                break;
            }
        }
        Ok(())
    }

    fn react(
        &mut self,
        host: &mut impl HostCalls,
        event: Event,
        now: Instant,
    ) -> Result<(), AppError> {
        match event {
            Event::Connected(socket) | Event::Writable(socket) => self.pump(host, socket),
            Event::Readable(socket) => {
                while let Recv::Data(_) = host.recv(socket, &mut [0; 64])? {}
                if host.recv(socket, &mut [0])? == Recv::EndOfStream && self.chunk.ended {
                    self.last_info = host.info(socket).map(Box::new);
                    host.close(socket, now);
                    self.progress = Progress::Done;
                }
                Ok(())
            }
            Event::Closed { why, .. } if !self.progress.is_done() => Err(AppError::Closed(why)),
            Event::Closed { .. }
            | Event::Accepted { .. }
            | Event::Pong { .. }
            | Event::PingFailed { .. } => Ok(()),
        }
    }
}

impl<H: HostCalls, S: Read> App<H> for BulkSender<S> {
    fn start(&mut self, host: &mut H, now: Instant) {
        self.progress = match host.connect(self.remote, Arc::clone(&self.config), now) {
            Ok(socket) => Progress::Open(socket),
            Err(error) => Progress::Failed(error.into()),
        };
    }

    fn on_event(&mut self, host: &mut H, event: Event, now: Instant) {
        if let Err(error) = self.react(host, event, now) {
            self.progress = Progress::Failed(error);
        }
    }
}

impl<S> Program for BulkSender<S> {
    fn is_done(&self) -> bool {
        self.progress.is_done()
    }

    fn failure(&self) -> Option<&AppError> {
        self.progress.failure()
    }
}

/// Listens, gives all it receives on its first connection to `sink`, closes when the peer has
/// closed.
pub struct BulkReceiver<F> {
    port: u16,
    config: Arc<TcpConfig>,
    sink: F,
    buffer: Box<[u8]>,
    reads_from: Instant,
    progress: Progress,
    listener: Option<SocketId>,
    received: u64,
}

impl<F: FnMut(&[u8])> BulkReceiver<F> {
    /// A receiver on `port`.
    pub fn new(port: u16, config: impl Into<Arc<TcpConfig>>, sink: F) -> Self {
        let (buffer, reads_from) = (vec![0; CHUNK].into(), Instant::ZERO);
        let config = config.into();
        Self {
            port,
            config,
            sink,
            buffer,
            reads_from,
            progress: Progress::Waiting,
            listener: None,
            received: 0,
        }
    }

    /// Leaves everything unread until `time`: the window closes.
    pub fn reading_from(mut self, time: Instant) -> Self {
        self.reads_from = time;
        self
    }

    /// The connection, once there is one and until it has ended.
    pub fn socket(&self) -> Option<SocketId> {
        if let Progress::Open(socket) = self.progress {
            Some(socket)
        } else {
            None
        }
    }

    /// Bytes read so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    fn read(
        &mut self,
        host: &mut impl HostCalls,
        socket: SocketId,
        now: Instant,
    ) -> Result<(), AppError> {
        if now < self.reads_from {
            return Ok(());
        }
        loop {
            match host.recv(socket, &mut self.buffer)? {
                Recv::Data(count) => {
                    self.received += count as u64;
                    (self.sink)(&self.buffer[..count]);
                }
                Recv::Empty => return Ok(()),
                Recv::EndOfStream => {
                    host.close(socket, now);
                    self.progress = Progress::Done;
                    return Ok(());
                }
            }
        }
    }

    fn react(
        &mut self,
        host: &mut impl HostCalls,
        event: Event,
        now: Instant,
    ) -> Result<(), AppError> {
        match event {
            Event::Accepted { socket, .. } => {
                if let Some(listener) = self.listener.take() {
                    host.close(listener, now);
                }
                self.progress = Progress::Open(socket);
                self.read(host, socket, now)
            }
            Event::Readable(socket) => self.read(host, socket, now),
            Event::Closed { why, .. } if !self.progress.is_done() => Err(AppError::Closed(why)),
            Event::Closed { .. }
            | Event::Connected(_)
            | Event::Writable(_)
            | Event::Pong { .. }
            | Event::PingFailed { .. } => Ok(()),
        }
    }
}

impl<H: HostCalls, F: FnMut(&[u8])> App<H> for BulkReceiver<F> {
    fn start(&mut self, host: &mut H, _now: Instant) {
        match host.listen(self.port, Arc::clone(&self.config)) {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => self.progress = Progress::Failed(error.into()),
        }
    }

    fn on_event(&mut self, host: &mut H, event: Event, now: Instant) {
        if let Err(error) = self.react(host, event, now) {
            self.progress = Progress::Failed(error);
        }
    }

    fn on_call(&mut self, host: &mut H, now: Instant) {
        self.reads_from = Instant::ZERO;
        if let Some(socket) = self.socket()
            && let Err(error) = self.read(host, socket, now)
        {
            self.progress = Progress::Failed(error);
        }
    }
}

impl<F> Program for BulkReceiver<F> {
    fn call_at(&self) -> Option<Instant> {
        (self.reads_from > Instant::ZERO).then_some(self.reads_from)
    }

    fn is_done(&self) -> bool {
        self.progress.is_done()
    }

    fn failure(&self) -> Option<&AppError> {
        self.progress.failure()
    }
}
