//! [`MessagesConfig`] and [`MessageSinkConfig`]: small TCP messages at intervals, and their end, which measures how long each took from
//! when it was due until it was read whole: the "small flows" of paper 002, §5.2.
//!
//! A message says how long it is; the sink finds its end by that.

use std::net::SocketAddr;
use std::sync::Arc;

use tautline_base::{Instant, SocketId};
use tautline_stack::{CloseReason, Event, Recv, TcpConfig};

use super::slab::Slab;
use super::traffic::{Departures, read_stamp, stamp};
use super::{AppError, Application, Flow, Programs, Sample, Scene, Traffic, When};
use crate::config_error::ConfigError;

/// A message begins with when it was due (8 bytes, nanoseconds), its number (4) and its length (4).
const HEADER: usize = 16;

/// TCP messages to a [sink](MessageSinkConfig). One that is due before the one before is written whole, for want of room in the
/// connection's buffer, is refused.
#[derive(Clone, Debug)]
pub struct MessagesConfig {
    /// Its name, at both ends.
    pub flow: Flow,
    /// The sink.
    pub remote: SocketAddr,
    /// When it sends. Default from the beginning, without end.
    pub when: When,
    /// How much.
    pub traffic: Traffic,
    /// Its TCP. Default: the stack's, but without Nagle's algorithm, as interactive programs have it.
    pub tcp: Arc<TcpConfig>,
}

impl MessagesConfig {
    /// `traffic` to `remote`.
    pub fn new(flow: impl Into<Flow>, remote: SocketAddr, traffic: Traffic) -> Self {
        let tcp = TcpConfig { nagle: false, ..TcpConfig::default() }.into();
        Self { flow: flow.into(), remote, when: When::default(), traffic, tcp }
    }
}

/// The end of TCP messages. Senders on other machines need the same clock for their delays to mean anything.
#[derive(Clone, Debug)]
pub struct MessageSinkConfig {
    /// The name of what arrives.
    pub flow: Flow,
    /// Where it listens.
    pub port: u16,
    /// When it listens; what it has accepted goes on. Default always.
    pub when: When,
    /// Its TCP. Default: the stack's.
    pub tcp: Arc<TcpConfig>,
}

impl MessageSinkConfig {
    /// A sink on `port`.
    pub fn new(flow: impl Into<Flow>, port: u16) -> Self {
        Self { flow: flow.into(), port, when: When::default(), tcp: Arc::default() }
    }
}

impl Programs {
    /// Also sends TCP messages.
    ///
    /// # Errors
    /// If the traffic is impossible.
    pub fn messages(&mut self, config: MessagesConfig) -> Result<&mut Self, ConfigError> {
        config.traffic.check()?;
        let (flow, when) = (config.flow.clone(), config.when);
        let message: Box<[u8]> = vec![0; config.traffic.size.as_usize()].into();
        let written = message.len();
        self.add(flow, when, Source { config, message, written, socket: None, departures: None, stage: Stage::Sending })
    }

    /// Also reads TCP messages that come on a port.
    ///
    /// # Errors
    /// If there are too many applications.
    pub fn message_sink(&mut self, config: MessageSinkConfig) -> Result<&mut Self, ConfigError> {
        let (flow, when) = (config.flow.clone(), config.when);
        self.add(flow, when, Sink { config, listener: None, readers: Slab::default() })
    }
}

/// Writes the header of a message.
pub(super) fn stamp_message(message: &mut [u8], due: Instant, number: u64) {
    let label = number << 32 | message.len() as u64;
    stamp(message, due, label);
}

struct Source {
    config: MessagesConfig,
    message: Box<[u8]>,
    /// Bytes of the message that the connection has taken: all, if none is begun.
    written: usize,
    socket: Option<SocketId>,
    departures: Option<Departures>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sending,
    /// No message follows the one that is begun.
    Ending,
    /// Our half is closed.
    Closing,
    Done,
}

impl Source {
    /// Writes the rest of the message that is begun; after the last one, closes.
    fn write(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        let Some(socket) = self.socket else { return Ok(()) };
        while self.written < self.message.len() {
            let taken = scene.host.send(socket, &self.message[self.written..]);
            let Ok(taken @ 1..) = taken else { return Ok(()) };
            self.written += taken;
            if self.written == self.message.len() {
                scene.measured.note_sent(self.message.len());
            }
        }
        if self.stage == Stage::Ending {
            self.stage = Stage::Closing;
            scene.host.shutdown(socket)?;
        }
        Ok(())
    }
}

impl Application for Source {
    fn start(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        self.socket = Some(scene.connect(self.config.remote, Arc::clone(&self.config.tcp), 0)?);
        self.departures = Some(Departures::new(self.config.traffic.clone(), scene.now));
        Ok(())
    }

    fn stop(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        if self.stage == Stage::Sending {
            (self.stage, self.departures) = (Stage::Ending, None);
        }
        self.write(scene)
    }

    fn on_event(&mut self, scene: &mut Scene<'_>, event: Event, _token: u32) -> Result<(), AppError> {
        match event {
            Event::Connected(_) => {
                scene.measured.connections += 1;
                self.write(scene)
            }
            Event::Writable(_) => self.write(scene),
            Event::Readable(socket) => {
                let end = scene.recv_all(socket)?;
                if self.stage == Stage::Closing && end == Recv::EndOfStream {
                    scene.close(socket);
                    (self.socket, self.stage) = (None, Stage::Done);
                }
                Ok(())
            }
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            Event::Accepted { .. } | Event::Pong { .. } | Event::PingFailed { .. } => Ok(()),
        }
    }

