//! Automatic configuration: its messages both ways, its deadlines, and its effects on sockets.

use std::net::{IpAddr, Ipv6Addr};

use tautline_base::{Device, Instant, Packet, Qdisc};
use tautline_bql::Limit;

use super::Host;
use super::interface::{ALL_NODES, Interface};
use super::transport::{DropStage, addresses};
use crate::autoconf::{Changes, Configuration, Message};
use crate::neighbor::Claim;
use crate::trace::Tracer;
use crate::wire::router::{Advertisement, RouterOption};
use crate::wire::{Addresses, Ends, MAX_HOP_LIMIT, mld, ndisc, router};

/// All routers on the link (RFC 4291 §2.7.1).
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// The addresses and routers it has now. After an
    /// [`AddressesChanged`](crate::Event::AddressesChanged) event they differ.
    pub fn configuration(&self) -> Configuration {
        let addressing = &self.interface.addressing;
        match &self.interface.autoconf {
            Some(autoconf) => autoconf.report(addressing),
            None => Configuration::of(addressing),
        }
    }
}

/// Handles an advertisement that came in `frame`.
pub(super) fn on_router<Q, D, T, L>(
    host: &mut Host<Q, D, T, L>,
    frame: &[u8],
    ends: &Ends,
    message: &Advertisement<'_>,
    now: Instant,
) where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    if !host.interface.on_advertisement(frame, ends, message, now) {
        host.interface.stats.not_for_us += 1;
        return;
    }
    let mtu = host.interface.mtu;
    host.transport.mtu = mtu;
    while let Some(event) = host.interface.pings.on_link_mtu(mtu) {
        host.transport.events.push_back(event);
    }
    for option in message.options() {
        if let RouterOption::Source(mac) = option {
            host.learn(ends.source, mac, Claim::Request, now);
        }
    }
}

/// Sends the messages of automatic configuration that are due, and tells sockets what has changed.
pub(super) fn autoconfigure<Q, D, T, L>(host: &mut Host<Q, D, T, L>, now: Instant)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let Some(changes) = host.interface.run_autoconf(now) else {
        return;
    };
    host.settle_drops(DropStage::Later, now);
    for address in changes.lost {
        addresses::abandon(&mut host.transport, address);
        while let Some(event) = host.interface.pings.on_address_lost(address) {
            host.transport.events.push_back(event);
        }
    }
    if changes.reroute {
        addresses::reroute(&mut host.transport, &host.interface.addressing);
        let (pings, addressing) = (&mut host.interface.pings, &host.interface.addressing);
        pings.reroute(|to| addressing.next_hop(to));
        host.interface.resolve_pings(now);
        host.settle_drops(DropStage::Later, now);
    }
    if changes.any {
        addresses::announce(&mut host.transport);
    }
}

