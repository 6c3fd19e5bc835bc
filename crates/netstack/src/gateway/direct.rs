//! [`Direct`]: connects to the destinations by ordinary sockets.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tautline_stack::Rejection;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Notify, OnceCell};

use super::GatewayConfig;
use crate::relay::{Associate, Association, Upstream};

const DNS_PORT: u16 = 53;
/// Most translated destinations of an association.
const MOST_TRANSLATED: usize = 256;

pub(super) struct Direct(GatewayConfig);

impl Direct {
    pub(super) fn new(config: GatewayConfig) -> Self {
        Self(config)
    }
}

/// The destination of our socket in place of `to`, which a sandbox named. A sandbox does not reach
/// the host's own network, except the name server and, if allowed, the loopback address through the
/// gateway's.
fn target(config: &GatewayConfig, to: SocketAddr) -> Result<SocketAddr, Rejection> {
    let (ip, subnet) = (to.ip(), config.subnet);
    if subnet.is_resolver(ip) {
        let resolver = config.resolver.filter(|_| to.port() == DNS_PORT);
        return resolver.ok_or(Rejection::Reset);
    }
    if subnet.is_gateway(ip) {
        let loopback: IpAddr = match ip {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let loopback = SocketAddr::new(loopback, to.port());
        let allowed = Some(loopback).filter(|_| config.host_loopback);
        return allowed.ok_or(Rejection::Reset);
    }
    let is_special = match ip {
        // In Linux 0.0.0.0 reaches the host itself.
        IpAddr::V4(ip) => ip.is_loopback() || ip.octets()[0] == 0 || ip.is_broadcast(),
        // The first 96 bits zero, as in ::1, or an IPv4 address that is written as one of IPv6.
        IpAddr::V6(ip) => ip.to_ipv4().is_some() || ip.is_unicast_link_local(),
    };
    if is_special || ip.is_multicast() || subnet.contains(ip) {
        return Err(Rejection::Prohibited);
    }
    Ok(to)
}

impl Upstream for Direct {
    async fn connect(&self, to: SocketAddr) -> Result<TcpStream, Rejection> {
        let connected = TcpStream::connect(target(&self.0, to)?).await;
        let stream = connected.map_err(|error| match error.kind() {
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Rejection::HostUnreachable
            }
            io::ErrorKind::PermissionDenied => Rejection::Prohibited,
            io::ErrorKind::TimedOut => Rejection::Silence,
            _ => Rejection::Reset,
        })?;
        // The sandbox's own stack decides when its segments leave.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Associate for Direct {
    type Association = DirectAssociation;

    async fn associate(&self) -> io::Result<DirectAssociation> {
        Ok(DirectAssociation {
            config: self.0,
            v4: UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?,
            v6: OnceCell::new(),
            opened: Notify::new(),
            translated: Mutex::default(),
        })
    }
}

/// The sockets for the datagrams of one sender.
pub(super) struct DirectAssociation {
    config: GatewayConfig,
    v4: UdpSocket,
    /// Opened for the first datagram over IPv6.
    v6: OnceCell<UdpSocket>,
    opened: Notify,
    /// The destination that the sender named, by the one that the socket sent to.
    translated: Mutex<HashMap<SocketAddr, SocketAddr>>,
}

impl DirectAssociation {
    fn translated(&self) -> MutexGuard<'_, HashMap<SocketAddr, SocketAddr>> {
        let locked = self.translated.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket toward `target`.
    async fn socket_for(&self, target: SocketAddr) -> io::Result<&UdpSocket> {
        if target.is_ipv4() {
            return Ok(&self.v4);
        }
        let open = || async {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await?;
            self.opened.notify_one();
            Ok(socket)
        };
        self.v6.get_or_try_init(open).await
    }

    /// Waits for a datagram over IPv6.
    async fn v6_readable(&self) -> io::Result<&UdpSocket> {
        loop {
            if let Some(socket) = self.v6.get() {
                socket.readable().await?;
                return Ok(socket);
            }
            self.opened.notified().await;
        }
    }
}

impl Association for DirectAssociation {
    async fn send(&self, to: SocketAddr, data: &[u8]) -> io::Result<()> {
        let Ok(target) = target(&self.config, to) else {
            return Ok(());
        };
        if target != to {
            let mut translated = self.translated();
            if translated.len() < MOST_TRANSLATED || translated.contains_key(&target) {
                translated.insert(target, to);
            }
        }
        // A datagram that the kernel refuses is lost; the next may have another destination.
        if let Ok(socket) = self.socket_for(target).await {
            let _ = socket.send_to(data, target).await;
        }
        Ok(())
    }

    async fn recv(&self, buffer: &mut [u8]) -> io::Result<(SocketAddr, Range<usize>)> {
        let (len, from) = loop {
            let socket = tokio::select! {
                ready = self.v4.readable() => ready.map(|()| &self.v4),
                socket = self.v6_readable() => socket,
            };
            match socket?.try_recv_from(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => break received?,
            }
        };
        let named = self.translated().get(&from).copied();
        Ok((named.unwrap_or(from), 0..len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_reached_only_where_it_is_allowed() {
        let closed = GatewayConfig::default();
        let resolver: SocketAddr = "192.0.2.53:5353".parse().expect("an address");
        let open = GatewayConfig {
            host_loopback: true,
            resolver: Some(resolver),
            ..closed
        };
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for prohibited in [
            "127.0.0.1:80",
            "127.9.9.9:53",
            "0.0.0.0:80",
            "0.1.2.3:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "10.0.2.16:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:192.0.2.1]:80",
            "[::127.0.0.1]:80",
            "[::1]:80",
            "[::]:80",
            "[fe80::1]:80",
            "[ff02::1]:80",
            "[fd00:a00:200:10::10]:80",
            "[fd00:a00:200::1]:80",
        ] {
            let refused = target(&open, at(prohibited));
            assert_eq!(refused, Err(Rejection::Prohibited), "{prohibited}");
        }
        for outside in [at("192.0.2.1:80"), at("[2001:db8::1]:80")] {
            assert_eq!(target(&closed, outside), Ok(outside));
        }
        let hosts = ["10.0.2.2:80", "10.0.2.3:53"];
        for host in hosts
            .into_iter()
            .chain(["[fd00:a00:200::2]:80", "[fd00:a00:200::3]:53"])
        {
            assert_eq!(target(&closed, at(host)), Err(Rejection::Reset), "{host}");
        }
        assert_eq!(target(&open, at("10.0.2.2:80")), Ok(at("127.0.0.1:80")));
        assert_eq!(
            target(&open, at("[fd00:a00:200::2]:80")),
            Ok(at("[::1]:80"))
        );
        for asked in ["10.0.2.3:53", "[fd00:a00:200::3]:53"] {
            assert_eq!(target(&open, at(asked)), Ok(resolver));
        }
        let other = target(&open, at("10.0.2.3:80"));
        assert_eq!(other, Err(Rejection::Reset));
    }
}
