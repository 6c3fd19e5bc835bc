//! [`Lease`]: what a server grants, checked.

use std::net::Ipv4Addr;
use std::time::Duration;

use smoltcp::wire::DhcpRepr;
use tautline_base::Instant;

use crate::address::{Cidr, is_unicast};

/// No lease is shorter; a server that means less would be asked all the time.
const LEAST_LEASE: Duration = Duration::from_secs(60);
/// Nor does renewal begin earlier.
const LEAST_RENEWAL: Duration = Duration::from_secs(30);
/// Seconds of a lease that never ends (RFC 2131 §3.3).
const INFINITE: u32 = u32::MAX;

/// An address, for a time, with what the server says about its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// Bits of its network's name.
    pub prefix: u8,
    /// The first router that the server names, if it is on that network.
    pub router: Option<Ipv4Addr>,
    /// DNS servers, four at most.
    pub dns: Vec<Ipv4Addr>,
    /// The server that grants it.
    pub server: Ipv4Addr,
    /// For how long; `None`: for ever.
    pub duration: Option<Duration>,
    /// T1 and T2, after which it is renewed by its server, then by any (RFC 2131 §4.4.5).
    pub(super) renewal: (Duration, Duration),
}

/// When a lease is renewed and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    pub(super) renew: Instant,
    pub(super) rebind: Instant,
    pub(super) expiry: Instant,
}

impl Lease {
    /// The lease that `reply` offers or grants; `None` if no host could use it.
    pub(super) fn of(reply: &DhcpRepr<'_>, router: Option<Ipv4Addr>) -> Option<Self> {
        let is_host = |address: &Ipv4Addr| is_unicast((*address).into());
        let server = reply.server_identifier.filter(is_host)?;
        let own = Some(reply.your_ip).filter(is_host)?;
        let mask = reply.subnet_mask?.to_bits();
        let prefix = mask.leading_ones();
        if prefix == 0 || mask.count_ones() != prefix {
            return None;
        }
        let network = Cidr::new(own, prefix as u8);
        let is_network = prefix < 31 && own.to_bits() & !mask == 0;
        if is_network || network.broadcast() == Some(own) {
            return None;
        }
        let is_router = |router: &Ipv4Addr| {
            is_host(router)
                && *router != own
                && network.contains((*router).into())
                && network.broadcast() != Some(*router)
        };
        let seconds = reply.lease_duration?;
        let lease = Duration::from_secs(seconds.into());
        if lease < LEAST_LEASE {
            return None;
        }
        let dns = reply.dns_servers.iter().flatten().copied();
        Some(Self {
            address: own,
            prefix: network.prefix(),
            router: router.filter(is_router),
            dns: dns.filter(is_host).collect(),
            server,
            duration: (seconds != INFINITE).then_some(lease),
            renewal: renewal(lease, [reply.renew_duration, reply.rebind_duration]),
        })
    }

    /// The address in its network.
    pub fn cidr(&self) -> Cidr {
        Cidr::new(self.address, self.prefix)
    }

    /// Its timers if it begins at `now`; `None`: it never ends.
    pub(super) fn timers(&self, now: Instant) -> Option<Timers> {
        let (renew, rebind) = self.renewal;
        self.duration.map(|duration| Timers {
            renew: now + renew,
            rebind: now + rebind,
            expiry: now + duration,
        })
    }
}

/// T1 and T2 of a lease: the server's if they make sense, else a half and seven eighths (RFC 2131
/// §4.4.5).
fn renewal(lease: Duration, given: [Option<u32>; 2]) -> (Duration, Duration) {
    let seconds = |given: Option<u32>| given.map(|seconds| Duration::from_secs(seconds.into()));
    let rebind = seconds(given[1])
        .filter(|rebind| (LEAST_RENEWAL..lease).contains(rebind))
        .unwrap_or(lease / 8 * 7);
    let renew = seconds(given[0])
        .filter(|renew| (LEAST_RENEWAL..rebind).contains(renew))
        .unwrap_or(lease / 2);
    (renew.min(rebind), rebind)
}
