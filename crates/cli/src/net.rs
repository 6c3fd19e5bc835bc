//! [`Net`]: sockets of the kernel's stack or of ours, behind one type of each kind.

mod sock_diag;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{SockRef, TcpKeepalive};
use tautline_base::{Bytes, SplitMix64};
use tautline_rt::{StackHandle, system_seed};
use tautline_stack::{Keepalive, SocketOption, TcpInfo};
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

use crate::accept::ACCEPT_AGAIN;
use crate::args::StackArgs;
use crate::failure::Failure;
use crate::sockets::{Sockets, with_sockets};

/// Longest message of a peer: the results of 256 streams are a tenth of it.
const MESSAGE: u32 = 1 << 20;
/// Longest wait for a message.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// Origin of sockets.
#[derive(Clone, Debug)]
pub enum Net {
    /// The kernel's stack.
    Kernel,
    /// Ours.
    Ours(StackHandle),
}

/// A connection. All methods take `&self`, so tasks may share it.
#[derive(Debug)]
pub enum TcpStream {
    /// The kernel's.
    Kernel(tokio::net::TcpStream),
    /// Ours.
    Ours(tautline_rt::TcpStream),
}

/// A listening socket.
pub enum TcpListener {
    /// The kernel's.
    Kernel(tokio::net::TcpListener),
    /// Ours.
    Ours(tautline_rt::TcpListener),
}

/// A datagram socket.
#[derive(Debug)]
pub enum UdpSocket {
    /// The kernel's.
    Kernel(tokio::net::UdpSocket),
    /// Ours.
    Ours(tautline_rt::UdpSocket),
}

/// Options of a connection; `None` and `false` leave the default.
#[derive(Clone, Debug, Default)]
pub struct TcpOptions {
    /// Local address.
    pub bind: Option<IpAddr>,
    /// Name of the congestion controller.
    pub congestion: Option<String>,
    /// Largest segment.
    pub mss: Option<u16>,
    /// Size of the send and the receive buffer.
    pub window: Option<u32>,
    /// Type of service.
    pub tos: u8,
    /// Switches Nagle's algorithm off.
    pub nodelay: bool,
}

/// State of a connection, as `TCP_INFO` tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Payload bytes per segment.
    pub mss: u32,
    /// Segments sent again.
    pub retransmits: u64,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Window that the peer offers, in bytes.
    pub peer_window: u64,
    /// Smoothed RTT in microseconds.
    pub rtt: u32,
    /// Mean deviation of the RTT in microseconds.
    pub rttvar: u32,
    /// Longest IP packet of the path.
    pub path_mtu: u32,
}

/// Runs `program` with the sockets of our stack as `stack` describes it, or with the kernel's.
///
/// # Errors
/// Those of the device and of the program.
pub fn with_net<F>(
    stack: Option<&StackArgs>,
    peer: Option<SocketAddr>,
    program: impl FnOnce(Net) -> F + Send + 'static,
) -> Result<(), Failure>
where
    F: Future<Output = io::Result<()>>,
{
    let run = move |net| tokio::runtime::Runtime::new()?.block_on(program(net));
    match stack {
        None => Ok(run(Net::Kernel)?),
        Some(stack) => with_sockets(stack, peer, move |Sockets { stack, .. }| {
            run(Net::Ours(stack))
        }),
    }
}

impl Net {
    /// Connects to `to`.
    ///
    /// # Errors
    /// Why there is no connection, or an option is refused.
    pub async fn connect(&self, to: SocketAddr, options: &TcpOptions) -> io::Result<TcpStream> {
        match self {
            Self::Kernel => {
                let socket = if to.is_ipv4() {
                    TcpSocket::new_v4()?
                } else {
                    TcpSocket::new_v6()?
                };
                set_on_kernel(SockRef::from(&socket), to, options)?;
                if let Some(bind) = options.bind {
                    socket.bind(SocketAddr::new(bind, 0))?;
                }
                Ok(TcpStream::Kernel(socket.connect(to).await?))
            }
            Self::Ours(stack) => {
                let local = options.bind.map(|bind| SocketAddr::new(bind, 0));
                let tcp = stack.config().tcp.clone();
                let stream = tautline_rt::TcpStream::connect_from(stack, local, to, tcp).await?;
                let stream = TcpStream::Ours(stream);
                stream.set(options)?;
                Ok(stream)
            }
        }
    }

