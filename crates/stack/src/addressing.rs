//! What a host knows of addresses: its own, the way to others, and which of its own speaks to whom (RFC 6724 §5).

use std::cmp::Reverse;
use std::net::IpAddr;

use crate::address::{Cidr, Route, Scope, common_bits, is_unicast};
use crate::config::HostConfig;

/// A host's own addresses and its routing table.
#[derive(Debug)]
pub(crate) struct Addressing {
    own: Vec<Cidr>,
    /// Networks, the longest prefix first, and the router to each; none is needed on the link.
    routes: Vec<(Cidr, Option<IpAddr>)>,
}

impl Addressing {
    /// Takes what is an address of one host from `config`; the rest cannot be ours.
    pub(crate) fn new(config: &HostConfig) -> Self {
        let own: Vec<Cidr> = config.addresses.iter().copied().filter(|own| is_unicast(own.address())).collect();
        let connected = own.iter().map(|own| (*own, None));
        let usable = |route: &&Route| route.to.address().is_ipv4() == route.via.is_ipv4() && is_unicast(route.via);
        let routed = config.routes.iter().filter(usable).map(|route| (route.to, Some(route.via)));
        let mut routes: Vec<_> = connected.chain(routed).collect();
        // Stable: of equals, the network on the link comes first, then the route named first.
        routes.sort_by_key(|(to, _)| Reverse(to.prefix()));
        Self { own, routes }
    }

    /// Whether `address` is one of ours.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.own.iter().any(|own| own.address() == address)
    }

    /// Whether `address` can be that of another host.
    pub(crate) fn is_peer(&self, address: IpAddr) -> bool {
        is_unicast(address)
            && self.own.iter().all(|own| own.address() != address && own.broadcast().map(IpAddr::V4) != Some(address))
    }

    /// The neighbour that packets for `destination` go to: itself on the link, else a router.
    pub(crate) fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
        let (_, via) = self.routes.iter().find(|(to, _)| to.contains(destination))?;
        Some(via.unwrap_or(destination))
    }

    /// Which of our addresses speaks to `destination`: one whose scope suffices but goes no further than needed (RFC 6724's rule
    /// 2), on the network of the next hop (as 5 prefers the outgoing interface's), sharing the longest prefix (8), named first.
    pub(crate) fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let next_hop = self.next_hop(destination)?;
        let needed = Scope::of(destination);
        let merit = |own: &Cidr| {
            let scope = Scope::of(own.address());
            let shared = common_bits(own.address(), destination).min(own.prefix());
            (scope >= needed, scope == needed, own.contains(next_hop), shared)
        };
        let family = self.own.iter().filter(|own| own.address().is_ipv4() == destination.is_ipv4());
        // The last of equal maxima wins: look from the end.
        family.rev().max_by_key(|own| merit(own)).map(|own| own.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addressing(addresses: &[&str], routes: &[(&str, &str)]) -> Addressing {
        let config = HostConfig::new([2, 0, 0, 0, 0, 1], 1);
        let config = addresses.iter().fold(config, |config, text| config.address(text.parse::<Cidr>().unwrap()));
        Addressing::new(&routes.iter().fold(config, |config, (to, via)| {
            config.route(Route::new(to.parse::<Cidr>().unwrap(), via.parse::<IpAddr>().unwrap()))
        }))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_longest_prefix_shows_the_way() {
        let routes = [("0.0.0.0/0", "10.7.0.254"), ("10.8.0.0/16", "10.7.0.253"), ("10.7.0.9/32", "10.7.0.252")];
        let table = addressing(&["10.7.0.1/24", "192.168.1.1/30"], &routes);
        for (destination, next_hop) in [
            ("10.7.0.2", "10.7.0.2"),
            ("10.7.0.9", "10.7.0.252"),
            ("10.8.3.4", "10.7.0.253"),
            ("8.8.8.8", "10.7.0.254"),
            ("192.168.1.2", "192.168.1.2"),
            ("192.168.1.4", "10.7.0.254"),
        ] {
            assert_eq!(table.next_hop(ip(destination)), Some(ip(next_hop)), "{destination}");
        }
        assert_eq!(table.next_hop(ip("2001:db8::1")), None);
    }

    #[test]
    fn routes_that_cannot_be_are_not_taken() {
        let table = addressing(&["10.7.0.1/24", "224.0.0.1/4"], &[("::/0", "10.7.0.254"), ("0.0.0.0/0", "255.255.255.255")]);
        assert_eq!((table.next_hop(ip("2001:db8::1")), table.next_hop(ip("8.8.8.8"))), (None, None));
        assert!(!table.is_own(ip("224.0.0.1")));
    }

    #[test]
    fn the_source_reaches_as_far_as_needed_and_is_the_nearest() {
        let own = ["fe80::1/64", "2001:db8:1::1/64", "2001:db8:2::1/64", "10.7.0.1/24", "10.8.0.1/24", "10.8.0.3/24"];
        let table = addressing(&own, &[("::/0", "fe80::fe"), ("0.0.0.0/0", "10.8.0.254")]);
        for (destination, source) in [
            ("fe80::2", "fe80::1"),
            ("2001:db8:1::9", "2001:db8:1::1"),
            ("2001:db8:2::9", "2001:db8:2::1"),
            ("2001:db8:2:ff::9", "2001:db8:2::1"),
            // None is nearer than the others: the one named first.
            ("2a00::1", "2001:db8:1::1"),
            ("10.7.0.9", "10.7.0.1"),
            // On the router's network.
            ("8.8.8.8", "10.8.0.1"),
        ] {
            assert_eq!(table.source_for(ip(destination)), Some(ip(source)), "{destination}");
        }
    }

    #[test]
    fn neither_our_own_nor_a_broadcast_is_a_peer() {
        let table = addressing(&["10.7.0.1/24", "fe80::1/64"], &[]);
        for text in ["10.7.0.1", "10.7.0.255", "255.255.255.255", "fe80::1", "ff02::1", "::"] {
            assert!(!table.is_peer(ip(text)), "{text}");
        }
        assert!(table.is_peer(ip("10.7.0.2")) && table.is_peer(ip("fe80::2")) && table.is_peer(ip("10.9.0.255")));
    }
}
