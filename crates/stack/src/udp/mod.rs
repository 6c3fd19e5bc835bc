//! UDP (RFC 768, RFC 1122 §4.1, RFC 8085 for what a host owes the network): datagram sockets,
//! without any I/O.
//!
//! A datagram walks the same way down as a segment: queue of the socket, frame, discipline, limit,
//! ring, completion. What waits below the socket is charged to it, and settling gives the charge
//! back, so that a sender that is faster than the link finds its own socket full instead of filling
//! the discipline.
//!
//! | module | holds |
//! |---|---|
//! | `socket` | one socket: its two queues and its account |
//! | `queue` | datagrams in one ring of bytes |

pub(crate) mod queue;
pub(crate) mod socket;

use std::net::SocketAddr;

use tautline_base::Bytes;

use crate::socket::PathError;

/// How a datagram socket behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// Most bytes on their way out: in the socket, in the discipline and in the ring; headers are
    /// counted too. Default 208 KiB (Linux `net.core.wmem_default`).
    pub send_buffer: Bytes,
    /// Most of these bytes that may wait below the socket, as TCP Small Queues bound it for
    /// connections; the rest waits in the socket. Default none (Linux has no such limit for UDP).
    pub below: Option<Bytes>,
    /// Most received bytes the application may leave unread; what does not fit is dropped and
    /// counted. Default 208 KiB (Linux `net.core.rmem_default`).
    pub receive_buffer: Bytes,
    /// Most received datagrams the application may leave unread. Default 512: about as many small
    /// ones as Linux' accounting of buffer memory lets in.
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

/// Why a datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The handle names no datagram socket (any more).
    #[error("no such socket: it was closed, or belongs to another host")]
    NoSuchSocket,
    /// No destination was named, and the socket is not connected.
    #[error("no destination: name one, or connect the socket")]
    NotConnected,
    /// As much is on its way as may be; a `Writable` event follows.
    #[error("the socket has as much on its way as it may have")]
    Full,
    /// It does not fit into one packet.
    #[error("{len} bytes do not fit into a packet: at most {most}; datagrams are not fragmented")]
    TooLong {
        /// Its payload.
        len: usize,
        /// What fits.
        most: usize,
    },
    /// A broadcast address, and the socket does not broadcast.
    #[error("{0} is a broadcast address: the socket must be allowed to broadcast")]
    Broadcast(SocketAddr),
    /// The address cannot be that of another host, or the port is 0.
    #[error("{0} cannot be sent to: it must be another host's address and a port from 1 to 65535")]
    BadAddress(SocketAddr),
    /// No route leads there, or no address of ours is of its family.
    #[error("no route to {0}")]
    NoRoute(SocketAddr),
    /// An earlier datagram did not arrive; told once.
    #[error(transparent)]
    Path(PathError),
}

/// Why a socket was not bound or connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// It is none of this host's addresses.
    #[error("{0} is not an address of this host")]
    NotOurs(SocketAddr),
    /// Another socket has the port.
    #[error("{0} is in use by another socket of this host")]
    InUse(SocketAddr),
    /// Every port of the range is taken.
    #[error("all local ports are in use; close sockets")]
    NoPort,
}

/// A datagram that was received: so many bytes of it were given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes written to the buffer.
    pub len: usize,
    /// Its whole length; what did not fit into the buffer is gone.
    pub whole: usize,
    /// Who sent it.
    pub from: SocketAddr,
}

/// What reading from a datagram socket found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpRecv {
    /// A datagram.
    Datagram(Datagram),
    /// None is there now; a `Readable` event follows.
    Empty,
    /// An earlier datagram did not arrive; told once.
    Failed(PathError),
}

/// What a datagram socket has counted, and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpInfo {
    /// Datagrams that were handed to the discipline.
    pub sent: u64,
    /// Datagrams that were put into the receive queue.
    pub received: u64,
    /// Received datagrams that found the receive queue full.
    pub overflowed: u64,
    /// Datagrams dropped inside this host on their way out.
    pub local_drops: u64,
    /// Datagrams given up because nobody answered for the next hop, or too many waited for an
    /// answer.
    pub unresolved: u64,
    /// How often the limit of what may wait below the socket held a datagram back.
    pub throttles: u64,
    /// Bytes on their way out.
    pub sending: Bytes,
    /// Those of them below the socket: in discipline and ring.
    pub below: Bytes,
    /// Received bytes that wait for the application.
    pub unread: Bytes,
}
