//! The next segment to send: steps 1 to 3 of the walk (RFC 9293 §3.8).
//!
//! [`Connection::next_segment`] only looks, pacer and TSQ included; [`Connection::commit`] accounts
//! for the segment once there is a frame to write it into.

use tautline_base::{Instant, SegmentId, Tso};

use super::connection::Connection;
use super::ecn::EcnState;
use super::receiver::Acknowledgement;
use super::send::{Blocked, Kind, Plan, SendContext};
use super::state::State;
use crate::config::Pacing;
use crate::tsq::TsqRequest;
use crate::wire::Payload;

impl Connection {
    /// The next segment this connection may send: what TCP allows, at the departure the pacer
    /// grants, within TCP Small Queues. An acknowledgement that is owed does not wait for data.
    ///
    /// `most`: the device takes packets of several segments, of so many in all; then it may be more
    /// than one.
    pub(super) fn next_segment(&self, most: Option<Tso>, now: Instant) -> Result<Plan, Blocked> {
        let opening = self.state.is_opening();
        let planned = match self.state {
            State::Closed if self.reset_due => Ok(self.bare(Kind::Reset)),
            State::Closed | State::TimeWait => Err(Blocked::Idle),
            _ if opening => self.send.next_syn().ok_or(Blocked::Handshake),
            _ => {
                let context = self.send_context(now);
                match self.next_urgent(&context) {
                    Some(urgent) => Ok(urgent),
                    None => self.send.next_data(most, &context),
                }
                .or_else(|blocked| self.next_probe(blocked))
            }
        };
        planned
            .and_then(|plan| self.admit(plan, now))
            .or_else(|blocked| {
                let silent = !self.may_acknowledge() || blocked == Blocked::Restart;
                let ack = if silent { None } else { self.next_ack() };
                ack.map(|ack| Plan {
                    departure: now,
                    ..ack
                })
                .ok_or(blocked)
            })
    }

    /// Acknowledgements leave once our SYN has, and while there is a peer. In SYN-RECEIVED a segment
    /// outside the window is answered (RFC 9293 §3.10.7.4), and a reset in it challenged.
    fn may_acknowledge(&self) -> bool {
        match self.state {
            State::SynSent | State::Closed => false,
            State::SynReceived { .. } => self.send.flight.nxt() > 0,
            _ => true,
        }
    }

    /// The state of the rest of the connection that the sending half depends on.
    pub(super) fn send_context(&self, now: Instant) -> SendContext {
        SendContext {
            open: matches!(self.state, State::Established | State::CloseWait),
            in_order: self.receiver.out_of_order() == 0,
            classic_ecn: self.ecn.state() == EcnState::Classic,
            now,
        }
    }

    /// Steps 2 and 3 of the walk: the pacer's and TCP Small Queues' answer to `plan`. Only sequence
    /// space is held back.
    fn admit(&self, plan: Plan, now: Instant) -> Result<Plan, Blocked> {
        let pacing = self.config.pacing;
        let departure = match (pacing, self.send.flight.paced(&plan)) {
            (Pacing::Internal, Some(next)) if next > now => return Err(Blocked::Pacer(next)),
            (Pacing::Qdisc, Some(next)) => next.max(now),
            _ => now,
        };
        if plan.has_sequence_space() {
            let flight = &self.send.flight;
            let request = TsqRequest {
                rate: flight.congestion.verdict().pacing_rate,
                segment: self.full_frame() * u64::from(plan.segments),
                paced: pacing != Pacing::Off,
                again: matches!(plan.kind, Kind::Retransmit(_)),
                last: flight.segments.len() <= 1,
            };
            if !self.tsq.admits(&self.config.tsq, request) {
                return Err(Blocked::Tsq);
            }
        }
        Ok(Plan { departure, ..plan })
    }

