//! [`Receiving`]: accepts one connection, reads it to its end into a sink, and closes its half once
//! everything is stored; a failure resets the connection. So its FIN confirms the transfer.

use std::time::Duration;

use tautline_base::{Frame, Instant, SocketId};
use tautline_rt::{Application, Next};
use tautline_stack::{CloseReason, Event, Recv, SocketError, TcpConfig, TcpInfo};

use crate::failure::Failure;
use crate::report::Reporter;
use crate::send::probing;
use crate::session::{Outcome, SessionHost};
use crate::sink::{Sink, Stored};

/// The receiving application.
#[derive(Debug)]
pub struct Receiving {
    listener: SocketId,
    sink: Sink,
    json: bool,
    max_silence: Duration,
    block: Vec<u8>,
    /// Bytes of the block that are filled.
    filled: usize,
    /// The sink has no room: the peer's data stays in the connection, which closes its window.
    is_blocked: bool,
    received: u64,
    stage: Stage,
}

/// A transfer to be received.
#[derive(Debug)]
pub struct ReceiveConfig {
    /// Port to listen on.
    pub port: u16,
    /// The connection. Without keepalive probes it gets some, which make a peer answer that has
    /// nothing to send.
    pub tcp: TcpConfig,
    /// Takes the data. A sink with a file was [started](Sink::start).
    pub sink: Sink,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// The transfer fails when the peer has been silent for this long.
    pub max_silence: Duration,
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
        progress: Stored,
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
const FIN_TIMEOUT: Duration = Duration::from_secs(1);

impl Receiving {
    /// Listens.
    ///
    /// # Errors
    /// If the listener cannot be opened.
    pub fn start<F: Frame>(
        host: &mut SessionHost<F>,
        config: ReceiveConfig,
    ) -> Result<Self, Failure> {
        let ReceiveConfig {
            port,
            tcp,
            mut sink,
            json,
            max_silence,
        } = config;
        Ok(Self {
            listener: host.listen(port, probing(tcp, max_silence))?,
            block: sink.empty_block(),
            sink,
            json,
            max_silence,
            filled: 0,
            is_blocked: false,
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

    /// The counters of the whole transfer. If it did not complete, the file gets what had arrived.
    ///
    /// # Errors
    /// If it did not complete, or the output cannot be written.
    pub fn finish(mut self) -> Result<Outcome, Failure> {
        let failure = match self.stage {
            Stage::Done(info, time) => {
                return Ok(Outcome {
                    role: "receiver",
                    bytes: self.received,
                    time,
                    info: *info,
                    sha256: self.sink.finish()?,
                });
            }
            Stage::Failed(failure) => failure,
            Stage::Listening
            | Stage::Open { .. }
            | Stage::Storing { .. }
            | Stage::Closing { .. } => Failure::Interrupted,
        };
        self.block.truncate(self.filled);
        if !matches!(failure, Failure::Store(_)) && self.sink.take(self.block).is_ok() {
            self.sink.abandon();
        }
        Err(failure)
    }

    fn react<F: Frame>(
        &mut self,
        host: &mut SessionHost<F>,
        event: Event,
        now: Instant,
    ) -> Result<(), Failure> {
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
            _ => Ok(()),
        }
    }

    fn read<F: Frame>(&mut self, host: &mut SessionHost<F>, now: Instant) -> Result<(), Failure> {
        let Stage::Open {
            socket,
            ref mut reporter,
            ref mut heard,
        } = self.stage
        else {
            return Ok(());
        };
        if self.is_blocked {
            if !self.sink.make_room().map_err(Failure::Store)? {
                return Ok(());
            }
            self.is_blocked = false;
        }
        loop {
            if self.filled == self.block.len() {
                let next = self.sink.empty_block();
                let full = std::mem::replace(&mut self.block, next);
                self.filled = 0;
                if !self.sink.take(full).map_err(Failure::Store)? {
                    self.is_blocked = true;
                    return Ok(());
                }
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
                progress: Stored::More,
            };
        }
        Ok(())
    }

    /// Stores a block, and confirms after the last. Between two blocks the host runs and answers
    /// the sender's keepalive probes.
    fn store<F: Frame>(&mut self, host: &mut SessionHost<F>, now: Instant) -> Result<(), Failure> {
        let Stage::Storing {
            socket,
            info,
            time,
            progress,
        } = &mut self.stage
        else {
            return Ok(());
        };
        *progress = self.sink.store_next().map_err(Failure::Store)?;
        if *progress == Stored::All {
            // The sender may already be gone.
            let _ = host.shutdown(*socket);
            self.stage = Stage::Closing {
                socket: *socket,
                info: info.clone(),
                time: *time,
                until: now + FIN_TIMEOUT,
            };
        }
        Ok(())
    }

    fn fail<F: Frame>(&mut self, host: &mut SessionHost<F>, failure: Failure) {
        if let Some(socket) = self.socket() {
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

impl<F: Frame> Application<SessionHost<F>> for Receiving {
    fn on_event(&mut self, host: &mut SessionHost<F>, event: Event, now: Instant) {
        if let Err(failure) = self.react(host, event, now) {
            self.fail(host, failure);
        }
    }

    fn turn(&mut self, host: &mut SessionHost<F>, now: Instant) -> Next {
        let stored = if self.is_blocked {
            self.read(host, now)
        } else {
            self.store(host, now)
        };
        if let Err(failure) = stored {
            self.fail(host, failure);
        }
        match &mut self.stage {
            Stage::Listening => Next::Event,
            Stage::Storing { progress, .. } if *progress == Stored::Blocked => Next::Event,
            Stage::Storing { .. } => Next::At(now),
            Stage::Open {
                socket,
                reporter,
                heard,
            } => {
                if reporter.due() <= now {
                    reporter.line(host, *socket, |info| info.bytes_received, now);
                }
                if now - *heard >= self.max_silence {
                    // Without data it still answers probes.
                    let info = host.info(*socket);
                    let silent = info.map_or(self.max_silence, |info| info.last_heard);
                    if silent >= self.max_silence {
                        self.fail(host, Failure::Silent(self.max_silence));
                        return Next::Done;
                    }
                    *heard = *heard + (now - *heard).saturating_sub(silent);
                }
                Next::At(reporter.due().min(*heard + self.max_silence))
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
