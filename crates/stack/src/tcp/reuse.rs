//! Reuse of a port pair: a connection from a SYN cookie, and the state left to TIME-WAIT and to a
//! successor (RFC 9293 §3.6.1, RFC 6191, RFC 4987 §3.6).

use std::sync::Arc;

use tautline_base::{Instant, SocketId};

use super::connection::{Connection, Opening, State};
use super::ecn::SegmentClass;
use super::receiver::Acknowledgement;
use crate::config::TcpConfig;
use crate::seq;
use crate::socket::CloseReason;
use crate::time_wait::TimeWaitState;
use crate::wire::Segment;

impl Connection {
    /// A connection whose SYN-ACK was a cookie that came back: `syn` is the SYN as the cookie
    /// remembers it. It waits for the acknowledgement that brought the cookie.
    pub(crate) fn from_cookie(
        opening: Opening,
        config: Arc<TcpConfig>,
        listener: SocketId,
        syn: &Segment<'_>,
        now: Instant,
    ) -> Self {
        let mut connection = Self::new(
            opening,
            config,
            State::SynReceived {
                listener: Some(listener),
            },
        );
        connection.on_first_syn(syn, now);
        // The SYN-ACK left long ago.
        connection.send.flight.syn_ack_left();
        connection.ecn.sent(SegmentClass::SynAck);
        connection.receiver.advertise(0);
        connection
    }

    /// A new SYN of the same peer takes the place of a connection that is over. In TIME-WAIT it
    /// must be provably newer.
    pub(crate) fn is_replaced_by(&self, segment: &Segment<'_>) -> bool {
        let opens = segment.syn && segment.ack.is_none() && !segment.rst;
        match self.state {
            State::Closed => opens && !self.reset_due,
            State::TimeWait => {
                opens
                    && self
                        .numbers()
                        .is_some_and(|remains| remains.accepts_syn(segment))
            }
            _ => false,
        }
    }

    /// The initial sequence number of a successor, if it must be beyond the numbers of this
    /// connection.
    pub(crate) fn successor_isn(&self) -> Option<u32> {
        (self.state == State::TimeWait)
            .then(|| self.numbers().map(|remains| remains.successor_isn()))
            .flatten()
    }

    /// Ends a connection whose place a new one takes.
    pub(crate) fn replace(&mut self) {
        self.end(CloseReason::Finished);
    }

    /// State for TIME-WAIT of a connection that no application holds, once it has nothing else to
    /// do.
    pub(crate) fn time_wait_state(&self) -> Option<TimeWaitState> {
        let done = self.orphan
            && self.state == State::TimeWait
            && self.send.flight.segments.is_empty()
            && self.receiver.owed() == Acknowledgement::None;
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
