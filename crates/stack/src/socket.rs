//! The application's view of a socket: events, read results, errors.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use tautline_base::{Bytes, Rate, SocketId};
use tautline_cc::Factory;

use crate::config::{Keepalive, Pacing};

/// An event that an application may act on. `Readable` and `Writable` are edge-triggered: they are
/// reported once, and again after the application has found the socket empty or full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A listener has a new connection.
    Accepted {
        /// The listener.
        listener: SocketId,
        /// The connection, established.
        socket: SocketId,
    },
    /// A SYN arrived at a [deferred](crate::TcpConfig::deferred_accept) listener; it waits for
    /// [`accept`](crate::Host::accept) or [`reject`](crate::Host::reject).
    Requested {
        /// The listener.
        listener: SocketId,
        /// Names the SYN; [`local`](crate::Host::local) and [`peer`](crate::Host::peer) return its
        /// ends.
        request: SocketId,
    },
    /// An active open succeeded, or the handshake after an accepted request.
    Connected(SocketId),
    /// Data, or the end of the stream, can be read.
    Readable(SocketId),
    /// There is buffer space to write again.
    Writable(SocketId),
    /// The connection is over. Data received in order can still be read; then the socket should be
    /// closed.
    Closed {
        /// The connection.
        socket: SocketId,
        /// How it ended.
        why: CloseReason,
    },
    /// The reply to a [`ping`](crate::Host::ping), with the same data.
    Pong {
        /// The host that replied.
        from: IpAddr,
        /// The ping's identifier.
        identifier: u16,
        /// The ping's number.
        sequence: u16,
        /// From the request's entry into the qdisc to the reply.
        rtt: Duration,
    },
    /// A ping failed: a router or the destination sent an ICMP error.
    PingFailed {
        /// Its destination.
        to: IpAddr,
        /// The ping's identifier.
        identifier: u16,
        /// The ping's number.
        sequence: u16,
        /// The reported error.
        why: PathError,
    },
    /// Addresses or routers differ from before, by automatic configuration;
    /// [`configuration`](crate::Host::configuration) returns them.
    AddressesChanged,
}

/// An ICMP error from a router or the peer's host about an undelivered packet (RFC 792, RFC 4443).
/// Anybody can forge one: the host accepts it only for data in flight, and it ends only a
/// connection that was never open (RFC 5461, RFC 5927).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The network or the host is unreachable, or no neighbor answers for it.
    #[error("the host cannot be reached")]
    HostUnreachable,
    /// Nothing listens on the port.
    #[error("nothing listens on the port")]
    PortUnreachable,
    /// A filter forbids it: ICMP's "administratively prohibited".
    #[error(
        "a firewall or a policy on the way forbids the packets (ICMP \"administratively prohibited\")"
    )]
    Prohibited,
    /// The packet was longer than a link on the way carries.
    #[error("the packets are too long for a link on the way: {}", advice(*.mtu))]
    TooBig {
        /// Bytes that the link carries in a packet, headers included; `None` if the router does not
        /// say.
        mtu: Option<u16>,
    },
    /// The packet passed too many routers.
    #[error("the packets pass too many routers")]
    TimeExceeded,
    /// A header was not understood.
    #[error("a header is not understood")]
    Parameter,
}

/// Tells the sender of packets that a link of this MTU does not carry how to go on.
fn advice(mtu: Option<u16>) -> String {
    match mtu {
        Some(mtu) => format!(
            "send less at a time, so that a packet has at most {mtu} bytes with its headers (28 over IPv4, 48 over IPv6)"
        ),
        None => "send less at a time".into(),
    }
}

/// Why `ping` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PingError {
    /// The address is unspecified, broadcast, multicast or our own.
    #[error("{0} cannot be pinged: it must be another host's unicast address")]
    BadAddress(IpAddr),
    /// No address of ours is of its family, or it is off-link and no route leads there.
    #[error(
        "no route to {0}: no address of ours is of its family, or it is not on a network of ours and no gateway is configured"
    )]
    NoRoute(IpAddr),
    /// The request would be longer than the MTU.
    #[error("{0} bytes of data make an echo request longer than the MTU")]
    TooLong(usize),
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// Both ends closed in order.
    #[error("closed")]
    Finished,
    /// Closed here before the handshake began.
    #[error("closed before it was opened")]
    Local,
    /// Aborted by this end.
    #[error("aborted by this end")]
    Aborted,
    /// The peer refused the connection: nothing listens there.
    #[error("connection refused by the peer: nothing listens on that port")]
    Refused,
    /// The peer reset the connection.
    #[error("connection reset by the peer")]
    Reset,
    /// The peer did not answer within the retry limit.
    #[error("the peer stopped answering: every retransmission timed out")]
    TimedOut,
    /// This host was short of buffers, and the peer accepted none of the connection's data.
    #[error("this host was short of memory and the peer took nothing of what it was sent")]
    OutOfMemory,
    /// The host's address ended: its lease or its lifetime is over.
    #[error("this host has lost the connection's address")]
    AddressLost,
    /// Nobody on the link answers for the next hop's address, or a router reports it
    /// unreachable.
    #[error(
        "no route to the peer: nobody on the link answers for the next hop, or a router has no way; check addresses and cabling"
    )]
    Unreachable,
    /// A filter on the way, or the peer's own, refuses the connection: ICMP's "administratively
    /// prohibited".
    #[error(
        "the connection is forbidden (ICMP \"administratively prohibited\"): the way to the peer works, but a firewall or the \
         policy of a proxy refuses this address or port; change the rule there, or use another"
    )]
    Prohibited,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recv {
    /// Number of bytes read.
    Data(usize),
    /// Nothing is there now; a `Readable` event follows.
    Empty,
    /// The peer has closed its half; nothing will follow.
    EndOfStream,
}

