//! A TCP/IP stack for tunnels, proxies, VPNs and sandboxes: packets of a TUN device or a microVM on
//! one side, tokio streams on the other.
//!
#![doc = include_str!("../README.md")]
//!
//! # Shapes
//! - **A proxy** answers for every destination: [`Netstack::tcp_incoming`] hands out each SYN with
//!   its destination address, and the SYN is answered once the upstream connection is established
//!   or has failed.
//! - **A VPN client** is one end: give the stack its [address](Builder::address) and
//!   [connect](Netstack::connect) through the tunnel.
//! - **A sandbox** speaks Ethernet over a socket: [`device::FrameStream`] and [`device::FrameSocket`]
//!   are the far ends of QEMU's `-netdev stream` and `-netdev dgram`.
//!
//! # Memory
//! An idle connection takes 2 KiB: its buffers, and the rings between it and its application
//! ([`Builder::rings`]), take memory only for the bytes in them. Buffers grow with the path's product
//! of rate and delay, all of them together to the [ceiling](Builder::memory_limit) at most. Receive
//! windows close as memory fills. Near the ceiling the stack resets connections that have been closed, or held back by their peer's window,
//! for longest. The others get little send buffer, and data that arrives for connections that hold
//! much is dropped, to be retransmitted. At the ceiling those are reset whose application does not
//! read. SYNs that wait for an answer are [bounded](Limits::requests).
#![forbid(unsafe_code)]

mod alarm;
mod auto_traits;
mod builder;
pub mod device;
mod driver;
#[cfg(not(target_family = "wasm"))]
pub mod gateway;
mod incoming;
#[cfg(not(target_family = "wasm"))]
pub mod like;
#[cfg(not(target_family = "wasm"))]
mod relay;
mod report;
mod served;
mod settings;
mod stack;
mod start;
mod task;
#[cfg(not(target_family = "wasm"))]
pub mod tun2socks;
#[cfg(not(target_family = "wasm"))]
mod udp_memory;
#[cfg(not(target_family = "wasm"))]
mod udp_sessions;

pub use builder::Builder;
pub use incoming::{TcpIncoming, UdpIncoming};
#[cfg(not(target_family = "wasm"))]
pub use relay::RelayLimits;
pub use report::Report;
pub use stack::Netstack;
pub use start::Hold;
pub use tautline_base::{Bytes, Medium, Rate};
pub use tautline_rt::{ListenAt, StackHandle, TcpListener, TcpRequest, TcpStream, UdpSocket};
pub use tautline_stack::{
    Algorithm, BadCidr, Cidr, EcnMode, Factory, Keepalive, Limits, MtuProbing, Pacing, Rejection,
    TcpConfig, TcpInfo, TsqLimit, UdpConfig,
};
#[cfg(not(target_family = "wasm"))]
pub use udp_sessions::{UdpSession, UdpSessions};
