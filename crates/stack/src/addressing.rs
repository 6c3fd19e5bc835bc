//! A host's own addresses, its routes, and the choice of the source address (RFC 6724 §5).

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};

use tautline_base::Medium;

use crate::address::{Cidr, Route, Scope, common_bits, is_unicast};
use crate::config::{HostConfig, LinkLocal};
use crate::keyed::Key;
use crate::wire::{IPV6_MIN_MTU, ndisc};

/// A host's own addresses and its routing table.
#[derive(Debug)]
pub(crate) struct Addressing {
    own: Vec<Cidr>,
    /// Addresses of ours that new conversations avoid (RFC 6724 §5, rule 3).
    deprecated: Vec<IpAddr>,
    /// Prefixes all of whose addresses are ours.
    owned: Vec<Cidr>,
    /// Networks, the longest prefix first, and the router to each; `None` on the link.
    routes: Vec<(Cidr, Option<IpAddr>)>,
    medium: Medium,
}

impl Addressing {
    /// Keeps the unicast addresses of `config`; the rest cannot be ours. IPv6 needs an `mtu` of
    /// at least its minimum.
    pub(crate) fn new(config: &HostConfig, medium: Medium, mtu: usize, key: &Key) -> Self {
        let speaks =
            |address: IpAddr| is_unicast(address) && (address.is_ipv4() || mtu >= IPV6_MIN_MTU);
        let link_local = link_local(config, medium, key).map(|address| Cidr::new(address, 64));
        let own: Vec<Cidr> = config
            .addresses
            .iter()
            .copied()
            .chain(link_local)
            .filter(|own| speaks(own.address()))
            .collect();
        let connected = own.iter().map(|own| (*own, None));
        let usable = |route: &&Route| {
            route.to.address().is_ipv4() == route.via.is_ipv4() && is_unicast(route.via)
        };
        let routed = config
            .routes
            .iter()
            .filter(usable)
            .map(|route| (route.to, Some(route.via)));
        let mut routes: Vec<_> = connected.chain(routed).collect();
        // Stable: of equals, the network on the link comes first, then the route named first.
        routes.sort_by_key(|(to, _)| Reverse(to.prefix()));
        let is_owned = |prefix: &&Cidr| prefix.address().is_ipv4() || mtu >= IPV6_MIN_MTU;
        Self {
            own,
            deprecated: Vec::new(),
            owned: config.owned.iter().filter(is_owned).copied().collect(),
            routes,
            medium,
        }
    }

    /// Takes all IPv6 addresses away, and the routes to their networks.
    pub(crate) fn take_ipv6(&mut self) -> Vec<Cidr> {
        let (taken, own): (Vec<_>, Vec<_>) = std::mem::take(&mut self.own)
            .into_iter()
            .partition(|own| own.address().is_ipv6());
        self.own = own;
        for cidr in &taken {
            self.remove_route(*cidr, None);
        }
        taken
    }

    /// Adds an address, whose network is on the link if it `is_connected`.
    pub(crate) fn assign(&mut self, cidr: Cidr, is_connected: bool) {
        if !self.is_listed(cidr.address()) {
            self.own.push(cidr);
        }
        if is_connected {
            self.add_route(cidr, None);
        }
    }

    /// Removes an address, and the route to its network.
    pub(crate) fn withdraw(&mut self, cidr: Cidr) {
        self.set_deprecated(cidr.address(), false);
        self.own.retain(|own| *own != cidr);
        self.remove_route(cidr, None);
    }

    /// New conversations use `address` only if there is no other.
    pub(crate) fn set_deprecated(&mut self, address: IpAddr, is_deprecated: bool) {
        self.deprecated.retain(|other| *other != address);
        if is_deprecated {
            self.deprecated.push(address);
        }
    }

