//! [`Application`], the trait of everything that runs on a host, and [`Context`], the calls open to
//! it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Instant, SocketId};
use tautline_stack::udp::Datagram;
use tautline_stack::{Event, Recv, SocketError, TcpConfig, UdpConfig, UdpRecv};

use super::owners::Owners;
use super::{AppError, Measured, SocketApi};

/// When an application is active, counted from the start of its host's applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// Default 0.
    pub start: Duration,
    /// No new work begins from here on. Default never.
    pub stop: Option<Duration>,
}

/// An application on a host. An error ends it: its sockets are closed, it is not called again.
pub trait Application {
    /// Called once, at [`When::start`].
    ///
    /// # Errors
    /// Any error ends the application.
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError>;

    /// Called once, at [`When::stop`] but after `start`. Work in progress may be completed.
    ///
    /// # Errors
    /// Any error ends the application.
    fn stop(&mut self, _cx: &mut Context<'_>) -> Result<(), AppError> {
        Ok(())
    }

    /// Called for an event on one of this application's sockets (identified by `token`) or on a
    /// ping (`token` = 0).
    ///
    /// # Errors
    /// Any error ends the application.
    fn on_event(
        &mut self,
        _cx: &mut Context<'_>,
        _event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        Ok(())
    }

    /// Called when [`deadline`](Self::deadline) has passed.
    ///
    /// # Errors
    /// Any error ends the application.
    fn on_deadline(&mut self, _cx: &mut Context<'_>) -> Result<(), AppError> {
        Ok(())
    }

    /// When to call [`on_deadline`](Self::on_deadline), if at all.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// True if a simulation need not continue for this application: its work is complete, or it
    /// only serves others.
    fn is_done(&self) -> bool;

    /// Open connections whose statistics are worth sampling.
    fn connections(&self) -> &[SocketId] {
        &[]
    }
}

/// The calls open to an [`Application`]. It receives the events of every socket that it opens here.
pub struct Context<'a> {
    /// The current time.
    pub now: Instant,
    /// The host. Open and close sockets with the methods of the context instead.
    pub host: &'a mut dyn SocketApi,
    /// The measurements of this application's flow.
    pub measured: &'a mut Measured,
    /// Scratch space for received data, 64 KiB.
    pub buffer: &'a mut [u8],
    pub(super) owners: &'a mut Owners,
    pub(super) number: usize,
}

