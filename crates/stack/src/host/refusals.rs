//! ICMP errors about packets that this host cannot use (RFC 1122 §3.2.2, RFC 4443 §2.4), within limits.

use std::net::IpAddr;

use tautline_base::{Device, Instant, Medium, Packet, Qdisc};
use tautline_bql::Limit;

use super::interface::{ALL_NODES, Interface};
use crate::trace::Tracer;
use crate::wire::icmp::{self, ICMP_HEADER, Refusal};
use crate::wire::{Ends, ParameterProblem, ip_header_len, ndisc, udp};

impl<Q, D, T, L> Interface<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Answers a packet for a port without a socket, or of an unknown protocol, by an ICMP error,
    /// within limits.
    pub(super) fn refuse(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        protocol: u8,
        packet: &[u8],
        now: Instant,
    ) {
        if !self.is_for_us(frame, ends) {
            return;
        }
        self.stats.no_socket += 1;
        let refusal = match protocol {
            udp::PROTOCOL => Refusal::Port,
            _ => Refusal::Protocol,
        };
        self.send_refusal(frame, ends, refusal, packet, now);
    }

    /// Answers an IPv6 packet with a header that stops it, unless it is an ICMP error itself (RFC 8200
    /// §4, RFC 4443 §2.4 e), within limits.
    pub(super) fn refuse_header(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        problem: ParameterProblem,
        packet: &[u8],
        now: Instant,
    ) {
        let is_to_group = self.is_to_own_group(frame, ends);
        if !is_to_group && !self.is_for_us(frame, ends) {
            return;
        }
        self.stats.not_for_us += 1;
        if icmp::is_error(packet) {
            return;
        }
        let source = if !is_to_group {
            Some(ends.destination)
        } else if problem.answers_multicast && self.addressing.is_peer(ends.source) {
            self.addressing.source_for(ends.source)
        } else {
            None
        };
        if let Some(destination) = source {
            let ends = Ends {
                destination,
                ..*ends
            };
            self.send_refusal(frame, &ends, Refusal::Header(problem), packet, now);
        }
    }

    /// Whether a frame is to a multicast group that this host is in: all nodes, or that in which
    /// neighbors ask for an address of it.
    fn is_to_own_group(&self, frame: &[u8], ends: &Ends) -> bool {
        let IpAddr::V6(group) = ends.destination else {
            return false;
        };
        let is_asked_for_in =
            |own| matches!(own, IpAddr::V6(own) if ndisc::solicited_node(own) == group);
        (group == ALL_NODES || self.addressing.own().any(is_asked_for_in))
            && (self.medium == Medium::Ip || frame.starts_with(&ndisc::group_mac(group).0))
    }

    /// Sends an ICMP error about `packet`, which arrived in `frame`, within limits.
    pub(super) fn send_refusal(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        refusal: Refusal,
        packet: &[u8],
        now: Instant,
    ) {
        let source_mac = self.sender_of(frame);
        if !source_mac.is_unicast() {
            return;
        }
        if !self.icmp_limit.admits(now) {
            self.stats.icmp_limited += 1;
            return;
        }
        if self.has_frames_to_spare() {
            let addresses = self.addresses_to(ends.destination, ends.source, source_mac);
            let room = self.mtu.of(ends.source) - ip_header_len(ends.source) - ICMP_HEADER;
            let quoted = &packet[..packet.len().min(room)];
            self.send_control(now, |frame| {
                icmp::write_refusal(frame, &addresses, refusal, quoted)
            });
        }
    }
}
