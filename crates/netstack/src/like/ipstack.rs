//! The types of `ipstack` 1.0.
//!
//! ```no_run
//! use tautline_netstack::like::ipstack; // instead of `use ipstack`
//! use ipstack::IpStackStream;
//!
//! # async fn run(device: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = ipstack::IpStackConfig::default();
//! config.mtu(1500)?;
//! let mut stack = ipstack::IpStack::new(config, device);
//! while let Ok(stream) = stack.accept().await {
//!     match stream {
//!         IpStackStream::Tcp(mut tcp) => {
//!             let mut upstream = tokio::net::TcpStream::connect(tcp.peer_addr()).await?;
//!             tokio::spawn(async move {
//!                 let _ = tokio::io::copy_bidirectional(&mut tcp, &mut upstream).await;
//!             });
//!         }
//!         IpStackStream::Udp(udp) => println!("{} to {}", udp.local_addr(), udp.peer_addr()),
//!         IpStackStream::UnknownTransport(other) => println!("protocol {:?}", other.ip_protocol()),
//!         IpStackStream::UnknownNetwork(packet) => println!("{} bytes", packet.len()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tautline_rt::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use crate::device::Packets;
use crate::{Netstack, UdpSession, UdpSessions};

/// Most new streams that wait to be accepted.
const BACKLOG: usize = 1024;
/// Most UDP sessions.
const UDP_SESSIONS: usize = 4096;
/// Smallest MTU of IPv6 (RFC 8200 §5).
const LEAST_MTU: u16 = 1280;

/// The errors of this module are those of the system.
pub type IpStackError = io::Error;

/// Settings.
#[derive(Clone, Debug)]
pub struct IpStackConfig {
    /// Longest packet in bytes. Default 1500.
    pub mtu: u16,
    /// Idle timeout of a UDP session. Default 30 s.
    pub udp_timeout: Duration,
}

impl Default for IpStackConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            udp_timeout: Duration::from_secs(30),
        }
    }
}

impl IpStackConfig {
    /// Sets the MTU.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) below the 1280 bytes of IPv6.
    pub fn mtu(&mut self, mtu: u16) -> Result<&mut Self, IpStackError> {
        if mtu < LEAST_MTU {
            let why = format!("an MTU of {mtu} is below that of IPv6, {LEAST_MTU}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(self.mtu_unchecked(mtu))
    }

    /// Sets the MTU, which may be too small for IPv6.
    pub fn mtu_unchecked(&mut self, mtu: u16) -> &mut Self {
        self.mtu = mtu;
        self
    }

    /// Sets the idle time of datagrams.
    pub fn udp_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.udp_timeout = timeout;
        self
    }
}

/// A stack on a device that reads and writes one packet per call.
#[derive(Debug)]
pub struct IpStack {
    /// Two queues: while one is full, the other has room.
    connections: Receiver<IpStackTcpStream>,
    sessions: Receiver<IpStackUdpStream>,
    task: JoinHandle<()>,
}

impl IpStack {
    /// Starts it. Must be called within tokio's runtime.
    pub fn new<Device>(config: IpStackConfig, device: Device) -> Self
    where
        Device: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (new, connections) = channel(BACKLOG);
        // New sessions wait in the queue behind it.
        let (begun, sessions) = channel(1);
        let task = tokio::spawn(async move {
            // Its end is reported by `accept`.
            let _ = run(config, device, (new, begun)).await;
        });
        Self {
            connections,
            sessions,
            task,
        }
    }