impl Context<'_> {
    /// Opens a connection, identified by `token`.
    ///
    /// # Errors
    /// As [`Host::connect`](tautline_stack::Host::connect).
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        config: Arc<TcpConfig>,
        token: u32,
    ) -> Result<SocketId, AppError> {
        let socket = self.host.connect(remote, config, self.now)?;
        self.own(socket, token);
        Ok(socket)
    }

    /// Listens on `port`, identified by `token`. Accepted connections must be [owned](Self::own).
    ///
    /// # Errors
    /// As [`Host::listen`](tautline_stack::Host::listen).
    pub fn listen(
        &mut self,
        port: u16,
        config: Arc<TcpConfig>,
        token: u32,
    ) -> Result<SocketId, AppError> {
        let socket = self.host.listen(port, config)?;
        self.own(socket, token);
        Ok(socket)
    }

    /// Opens a UDP socket, identified by `token`.
    ///
    /// # Errors
    /// As [`Host::udp_bind`](tautline_stack::Host::udp_bind).
    pub fn bind(
        &mut self,
        local: SocketAddr,
        config: UdpConfig,
        token: u32,
    ) -> Result<SocketId, AppError> {
        let socket = self.host.udp_bind(local, config)?;
        self.own(socket, token);
        Ok(socket)
    }

    /// Sends echo request number `sequence` with `data`. The reply is an event.
    ///
    /// # Errors
    /// As [`Host::ping_with_tos`](tautline_stack::Host::ping_with_tos).
    pub fn ping(
        &mut self,
        to: IpAddr,
        tos: u8,
        sequence: u16,
        data: &[u8],
    ) -> Result<(), AppError> {
        // Echo requests of different applications have different identifiers.
        let label = (self.number as u16, sequence);
        Ok(self.host.ping_with_tos(to, tos, label, data, self.now)?)
    }

    /// Writes to a connection and counts what the host accepts. Returns 0 for a connection that has
    /// ended: its [`Closed`](Event::Closed) event has the reason.
    ///
    /// # Errors
    /// As [`Host::send`](tautline_stack::Host::send).
    pub fn send(&mut self, socket: SocketId, data: &[u8]) -> Result<usize, AppError> {
        let accepted = self.host.send(socket, data);
        self.note_sent(accepted)
    }

    /// [`send`](Self::send) of `count` zeros.
    ///
    /// # Errors
    /// As [`TcpSocket::send_zeros`](tautline_stack::TcpSocket::send_zeros).
    pub fn send_zeros(&mut self, socket: SocketId, count: usize) -> Result<usize, AppError> {
        let accepted = self.host.send_zeros(socket, count);
        self.note_sent(accepted)
    }

    fn note_sent(&mut self, accepted: Result<usize, SocketError>) -> Result<usize, AppError> {
        match accepted {
            Ok(0) | Err(SocketError::Closed) => Ok(0),
            Ok(accepted) => {
                self.measured.note_sent(accepted);
                Ok(accepted)
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Reads from a connection into [`buffer`](Self::buffer) and counts it. Returns
    /// [`Recv::Empty`] for a connection that has ended: its [`Closed`](Event::Closed) event has the
    /// reason.
    ///
    /// # Errors
    /// As [`Host::recv`](tautline_stack::Host::recv).
    pub fn recv(&mut self, socket: SocketId) -> Result<Recv, AppError> {
        match self.host.recv(socket, self.buffer) {
            Ok(read) => {
                if let Recv::Data(count) = read {
                    self.measured.note_received(count, self.now);
                }
                Ok(read)
            }
            Err(SocketError::Closed) => Ok(Recv::Empty),
            Err(why) => Err(why.into()),
        }
    }

    /// Reads, counts and discards everything available. Returns [`Recv::Empty`] or
    /// [`Recv::EndOfStream`].
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_all(&mut self, socket: SocketId) -> Result<Recv, AppError> {
        loop {
            let read = self.recv(socket)?;
            if !matches!(read, Recv::Data(_)) {
                return Ok(read);
            }
        }
    }

    /// Reads the next datagram into [`buffer`](Self::buffer). Asynchronous errors of the socket are
    /// recorded as failures.
    ///
    /// # Errors
    /// As [`Host::recv_from`](tautline_stack::Host::recv_from).
    pub fn recv_from(&mut self, socket: SocketId) -> Result<Option<Datagram>, AppError> {
        loop {
            match self.host.recv_from(socket, self.buffer)? {
                UdpRecv::Datagram(datagram) => return Ok(Some(datagram)),
                UdpRecv::Empty => return Ok(None),
                UdpRecv::Failed(why) => self.fail(why),
            }
        }
    }

    /// Delivers the events of `socket` to this application, identified by `token`.
    pub fn own(&mut self, socket: SocketId, token: u32) {
        self.owners.insert(socket, (self.number, token));
    }

    /// Closes `socket`, and keeps the final state of a connection in [`Measured::last_info`] and its
    /// counts in [`Measured::closed`].
    pub fn close(&mut self, socket: SocketId) {
        if let Some(info) = self.host.info(socket) {
            self.measured.note_closed(info);
        }
        self.owners.remove(socket);
        self.host.close(socket, self.now);
    }

    /// Records a failure that does not end the application.
    pub fn fail(&mut self, why: impl Into<AppError>) {
        self.measured.note_failure(why.into(), self.now);
    }
}
