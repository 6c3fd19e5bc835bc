//! [`Receiving`]: accepts one connection, reads it to its end into a sink, and closes its half once
//! everything is stored; a failure resets the connection. So its FIN confirms the transfer.

use std::time::Duration;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::{Qdisc, Stats};
use tautline_rt::{Application, Next};
use tautline_stack::{CloseReason, Event, Host, Recv, SocketError, TcpConfig, TcpInfo, Tracer};

use crate::failure::Failure;
use crate::report::Reporter;
use crate::sink::Sink;

/// The receiving application.
#[derive(Debug)]
pub struct Receiving {
    listener: SocketId,
    sink: Sink,
    json: bool,
    /// Longest silence of the peer.
    patience: Duration,
    block: Vec<u8>,
    /// Bytes of the block that are filled.
    filled: usize,
    received: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Nobody has connected.
    Listening,
    /// Data flows.
    Open {
        socket: SocketId,
        reporter: Reporter,
        heard: Instant,
    },
    /// Everything was received; the sink is storing it.
    Storing {
        socket: SocketId,
        info: Box<TcpInfo>,
        time: Duration,
    },
    /// All is stored; the close is in progress until it is confirmed or the deadline expires.
    Closing {
        socket: SocketId,
        info: Box<TcpInfo>,
        time: Duration,
        until: Instant,
    },
    /// All is stored.
    Done(Box<TcpInfo>, Duration),
    Failed(Failure),
}

/// Timeout for the peer's acknowledgment of our FIN, once all its data has arrived.
const FAREWELL: Duration = Duration::from_secs(1);

