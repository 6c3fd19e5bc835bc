//! Messages of ARP and neighbor discovery, and their timeouts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tautline_base::{Device, Instant, Medium, Packet, Qdisc};
use tautline_bql::Limit;

use super::Host;
use super::interface::{ALL_NODES, Interface};
use super::transport::DropStage;
use crate::neighbor::{Claim, Timeouts};
use crate::trace::Tracer;
use crate::wire::{self, Ends, Mac, ndisc};

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    pub(super) fn on_arp(
        &mut self,
        is_request: bool,
        sender_mac: Mac,
        sender: Ipv4Addr,
        target: Ipv4Addr,
        now: Instant,
    ) {
        let (sender, target) = (IpAddr::V4(sender), IpAddr::V4(target));
        let addressing = &self.interface.addressing;
        if sender_mac != self.interface.mac && addressing.is_listed(sender) {
            self.interface.stats.not_for_us += 1;
            self.interface.defend(sender, now);
            return;
        }
        if !addressing.is_listed(target) {
            self.interface.stats.not_for_us += 1;
            // A known neighbor may have moved, as redundant routers announce it (RFC 826's merge).
            self.learn(sender, sender_mac, Claim::Unsolicited, now);
            return;
        }
        // A probe has no sender yet: it asks whether the address is free (RFC 5227 §2.1.1).
        let is_probe = is_request && sender.is_unspecified();
        if !is_probe && !addressing.is_peer(sender) {
            self.interface.stats.not_for_us += 1;
            return;
        }
        let claim = if is_request {
            Claim::Request
        } else {
            Claim::Reply
        };
        self.learn(sender, sender_mac, claim, now);
        if is_request && sender_mac.is_unicast() && self.interface.has_frames_to_spare() {
            let addresses = self.interface.addresses_to(target, sender, sender_mac);
            self.interface
                .send_control(now, |frame| wire::write_arp(frame, &addresses, false));
        }
    }

    /// Handles a message of neighbor discovery that came in `frame` from a host on the link.
    pub(super) fn on_neighbor(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        message: ndisc::Message,
        now: Instant,
    ) {
        // Over IP there are no neighbors to discover.
        if self.interface.medium == Medium::Ip {
            self.interface.stats.not_for_us += 1;
            return;
        }
        let (to, from) = (Mac::from_bytes(&frame[..6]), Mac::from_bytes(&frame[6..12]));
        let own = self.interface.mac;
        let is_to = |group: Ipv6Addr| to == own || to == ndisc::group_mac(group);
        if let Some((target, nonce)) = claim_of(ends, &message)
            && self.interface.is_tentative(target)
        {
            let group = ndisc::solicited_node(target);
            if is_to(group) || to == ndisc::group_mac(ALL_NODES) {
                self.interface.on_claim(target, nonce, now);
            }
            return;
        }
        let addressing = &self.interface.addressing;
        match message {
            ndisc::Message::Solicitation { target, sender, .. }
                if addressing.is_asked(target, ends.destination)
                    && is_to(ndisc::solicited_node(target)) =>
            {
                let mac = sender.unwrap_or(from);
                self.interface.advertise(target, ends.source, mac, now);
                if let Some(mac) = sender {
                    self.learn(ends.source, mac, Claim::Request, now);
                }
            }
            ndisc::Message::Advertisement {
                target,
                mac: Some(mac),
                solicited,
                replace,
                is_router,
            } if (addressing.is_listed(ends.destination) || ends.destination == ALL_NODES)
                && is_to(ALL_NODES) =>
            {
                let claim = match (solicited, replace) {
                    (true, true) => Claim::Reply,
                    (true, false) => Claim::Confirmation,
                    (false, _) => Claim::Unsolicited,
                };
                self.learn(target.into(), mac, claim, now);
                // RFC 4861 §7.2.5, if it is the trusted neighbor that says so.
                if !is_router && self.interface.neighbors.trusts(target.into(), mac) {
                    self.interface.on_not_a_router(target, now);
                }
            }
            _ => self.interface.stats.not_for_us += 1,
        }
    }

    /// Learns that `address` is at `mac`; sockets and pings that waited for it go on.
    pub(super) fn learn(&mut self, address: IpAddr, mac: Mac, claim: Claim, now: Instant) {
        if !self.interface.addressing.is_neighbor(address) {
            return;
        }
        for waiting in self.interface.neighbors.learn(address, mac, claim, now) {
            if let Some(connection) = self.transport.sockets.connection_mut(waiting) {
                connection.links.unresolved = 0;
            }
            self.transport.mark_runnable(waiting);
        }
        self.interface.send_pings(now);
    }
}

