//! The next segment to send: steps 1 to 3 of the walk (RFC 9293 §3.8).
//!
//! [`Connection::next_segment`] only looks, pacer and TSQ included; [`Connection::commit`] accounts
//! for the segment once there is a frame to write it into.

use tautline_base::{Instant, SegmentId, Tso};

use super::connection::Connection;
use super::ecn::{Ecn, EcnState, SegmentClass};
use super::receiver::{Bounds, Receiver};
use super::send::{Blocked, Kind, Plan, SendContext};
use super::state::State;
use crate::wire::Payload;

impl Connection {
    /// The next segment this connection may send: what TCP allows, at the departure the pacer
    /// grants, within TCP Small Queues. An acknowledgment that is owed does not wait for data.
    ///
    /// `most`: the device takes packets of several segments, of so many in all; then it may be more
    /// than one.
    pub(super) fn next_segment(&self, most: Option<Tso>, now: Instant) -> Result<Plan, Blocked> {
        let planned = match self.state {
            State::Closed if self.send.reset_due => Ok(self.send.bare(Kind::Reset)),
            State::Closed | State::TimeWait => Err(Blocked::Idle),
            state
                if state.is_opening()
                    && (!self.fast_open.is_trusted() || self.send.flight.nxt() == 0) =>
            {
                let written = self.send.stream.record_end() - 1;
                let syn = self.send.next_syn().ok_or(Blocked::Handshake);
                syn.map(|syn| self.fast_open.fill(syn, written))
            }
            _ => {
                let context = self.send_context(now);
                let data = match self.next_urgent(&context) {
                    Some(urgent) => Ok(urgent),
                    None => self.send.next_data(most, &context),
                };
                let probe = self.liveness.probe_due || self.send.window_probe_due();
                match data {
                    Err(blocked) if probe && blocked != Blocked::Restart => {
                        Ok(self.send.bare(Kind::Probe))
                    }
                    data => data,
                }
            }
        };
        let admitted = planned.and_then(|plan| self.send.admit(plan, &self.tsq, now));
        admitted.or_else(|blocked| {
            // Acknowledgments leave once our SYN has, and while there is a peer. In SYN-RECEIVED a
            // segment outside the window is answered (RFC 9293 §3.10.7.4), and a reset in it
            // challenged.
            let may_acknowledge = match self.state {
                State::SynSent | State::Closed => false,
                State::SynReceived { .. } => self.send.flight.nxt() > 0,
                _ => blocked != Blocked::Restart,
            };
            if may_acknowledge && self.receiver.acks.is_due() {
                Ok(Plan {
                    departure: now,
                    ..self.send.bare(Kind::Ack)
                })
            } else {
                Err(blocked)
            }
        })
    }

    /// The state of the rest of the connection that the sending half depends on.
    pub(super) fn send_context(&self, now: Instant) -> SendContext {
        SendContext {
            open: matches!(self.state, State::Established | State::CloseWait)
                || self.fast_open.is_trusted(),
            in_order: self.receiver.out_of_order() == 0,
            classic_ecn: self.ecn.state() == EcnState::Classic,
            full: self.send.flight.mss() - echo_space(&self.receiver, &self.ecn),
            now,
        }
    }

    /// A segment that goes before new data.
    #[inline]
    fn next_urgent(&self, context: &SendContext) -> Option<Plan> {
        let reports = self.receiver.has_reports();
        if !reports && !self.ecn.negotiated() && !self.send.flight.may_have_something_urgent() {
            return None;
        }
        // ECN feedback that only a bare acknowledgment can carry goes before anything else. SACK
        // blocks need the space of the data: such an acknowledgment goes alone, too.
        let earlier = self.ecn.earlier().map(Kind::EarlierAck);
        let alone = (self.ecn.owes_reflection() && self.receiver.acks.may_answer())
            || (reports && self.receiver.acks.is_due());
        match earlier.or_else(|| alone.then_some(Kind::Ack)) {
            Some(ack) => Some(self.send.bare(ack)),
            None => self.send.next_urgent(context),
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
        // An acknowledgment of an earlier arrival is not counted: each arrival adds one at most.
        if plan.kind == Kind::Ack {
            self.receiver.acks.spend_answer();
        }
        // An acknowledgment of an earlier arrival does not discharge the latest one; one that only
        // reports the codepoint of the SYN-ACK does not discharge SACK blocks, nor does data, which
        // carries none.
        let leaves_owed = match plan.kind {
            Kind::EarlierAck(_) => true,
            Kind::Ack => self.ecn.owes_reflection() && self.receiver.has_reports(),
            _ => self.receiver.acks.has_compressed(),
        };
        if self.negotiated.is_some() && !leaves_owed {
            self.receiver.acknowledged();
        }
        note_answer(self, plan, now);
        let class = self.class(plan);
        let full = self.send.flight.mss() - echo_space(&self.receiver, &self.ecn);
        let echoed = self.echoed_bytes(plan, class).is_some();
        self.ecn.sent(class, echoed);
        self.send.note_sent(plan, now);
        match plan.kind {
            Kind::New => {
                let (plan, payload) = if plan.syn() {
                    (&self.fast_open.sent(plan), 1..1)
                } else {
                    (plan, plan.payload())
                };
                if let Some(attribution) = &mut self.attribution
                    && !payload.is_empty()
                {
                    attribution.born(payload, plan.departure > now, now);
                }
                let id = self.send.commit_new(plan, full, now);
                self.liveness.wait(plan.departure);
                self.pending.writable |=
                    self.send.has_room_after_sending(self.host_memory.pressure);
                if plan.fin {
                    self.state = self.state.after_own_fin();
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
                self.send.reset_due = false;
                None
            }
        }
    }
}

/// A connection whose acknowledgments follow what its application does takes data for an answer.
fn note_answer(connection: &mut Connection, plan: &Plan, now: Instant) {
    if connection.config.acks_follow_reads && plan.has_sequence_space() {
        let bounds = Bounds::new(&connection.config, &connection.send.flight.rtt);
        connection.receiver.acks.sent_data(bounds, now);
    }
}

/// Bytes that a full segment of new data leaves to the AccECN option that is due.
#[inline]
fn echo_space(receiver: &Receiver, ecn: &Ecn) -> u64 {
    if receiver.has_reports() {
        return 0;
    }
    let option = ecn.option(SegmentClass::NewData);
    option.map_or(0, |option| option.padded_len() as u64)
}