/// How a SYN is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// By a reset: the connection is refused.
    Reset,
    /// By the ICMP error "host unreachable" (RFC 792, RFC 4443: "address unreachable").
    HostUnreachable,
    /// By the ICMP error "port unreachable".
    PortUnreachable,
    /// By the ICMP error "administratively prohibited".
    Prohibited,
    /// By nothing: the peer sends it again until it times out.
    Silence,
}

/// Why a socket call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The handle names no socket (any more).
    #[error("no such socket: it was closed, or belongs to another host")]
    NoSuchSocket,
    /// The sending half was shut down.
    #[error("the sending half was shut down; nothing more can be written")]
    Shutdown,
    /// The connection is over.
    #[error("the connection is closed")]
    Closed,
    /// The value is outside the option's range ([`SocketOption`]).
    #[error("the value is outside the option's range")]
    Invalid,
}

/// An option of an open connection, as `setsockopt` has them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SocketOption {
    /// Replaces the congestion controller; it begins with the window of the one before
    /// (`TCP_CONGESTION`).
    Congestion(Factory),
    /// True: only full segments leave, so that a message written in parts fills them. What is left
    /// leaves when it is false again, with a FIN, or after 200 ms without data in flight
    /// (`TCP_CORK`).
    Cork(bool),
    /// Probes of an idle peer, with neither time nor their number zero, or `None` (`SO_KEEPALIVE`).
    Keepalive(Option<Keepalive>),
    /// Closing with undelivered data; see [`TcpConfig::linger`](crate::TcpConfig::linger)
    /// (`SO_LINGER`).
    Linger(Option<Duration>),
    /// Upper bound of the pacing rate; `None`: what the controller requests (`SO_MAX_PACING_RATE`).
    /// Where [`Pacing`] is off, it turns to internal.
    MaxPacingRate(Option<Rate>),
    /// Most payload of a segment sent from now on, 88 to 32 767 bytes (`TCP_MAXSEG`). It only
    /// lowers what the handshake agreed to.
    MaxSegment(u16),
    /// True: small segments do not wait for acknowledgments (`TCP_NODELAY`).
    Nodelay(bool),
    /// See [`TcpConfig::notsent_lowat`](crate::TcpConfig::notsent_lowat) (`TCP_NOTSENT_LOWAT`).
    NotsentLowat(Option<Bytes>),
    /// Place where departures are spaced from now on; what was sent counts as departed.
    Pacing(Pacing),
    /// Size of the receive buffer, at least 1152 bytes (Linux `SOCK_MIN_RCVBUF` of payload), which
    /// no longer follows what is read (`SO_RCVBUF`; also `TCP_WINDOW_CLAMP`, because the buffer is
    /// what bounds the window). The scale of the handshake limits the window as before, and what
    /// was offered stays offered.
    ReceiveBuffer(Bytes),
    /// Size of the send buffer, at least 2304 bytes (Linux `SOCK_MIN_SNDBUF` of payload), which no
    /// longer follows the congestion window (`SO_SNDBUF`). Written data stays.
    SendBuffer(Bytes),
    /// TOS byte or traffic class of what is sent from now on, but for its two bits of ECN
    /// (`IP_TOS`).
    Tos(u8),
    /// Longest time without progress before the connection ends; `None` or zero: its retries decide
    /// (`TCP_USER_TIMEOUT`).
    UserTimeout(Option<Duration>),
}

/// Range of the most payload of a segment, in bytes (Linux `TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
pub(crate) const MAX_SEGMENT: std::ops::RangeInclusive<u16> = 88..=32_767;

impl SocketOption {
    /// True if the value is in the range that the option's documentation names.
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Keepalive(keepalive) => keepalive.is_none_or(|keepalive| keepalive.is_valid()),
            Self::MaxPacingRate(rate) => *rate != Some(Rate::ZERO),
            Self::MaxSegment(most) => MAX_SEGMENT.contains(most),
            Self::ReceiveBuffer(size) => size.get() >= 1152,
            Self::SendBuffer(size) => size.get() >= 2304,
            _ => true,
        }
    }
}

/// Listening address: a port of the host, or of one of its addresses.
///
/// Made of a `u16`: connections to every address. Made of a [`SocketAddr`]: those to that address;
/// `0.0.0.0` stands for every address of IPv4, `::` for every one of both families. A connection
/// goes to the most specific listener: the address before the family before the port alone, and all
/// of these before a listener on [`every_port`](Self::every_port).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenAt {
    address: SocketAddr,
    is_every_port: bool,
}

