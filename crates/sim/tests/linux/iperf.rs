//! [`Iperf`] and [`Server`]: the client and the server of `iperf3`, as far as they matter to TCP.
//!
//! The streams are opened one after the other; each says who it is in [`COOKIE`] bytes. When the
//! server has all of them, its message to begin takes a round trip; then all send at once. The
//! client's clock begins there. The server's runs a round trip longer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Instant, SocketId};
use tautline_sim::AppError;
use tautline_sim::app::{Application, Context};
use tautline_stack::{Event, SocketOption, TcpConfig};

/// Length of the first message of a stream.
const COOKIE: usize = 37;
/// How long after its TCP has acknowledged the last cookie the server says to begin: the
/// acknowledgment comes first, while nothing is in flight, or the sender's rounds would be counted
/// from the end of its first flight.
const WAKING: Duration = Duration::from_micros(1);
/// How long after its TCP wakes it an end runs: the kernel processes packets that arrive together
/// first, as those do which a bucket of tokens let through at once.
const SWITCHING: Duration = Duration::from_micros(1);
/// Data of one write.
static CHUNK: [u8; 128 << 10] = [0; 128 << 10];

/// Sends streams without end.
pub(crate) struct Iperf {
    remote: SocketAddr,
    rtt: Duration,
    count: usize,
    tcp: Arc<TcpConfig>,
    /// Set once a connection is open, after its first message.
    options: Vec<SocketOption>,
    streams: Vec<SocketId>,
    begin: Option<Instant>,
    began: bool,
    /// Streams to write to.
    writable: Vec<SocketId>,
    /// When the client runs again.
    runs_at: Option<Instant>,
}

impl Iperf {
    /// Sends `count` streams to `remote`, which is `rtt` away. They get `options` when they are open.
    pub(crate) fn new(
        remote: SocketAddr,
        rtt: Duration,
        count: usize,
        (tcp, options): (TcpConfig, Vec<SocketOption>),
    ) -> Self {
        Self {
            options,
            remote,
            rtt,
            count,
            tcp: tcp.into(),
            streams: Vec::new(),
            begin: None,
            began: false,
            writable: Vec::new(),
            runs_at: None,
        }
    }

    /// When a client whose last stream opened at `now` sends its first data.
    pub(crate) fn begin(now: Instant, rtt: Duration) -> Instant {
        now + rtt + WAKING
    }

    fn connect(&self, cx: &mut Context<'_>) -> Result<(), AppError> {
        cx.connect(self.remote, Arc::clone(&self.tcp), 0)
            .map(|_| ())
    }
}

fn fill(cx: &mut Context<'_>, socket: SocketId) -> Result<(), AppError> {
    while cx.send(socket, &CHUNK)? > 0 {}
    Ok(())
}

impl Application for Iperf {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.connect(cx)
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        match event {
            Event::Connected(socket) => {
                cx.measured.connections += 1;
                cx.send(socket, &CHUNK[..COOKIE])?;
                for option in &self.options {
                    cx.host.set_option(socket, option.clone())?;
                }
                self.streams.push(socket);
                if self.streams.len() < self.count {
                    return self.connect(cx);
                }
                self.begin = Some(Self::begin(cx.now, self.rtt));
                Ok(())
            }
            Event::Writable(socket) if self.began => {
                self.writable.push(socket);
                self.runs_at = self.runs_at.or(Some(cx.now + SWITCHING));
                Ok(())
            }
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            _ => Ok(()),
        }
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if self.deadline().is_none_or(|at| at > cx.now) {
            return Ok(());
        }
        if self.began {
            self.runs_at = None;
            return self
                .writable
                .drain(..)
                .try_for_each(|socket| fill(cx, socket));
        }
        self.began = true;
        self.streams.iter().try_for_each(|socket| fill(cx, *socket))
    }

    fn deadline(&self) -> Option<Instant> {
        if self.began { self.runs_at } else { self.begin }
    }

    fn is_done(&self) -> bool {
        false
    }

    fn connections(&self) -> &[SocketId] {
        &self.streams
    }
}

/// Reads everything that arrives at `port`.
pub(crate) struct Server {
    port: u16,
    tcp: Arc<TcpConfig>,
    readable: Vec<SocketId>,
    runs_at: Option<Instant>,
}

impl Server {
    pub(crate) fn new(port: u16, tcp: TcpConfig) -> Self {
        Self {
            port,
            tcp: tcp.into(),
            readable: Vec::new(),
            runs_at: None,
        }
    }
}

impl Application for Server {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        cx.listen(self.port, Arc::clone(&self.tcp), 0).map(|_| ())
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        match event {
            Event::Accepted { socket, .. } => {
                cx.measured.connections += 1;
                cx.own(socket, 0);
                self.readable.push(socket);
            }
            Event::Readable(socket) => self.readable.push(socket),
            Event::Closed { why, .. } => return Err(AppError::Closed(why)),
            _ => {}
        }
        self.runs_at = self.runs_at.or(Some(cx.now + SWITCHING));
        Ok(())
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if self.runs_at.is_none_or(|at| at > cx.now) {
            return Ok(());
        }
        self.runs_at = None;
        for socket in self.readable.drain(..) {
            cx.recv_all(socket)?;
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.runs_at
    }

    fn is_done(&self) -> bool {
        true
    }
}
