//! [`Sending`]: connects, sends a source, closes its half and waits for the peer to close its own.
//!
//! The receiver's FIN confirms the transfer: ours closes its half only once it has stored
//! everything, and resets the connection if it cannot. A kernel's program that does neither
//! confirms that its kernel has received everything.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tautline_base::{Frame, Instant, SocketId};
use tautline_rt::{Application, Next};
use tautline_stack::{CloseReason, Event, Keepalive, Recv, SocketError, TcpConfig, TcpInfo};

use crate::failure::Failure;
use crate::introspection;
use crate::report::Reporter;
use crate::session::{Outcome, SessionHost};
use crate::source::Source;

/// Bytes from which a chunk is sent without a copy: a packet gathers few fragments.
const LEAST_OWNED: usize = 4 << 10;

/// The sending application.
#[derive(Debug)]
pub struct Sending {
    socket: SocketId,
    source: Source,
    /// The source has nothing yet; it wakes the loop.
    awaits_data: bool,
    json: bool,
    info: bool,
    max_silence: Duration,
    sent: u64,
    stage: Stage,
}

/// A transfer to be sent.
#[derive(Debug)]
pub struct SendConfig {
    /// Our end, as [`Host::connect_from`](tautline_stack::Host::connect_from) takes it.
    pub local: Option<SocketAddr>,
    /// The receiver.
    pub remote: SocketAddr,
    /// The connection. Without keepalive probes it gets some, which make a peer answer that has
    /// nothing to acknowledge.
    pub tcp: TcpConfig,
    /// The data. A source that makes its reader wait was [started](Source::start).
    pub source: Source,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// Print the connection's state at the end.
    pub info: bool,
    /// The transfer fails when the peer has been silent for this long.
    pub max_silence: Duration,
}

#[derive(Debug)]
enum Stage {
    /// The handshake is in progress.
    Connecting {
        since: Instant,
    },
    /// Data flows.
    Open {
        reporter: Reporter,
        /// All data and our FIN were passed to the host.
        ended: bool,
        /// Time until all data and our FIN were acknowledged.
        delivered: Option<Duration>,
    },
    /// The peer has confirmed everything.
    Done(Box<TcpInfo>, Duration),
    Failed(Failure),
}

impl Sending {
    /// Begins to connect.
    ///
    /// # Errors
    /// If the connection cannot be opened.
    pub fn start<F: Frame>(
        host: &mut SessionHost<F>,
        config: SendConfig,
        now: Instant,
    ) -> Result<Self, Failure> {
        let SendConfig {
            local,
            remote,
            tcp,
            source,
            json,
            info,
            max_silence,
        } = config;
        let tcp = probing(tcp, max_silence);
        Ok(Self {
            socket: host.connect_from(local, remote, tcp, now)?,
            source,
            awaits_data: false,
            json,
            info,
            max_silence,
            sent: 0,
            stage: Stage::Connecting { since: now },
        })
    }

    /// The connection.
    pub fn socket(&self) -> SocketId {
        self.socket
    }

    /// The counters of the whole transfer.
    ///
    /// # Errors
    /// If it did not complete, or the file cannot be read again for its digest.
    pub fn finish(self) -> Result<Outcome, Failure> {
        match self.stage {
            Stage::Done(info, time) => Ok(Outcome {
                role: "sender",
                bytes: self.sent,
                time,
                info: *info,
                sha256: self.source.digest()?,
            }),
            Stage::Failed(failure) => Err(failure),
            Stage::Connecting { .. } | Stage::Open { .. } => Err(Failure::Interrupted),
        }
    }

    /// Hands over data until the host takes no more.
    fn pump<F: Frame>(&mut self, host: &mut SessionHost<F>, now: Instant) -> Result<(), Failure> {
        let Self {
            socket,
            source,
            awaits_data,
            sent,
            stage,
            ..
        } = self;
        *awaits_data = false;
        let Stage::Open { ended, .. } = stage else {
            return Ok(());
        };
        while !*ended {
            let chunk = source
                .chunk(now)
                .map_err(|error| Failure::Os(named("the data to send", error)))?;
            let Some(mut chunk) = chunk else {
                *awaits_data = true;
                break;
            };
            if chunk.is_empty() {
                host.shutdown(*socket)?;
                *ended = true;
                break;
            }
            let offered = chunk.len();
            let taken = if offered < LEAST_OWNED {
                host.send(*socket, &chunk)
            } else {
                host.tcp(*socket)?.send_owned(&mut chunk)
            };
            let taken = match taken {
                // The event that follows says why.
                Err(SocketError::Closed) => return Ok(()),
                taken => taken?,
            };
            source.advance(taken);
            *sent += taken as u64;
            if taken < offered {
                break;
            }
        }
        Ok(())
    }

