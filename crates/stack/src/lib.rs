//! Userspace TCP over IPv4 and IPv6 with an observable send path: TCP Small Queues, pacer, qdisc,
//! dynamic queue limit, ring.
//!
//! A [`Host`] is one network stack on one device queue. It reads no clock and never blocks. The
//! contract of its driver: *any number of inputs ([`Host::receive`], [`Host::deliver`], socket
//! calls), one [`Host::poll`], then wait for the returned deadline or the next input.* A late poll
//! delays packets; it never corrupts state.
//!
//! [`Host::poll`], read from top to bottom, is the path of one packet; `ARCHITECTURE.md` has the
//! picture.
#![forbid(unsafe_code)]

pub mod address;
mod addressing;
pub mod attribution;
mod autoconf;
mod chunks;
pub mod config;
mod cookies;
pub mod dhcp;
mod fast_open;
pub mod host;
mod kept_bytes;
mod keyed;
pub mod limits;
mod link_mtu;
mod neighbor;
mod pacer;
mod pings;
mod proven;
mod queues;
mod ranges;
mod reply_limit;
mod seq;
pub mod socket;
mod sockets;
pub mod stats;
mod tcp;
mod time_wait;
pub mod trace;
pub mod tsq;
pub mod udp;
mod wire;

pub use address::{BadCidr, Cidr, Route};
pub use autoconf::Configuration;
pub use config::{
    AckCompression, Autoconfiguration, EcnMode, HostConfig, Identifiers, Keepalive, LinkLocal,
    LocalDropReporting, LossRecovery, MtuProbing, Negotiation, Pacing, Prr, Reordering, Successive,
    SynCookies, TcpConfig,
};
pub use host::{Host, Replaced, Stuck, TcpSocket, Udp};
pub use kept_bytes::KeptBytes;
pub use limits::Limits;
pub use pacer::{CatchUp, PacerConfig};
pub use socket::{
    CloseReason, ConnectError, Event, ListenAt, ListenError, PathError, PingError, Recv, Rejection,
    SocketError, SocketOption,
};
pub use stats::HostStats;
pub use tcp::ecn::EcnState;
pub use tcp::info::{Limited, Ss, TcpInfo};
pub use tcp::send::Reduction;
pub use trace::{NoTrace, PacketEvent, Tracer, What};
pub use tsq::{Clamp, TimeLimit, TsqLimit};
pub use udp::{BindError, SendError, SendOptions, UdpConfig, UdpInfo, UdpRecv};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
