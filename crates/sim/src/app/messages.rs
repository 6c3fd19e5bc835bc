//! [`MessagesConfig`]: small TCP messages at intervals, and their receiver, which measures the
//! delay of each from its due time until it is read completely: the "small flows" of paper 002
//! §5.2.

use std::net::SocketAddr;
use std::sync::Arc;

use tautline_base::{Instant, SocketId};
use tautline_stack::{Event, Recv, TcpConfig};

use super::framing::{Reader, stamp_message};
use super::service::StreamService;
use super::traffic::{Departures, read_stamp};
use super::{
    AppError, Application, Applications, Context, Flow, Sample, SinkConfig, Traffic, When,
};
use crate::config_error::ConfigError;

/// TCP messages to a [sink](Applications::message_sink). A message that is due before the previous
/// one fits into the send buffer is refused.
#[derive(Clone, Debug)]
pub struct MessagesConfig {
    /// Name of the flow, at both ends.
    pub flow: Flow,
    /// The sink.
    pub remote: SocketAddr,
    /// When it sends. Default from the beginning, forever.
    pub when: When,
    /// Rate and size.
    pub traffic: Traffic,
    /// Configuration of TCP. Default: the stack's, without Nagle's algorithm, as interactive
    /// programs use it.
    pub tcp: Arc<TcpConfig>,
}

impl MessagesConfig {
    /// `traffic` to `remote`.
    pub fn new(flow: impl Into<Flow>, remote: SocketAddr, traffic: Traffic) -> Self {
        let tcp = TcpConfig {
            nagle: false,
            ..TcpConfig::default()
        }
        .into();
        Self {
            flow: flow.into(),
            remote,
            when: When::default(),
            traffic,
            tcp,
        }
    }
}

impl Applications<'_> {
    /// Adds a sender of TCP messages.
    ///
    /// # Errors
    /// If the traffic is out of range.
    pub fn messages(&mut self, config: MessagesConfig) -> Result<&mut Self, ConfigError> {
        config.traffic.check()?;
        let (flow, when) = (config.flow.clone(), config.when);
        let message: Box<[u8]> = vec![0; config.traffic.size.as_usize()].into();
        let written = message.len();
        self.add(
            flow,
            when,
            Source {
                config,
                message,
                written,
                socket: None,
                departures: None,
                stage: Stage::Sending,
            },
        )
    }

    /// Adds a receiver of TCP messages.
    ///
    /// # Errors
    /// If there are too many applications.
    pub fn message_sink(&mut self, config: SinkConfig) -> Result<&mut Self, ConfigError> {
        let SinkConfig {
            flow,
            port,
            when,
            tcp,
        } = config;
        self.add(flow, when, StreamService::new(port, tcp, read))
    }
}

struct Source {
    config: MessagesConfig,
    message: Box<[u8]>,
    /// Bytes of the message that the connection has accepted: all between messages.
    written: usize,
    socket: Option<SocketId>,
    departures: Option<Departures>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sending,
    /// The current message is the last.
    Ending,
    /// Our half is closed.
    Closing,
    Done,
}

impl Source {
    /// Writes the rest of the current message, and closes after the last one.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let Some(socket) = self.socket else {
            return Ok(());
        };
        while self.written < self.message.len() {
            let taken = cx.host.send(socket, &self.message[self.written..]);
            let Ok(taken @ 1..) = taken else {
                return Ok(());
            };
            self.written += taken;
            if self.written == self.message.len() {
                cx.measured.note_sent(self.message.len());
            }
        }
        if self.stage == Stage::Ending {
            self.stage = Stage::Closing;
            cx.host.shutdown(socket)?;
        }
        Ok(())
    }
}

impl Application for Source {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.socket = Some(cx.connect(self.config.remote, Arc::clone(&self.config.tcp), 0)?);
        self.departures = Some(Departures::new(self.config.traffic.clone(), cx.now));
        Ok(())
    }

    fn stop(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if self.stage == Stage::Sending {
            (self.stage, self.departures) = (Stage::Ending, None);
        }
        self.write(cx)
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        match event {
            Event::Connected(_) => {
                cx.measured.connections += 1;
                self.write(cx)
            }
            Event::Writable(_) => self.write(cx),
            Event::Readable(socket) => {
                let end = cx.recv_all(socket)?;
                if self.stage == Stage::Closing && end == Recv::EndOfStream {
                    cx.close(socket);
                    (self.socket, self.stage) = (None, Stage::Done);
                }
                Ok(())
            }
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            _ => Ok(()),
        }
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        while let Some((due, number)) = self
            .departures
            .as_mut()
            .and_then(|departures| departures.take(cx.now))
        {
            if self.written < self.message.len() {
                cx.measured.refused += 1;
                continue;
            }
            stamp_message(&mut self.message, due, number);
            self.written = 0;
            self.write(cx)?;
        }
        match &self.departures {
            Some(departures) if departures.is_over() => self.stop(cx),
            _ => Ok(()),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.departures.as_ref()?.deadline()
    }

    fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    fn connections(&self) -> &[SocketId] {
        self.socket.as_slice()
    }
}

/// Reads messages, and measures the complete ones.
fn read(reader: &mut Reader, cx: &mut Context<'_>, socket: SocketId) -> Result<bool, AppError> {
    loop {
        match cx.recv(socket)? {
            Recv::Data(count) => {
                let (now, one_way) = (cx.now, &mut cx.measured.one_way);
                reader.read(&cx.buffer[..count], |header| {
                    let at = read_stamp(header).map_or(Instant::ZERO, |(due, _)| due);
                    one_way.push(Sample { at, took: now - at });
                })?;
            }
            Recv::Empty => return Ok(false),
            Recv::EndOfStream => return Ok(true),
        }
    }
}
