//! [`RequestsConfig`] and [`ResponderConfig`]: request and reply over UDP, like a DNS lookup, or
//! the UDP ping of RRUL.

use std::net::SocketAddr;
use std::time::Duration;

use tautline_base::{Bytes, Instant, SocketId};
use tautline_stack::udp::Datagram;
use tautline_stack::{Event, UdpConfig};

use super::datagrams::note;
use super::outstanding::{Outstanding, next_due};
use super::service::{DatagramService, anywhere};
use super::traffic::{read_stamp, stamp};
use super::{AppError, Application, Applications, Context, Flow, Sample, Traffic, When};
use crate::config_error::ConfigError;
use crate::link::earliest;

/// Maximum payload of a datagram.
const MAX_PAYLOAD: usize = 65_507;

/// Requests to a [responder](ResponderConfig).
#[derive(Clone, Debug)]
pub struct RequestsConfig {
    /// Name of the flow.
    pub flow: Flow,
    /// The responder.
    pub remote: SocketAddr,
    /// When it sends. Default from the beginning, forever.
    pub when: When,
    /// Times of requests. Default every 200 ms.
    pub pace: Pace,
    /// Number of requests. Default unlimited.
    pub count: Option<u64>,
    /// Payload of a request, from 16 bytes. Default 32.
    pub size: Bytes,
    /// Timeout of a reply, above 0. Default 10 s.
    pub timeout: Duration,
    /// Configuration of the socket. Default: the stack's.
    pub udp: UdpConfig,
}

/// Times of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At this interval, above 0.
    Every(Duration),
    /// As soon as the previous one has its reply or has timed out (netperf's `UDP_RR`).
    AfterReply,
}

impl RequestsConfig {
    /// Requests to `remote`.
    pub fn new(flow: impl Into<Flow>, remote: SocketAddr) -> Self {
        Self {
            flow: flow.into(),
            remote,
            when: When::default(),
            pace: Pace::Every(Duration::from_millis(200)),
            count: None,
            size: Bytes::new(32),
            timeout: Duration::from_secs(10),
            udp: UdpConfig::default(),
        }
    }
}

/// Replies to requests.
#[derive(Clone, Debug)]
pub struct ResponderConfig {
    /// Name of the flow.
    pub flow: Flow,
    /// The UDP port.
    pub port: u16,
    /// When the port is open. Default always.
    pub when: When,
    /// Payload of a reply, from 16 bytes. Default as long as its request.
    pub reply: Option<Bytes>,
    /// Configuration of the socket. Default: the stack's.
    pub udp: UdpConfig,
}

impl ResponderConfig {
    /// A responder on `port`.
    pub fn new(flow: impl Into<Flow>, port: u16) -> Self {
        Self {
            flow: flow.into(),
            port,
            when: When::default(),
            reply: None,
            udp: UdpConfig::default(),
        }
    }
}

fn check_size(parameter: &'static str, size: Bytes) -> Result<(), ConfigError> {
    let fits = (Traffic::LEAST..=Bytes::new(MAX_PAYLOAD as u64)).contains(&size);
    ConfigError::check(fits, parameter, size, "from 16 to 65507 bytes")
}

