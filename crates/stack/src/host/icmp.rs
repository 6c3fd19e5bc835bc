//! ICMP of both families: echo, both ways; errors of others to sockets; errors of ours (RFC 1122
//! §3.2.2, RFC 4443).

use std::net::IpAddr;

use tautline_base::{Device, Instant, Packet};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_qdisc::pfifo_fast::priority_of_tos;

use super::Host;
use crate::pings::Ping;
use crate::socket::{Event, PathError, PingError};
use crate::tcp::Tuple;
use crate::trace::Tracer;
use crate::wire::icmp::{self, Complaint, ICMP_HEADER, Message, Problem, Refusal};
use crate::wire::udp::PROTOCOL as UDP;
use crate::wire::{Addresses, ECN_BITS, Ends, Mac, ip_header_len};

/// IP protocol numbers.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const ICMPV6: u8 = 58;
/// Type of an echo request in each family.
const ECHO_REQUESTS: [u8; 2] = [8, 128];

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Sends an echo request with `data` to `to`; a [`Pong`](Event::Pong) event tells of the reply,
    /// a [`PingFailed`](Event::PingFailed) event of an error. Silence stays silence. At most 64
    /// requests are remembered, the latest.
    ///
    /// # Errors
    /// [`PingError`]: a bad address, no way there, or too much data for one packet.
    pub fn ping(
        &mut self,
        to: impl Into<IpAddr>,
        (identifier, sequence): (u16, u16),
        data: &[u8],
        now: Instant,
    ) -> Result<(), PingError> {
        self.ping_with_tos(to, 0, (identifier, sequence), data, now)
    }

    /// [`ping`](Self::ping) with a TOS byte, or traffic class, but for its two bits of ECN; the
    /// local priority follows it (Linux `IP_TOS`). The reply has the same (RFC 1122 §3.2.2).
    ///
    /// # Errors
    /// As [`ping`](Self::ping).
    pub fn ping_with_tos(
        &mut self,
        to: impl Into<IpAddr>,
        tos: u8,
        (identifier, sequence): (u16, u16),
        data: &[u8],
        now: Instant,
    ) -> Result<(), PingError> {
        let now = self.advance_clock(now);
        let to = to.into().to_canonical();
        if !self.addressing.is_peer(to) {
            return Err(PingError::BadAddress(to));
        }
        let next_hop = self.addressing.next_hop(to).ok_or(PingError::NoRoute(to))?;
        let from = self
            .addressing
            .source_for(to)
            .ok_or(PingError::NoRoute(to))?;
        if ip_header_len(to) + ICMP_HEADER + data.len() > self.mtu {
            return Err(PingError::TooLong(data.len()));
        }
        self.pings.add(Ping {
            from,
            to,
            next_hop,
            identifier,
            sequence,
            tos,
            data: data.into(),
            sent: None,
        });
        // Asks for the hardware address, if it is not known.
        if self.resolve(next_hop, None, now).is_some() {
            self.send_pings(now);
        }
        Ok(())
    }

    /// Sends the requests whose next hop is known now.
    pub(super) fn send_pings(&mut self, now: Instant) {
        if !self.pings.any_waiting() {
            return;
        }
        while let Some(ping) = {
            let neighbours = &self.neighbours;
            self.pings
                .take_waiting(|ping| neighbours.knows(ping.next_hop))
        } {
            let Some(mac) = self.resolve(ping.next_hop, None, now) else {
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

    /// Nobody answers for `next_hop`.
    pub(super) fn lose_pings(&mut self, next_hop: IpAddr) {
        while let Some(ping) = self.pings.take_waiting(|ping| ping.next_hop == next_hop) {
            self.tell_of_ping(&ping, PathError::HostUnreachable);
        }
    }

    fn tell_of_ping(&mut self, ping: &Ping, why: PathError) {
        let Ping {
            to,
            identifier,
            sequence,
            ..
        } = *ping;
        self.events.push_back(Event::PingFailed {
            to,
            identifier,
            sequence,
            why,
        });
    }

    pub(super) fn on_icmp(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        message: Message<'_>,
        now: Instant,
    ) {
        if let Message::Neighbour(message) = message {
            return self.on_neighbour(frame, ends, message, now);
        }
        if !self.concerns_us(frame, ends) {
            return;
        }
        match message {
            Message::EchoRequest(rest) => self.on_echo(frame, ends, rest, now),
            Message::EchoReply(rest) => match self.pings.answered(ends.source, rest) {
                Some(Ping {
                    to: from,
                    identifier,
                    sequence,
                    sent,
                    ..
                }) => {
                    let rtt = now - sent.unwrap_or(now);
                    self.events.push_back(Event::Pong {
                        from,
                        identifier,
                        sequence,
                        rtt,
                    });
                }
                None => self.stats.not_for_us += 1,
            },
            Message::Error(complaint) => self.on_complaint(&complaint),
            Message::Neighbour(_) | Message::Other => self.stats.not_for_us += 1,
        }
    }

    fn on_echo(&mut self, frame: &[u8], ends: &Ends, rest: &[u8], now: Instant) {
        let source_mac = Mac::from_bytes(&frame[6..12]);
        if !source_mac.is_unicast() || ip_header_len(ends.source) + 4 + rest.len() > self.mtu {
            self.stats.not_for_us += 1;
            return;
        }
        if self.has_frames_to_spare() {
            let addresses = self.addresses_to(ends.destination, ends.source, source_mac);
            self.send_echo(
                now,
                &Addresses {
                    tos: ends.tos,
                    ..addresses
                },
                true,
                [rest, &[]],
            );
        }
    }

    /// An echo message is a flow of its own between its two hosts, and as urgent as its TOS byte
    /// says.
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
        self.answer_as(now, describe, |frame| {
            icmp::write_echo(frame, addresses, reply, rest)
        });
    }

    /// Somebody says that a packet of ours did not arrive. Anybody can: only who saw the packet
    /// knows what is in flight.
    fn on_complaint(&mut self, complaint: &Complaint) {
        let believed = match complaint.protocol {
            TCP => self.complain_to_connection(complaint),
            UDP => self.complain_to_udp(complaint),
            ICMP | ICMPV6 => self.complain_to_ping(complaint),
            _ => false,
        };
        if !believed {
            self.stats.icmp_unbelieved += 1;
        }
    }

    fn complain_to_connection(&mut self, complaint: &Complaint) -> bool {
        let (local_port, remote_port) = complaint.ports();
        let tuple = Tuple {
            local: complaint.source,
            remote: complaint.destination,
            local_port,
            remote_port,
        };
        let Some(id) = self.demux.get(&tuple) else {
            return false;
        };
        let believed = self
            .sockets
            .connection_mut(id)
            .is_some_and(|connection| connection.on_icmp_error(complaint.what, complaint.seq()));
        if believed {
            self.touch(id);
        }
        believed
    }

    fn complain_to_ping(&mut self, complaint: &Complaint) -> bool {
        let [kind, _, _, _, label @ ..] = complaint.head;
        let request = ECHO_REQUESTS[usize::from(complaint.protocol == ICMPV6)];
        let Some(ping) = Some(())
            .filter(|()| kind == request)
            .and_then(|()| self.pings.failed(complaint.destination, label))
        else {
            return false;
        };
        self.tell_of_ping(&ping, complaint.what.into());
        true
    }

    /// A packet of a protocol that nobody here speaks, or for a port on which nobody listens: its
    /// sender is told, within limits.
    pub(super) fn refuse(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        protocol: u8,
        packet: &[u8],
        now: Instant,
    ) {
        let source_mac = Mac::from_bytes(&frame[6..12]);
        if !self.concerns_us(frame, ends) {
            return;
        }
        self.stats.no_socket += 1;
        if !source_mac.is_unicast() {
            return;
        }
        if !self.icmp_limit.admits(now) {
            self.stats.icmp_limited += 1;
            return;
        }
        if self.has_frames_to_spare() {
            let refusal = if protocol == UDP {
                Refusal::Port
            } else {
                Refusal::Protocol
            };
            let mtu = self.mtu;
            let addresses = self.addresses_to(ends.destination, ends.source, source_mac);
            let room = mtu - ip_header_len(ends.source) - ICMP_HEADER;
            let quoted = &packet[..packet.len().min(room)];
            self.answer(now, |frame| {
                icmp::write_refusal(frame, &addresses, refusal, quoted)
            });
        }
    }
}

impl From<Problem> for PathError {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::HostUnreachable => Self::HostUnreachable,
            Problem::PortUnreachable => Self::PortUnreachable,
            Problem::Prohibited => Self::Prohibited,
            Problem::TooBig { .. } => Self::TooBig,
            Problem::TimeExceeded => Self::TimeExceeded,
            Problem::Parameter => Self::Parameter,
        }
    }
}
