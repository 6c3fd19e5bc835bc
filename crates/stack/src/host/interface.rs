//! [`Interface`]: the link side of a host: its addresses and neighbors, the frame pool, the port,
//! and the packets that no connection owns (ARP, neighbor discovery, ICMP, resets).

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use tautline_base::{
    Deferred, Device, Drops, Ecn, Frame, Instant, Item, Medium, Owner, Packet, Pool, Qdisc,
    SocketId,
};
use tautline_bql::{Limit, Port};
use tautline_qdisc::pfifo_fast::priority_of_tos;

use crate::addressing::Addressing;
use crate::autoconf::Autoconf;
use crate::config::HostConfig;
use crate::keyed::Key;
use crate::link_mtu::{HopLimits, LinkMtu};
use crate::neighbor::NeighborCache;
use crate::pings::Pings;
use crate::reply_limit::ReplyLimit;
use crate::stats::HostStats;
use crate::tcp::send::Plan;
use crate::tcp::{Connection, Train, Tuple};
use crate::trace::{PacketEvent, Tracer, What, sequence_number};
use crate::udp::socket::UdpSocket;
use crate::wire::icmp;
use crate::wire::udp;
use crate::wire::{
    self, Addresses, ECN_BITS, EcnFlags, Ends, Flags, MAX_HOP_LIMIT, Mac, Payload, SACK_BLOCKS,
    Segment, TcpHeader, Template, ip_header_len, link_len, ndisc,
};

/// Linux's `TC_PRIO_CONTROL`: pfifo_fast's first band.
const CONTROL_PRIORITY: u8 = 7;
/// Every IPv4 link carries packets of this size (RFC 791).
const MIN_MTU: usize = 68;
/// Stands for the hardware address of every host over [`Medium::Ip`]; it is never written.
const NO_MAC: Mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 0]);
/// All nodes on the link (RFC 4291 §2.7.1).
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Addresses, neighbors, frames and the port of a host.
pub(super) struct Interface<Q, D: Device, T, L> {
    pub(super) config: HostConfig,
    pub(super) addressing: Addressing,
    /// State of automatic configuration, if anything is automatic.
    pub(super) autoconf: Option<Box<Autoconf>>,
    pub(super) mac: Mac,
    pub(super) mtu: LinkMtu,
    pub(super) hop_limits: HopLimits,
    pub(super) medium: Medium,
    pub(super) key: Key,
    pub(super) port: Port<Q, D, L>,
    pub(super) pool: Pool<D::Frame>,
    pub(super) tracer: T,
    pub(super) neighbors: NeighborCache,
    pub(super) pings: Pings,
    pub(super) icmp_limit: ReplyLimit,
    reset_limit: ReplyLimit,
    /// Dropped packets that are not settled yet.
    pub(super) drops: Drops<Packet<D::Frame>>,
    /// Completed packets, empty between polls.
    pub(super) done: Vec<Packet<D::Frame>>,
    /// Packets in qdisc and ring that no connection owns.
    pub(super) unowned: usize,
    /// SYNs of the latest [`receive`](super::Host::receive) that took no memory: answered with a
    /// cookie, or shed.
    pub(super) stateless_syns: usize,
    pub(super) stats: HostStats,
}

