//! [`SocketApi`]: the calls of a [`Host`] that applications make, whatever its qdisc, device, tracer
//! and limit are.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tautline_base::{Device, Instant, Packet, Qdisc, SocketId};
use tautline_bql::Limit;
use tautline_stack::{
    BindError, ConnectError, Host, ListenError, PingError, Recv, SendError, SocketError,
    SocketOption, TcpConfig, TcpInfo, Tracer, UdpConfig, UdpRecv,
};

/// Declares the trait and implements each call by one of the host.
macro_rules! socket_api {
    ($(
        $call:ident($($argument:ident: $kind:ty),*) -> $output:ty = |$host:ident| $body:expr;
    )*) => {
        /// Socket calls of a host as an object-safe trait.
        pub trait SocketApi {
            $(
                #[doc = concat!("`", stringify!($body), "`, with its errors.")]
                fn $call(&mut self, $($argument: $kind),*) -> $output;
            )*

            /// [`Host::info`].
            fn info(&self, socket: SocketId) -> Option<TcpInfo>;
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
                    let $host = self;
                    $body
                }
            )*

            fn info(&self, socket: SocketId) -> Option<TcpInfo> {
                Self::info(self, socket)
            }
        }
    };
}

socket_api! {
    listen(port: u16, config: Arc<TcpConfig>) -> Result<SocketId, ListenError> =
        |host| host.listen(port, config);
    connect(
        remote: SocketAddr, config: Arc<TcpConfig>, now: Instant
    ) -> Result<SocketId, ConnectError> = |host| host.connect(remote, config, now);
    send(socket: SocketId, data: &[u8]) -> Result<usize, SocketError> =
        |host| host.send(socket, data);
    send_zeros(socket: SocketId, count: usize) -> Result<usize, SocketError> =
        |host| host.tcp(socket)?.send_zeros(count);
    recv(socket: SocketId, out: &mut [u8]) -> Result<Recv, SocketError> =
        |host| host.recv(socket, out);
    set_option(socket: SocketId, option: SocketOption) -> Result<(), SocketError> =
        |host| host.set_option(socket, option);
    shutdown(socket: SocketId) -> Result<(), SocketError> = |host| host.shutdown(socket);
    abort(socket: SocketId) -> Result<(), SocketError> = |host| host.abort(socket);
    close(socket: SocketId, now: Instant) -> () = |host| host.close(socket, now);
    ping_with_tos(
        to: IpAddr, tos: u8, label: (u16, u16), data: &[u8], now: Instant
    ) -> Result<(), PingError> = |host| host.ping_with_tos(to, tos, label, data, now);
    udp_bind(local: SocketAddr, config: UdpConfig) -> Result<SocketId, BindError> =
        |host| host.udp().bind(local, config);
    send_to(socket: SocketId, data: &[u8], to: Option<SocketAddr>) -> Result<(), SendError> =
        |host| host.udp().send_to(socket, data, to);
    recv_from(socket: SocketId, out: &mut [u8]) -> Result<UdpRecv, SocketError> =
        |host| host.udp().recv_from(socket, out);
}
