//! [`Flows`]: many streams of one host at once, without end, and the host that takes them in.

use std::net::SocketAddr;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{Event, Host, Recv, TcpConfig, Tracer};

use crate::app::{App, AppError, Program};

/// Bytes moved between program and host in one call.
const CHUNK: usize = 1 << 16;

/// Either end of a number of streams. Neither is ever done: the simulation ends when it has been watched for long enough.
#[derive(Debug)]
pub struct Flows {
    role: Role,
    config: TcpConfig,
    buffer: Box<[u8]>,
    failure: Option<AppError>,
}

#[derive(Debug)]
enum Role {
    Source { remote: SocketAddr, count: usize, opened: usize, first: Option<SocketId> },
    Sink { port: u16, received: u64 },
}

impl Flows {
    /// `count` connections to `remote` that always have something to send.
    pub fn source(remote: impl Into<SocketAddr>, count: usize, config: TcpConfig) -> Self {
        Self::new(Role::Source { remote: remote.into(), count, opened: 0, first: None }, config)
    }

    /// Takes whatever comes on `port`.
    pub fn sink(port: u16, config: TcpConfig) -> Self {
        Self::new(Role::Sink { port, received: 0 }, config)
    }

    fn new(role: Role, config: TcpConfig) -> Self {
        Self { role, config, buffer: vec![0; CHUNK].into(), failure: None }
    }

    /// Bytes read so far; nothing at the source.
    pub fn received(&self) -> u64 {
        if let Role::Sink { received, .. } = self.role { received } else { 0 }
    }

    /// Connections that were opened; nothing at the sink.
    pub fn opened(&self) -> usize {
        if let Role::Source { opened, .. } = self.role { opened } else { 0 }
    }

    /// The first of its connections; none at the sink.
    pub fn first(&self) -> Option<SocketId> {
        if let Role::Source { first, .. } = self.role { first } else { None }
    }

    fn begin<Q, D, T, L>(&mut self, host: &mut Host<Q, D, T, L>, now: Instant) -> Result<(), AppError>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        match &mut self.role {
            Role::Source { remote, count, first, .. } => {
                for _ in 0..*count {
                    let socket = host.connect(*remote, self.config.clone(), now)?;
                    first.get_or_insert(socket);
                }
            }
            Role::Sink { port, .. } => {
                host.listen(*port, self.config.clone())?;
            }
        }
        Ok(())
    }

    fn react<Q, D, T, L>(&mut self, host: &mut Host<Q, D, T, L>, event: Event) -> Result<(), AppError>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        match event {
            Event::Connected(socket) => {
                if let Role::Source { opened, .. } = &mut self.role {
                    *opened += 1;
                }
                self.fill(host, socket)
            }
            Event::Writable(socket) => self.fill(host, socket),
            Event::Accepted { socket, .. } | Event::Readable(socket) => self.drain(host, socket),
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            Event::Pong { .. } | Event::PingFailed { .. } => Ok(()),
        }
    }

    fn fill<Q, D, T, L>(&self, host: &mut Host<Q, D, T, L>, socket: SocketId) -> Result<(), AppError>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        while host.send(socket, &self.buffer)? > 0 {}
        Ok(())
    }

    fn drain<Q, D, T, L>(&mut self, host: &mut Host<Q, D, T, L>, socket: SocketId) -> Result<(), AppError>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        while let Recv::Data(count) = host.recv(socket, &mut self.buffer)? {
            if let Role::Sink { received, .. } = &mut self.role {
                *received += count as u64;
            }
        }
        Ok(())
    }
}

impl<Q, D, T, L> App<Host<Q, D, T, L>> for Flows
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    fn start(&mut self, host: &mut Host<Q, D, T, L>, now: Instant) {
        self.failure = self.begin(host, now).err();
    }

    fn on_event(&mut self, host: &mut Host<Q, D, T, L>, event: Event, _now: Instant) {
        if let Err(error) = self.react(host, event) {
            self.failure = Some(error);
        }
    }
}

impl Program for Flows {
    fn is_done(&self) -> bool {
        false
    }

    fn failure(&self) -> Option<&AppError> {
        self.failure.as_ref()
    }
}
