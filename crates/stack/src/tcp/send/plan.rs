//! [`Plan`]: a segment that may be sent; [`Blocked`]: the reason why nothing may be.

use std::ops::Range;

use tautline_base::{Instant, SegmentId};

use crate::tcp::ecn::EarlierAck;

/// A segment that may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// Its sequence space, SYN and FIN included.
    pub(crate) range: Range<u64>,
    pub(crate) fin: bool,
    /// Segments of equal payload that it is made of.
    pub(crate) segments: u16,
    /// It is the tail loss probe that is due.
    pub(in crate::tcp) tail_probe: bool,
    /// Departure time that the pacer grants; `now` if it has no say.
    pub(crate) departure: Instant,
}

/// Purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sequence space never sent before.
    New,
    /// A lost segment again.
    Retransmit(SegmentId),
    /// A pure acknowledgment.
    Ack,
    /// A pure acknowledgment of what arrived before the marks changed.
    EarlierAck(EarlierAck),
    /// A zero-window probe.
    Probe,
    /// A reset.
    Reset,
}

impl Plan {
    /// The plan carries sequence space: it is paced, charged and answered for.
    pub(crate) fn has_sequence_space(&self) -> bool {
        matches!(self.kind, Kind::New | Kind::Retransmit(_))
    }

    /// A segment again: its number, its range, whether it carries the FIN.
    pub(in crate::tcp) fn again((id, range, fin): (SegmentId, Range<u64>, bool)) -> Self {
        Self {
            fin,
            ..Self::new(Kind::Retransmit(id), range)
        }
    }

    /// One segment without a FIN.
    pub(in crate::tcp) fn new(kind: Kind, range: Range<u64>) -> Self {
        Self {
            kind,
            range,
            fin: false,
            segments: 1,
            tail_probe: false,
            departure: Instant::ZERO,
        }
    }

    /// It opens the connection.
    pub(in crate::tcp) fn syn(&self) -> bool {
        self.has_sequence_space() && self.range.start == 0
    }

    /// The bytes of the application's stream in it.
    pub(crate) fn payload(&self) -> Range<u64> {
        self.range.start.max(1)..self.range.end - u64::from(self.fin)
    }

    /// The sequence space of each of its segments; a FIN is in the last.
    pub(in crate::tcp) fn pieces(&self) -> impl Iterator<Item = (Range<u64>, bool)> + use<> {
        let Self {
            ref range,
            fin,
            segments,
            ..
        } = *self;
        let (start, end) = (range.start, range.end);
        let size = (end - u64::from(fin) - start) / u64::from(segments);
        (1..=u64::from(segments)).map(move |number| {
            let last = number == u64::from(segments);
            (
                start + (number - 1) * size..if last { end } else { start + number * size },
                fin && last,
            )
        })
    }
}

/// Why a connection has no segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Nothing is left to send.
    Idle,
    /// The handshake is not complete.
    Handshake,
    /// The connection was idle, or has not begun to search for the path's MTU: both are brought up
    /// to date before the segment's size is known.
    Restart,
    /// The congestion window is full.
    Cwnd,
    /// The peer's window is closed, or too small to be worth a segment (RFC 9293 §3.8.6.2.1).
    PeerWindow,
    /// Nagle's algorithm waits for an acknowledgment.
    Nagle,
    /// The application has announced more data for the last segment (`TCP_CORK`, `MSG_MORE`).
    Cork,
    /// The qdisc refused the previous segment.
    Refused,
    /// The pacer releases the segment at this time.
    Pacer(Instant),
    /// TCP Small Queues: a packet of this connection has to leave the host first.
    Tsq,
}
