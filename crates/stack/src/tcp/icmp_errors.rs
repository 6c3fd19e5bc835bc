//! ICMP errors about our segments, handled as RFC 5927 and RFC 5461 advise: an error that is not
//! about a segment in flight is forged or late, and none of them ends an established connection.

use super::connection::Connection;
use super::send;
use super::state::State;
use crate::socket::{CloseReason, PathError};
use crate::wire::icmp::Problem;

/// Packets of `connection` are `mtu` bytes long at most: this host's link carries no more.
pub(crate) fn on_link_mtu(connection: &mut Connection, mtu: usize) {
    send::on_link_mtu(&mut connection.send.flight, mtu);
}

impl Connection {
    /// An ICMP error quotes the segment that began at `wire_seq`. False unless that segment is in
    /// flight.
    pub(crate) fn on_icmp_error(&mut self, problem: Problem, wire_seq: u32) -> bool {
        let in_flight = self.send.flight.una()..self.send.flight.nxt();
        let at = self
            .send
            .flight
            .offset(wire_seq)
            .filter(|at| in_flight.contains(at));
        let Some(at) = at else { return false };
        if let Problem::TooBig { mtu } = problem
            && !self.send.flight.on_too_big(at, mtu)
        {
            return false;
        }
        self.path_error = Some(PathError::from(problem));
        if self.state == State::SynSent {
            match problem {
                Problem::PortUnreachable => self.end(CloseReason::Refused),
                Problem::HostUnreachable => self.end(CloseReason::Unreachable),
                Problem::Prohibited => self.end(CloseReason::Prohibited),
                Problem::TooBig { .. } | Problem::TimeExceeded | Problem::Parameter => {}
            }
        }
        true
    }
}
