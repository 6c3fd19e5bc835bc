//! Socket options and queries of an open connection.
//!
//! An option is sent to the host's thread and takes effect when that runs next. The call does not
//! wait: setting an option fails only on a connection that is over, or for a value outside its range.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tautline_cc::{Algorithm, Factory};
use tautline_stack::{Keepalive, SocketError, SocketOption, TcpInfo};

use super::command::{Command, SocketRef};
use super::connection::Shared;
use super::oneshot::oneshot;
use super::{Failure, TcpStream};

impl SocketRef<Shared> {
    fn set(&self, option: SocketOption) -> io::Result<()> {
        if !option.is_valid() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                SocketError::Invalid,
            ));
        }
        let socket = self.id().ok_or(Failure::NotOpen)?;
        match option {
            SocketOption::Nodelay(nodelay) => self.settings.change(|own| own.nodelay = nodelay),
            SocketOption::Linger(linger) => self.settings.change(|own| own.linger = linger),
            SocketOption::Keepalive(times) => self.settings.change(|own| own.keepalive = times),
            _ => {}
        }
        self.command(Command::Set(socket, option));
        Ok(())
    }
}

impl TcpStream {
    /// Switches Nagle's algorithm off, or on again (`TCP_NODELAY`): small segments leave at once.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket().set(SocketOption::Nodelay(nodelay))
    }

    /// Whether Nagle's algorithm is off.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.socket().settings.values().nodelay)
    }

    /// Lets only full segments leave, until it is switched off again (`TCP_CORK`): a message written in
    /// parts fills them. What is left waits for 200 ms at most once nothing is in flight.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_cork(&self, cork: bool) -> io::Result<()> {
        self.socket().set(SocketOption::Cork(cork))
    }

    /// Sets how long dropping the stream delivers unacknowledged data (`SO_LINGER`). `None`: without
    /// limit, in the background. Zero: resets the connection at once and discards the data. Another
    /// time: resets the connection if the data is not acknowledged within it. Unlike the kernel's
    /// blocking sockets, dropping never waits.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.socket().set(SocketOption::Linger(linger))
    }

    /// Like [`set_linger`](Self::set_linger) with a time of zero.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// The value of `SO_LINGER`.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.socket().settings.values().linger)
    }

    /// Turns keepalive probes on or off (`SO_KEEPALIVE`, `TCP_KEEPIDLE`, `TCP_KEEPINTVL`,
    /// `TCP_KEEPCNT`).
    ///
    /// # Errors
    /// [`Failure::NotOpen`]; [`ErrorKind::InvalidInput`]: a time of zero, or no probes.
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        self.socket().set(SocketOption::Keepalive(keepalive))
    }

    /// The keepalive times, `None` if off.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
        Ok(self.socket().settings.values().keepalive)
    }

    /// Sets the time after which a connection without progress is closed (`TCP_USER_TIMEOUT`); with
    /// `None` its number of retries decides.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_user_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.socket().set(SocketOption::UserTimeout(limit))
    }

    /// Changes an option that has no setter of its own: buffers, segment size, pacing rate, TOS and
    /// whatever else [`SocketOption`] lists, in its units and ranges.
    ///
    /// # Errors
    /// [`Failure::NotOpen`]; [`ErrorKind::InvalidInput`]: a value outside its range.
    pub fn set_option(&self, option: SocketOption) -> io::Result<()> {
        self.socket().set(option)
    }

    /// Gives the connection another congestion controller, by its name: `cubic`, `bbr`, ...
    /// (`TCP_CONGESTION`). It starts with the window of its predecessor.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with the names that are known, or [`Failure::NotOpen`].
    pub fn set_congestion(&self, name: &str) -> io::Result<()> {
        let algorithm: Algorithm = name
            .parse()
            .map_err(|unknown| io::Error::new(ErrorKind::InvalidInput, unknown))?;
        self.set_congestion_with(algorithm.factory())
    }

    /// Gives the connection another congestion controller, possibly a custom one.
    ///
    /// # Errors
    /// [`Failure::NotOpen`].
    pub fn set_congestion_with(&self, congestion: Factory) -> io::Result<()> {
        self.socket().set(SocketOption::Congestion(congestion))
    }

    /// Returns the current state of the connection (`TCP_INFO`). Cancel safe.
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

    /// The local address.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().local_addr()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket().peer)
    }

    /// Why the connection failed, unless a call has returned it before (`SO_ERROR`).
    ///
    /// # Errors
    /// Never; the return type is tokio's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.socket().take_failure().map(Into::into))
    }
}
