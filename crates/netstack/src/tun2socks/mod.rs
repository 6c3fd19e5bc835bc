//! [`Tun2Socks`]: everything that arrives from a tunnel leaves by way of a SOCKS 5 server.
//!
//! A SYN is answered once the server has connected: the client of the tunnel sees a refusal as it would
//! without a proxy. Datagrams, those of DNS among them, pass through one association per sender.

mod socks5;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use tautline_stack::Rejection;
use tokio::net::{TcpStream, UdpSocket};

pub use socks5::{BadProxy, Socks5, Socks5Error};

use crate::Netstack;
use crate::relay::{self, Association, RelayLimits, Way};

/// A tunnel's way out through a proxy.
#[derive(Clone, Debug)]
pub struct Tun2Socks {
    proxy: Socks5,
    /// Bounds in time and number.
    pub limits: RelayLimits,
}

impl Tun2Socks {
    /// A way out through `proxy`.
    pub fn new(proxy: Socks5) -> Self {
        Self {
            proxy,
            limits: RelayLimits::default(),
        }
    }

    /// Serves `stack` until it ends.
    ///
    /// # Errors
    /// Another listener has all ports of the stack, or the stack has ended.
    pub async fn run(self, stack: &Netstack) -> io::Result<()> {
        relay::run(self.proxy, self.limits, stack).await
    }
}

impl Way for Socks5 {
    type Association = SocksAssociation;

    async fn connect(&self, to: SocketAddr) -> Result<TcpStream, Rejection> {
        let connected = Self::connect(self, to).await;
        connected.map_err(|error| error.rejection())
    }

    async fn associate(&self) -> io::Result<SocksAssociation> {
        let (control, relay) = Self::associate(self).await.map_err(io::Error::other)?;
        Ok(SocksAssociation { control, relay })
    }
}

/// A UDP association of RFC 1928 §7.
pub(crate) struct SocksAssociation {
    /// The server ends the association by closing this.
    control: TcpStream,
    relay: UdpSocket,
}

impl Association for SocksAssociation {
    async fn send(&self, to: SocketAddr, data: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(data.len() + socks5::LONGEST_HEADER);
        socks5::wrap(&mut message, to, data);
        self.relay.send(&message).await.map(drop)
    }

    async fn recv(&self, buffer: &mut [u8]) -> io::Result<(SocketAddr, Range<usize>)> {
        loop {
            let len = tokio::select! {
                received = self.relay.recv(buffer) => received?,
                _ = self.control.readable() => {
                    match self.control.try_read(&mut [0]) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        _ => return Err(io::ErrorKind::ConnectionAborted.into()),
                    }
                }
            };
            if let Some((from, data)) = socks5::unwrap(&buffer[..len]) {
                return Ok((from, len - data.len()..len));
            }
        }
    }
}
