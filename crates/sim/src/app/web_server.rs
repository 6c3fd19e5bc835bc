//! [`WebServerConfig`]: gives objects of whatever size is asked for, over connections that stay open.

use std::sync::Arc;

use tautline_base::{Bytes, SocketId};
use tautline_stack::{CloseReason, Event, Recv, TcpConfig};

use super::programs::ZEROS;
use super::slab::Slab;
use super::{AppError, Application, Flow, Programs, Scene, When};
use crate::config_error::ConfigError;

/// Bytes of a request that mean something: size of the object (8), length of the request (4), nothing (4).
pub(super) const HEADER: usize = 16;

/// Serves [clients](super::WebConfig). A request says how long it is itself and how many bytes are wanted; the response is these bytes.
/// Whoever asks is given whatever size: it is for networks without strangers.
#[derive(Clone, Debug)]
pub struct WebServerConfig {
    /// Its name.
    pub flow: Flow,
    /// Where it listens.
    pub port: u16,
    /// When it listens; what it has accepted goes on. Default always.
    pub when: When,
    /// Its TCP. Default: the stack's, but without Nagle's algorithm, as web servers have it.
    pub tcp: Arc<TcpConfig>,
}

impl WebServerConfig {
    /// A server on `port`.
    pub fn new(flow: impl Into<Flow>, port: u16) -> Self {
        let tcp = TcpConfig { nagle: false, ..TcpConfig::default() }.into();
        Self { flow: flow.into(), port, when: When::default(), tcp }
    }
}

impl Programs {
    /// Also serves objects.
    ///
    /// # Errors
    /// If there are too many applications.
    pub fn web_server(&mut self, config: WebServerConfig) -> Result<&mut Self, ConfigError> {
        let (flow, when) = (config.flow.clone(), config.when);
        self.add(flow, when, Server { config, listener: None, visits: Slab::default() })
    }
}

/// Writes into `request` that `size` bytes are wanted, in `length` bytes, at least 16.
pub(super) fn write_request(request: &mut Vec<u8>, size: Bytes, length: usize) {
    request.clear();
    request.extend(size.get().to_be_bytes());
    request.extend((length as u32).to_be_bytes());
    request.resize(length.max(HEADER), 0);
}

struct Server {
    config: WebServerConfig,
    listener: Option<SocketId>,
    visits: Slab<Visit>,
}

/// One connection.
#[derive(Debug, Default)]
struct Visit {
    header: [u8; HEADER],
    /// Bytes of the header that have arrived.
    known: usize,
    /// Bytes of the request that are still to come behind its header.
    rest: usize,
    /// Bytes of objects that were asked for and are not written.
    owed: u64,
    /// The client asks no more.
    last: bool,
}

impl Visit {
    /// Takes bytes of requests in order.
    fn read(&mut self, mut data: &[u8]) -> Result<(), AppError> {
        while !data.is_empty() {
            if self.known < HEADER {
                let taken = data.len().min(HEADER - self.known);
                self.header[self.known..][..taken].copy_from_slice(&data[..taken]);
                self.known += taken;
                data = &data[taken..];
                if self.known < HEADER {
                    break;
                }
                let length = u32::from_be_bytes([self.header[8], self.header[9], self.header[10], self.header[11]]);
                let short = AppError::Protocol("a request is shorter than its header");
                self.rest = (length as usize).checked_sub(HEADER).ok_or(short)?;
            }
            let taken = data.len().min(self.rest);
            self.rest -= taken;
            data = &data[taken..];
            if self.rest == 0 {
                self.known = 0;
                let [a, b, c, d, e, f, g, h, ..] = self.header;
                self.owed = self.owed.saturating_add(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
            }
        }
        Ok(())
    }

    /// Writes what the host takes.
    fn write(&mut self, scene: &mut Scene<'_>, socket: SocketId) -> Result<(), AppError> {
        while self.owed > 0 {
            let size = self.owed.min(ZEROS.len() as u64) as usize;
            let taken = scene.send(socket, &ZEROS[..size])?;
            if taken == 0 {
                break;
            }
            self.owed -= taken as u64;
        }
        Ok(())
    }
}

impl Server {
    /// Reads requests, writes objects. True when the connection has served its time.
    fn serve(&mut self, scene: &mut Scene<'_>, socket: SocketId, token: u32) -> Result<bool, AppError> {
        let Some(visit) = self.visits.get_mut(token) else { return Ok(false) };
        while !visit.last {
            match scene.recv(socket)? {
                Recv::Data(count) => visit.read(&scene.buffer[..count])?,
                Recv::Empty => break,
                Recv::EndOfStream => visit.last = true,
            }
        }
        visit.write(scene, socket)?;
        Ok(visit.last && visit.owed == 0)
    }

    fn let_go(&mut self, scene: &mut Scene<'_>, socket: SocketId, token: u32) {
        scene.close(socket);
        self.visits.remove(token);
    }

    /// One bad visitor is not the end of the others.
    fn attend(&mut self, scene: &mut Scene<'_>, socket: SocketId, token: u32) {
        match self.serve(scene, socket, token) {
            Ok(false) => {}
            Ok(true) => self.let_go(scene, socket, token),
            Err(why) => {
                scene.fail(why);
                // One that is over is let go in any case.
                let _ = scene.host.abort(socket);
                self.let_go(scene, socket, token);
            }
        }
    }
}

impl Application for Server {
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
                let token = self.visits.insert(Visit::default());
                scene.own(socket, token);
                self.attend(scene, socket, token);
            }
            Event::Readable(socket) | Event::Writable(socket) => self.attend(scene, socket, token),
            Event::Closed { socket, why } => {
                if why != CloseReason::Finished {
                    scene.fail(AppError::Closed(why));
                }
                self.let_go(scene, socket, token);
            }
            Event::Connected(_) | Event::Pong { .. } | Event::PingFailed { .. } => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_however_the_stream_is_cut() {
        let (mut stream, mut request) = (Vec::new(), Vec::new());
        for (size, length) in [(1_000, 16), (0, 400), (u64::MAX, 17), (5, 20)] {
            write_request(&mut request, Bytes::new(size), length);
            assert_eq!(request.len(), length);
            stream.extend(&request);
        }
        for cut in [1, 15, 16, 17, 1000] {
            let mut visit = Visit::default();
            let mut owed = Vec::new();
            for part in stream.chunks(cut) {
                visit.read(part).expect("requests");
                owed.push(visit.owed);
            }
            assert_eq!((visit.owed, visit.known), (u64::MAX, 0), "saturated");
            assert!(owed.is_sorted());
        }
        assert!(Visit::default().read(&[0; 16]).is_err());
    }
}