    fn react<F: Frame>(
        &mut self,
        host: &mut SessionHost<F>,
        event: Event,
        now: Instant,
    ) -> Result<(), Failure> {
        match event {
            Event::Connected(_) => {
                self.stage = Stage::Open {
                    reporter: Reporter::new(self.json, now),
                    ended: false,
                    delivered: None,
                };
                self.pump(host, now)
            }
            Event::Writable(_) => self.pump(host, now),
            // The peer's data is discarded; its FIN shows in the connection's state.
            Event::Readable(socket) => {
                while let Ok(Recv::Data(_)) = host.recv(socket, &mut [0; 1024]) {}
                Ok(())
            }
            Event::Closed { why, .. } => match (&self.stage, why) {
                (Stage::Done(..), _)
                // The peer had closed its half before ours.
                | (Stage::Open { ended: true, .. }, CloseReason::Finished) => Ok(()),
                (_, CloseReason::Reset) => Err(Failure::Unconfirmed),
                _ => Err(Failure::Closed(why)),
            },
            _ => Ok(()),
        }
    }

    /// Prints a line when one is due, and ends the transfer when the peer has confirmed it or has
    /// been silent for too long.
    fn check<F: Frame>(&mut self, host: &mut SessionHost<F>, now: Instant) -> Result<(), Failure> {
        let Stage::Open {
            reporter,
            ended,
            delivered,
        } = &mut self.stage
        else {
            return Ok(());
        };
        let due = reporter.due() <= now;
        let Some(info) = host.info(self.socket).filter(|_| due || *ended) else {
            return Ok(());
        };
        let acknowledged = matches!(info.state, "FIN-WAIT-2" | "TIME-WAIT" | "CLOSED");
        if *ended && acknowledged {
            delivered.get_or_insert(reporter.elapsed(now));
        }
        let confirmed = delivered.filter(|_| info.state != "FIN-WAIT-2");
        if due || confirmed.is_some() {
            reporter.line(host, self.socket, |info| info.bytes_acked, now);
        }
        if let Some(time) = confirmed {
            let attribution = host.attribution(self.socket);
            if let Some(attribution) = attribution.filter(|_| self.info) {
                introspection::print(self.json, &info, attribution);
            }
            self.stage = Stage::Done(Box::new(info), time);
            host.close(self.socket, now);
        } else if info.last_heard >= self.max_silence && !is_window_closed(&info) {
            return Err(Failure::Silent(self.max_silence));
        }
        Ok(())
    }

    fn fail<F: Frame>(&mut self, host: &mut SessionHost<F>, failure: Failure) {
        // Fails if the connection is closed already.
        let _ = host.abort(self.socket);
        self.stage = Stage::Failed(failure);
    }
}

impl<F: Frame> Application<SessionHost<F>> for Sending {
    fn on_event(&mut self, host: &mut SessionHost<F>, event: Event, now: Instant) {
        if let Err(failure) = self.react(host, event, now) {
            self.fail(host, failure);
        }
    }

    fn turn(&mut self, host: &mut SessionHost<F>, now: Instant) -> Next {
        let pumped = if self.awaits_data {
            self.pump(host, now)
        } else {
            Ok(())
        };
        if let Err(failure) = pumped.and_then(|()| self.check(host, now)) {
            self.fail(host, failure);
        }
        match &self.stage {
            Stage::Connecting { since } if now < *since + self.max_silence => {
                Next::At(*since + self.max_silence)
            }
            Stage::Connecting { .. } => {
                self.fail(host, Failure::NoAnswer(self.max_silence));
                Next::Done
            }
            Stage::Open { reporter, .. } => Next::At(reporter.due()),
            Stage::Done(..) | Stage::Failed(_) => Next::Done,
        }
    }
}

/// Whether the peer takes no data now. The host probes its window ever less often, and ends the
/// connection itself if none of the probes is answered.
fn is_window_closed(info: &TcpInfo) -> bool {
    info.peer_window.get() == 0 && info.in_flight.get() == 0 && info.segments_unacked == 0
}

/// `tcp` with keepalive probes, which a peer answers several times in `silence`.
pub(crate) fn probing(mut tcp: TcpConfig, silence: Duration) -> TcpConfig {
    tcp.keepalive.get_or_insert_with(|| Keepalive {
        idle: silence / 4,
        interval: silence / 4,
        ..Keepalive::default()
    });
    tcp
}

fn named(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
