//! [`Sending`]: connects, sends a source, closes its half and waits for the peer to close its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::{Qdisc, Stats};
use tautline_rt::{Application, Next};
use tautline_stack::{Event, Host, Recv, SocketError, TcpConfig, TcpInfo, Tracer};

use crate::failure::Failure;
use crate::introspection;
use crate::report::Reporter;
use crate::source::Source;

/// The sending application.
#[derive(Debug)]
pub struct Sending {
    socket: SocketId,
    source: Source,
    json: bool,
    sent: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The handshake is in progress.
    Connecting,
    /// Data flows; `ended` when all of it was handed over.
    Open {
        reporter: Reporter,
        ended: bool,
    },
    /// The peer has everything.
    Done(Box<TcpInfo>, Duration),
    Failed(Failure),
}

impl Sending {
    /// Begins to connect.
    ///
    /// # Errors
    /// If the connection cannot be opened.
    pub fn start<Q, D, T, L>(
        host: &mut Host<Q, D, T, L>,
        remote: SocketAddr,
        config: TcpConfig,
        (source, json): (Source, bool),
        now: Instant,
    ) -> Result<Self, Failure>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let socket = host.connect(remote, config, now)?;
        Ok(Self {
            socket,
            source,
            json,
            sent: 0,
            stage: Stage::Connecting,
        })
    }

    /// The connection.
    pub fn socket(&self) -> SocketId {
        self.socket
    }

    /// How it ended: bytes, time, the connection, the digest.
    ///
    /// # Errors
    /// If the transfer did not complete.
    pub fn finish(self) -> Result<(u64, Duration, TcpInfo, Option<String>), Failure> {
        match self.stage {
            Stage::Done(info, time) => Ok((self.sent, time, *info, self.source.digest()?)),
            Stage::Failed(failure) => Err(failure),
            Stage::Connecting | Stage::Open { .. } => Err(Failure::Interrupted),
        }
    }

    /// Hands over data until the host takes no more.
    fn pump<Q, D, T, L>(
        &mut self,
        host: &mut Host<Stats<Q>, D, T, L>,
        now: Instant,
    ) -> Result<(), Failure>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let Self {
            socket,
            source,
            sent,
            stage,
            ..
        } = self;
        let Stage::Open { ended, .. } = stage else {
            return Ok(());
        };
        while !*ended {
            let chunk = source
                .chunk(now)
                .map_err(|error| Failure::Os(named("the data to send", error)))?;
            if chunk.is_empty() {
                host.shutdown(*socket)?;
                *ended = true;
                break;
            }
            let offered = chunk.len();
            let taken = match host.send(*socket, chunk) {
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

    fn react<Q, D, T, L>(
        &mut self,
        host: &mut Host<Stats<Q>, D, T, L>,
        event: Event,
        now: Instant,
    ) -> Result<(), Failure>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        match event {
            Event::Connected(_) => {
                self.stage = Stage::Open {
                    reporter: Reporter::new(self.json, now),
                    ended: false,
                };
                self.pump(host, now)
            }
            Event::Writable(_) => self.pump(host, now),
            Event::Readable(_) => self.listen_for_the_end(host, now),
            Event::Closed { why, .. } if !matches!(self.stage, Stage::Done(..)) => {
                Err(Failure::Closed(why))
            }
            Event::Closed { .. }
            | Event::Accepted { .. }
            | Event::Pong { .. }
            | Event::PingFailed { .. } => Ok(()),
        }
    }

    /// The peer sends nothing but the end of its half, once it has read ours.
    fn listen_for_the_end<Q, D, T, L>(
        &mut self,
        host: &mut Host<Stats<Q>, D, T, L>,
        now: Instant,
    ) -> Result<(), Failure>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let mut scrap = [0; 64];
        let found = loop {
            match host.recv(self.socket, &mut scrap) {
                Ok(Recv::Data(_)) => {}
                Err(SocketError::Closed) => return Ok(()),
                end => break end?,
            }
        };
        if let (
            Recv::EndOfStream,
            Stage::Open {
                reporter,
                ended: true,
            },
            Some(info),
        ) = (found, &mut self.stage, host.info(self.socket))
        {
            reporter.line(host, self.socket, |info| info.bytes_acked, now);
            if let Some(attribution) = host.attribution(self.socket) {
                introspection::print(self.json, &info, attribution);
            }
            self.stage = Stage::Done(Box::new(info), reporter.elapsed(now));
            host.close(self.socket, now);
        }
        Ok(())
    }
}

impl<Q, D, T, L> Application<Host<Stats<Q>, D, T, L>> for Sending
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    fn on_event(&mut self, host: &mut Host<Stats<Q>, D, T, L>, event: Event, now: Instant) {
        if let Err(failure) = self.react(host, event, now) {
            // Already over, or it is now.
            let _ = host.abort(self.socket);
            self.stage = Stage::Failed(failure);
        }
    }

    fn turn(&mut self, host: &mut Host<Stats<Q>, D, T, L>, now: Instant) -> Next {
        match &mut self.stage {
            Stage::Connecting => Next::Event,
            Stage::Open { reporter, .. } => {
                if reporter.due() <= now {
                    reporter.line(host, self.socket, |info| info.bytes_acked, now);
                }
                Next::At(reporter.due())
            }
            Stage::Done(..) | Stage::Failed(_) => Next::Done,
        }
    }
}

fn named(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