impl ListenAt {
    /// Every port of `address`; unspecified, of every address. With
    /// [`HostConfig::owned`](crate::HostConfig::owned) a host can so impersonate all destinations
    /// behind it; [`Host::local`](crate::Host::local) returns the requested one.
    pub fn every_port(address: impl Into<IpAddr>) -> Self {
        Self {
            address: SocketAddr::new(address.into().to_canonical(), 0),
            is_every_port: true,
        }
    }

    /// The address, unspecified for more than one, and the port; 0 for every port.
    pub fn address(self) -> SocketAddr {
        self.address
    }

    /// Whether it matches every port.
    pub fn is_every_port(self) -> bool {
        self.is_every_port
    }
}

impl From<u16> for ListenAt {
    fn from(port: u16) -> Self {
        (Ipv6Addr::UNSPECIFIED, port).into()
    }
}

impl<A: Into<IpAddr>> From<(A, u16)> for ListenAt {
    fn from((address, port): (A, u16)) -> Self {
        SocketAddr::new(address.into(), port).into()
    }
}

impl From<SocketAddr> for ListenAt {
    fn from(address: SocketAddr) -> Self {
        // The socket API's way to write an IPv4 address as one of IPv6 (RFC 4291 §2.5.5.2).
        Self {
            address: SocketAddr::new(address.ip().to_canonical(), address.port()),
            is_every_port: false,
        }
    }
}

impl From<SocketAddrV4> for ListenAt {
    fn from(address: SocketAddrV4) -> Self {
        SocketAddr::from(address).into()
    }
}

impl From<SocketAddrV6> for ListenAt {
    fn from(address: SocketAddrV6) -> Self {
        SocketAddr::from(address).into()
    }
}

/// Why `listen` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Port 0 cannot be listened on; [`ListenAt::every_port`] stands for all.
    #[error("port 0 cannot be listened on: name a port from 1 to 65535")]
    PortZero,
    /// Another listener has the port, of the same address; 0: [every port](ListenAt::every_port).
    #[error("{} in use by another listener of this host", ports(*.0))]
    InUse(u16),
    /// The address is not one of this host's.
    #[error("{0} is not an address of this host")]
    NotOurs(IpAddr),
}

/// The subject of [`ListenError::InUse`].
fn ports(port: u16) -> String {
    if port == 0 {
        "every port is".to_owned()
    } else {
        format!("port {port} is")
    }
}

/// Why `connect` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is unspecified, broadcast, multicast, our own, or the port is 0.
    #[error(
        "{0} cannot be connected to: it must be another host's unicast address and a port from 1 to 65535"
    )]
    BadAddress(SocketAddr),
    /// No address of ours is of its family, or it is off-link and no route leads there.
    #[error(
        "no route to {0}: no address of ours is of its family, or it is not on a network of ours and no gateway is configured"
    )]
    NoRoute(IpAddr),
    /// The source address is not one of this host's.
    #[error("{0} is not an address of this host")]
    NotOurs(IpAddr),
    /// A connection between these ends exists.
    #[error("a connection from {0} to {1} exists")]
    InUse(SocketAddr, SocketAddr),
    /// Every port of the range towards this peer is taken.
    #[error(
        "all local ports towards {0} are in use; close connections or wait for TIME-WAIT to pass"
    )]
    NoPort(SocketAddr),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_valid_within_the_ranges_they_name() {
        let usual = Keepalive::default();
        let [now, at_once, never] = [
            Keepalive {
                idle: Duration::ZERO,
                ..usual
            },
            Keepalive {
                interval: Duration::ZERO,
                ..usual
            },
            Keepalive { probes: 0, ..usual },
        ];
        for (option, is_valid) in [
            (SocketOption::Keepalive(None), true),
            (SocketOption::Keepalive(Some(Keepalive::default())), true),
            (SocketOption::Keepalive(Some(now)), false),
            (SocketOption::Keepalive(Some(at_once)), false),
            (SocketOption::Keepalive(Some(never)), false),
            (SocketOption::MaxPacingRate(Some(Rate::ZERO)), false),
            (SocketOption::MaxPacingRate(None), true),
            (SocketOption::MaxSegment(87), false),
            (SocketOption::MaxSegment(88), true),
            (SocketOption::ReceiveBuffer(Bytes::new(1151)), false),
            (SocketOption::ReceiveBuffer(Bytes::new(1152)), true),
            (SocketOption::SendBuffer(Bytes::new(2303)), false),
            (SocketOption::SendBuffer(Bytes::new(2304)), true),
            (SocketOption::Tos(0), true),
        ] {
            assert_eq!(option.is_valid(), is_valid, "{option:?}");
        }
    }

    #[test]
    fn a_listener_on_every_port_is_not_one_on_port_0() {
        let text = |port| ListenError::InUse(port).to_string();
        assert_eq!(
            [text(0), text(80)],
            [
                "every port is in use by another listener of this host",
                "port 80 is in use by another listener of this host"
            ]
        );
    }
}
