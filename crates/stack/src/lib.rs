//! Userspace TCP over IPv4 and IPv6 whose send path is in view: TCP Small Queues, pacer, queueing
//! discipline, dynamic queue limit, ring.
//!
//! A [`Host`] is one network stack on one device queue. It reads no clock and waits for nothing.
//! Its driver's whole contract: *any number of inputs ([`Host::receive`], [`Host::deliver`], socket
//! calls), one [`Host::poll`], then wait until the wake it returned or the next input.* Forgetting
//! to poll delays; it never corrupts.
//!
//! The walk of one packet is [`Host::poll`] read from top to bottom; see `ARCHITECTURE.md` for the
//! picture.
//!
//! | module | holds |
//! |---|---|
//! | [`host`] | [`Host`]: the walk ([`Host::poll`]), arriving frames, the application's calls |
//! | [`address`] | [`Cidr`], [`Route`] |
//! | [`attribution`] | what the bytes of a connection waited for |
//! | [`config`] | [`HostConfig`], [`TcpConfig`] |
//! | [`limits`] | [`Limits`]: what all connections together may hold |
//! | [`socket`] | events, read results, errors |
//! | [`udp`] | datagram sockets |
//! | [`tsq`] | TCP Small Queues |
//! | [`trace`] | [`Tracer`]: every event in the life of every packet |
//! | [`stats`] | [`HostStats`] |
#![forbid(unsafe_code)]

pub mod address;
mod addressing;
pub mod attribution;
pub mod config;
mod cookies;
pub mod host;
mod icmp_limit;
mod keyed;
pub mod limits;
mod neighbor;
mod pacer;
mod pings;
mod queues;
mod ranges;
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
pub use config::{
    EcnMode, HostConfig, Keepalive, LinkLocal, LocalDropReporting, LossRecovery, MtuProbing,
    Pacing, Prr, Reordering, Successive, SynCookies, TcpConfig,
};
pub use host::{Host, Replaced, Stuck};
pub use limits::Limits;
pub use pacer::{CatchUp, PacerConfig};
pub use socket::{
    CloseReason, ConnectError, Event, ListenAt, ListenError, PathError, PingError, Recv,
    SocketError, SocketOption,
};
pub use stats::HostStats;
pub use tcp::ecn::EcnState;
pub use tcp::info::{Limited, Ss, TcpInfo};
pub use tcp::send::Reduction;
pub use trace::{NoTrace, PacketEvent, Tracer, What};
pub use tsq::{Clamp, TimeLimit, TsqLimit};
pub use udp::{BindError, SendError, UdpConfig, UdpInfo, UdpRecv};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