    /// A segment that goes before new data.
    #[inline]
    fn next_urgent(&self, context: &SendContext) -> Option<Plan> {
        let reports = self.receiver.has_reports();
        if !reports && !self.ecn.negotiated() && !self.send.flight.may_have_something_urgent() {
            return None;
        }
        // SACK blocks need the room that data would take: such an acknowledgement goes alone, and
        // first.
        let sack_first = if reports { self.next_ack() } else { None };
        self.next_ecn_ack()
            .or(sack_first)
            .or_else(|| self.send.next_urgent(context))
    }

    fn bare(&self, kind: Kind) -> Plan {
        let nxt = self.send.flight.nxt();
        Plan::new(kind, nxt..nxt)
    }

    /// The acknowledgement that is owed now: it need not wait for data that is held back.
    fn next_ack(&self) -> Option<Plan> {
        let owed = self.receiver.owed() == Acknowledgement::Now && self.receiver.may_answer();
        owed.then(|| self.bare(Kind::Ack))
    }

    /// ECN feedback that only a bare acknowledgement can carry, before anything else.
    fn next_ecn_ack(&self) -> Option<Plan> {
        if !self.receiver.may_answer() {
            return None;
        }
        let past = self
            .ecn
            .earlier()
            .map(|earlier| self.bare(Kind::EarlierAck(earlier)));
        past.or_else(|| self.ecn.owes_reflection().then(|| self.bare(Kind::Ack)))
    }

    /// The window or keepalive probe that is due while data is `blocked`.
    fn next_probe(&self, blocked: Blocked) -> Result<Plan, Blocked> {
        let due = self.liveness.probe_due || self.send.window_probe_due();
        if due && blocked != Blocked::Restart {
            Ok(self.bare(Kind::Probe))
        } else {
            Err(blocked)
        }
    }

    /// The payload of `plan`.
    pub(crate) fn payload(&self, plan: &Plan) -> Payload<'_> {
        if plan.has_sequence_space() {
            self.send.stream.payload(plan.payload())
        } else {
            Payload::EMPTY
        }
    }

    /// Accounts for `plan`, which now is a packet. Returns the number of its first segment.
    pub(crate) fn commit(&mut self, plan: &Plan, now: Instant) -> Option<SegmentId> {
        if matches!(plan.kind, Kind::Ack | Kind::EarlierAck(_)) {
            self.receiver.spend_answer();
        }
        // An acknowledgement of the past leaves the present one owed, and one that only reports the
        // codepoint of the SYN-ACK leaves the SACK blocks.
        // Joined acknowledgements wait for one that reports SACK blocks.
        let leaves_owed = match plan.kind {
            Kind::EarlierAck(_) => true,
            Kind::Ack => self.ecn.owes_reflection() && self.receiver.has_reports(),
            _ => self.receiver.has_joined(),
        };
        if self.negotiated.is_some() && !leaves_owed {
            self.receiver.acknowledged();
        }
        let class = self.class(plan);
        self.ecn.sent(class);
        self.send.note_sent(plan, now);
        match plan.kind {
            Kind::New => {
                let payload = plan.payload();
                if let Some(attribution) = &mut self.attribution
                    && !payload.is_empty()
                {
                    attribution.born(payload, plan.departure > now, now);
                }
                let id = self.send.commit_new(plan, now);
                self.liveness.wait(plan.departure);
                self.pending.writable |= self.send.has_room_after_sending(self.memory_pressure);
                if plan.fin {
                    self.state = match self.state {
                        State::CloseWait => State::LastAck,
                        _ => State::FinWait1,
                    };
                }
                Some(id)
            }
            Kind::Retransmit(id) => {
                self.send.flight.commit_again(id, plan, now);
                Some(id)
            }
            Kind::Probe => {
                self.send.probed_window(now);
                self.liveness.probed(now);
                None
            }
            Kind::Ack | Kind::EarlierAck(_) => None,
            Kind::Reset => {
                self.reset_due = false;
                None
            }
        }
    }
}
