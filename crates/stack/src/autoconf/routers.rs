//! Default routers, prefixes on the link and the link's MTU, as routers advertise them (RFC 4861
//! §6.3.4 to §6.3.6).

use std::net::{IpAddr, Ipv6Addr};

use tautline_base::Instant;

use super::lifetime::Until;
use crate::address::Cidr;
use crate::addressing::Addressing;
use crate::wire::IPV6_MIN_MTU;
use crate::wire::router::Prefix;

/// Most routers, and most prefixes on the link. Further ones are not taken: the first were there
/// before the flood.
const MOST_ROUTERS: usize = 8;
const MOST_PREFIXES: usize = 16;

/// An entry that the bounds exclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Routes learned from routers.
#[derive(Debug)]
pub(super) struct Routers {
    /// MTU of the device.
    mtu: usize,
    routers: Vec<Learned>,
    prefixes: Vec<Learned>,
}

/// A route with a lifetime.
#[derive(Debug)]
struct Learned {
    to: Cidr,
    via: Option<IpAddr>,
    until: Until,
    /// The routing table has it because of us: it was not configured.
    is_installed: bool,
}

impl Routers {
    pub(super) fn new(mtu: usize) -> Self {
        Self {
            mtu,
            routers: Vec::new(),
            prefixes: Vec::new(),
        }
    }

    /// `router` is a default router for `lifetime` seconds. Returns whether a route has changed.
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn hear(
        &mut self,
        router: Ipv6Addr,
        lifetime: u16,
        addressing: &mut Addressing,
        now: Instant,
    ) -> Result<bool, Full> {
        let (to, via) = (Cidr::ALL_IPV6, Some(router.into()));
        let until = Until::seconds_from(lifetime.into(), now);
        Learned::hear(
            &mut self.routers,
            MOST_ROUTERS,
            (to, via, until),
            addressing,
            now,
        )
    }

    /// The lifetime of a prefix on the link. Returns whether a route has changed.
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn hear_prefix(
        &mut self,
        prefix: &Prefix,
        addressing: &mut Addressing,
        now: Instant,
    ) -> Result<bool, Full> {
        let is_usable = prefix.on_link
            && !prefix.network.is_unicast_link_local()
            && !prefix.network.is_multicast()
            && prefix.len > 0;
        if !is_usable {
            return Ok(false);
        }
        let mask = u128::MAX << (128 - u32::from(prefix.len));
        let network = Ipv6Addr::from_bits(prefix.network.to_bits() & mask);
        let to = Cidr::new(network, prefix.len);
        let until = Until::seconds_from(prefix.valid, now);
        Learned::hear(
            &mut self.prefixes,
            MOST_PREFIXES,
            (to, None, until),
            addressing,
            now,
        )
    }

    /// The MTU `mtu` of an advertisement, if IPv6 permits it and the device carries it.
    pub(super) fn accept_mtu(&self, mtu: u32) -> Option<usize> {
        let mtu = usize::try_from(mtu).ok()?;
        (IPV6_MIN_MTU..=self.mtu).contains(&mtu).then_some(mtu)
    }

    /// Removes routes whose lifetime is over. Returns whether there were any.
    pub(super) fn expire(&mut self, addressing: &mut Addressing, now: Instant) -> bool {
        let routers = Learned::expire(&mut self.routers, addressing, |one| one.until.is_over(now));
        let prefixes =
            Learned::expire(&mut self.prefixes, addressing, |one| one.until.is_over(now));
        routers || prefixes
    }

    /// Removes all.
    pub(super) fn clear(&mut self, addressing: &mut Addressing) {
        Learned::expire(&mut self.routers, addressing, |_| true);
        Learned::expire(&mut self.prefixes, addressing, |_| true);
    }

    /// Whether `router` is a default router.
    pub(super) fn has(&self, router: IpAddr) -> bool {
        self.routers.iter().any(|one| one.via == Some(router))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let all = self.routers.iter().chain(&self.prefixes);
        all.filter_map(|one| one.until.at()).min()
    }
}

impl Learned {
    fn hear(
        table: &mut Vec<Self>,
        most: usize,
        (to, via, until): (Cidr, Option<IpAddr>, Until),
        addressing: &mut Addressing,
        now: Instant,
    ) -> Result<bool, Full> {
        let known = table.iter_mut().find(|one| (one.to, one.via) == (to, via));
        if let Some(known) = known {
            known.until = until;
            return Ok(Self::expire(table, addressing, |one| {
                one.until.is_over(now)
            }));
        }
        if until.is_over(now) {
            return Ok(false);
        }
        if table.len() >= most {
            return Err(Full);
        }
        let is_installed = addressing.add_route(to, via);
        table.push(Self {
            to,
            via,
            until,
            is_installed,
        });
        Ok(is_installed)
    }

    fn expire(
        table: &mut Vec<Self>,
        addressing: &mut Addressing,
        is_over: impl Fn(&Self) -> bool,
    ) -> bool {
        let mut has_changed = false;
        table.retain(|one| {
            if !is_over(one) {
                return true;
            }
            if one.is_installed {
                addressing.remove_route(one.to, one.via);
            }
            has_changed |= one.is_installed;
            false
        });
        has_changed
    }
}