impl<Q, D, T, L> Interface<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    pub(super) fn new(
        config: HostConfig,
        port: Port<Q, D, L>,
        mut pool: Pool<D::Frame>,
        tracer: T,
    ) -> Self {
        let key = Key::from_seed(config.seed);
        let medium = port.ring().device().medium();
        let mut mtu = port.ring().device().mtu();
        if let Some(frame) = pool.take() {
            let room = frame.bytes().len();
            mtu = mtu.min(room.saturating_sub(link_len(medium, config.vlan)));
            pool.put_back(frame);
        }
        let mtu = mtu.max(MIN_MTU);
        let mut addressing = Addressing::new(&config, medium, mtu, &key);
        let autoconf = Autoconf::new(&config, (medium, mtu), &mut addressing, &key);
        Self {
            addressing,
            autoconf: autoconf.map(Box::new),
            mac: smoltcp::wire::EthernetAddress(config.mac),
            mtu: LinkMtu::new(mtu),
            hop_limits: HopLimits::default(),
            medium,
            key,
            port,
            pool,
            tracer,
            neighbors: NeighborCache::new(key),
            pings: Pings::new(config.echo_requests),
            icmp_limit: ReplyLimit::new(config.icmp_errors_per_second, key),
            reset_limit: ReplyLimit::new(config.resets_per_second, key),
            drops: Drops::new(),
            done: Vec::new(),
            unowned: 0,
            stateless_syns: 0,
            stats: HostStats::default(),
            config,
        }
    }

    /// Longest packet of several segments that the device takes and a large frame holds.
    pub(super) fn largest_burst(&self) -> Option<tautline_base::Tso> {
        let tso = self.port.ring().device().tso();
        let most = tso.zip(self.pool.large_room());
        most.map(|(tso, room)| tso.within(room))
    }

    /// Addresses of a packet from `source` to `destination` at `destination_mac`.
    pub(super) fn addresses_to(
        &self,
        source: IpAddr,
        destination: IpAddr,
        destination_mac: Mac,
    ) -> Addresses {
        Addresses {
            medium: self.medium,
            source_mac: self.mac,
            destination_mac,
            source,
            destination,
            hop_limit: self.hop_limits.of(destination),
            flow_label: 0,
            tos: 0,
            vlan: self.config.vlan,
        }
    }

    /// Addresses of a segment between the ends of `tuple`.
    pub(super) fn addresses_of(&self, tuple: &Tuple, destination_mac: Mac) -> Addresses {
        let flow_label = if tuple.local.is_ipv6() {
            self.key.flow_label(tuple)
        } else {
            0
        };
        Addresses {
            flow_label,
            ..self.addresses_to(tuple.local, tuple.remote, destination_mac)
        }
    }

    /// Records an event of an outgoing packet, if the tracer is enabled.
    pub(super) fn trace(tracer: &mut T, at: Instant, what: What, packet: &Packet<D::Frame>) {
        if T::ENABLED {
            let frame = packet.bytes();
            let event = PacketEvent {
                at,
                what,
                socket: packet.owner().map(|owner| owner.socket),
                seq: sequence_number(frame, packet.medium()),
                len: frame.len() as u32,
                sojourn: match what {
                    What::Ringed | What::Dropped(_) => at - packet.enqueued(),
                    _ => Duration::ZERO,
                },
            };
            tracer.record(&event, frame);
        }
    }

    /// Records the arrival of `frame`, if the tracer is enabled.
    pub(super) fn trace_received(&mut self, at: Instant, frame: &[u8]) {
        if T::ENABLED {
            let event = PacketEvent {
                at,
                what: What::Received,
                socket: None,
                seq: sequence_number(frame, self.medium),
                len: frame.len() as u32,
                sojourn: Duration::ZERO,
            };
            self.tracer.record(&event, frame);
        }
    }

    /// Whether a frame is addressed to this host by a host that can be answered; counts it if not.
    pub(super) fn is_for_us(&mut self, frame: &[u8], ends: &Ends) -> bool {
        let is_ours = self.is_to_our_mac(frame)
            && self.addressing.is_own(ends.destination)
            && ends.source != ends.destination
            && self.addressing.is_peer(ends.source);
        self.stats.not_for_us += u64::from(!is_ours);
        is_ours
    }

    pub(super) fn is_to_our_mac(&self, frame: &[u8]) -> bool {
        self.medium == Medium::Ip || frame.first_chunk::<6>() == Some(&self.config.mac)
    }

    /// The hardware address that `frame`, which was parsed, came from.
    pub(super) fn sender_of(&self, frame: &[u8]) -> Mac {
        match self.medium {
            Medium::Ethernet => Mac::from_bytes(&frame[6..12]),
            Medium::Ip => NO_MAC,
        }
    }

    /// Commits a plan that pacer, TSQ, neighbor and pool agreed to: nothing is taken back from here
    /// on.
    pub(super) fn commit_segment(
        &self,
        connection: &mut Connection,
        plan: &Plan,
        destination_mac: Mac,
        mut frame: D::Frame,
        now: Instant,
    ) -> Packet<D::Frame> {
        let tos = connection.config.tos & !ECN_BITS;
        let Tuple { local, remote, .. } = connection.tuple;
        let addresses = Addresses {
            flow_label: connection.flow_label,
            tos,
            ..self.addresses_to(local, remote, destination_mac)
        };
        let header = connection.header(plan, now);
        let payload = connection.payload(plan);
        let (len, deferred) =
            self.write_segment(&mut frame, plan.segments, &addresses, &header, payload);
        let segment = connection.commit(plan, now);
        let packet = Packet::new(frame, len as u32)
            .with_medium(self.medium)
            .with_deferred(deferred)
            .with_segments(plan.segments);
        let on_wire = u32::try_from(packet.len().get()).ok();
        let credit = on_wire
            .and_then(NonZeroU32::new)
            .filter(|_| plan.has_sequence_space())
            .map(|len| connection.tsq.charge(&connection.config.tsq, len));
        let (flow, source, destination) = connection.hashes;
        let owner = Owner {
            socket: connection.id,
            segment,
        };
        packet
            .with_owner(owner, credit)
            .with_hashes(flow, source, destination)
            .with_tos(tos | header.codepoint.bits(), priority_of_tos(tos))
            .with_departure(plan.departure)
    }

    /// The train behind `packet`, which carries `plan`, and its headers. A device that takes several
    /// segments in a packet gets them so.
    #[inline]
    pub(super) fn train_behind(
        &self,
        connection: &Connection,
        plan: &Plan,
        packet: &Packet<D::Frame>,
        now: Instant,
    ) -> Option<(Train, Template)> {
        let is_offloaded = self.port.ring().device().tso().is_some();
        let train = Train::behind(connection, plan).filter(|_| !is_offloaded)?;
        // A template pays only if a segment follows.
        if !train.continues(connection, now) {
            return None;
        }
        let Tuple { local, remote, .. } = connection.tuple;
        let link = link_len(self.medium, self.config.vlan);
        let payload = plan.payload();
        let len = (payload.end - payload.start) as usize;
        let template = Template::of(packet.bytes(), link, (local, remote), len)?;
        Some((train, template))
    }

    /// Steps 1 to 4 for the segments of a train behind the first, `most` at most. Returns their
    /// number. A drop ends the train, since it may concern the connection.
    pub(super) fn birth_train(
        &mut self,
        connection: &mut Connection,
        (train, template): (&Train, &Template),
        most: usize,
        now: Instant,
    ) -> usize {
        let mut born = 0;
        while born < most
            && train.continues(connection, now)
            && let Some(frame) = self.pool.take()
        {
            let packet = self.commit_next_of(connection, (train, template), frame, now);
            self.enqueue(packet, now);
            born += 1;
            if !self.drops.is_empty() {
                break;
            }
        }
        train.end(connection, born, now);
        self.stats.births_in_trains += born as u64;
        born
    }

    /// Commits the next segment of a train, as [`commit_segment`](Self::commit_segment) would.
    fn commit_next_of(
        &self,
        connection: &mut Connection,
        (train, template): (&Train, &Template),
        mut frame: D::Frame,
        now: Instant,
    ) -> Packet<D::Frame> {
        let (seq, payload) = train.next(connection);
        let bytes = frame.bytes_mut();
        let (len, deferred) = if self.completes_frames() {
            template.write_incomplete(bytes, seq, payload)
        } else {
            (template.write(bytes, seq, payload), Deferred::Nothing)
        };
        let len = len as u32;
        let segment = train.commit_next(connection, now);
        let credit = NonZeroU32::new(len);
        let credit = credit.map(|len| connection.tsq.charge(&connection.config.tsq, len));
        let (flow, source, destination) = connection.hashes;
        let owner = Owner {
            socket: connection.id,
            segment: Some(segment),
        };
        let tos = connection.config.tos & !ECN_BITS;
        Packet::new(frame, len)
            .with_medium(self.medium)
            .with_deferred(deferred)
            .with_owner(owner, credit)
            .with_hashes(flow, source, destination)
            .with_tos(tos, priority_of_tos(tos))
            .with_departure(now)
    }

    /// The packet of the next datagram of `socket`, whose destination is at `mac`.
    pub(super) fn commit_datagram(
        &self,
        socket: &mut UdpSocket,
        mac: Mac,
        mut frame: D::Frame,
        now: Instant,
    ) -> Packet<D::Frame> {
        let dscp = socket.config.tos & !ECN_BITS;
        let (label, payload) = socket.next().expect("it has a datagram to send");
        let tos = dscp | label.ecn.bits();
        let tuple = Tuple {
            local: label.from.ip(),
            remote: label.to.ip(),
            local_port: label.from.port(),
            remote_port: label.to.port(),
        };
        let addresses = Addresses {
            tos,
            ..self.addresses_of(&tuple, mac)
        };
        let ports = (tuple.local_port, tuple.remote_port);
        let len = udp::write_udp(frame.bytes_mut(), &addresses, ports, payload) as u32;
        let (flow, source, destination) = self.key.flow(&tuple);
        let owner = Owner {
            socket: socket.id,
            segment: None,
        };
        Packet::new(frame, len)
            .with_medium(self.medium)
            .with_owner(owner, socket.departed())
            .with_hashes(flow, source, destination)
            .with_tos(tos, priority_of_tos(tos))
            .with_departure(now)
    }

    /// Step 4: the packet enters the qdisc. Dropped packets wait in `drops`.
    pub(super) fn enqueue(&mut self, mut packet: Packet<D::Frame>, now: Instant) {
        self.stats.births += 1;
        Self::trace(&mut self.tracer, now, What::Born, &packet);
        Self::trace(&mut self.tracer, now, What::Queued, &packet);
        if T::ENABLED {
            // A qdisc that drops it at once does not stamp it.
            packet.set_enqueued(now);
        }
        self.port.enqueue(packet, now, &mut self.drops);
    }

    /// The hardware address of `next_hop`. If it is unknown, requests it and queues `waiter`, whose peer
    /// was `heard` then, which shows that it is reached; zero if it has none.
    pub(super) fn resolve(
        &mut self,
        next_hop: IpAddr,
        waiter: Option<SocketId>,
        (heard, now): (Instant, Instant),
    ) -> Option<Mac> {
        if self.medium == Medium::Ip {
            return Some(NO_MAC);
        }
        let lookup = self.neighbors.lookup(next_hop, waiter, (heard, now));
        if lookup.ask {
            self.ask_for(next_hop, now);
        }
        lookup.mac
    }

    /// Sends an ARP request or a neighbor solicitation.
    pub(super) fn ask_for(&mut self, address: IpAddr, now: Instant) {
        let Some(source) = self.addressing.source_for(address) else {
            return;
        };
        match address {
            IpAddr::V4(_) => {
                let addresses = self.addresses_to(source, address, Mac::BROADCAST);
                self.send_control(now, |frame| wire::write_arp(frame, &addresses, true));
            }
            IpAddr::V6(v6) => {
                let group = ndisc::solicited_node(v6);
                let addresses = Addresses {
                    hop_limit: MAX_HOP_LIMIT,
                    ..self.addresses_to(source, group.into(), ndisc::group_mac(group))
                };
                self.send_control(now, |frame| {
                    Some(ndisc::write_neighbor(frame, &addresses, address, true))
                });
            }
        }
    }

    /// Advertises `target`. A host without an address yet is answered by a message to all nodes: it
    /// probes for a duplicate (RFC 4862 §5.4).
    pub(super) fn advertise(&mut self, target: Ipv6Addr, asker: IpAddr, mac: Mac, now: Instant) {
        let (destination, mac) = match asker {
            asker if asker.is_unspecified() => (ALL_NODES.into(), ndisc::group_mac(ALL_NODES)),
            asker if self.addressing.is_neighbor(asker) && mac.is_unicast() => (asker, mac),
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
            self.send_control(now, |frame| {
                let written = ndisc::write_neighbor(frame, &addresses, target.into(), false);
                Some(written)
            });
        }
    }

    /// Answers an echo request.
    pub(super) fn on_echo(&mut self, frame: &[u8], ends: &Ends, rest: &[u8], now: Instant) {
        let source_mac = self.sender_of(frame);
        if !source_mac.is_unicast()
            || ip_header_len(ends.source) + 4 + rest.len() > self.mtu.of(ends.source)
        {
            self.stats.not_for_us += 1;
            return;
        }
        if self.has_frames_to_spare() {
            let addresses = Addresses {
                tos: ends.tos,
                ..self.addresses_to(ends.destination, ends.source, source_mac)
            };
            self.send_echo(now, &addresses, true, [rest, &[]]);
        }
    }

    /// Sends an echo message: a flow of its own between its two hosts, with the priority of its TOS
    /// byte.
    fn send_echo(&mut self, now: Instant, addresses: &Addresses, reply: bool, rest: [&[u8]; 2]) {
        let (local, remote) = (addresses.source, addresses.destination);
        let hashes = self.key.flow(&Tuple {
            local,
            remote,
            local_port: 0,
            remote_port: 0,
        });
        let tos = addresses.tos & !ECN_BITS;
        let describe = |packet: Packet<D::Frame>| {
            packet
                .with_tos(tos, priority_of_tos(tos))
                .with_hashes(hashes.0, hashes.1, hashes.2)
        };
        self.send_unowned(now, describe, |frame| {
            icmp::write_echo(frame, addresses, reply, rest)
        });
    }

    /// Asks for the next hops of echo requests that found too many neighbors asked for.
    pub(super) fn resolve_pings(&mut self, now: Instant) {
        for next_hop in self.pings.waited_for() {
            self.resolve(next_hop, None, (Instant::ZERO, now));
        }
        self.send_pings(now);
    }

    /// Sends the echo requests whose next hop is known now.
    pub(super) fn send_pings(&mut self, now: Instant) {
        if !self.pings.any_waiting() {
            return;
        }
        while let Some(ping) = {
            let (neighbors, medium) = (&self.neighbors, self.medium);
            self.pings
                .take_waiting(|ping| medium == Medium::Ip || neighbors.knows(ping.next_hop))
        } {
            let Some(mac) = self.resolve(ping.next_hop, None, (Instant::ZERO, now)) else {
                return;
            };
            let addresses = Addresses {
                tos: ping.tos,
                ..self.addresses_to(ping.from, ping.to, mac)
            };
            self.send_echo(now, &addresses, false, [&ping.label(), &ping.data]);
            self.pings.sent(ping, now);
        }
    }

    /// Answers a segment without a connection by a reset (RFC 9293 §3.10.7.1), within limits. A reset
    /// is never answered.
    pub(super) fn reset(
        &mut self,
        tuple: &Tuple,
        destination_mac: Mac,
        segment: &Segment<'_>,
        now: Instant,
    ) {
        if segment.rst {
            return;
        }
        if !self.reset_limit.admits(now) {
            self.stats.resets_limited += 1;
            return;
        }
        let len = segment.payload.len() as u32 + u32::from(segment.syn) + u32::from(segment.fin);
        let (seq, ack) = match segment.ack {
            Some(ack) => (ack, None),
            None => (0, Some(segment.seq.wrapping_add(len))),
        };
        let header = TcpHeader {
            source_port: segment.destination_port,
            destination_port: segment.source_port,
            seq,
            ack,
            flags: Flags::Rst,
            window: 0,
            window_scale: None,
            mss: None,
            sack_permitted: false,
            sack: [None; SACK_BLOCKS],
            timestamp: None,
            ecn_flags: EcnFlags::NONE,
            echoed_bytes: None,
            fast_open: None,
            codepoint: Ecn::NotEct,
        };
        self.send_segment(tuple, destination_mac, &header, now);
    }

    /// Sends a segment without data that no connection owns, in the flow of `tuple`.
    pub(super) fn send_segment(
        &mut self,
        tuple: &Tuple,
        destination_mac: Mac,
        header: &TcpHeader,
        now: Instant,
    ) {
        if destination_mac.is_unicast() && self.has_frames_to_spare() {
            let addresses = self.addresses_of(tuple, destination_mac);
            let (flow, source, destination) = self.key.flow(tuple);
            let describe = |packet: Packet<D::Frame>| {
                packet
                    .with_tos(0, CONTROL_PRIORITY)
                    .with_hashes(flow, source, destination)
            };
            self.send_unowned(now, describe, |frame| {
                Some(wire::write_tcp(frame, &addresses, header, Payload::EMPTY))
            });
        }
    }

    /// Whether a quarter of the frames is free: a flood of packets to be answered must not take the
    /// frames that connections need.
    pub(super) fn has_frames_to_spare(&mut self) -> bool {
        let has_spare = self.pool.free() > self.pool.capacity() / 4;
        self.stats.no_frame += u64::from(!has_spare);
        has_spare
    }

    /// Sends a packet that no connection owns, with the priority of control packets, in the flow that
    /// all of them share: a flood that draws them takes the turn of one flow from connections.
    pub(super) fn send_control(
        &mut self,
        now: Instant,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) {
        self.send_unowned(now, |packet| packet.with_tos(0, CONTROL_PRIORITY), write);
    }

    /// Sends a packet that no connection owns; `describe` sets its metadata.
    fn send_unowned(
        &mut self,
        now: Instant,
        describe: impl FnOnce(Packet<D::Frame>) -> Packet<D::Frame>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) {
        let Some(mut frame) = self.pool.take() else {
            self.stats.no_frame += 1;
            return;
        };
        match write(frame.bytes_mut()) {
            Some(len) => {
                let packet = Packet::new(frame, len as u32).with_medium(self.medium);
                let packet = describe(packet);
                self.unowned += 1;
                self.enqueue(packet, now);
            }
            None => self.pool.put_back(frame),
        }
    }

    /// Whether the device completes frames: checksums, payload of zeros.
    pub(super) fn completes_frames(&self) -> bool {
        self.port.ring().device().completes()
    }

    /// Writes a segment into `frame`: its length and the parts that are left to the device.
    pub(super) fn write_segment(
        &self,
        frame: &mut D::Frame,
        segments: u16,
        addresses: &Addresses,
        header: &TcpHeader,
        payload: Payload<'_>,
    ) -> (usize, Deferred) {
        match segments {
            1 if self.completes_frames() => {
                wire::write_incomplete(frame.bytes_mut(), addresses, header, payload)
            }
            1 => {
                let len = wire::write_tcp(frame.bytes_mut(), addresses, header, payload);
                (len, Deferred::Nothing)
            }
            _ => {
                // A tracer reads the frame's bytes.
                let gathers = self.port.ring().device().gathers() && !T::ENABLED;
                wire::write_tso(frame, gathers, addresses, header, payload)
            }
        }
    }
}