/// Tells the neighbors that this host has `address`, one of its own: those that remember another hardware
/// address replace it. A host that has just obtained the address does so twice, two seconds apart (RFC 5227
/// §2.3, `ANNOUNCE_NUM`, `ANNOUNCE_INTERVAL`).
pub fn announce<Q, D, T, L>(host: &mut Host<Q, D, T, L>, address: Ipv4Addr, now: Instant)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let now = host.advance_clock(now);
    if host.interface.addressing.is_listed(address.into()) {
        host.interface.announce(address.into(), now);
        host.settle_drops(DropStage::Later, now);
    }
}

impl<Q, D, T, L> Interface<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Another host uses `address`, one of ours: it is announced, so that neighbors that have learned the
    /// other hardware address come back. The host keeps it (RFC 5227 §2.4 (c)): it was configured, and one
    /// forged packet must not cut a host off.
    fn defend(&mut self, address: IpAddr, now: Instant) {
        self.stats.address_conflicts += 1;
        if self.has_frames_to_spare() && self.neighbors.may_defend(address, now) {
            self.announce(address, now);
        }
    }

    /// Broadcasts an ARP request for `address`, one of ours (RFC 5227 §2.3).
    fn announce(&mut self, address: IpAddr, now: Instant) {
        if self.medium == Medium::Ethernet {
            let addresses = self.addresses_to(address, address, Mac::BROADCAST);
            self.send_control(now, |frame| wire::write_arp(frame, &addresses, true));
        }
    }
}

/// Repeats overdue requests; after too many, notifies the sockets that wait and fails the pings.
pub(super) fn retry_neighbors<Q, D, T, L>(host: &mut Host<Q, D, T, L>, now: Instant)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let deadline = host.interface.neighbors.next_deadline();
    if deadline.is_none_or(|at| at > now) {
        return;
    }
    let Timeouts {
        ask,
        failed,
        retry,
        lost,
    } = host.interface.neighbors.on_deadline(now);
    for id in retry {
        host.transport.mark_runnable(id);
    }
    for address in ask {
        host.interface.ask_for(address, now);
    }
    host.settle_drops(DropStage::Later, now);
    for id in failed {
        if let Some(connection) = host.transport.sockets.connection_mut(id) {
            // Its route may have changed while it waited.
            if lost.binary_search(&connection.next_hop).is_ok() {
                connection.on_unresolved_next_hop(now);
            }
            host.transport.mark_runnable(id);
        } else if let Some(socket) = host.transport.sockets.udp_mut(id) {
            // Datagrams for other neighbors wait on, and so do those that took another route.
            let addressing = &host.interface.addressing;
            socket.drop_aside(|to| {
                let next_hop = addressing.next_hop(to);
                next_hop.is_some_and(|next_hop| lost.binary_search(&next_hop).is_ok())
            });
            // A released socket waited only for this.
            host.transport.runnable.add(id, &mut socket.links.queued);
            host.transport.notify_udp(id);
        }
    }
    for address in lost {
        host.interface.on_unreachable(address, now);
        while let Some(event) = host.interface.pings.on_unresolved(address) {
            host.transport.events.push_back(event);
        }
    }
    host.interface.resolve_pings(now);
    host.settle_drops(DropStage::Later, now);
}

/// The address that the sender of `message` has, or probes for; a solicitation from another address
/// than the unspecified one claims nothing.
fn claim_of(ends: &Ends, message: &ndisc::Message) -> Option<(Ipv6Addr, Option<ndisc::Nonce>)> {
    match *message {
        ndisc::Message::Solicitation { target, nonce, .. } => {
            ends.source.is_unspecified().then_some((target, nonce))
        }
        ndisc::Message::Advertisement { target, .. } => Some((target, None)),
    }
}
