//! Echo requests of ours that wait for a hardware address or a reply (RFC 792, RFC 4443 §4.1).
//!
//! Bounded: past the limit, the oldest is discarded. A reply counts only if it comes from where the
//! request went, with its identifier, number and data.

use std::collections::VecDeque;
use std::net::IpAddr;

use tautline_base::Instant;

use crate::link_mtu::LinkMtu;
use crate::socket::{Event, PathError};
use crate::wire::icmp::{ICMP_HEADER, IcmpError};
use crate::wire::ip_header_len;

/// IP protocol number.
pub(crate) const ICMPV6: u8 = 58;
/// Type of an echo request in each family.
const ECHO_REQUESTS: [u8; 2] = [8, 128];

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ping {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) next_hop: IpAddr,
    pub(crate) identifier: u16,
    pub(crate) sequence: u16,
    pub(crate) tos: u8,
    pub(crate) data: Box<[u8]>,
    /// Time at which it entered the qdisc.
    pub(crate) sent: Option<Instant>,
}

impl Ping {
    /// Identifier and number as they stand in the message.
    pub(crate) fn label(&self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.identifier.to_be_bytes(), self.sequence.to_be_bytes());
        [a, b, c, d]
    }

    /// Bytes of its IP packet.
    pub(crate) fn packet_len(&self) -> usize {
        ip_header_len(self.to) + ICMP_HEADER + self.data.len()
    }

    fn failed(&self, why: PathError) -> Event {
        Event::PingFailed {
            to: self.to,
            identifier: self.identifier,
            sequence: self.sequence,
            why,
        }
    }
}

/// All of them, the oldest first.
#[derive(Debug)]
pub(crate) struct Pings {
    pings: VecDeque<Ping>,
    /// Most requests remembered, at least 1.
    capacity: usize,
    /// Number of unsent requests.
    waiting: usize,
}

