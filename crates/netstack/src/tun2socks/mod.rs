//! [`Tun2Socks`]: forwards connections and datagrams of a tunnel through a proxy: a SOCKS 5 server
//! (RFC 1928), or an HTTP server with the method CONNECT (RFC 9110 §9.3.6).
//!
//! A SYN is answered once the server has connected: the client of the tunnel sees a refusal as it would
//! without a proxy. Datagrams, those of DNS among them, pass through one association per sender. HTTP
//! carries no datagrams, so they are dropped.

mod http;
mod socks5;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::str::FromStr;

use tautline_stack::Rejection;
use tokio::net::{TcpStream, UdpSocket};
use tracing::debug;

pub use http::{HttpError, HttpProxy};
pub use socks5::{BadProxy, Socks5, Socks5Error};

use crate::Netstack;
use crate::relay::{self, Associate, Association, RelayLimits, Upstream};

/// A proxy.
#[derive(Clone, Debug)]
pub enum Proxy {
    /// For connections and datagrams.
    Socks5(Socks5),
    /// For connections only.
    Http(HttpProxy),
}

impl From<Socks5> for Proxy {
    fn from(proxy: Socks5) -> Self {
        Self::Socks5(proxy)
    }
}

impl From<HttpProxy> for Proxy {
    fn from(proxy: HttpProxy) -> Self {
        Self::Http(proxy)
    }
}

/// As [`Socks5`], or `http://name:password@192.0.2.1:3128`; there a name has no colon.
impl FromStr for Proxy {
    type Err = BadProxy;

    fn from_str(text: &str) -> Result<Self, BadProxy> {
        match text.strip_prefix("http://") {
            Some(rest) => {
                let proxy = rest.parse().ok().and_then(Socks5::into_http);
                proxy.map(Self::Http).ok_or_else(|| BadProxy::new(text))
            }
            None => text.parse().map(Self::Socks5),
        }
    }
}

/// Forwards a tunnel through a proxy.
#[derive(Clone, Debug)]
pub struct Tun2Socks {
    proxy: Proxy,
    /// Bounds in time and number.
    pub limits: RelayLimits,
}

impl Tun2Socks {
    /// Forwards through `proxy`.
    pub fn new(proxy: impl Into<Proxy>) -> Self {
        Self {
            proxy: proxy.into(),
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

impl Upstream for Proxy {
    async fn connect(&self, to: SocketAddr) -> Result<TcpStream, Rejection> {
        match self {
            Self::Socks5(proxy) => {
                (proxy.connect(to).await).map_err(|error| logged(to, &error, error.rejection()))
            }
            Self::Http(proxy) => {
                (proxy.connect(to).await).map_err(|error| logged(to, &error, error.rejection()))
            }
        }
    }
}

/// Logs why the proxy has not connected, which `how` does not say.
fn logged(to: SocketAddr, error: &dyn std::error::Error, how: Rejection) -> Rejection {
    debug!(%to, %error, "no connection through the proxy");
    how
}

impl Associate for Proxy {
    type Association = SocksAssociation;

    async fn associate(&self) -> io::Result<SocksAssociation> {
        let Self::Socks5(proxy) = self else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (control, relay) = proxy.associate().await.map_err(io::Error::other)?;
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
        match self.relay.send(&message).await {
            // The relay is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(error),
            // A datagram that the kernel refuses is lost; with its header it may be too long.
            _ => Ok(()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_datagram_too_long_for_the_relay_does_not_end_its_association() {
        let bind = async || UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let (relay, far) = (bind().await, bind().await);
        let to_far = relay.connect(far.local_addr().expect("bound")).await;
        to_far.expect("on this host");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let server = listener.as_ref().expect("a port").local_addr();
        let control = TcpStream::connect(server.expect("bound")).await;
        let control = control.expect("listening");
        let association = SocksAssociation { control, relay };
        let to = SocketAddr::from(([192, 0, 2, 1], 53));
        for len in [65_507, 4] {
            association.send(to, &vec![7; len]).await.expect("lasts");
        }
        let mut buffer = [0; 100];
        assert_eq!(far.recv(&mut buffer).await.expect("open"), 10 + 4);
    }
}