    /// Listens on `port` of `bind`, or of every address.
    ///
    /// # Errors
    /// If the port is in use.
    pub async fn listen(&self, bind: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
        match (self, bind) {
            (Self::Ours(stack), None) => tautline_rt::TcpListener::bind(stack, port).await,
            (Self::Ours(stack), Some(bind)) => {
                tautline_rt::TcpListener::bind(stack, (bind, port)).await
            }
            (Self::Kernel, Some(bind)) => {
                return Ok(TcpListener::Kernel(
                    tokio::net::TcpListener::bind((bind, port)).await?,
                ));
            }
            (Self::Kernel, None) => {
                // Both families, or IPv4 where the kernel has no IPv6.
                let both = tokio::net::TcpListener::bind(("::", port)).await;
                return Ok(TcpListener::Kernel(match both {
                    Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                        tokio::net::TcpListener::bind(("0.0.0.0", port)).await?
                    }
                    bound => bound?,
                }));
            }
        }
        .map(TcpListener::Ours)
    }

    /// A datagram socket at `local`.
    ///
    /// # Errors
    /// If the address or port cannot be had.
    pub async fn bind(&self, local: SocketAddr) -> io::Result<UdpSocket> {
        Ok(match self {
            Self::Kernel => UdpSocket::Kernel(tokio::net::UdpSocket::bind(local).await?),
            Self::Ours(stack) => UdpSocket::Ours(tautline_rt::UdpSocket::bind(stack, local).await?),
        })
    }
}

/// Options that act on the handshake come before it.
fn set_on_kernel(socket: SockRef<'_>, peer: SocketAddr, options: &TcpOptions) -> io::Result<()> {
    if let Some(name) = &options.congestion {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    if let Some(mss) = options.mss {
        socket.set_tcp_mss(mss.into())?;
    }
    if let Some(window) = options.window {
        socket.set_send_buffer_size(window as usize)?;
        socket.set_recv_buffer_size(window as usize)?;
    }
    if options.tos != 0 {
        if peer.ip().to_canonical().is_ipv4() {
            socket.set_tos_v4(options.tos.into())?;
        } else {
            socket.set_tclass_v6(options.tos.into())?;
        }
    }
    if options.nodelay {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(())
}

impl TcpListener {
    /// The port it listens on.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn port(&self) -> io::Result<u16> {
        Ok(match self {
            Self::Kernel(listener) => listener.local_addr()?.port(),
            Self::Ours(listener) => listener.local_addr()?.port(),
        })
    }

    /// The next connection. While the process has no descriptor left, it waits.
    ///
    /// # Errors
    /// If the stack has ended.
    pub async fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Self::Kernel(listener) => loop {
                match listener.accept().await {
                    Ok((stream, _)) => return Ok(TcpStream::Kernel(stream)),
                    Err(_) => sleep(ACCEPT_AGAIN).await,
                }
            },
            Self::Ours(listener) => Ok(TcpStream::Ours(listener.accept().await?.0)),
        }
    }
}

impl TcpStream {
    /// Applies `options` to an open connection; the local address stays.
    ///
    /// # Errors
    /// If one is refused.
    pub fn set(&self, options: &TcpOptions) -> io::Result<()> {
        let stream = match self {
            Self::Kernel(stream) => {
                return set_on_kernel(SockRef::from(stream), stream.peer_addr()?, options);
            }
            Self::Ours(stream) => stream,
        };
        if let Some(name) = &options.congestion {
            stream.set_congestion(name)?;
        }
        let window = options.window.map(|window| Bytes::new(window.into()));
        let set = [
            options.mss.map(SocketOption::MaxSegment),
            window.map(SocketOption::SendBuffer),
            window.map(SocketOption::ReceiveBuffer),
            (options.tos != 0).then_some(SocketOption::Tos(options.tos)),
            options.nodelay.then_some(SocketOption::Nodelay(true)),
        ];
        for option in set.into_iter().flatten() {
            stream.set_option(option)?;
        }
        Ok(())
    }

    /// Lets the connection fail once the peer has answered nothing for [`MESSAGE_TIMEOUT`], though it owes
    /// no message: one that has vanished says no farewell.
    ///
    /// # Errors
    /// If the connection is gone.
    pub(crate) fn watch_peer(&self) -> io::Result<()> {
        const PROBES: u32 = 3;
        let pause = MESSAGE_TIMEOUT / (PROBES + 1);
        match self {
            Self::Kernel(stream) => {
                let socket = SockRef::from(stream);
                let keepalive = TcpKeepalive::new().with_time(pause).with_interval(pause);
                socket.set_tcp_keepalive(&keepalive.with_retries(PROBES))?;
                // Probes wait while data is in flight.
                socket.set_tcp_user_timeout(Some(MESSAGE_TIMEOUT))
            }
            Self::Ours(stream) => {
                stream.set_keepalive(Some(Keepalive {
                    idle: pause,
                    interval: pause,
                    probes: PROBES,
                }))?;
                stream.set_option(SocketOption::UserTimeout(Some(MESSAGE_TIMEOUT)))
            }
        }
    }