impl Pings {
    /// None yet, and room for `capacity`, or for one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            pings: VecDeque::new(),
            capacity: capacity.max(1),
            waiting: 0,
        }
    }

    /// Adds a request that is not sent yet.
    pub(crate) fn add(&mut self, ping: Ping) {
        if self.pings.len() >= self.capacity {
            self.remove(0);
        }
        self.waiting += 1;
        self.pings.push_back(ping);
    }

    fn remove(&mut self, index: usize) -> Option<Ping> {
        let ping = self.pings.remove(index)?;
        self.waiting -= usize::from(ping.sent.is_none());
        Some(ping)
    }

    /// Whether any is to be sent.
    pub(crate) fn any_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Next hops of those that are not sent yet.
    pub(crate) fn waited_for(&self) -> Vec<IpAddr> {
        let waiting = self.pings.iter().filter(|ping| ping.sent.is_none());
        waiting.map(|ping| ping.next_hop).collect()
    }

    /// Routes have changed: those that are not sent yet look up their next hop again.
    pub(crate) fn reroute(&mut self, next_hop: impl Fn(IpAddr) -> Option<IpAddr>) {
        for ping in self.pings.iter_mut().filter(|ping| ping.sent.is_none()) {
            ping.next_hop = next_hop(ping.to).unwrap_or(ping.next_hop);
        }
    }

    /// Takes the oldest that is not sent yet and is `wanted`.
    pub(crate) fn take_waiting(&mut self, wanted: impl Fn(&Ping) -> bool) -> Option<Ping> {
        if self.waiting == 0 {
            return None;
        }
        let index = self
            .pings
            .iter()
            .position(|ping| ping.sent.is_none() && wanted(ping))?;
        self.remove(index)
    }

    /// Puts a request back that was sent `at`.
    pub(crate) fn sent(&mut self, ping: Ping, at: Instant) {
        self.pings.push_back(Ping {
            sent: Some(at),
            ..ping
        });
    }

    /// The request that a reply from `from` answers: the reply's identifier, number and data are
    /// `rest`.
    pub(crate) fn answered(&mut self, from: IpAddr, rest: &[u8]) -> Option<Ping> {
        let (label, data) = rest.split_first_chunk::<4>()?;
        let matches =
            |ping: &Ping| ping.to == from && ping.label() == *label && *ping.data == *data;
        let index = self
            .pings
            .iter()
            .position(|ping| ping.sent.is_some() && matches(ping))?;
        self.remove(index)
    }

    /// Handles an ICMP error that quotes an echo request.
    pub(crate) fn on_error(&mut self, error: &IcmpError) -> Option<Event> {
        let [kind, _, _, _, label @ ..] = error.head;
        if kind != ECHO_REQUESTS[usize::from(error.protocol == ICMPV6)] {
            return None;
        }
        let is_quoted = |ping: &Ping| {
            ping.sent.is_some() && ping.to == error.destination && ping.label() == label
        };
        let index = self.pings.iter().position(is_quoted)?;
        Some(self.remove(index)?.failed(error.problem.into()))
    }

    /// Fails a request from `address`, which is not the host's any more: none leaves from it, and no
    /// reply to it is accepted.
    pub(crate) fn on_address_lost(&mut self, address: IpAddr) -> Option<Event> {
        let index = self.pings.iter().position(|ping| ping.from == address)?;
        Some(self.remove(index)?.failed(PathError::HostUnreachable))
    }

    /// Fails a request that waits and is longer than the link carries now.
    pub(crate) fn on_link_mtu(&mut self, mtu: LinkMtu) -> Option<Event> {
        let ping = self.take_waiting(|ping| ping.packet_len() > mtu.of(ping.to))?;
        let mtu = u16::try_from(mtu.of(ping.to)).ok();
        Some(ping.failed(PathError::TooBig { mtu }))
    }

    /// Fails a request that waits for the hardware address of `next_hop`.
    pub(crate) fn on_unresolved(&mut self, next_hop: IpAddr) -> Option<Event> {
        let ping = self.take_waiting(|ping| ping.next_hop == next_hop)?;
        Some(ping.failed(PathError::HostUnreachable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::icmp::Problem;
    use std::net::Ipv4Addr;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 7, 0, 2));

    fn ping(sequence: u16) -> Ping {
        let data = vec![7; 3].into();
        Ping {
            from: PEER,
            to: PEER,
            next_hop: PEER,
            identifier: 0x0102,
            sequence,
            tos: 0,
            data,
            sent: None,
        }
    }

    #[test]
    fn only_its_own_reply_answers_a_ping() {
        let mut pings = Pings::new(1);
        pings.add(ping(3));
        assert_eq!(
            pings.answered(PEER, &[1, 2, 0, 3, 7, 7, 7]),
            None,
            "it is not sent yet"
        );
        let waiting = pings.take_waiting(|_| true).expect("one waits");
        assert!(!pings.any_waiting());
        pings.sent(waiting, Instant::from_secs(1));
        for lie in [
            &[1, 2, 0, 3, 7, 7][..],
            &[1, 2, 0, 3, 7, 7, 8],
            &[1, 2, 0, 4, 7, 7, 7],
            &[2, 2, 0, 3, 7, 7, 7],
            &[1, 2],
        ] {
            assert_eq!(pings.answered(PEER, lie), None, "{lie:?}");
        }
        assert_eq!(
            pings.answered(Ipv4Addr::LOCALHOST.into(), &[1, 2, 0, 3, 7, 7, 7]),
            None
        );
        assert!(pings.answered(PEER, &[1, 2, 0, 3, 7, 7, 7]).is_some());
        assert_eq!(pings.answered(PEER, &[1, 2, 0, 3, 7, 7, 7]), None, "once");
    }

    /// An error of ICMP quotes a request of kind 8, one of ICMPv6 a request of kind 128.
    #[test]
    fn an_error_that_quotes_a_request_fails_it() {
        for (protocol, kind) in [(1, 8), (ICMPV6, 128)] {
            let mut pings = Pings::new(1);
            pings.sent(ping(3), Instant::from_secs(1));
            let error = |kind| IcmpError {
                source: PEER,
                destination: PEER,
                protocol,
                head: [kind, 0, 0xaa, 0xbb, 1, 2, 0, 3],
                problem: Problem::HostUnreachable,
            };
            assert_eq!(pings.on_error(&error(kind ^ 1)), None, "another kind");
            assert!(pings.on_error(&error(kind)).is_some());
            assert_eq!(pings.on_error(&error(kind)), None, "once");
        }
    }

    #[test]
    fn of_too_many_the_oldest_is_forgotten() {
        for (capacity, left) in [(64u16, 64), (500, 500), (0, 1)] {
            let mut pings = Pings::new(usize::from(capacity));
            (0..1000).for_each(|sequence| pings.add(ping(sequence)));
            assert_eq!((pings.pings.len(), pings.waiting), (left, left));
            assert_eq!(
                pings.take_waiting(|_| true).map(|ping| ping.sequence),
                Some(1000 - left as u16)
            );
        }
    }
}
