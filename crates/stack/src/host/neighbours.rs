//! Where neighbours are: ARP and neighbour discovery, asked and answered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;

use super::Host;
use crate::neighbour::{Claim, Due};
use crate::trace::Tracer;
use crate::wire::{self, Addresses, Ends, MAX_HOP_LIMIT, Mac, ndisc};

/// All nodes on the link (RFC 4291 §2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    pub(super) fn on_arp(
        &mut self,
        request: bool,
        sender_mac: Mac,
        sender: Ipv4Addr,
        target: Ipv4Addr,
        now: Instant,
    ) {
        let (sender, target) = (IpAddr::V4(sender), IpAddr::V4(target));
        if !self.addressing.is_own(target) || !self.addressing.is_peer(sender) {
            self.stats.not_for_us += 1;
            return;
        }
        self.learn(
            sender,
            sender_mac,
            if request {
                Claim::Question
            } else {
                Claim::Answer
            },
            now,
        );
        if request && sender_mac.is_unicast() {
            let addresses = self.addresses_to(target, sender, sender_mac);
            self.answer(now, |frame| wire::write_arp(frame, &addresses, false));
        }
    }

    /// A question or an answer of neighbour discovery, which came in `frame` straight from a host
    /// on the link.
    pub(super) fn on_neighbour(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        message: ndisc::Message,
        now: Instant,
    ) {
        let (to, from) = (Mac::from_bytes(&frame[..6]), Mac::from_bytes(&frame[6..12]));
        let ours = |group: Ipv6Addr| to == self.mac || to == ndisc::group_mac(group);
        match message {
            ndisc::Message::Solicitation { target, sender }
                if self.addressing.is_asked(target, ends.destination)
                    && ours(ndisc::solicited_node(target)) =>
            {
                self.advertise(target, ends.source, sender.unwrap_or(from), now);
                if let Some(mac) = sender {
                    self.learn(ends.source, mac, Claim::Question, now);
                }
            }
            ndisc::Message::Advertisement {
                target,
                mac: Some(mac),
                solicited,
                replace,
            } if (self.addressing.is_own(ends.destination) || ends.destination == ALL_NODES)
                && ours(ALL_NODES) =>
            {
                let claim = if solicited && replace {
                    Claim::Answer
                } else {
                    Claim::Announcement
                };
                self.learn(target.into(), mac, claim, now);
            }
            _ => self.stats.not_for_us += 1,
        }
    }

    /// Says that `target` is here. Who has no address yet is told by telling all: it wants to take
    /// ours (RFC 4862 §5.4).
    fn advertise(&mut self, target: Ipv6Addr, asker: IpAddr, mac: Mac, now: Instant) {
        let (destination, mac) = match asker {
            asker if asker.is_unspecified() => (ALL_NODES.into(), ndisc::group_mac(ALL_NODES)),
            asker if self.addressing.is_neighbour(asker) && mac.is_unicast() => (asker, mac),
            _ => {
                self.stats.not_for_us += 1;
                return;
            }
        };
        if self.has_frames_to_spare() {
            let addresses = Addresses {
                hop_limit: MAX_HOP_LIMIT,
                ..self.addresses_to(target.into(), destination, mac)
            };
            self.answer(now, |frame| {
                Some(ndisc::write_neighbour(
                    frame,
                    &addresses,
                    target.into(),
                    false,
                ))
            });
        }
    }

    fn learn(&mut self, address: IpAddr, mac: Mac, claim: Claim, now: Instant) {
        if !self.addressing.is_neighbour(address) {
            return;
        }
        for waiting in self.neighbours.learn(address, mac, claim, now) {
            self.touch(waiting);
        }
        self.send_pings(now);
    }

    /// The hardware address of `next_hop`, or `waiter` waits for it.
    pub(super) fn resolve(
        &mut self,
        next_hop: IpAddr,
        waiter: Option<SocketId>,
        now: Instant,
    ) -> Option<Mac> {
        let lookup = self.neighbours.look_up(next_hop, waiter, now);
        if lookup.ask {
            self.ask_for(next_hop, now);
        }
        lookup.mac
    }

    fn ask_for(&mut self, address: IpAddr, now: Instant) {
        let Some(source) = self.addressing.source_for(address) else {
            return;
        };
        match address {
            IpAddr::V4(_) => {
                let addresses = self.addresses_to(source, address, Mac::BROADCAST);
                self.answer(now, |frame| wire::write_arp(frame, &addresses, true));
            }
            IpAddr::V6(v6) => {
                let group = ndisc::solicited_node(v6);
                let addresses = self.addresses_to(source, group.into(), ndisc::group_mac(group));
                let addresses = Addresses {
                    hop_limit: MAX_HOP_LIMIT,
                    ..addresses
                };
                self.answer(now, |frame| {
                    Some(ndisc::write_neighbour(frame, &addresses, address, true))
                });
            }
        }
    }

    /// Questions whose answer is overdue are asked again, or given up.
    pub(super) fn ask_neighbours_again(&mut self, now: Instant) {
        let Due {
            ask,
            failed,
            retry,
            lost,
        } = self.neighbours.on_deadline(now);
        for id in retry {
            self.touch(id);
        }
        for address in ask {
            self.ask_for(address, now);
        }
        for id in failed {
            if let Some(connection) = self.sockets.connection_mut(id) {
                connection.on_unresolved_next_hop();
                self.touch(id);
            } else if let Some(socket) = self.sockets.udp_mut(id) {
                socket.give_up_aside();
                // It may have been let go of, and waited only for this.
                self.runnable.add(id, &mut socket.place.queued);
                self.tell_udp(id);
            }
        }
        for address in lost {
            self.lose_pings(address);
        }
    }
}
