//! [`HostCalls`]: what a host does for applications, whatever its discipline, device, tracer and
//! limit are.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{
    BindError, ConnectError, Host, ListenError, PingError, Recv, SendError, SocketError, TcpConfig,
    TcpInfo, Tracer, UdpConfig, UdpRecv,
};

/// Calls of [`Host`] that applications make; each is the one of the same name.
pub trait HostCalls {
    /// [`Host::listen`].
    fn listen(&mut self, port: u16, config: Arc<TcpConfig>) -> Result<SocketId, ListenError>;

    /// [`Host::connect`].
    fn connect(
        &mut self,
        remote: SocketAddr,
        config: Arc<TcpConfig>,
        now: Instant,
    ) -> Result<SocketId, ConnectError>;

    /// [`Host::send`].
    fn send(&mut self, socket: SocketId, data: &[u8]) -> Result<usize, SocketError>;

    /// [`Host::send_zeros`].
    fn send_zeros(&mut self, socket: SocketId, count: usize) -> Result<usize, SocketError>;

    /// [`Host::recv`].
    fn recv(&mut self, socket: SocketId, out: &mut [u8]) -> Result<Recv, SocketError>;

    /// [`Host::shutdown`].
    fn shutdown(&mut self, socket: SocketId) -> Result<(), SocketError>;

    /// [`Host::abort`].
    fn abort(&mut self, socket: SocketId) -> Result<(), SocketError>;

    /// [`Host::close`].
    fn close(&mut self, socket: SocketId, now: Instant);

    /// [`Host::info`].
    fn info(&self, socket: SocketId) -> Option<TcpInfo>;

    /// [`Host::ping_with_tos`].
    fn ping(
        &mut self,
        to: IpAddr,
        tos: u8,
        label: (u16, u16),
        data: &[u8],
        now: Instant,
    ) -> Result<(), PingError>;

    /// [`Host::udp_bind`].
    fn udp_bind(&mut self, local: SocketAddr, config: UdpConfig) -> Result<SocketId, BindError>;

    /// [`Host::send_to`].
    fn send_to(&mut self, socket: SocketId, data: &[u8], to: SocketAddr) -> Result<(), SendError>;

    /// [`Host::recv_from`].
    fn recv_from(&mut self, socket: SocketId, out: &mut [u8]) -> Result<UdpRecv, SocketError>;
}

impl<Q, D, T, L> HostCalls for Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    fn listen(&mut self, port: u16, config: Arc<TcpConfig>) -> Result<SocketId, ListenError> {
        Self::listen(self, port, config)
    }

    fn connect(
        &mut self,
        remote: SocketAddr,
        config: Arc<TcpConfig>,
        now: Instant,
    ) -> Result<SocketId, ConnectError> {
        Self::connect(self, remote, config, now)
    }

    fn send(&mut self, socket: SocketId, data: &[u8]) -> Result<usize, SocketError> {
        Self::send(self, socket, data)
    }

    fn send_zeros(&mut self, socket: SocketId, count: usize) -> Result<usize, SocketError> {
        Self::send_zeros(self, socket, count)
    }

    fn recv(&mut self, socket: SocketId, out: &mut [u8]) -> Result<Recv, SocketError> {
        Self::recv(self, socket, out)
    }

    fn shutdown(&mut self, socket: SocketId) -> Result<(), SocketError> {
        Self::shutdown(self, socket)
    }

    fn abort(&mut self, socket: SocketId) -> Result<(), SocketError> {
        Self::abort(self, socket)
    }

    fn close(&mut self, socket: SocketId, now: Instant) {
        Self::close(self, socket, now);
    }

    fn info(&self, socket: SocketId) -> Option<TcpInfo> {
        Self::info(self, socket)
    }

    fn ping(
        &mut self,
        to: IpAddr,
        tos: u8,
        label: (u16, u16),
        data: &[u8],
        now: Instant,
    ) -> Result<(), PingError> {
        self.ping_with_tos(to, tos, label, data, now)
    }

    fn udp_bind(&mut self, local: SocketAddr, config: UdpConfig) -> Result<SocketId, BindError> {
        Self::udp_bind(self, local, config)
    }

    fn send_to(&mut self, socket: SocketId, data: &[u8], to: SocketAddr) -> Result<(), SendError> {
        Self::send_to(self, socket, data, Some(to))
    }

    fn recv_from(&mut self, socket: SocketId, out: &mut [u8]) -> Result<UdpRecv, SocketError> {
        Self::recv_from(self, socket, out)
    }
}
