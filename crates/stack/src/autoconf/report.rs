//! [`Configuration`]: addresses and routers of a host, for its application.

use std::net::IpAddr;

use crate::address::Cidr;
use crate::addressing::Addressing;

/// Addresses and routers that a host has now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Configuration {
    /// Its addresses, each with its network.
    pub addresses: Vec<Cidr>,
    /// Addresses that are tested for duplicates, and not used before.
    pub tentative: Vec<IpAddr>,
    /// Addresses that another host has: they are not used.
    pub duplicates: Vec<IpAddr>,
    /// Default routers, the preferred one of each family first.
    pub routers: Vec<IpAddr>,
}

impl Configuration {
    /// The configuration of a host that uses all its addresses.
    pub(crate) fn of(addressing: &Addressing) -> Self {
        Self {
            addresses: addressing.configured().collect(),
            routers: addressing.default_routers().collect(),
            ..Self::default()
        }
    }
}
