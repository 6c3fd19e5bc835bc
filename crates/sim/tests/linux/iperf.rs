//! [`Iperf`]: both ends of `iperf3`, as far as they matter to TCP.
//!
//! The streams are opened one after the other; each says who it is in [`COOKIE`] bytes. When the server has heard of them all its
//! word to begin takes a round trip; then all send at once. The client's clock begins there. The server's runs a round trip
//! longer.

use std::net::SocketAddr;
use std::time::Duration;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_sim::{App, AppError, Program};
use tautline_stack::{Event, Host, Recv, TcpConfig, Tracer};

/// What a stream says first.
const COOKIE: usize = 37;
/// How long after its TCP has acknowledged the last cookie the server says to begin: the acknowledgement comes first, while nothing is in
/// flight, or the sender's rounds would be counted from the end of its first flight.
const WAKING: Duration = Duration::from_micros(1);
/// Bytes written and read in one call.
const CHUNK: usize = 128 << 10;

/// Either end.
pub(crate) struct Iperf {
    end: End,
    config: TcpConfig,
    buffer: Box<[u8]>,
    failure: Option<AppError>,
}

enum End {
    Client { remote: SocketAddr, rtt: Duration, count: usize, streams: Vec<SocketId>, begin: Option<Instant>, began: bool },
    Server { port: u16, received: u64 },
}

impl Iperf {
    /// Sends `count` streams to `remote`, which is `rtt` away, without end.
    pub(crate) fn client(remote: SocketAddr, rtt: Duration, count: usize, config: TcpConfig) -> Self {
        Self::new(End::Client { remote, rtt, count, streams: Vec::new(), begin: None, began: false }, config)
    }

    /// Takes what comes on `port`.
    pub(crate) fn server(port: u16, config: TcpConfig) -> Self {
        Self::new(End::Server { port, received: 0 }, config)
    }

    fn new(end: End, config: TcpConfig) -> Self {
        Self { end, config, buffer: vec![0; CHUNK].into(), failure: None }
    }

    /// When the client sends its first data, as soon as that is certain.
    pub(crate) fn begin(&self) -> Option<Instant> {
        if let End::Client { begin, .. } = self.end { begin } else { None }
    }

    /// Bytes the server has read.
    pub(crate) fn received(&self) -> u64 {
        if let End::Server { received, .. } = self.end { received } else { 0 }
    }

    /// The client's first stream.
    pub(crate) fn first(&self) -> Option<SocketId> {
        if let End::Client { streams, .. } = &self.end { streams.first().copied() } else { None }
    }

    fn react<Q, D, T, L>(&mut self, host: &mut Host<Q, D, T, L>, event: Event, now: Instant) -> Result<(), AppError>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        match (&mut self.end, event) {
            (End::Client { remote, rtt, count, streams, begin, .. }, Event::Connected(socket)) => {
                host.send(socket, &self.buffer[..COOKIE])?;
                streams.push(socket);
                if streams.len() < *count {
                    host.connect(*remote, self.config.clone(), now)?;
                } else {
                    *begin = Some(now + *rtt + WAKING);
                }
            }
            (End::Client { began: true, .. }, Event::Writable(socket)) => while host.send(socket, &self.buffer)? > 0 {},
            (End::Server { received, .. }, Event::Accepted { socket, .. } | Event::Readable(socket)) => {
                while let Recv::Data(count) = host.recv(socket, &mut self.buffer)? {
                    *received += count as u64;
                }
            }
            (_, Event::Closed { why, .. }) => return Err(AppError::Closed(why)),
            _ => {}
        }
        Ok(())
    }
}

impl<Q, D, T, L> App<Host<Q, D, T, L>> for Iperf
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    fn start(&mut self, host: &mut Host<Q, D, T, L>, now: Instant) {
        self.failure = match &self.end {
            End::Client { remote, .. } => host.connect(*remote, self.config.clone(), now).err().map(AppError::from),
            End::Server { port, .. } => host.listen(*port, self.config.clone()).err().map(AppError::from),
        };
    }

    fn on_event(&mut self, host: &mut Host<Q, D, T, L>, event: Event, now: Instant) {
        if let Err(error) = self.react(host, event, now) {
            self.failure = Some(error);
        }
    }

    fn on_call(&mut self, host: &mut Host<Q, D, T, L>, now: Instant) {
        let End::Client { streams, begin, began, .. } = &mut self.end else { return };
        if *began || begin.is_none_or(|begin| begin > now) {
            return;
        }
        *began = true;
        for socket in streams.clone() {
            if let Err(error) = self.react(host, Event::Writable(socket), now) {
                self.failure = Some(error);
            }
        }
    }
}

impl Program for Iperf {
    fn call_at(&self) -> Option<Instant> {
        match self.end {
            End::Client { began: false, begin, .. } => begin,
            _ => None,
        }
    }

    fn is_done(&self) -> bool {
        false
    }

    fn failure(&self) -> Option<&AppError> {
        self.failure.as_ref()
    }
}
