//! Addresses of hosts: 10.7.0.0/16, fd07::/64, and locally administered MAC addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// The address of host `number`.
    pub(crate) fn address(self, number: usize) -> IpAddr {
        match self {
            Self::Ipv4 => address(number).into(),
            Self::Ipv6 => Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, number as u16 + 1).into(),
        }
    }
}

/// The address of host `number`, in 10.7.0.0/16.
pub(crate) fn address(number: usize) -> Ipv4Addr {
    let [high, low] = (number as u16).wrapping_add(1).to_be_bytes();
    Ipv4Addr::new(10, 7, high, low)
}

/// The MAC address of host `number`.
pub(crate) fn mac(number: usize) -> [u8; 6] {
    let [high, low] = (number as u16).wrapping_add(1).to_be_bytes();
    [2, 0, 0, 0, high, low]
}