    fn on_call(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        while let Some((due, number)) = self.departures.as_mut().and_then(|departures| departures.take(scene.now)) {
            if self.written < self.message.len() {
                scene.measured.refused += 1;
                continue;
            }
            stamp_message(&mut self.message, due, number);
            self.written = 0;
            self.write(scene)?;
        }
        match &self.departures {
            Some(departures) if departures.is_over() => self.stop(scene),
            _ => Ok(()),
        }
    }

    fn call_at(&self) -> Option<Instant> {
        self.departures.as_ref()?.call_at()
    }

    fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    fn connections(&self) -> &[SocketId] {
        self.socket.as_slice()
    }
}

struct Sink {
    config: MessageSinkConfig,
    listener: Option<SocketId>,
    readers: Slab<Reader>,
}

/// Where a connection is in its stream of messages.
#[derive(Debug, Default)]
struct Reader {
    header: [u8; HEADER],
    /// Bytes of the header that have arrived.
    known: usize,
    /// Bytes of the message that are still to come behind its header.
    rest: usize,
}

impl Reader {
    /// Takes bytes of the stream in order; `whole` hears when each message that ends in them was due. An error for what is no message.
    fn read(&mut self, mut data: &[u8], mut whole: impl FnMut(Instant)) -> Result<(), AppError> {
        while !data.is_empty() {
            if self.known < HEADER {
                let taken = data.len().min(HEADER - self.known);
                self.header[self.known..][..taken].copy_from_slice(&data[..taken]);
                self.known += taken;
                data = &data[taken..];
                if self.known < HEADER {
                    break;
                }
                let length = u32::from_be_bytes([self.header[12], self.header[13], self.header[14], self.header[15]]);
                let short = AppError::Protocol("a message is shorter than its header");
                self.rest = (length as usize).checked_sub(HEADER).ok_or(short)?;
            }
            let taken = data.len().min(self.rest);
            self.rest -= taken;
            data = &data[taken..];
            if self.rest == 0 {
                self.known = 0;
                whole(read_stamp(&self.header).map_or(Instant::ZERO, |(due, _)| due));
            }
        }
        Ok(())
    }
}

impl Sink {
    fn read(&mut self, scene: &mut Scene<'_>, socket: SocketId, token: u32) -> Result<(), AppError> {
        let Some(reader) = self.readers.get_mut(token) else { return Ok(()) };
        loop {
            match scene.recv(socket)? {
                Recv::Data(count) => {
                    let (now, one_way) = (scene.now, &mut scene.measured.one_way);
                    let outcome = reader.read(&scene.buffer[..count], |at| one_way.push(Sample { at, took: now - at }));
                    if let Err(why) = outcome {
                        scene.fail(why);
                        scene.host.abort(socket)?;
                        self.let_go(scene, socket, token);
                        return Ok(());
                    }
                }
                Recv::Empty => return Ok(()),
                Recv::EndOfStream => {
                    self.let_go(scene, socket, token);
                    return Ok(());
                }
            }
        }
    }

    fn let_go(&mut self, scene: &mut Scene<'_>, socket: SocketId, token: u32) {
        scene.close(socket);
        self.readers.remove(token);
    }
}

impl Application for Sink {
    fn start(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        self.listener = Some(scene.listen(self.config.port, Arc::clone(&self.config.tcp), 0)?);
        Ok(())
    }

    fn stop(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        if let Some(listener) = self.listener.take() {
            scene.close(listener);
        }
        Ok(())
    }

    fn on_event(&mut self, scene: &mut Scene<'_>, event: Event, token: u32) -> Result<(), AppError> {
        match event {
            Event::Accepted { socket, .. } => {
                scene.measured.connections += 1;
                let token = self.readers.insert(Reader::default());
                scene.own(socket, token);
                self.read(scene, socket, token)
            }
            Event::Readable(socket) => self.read(scene, socket, token),
            Event::Closed { socket, why } => {
                self.read(scene, socket, token)?;
                if why != CloseReason::Finished {
                    scene.fail(AppError::Closed(why));
                }
                self.let_go(scene, socket, token);
                Ok(())
            }
            Event::Connected(_) | Event::Writable(_) | Event::Pong { .. } | Event::PingFailed { .. } => Ok(()),
        }
    }

    fn is_done(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        for (number, length) in [(0u64, 16usize), (1, 17), (2, 100)] {
            let mut message = vec![9; length];
            stamp(&mut message, Instant::from_nanos(5 + number), number << 32 | length as u64);
            stream.extend(message);
        }
        for cut in [1, 15, 16, 17, 1000] {
            let (mut reader, mut due) = (Reader::default(), Vec::new());
            stream.chunks(cut).for_each(|part| reader.read(part, |at| due.push(at.as_nanos())).expect("messages"));
            assert_eq!(due, [5, 6, 7], "cut every {cut} bytes");
        }
        assert!(Reader::default().read(&[0; 16], |_| {}).is_err());
    }
}