    /// The next connection or session. Cancel safe.
    ///
    /// # Errors
    /// If the device has ended.
    pub async fn accept(&mut self) -> Result<IpStackStream, IpStackError> {
        tokio::select! {
            Some(connection) = self.connections.recv() => Ok(IpStackStream::Tcp(connection)),
            Some(session) = self.sessions.recv() => Ok(IpStackStream::Udp(session)),
            else => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl Drop for IpStack {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run<Device>(
    config: IpStackConfig,
    device: Device,
    (new, begun): (Sender<IpStackTcpStream>, Sender<IpStackUdpStream>),
) -> io::Result<()>
where
    Device: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stack = Netstack::builder(Packets::new(device, config.mtu.into())).build()?;
    let hold = stack.hold();
    let (connections, datagrams) = (stack.tcp_incoming().await?, stack.udp_incoming().await?);
    drop(hold);
    let mut sessions = UdpSessions::new(datagrams, config.udp_timeout, UDP_SESSIONS);
    let accepting = async {
        // Without a place in the queue a SYN waits in the stack, which bounds their number.
        while let Ok(place) = new.clone().reserve_owned().await {
            let request = connections.next().await?;
            tokio::spawn(async move {
                let ends = (request.peer_addr(), request.local_addr());
                if let Ok(stream) = request.accept().await {
                    place.send(IpStackTcpStream { stream, ends });
                }
            });
        }
        Ok(())
    };
    let sorting = async {
        while let Some(session) = sessions.next().await {
            // Nobody accepts any more.
            if begun.send(IpStackUdpStream(session)).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    // Each fails or ends with the device, or with the last that accepts.
    tokio::try_join!(accepting, sorting).map(drop)
}

/// A connection or session that has begun.
#[derive(Debug)]
pub enum IpStackStream {
    /// A connection.
    Tcp(IpStackTcpStream),
    /// A session of datagrams.
    Udp(IpStackUdpStream),
    /// Another protocol. Does not occur: the stack answers echo requests and refuses the rest.
    UnknownTransport(IpStackUnknownTransport),
    /// No IP packet. Does not occur: the stack counts them.
    UnknownNetwork(Vec<u8>),
}

/// A connection.
#[derive(Debug)]
pub struct IpStackTcpStream {
    stream: TcpStream,
    ends: (SocketAddr, SocketAddr),
}

impl IpStackTcpStream {
    /// The client.
    pub fn local_addr(&self) -> SocketAddr {
        self.ends.0
    }

    /// The destination that it wanted.
    pub fn peer_addr(&self) -> SocketAddr {
        self.ends.1
    }
}

/// A session of datagrams; each read and write is one.
#[derive(Debug)]
pub struct IpStackUdpStream(UdpSession);

impl IpStackUdpStream {
    /// The client.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.sender_addr()
    }

    /// The destination that it wanted.
    pub fn peer_addr(&self) -> SocketAddr {
        self.0.destination_addr()
    }
}

/// An IP protocol number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNumber(pub u8);

impl IpNumber {
    /// ICMP of IPv4.
    pub const ICMP: Self = Self(1);
    /// ICMP of IPv6.
    pub const IPV6_ICMP: Self = Self(58);
}

/// A packet of another protocol. It has no values.
#[derive(Debug)]
pub struct IpStackUnknownTransport(Infallible);

impl IpStackUnknownTransport {
    /// Its source.
    pub fn src_addr(&self) -> IpAddr {
        match self.0 {}
    }

    /// Its destination.
    pub fn dst_addr(&self) -> IpAddr {
        match self.0 {}
    }

    /// Its payload.
    pub fn payload(&self) -> &[u8] {
        match self.0 {}
    }

    /// Its protocol.
    pub fn ip_protocol(&self) -> IpNumber {
        match self.0 {}
    }

    /// Answers it.
    ///
    /// # Errors
    /// None.
    pub fn send(&self, _payload: Vec<u8>) -> io::Result<()> {
        match self.0 {}
    }
}

/// Passes tokio's traits on to the field `$inner`.
macro_rules! forward_io {
    ($stream:ty, $inner:tt) => {
        impl AsyncRead for $stream {
            fn poll_read(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.$inner).poll_read(context, buffer)
            }
        }

        impl AsyncWrite for $stream {
            fn poll_write(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                data: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.$inner).poll_write(context, data)
            }

            fn poll_flush(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.$inner).poll_flush(context)
            }

            fn poll_shutdown(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.$inner).poll_shutdown(context)
            }
        }
    };
}

forward_io!(IpStackTcpStream, stream);
forward_io!(IpStackUdpStream, 0);
