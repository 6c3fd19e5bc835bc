//! [`WebConfig`]: fetches a page repeatedly, as a browser does, and measures the time of each fetch
//! (paper 003 §5.4).
//!
//! A fetch may begin with a name lookup. One connection requests the page itself; then persistent
//! connections request the other objects, one after the other. For the format of requests and
//! responses see [`WebServerConfig`].

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
use super::{AppError, Application, Applications, Context, Sample};
use crate::config_error::ConfigError;

#[cfg(doc)]
use super::WebServerConfig;
pub use config::WebConfig;
pub use page::Page;

/// Token of the lookup socket. The token of a connection is its index.
const LOOKUP: u32 = u32::MAX;
/// Retransmission timeout of a lookup (resolv.conf(5): `timeout`).
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Payload of a lookup.
const LOOKUP_SIZE: usize = 32;

impl Applications<'_> {
    /// Adds a web client.
    ///
    /// # Errors
    /// If the page is empty or a parameter out of range.
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
    /// Number of fetches so far, failed ones included.
    fetched: u64,
    connections: Vec<Connection>,
    look_up: Option<SocketId>,
}

enum Stage {
    /// Between fetches; `None` after the last.
    Idle {
        next_at: Option<Instant>,
    },
    /// A lookup is in progress.
    Asking {
        began: Instant,
        retry_at: Instant,
    },
    Fetching(Fetch),
}

struct Fetch {
    began: Instant,
    /// Objects not requested yet. The first is the page itself.
    wanted: VecDeque<Bytes>,
    /// Number of objects that are not complete.
    missing: usize,
    /// The page itself is complete.
    opened: bool,
}

struct Connection {
    socket: SocketId,
    connected: bool,
    request: Vec<u8>,
    /// Bytes of the request that were sent.
    written: usize,
    /// Bytes of the requested object that are missing.
    left: Option<u64>,
}

impl Connection {
    /// Requests an object.
    fn ask(&mut self, size: Bytes, request: usize) {
        write_request(&mut self.request, size, request);
        (self.written, self.left) = (0, Some(size.get()));
    }

    /// Sends as much of the request as the host accepts.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        while self.connected && self.written < self.request.len() {
            let taken = cx.send(self.socket, &self.request[self.written..])?;
            if taken == 0 {
                break;
            }
            self.written += taken;
        }
        Ok(())
    }
}

