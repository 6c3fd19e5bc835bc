//! What can be set on, and asked of, a connection that is open.
//!
//! A change travels to the host's thread and takes effect when that runs next. Nothing waits for
//! it: what it asks for cannot be refused, except by a connection that is over, which no change
//! concerns any more.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tautline_base::{Device, Packet, SocketId};
use tautline_bql::Limit;
use tautline_cc::{Algorithm, Factory};
use tautline_qdisc::Qdisc;
use tautline_stack::{Host, Keepalive, SocketError, SocketOption, TcpConfig, TcpInfo, Tracer};

use super::command::{Command, SocketRef};
use super::connection::Shared;
use super::oneshot::oneshot;
use super::{Failure, TcpStream};

/// A setting of an open connection, on its way to the host.
#[derive(Clone, Debug)]
pub(super) enum Setting {
    Nodelay(bool),
    Linger(Option<Duration>),
    Keepalive(Option<Keepalive>),
    UserTimeout(Option<Duration>),
    Congestion(Factory),
}

impl Setting {
    /// Sets it. Refused only by a connection that is over.
    pub(super) fn apply<Q, D, T, L>(
        self,
        socket: SocketId,
        host: &mut Host<Q, D, T, L>,
    ) -> Result<(), SocketError>
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        match self {
            Self::Nodelay(on) => host.set_option(socket, SocketOption::Nodelay(on)),
            Self::Linger(time) => host.set_option(socket, SocketOption::Linger(time)),
            Self::Keepalive(probes) => host.set_option(socket, SocketOption::Keepalive(probes)),
            Self::UserTimeout(limit) => host.set_option(socket, SocketOption::UserTimeout(limit)),
            Self::Congestion(factory) => host.set_option(socket, SocketOption::Congestion(factory)),
        }
    }
}

/// What the handles know of their connection's settings.
#[derive(Debug)]
pub(super) struct Settings(Mutex<Values>);

#[derive(Clone, Copy, Debug)]
struct Values {
    nodelay: bool,
    linger: Option<Duration>,
    keepalive: Option<Keepalive>,
}

impl Settings {
    pub(super) fn new(tcp: &TcpConfig) -> Self {
        Self(Mutex::new(Values {
            nodelay: !tcp.nagle,
            linger: tcp.linger,
            keepalive: tcp.keepalive,
        }))
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Letting go of the connection resets it.
    pub(super) fn resets(&self) -> bool {
        self.values().linger == Some(Duration::ZERO)
    }
}

impl SocketRef<Shared> {
    fn set(&self, setting: Setting) -> io::Result<()> {
        let socket = self.id().ok_or(Failure::NotOpen)?;
        self.command(Command::Set(socket, setting));
        Ok(())
    }
}

impl TcpStream {
    /// Switches Nagle's algorithm off, or on again (`TCP_NODELAY`): small segments leave at once.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        let socket = self.socket();
        socket.set(Setting::Nodelay(nodelay))?;
        socket.settings.values().nodelay = nodelay;
        Ok(())
    }

    /// Whether Nagle's algorithm is off.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.socket().settings.values().nodelay)
    }

    /// What dropping the stream does with data that the peer does not have yet (`SO_LINGER`).
    /// `None`: it is delivered in the background. Zero: the connection is reset at once and the
    /// data is gone. Any other time: the data has so long to arrive, then the connection is reset.
    /// Dropping never waits, unlike the kernel's blocking sockets.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        let socket = self.socket();
        socket.set(Setting::Linger(linger))?;
        socket.settings.values().linger = linger;
        Ok(())
    }

    /// As [`set_linger`](Self::set_linger) with a time of zero.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// What [`set_linger`](Self::set_linger) set last.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.socket().settings.values().linger)
    }

    /// From now on a quiet peer is asked whether it lives (`SO_KEEPALIVE` and its three times), or
    /// with `None` not.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        let socket = self.socket();
        socket.set(Setting::Keepalive(keepalive))?;
        socket.settings.values().keepalive = keepalive;
        Ok(())
    }

    /// What [`set_keepalive`](Self::set_keepalive) set last.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
        Ok(self.socket().settings.values().keepalive)
    }

    /// From now on a connection that makes no progress for so long is given up
    /// (`TCP_USER_TIMEOUT`); with `None` its retries decide.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_user_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.socket().set(Setting::UserTimeout(limit))
    }

    /// Gives the connection another congestion controller, by its name: `cubic`, `bbr`, ...
    /// (`TCP_CONGESTION`). It begins with the window of the one before.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with the names that are known, or [`Failure::NotOpen`].
    pub fn set_congestion(&self, name: &str) -> io::Result<()> {
        let algorithm: Algorithm = name
            .parse()
            .map_err(|unknown| io::Error::new(ErrorKind::InvalidInput, unknown))?;
        self.set_congestion_with(algorithm.factory())
    }

    /// Gives the connection another congestion controller, also one of your own.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_congestion_with(&self, congestion: Factory) -> io::Result<()> {
        self.socket().set(Setting::Congestion(congestion))
    }

    /// A look into the connection, as the host's thread sees it now (`TCP_INFO`). Dropping the
    /// future loses nothing.
    ///
    /// # Errors
    /// [`Failure::NotOpen`] once the host has freed the connection; [`Failure::HostGone`].
    pub async fn info(&self) -> io::Result<TcpInfo> {
        let socket = self.socket();
        let id = socket.id().ok_or(Failure::NotOpen)?;
        let (reply, receiver) = oneshot();
        socket.command(Command::TcpInfo(id, reply));
        Ok(receiver.received().await?)
    }

    /// Our end.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().local_addr()
    }

    /// The other end.
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket().peer)
    }

    /// Why the connection failed, if it did and no call has told yet (`SO_ERROR`).
    ///
    /// # Errors
    /// None; the result is tokio's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.socket().take_failure().map(Into::into))
    }
}
