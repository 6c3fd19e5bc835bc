//! [`Application`] and its [`Scene`]: what one application of several on a host is told, and what
//! it may do.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Instant, SocketId};
use tautline_stack::udp::Datagram;
use tautline_stack::{Event, Recv, SocketError, TcpConfig, UdpConfig, UdpRecv};

use super::owners::Owners;
use super::{AppError, HostCalls, Measured};

/// When an application is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// It begins so long after the host's applications do. Default at once.
    pub start: Duration,
    /// It ends so long after they began: what is due then is not done any more. Default never.
    pub stop: Option<Duration>,
}

/// One application of several on a host. An error that it returns ends it: its sockets are closed,
/// and nothing is called any more.
pub trait Application {
    /// Its time has come.
    fn start(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError>;

    /// Its time is over: it may still have something to bring to an end. Not called before
    /// [`start`](Self::start).
    fn stop(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError>;

    /// The host tells of a socket of its, which it calls `token`, or of a ping of its (then `token`
    /// is 0).
    fn on_event(&mut self, scene: &mut Scene<'_>, event: Event, token: u32)
    -> Result<(), AppError>;

    /// It is time for what [`call_at`](Self::call_at) announced.
    fn on_call(&mut self, _scene: &mut Scene<'_>) -> Result<(), AppError> {
        Ok(())
    }

    /// When it wants to be called without an event.
    fn call_at(&self) -> Option<Instant> {
        None
    }

    /// True when a simulation need not go on for its sake: it has done what it was for, or only
    /// serves others.
    fn is_done(&self) -> bool;

    /// The connections worth a look while they last.
    fn connections(&self) -> &[SocketId] {
        &[]
    }
}

/// What an application may do when it is called. What it opens here is its own: it hears of it, and
/// nobody else does.
pub struct Scene<'a> {
    /// The present.
    pub now: Instant,
    /// The host. Sockets are opened and closed with the methods of the scene.
    pub host: &'a mut dyn HostCalls,
    /// What it measures.
    pub measured: &'a mut Measured,
    /// Room for what is read, 64 KiB, shared by all.
    pub buffer: &'a mut [u8],
    pub(super) owners: &'a mut Owners,
    pub(super) number: usize,
}

impl Scene<'_> {
    /// Begins a connection, to be called `token`.
    ///
    /// # Errors
    /// What the host says.
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

    /// Listens on `port`; the listener is to be called `token`. Whom it accepts must be
    /// [owned](Self::own).
    ///
    /// # Errors
    /// What the host says.
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

    /// Opens a datagram socket, to be called `token`.
    ///
    /// # Errors
    /// What the host says.
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

    /// Sends echo request number `sequence` with `data`; the application hears of its reply.
    ///
    /// # Errors
    /// What the host says.
    pub fn ping(
        &mut self,
        to: IpAddr,
        tos: u8,
        sequence: u16,
        data: &[u8],
    ) -> Result<(), AppError> {
        // Echo requests of different applications have different identifiers.
        Ok(self
            .host
            .ping(to, tos, (self.number as u16, sequence), data, self.now)?)
    }

    /// Writes to a connection and measures what the host takes. Nothing is taken by one that is
    /// over: its [`Closed`](Event::Closed) event tells why.
    ///
    /// # Errors
    /// What the host says.
    pub fn send(&mut self, socket: SocketId, data: &[u8]) -> Result<usize, AppError> {
        let taken = self.host.send(socket, data);
        self.note_sent(taken)
    }

    /// The same with `count` zeros.
    ///
    /// # Errors
    /// What the host says.
    pub fn send_zeros(&mut self, socket: SocketId, count: usize) -> Result<usize, AppError> {
        let taken = self.host.send_zeros(socket, count);
        self.note_sent(taken)
    }

    fn note_sent(&mut self, taken: Result<usize, SocketError>) -> Result<usize, AppError> {
        match taken {
            Ok(0) | Err(SocketError::Closed) => Ok(0),
            Ok(taken) => {
                self.measured.note_sent(taken);
                Ok(taken)
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Reads from a connection into [`buffer`](Self::buffer), and measures it. There is nothing
    /// more in one that is over: its [`Closed`](Event::Closed) event tells why.
    ///
    /// # Errors
    /// What the host says.
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

    /// Reads and measures all there is. [`Recv::Empty`] or [`Recv::EndOfStream`] says what comes
    /// behind it.
    ///
    /// # Errors
    /// What the host says.
    pub fn recv_all(&mut self, socket: SocketId) -> Result<Recv, AppError> {
        loop {
            let read = self.recv(socket)?;
            if !matches!(read, Recv::Data(_)) {
                return Ok(read);
            }
        }
    }

    /// Takes the next datagram into [`buffer`](Self::buffer), if there is one. Failures that the
    /// socket tells of are noted.
    ///
    /// # Errors
    /// What the host says.
    pub fn recv_from(&mut self, socket: SocketId) -> Result<Option<Datagram>, AppError> {
        loop {
            match self.host.recv_from(socket, self.buffer)? {
                UdpRecv::Datagram(datagram) => return Ok(Some(datagram)),
                UdpRecv::Empty => return Ok(None),
                UdpRecv::Failed(why) => self.fail(why),
            }
        }
    }

    /// Events of `socket` are told to this application, as of `token`.
    pub fn own(&mut self, socket: SocketId, token: u32) {
        self.owners.insert(socket, (self.number, token));
    }

    /// Lets go of `socket`. What it was is kept in [`Measured::last_info`], if it was a connection.
    pub fn close(&mut self, socket: SocketId) {
        if let Some(info) = self.host.info(socket) {
            self.measured.last_info = Some(Box::new(info));
        }
        self.owners.remove(socket);
        self.host.close(socket, self.now);
    }

    /// Something failed and the application goes on.
    pub fn fail(&mut self, why: impl Into<AppError>) {
        self.measured.note_failure(why.into(), self.now);
    }
}
