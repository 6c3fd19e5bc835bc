//! Configured addresses: [`Cidr`], an address with the length of its prefix, and [`Route`]. The
//! definition of a host address follows RFC 1122 §3.2.1.3 and RFC 4291 §2.4.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and how many of its bits name the network: `10.0.0.1/24`, `2001:db8::1/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Every IPv4 address.
    pub const ALL_IPV4: Self = Self {
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        prefix: 0,
    };
    /// Every IPv6 address.
    pub const ALL_IPV6: Self = Self {
        address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        prefix: 0,
    };

    /// `address` in a network whose name is `prefix` bits long. No prefix is longer than the
    /// address: 32 or 128 bits.
    pub fn new(address: impl Into<IpAddr>, prefix: u8) -> Self {
        let address = address.into();
        Self {
            address,
            prefix: prefix.min(width(address)),
        }
    }

    /// The address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Bits of the network's name.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether `other` is an address of this network.
    pub fn contains(self, other: IpAddr) -> bool {
        self.address.is_ipv4() == other.is_ipv4() && common_bits(self.address, other) >= self.prefix
    }

    /// The broadcast address of an IPv4 network (RFC 919); `None` for networks of one or two
    /// addresses (RFC 3021).
    pub fn broadcast(self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(address) if self.prefix < 31 => Some(Ipv4Addr::from_bits(
                address.to_bits() | u32::MAX >> self.prefix,
            )),
            _ => None,
        }
    }
}

/// An address without a prefix is one host.
impl<A: Into<IpAddr>> From<A> for Cidr {
    fn from(address: A) -> Self {
        Self::new(address, u8::MAX)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Text that is not an address with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address with the length of its prefix: write 10.0.0.1/24 or 2001:db8::1/64")]
pub struct BadCidr(String);

impl FromStr for Cidr {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Self, BadCidr> {
        let parts = text.split_once('/').and_then(|(address, prefix)| {
            let address: IpAddr = address.parse().ok()?;
            let prefix = prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= width(address))?;
            Some(Self { address, prefix })
        });
        parts.ok_or_else(|| BadCidr(text.to_owned()))
    }
}

/// The router for a network that is not on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The network.
    pub to: Cidr,
    /// The router, assumed to be on the link. A route is never used if its families differ.
    pub via: IpAddr,
}

impl Route {
    /// A way to `to` through `via`.
    pub fn new(to: impl Into<Cidr>, via: impl Into<IpAddr>) -> Self {
        Self {
            to: to.into(),
            via: via.into(),
        }
    }

    /// The way to everything of the family of `via`.
    pub fn default_via(via: impl Into<IpAddr>) -> Self {
        let via = via.into();
        Self {
            to: if via.is_ipv4() {
                Cidr::ALL_IPV4
            } else {
                Cidr::ALL_IPV6
            },
            via,
        }
    }
}

/// Bits of an address.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Number of leading bits that two addresses of one family share.
pub(crate) fn common_bits(one: IpAddr, other: IpAddr) -> u8 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (one.to_bits() ^ other.to_bits()).leading_zeros() as u8
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            (one.to_bits() ^ other.to_bits()).leading_zeros() as u8
        }
        _ => 0,
    }
}

/// Whether `address` can be the address of one host on a link. IPv4-mapped IPv6 addresses do not
/// qualify: they would deceive filters that know only one family (RFC 4942 §2.2).
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified() || v4.is_broadcast() || v4.is_multicast() || v4.is_loopback())
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_loopback()
                || v6.to_ipv4_mapped().is_some())
        }
    }
}

/// Scope of an address (RFC 4007, RFC 6724 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Link,
    Global,
}

impl Scope {
    pub(crate) fn of(address: IpAddr) -> Self {
        let link = match address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        if link { Self::Link } else { Self::Global }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect("an address with its prefix")
    }

    #[test]
    fn text_is_read_or_refused() {
        for text in [
            "10.7.0.1/24",
            "0.0.0.0/0",
            "10.7.0.1/32",
            "2001:db8::1/64",
            "::/0",
            "fe80::1/128",
        ] {
            assert_eq!(cidr(text).to_string(), text);
        }
        for text in [
            "",
            "/",
            "10.7.0.1",
            "10.7.0.1/33",
            "10.7.0/24",
            "10.7.0.1/-1",
            "::/129",
            "[::]/0",
            "fe80::1%2/64",
            "x/1",
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(BadCidr(text.to_owned())));
        }
        assert_eq!(Cidr::new(Ipv4Addr::LOCALHOST, 99).prefix(), 32);
        assert_eq!(Cidr::from(Ipv6Addr::LOCALHOST).prefix(), 128);
    }

    #[test]
    fn a_network_contains_its_own_and_has_a_broadcast_address() {
        let network = cidr("10.7.0.1/23");
        assert!(
            network.contains("10.7.1.255".parse().unwrap())
                && !network.contains("10.7.2.0".parse().unwrap())
        );
        assert!(!network.contains("::ffff:10.7.0.9".parse().unwrap()));
        assert_eq!(network.broadcast(), Some(Ipv4Addr::new(10, 7, 1, 255)));
        assert_eq!(cidr("10.7.0.0/31").broadcast(), None);
        assert_eq!(Cidr::ALL_IPV4.broadcast(), Some(Ipv4Addr::BROADCAST));
        assert!(
            Cidr::ALL_IPV4.contains(Ipv4Addr::BROADCAST.into())
                && Cidr::ALL_IPV6.contains(Ipv6Addr::LOCALHOST.into())
        );
        assert!(cidr("2001:db8::/32").contains("2001:db8:ffff::1".parse().unwrap()));
        assert!(!cidr("2001:db8::/32").contains("2001:db9::".parse().unwrap()));
    }

    #[test]
    fn an_address_of_no_single_host_is_told_apart() {
        for text in [
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "127.0.0.1",
            "::",
            "::1",
            "ff02::1",
            "::ffff:10.7.0.1",
        ] {
            assert!(!is_unicast(text.parse().unwrap()), "{text}");
        }
        for text in [
            "10.7.0.1",
            "169.254.0.1",
            "fe80::1",
            "2001:db8::1",
            "fd00::1",
        ] {
            assert!(is_unicast(text.parse().unwrap()), "{text}");
        }
    }
}
