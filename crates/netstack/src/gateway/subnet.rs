//! [`Subnet`]: the addresses of a gateway and its sandboxes.

use std::net::Ipv4Addr;

/// A network of 24 bits, numbered as slirp does.
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

    /// The gateway: host 2.
    pub fn gateway(self) -> Ipv4Addr {
        self.host(2)
    }

    /// The server for names: host 3.
    pub fn resolver(self) -> Ipv4Addr {
        self.host(3)
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

    /// Whether `address` is in this network.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        Self::of(address) == self
    }

    /// The number of the sandbox that has `address`.
    pub fn number_of(self, address: Ipv4Addr) -> Option<usize> {
        let number = usize::from(address.octets()[3].checked_sub(Self::FIRST)?);
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
            let address = subnet.sandbox(number);
            assert_eq!(subnet.number_of(address), Some(number));
            assert!(!address.is_broadcast() && address.octets()[3] < 255);
        }
        for other in [subnet.gateway(), subnet.resolver(), [10, 0, 2, 15].into()] {
            assert_eq!(subnet.number_of(other), None);
        }
        assert_eq!(subnet.number_of([192, 168, 7, 255].into()), None);
    }
}
