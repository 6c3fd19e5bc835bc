//! [`Subnet`]: the addresses of a gateway and its sandboxes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of 24 bits, numbered as slirp does, and one of 48 bits of IPv6 that follows from it: of
/// 10.0.2.0/24 it is fd00:a00:200::/48. There each sandbox has a network of 64 bits of its own, so that
/// it may choose its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet([u8; 3]);

impl Default for Subnet {
    /// 10.0.2.0/24.
    fn default() -> Self {
        Self([10, 0, 2])
    }
}

impl Subnet {
    /// Bits of the network.
    pub const PREFIX: u8 = 24;
    /// Bits of a sandbox's network of IPv6.
    pub const PREFIX_V6: u8 = 64;
    /// Bits of the network of IPv6 that holds all others.
    pub(super) const ALL_V6: u8 = 48;
    /// Every sandbox's router of IPv6.
    pub const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    /// Sandboxes that have an address.
    pub const SANDBOXES: usize = 240;
    /// Last byte of the first sandbox's address.
    const FIRST: u8 = 15;

    /// The network of `address`.
    pub fn of(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        Self([a, b, c])
    }

    const fn host(self, number: u8) -> Ipv4Addr {
        let [a, b, c] = self.0;
        Ipv4Addr::new(a, b, c, number)
    }

    /// Host `number` of network `network` of IPv6, a unique local address (RFC 4193; not a random one, so
    /// that it is always the same).
    const fn host_v6(self, network: u8, number: u8) -> Ipv6Addr {
        let [a, b, c] = self.0;
        let [high, low] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, 0])];
        Ipv6Addr::new(0xfd00, high, low, network as u16, 0, 0, 0, number as u16)
    }

    /// The gateway: host 2.
    pub fn gateway(self) -> Ipv4Addr {
        self.host(2)
    }

    /// The server for names: host 3.
    pub fn resolver(self) -> Ipv4Addr {
        self.host(3)
    }

    /// The gateway's address of IPv6.
    pub fn gateway_v6(self) -> Ipv6Addr {
        self.host_v6(0, 2)
    }

    /// The address of IPv6 of the server for names.
    pub fn resolver_v6(self) -> Ipv6Addr {
        self.host_v6(0, 3)
    }

    /// Whether `address` is the gateway's.
    pub(super) fn is_gateway(self, address: IpAddr) -> bool {
        address == self.gateway() || address == self.gateway_v6()
    }

    /// Whether `address` is that of the server for names.
    pub(super) fn is_resolver(self, address: IpAddr) -> bool {
        address == self.resolver() || address == self.resolver_v6()
    }

    /// The address of IPv6 that the gateway gives to a sandbox, from 0 on; any other in its network is the
    /// sandbox's, too.
    pub fn sandbox_v6(self, number: usize) -> Ipv6Addr {
        let number = self.sandbox(number).octets()[3];
        self.host_v6(number, number)
    }

    /// The network of IPv6 of a sandbox, from 0 on.
    pub fn network_v6(self, number: usize) -> Ipv6Addr {
        self.host_v6(self.sandbox(number).octets()[3], 0)
    }

    /// A sandbox, from 0 on: host 15 and following. Numbers beyond [`SANDBOXES`](Self::SANDBOXES)
    /// share the last address.
    pub fn sandbox(self, number: usize) -> Ipv4Addr {
        let number = number.min(Self::SANDBOXES - 1) as u8;
        self.host(Self::FIRST + number)
    }

    /// The mask.
    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::new(255, 255, 255, 0)
    }

    /// Whether `address` is in one of its networks.
    pub fn contains(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => Self::of(address) == self,
            IpAddr::V6(address) => address.segments()[..3] == self.gateway_v6().segments()[..3],
        }
    }

    /// The number of the sandbox that has `address`.
    pub fn number_of(self, address: IpAddr) -> Option<usize> {
        let number = match address {
            IpAddr::V4(address) => u16::from(address.octets()[3]),
            IpAddr::V6(address) => address.segments()[3],
        };
        let number = usize::from(number.checked_sub(Self::FIRST.into())?);
        (self.contains(address) && number < Self::SANDBOXES).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sandbox_has_an_address_of_its_own() {
        let subnet = Subnet::of([192, 168, 7, 200].into());
        for number in 0..Subnet::SANDBOXES {
            let (address, v6) = (subnet.sandbox(number), subnet.sandbox_v6(number));
            assert_eq!(subnet.number_of(address.into()), Some(number));
            assert_eq!(subnet.number_of(v6.into()), Some(number));
            let mut chosen = subnet.network_v6(number).segments();
            chosen[4..].copy_from_slice(&[1, 2, 3, 4]);
            assert_eq!(subnet.number_of(IpAddr::from(chosen)), Some(number));
            assert!(!address.is_broadcast() && address.octets()[3] < 255);
        }
        let others: [IpAddr; 7] = [
            subnet.gateway().into(),
            subnet.resolver().into(),
            subnet.gateway_v6().into(),
            subnet.resolver_v6().into(),
            Ipv4Addr::new(10, 0, 2, 15).into(),
            Ipv4Addr::new(192, 168, 7, 255).into(),
            Subnet::default().sandbox_v6(0).into(),
        ];
        for other in others {
            assert_eq!(subnet.number_of(other), None, "{other}");
        }
        let first = Subnet::default().sandbox_v6(0);
        assert_eq!(first.to_string(), "fd00:a00:200:f::f");
    }
}