impl Applications<'_> {
    /// Adds a sender of requests.
    ///
    /// # Errors
    /// If a time is zero or a request too short or too long.
    pub fn requests(&mut self, config: RequestsConfig) -> Result<&mut Self, ConfigError> {
        check_size("size", config.size)?;
        ConfigError::check(
            config.pace != Pace::Every(Duration::ZERO),
            "pace",
            "0",
            "above 0",
        )?;
        ConfigError::check(!config.timeout.is_zero(), "timeout", "0", "above 0")?;
        let (flow, when) = (config.flow.clone(), config.when);
        let payload = vec![0; config.size.as_usize()].into();
        let waiting = Outstanding::new(config.timeout);
        self.add(
            flow,
            when,
            Client {
                config,
                payload,
                socket: None,
                next_at: None,
                sent: 0,
                waiting,
            },
        )
    }

    /// Adds a responder.
    ///
    /// # Errors
    /// If a reply is too short or too long.
    pub fn responder(&mut self, config: ResponderConfig) -> Result<&mut Self, ConfigError> {
        config
            .reply
            .map_or(Ok(()), |reply| check_size("reply", reply))?;
        let ResponderConfig {
            flow,
            port,
            when,
            reply,
            udp,
        } = config;
        let answer = move |cx: &mut Context<'_>, socket, Datagram { len, from, .. }| {
            cx.measured.note_received(len, cx.now);
            let reply = reply.map_or(len, Bytes::as_usize);
            if reply > len {
                cx.buffer[len..reply].fill(0);
            }
            let outcome = cx.host.send_to(socket, &cx.buffer[..reply], Some(from));
            // An unreachable client does not affect the others.
            if let Err(why) = note(cx, outcome, reply) {
                cx.fail(why);
            }
        };
        self.add(flow, when, DatagramService::new(port, udp, answer))
    }
}

struct Client {
    config: RequestsConfig,
    payload: Box<[u8]>,
    socket: Option<SocketId>,
    /// Time of the next request; `None` while waiting for a reply, and after the last.
    next_at: Option<Instant>,
    sent: u64,
    waiting: Outstanding,
}

impl Client {
    fn is_over(&self) -> bool {
        self.config.count.is_some_and(|count| self.sent >= count)
    }

    fn ask(&mut self, cx: &mut Context<'_>, due: Instant) -> Result<(), AppError> {
        let Some(socket) = self.socket else {
            return Ok(());
        };
        stamp(&mut self.payload, cx.now, self.waiting.next());
        self.waiting.push(cx.now);
        self.sent += 1;
        self.next_at = match self.config.pace {
            _ if self.is_over() => None,
            Pace::Every(interval) => Some(next_due(due, interval, cx.now)),
            Pace::AfterReply => None,
        };
        let outcome = cx
            .host
            .send_to(socket, &self.payload, Some(self.config.remote));
        note(cx, outcome, self.payload.len())
    }

    /// Continues after a reply or timeout.
    fn proceed(&mut self, cx: &mut Context<'_>) {
        if self.config.pace == Pace::AfterReply && !self.is_over() {
            self.next_at = Some(cx.now);
        }
        if self.is_over()
            && self.waiting.is_empty()
            && let Some(socket) = self.socket.take()
        {
            cx.close(socket);
        }
    }
}

impl Application for Client {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.socket = Some(cx.bind(anywhere(0), self.config.udp, 0)?);
        if !self.is_over() {
            self.next_at = Some(cx.now);
        }
        Ok(())
    }

    fn stop(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.next_at = None;
        self.config.count = Some(self.sent);
        self.proceed(cx);
        Ok(())
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        let Event::Readable(socket) = event else {
            return Ok(());
        };
        while let Some(Datagram { len, from, .. }) = cx.recv_from(socket)? {
            let number = read_stamp(&cx.buffer[..len]).filter(|_| from == self.config.remote);
            if let Some(at) = number.and_then(|(_, number)| self.waiting.take(number)) {
                cx.measured.note_received(len, cx.now);
                cx.measured.round_trips.push(Sample {
                    at,
                    took: cx.now - at,
                });
                self.proceed(cx);
                if self.socket.is_none() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let lost = self.waiting.expire(cx.now);
        if lost > 0 {
            cx.measured.lost += lost;
            self.proceed(cx);
        }
        match self.next_at {
            Some(due) if due <= cx.now => self.ask(cx, due),
            _ => Ok(()),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        earliest(self.next_at, self.waiting.expires_at())
    }

    fn is_done(&self) -> bool {
        self.is_over() && self.waiting.is_empty()
    }
}