impl Client {
    /// Begins a fetch.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let began = cx.now;
        if self.config.look_up.is_none() {
            return self.open_page(cx, began);
        }
        self.look_up = Some(cx.bind(anywhere(0), UdpConfig::default(), LOOKUP)?);
        self.stage = Stage::Asking {
            began,
            retry_at: began,
        };
        self.ask_name(cx)
    }

    fn ask_name(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let (Some(socket), Some(server)) = (self.look_up, self.config.look_up) else {
            return Ok(());
        };
        if let Stage::Asking { retry_at, .. } = &mut self.stage {
            *retry_at = cx.now + LOOKUP_TIMEOUT;
        }
        let mut question = [0; LOOKUP_SIZE];
        stamp(&mut question, cx.now, self.fetched);
        let outcome = cx.host.send_to(socket, &question, Some(server));
        note(cx, outcome, LOOKUP_SIZE)
    }

    /// Requests the page itself on one connection.
    fn open_page(&mut self, cx: &mut Context<'_>, began: Instant) -> Result<(), AppError> {
        let wanted: VecDeque<Bytes> = self.config.page.objects.iter().copied().collect();
        let missing = wanted.len();
        self.stage = Stage::Fetching(Fetch {
            began,
            wanted,
            missing,
            opened: false,
        });
        self.connect(cx)
    }

    /// Opens another connection, with its first request.
    fn connect(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let token = self.connections.len() as u32;
        let socket = cx.connect(self.config.remote, Arc::clone(&self.config.tcp), token)?;
        let connection = Connection {
            socket,
            connected: false,
            request: Vec::new(),
            written: 0,
            left: None,
        };
        self.connections.push(connection);
        self.ask_next(cx, token)
    }

    /// Requests the next object on an idle connection.
    fn ask_next(&mut self, cx: &mut Context<'_>, token: u32) -> Result<(), AppError> {
        let Stage::Fetching(fetch) = &mut self.stage else {
            return Ok(());
        };
        let Some(connection) = self.connections.get_mut(token as usize) else {
            return Ok(());
        };
        if let Some(size) = fetch.wanted.pop_front() {
            connection.ask(size, self.config.request.as_usize());
            connection.write(cx)?;
        }
        Ok(())
    }

    /// Reads objects.
    fn read(&mut self, cx: &mut Context<'_>, token: u32) -> Result<(), AppError> {
        loop {
            let Some(connection) = self.connections.get_mut(token as usize) else {
                return Ok(());
            };
            let count = match cx.recv(connection.socket)? {
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
                self.object_done(cx, token)?;
            }
        }
    }

    fn object_done(&mut self, cx: &mut Context<'_>, token: u32) -> Result<(), AppError> {
        let Stage::Fetching(fetch) = &mut self.stage else {
            return Ok(());
        };
        fetch.missing -= 1;
        if fetch.missing == 0 {
            let began = fetch.began;
            cx.measured.completions.push(Sample {
                at: began,
                took: cx.now - began,
            });
            self.end(cx);
            return Ok(());
        }
        let first = !std::mem::replace(&mut fetch.opened, true);
        self.ask_next(cx, token)?;
        if first {
            while self.connections.len() < self.config.connections && self.wants_more() {
                self.connect(cx)?;
            }
        }
        Ok(())
    }

    fn wants_more(&self) -> bool {
        matches!(&self.stage, Stage::Fetching(fetch) if !fetch.wanted.is_empty())
    }

    /// Ends the fetch and closes all sockets.
    fn end(&mut self, cx: &mut Context<'_>) {
        for Connection { socket, .. } in self.connections.drain(..) {
            cx.close(socket);
        }
        if let Some(socket) = self.look_up.take() {
            cx.close(socket);
        }
        self.fetched += 1;
        let more = self.config.count.is_none_or(|count| self.fetched < count);
        self.stage = Stage::Idle {
            next_at: more.then_some(cx.now + self.config.pause),
        };
    }

    /// Ends a fetch that failed.
    fn give_up(&mut self, cx: &mut Context<'_>, why: Option<AppError>) {
        cx.measured.lost += 1;
        if let Some(why) = why {
            cx.fail(why);
        }
        self.abort(cx);
    }

    /// Ends a fetch by resetting its connections.
    fn abort(&mut self, cx: &mut Context<'_>) {
        for Connection { socket, .. } in &self.connections {
            // A connection that has ended is closed by `end`.
            let _ = cx.host.abort(*socket);
        }
        self.end(cx);
    }

    fn receive_name(&mut self, cx: &mut Context<'_>, socket: SocketId) -> Result<(), AppError> {
        while let Stage::Asking { began, .. } = self.stage {
            match cx.host.recv_from(socket, cx.buffer)? {
                UdpRecv::Datagram(Datagram { len, from, .. }) => {
                    let number = read_stamp(&cx.buffer[..len]).map(|(_, number)| number);
                    if Some(from) == self.config.look_up && number == Some(self.fetched) {
                        cx.close(socket);
                        self.look_up = None;
                        return self.open_page(cx, began);
                    }
                }
                UdpRecv::Empty => return Ok(()),
                UdpRecv::Failed(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    fn react(&mut self, cx: &mut Context<'_>, event: Event, token: u32) -> Result<(), AppError> {
        match event {
            Event::Readable(socket) if token == LOOKUP => self.receive_name(cx, socket),
            Event::Connected(_) => {
                cx.measured.connections += 1;
                let Some(connection) = self.connections.get_mut(token as usize) else {
                    return Ok(());
                };
                connection.connected = true;
                connection.write(cx)
            }
            Event::Writable(_) => self
                .connections
                .get_mut(token as usize)
                .map_or(Ok(()), |connection| connection.write(cx)),
            Event::Readable(_) => self.read(cx, token),
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            _ => Ok(()),
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
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if self.config.count != Some(0) {
            self.stage = Stage::Idle {
                next_at: Some(cx.now),
            };
        }
        Ok(())
    }

    fn stop(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let in_progress = !matches!(self.stage, Stage::Idle { .. });
        self.config.count = Some(self.fetched);
        self.stage = Stage::Idle { next_at: None };
        if in_progress {
            self.abort(cx);
            self.config.count = Some(self.fetched);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: Event, token: u32) -> Result<(), AppError> {
        if let Err(why) = self.react(cx, event, token) {
            self.give_up(cx, Some(why));
        }
        Ok(())
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if self.expires_at() <= cx.now {
            self.give_up(cx, None);
            return Ok(());
        }
        let outcome = match self.stage {
            Stage::Idle { next_at: Some(at) } if at <= cx.now => self.begin(cx),
            Stage::Asking { retry_at, .. } if retry_at <= cx.now => self.ask_name(cx),
            _ => return Ok(()),
        };
        if let Err(why) = outcome {
            self.give_up(cx, Some(why));
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Idle { next_at } => *next_at,
            Stage::Asking { retry_at, .. } => Some(self.expires_at().min(*retry_at)),
            Stage::Fetching(_) => Some(self.expires_at()),
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Idle { next_at: None })
            && self.config.count.is_some_and(|count| self.fetched >= count)
    }
}