    /// Adds a route behind its equals. False if there is one.
    pub(crate) fn add_route(&mut self, to: Cidr, via: Option<IpAddr>) -> bool {
        if self.routes.contains(&(to, via)) {
            return false;
        }
        let end = self.routes.partition_point(|(other, other_via)| {
            let rank = |to: &Cidr, via: &Option<IpAddr>| (Reverse(to.prefix()), via.is_some());
            rank(other, other_via) <= rank(&to, &via)
        });
        self.routes.insert(end, (to, via));
        true
    }

    /// Removes a route.
    pub(crate) fn remove_route(&mut self, to: Cidr, via: Option<IpAddr>) {
        self.routes.retain(|route| *route != (to, via));
    }

    /// Puts the default route through `router` behind its equals. False if it is the only one, or the
    /// last.
    pub(crate) fn demote_router(&mut self, router: IpAddr) -> bool {
        let mut equals = self.default_routers();
        let has_other = equals.any(|other| other == router) && equals.any(|_| true);
        drop(equals);
        if has_other {
            let route = (Cidr::ALL_IPV6, Some(router));
            self.remove_route(route.0, route.1);
            self.add_route(route.0, route.1);
        }
        has_other
    }

    /// Routers to everything else.
    pub(crate) fn default_routers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let default = self.routes.iter().filter(|(to, _)| to.prefix() == 0);
        default.filter_map(|(_, via)| *via)
    }

    /// Our link-local IPv6 address.
    pub(crate) fn link_local(&self) -> Option<Ipv6Addr> {
        self.own().find_map(|own| match own {
            IpAddr::V6(own) => Some(own).filter(Ipv6Addr::is_unicast_link_local),
            IpAddr::V4(_) => None,
        })
    }

    /// Our addresses with their networks.
    pub(crate) fn configured(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.own.iter().copied()
    }

    /// Whether `address` is one of ours.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.is_listed(address)
            || self.owned.iter().any(|prefix| prefix.contains(address)) && is_unicast(address)
    }

    /// Whether `address` is configured, not merely owned: neighbors may ask for it.
    pub(crate) fn is_listed(&self, address: IpAddr) -> bool {
        self.own.iter().any(|own| own.address() == address)
    }

    /// Whether `target` is ours and `destination` a way to ask for it: itself, or the group it is
    /// in (RFC 4861 §7.2.1).
    pub(crate) fn is_asked(&self, target: Ipv6Addr, destination: IpAddr) -> bool {
        self.is_listed(target.into())
            && (destination == target || destination == ndisc::solicited_node(target))
    }

    /// Whether `address` can be that of a host on the link. Claims about addresses elsewhere
    /// are of no use, and may be attacks (CVE-2008-2476).
    pub(crate) fn is_neighbor(&self, address: IpAddr) -> bool {
        let on_link = |(to, via): &(Cidr, Option<IpAddr>)| {
            *via == Some(address) || (via.is_none() && to.contains(address))
        };
        self.is_peer(address) && self.routes.iter().any(on_link)
    }

    /// Whether `address` can be that of another host.
    pub(crate) fn is_peer(&self, address: IpAddr) -> bool {
        is_unicast(address)
            && self.own.iter().all(|own| {
                own.address() != address && own.broadcast().map(IpAddr::V4) != Some(address)
            })
    }

    /// Our addresses.
    pub(crate) fn own(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.own.iter().map(|own| own.address())
    }

    /// Whether `address` means every host of a network of ours, or of the link.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        self.source_of_broadcast(address).is_some()
    }

    /// The source address for the broadcast address `address`; `None` if it is not one.
    pub(crate) fn source_of_broadcast(&self, address: IpAddr) -> Option<IpAddr> {
        let IpAddr::V4(wanted) = address else {
            return None;
        };
        if self.medium == Medium::Ip {
            return None;
        }
        let speaks = |own: &&Cidr| {
            own.address().is_ipv4() && (wanted.is_broadcast() || own.broadcast() == Some(wanted))
        };
        self.own.iter().find(speaks).map(|own| own.address())
    }

    /// The neighbor that packets for `destination` go to: itself on the link, else a router. Over IP
    /// every destination of a family that the host speaks is at the far end.
    pub(crate) fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
        if self.medium == Medium::Ip {
            let is_spoken = |own: &Cidr| own.address().is_ipv4() == destination.is_ipv4();
            let is_spoken = self.own.iter().chain(&self.owned).any(is_spoken);
            return is_spoken.then_some(destination);
        }
        let (_, via) = self
            .routes
            .iter()
            .find(|(to, _)| to.contains(destination))?;
        Some(via.unwrap_or(destination))
    }

    /// The source address for `destination`: one whose scope suffices but goes no further
    /// than needed (RFC 6724's rule 2), not deprecated (3), on the network of the next hop (as 5 prefers the outgoing
    /// interface's), sharing the longest prefix (8), named first.
    pub(crate) fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let next_hop = self.next_hop(destination)?;
        let needed = Scope::of(destination);
        let merit = |own: &Cidr| {
            let scope = Scope::of(own.address());
            let shared = common_bits(own.address(), destination).min(own.prefix());
            (
                scope >= needed,
                scope == needed,
                !self.deprecated.contains(&own.address()),
                own.contains(next_hop),
                shared,
            )
        };
        let family = self
            .own
            .iter()
            .filter(|own| own.address().is_ipv4() == destination.is_ipv4());
        // The last of equal maxima wins: look from the end.
        family
            .rev()
            .max_by_key(|own| merit(own))
            .map(|own| own.address())
    }
}

