//! UDP (RFC 768, RFC 1122 §4.1, RFC 8085 for what a host owes the network): datagram sockets,
//! without any I/O.
//!
//! A datagram takes the same path as a segment: socket queue, frame, qdisc, DQL, ring, completion.
//! Datagrams below the socket are charged to it until they complete, so a sender that is faster
//! than the link finds its own socket full instead of filling the qdisc.

pub(crate) mod queue;
pub(crate) mod socket;

use std::net::SocketAddr;

use tautline_base::{Bytes, Ecn};

use crate::socket::PathError;

/// Configuration of a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// Most outgoing bytes: in the socket, the qdisc and the ring, headers included. Default 208 KiB (Linux `net.core.wmem_default`).
    pub send_buffer: Bytes,
    /// Most of these bytes below the socket, as TCP Small Queues bounds them for connections; the
    /// rest waits in the socket. Default `None` (Linux has no such limit for UDP).
    pub below: Option<Bytes>,
    /// Most unread received bytes; datagrams that do not fit are dropped and counted. Default 208 KiB (Linux `net.core.rmem_default`).
    pub receive_buffer: Bytes,
    /// Most unread received datagrams. Default 512: about as many small ones as Linux's accounting
    /// of buffer memory admits.
    pub receive_datagrams: usize,
    /// TOS byte, or traffic class, of every datagram, but for its two bits of ECN; the local
    /// priority follows it (Linux `IP_TOS`). Default 0.
    pub tos: u8,
    /// Sends to, and receives from, broadcast addresses (`SO_BROADCAST`). Default off. Linux asks
    /// this only of senders.
    pub broadcast: bool,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            send_buffer: Bytes::kib(208),
            below: None,
            receive_buffer: Bytes::kib(208),
            receive_datagrams: 512,
            tos: 0,
            broadcast: false,
        }
    }
}

/// Why a datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The handle names no datagram socket (any more).
    #[error("no such socket: it was closed, or belongs to another host")]
    NoSuchSocket,
    /// No destination was named, and the socket is not connected.
    #[error("no destination: name one, or connect the socket")]
    NotConnected,
    /// The send buffer is full; a `Writable` event follows.
    #[error("the socket has as much on its way as it may have")]
    Full,
    /// It does not fit into one packet.
    #[error("{len} bytes do not fit into a packet: at most {most}; datagrams are not fragmented")]
    TooLong {
        /// Bytes of its payload.
        len: usize,
        /// Longest payload that fits, in bytes.
        most: usize,
    },
    /// The destination is a broadcast address, and the socket may not broadcast.
    #[error("{0} is a broadcast address: the socket must be allowed to broadcast")]
    Broadcast(SocketAddr),
    /// The address cannot be that of another host, or the port is 0.
    #[error("{0} cannot be sent to: it must be another host's address and a port from 1 to 65535")]
    BadAddress(SocketAddr),
    /// The address to send from is not this host's, or not any more, or its port is 0.
    #[error("{0} cannot be sent from: it must be this host's address and a port from 1 to 65535")]
    BadSource(SocketAddr),
    /// No route leads there, or no address of ours is of its family.
    #[error("no route to {0}")]
    NoRoute(SocketAddr),
    /// An earlier datagram did not arrive; reported once.
    #[error(transparent)]
    Path(PathError),
}

/// Why a socket was not bound or connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address is not one of this host's.
    #[error("{0} is not an address of this host")]
    NotOurs(SocketAddr),
    /// Another socket has the port.
    #[error("{0} is in use by another socket of this host")]
    InUse(SocketAddr),
    /// Every port of the range is taken.
    #[error("all local ports are in use; close sockets")]
    NoPort,
}

/// Ends and ECN field of one outgoing datagram; the defaults are those of the socket, and not
/// ECN-capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// Any address and port of the host in place of the socket's (Linux `IP_PKTINFO`).
    pub from: Option<SocketAddr>,
    /// The destination in place of the connected peer.
    pub to: Option<SocketAddr>,
    /// ECN field. A sender that sets it reacts to the marks its peer reports (RFC 8085 §3.1.7).
    pub ecn: Ecn,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            from: None,
            to: None,
            ecn: Ecn::NotEct,
        }
    }
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes written to the buffer.
    pub len: usize,
    /// Length of its payload; bytes that did not fit into the buffer are discarded.
    pub whole: usize,
    /// The sender's address.
    pub from: SocketAddr,
    /// The destination address: an address of this host.
    pub to: SocketAddr,
    /// Its ECN field on arrival (Linux `IP_RECVTOS`).
    pub ecn: Ecn,
}

/// The result of a read from a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpRecv {
    /// A datagram.
    Datagram(Datagram),
    /// The receive queue is empty; a `Readable` event follows.
    Empty,
    /// An earlier datagram was not delivered; reported once.
    Failed(PathError),
}

/// Counters and queue lengths of a datagram socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpInfo {
    /// Datagrams that were handed to the qdisc.
    pub sent: u64,
    /// Datagrams that were put into the receive queue.
    pub received: u64,
    /// Received datagrams that found the receive queue full.
    pub overflowed: u64,
    /// Outgoing datagrams dropped inside this host.
    pub local_drops: u64,
    /// Datagrams discarded because the next hop did not resolve, too many waited for it, route or
    /// source address ended meanwhile, or the link's MTU fell below their length.
    pub unresolved: u64,
    /// Number of times the limit below the socket held a datagram back.
    pub throttles: u64,
    /// Outgoing bytes: in the socket and below it.
    pub sending: Bytes,
    /// Outgoing bytes below the socket: in the qdisc and the ring.
    pub below: Bytes,
    /// Unread received bytes.
    pub unread: Bytes,
}
