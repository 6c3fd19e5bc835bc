//! [`WebConfig`]: fetches a page again and again, as a browser does, and measures how long each
//! time takes (paper 003, §5.4).
//!
//! A fetch: perhaps a name is looked up; one connection asks for the page itself; then connections
//! that stay open ask for the other objects, one after the other, until all are there. What a
//! request and its response look like is told at [`WebServerConfig`].

mod config;
mod page;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Bytes, Instant, SocketId};
use tautline_stack::udp::Datagram;
use tautline_stack::{Event, Recv, UdpConfig, UdpRecv};

use super::datagrams::note;
use super::framing::HEADER;
use super::service::anywhere;
use super::traffic::{END_OF_TIME, read_stamp, stamp};
use super::web_server::write_request;
use super::{AppError, Application, Programs, Sample, Scene};
use crate::config_error::ConfigError;

#[cfg(doc)]
use super::WebServerConfig;
pub use config::WebConfig;
pub use page::Page;

/// What the socket of look-ups is called; connections are called by their place.
const LOOK_UP: u32 = u32::MAX;
/// After which a look-up is asked again (Linux' resolver: `timeout`).
const LOOK_UP_AGAIN: Duration = Duration::from_secs(5);
/// Payload of a look-up.
const LOOK_UP_SIZE: usize = 32;

impl Programs {
    /// Also fetches pages.
    ///
    /// # Errors
    /// If the page is empty, or a number out of its range.
    pub fn web(&mut self, config: WebConfig) -> Result<&mut Self, ConfigError> {
        let page = !config.page.objects.is_empty() && !config.page.objects.contains(&Bytes::ZERO);
        ConfigError::check(
            page,
            "page",
            format!("{:?}", config.page.objects),
            "objects of at least 1 byte, at least one",
        )?;
        ConfigError::check(
            config.connections > 0,
            "connections",
            config.connections,
            "at least 1",
        )?;
        let fits = (HEADER as u64..=1 << 16).contains(&config.request.get());
        ConfigError::check(fits, "request", config.request, "from 16 to 65536 bytes")?;
        ConfigError::check(!config.timeout.is_zero(), "timeout", "0", "above 0")?;
        let (flow, when) = (config.flow.clone(), config.when);
        let client = Client {
            config,
            stage: Stage::Idle { next_at: None },
            fetched: 0,
            connections: Vec::new(),
            look_up: None,
        };
        self.add(flow, when, client)
    }
}

struct Client {
    config: WebConfig,
    stage: Stage,
    /// Fetches so far, lost ones included.
    fetched: u64,
    connections: Vec<Connection>,
    look_up: Option<SocketId>,
}

enum Stage {
    /// Between fetches; nothing follows if there is no time.
    Idle {
        next_at: Option<Instant>,
    },
    /// The name is looked up.
    Asking {
        began: Instant,
        again_at: Instant,
    },
    Fetching(Fetch),
}

struct Fetch {
    began: Instant,
    /// Objects that nobody was asked for yet. The first is the page itself.
    wanted: VecDeque<Bytes>,
    /// Objects that are not whole yet.
    missing: usize,
    /// The page itself is there.
    opened: bool,
}

struct Connection {
    socket: SocketId,
    connected: bool,
    request: Vec<u8>,
    /// Bytes of the request that are written.
    written: usize,
    /// Bytes of the object that are still to come, if it was asked for one.
    left: Option<u64>,
}

impl Connection {
    /// Asks for an object.
    fn ask(&mut self, size: Bytes, request: usize) {
        write_request(&mut self.request, size, request);
        (self.written, self.left) = (0, Some(size.get()));
    }

    /// Writes what the host takes of the request.
    fn write(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        while self.connected && self.written < self.request.len() {
            let taken = scene.send(self.socket, &self.request[self.written..])?;
            if taken == 0 {
                break;
            }
            self.written += taken;
        }
        Ok(())
    }
}

