//! [`Limits`]: what all connections of a host together may hold.

use std::time::Duration;

use tautline_base::Bytes;

/// Bounds that protect a host from its peers, and one connection from all others. Set with
/// [`Host::set_limits`](crate::Host::set_limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in TIME-WAIT without a handle; those that close beyond this limit are removed at
    /// once. Default 65 536 (Linux `tcp_max_tw_buckets` scales with memory). One takes about 150
    /// bytes.
    pub time_wait: usize,
    /// Connections that were closed and are still delivering or waiting for the peer's FIN; what is
    /// closed beyond it is reset. Default 8 192 (Linux `tcp_max_orphans` scales with memory).
    pub orphans: usize,
    /// Bytes in send and receive buffers, and of what is remembered about more than a few segments in
    /// flight. A receive window offers at most an eighth of what is free
    /// of them, so windows close as they fill. Beyond the limit those connections are reset that
    /// have been closed, or held back by a closed window, for longest; applications get little send
    /// buffer, and data from the network is dropped unless its connection holds next to nothing.
    /// Beyond five quarters of it those are reset, too, whose application has read nothing of what
    /// has arrived for 100 ms. Default 1 GiB (Linux `tcp_mem` scales with memory).
    ///
    /// Not counted: buffers of [`send_owned`](crate::TcpSocket::send_owned) that are acknowledged, or
    /// whose connection has ended, while a packet in qdisc or ring holds them. A packet holds
    /// [`MAX_FRAGMENTS`](tautline_base::MAX_FRAGMENTS) at most, and the pool of large frames bounds the
    /// packets.
    pub memory: Bytes,
    /// SYNs of [deferred](crate::TcpConfig::deferred_accept) listeners that wait for their application's
    /// answer; further ones are dropped. Default 4096. One takes about 300 bytes. Those with data take
    /// 118 bytes for each of this number, all together, and are dropped beyond that.
    pub requests: usize,
    /// Time after which such a SYN is dropped. Default 30 s.
    pub request_deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time_wait: 65_536,
            orphans: 8_192,
            memory: Bytes::mib(1024),
            requests: 4096,
            request_deadline: Duration::from_secs(30),
        }
    }
}
