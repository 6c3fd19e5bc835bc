//! [`LinkMtu`] and [`HopLimits`]: per family, since routers advertise those of IPv6 (RFC 4861 §6.3.4).

use std::net::IpAddr;

use crate::wire::HOP_LIMIT;

/// Longest packets of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkMtu {
    pub(crate) ipv4: usize,
    pub(crate) ipv6: usize,
}

impl LinkMtu {
    /// The same for both families.
    pub(crate) const fn new(mtu: usize) -> Self {
        Self {
            ipv4: mtu,
            ipv6: mtu,
        }
    }

    /// The limit for packets to `address`.
    pub(crate) fn of(self, address: IpAddr) -> usize {
        match address {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        }
    }
}

/// Hop limits of outgoing packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HopLimits {
    pub(crate) ipv6: u8,
}

impl HopLimits {
    /// The hop limit of packets to `address`.
    #[inline]
    pub(crate) fn of(self, address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(_) => HOP_LIMIT,
            IpAddr::V6(_) => self.ipv6,
        }
    }
}

impl Default for HopLimits {
    fn default() -> Self {
        Self { ipv6: HOP_LIMIT }
    }
}