impl Client {
    /// The whole fetch begins.
    fn begin(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        let began = scene.now;
        if self.config.look_up.is_none() {
            return self.open_page(scene, began);
        }
        self.look_up = Some(scene.bind(anywhere(0), UdpConfig::default(), LOOK_UP)?);
        self.stage = Stage::Asking {
            began,
            again_at: began,
        };
        self.ask_name(scene)
    }

    fn ask_name(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        let (Some(socket), Some(whom)) = (self.look_up, self.config.look_up) else {
            return Ok(());
        };
        if let Stage::Asking { again_at, .. } = &mut self.stage {
            *again_at = scene.now + LOOK_UP_AGAIN;
        }
        let mut question = [0; LOOK_UP_SIZE];
        stamp(&mut question, scene.now, self.fetched);
        let outcome = scene.host.send_to(socket, &question, whom);
        note(scene, outcome, LOOK_UP_SIZE)
    }

    /// One connection asks for the page itself.
    fn open_page(&mut self, scene: &mut Scene<'_>, began: Instant) -> Result<(), AppError> {
        let wanted: VecDeque<Bytes> = self.config.page.objects.iter().copied().collect();
        let missing = wanted.len();
        self.stage = Stage::Fetching(Fetch {
            began,
            wanted,
            missing,
            opened: false,
        });
        self.connect(scene)
    }

    /// One connection more. It has its request before it is open.
    fn connect(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        let token = self.connections.len() as u32;
        let socket = scene.connect(self.config.remote, Arc::clone(&self.config.tcp), token)?;
        let connection = Connection {
            socket,
            connected: false,
            request: Vec::new(),
            written: 0,
            left: None,
        };
        self.connections.push(connection);
        self.ask_next(scene, token)
    }

    /// Asks for the next object on an idle connection.
    fn ask_next(&mut self, scene: &mut Scene<'_>, token: u32) -> Result<(), AppError> {
        let Stage::Fetching(fetch) = &mut self.stage else {
            return Ok(());
        };
        let Some(connection) = self.connections.get_mut(token as usize) else {
            return Ok(());
        };
        if let Some(size) = fetch.wanted.pop_front() {
            connection.ask(size, self.config.request.as_usize());
            connection.write(scene)?;
        }
        Ok(())
    }

    /// Reads what there is of objects.
    fn read(&mut self, scene: &mut Scene<'_>, token: u32) -> Result<(), AppError> {
        loop {
            let Some(connection) = self.connections.get_mut(token as usize) else {
                return Ok(());
            };
            let count = match scene.recv(connection.socket)? {
                Recv::Data(count) => count,
                Recv::EndOfStream if connection.left.is_some() => {
                    return Err(AppError::Protocol(
                        "the server closed before the object was whole",
                    ));
                }
                Recv::Empty | Recv::EndOfStream => return Ok(()),
            };
            let Some(left) = connection
                .left
                .and_then(|left| left.checked_sub(count as u64))
            else {
                return Err(AppError::Protocol("more came than was asked for"));
            };
            connection.left = Some(left);
            if left == 0 {
                connection.left = None;
                self.object_done(scene, token)?;
            }
        }
    }

    fn object_done(&mut self, scene: &mut Scene<'_>, token: u32) -> Result<(), AppError> {
        let Stage::Fetching(fetch) = &mut self.stage else {
            return Ok(());
        };
        fetch.missing -= 1;
        if fetch.missing == 0 {
            let began = fetch.began;
            scene.measured.completions.push(Sample {
                at: began,
                took: scene.now - began,
            });
            self.end(scene);
            return Ok(());
        }
        let first = !std::mem::replace(&mut fetch.opened, true);
        self.ask_next(scene, token)?;
        if first {
            while self.connections.len() < self.config.connections && self.wants_more() {
                self.connect(scene)?;
            }
        }
        Ok(())
    }

    fn wants_more(&self) -> bool {
        matches!(&self.stage, Stage::Fetching(fetch) if !fetch.wanted.is_empty())
    }

    /// The fetch is over, well or not: everything is closed.
    fn end(&mut self, scene: &mut Scene<'_>) {
        for Connection { socket, .. } in self.connections.drain(..) {
            scene.close(socket);
        }
        if let Some(socket) = self.look_up.take() {
            scene.close(socket);
        }
        self.fetched += 1;
        let more = self.config.count.is_none_or(|count| self.fetched < count);
        self.stage = Stage::Idle {
            next_at: more.then_some(scene.now + self.config.pause),
        };
    }

