//! Congestion marks of a connection's segments: marks that arrive, marks that the peer reports, and
//! the codepoint and flags of our own segments. [`Ecn`](super::ecn::Ecn) interprets them.

use tautline_base::Ecn as Codepoint;

use super::connection::{Connection, State};
use super::ecn::{AckState, AckUrgency, Marks, NewMarks, SegmentClass};
use super::receiver::Acknowledgement;
use super::send::AckSummary;
use super::send::{Kind, Plan};
use crate::wire::{EchoedBytes, EcnFlags, Segment};

/// Segments acknowledged at once after a mark (Linux: 2).
const QUICK: u32 = 2;

impl Connection {
    /// An acceptable segment arrived: its mark is to be told to the peer, perhaps at once.
    pub(super) fn on_ecn_mark(&mut self, segment: &Segment<'_>) {
        if !self.ecn.negotiated() {
            return;
        }
        let owes = self.receiver.owed() != Acknowledgement::None;
        let standing = AckState {
            next: self.receiver.next(),
            owes,
        };
        let data = segment.payload.len() as u64;
        match self.ecn.on_packets(
            segment.codepoint,
            segment.ecn_flags,
            (segment.count(), data),
            standing,
        ) {
            AckUrgency::None => {}
            AckUrgency::Quick => self.receiver.acknowledge_quickly(QUICK),
            AckUrgency::Now => self.receiver.owe_now(),
        }
    }

    /// Congestion marks that an acknowledgement reports. Flags of the handshake are no echoes, and
    /// an acknowledgement older than SND.UNA is no news.
    pub(super) fn on_ecn_echo(&mut self, segment: &Segment<'_>, summary: &AckSummary) -> Marks {
        let delivery = &summary.delivery;
        if segment.syn || delivery.opening || summary.ack < self.send.flight.una() {
            return Marks::default();
        }
        let newly = NewMarks {
            packets: delivery.packets,
            bytes: delivery.bytes,
            segment: self.send.flight.mss(),
        };
        self.ecn
            .on_acknowledgement(segment.ecn_flags, segment.echoed_bytes, newly)
    }

    /// ECN's class of `plan`.
    fn carries(&self, plan: &Plan) -> SegmentClass {
        match plan.kind {
            Kind::EarlierAck(earlier) => SegmentClass::EarlierAck(earlier),
            Kind::New if !plan.payload().is_empty() => SegmentClass::NewData,
            Kind::New | Kind::Retransmit(_) | Kind::Probe => SegmentClass::Retransmission,
            Kind::Ack | Kind::Reset => SegmentClass::PureAck {
                bare: self.ecn.owes_reflection() || !self.has_reports(),
            },
        }
    }

    /// Flags and codepoint of `plan`.
    pub(super) fn ecn_fields(&self, plan: &Plan) -> (EcnFlags, Codepoint) {
        if plan.kind == Kind::Reset {
            return (EcnFlags::NONE, Codepoint::NotEct);
        }
        if plan.syn() {
            let active = matches!(self.state, State::SynSent);
            let flags = if active {
                self.ecn.syn_flags()
            } else {
                self.ecn.syn_ack_flags()
            };
            return (flags, Codepoint::NotEct);
        }
        if !self.ecn.negotiated() {
            return (EcnFlags::NONE, Codepoint::NotEct);
        }
        let carries = self.carries(plan);
        let cwr = self.send.flight.cwr_due();
        (self.ecn.flags(carries, cwr), self.ecn.codepoint(carries))
    }

    /// The AccECN option of `plan`.
    pub(super) fn echoed_bytes(&self, plan: &Plan) -> Option<EchoedBytes> {
        match plan.kind {
            Kind::Ack => self.ecn.option(),
            _ if plan.syn() && !matches!(self.state, State::SynSent) => self.ecn.syn_ack_option(),
            _ => None,
        }
    }

    /// `plan` has left.
    pub(super) fn note_ecn_sent(&mut self, plan: &Plan) {
        if plan.syn() {
            self.ecn.sent_syn();
        } else if self.ecn.negotiated() && plan.kind != Kind::Reset {
            let carries = self.carries(plan);
            self.ecn.sent(carries);
        }
    }
}
