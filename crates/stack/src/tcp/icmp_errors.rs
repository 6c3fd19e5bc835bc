//! What routers and the peer's host say of our packets (ICMP errors), as RFC 5927 and RFC 5461
//! would have it: what is not about a segment in flight is forged or late; nothing ends a
//! connection that is open.

use super::connection::{Connection, State};
use crate::seq;
use crate::socket::{CloseReason, PathError};
use crate::wire::icmp::Problem;

impl Connection {
    /// Somebody says that the segment which began at `wire_seq` did not arrive. False if it was
    /// none of ours in flight.
    pub(crate) fn on_icmp_error(&mut self, problem: Problem, wire_seq: u32) -> bool {
        let at = seq::from_wire(self.isn, self.una, wire_seq)
            .filter(|at| (self.una..self.nxt).contains(at));
        let Some(at) = at else { return false };
        if let Problem::TooBig { mtu } = problem
            && !self.on_too_big(at, mtu)
        {
            return false;
        }
        self.path_error = Some(PathError::from(problem));
        if self.state == State::SynSent {
            match problem {
                Problem::PortUnreachable => self.end(CloseReason::Refused),
                Problem::HostUnreachable | Problem::Prohibited => {
                    self.end(CloseReason::Unreachable)
                }
                Problem::TooBig { .. } | Problem::TimeExceeded | Problem::Parameter => {}
            }
        }
        true
    }
}