impl<Q, D, T, L> Interface<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Answers a query for members of multicast groups.
    pub(super) fn on_query(&mut self, frame: &[u8], ends: &Ends, query: &mld::Query, now: Instant) {
        let is_ours = self.is_to_group(frame, ends, query.group) || self.is_for_us(frame, ends);
        match self.autoconf.as_mut().filter(|_| is_ours) {
            Some(autoconf) => autoconf.on_query(query, now),
            None => self.stats.not_for_us += u64::from(is_ours),
        }
    }

    /// Another host has `target`, or probes for it. Returns whether that ended a test of ours.
    pub(super) fn on_claim(
        &mut self,
        target: Ipv6Addr,
        nonce: Option<ndisc::Nonce>,
        now: Instant,
    ) -> bool {
        let Some(autoconf) = &mut self.autoconf else {
            return false;
        };
        let ended = autoconf.on_claim(target, nonce, &mut self.addressing, now);
        self.stats.duplicate_addresses += u64::from(ended);
        ended
    }

    /// Whether `address` is tested for duplicates.
    pub(super) fn is_tentative(&self, address: Ipv6Addr) -> bool {
        let autoconf = self.autoconf.as_ref();
        autoconf.is_some_and(|autoconf| autoconf.is_tentative(address))
    }

    /// No answer came from the neighbor `address`: if it is a router, another one is preferred.
    pub(super) fn on_unreachable(&mut self, address: IpAddr, now: Instant) {
        if let Some(autoconf) = &mut self.autoconf {
            autoconf.on_unreachable(address, &mut self.addressing, now);
        }
    }

    /// The neighbor `address` does not forward packets.
    pub(super) fn on_not_a_router(&mut self, address: Ipv6Addr, now: Instant) {
        if let Some(autoconf) = &mut self.autoconf {
            autoconf.on_not_a_router(address, &mut self.addressing, now);
        }
    }

    /// Handles an advertisement. False if it is not for us.
    fn on_advertisement(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        message: &Advertisement<'_>,
        now: Instant,
    ) -> bool {
        let is_to_all = self.is_to_group(frame, ends, Ipv6Addr::UNSPECIFIED);
        let is_to_us = self.is_to_our_mac(frame) && self.addressing.is_listed(ends.destination);
        let (Some(autoconf), IpAddr::V6(source)) = (&mut self.autoconf, ends.source) else {
            return false;
        };
        if !(is_to_all || is_to_us) || self.addressing.is_listed(ends.source) {
            return false;
        }
        let excess = autoconf.on_advertisement(source, message, &mut self.addressing, now);
        self.stats.advertisements_limited += excess;
        let link = autoconf.link();
        if let Some(hop_limit) = link.hop_limit {
            self.hop_limits.ipv6 = hop_limit;
        }
        if let Some(mtu) = link.mtu {
            self.mtu.ipv6 = mtu;
        }
        self.neighbors
            .advertise(link.reachable_time, link.retransmission);
        true
    }

    /// Whether a frame is to all nodes, or to `group`.
    fn is_to_group(&self, frame: &[u8], ends: &Ends, group: Ipv6Addr) -> bool {
        [ALL_NODES, group].into_iter().any(|group| {
            ends.destination == group && frame.get(..6) == Some(&ndisc::group_mac(group).0)
        })
    }

    /// Does what automatic configuration has to do now; `None` if nothing.
    fn run_autoconf(&mut self, now: Instant) -> Option<Changes> {
        let autoconf = self.autoconf.as_mut()?;
        if autoconf.next_deadline().is_none_or(|at| at > now) {
            return None;
        }
        let changes = autoconf.on_deadline(&mut self.addressing, now);
        for message in autoconf.take_messages() {
            self.send_message(&message, now);
        }
        Some(changes)
    }

    fn send_message(&mut self, message: &Message, now: Instant) {
        let unspecified = Ipv6Addr::UNSPECIFIED;
        let link_local = self.addressing.link_local().unwrap_or(unspecified);
        match message {
            Message::Probe(target, nonce) => {
                let group = ndisc::solicited_node(*target);
                let addresses = self.to_group(unspecified, group, MAX_HOP_LIMIT);
                self.send_control(now, |frame| {
                    Some(ndisc::write_probe(frame, &addresses, *target, *nonce))
                });
            }
            Message::Report(records) => {
                let addresses = self.to_group(link_local, mld::ROUTERS, mld::HOP_LIMIT);
                self.send_control(now, |frame| mld::write_report(frame, &addresses, records));
            }
            Message::Solicitation => {
                let addresses = self.to_group(link_local, ALL_ROUTERS, MAX_HOP_LIMIT);
                self.send_control(now, |frame| {
                    Some(router::write_solicitation(frame, &addresses))
                });
            }
        }
    }

    fn to_group(&self, source: Ipv6Addr, group: Ipv6Addr, hop_limit: u8) -> Addresses {
        Addresses {
            hop_limit,
            ..self.addresses_to(source.into(), group.into(), ndisc::group_mac(group))
        }
    }
}