    /// One fetch fails; the next may not.
    fn give_up(&mut self, scene: &mut Scene<'_>, why: Option<AppError>) {
        scene.measured.lost += 1;
        if let Some(why) = why {
            scene.fail(why);
        }
        for Connection { socket, .. } in &self.connections {
            // One that is over is let go below.
            let _ = scene.host.abort(*socket);
        }
        self.end(scene);
    }

    fn hear_name(&mut self, scene: &mut Scene<'_>, socket: SocketId) -> Result<(), AppError> {
        while let Stage::Asking { began, .. } = self.stage {
            match scene.host.recv_from(socket, scene.buffer)? {
                UdpRecv::Datagram(Datagram { len, from, .. }) => {
                    let number = read_stamp(&scene.buffer[..len]).map(|(_, number)| number);
                    if Some(from) == self.config.look_up && number == Some(self.fetched) {
                        scene.close(socket);
                        self.look_up = None;
                        return self.open_page(scene, began);
                    }
                }
                UdpRecv::Empty => return Ok(()),
                UdpRecv::Failed(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    fn react(&mut self, scene: &mut Scene<'_>, event: Event, token: u32) -> Result<(), AppError> {
        match event {
            Event::Readable(socket) if token == LOOK_UP => self.hear_name(scene, socket),
            Event::Connected(_) => {
                scene.measured.connections += 1;
                let Some(connection) = self.connections.get_mut(token as usize) else {
                    return Ok(());
                };
                connection.connected = true;
                connection.write(scene)
            }
            Event::Writable(_) => self
                .connections
                .get_mut(token as usize)
                .map_or(Ok(()), |connection| connection.write(scene)),
            Event::Readable(_) => self.read(scene, token),
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            Event::Accepted { .. } | Event::Pong { .. } | Event::PingFailed { .. } => Ok(()),
        }
    }

    fn expires_at(&self) -> Instant {
        match &self.stage {
            Stage::Idle { .. } => END_OF_TIME,
            Stage::Asking { began, .. } | Stage::Fetching(Fetch { began, .. }) => {
                *began + self.config.timeout
            }
        }
    }
}

impl Application for Client {
    fn start(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        if self.config.count != Some(0) {
            self.stage = Stage::Idle {
                next_at: Some(scene.now),
            };
        }
        Ok(())
    }

    fn stop(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        let under_way = !matches!(self.stage, Stage::Idle { .. });
        self.config.count = Some(self.fetched);
        self.stage = Stage::Idle { next_at: None };
        if under_way {
            for Connection { socket, .. } in &self.connections {
                // One that is over is let go below.
                let _ = scene.host.abort(*socket);
            }
            self.end(scene);
            self.config.count = Some(self.fetched);
        }
        Ok(())
    }

    fn on_event(
        &mut self,
        scene: &mut Scene<'_>,
        event: Event,
        token: u32,
    ) -> Result<(), AppError> {
        if let Err(why) = self.react(scene, event, token) {
            self.give_up(scene, Some(why));
        }
        Ok(())
    }

    fn on_call(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        if self.expires_at() <= scene.now {
            self.give_up(scene, None);
            return Ok(());
        }
        let outcome = match self.stage {
            Stage::Idle { next_at: Some(at) } if at <= scene.now => self.begin(scene),
            Stage::Asking { again_at, .. } if again_at <= scene.now => self.ask_name(scene),
            _ => return Ok(()),
        };
        if let Err(why) = outcome {
            self.give_up(scene, Some(why));
        }
        Ok(())
    }

    fn call_at(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Idle { next_at } => *next_at,
            Stage::Asking { again_at, .. } => Some(self.expires_at().min(*again_at)),
            Stage::Fetching(_) => Some(self.expires_at()),
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Idle { next_at: None })
            && self.config.count.is_some_and(|count| self.fetched >= count)
    }
}
