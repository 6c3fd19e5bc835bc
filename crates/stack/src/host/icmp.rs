//! ICMP of both families: echo both ways, received errors, sent errors (RFC 1122 §3.2.2, RFC 4443).

use std::net::IpAddr;

use tautline_base::{Device, Instant, Packet, Qdisc};
use tautline_bql::Limit;

use super::Host;
use super::autoconf::on_router;
use super::transport::DropStage;
use crate::pings::{ICMPV6, Ping};
use crate::socket::{Event, PathError, PingError};
use crate::trace::Tracer;
use crate::wire::Ends;
use crate::wire::icmp::{Message, Problem};
use crate::wire::udp::PROTOCOL as UDP;

/// IP protocol numbers.
const ICMP: u8 = 1;
const TCP: u8 = 6;

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Sends an echo request with `data` to `to`. A [`Pong`](Event::Pong) event reports the reply,
    /// a [`PingFailed`](Event::PingFailed) event an error; without either no event follows. The
    /// latest [`echo_requests`](crate::HostConfig::echo_requests) are remembered.
    ///
    /// # Errors
    /// [`PingError`]: a bad address, no route, or too much data for one packet.
    pub fn ping(
        &mut self,
        to: impl Into<IpAddr>,
        (identifier, sequence): (u16, u16),
        data: &[u8],
        now: Instant,
    ) -> Result<(), PingError> {
        self.ping_with_tos(to, 0, (identifier, sequence), data, now)
    }

    /// [`ping`](Self::ping) with a TOS byte, or traffic class, without its two bits of ECN; the
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
        let addressing = &self.interface.addressing;
        if !addressing.is_peer(to) {
            return Err(PingError::BadAddress(to));
        }
        let next_hop = addressing.next_hop(to).ok_or(PingError::NoRoute(to))?;
        let from = addressing.source_for(to).ok_or(PingError::NoRoute(to))?;
        let ping = Ping {
            from,
            to,
            next_hop,
            identifier,
            sequence,
            tos,
            data: data.into(),
            sent: None,
        };
        if ping.packet_len() > self.interface.mtu.of(to) {
            return Err(PingError::TooLong(data.len()));
        }
        self.interface.pings.add(ping);
        // Asks for the hardware address, if it is unknown.
        if self
            .interface
            .resolve(next_hop, None, (Instant::ZERO, now))
            .is_some()
        {
            self.interface.send_pings(now);
        }
        self.settle_drops(DropStage::Later, now);
        Ok(())
    }

    pub(super) fn on_icmp(
        &mut self,
        frame: &[u8],
        ends: &Ends,
        message: Message<'_>,
        now: Instant,
    ) {
        match message {
            Message::Neighbor(message) => return self.on_neighbor(frame, ends, message, now),
            Message::Router(message) => return on_router(self, frame, ends, &message, now),
            Message::Query(query) => return self.interface.on_query(frame, ends, &query, now),
            _ => {}
        }
        if !self.interface.is_for_us(frame, ends) {
            return;
        }
        match message {
            Message::EchoRequest(rest) => self.interface.on_echo(frame, ends, rest, now),
            Message::EchoReply(rest) => match self.interface.pings.answered(ends.source, rest) {
                Some(ping) => self.transport.events.push_back(Event::Pong {
                    from: ping.to,
                    identifier: ping.identifier,
                    sequence: ping.sequence,
                    rtt: now - ping.sent.unwrap_or(now),
                }),
                None => self.interface.stats.not_for_us += 1,
            },
            // Anyone can send an error: it counts only if it quotes what is in flight, which only a
            // host on the path knows.
            Message::Error(error) => {
                let is_plausible = match error.protocol {
                    // It judges a reported MTU by the length of its segment, too.
                    TCP => self.transport.on_tcp_error(&error),
                    _ if error.is_impossible() => false,
                    UDP => self.transport.on_udp_error(&error),
                    ICMP | ICMPV6 => {
                        let failed = self.interface.pings.on_error(&error);
                        self.transport.events.extend(failed);
                        failed.is_some()
                    }
                    _ => false,
                };
                self.interface.stats.icmp_unbelieved += u64::from(!is_plausible);
            }
            Message::Neighbor(_) | Message::Router(_) | Message::Query(_) | Message::Other => {
                self.interface.stats.not_for_us += 1
            }
        }
    }
}

impl From<Problem> for PathError {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::HostUnreachable => Self::HostUnreachable,
            Problem::PortUnreachable => Self::PortUnreachable,
            Problem::Prohibited => Self::Prohibited,
            Problem::TooBig { mtu } => Self::TooBig {
                mtu: u16::try_from(mtu).ok().filter(|mtu| *mtu > 0),
            },
            Problem::TimeExceeded => Self::TimeExceeded,
            Problem::Parameter => Self::Parameter,
        }
    }
}
