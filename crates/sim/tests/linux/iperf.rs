//! [`Iperf`]: the client of `iperf3`, as far as it matters to TCP.
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
use tautline_stack::{Event, TcpConfig};

/// Length of the first message of a stream.
const COOKIE: usize = 37;
/// How long after its TCP has acknowledged the last cookie the server says to begin: the
/// acknowledgment comes first, while nothing is in flight, or the sender's rounds would be counted
/// from the end of its first flight.
const WAKING: Duration = Duration::from_micros(1);
/// Data of one write.
static CHUNK: [u8; 128 << 10] = [0; 128 << 10];

/// Sends streams without end.
pub(crate) struct Iperf {
    remote: SocketAddr,
    rtt: Duration,
    count: usize,
    tcp: Arc<TcpConfig>,
    streams: Vec<SocketId>,
    begin: Option<Instant>,
    began: bool,
}

impl Iperf {
    /// Sends `count` streams to `remote`, which is `rtt` away.
    pub(crate) fn new(remote: SocketAddr, rtt: Duration, count: usize, tcp: TcpConfig) -> Self {
        Self {
            remote,
            rtt,
            count,
            tcp: tcp.into(),
            streams: Vec::new(),
            begin: None,
            began: false,
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

    fn stop(&mut self, _scene: &mut Context<'_>) -> Result<(), AppError> {
        Ok(())
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
                self.streams.push(socket);
                if self.streams.len() < self.count {
                    return self.connect(cx);
                }
                self.begin = Some(Self::begin(cx.now, self.rtt));
                Ok(())
            }
            Event::Writable(socket) if self.began => fill(cx, socket),
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            _ => Ok(()),
        }
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if self.began || self.begin.is_none_or(|begin| begin > cx.now) {
            return Ok(());
        }
        self.began = true;
        self.streams.iter().try_for_each(|socket| fill(cx, *socket))
    }

    fn deadline(&self) -> Option<Instant> {
        self.begin.filter(|_| !self.began)
    }

    fn is_done(&self) -> bool {
        false
    }

    fn connections(&self) -> &[SocketId] {
        &self.streams
    }
}
