//! [`Netstack`]: a running stack.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tautline_rt::{StackHandle, TcpListener, TcpStream, UdpSocket};
use tautline_stack::{ListenAt, TcpConfig};
use tokio::time::{Instant, sleep, timeout};

use crate::device::Device;
use crate::driver::Driver;
use crate::start::{Hold, Start};
use crate::{Builder, Report, TcpIncoming, UdpIncoming};

/// A stack that runs until it is dropped, or its device has [ended](Self::ended); then its connections
/// fail, and their peers get resets, as far as the device takes them within a tenth of a second.
/// [`shutdown`](Self::shutdown) ends it in order, and waits until the device is closed.
#[derive(Debug)]
pub struct Netstack {
    handle: StackHandle,
    driver: Driver,
    start: Arc<Start>,
}

impl Netstack {
    /// Settings for a stack on `device`.
    pub fn builder<D: Device>(device: D) -> Builder<D> {
        Builder::new(device)
    }

    pub(crate) fn new(handle: StackHandle, driver: Driver, start: Arc<Start>) -> Self {
        Self {
            handle,
            driver,
            start,
        }
    }

    /// A stack begins to receive with its first socket. An application that opens several holds it until
    /// the last is open, and drops the result then: else what arrives for the others meanwhile is
    /// refused. Without effect on a stack that has begun, or has a
    /// [thread](crate::device::Tun::with_thread).
    pub fn hold(&self) -> Hold {
        self.start.hold()
    }

    /// The SYNs to every address and port that no other listener has. One at a time.
    ///
    /// # Errors
    /// There is one, or the stack has ended.
    pub async fn tcp_incoming(&self) -> io::Result<TcpIncoming> {
        self.tcp_incoming_with(self.handle.config().tcp.clone())
            .await
    }

    /// Like [`tcp_incoming`](Self::tcp_incoming), with parameters for its connections.
    pub(crate) async fn tcp_incoming_with(&self, tcp: TcpConfig) -> io::Result<TcpIncoming> {
        let tcp = TcpConfig {
            deferred_accept: true,
            ..tcp
        };
        let at = ListenAt::every_port(Ipv6Addr::UNSPECIFIED);
        let listener = TcpListener::bind_with(&self.handle, at, tcp).await?;
        Ok(TcpIncoming::new(listener))
    }

    /// The datagrams to every address and port that no other socket has. One at a time.
    ///
    /// # Errors
    /// There is one, or the stack has ended.
    pub async fn udp_incoming(&self) -> io::Result<UdpIncoming> {
        let udp = self.handle.config().udp;
        let socket = UdpSocket::bind_everywhere(&self.handle, udp).await?;
        Ok(UdpIncoming::new(socket))
    }

    /// Connects to `remote` through the device. The stack needs an [address](Builder::address) of its
    /// family.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub async fn connect(&self, remote: impl Into<SocketAddr>) -> io::Result<TcpStream> {
        TcpStream::connect(&self.handle, remote).await
    }

    /// Connects to `remote` from `local`, any address that the stack has or owns; port 0 stands for
    /// any free port.
    ///
    /// # Errors
    /// As [`TcpStream::connect_from`].
    pub async fn connect_from(
        &self,
        local: impl Into<SocketAddr>,
        remote: impl Into<SocketAddr>,
    ) -> io::Result<TcpStream> {
        let (local, tcp) = (local.into(), self.handle.config().tcp.clone());
        TcpStream::connect_from(&self.handle, Some(local), remote, tcp).await
    }

    /// Listens on a port, named alone or with one of the stack's addresses: `80`,
    /// `([10, 0, 0, 2], 80)`.
    ///
    /// # Errors
    /// As [`TcpListener::bind`].
    pub async fn listen(&self, at: impl Into<ListenAt>) -> io::Result<TcpListener> {
        TcpListener::bind(&self.handle, at).await
    }

    /// A socket for datagrams to `local`: `0.0.0.0` stands for all IPv4 addresses of the stack, `::` for
    /// all of both families, port 0 for any free port.
    ///
    /// # Errors
    /// As [`UdpSocket::bind`].
    pub async fn bind_udp(&self, local: impl Into<SocketAddr>) -> io::Result<UdpSocket> {
        UdpSocket::bind(&self.handle, local).await
    }

    /// Waits until the device has ended: its interface was removed, or it has nothing more to read. Every
    /// other call then fails with [`ConnectionAborted`](io::ErrorKind::ConnectionAborted), and a stack for
    /// another device is built. Cancel safe.
    ///
    /// ```no_run
    /// # async fn serve(stack: tautline_netstack::Netstack) -> std::io::Result<()> {
    /// let incoming = stack.tcp_incoming().await?;
    /// loop {
    ///     let request = tokio::select! {
    ///         ended = stack.ended() => return ended, // the interface is gone
    ///         request = incoming.next() => request?,
    ///     };
    ///     tokio::spawn(request.accept());
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// That of the [`PacketIo`](crate::device::PacketIo) which has ended the stack; of an interface that was
    /// not removed, why nothing more can be read from it, with the remedy. Also if the stack has panicked, or
    /// its runtime was shut down.
    pub async fn ended(&self) -> io::Result<()> {
        self.handle.ended().await;
        self.driver.outcome()
    }

    /// Ends the stack in order: what streams that were closed or dropped have left to deliver has `limit`
    /// to be acknowledged. Connections that the application still holds are reset then, and so are those that
    /// the time does not suffice for. Returns once the device is closed, a tenth of a second after the limit
    /// at most. An application drops its [`TcpIncoming`], or its listeners, before; it needs the timers of
    /// tokio. Cancel safe: the stack then ends at once, as when it is dropped.
    pub async fn shutdown(mut self, limit: Duration) {
        const CHECK: Duration = Duration::from_millis(5);
        let begun = Instant::now();
        let delivered = async {
            while self.handle.is_delivering().await.unwrap_or(false) {
                sleep(CHECK).await;
            }
        };
        // The limit has passed: the rest is reset.
        let _ = timeout(limit, delivered).await;
        self.driver
            .stop(limit.saturating_sub(begun.elapsed()))
            .await;
    }

    /// The handle for sockets with settings of their own, for replacing the qdisc, and for its
    /// [counters](StackHandle::qdisc_report).
    pub fn handle(&self) -> &StackHandle {
        &self.handle
    }

    /// Counters, connections and memory.
    ///
    /// # Errors
    /// If the stack has ended.
    pub async fn report(&self) -> io::Result<Report> {
        let (counters, sockets, memory) = self.handle.stats().await?;
        Ok(Report {
            counters,
            sockets,
            memory,
        })
    }
}