impl Receiving {
    /// Listens on `port`.
    ///
    /// # Errors
    /// If the listener cannot be opened.
    pub fn start<Q, D, T, L>(
        host: &mut Host<Q, D, T, L>,
        port: u16,
        config: TcpConfig,
        (mut sink, json): (Sink, bool),
        patience: Duration,
    ) -> Result<Self, Failure>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let listener = host.listen(port, config)?;
        let block = sink.empty_block();
        Ok(Self {
            listener,
            sink,
            json,
            patience,
            block,
            filled: 0,
            received: 0,
            stage: Stage::Listening,
        })
    }

    /// The connection, while there is one.
    pub fn socket(&self) -> Option<SocketId> {
        match self.stage {
            Stage::Open { socket, .. }
            | Stage::Storing { socket, .. }
            | Stage::Closing { socket, .. } => Some(socket),
            Stage::Listening | Stage::Done(..) | Stage::Failed(_) => None,
        }
    }

    /// How it ended: bytes, time, the connection, the digest.
    ///
    /// # Errors
    /// If the transfer did not complete, or the output cannot be written.
    pub fn finish(self) -> Result<(u64, Duration, TcpInfo, Option<String>), Failure> {
        match self.stage {
            Stage::Done(info, time) => Ok((self.received, time, *info, self.sink.finish()?)),
            Stage::Failed(failure) => Err(failure),
            Stage::Listening
            | Stage::Open { .. }
            | Stage::Storing { .. }
            | Stage::Closing { .. } => Err(Failure::Interrupted),
        }
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
            Event::Accepted { socket, .. } if matches!(self.stage, Stage::Listening) => {
                host.close(self.listener, now);
                self.stage = Stage::Open {
                    socket,
                    reporter: Reporter::new(self.json, now),
                    heard: now,
                };
                self.read(host, now)
            }
            // One connection was requested; another may have been accepted before the listener
            // closed.
            Event::Accepted { socket, .. } => Ok(host.abort(socket)?),
            Event::Readable(socket) if Some(socket) == self.socket() => self.read(host, now),
            Event::Closed { socket, why } if Some(socket) == self.socket() => self.closed(why),
            Event::Closed { socket, .. } => {
                host.close(socket, now);
                Ok(())
            }
            Event::Connected(_)
            | Event::Requested { .. }
            | Event::Readable(_)
            | Event::Writable(_)
            | Event::Pong { .. }
            | Event::PingFailed { .. }
            | Event::AddressesChanged => Ok(()),
        }
    }

    fn read<Q, D, T, L>(
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
            socket,
            ref mut reporter,
            ref mut heard,
        } = self.stage
        else {
            return Ok(());
        };
        loop {
            if self.filled == self.block.len() {
                let next = self.sink.empty_block();
                self.sink
                    .take(std::mem::replace(&mut self.block, next))
                    .map_err(Failure::Store)?;
                self.filled = 0;
            }
            match host.recv(socket, &mut self.block[self.filled..]) {
                Ok(Recv::Data(count)) => {
                    *heard = now;
                    self.filled += count;
                    self.received += count as u64;
                }
                // When the connection is over, the event that follows says why.
                Ok(Recv::Empty) | Err(SocketError::Closed) => return Ok(()),
                Ok(Recv::EndOfStream) => break,
                Err(error) => return Err(error.into()),
            }
        }
        reporter.line(host, socket, |info| info.bytes_received, now);
        let time = reporter.elapsed(now);
        let mut last = std::mem::take(&mut self.block);
        last.truncate(self.filled);
        self.sink.take(last).map_err(Failure::Store)?;
        if let Some(info) = host.info(socket) {
            self.stage = Stage::Storing {
                socket,
                info: Box::new(info),
                time,
            };
        }
        Ok(())
    }

    /// Stores a block, and confirms after the last. Between two blocks the host runs and answers
    /// the sender's keepalive probes.
    fn store<Q, D, T, L>(
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
        let Stage::Storing { socket, info, time } = &self.stage else {
            return Ok(());
        };
        if !self.sink.store_next().map_err(Failure::Store)? {
            // The sender may already be gone.
            let _ = host.shutdown(*socket);
            self.stage = Stage::Closing {
                socket: *socket,
                info: info.clone(),
                time: *time,
                until: now + FAREWELL,
            };
        }
        Ok(())
    }

    fn fail<Q, D, T, L>(
        &mut self,
        host: &mut Host<Stats<Q>, D, T, L>,
        socket: Option<SocketId>,
        failure: Failure,
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        if let Some(socket) = socket {
            // Fails if the connection is closed already.
            let _ = host.abort(socket);
        }
        self.stage = Stage::Failed(failure);
    }

    fn closed(&mut self, why: CloseReason) -> Result<(), Failure> {
        // Everything was received: the reason for the end of the connection no longer matters.
        match &self.stage {
            Stage::Storing { .. } => Ok(()),
            Stage::Closing { info, time, .. } => {
                self.stage = Stage::Done(info.clone(), *time);
                Ok(())
            }
            _ => Err(Failure::Closed(why)),
        }
    }
}

impl<Q, D, T, L> Application<Host<Stats<Q>, D, T, L>> for Receiving
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    fn on_event(&mut self, host: &mut Host<Stats<Q>, D, T, L>, event: Event, now: Instant) {
        let socket = self.socket();
        if let Err(failure) = self.react(host, event, now) {
            self.fail(host, socket, failure);
        }
    }

    fn turn(&mut self, host: &mut Host<Stats<Q>, D, T, L>, now: Instant) -> Next {
        if let Err(failure) = self.store(host, now) {
            self.fail(host, self.socket(), failure);
        }
        match &mut self.stage {
            Stage::Listening => Next::Event,
            Stage::Storing { .. } => Next::At(now),
            Stage::Open {
                socket,
                reporter,
                heard,
            } => {
                if reporter.due() <= now {
                    reporter.line(host, *socket, |info| info.bytes_received, now);
                }
                if now - *heard >= self.patience {
                    let _ = host.abort(*socket);
                    self.stage = Stage::Failed(Failure::Silent(self.patience));
                    return Next::Done;
                }
                Next::At(reporter.due().min(*heard + self.patience))
            }
            Stage::Closing { until, .. } if now < *until => Next::At(*until),
            Stage::Closing { info, time, .. } => {
                self.stage = Stage::Done(info.clone(), *time);
                Next::Done
            }
            Stage::Done(..) | Stage::Failed(_) => Next::Done,
        }
    }
}
