//! [`SocketApi`]: the calls of a [`Host`] that applications make, whatever its qdisc, device, tracer
//! and limit are.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tautline_base::{Device, Instant, Packet, Qdisc, SocketId};
use tautline_bql::Limit;
use tautline_stack::{
    BindError, ConnectError, Host, ListenError, PingError, Recv, SendError, SocketError, TcpConfig,
    TcpInfo, Tracer, UdpConfig, UdpRecv,
};

/// Declares the trait and implements each call by the host's method of the same name.
macro_rules! socket_api {
    ($($call:ident($($argument:ident: $kind:ty),*) -> $output:ty;)*) => {
        /// Socket calls of a host as an object-safe trait.
        pub trait SocketApi {
            $(
                #[doc = concat!("[`Host::", stringify!($call), "`], with its errors.")]
                fn $call(&mut self, $($argument: $kind),*) -> $output;
            )*

            /// [`Host::close`].
            fn close(&mut self, socket: SocketId, now: Instant);

            /// [`Host::info`].
            fn info(&self, socket: SocketId) -> Option<TcpInfo>;

            /// [`Udp::bind`](tautline_stack::Udp::bind).
            ///
            /// # Errors
            /// As there.
            fn udp_bind(
                &mut self,
                local: SocketAddr,
                config: UdpConfig,
            ) -> Result<SocketId, BindError>;

            /// [`Udp::send_to`](tautline_stack::Udp::send_to).
            ///
            /// # Errors
            /// As there.
            fn send_to(
                &mut self,
                socket: SocketId,
                data: &[u8],
                to: Option<SocketAddr>,
            ) -> Result<(), SendError>;

            /// [`Udp::recv_from`](tautline_stack::Udp::recv_from).
            ///
            /// # Errors
            /// As there.
            fn recv_from(
                &mut self,
                socket: SocketId,
                out: &mut [u8],
            ) -> Result<UdpRecv, SocketError>;
        }

        impl<Q, D, T, L> SocketApi for Host<Q, D, T, L>
        where
            D: Device,
            Q: Qdisc<Packet<D::Frame>>,
            T: Tracer,
            L: Limit,
        {
            $(
                fn $call(&mut self, $($argument: $kind),*) -> $output {
                    Self::$call(self, $($argument),*)
                }
            )*

            fn close(&mut self, socket: SocketId, now: Instant) {
                Self::close(self, socket, now);
            }

            fn info(&self, socket: SocketId) -> Option<TcpInfo> {
                Self::info(self, socket)
            }

            fn udp_bind(
                &mut self,
                local: SocketAddr,
                config: UdpConfig,
            ) -> Result<SocketId, BindError> {
                self.udp().bind(local, config)
            }

            fn send_to(
                &mut self,
                socket: SocketId,
                data: &[u8],
                to: Option<SocketAddr>,
            ) -> Result<(), SendError> {
                self.udp().send_to(socket, data, to)
            }

            fn recv_from(
                &mut self,
                socket: SocketId,
                out: &mut [u8],
            ) -> Result<UdpRecv, SocketError> {
                self.udp().recv_from(socket, out)
            }
        }
    };
}

socket_api! {
    listen(port: u16, config: Arc<TcpConfig>) -> Result<SocketId, ListenError>;
    connect(
        remote: SocketAddr, config: Arc<TcpConfig>, now: Instant
    ) -> Result<SocketId, ConnectError>;
    send(socket: SocketId, data: &[u8]) -> Result<usize, SocketError>;
    send_zeros(socket: SocketId, count: usize) -> Result<usize, SocketError>;
    recv(socket: SocketId, out: &mut [u8]) -> Result<Recv, SocketError>;
    shutdown(socket: SocketId) -> Result<(), SocketError>;
    abort(socket: SocketId) -> Result<(), SocketError>;
    ping_with_tos(
        to: IpAddr, tos: u8, label: (u16, u16), data: &[u8], now: Instant
    ) -> Result<(), PingError>;
}
