//! [`Tuple`]: the two ends of a connection.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use crate::config::TcpConfig;
use crate::socket::MAX_SEGMENT;
use crate::wire::{TCP_HEADER, ip_header_len};

/// The two ends of a connection, as a host keys them. Both addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tuple {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
}

impl Tuple {
    /// The peer.
    pub(crate) fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.remote, self.remote_port)
    }

    /// Bytes of network and TCP header, without options.
    pub(crate) fn headers_len(&self) -> usize {
        ip_header_len(self.local) + TCP_HEADER
    }

    /// MSS assumed when the peer names none (RFC 9293 §3.7.1).
    pub(crate) fn default_mss(&self) -> u16 {
        if self.local.is_ipv4() { 536 } else { 1220 }
    }

    /// The MSS that our SYN announces, on a link of `mtu` bytes (RFC 9293 §3.7.1).
    pub(crate) fn own_mss(&self, mtu: usize, config: &TcpConfig) -> u16 {
        let fits = u16::try_from(mtu - self.headers_len()).unwrap_or(u16::MAX);
        let most = config.max_segment.unwrap_or(u16::MAX);
        fits.min(most.max(*MAX_SEGMENT.start()))
    }

    /// This end.
    pub(crate) fn here(&self) -> SocketAddr {
        SocketAddr::new(self.local, self.local_port)
    }
}

/// In few and whole words, because every arriving segment is looked up: 12 bytes of IPv4, 36 of
/// IPv6.
impl Hash for Tuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                state.write_u64(u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()));
            }
            (local, remote) => {
                for address in [local, remote] {
                    let bits = match address {
                        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                        IpAddr::V6(v6) => v6.to_bits(),
                    };
                    state.write_u64((bits >> 64) as u64);
                    state.write_u64(bits as u64);
                }
            }
        }
        state.write_u32(u32::from(self.local_port) << 16 | u32::from(self.remote_port));
    }
}