/// The link-local address of `config`.
fn link_local(config: &HostConfig, medium: Medium, key: &Key) -> Option<Ipv6Addr> {
    const NETWORK: u128 = 0xfe80 << 112;
    let secret = config.autoconfiguration.secret;
    let interface = match config.link_local {
        LinkLocal::None => return None,
        LinkLocal::FromMac if medium == Medium::Ip => return None,
        LinkLocal::FromMac => interface_of(config.mac),
        LinkLocal::Private => {
            let key = secret.map_or(*key, Key::from_seed);
            key.interface(config.mac)
        }
    };
    Some(Ipv6Addr::from_bits(NETWORK | u128::from(interface)))
}

/// The interface identifier of a hardware address (RFC 4291 appendix A).
pub(crate) fn interface_of([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addressing(addresses: &[&str], routes: &[(&str, &str)]) -> Addressing {
        let config = HostConfig::new([2, 0, 0, 0, 0, 1], 1);
        let config = HostConfig {
            link_local: LinkLocal::None,
            ..config
        };
        let config = addresses.iter().fold(config, |config, text| {
            config.address(text.parse::<Cidr>().unwrap())
        });
        let config = routes.iter().fold(config, |config, (to, via)| {
            config.route(Route::new(
                to.parse::<Cidr>().unwrap(),
                via.parse::<IpAddr>().unwrap(),
            ))
        });
        Addressing::new(&config, Medium::Ethernet, 1500, &Key::from_seed(1))
    }

    #[test]
    fn the_link_local_address_comes_from_the_mac_or_the_secret_or_not_at_all() {
        let own = |link_local, mtu| {
            let config = HostConfig {
                link_local,
                ..HostConfig::new([0x52, 0x54, 0, 0xab, 0xcd, 0xef], 1)
            };
            Addressing::new(&config, Medium::Ethernet, mtu, &Key::from_seed(1)).own
        };
        // RFC 4291 appendix A: the universal bit is inverted, ff:fe goes in the middle.
        assert_eq!(
            own(LinkLocal::FromMac, 1500),
            ["fe80::5054:ff:feab:cdef/64".parse().unwrap()]
        );
        let private = own(LinkLocal::Private, 1500);
        assert!(
            private[0].address() != own(LinkLocal::FromMac, 1500)[0].address()
                && private == own(LinkLocal::Private, 1500)
        );
        assert_eq!(
            (own(LinkLocal::None, 1500), own(LinkLocal::FromMac, 1279)),
            (vec![], vec![])
        );
    }

    #[test]
    fn a_neighbor_is_on_the_link() {
        let table = addressing(&["10.7.0.1/24", "fe80::1/64"], &[("::/0", "2001:db8::fe")]);
        for (text, expected) in [
            ("10.7.0.2", true),
            ("10.8.0.2", false),
            ("fe80::2", true),
            ("2001:db8::fe", true),
            ("2001:db8::2", false),
        ] {
            assert_eq!(table.is_neighbor(ip(text)), expected, "{text}");
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_longest_prefix_shows_the_way() {
        let routes = [
            ("0.0.0.0/0", "10.7.0.254"),
            ("10.8.0.0/16", "10.7.0.253"),
            ("10.7.0.9/32", "10.7.0.252"),
        ];
        let table = addressing(&["10.7.0.1/24", "192.168.1.1/30"], &routes);
        for (destination, next_hop) in [
            ("10.7.0.2", "10.7.0.2"),
            ("10.7.0.9", "10.7.0.252"),
            ("10.8.3.4", "10.7.0.253"),
            ("8.8.8.8", "10.7.0.254"),
            ("192.168.1.2", "192.168.1.2"),
            ("192.168.1.4", "10.7.0.254"),
        ] {
            assert_eq!(
                table.next_hop(ip(destination)),
                Some(ip(next_hop)),
                "{destination}"
            );
        }
        assert_eq!(table.next_hop(ip("2001:db8::1")), None);
    }

    #[test]
    fn routes_that_cannot_be_are_not_taken() {
        let table = addressing(
            &["10.7.0.1/24", "224.0.0.1/4"],
            &[("::/0", "10.7.0.254"), ("0.0.0.0/0", "255.255.255.255")],
        );
        assert_eq!(
            (
                table.next_hop(ip("2001:db8::1")),
                table.next_hop(ip("8.8.8.8"))
            ),
            (None, None)
        );
        assert!(!table.is_own(ip("224.0.0.1")));
    }

    #[test]
    fn the_source_reaches_as_far_as_needed_and_is_the_nearest() {
        let own = [
            "fe80::1/64",
            "2001:db8:1::1/64",
            "2001:db8:2::1/64",
            "10.7.0.1/24",
            "10.8.0.1/24",
            "10.8.0.3/24",
        ];
        let table = addressing(&own, &[("::/0", "fe80::fe"), ("0.0.0.0/0", "10.8.0.254")]);
        for (destination, source) in [
            ("fe80::2", "fe80::1"),
            ("2001:db8:1::9", "2001:db8:1::1"),
            ("2001:db8:2::9", "2001:db8:2::1"),
            ("2001:db8:2:ff::9", "2001:db8:2::1"),
            // All are equally near: the one named first.
            ("2a00::1", "2001:db8:1::1"),
            ("10.7.0.9", "10.7.0.1"),
            // On the router's network.
            ("8.8.8.8", "10.8.0.1"),
        ] {
            assert_eq!(
                table.source_for(ip(destination)),
                Some(ip(source)),
                "{destination}"
            );
        }
    }

    #[test]
    fn neither_our_own_nor_a_broadcast_is_a_peer() {
        let table = addressing(&["10.7.0.1/24", "fe80::1/64"], &[]);
        for text in [
            "10.7.0.1",
            "10.7.0.255",
            "255.255.255.255",
            "fe80::1",
            "ff02::1",
            "::",
        ] {
            assert!(!table.is_peer(ip(text)), "{text}");
        }
        assert!(
            table.is_peer(ip("10.7.0.2"))
                && table.is_peer(ip("fe80::2"))
                && table.is_peer(ip("10.9.0.255"))
        );
    }
}
