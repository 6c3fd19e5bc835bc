//! Reuse of a port pair: a connection from a SYN cookie, and the state left to TIME-WAIT and to a
//! successor (RFC 9293 §3.6.1, RFC 6191, RFC 4987 §3.6).

use std::sync::Arc;

use tautline_base::{Instant, SocketId};

use super::connection::{Connection, Opening};
use super::ecn::SegmentClass;
use super::receiver::Acknowledgment;
use super::state::State;
use crate::config::TcpConfig;
use crate::seq;
use crate::socket::CloseReason;
use crate::time_wait::TimeWaitState;
use crate::wire::Segment;

impl Connection {
    /// A connection whose SYN-ACK was a cookie that came back: `syn` is the SYN as the cookie
    /// remembers it. It waits for the acknowledgment that brought the cookie.
    pub(crate) fn from_cookie(
        opening: Opening,
        config: Arc<TcpConfig>,
        listener: SocketId,
        syn: &Segment<'_>,
        now: Instant,
    ) -> Self {
        let listener = Some(listener);
        let mut connection = Self::new(opening, config, State::SynReceived { listener });
        connection.on_first_syn(syn, now);
        // The SYN-ACK left long ago, as a cookie, and is not recorded.
        connection.send.flight.segments.skip(1);
        connection.ecn.sent(SegmentClass::SynAck, false);
        connection.receiver.advertise(0, None);
        connection
    }

    /// Ends a closed connection so that the one that `segment` opens can take its address pair; in
    /// TIME-WAIT the SYN must be provably newer. Returns the initial sequence number of the
    /// successor, if it must be beyond this connection's numbers. `None`: it does not end.
    pub(crate) fn end_for(&mut self, segment: &Segment<'_>) -> Option<Option<u32>> {
        let opens = segment.syn && segment.ack.is_none() && !segment.rst;
        let isn = match self.state {
            State::Closed if opens && !self.send.reset_due => None,
            State::TimeWait if opens => {
                let old = self.numbers().filter(|old| old.accepts_syn(segment))?;
                Some(old.successor_isn())
            }
            _ => return None,
        };
        self.end(CloseReason::Finished);
        Some(isn)
    }

    /// State for TIME-WAIT of a connection that no application holds, once it has nothing else to
    /// do.
    pub(crate) fn time_wait_state(&self) -> Option<TimeWaitState> {
        let done = self.orphan
            && self.state == State::TimeWait
            && self.send.flight.segments.is_empty()
            && self.receiver.acks.owed() == Acknowledgment::None;
        if done { self.numbers() } else { None }
    }

    fn numbers(&self) -> Option<TimeWaitState> {
        let negotiated = self.negotiated.as_ref()?;
        let window =
            self.receiver.edge().saturating_sub(self.receiver.next()) >> negotiated.own_scale;
        Some(TimeWaitState {
            expected: seq::to_wire(negotiated.irs, self.receiver.next()),
            next: seq::to_wire(self.send.flight.numbers().isn, self.send.flight.nxt()),
            window: window.min(u64::from(u16::MAX)) as u16,
            timestamps: negotiated
                .timestamps
                .recent
                .map(|recent| (recent, self.send.flight.numbers().timestamp_offset)),
            lasts: self.config.time_wait,
            until: self.liveness.close.unwrap_or(Instant::ZERO),
        })
    }
}