    /// Sends a part of `data`.
    ///
    /// # Errors
    /// Why the connection ended.
    pub async fn send(&self, data: &[u8]) -> io::Result<usize> {
        loop {
            let sent = match self {
                Self::Kernel(stream) => {
                    stream.writable().await?;
                    stream.try_write(data)
                }
                Self::Ours(stream) => {
                    stream.writable().await?;
                    stream.try_write(data)
                }
            };
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return sent,
            }
        }
    }

    /// Sends all of `data`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            data = &data[self.send(data).await?..];
        }
        Ok(())
    }

    /// Receives available data; 0 bytes mean the end of the stream.
    ///
    /// # Errors
    /// Why the connection failed.
    pub async fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let received = match self {
                Self::Kernel(stream) => {
                    stream.readable().await?;
                    stream.try_read(out)
                }
                Self::Ours(stream) => {
                    stream.readable().await?;
                    stream.try_read(out)
                }
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    /// Fills `out`.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
    pub async fn recv_exact(&self, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            match self.recv(out).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => out = &mut out[count..],
            }
        }
        Ok(())
    }

    /// Sends a message: JSON behind its length in four bytes.
    pub(crate) async fn send_json(&self, message: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
        bytes.extend(text);
        self.send_all(&bytes).await
    }

    /// Receives a message.
    pub(crate) async fn recv_json<T: DeserializeOwned>(&self) -> io::Result<T> {
        let receive = async {
            let mut len = [0; 4];
            self.recv_exact(&mut len).await?;
            let len = u32::from_be_bytes(len);
            if len > MESSAGE {
                let why = format!("the peer announces a message of {len} bytes");
                return Err(io::Error::other(why));
            }
            let mut text = vec![0; len as usize];
            self.recv_exact(&mut text).await?;
            Ok(serde_json::from_slice(&text)?)
        };
        timeout(MESSAGE_TIMEOUT, receive).await?
    }

    /// Both ends: the local one, then the peer's.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        let (local, peer) = match self {
            Self::Kernel(stream) => (stream.local_addr()?, stream.peer_addr()?),
            Self::Ours(stream) => (stream.local_addr()?, stream.peer_addr()?),
        };
        Ok((canonical(local), canonical(peer)))
    }

    /// State of the connection; nothing once it is gone.
    pub async fn state(&self) -> Option<TcpState> {
        match self {
            Self::Kernel(stream) => {
                let (local, peer) = self.ends().ok()?;
                sock_diag::state(local, peer, stream.local_addr().ok()?.is_ipv4()).ok()
            }
            Self::Ours(stream) => stream.info().await.ok().map(|info| TcpState::of(&info)),
        }
    }

    /// Name of the congestion controller, if it is known.
    pub async fn congestion(&self) -> Option<String> {
        match self {
            Self::Kernel(stream) => rustix::net::sockopt::tcp_congestion(stream).ok(),
            Self::Ours(stream) => Some(stream.info().await.ok()?.congestion.to_owned()),
        }
    }
}

/// Bytes that do not compress.
pub(crate) fn payload(len: usize) -> io::Result<Vec<u8>> {
    let mut random = SplitMix64::new(system_seed()?);
    let words = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
    Ok(words.take(len.div_ceil(8)).flatten().take(len).collect())
}

/// An IPv4 address in the form of IPv6 is an IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl TcpState {
    fn of(info: &TcpInfo) -> Self {
        let micros = |time: Duration| time.as_micros().try_into().unwrap_or(u32::MAX);
        Self {
            mss: info.mss.get() as u32,
            retransmits: info.retransmits,
            cwnd: info.cwnd.get(),
            peer_window: info.peer_window.get(),
            rtt: micros(info.srtt),
            rttvar: micros(info.rttvar),
            path_mtu: info.path_mtu.get() as u32,
        }
    }
}

impl UdpSocket {
    /// Sends a datagram to `to`; on a connected socket, to where that goes.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        match self {
            Self::Kernel(socket) => socket.send_to(data, to).await,
            Self::Ours(socket) => socket.send_to(data, to).await,
        }
    }

    /// Receives a datagram, truncated to `out`.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (count, from) = match self {
            Self::Kernel(socket) => socket.recv_from(out).await?,
            Self::Ours(socket) => socket.recv_from(out).await?,
        };
        Ok((count, canonical(from)))
    }

    /// The local address.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Kernel(socket) => socket.local_addr(),
            Self::Ours(socket) => socket.local_addr(),
        }
    }

    /// Sets the type of service of the kernel's socket; ours sends with the default.
    ///
    /// # Errors
    /// If the option is refused.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        match self {
            Self::Kernel(socket) if socket.local_addr()?.is_ipv4() => {
                SockRef::from(socket).set_tos_v4(tos.into())
            }
            Self::Kernel(socket) => SockRef::from(socket).set_tclass_v6(tos.into()),
            Self::Ours(_) => Ok(()),
        }
    }
}
