//! [`UploadConfig`]: a TCP stream, endless or of a given length, written in messages of a given
//! size.

use std::net::SocketAddr;
use std::sync::Arc;

use tautline_base::{Bytes, Instant, SocketId};
use tautline_stack::{Event, Recv, TcpConfig};

use super::applications::CHUNK;
use super::framing::stamp_message;
use super::{AppError, Application, Applications, Context, Flow, Sample, Traffic, When};

use crate::config_error::ConfigError;

/// A TCP stream to a [sink](super::SinkConfig).
#[derive(Clone, Debug)]
pub struct UploadConfig {
    /// Name of the flow, at both ends.
    pub flow: Flow,
    /// The sink.
    pub remote: SocketAddr,
    /// When it sends. Default from the beginning, forever.
    pub when: When,
    /// Length of the stream. Default endless.
    pub bytes: Option<Bytes>,
    /// Bytes of one write, at least 1. Writes while the connection is blocked are merged into full
    /// segments; smaller ones leave at once only without Nagle's algorithm and with an open window.
    /// Default 64 KiB.
    pub message: Bytes,
    /// Messages carry their time of writing, and a [sink of messages](Applications::message_sink)
    /// measures their delay. It includes the time in the send buffer: bound that with
    /// [`TcpConfig::notsent_lowat`] to see the network. Messages then have from 16 bytes to 64 KiB,
    /// and `bytes` is a multiple of their size. Default no.
    pub stamped: bool,
    /// How the stream ends at [`When::stop`]. Default [`Ending::Deliver`].
    pub ending: Ending,
    /// Configuration of TCP. Default: the stack's.
    pub tcp: Arc<TcpConfig>,
}

/// How a stream ends at [`When::stop`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Everything written is delivered, then both ends close.
    #[default]
    Deliver,
    /// The connection is reset.
    Reset,
}

impl UploadConfig {
    /// An endless stream to `remote`.
    pub fn new(flow: impl Into<Flow>, remote: SocketAddr) -> Self {
        let (when, message) = (When::default(), Bytes::new(CHUNK as u64));
        let (ending, tcp) = (Ending::default(), Arc::default());
        Self {
            flow: flow.into(),
            remote,
            when,
            bytes: None,
            message,
            stamped: false,
            ending,
            tcp,
        }
    }
}

impl Applications<'_> {
    /// Adds a sender of a stream.
    ///
    /// # Errors
    /// If messages are empty, or are to be stamped and their size does not permit it.
    pub fn upload(&mut self, config: UploadConfig) -> Result<&mut Self, ConfigError> {
        ConfigError::check(
            config.message > Bytes::ZERO,
            "message",
            "0",
            "at least 1 byte",
        )?;
        if config.stamped {
            let size = (Traffic::LEAST.get()..=CHUNK as u64).contains(&config.message.get());
            ConfigError::check(
                size,
                "message",
                config.message,
                "from 16 to 65536 bytes to be stamped",
            )?;
            let whole = config
                .bytes
                .is_none_or(|bytes| bytes.get().is_multiple_of(config.message.get()));
            ConfigError::check(
                whole,
                "bytes",
                config.bytes.unwrap_or_default(),
                "whole messages",
            )?;
        }
        let (flow, when) = (config.flow.clone(), config.when);
        self.add(flow, when, Upload::new(config))
    }
}

struct Upload {
    config: UploadConfig,
    socket: Option<SocketId>,
    progress: Progress,
    began: Instant,
    /// Bytes not yet written, unless endless.
    left: Option<u64>,
    /// Bytes of the current message not yet written.
    rest: u64,
    /// The current message, if it is stamped.
    message: Box<[u8]>,
    /// Number of messages begun.
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Writing,
    /// Everything is written; the peer has not closed yet.
    Closing,
    Done,
}

impl Upload {
    fn new(config: UploadConfig) -> Self {
        let left = config.bytes.map(Bytes::get);
        let message = vec![
            0;
            if config.stamped {
                config.message.as_usize()
            } else {
                0
            }
        ]
        .into();
        let (progress, began) = (Progress::Writing, Instant::ZERO);
        Self {
            config,
            socket: None,
            progress,
            began,
            left,
            rest: 0,
            message,
            number: 0,
        }
    }

    /// Writes messages until the host accepts no more.
    fn write(&mut self, cx: &mut Context<'_>, socket: SocketId) -> Result<(), AppError> {
        while self.progress == Progress::Writing {
            if self.rest == 0 {
                self.rest = self.config.message.get().min(self.left.unwrap_or(u64::MAX));
                if self.config.stamped {
                    stamp_message(&mut self.message, cx.now, self.number);
                }
                self.number += 1;
            }
            if self.rest == 0 {
                return self.finish(cx, socket);
            }
            let size = self.rest.min(CHUNK as u64) as usize;
            let taken = if self.config.stamped {
                cx.send(socket, &self.message[self.message.len() - size..])?
            } else {
                cx.send_zeros(socket, size)?
            };
            if taken == 0 {
                return Ok(());
            }
            self.rest -= taken as u64;
            self.left = self.left.map(|left| left - taken as u64);
        }
        Ok(())
    }

    /// Closes our half.
    fn finish(&mut self, cx: &mut Context<'_>, socket: SocketId) -> Result<(), AppError> {
        self.progress = Progress::Closing;
        Ok(cx.host.shutdown(socket)?)
    }

    fn close(&mut self, cx: &mut Context<'_>, socket: SocketId) {
        cx.close(socket);
        (self.socket, self.progress) = (None, Progress::Done);
    }

    fn read(&mut self, cx: &mut Context<'_>, socket: SocketId) -> Result<(), AppError> {
        if cx.recv_all(socket)? == Recv::EndOfStream && self.progress == Progress::Closing {
            if self.left == Some(0) {
                cx.measured.completions.push(Sample {
                    at: self.began,
                    took: cx.now - self.began,
                });
            }
            self.close(cx, socket);
        }
        Ok(())
    }
}

impl Application for Upload {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.began = cx.now;
        self.socket = Some(cx.connect(self.config.remote, Arc::clone(&self.config.tcp), 0)?);
        Ok(())
    }

    fn stop(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let Some(socket) = self.socket else {
            return Ok(());
        };
        match self.config.ending {
            Ending::Reset => {
                cx.host.abort(socket)?;
                self.close(cx, socket);
                Ok(())
            }
            Ending::Deliver if self.progress == Progress::Writing => self.finish(cx, socket),
            Ending::Deliver => Ok(()),
        }
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
                self.write(cx, socket)
            }
            Event::Writable(socket) => self.write(cx, socket),
            Event::Readable(socket) => self.read(cx, socket),
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            _ => Ok(()),
        }
    }

    fn is_done(&self) -> bool {
        self.progress == Progress::Done
    }

    fn connections(&self) -> &[SocketId] {
        self.socket.as_slice()
    }
}
