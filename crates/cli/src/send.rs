//! [`Sending`]: connects, sends a source, closes its half and waits for the peer to close its own.
//!
//! The receiver's FIN confirms the transfer: ours closes its half only once it has stored
//! everything, and resets the connection if it cannot. A kernel's program that does neither
//! confirms that its kernel has received everything.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::{Qdisc, Stats};
use tautline_rt::{Application, Next};
use tautline_stack::{
    CloseReason, Event, Host, Keepalive, Recv, SocketError, TcpConfig, TcpInfo, Tracer,
};

use crate::failure::Failure;
use crate::introspection;
use crate::report::Reporter;
use crate::source::Source;

/// The sending application.
#[derive(Debug)]
pub struct Sending {
    socket: SocketId,
    source: Source,
    options: SendOptions,
    sent: u64,
    stage: Stage,
}

/// Output of a transfer, and when it is given up.
#[derive(Clone, Copy, Debug)]
pub struct SendOptions {
    /// One JSON object per line instead of text.
    pub json: bool,
    /// Print the connection's state at the end.
    pub info: bool,
    /// Longest silence of the peer.
    pub patience: Duration,
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
    /// Begins to connect, `local` being as in [`Host::connect_from`]. The transfer fails if the
    /// peer is silent for too long; keepalive probes make it answer when it has nothing to
    /// acknowledge.
    ///
    /// # Errors
    /// If the connection cannot be opened.
    pub fn start<Q, D, T, L>(
        host: &mut Host<Q, D, T, L>,
        (local, remote): (Option<SocketAddr>, SocketAddr),
        mut config: TcpConfig,
        (source, options): (Source, SendOptions),
        now: Instant,
    ) -> Result<Self, Failure>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        config.keepalive.get_or_insert_with(|| Keepalive {
            idle: options.patience / 4,
            interval: options.patience / 4,
            ..Keepalive::default()
        });
        let socket = host.connect_from(local, remote, config, now)?;
        Ok(Self {
            socket,
            source,
            options,
            sent: 0,
            stage: Stage::Connecting { since: now },
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
            Stage::Connecting { .. } | Stage::Open { .. } => Err(Failure::Interrupted),
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
            let mut chunk = source
                .chunk(now)
                .map_err(|error| Failure::Os(named("the data to send", error)))?;
            if chunk.is_empty() {
                host.shutdown(*socket)?;
                *ended = true;
                break;
            }
            let offered = chunk.len();
            let taken = match host.tcp(*socket)?.send_owned(&mut chunk) {
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
                    reporter: Reporter::new(self.options.json, now),
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
            Event::Accepted { .. }
            | Event::Requested { .. }
            | Event::Pong { .. }
            | Event::PingFailed { .. }
            | Event::AddressesChanged => Ok(()),
        }
    }

    /// Prints a line when one is due, and ends the transfer when the peer has confirmed it or has
    /// been silent for too long.
    fn check<Q, D, T, L>(
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
            if let Some(attribution) = attribution.filter(|_| self.options.info) {
                introspection::print(self.options.json, &info, attribution);
            }
            self.stage = Stage::Done(Box::new(info), time);
            host.close(self.socket, now);
        } else if info.last_heard >= self.options.patience {
            return Err(Failure::Silent(self.options.patience));
        }
        Ok(())
    }

    fn fail<Q, D, T, L>(&mut self, host: &mut Host<Stats<Q>, D, T, L>, failure: Failure)
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        // Fails if the connection is closed already.
        let _ = host.abort(self.socket);
        self.stage = Stage::Failed(failure);
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
            self.fail(host, failure);
        }
    }

    fn turn(&mut self, host: &mut Host<Stats<Q>, D, T, L>, now: Instant) -> Next {
        if let Err(failure) = self.check(host, now) {
            self.fail(host, failure);
        }
        match &self.stage {
            Stage::Connecting { since } if now < *since + self.options.patience => {
                Next::At(*since + self.options.patience)
            }
            Stage::Connecting { .. } => {
                self.fail(host, Failure::NoAnswer(self.options.patience));
                Next::Done
            }
            Stage::Open { reporter, .. } => Next::At(reporter.due()),
            Stage::Done(..) | Stage::Failed(_) => Next::Done,
        }
    }
}

fn named(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
