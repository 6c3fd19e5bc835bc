//! The next segment to send and its header: steps 1 to 3 of the walk (RFC 9293 §3.8).
//!
//! [`Connection::next_segment`] only looks, pacer and TSQ included; [`Connection::commit`] accounts
//! for the segment once there is a frame to write it into.

use tautline_base::{Instant, SegmentId, Tso};

use super::connection::{Connection, State};
use super::ecn::EcnState;
use super::receiver::Acknowledgement;
use super::send::{Blocked, Kind, Plan, SendContext};
use crate::config::Pacing;
use crate::seq;
use crate::tsq::TsqRequest;
use crate::wire::{
    EchoedBytes, Flags, OPTION_SPACE, Payload, SACK_BLOCK, SACK_BLOCKS, TIMESTAMP_OPTION, TcpHeader,
};

/// Kind and length of a SACK option, padding included.
const SACK_HEADER: usize = 4;

impl Connection {
    /// The next segment this connection may send: what TCP allows, at the departure the pacer
    /// grants, within TCP Small Queues. An acknowledgement that is owed does not wait for data.
    ///
    /// `most`: the device takes packets of several segments, of so many in all; then it may be more
    /// than one.
    pub(super) fn next_segment(&self, most: Option<Tso>, now: Instant) -> Result<Plan, Blocked> {
        let opening = self.is_opening();
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

    /// SACK blocks, or the report of a duplicate, wait for an acknowledgement.
    pub(super) fn has_reports(&self) -> bool {
        self.receiver.out_of_order() > 0 || self.receiver.has_duplicate()
    }

    /// A segment that goes before new data.
    #[inline]
    fn next_urgent(&self, context: &SendContext) -> Option<Plan> {
        let reports = self.has_reports();
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

    /// The header of `plan`. Fixes the window it advertises.
    pub(crate) fn header(&mut self, plan: &Plan, now: Instant) -> TcpHeader {
        let syn = plan.syn();
        let own_scale = self
            .negotiated
            .as_ref()
            .map_or_else(|| self.own_scale(), |negotiated| negotiated.own_scale);
        let offset = match plan.kind {
            Kind::New | Kind::Retransmit(_) => plan.range.start,
            Kind::Ack | Kind::EarlierAck(_) | Kind::Reset => self.send.flight.nxt(),
            // One below what is acknowledged: out of the window, so the peer must answer with its
            // own.
            Kind::Probe => self.send.flight.una().saturating_sub(1),
        };
        let answering = self.negotiated.is_some();
        let next = match plan.kind {
            Kind::EarlierAck(earlier) => earlier.next,
            _ => self.receiver.next(),
        };
        let (ecn_flags, codepoint) = self.ecn_fields(plan);
        let echoed_bytes = self.echoed_bytes(plan);
        let scaling = self
            .negotiated
            .as_ref()
            .is_none_or(|negotiated| negotiated.scaling);
        TcpHeader {
            source_port: self.tuple.local_port,
            destination_port: self.tuple.remote_port,
            seq: seq::to_wire(self.send.flight.numbers().isn, offset),
            ack: self
                .negotiated
                .as_ref()
                .map(|negotiated| seq::to_wire(negotiated.irs, next)),
            flags: self.flags(plan, syn),
            // Windows in SYNs are never scaled (RFC 7323 §2.2).
            window: self.receiver.advertise(if syn { 0 } else { own_scale }),
            window_scale: (syn && scaling).then_some(own_scale),
            mss: syn.then_some(
                (self.send.flight.path.link() - self.tuple.headers_len()).min(usize::from(u16::MAX))
                    as u16,
            ),
            sack_permitted: syn
                && self
                    .negotiated
                    .as_ref()
                    .is_none_or(|negotiated| negotiated.sack),
            sack: if answering && plan.kind == Kind::Ack && !self.ecn.owes_reflection() {
                self.sack_option(echoed_bytes)
            } else {
                [None; SACK_BLOCKS]
            },
            timestamp: self.timestamp_option(syn, now),
            ecn_flags,
            echoed_bytes,
            codepoint,
        }
    }

    fn flags(&self, plan: &Plan, syn: bool) -> Flags {
        match plan.kind {
            Kind::Reset => Flags::Rst,
            _ if syn => Flags::Syn,
            _ if plan.fin && plan.payload().is_empty() => Flags::Fin,
            // The FIN ends the queued data: it is pushed (RFC 9293 §3.9.1.2).
            _ if plan.fin => Flags::PshFin,
            Kind::New | Kind::Retransmit(_) if plan.range.end >= self.send.stream.buffer.end() => {
                Flags::Psh
            }
            _ => Flags::None,
        }
    }

    fn timestamp_option(&self, syn: bool, now: Instant) -> Option<(u32, u32)> {
        match &self.negotiated {
            None => syn.then(|| (self.send.flight.numbers().timestamp(now), 0)),
            Some(negotiated) => negotiated
                .peer_timestamp
                .map(|echo| (self.send.flight.numbers().timestamp(now), echo)),
        }
    }

    /// With `echoed_bytes` beside them there is room for two blocks (RFC 9768 §3.2.3.3).
    fn sack_option(&self, echoed_bytes: Option<EchoedBytes>) -> [Option<(u32, u32)>; SACK_BLOCKS] {
        let mut option = [None; SACK_BLOCKS];
        if let Some(negotiated) = self
            .negotiated
            .as_ref()
            .filter(|negotiated| negotiated.sack)
        {
            // Not even an acknowledgement may be longer than the MTU.
            let space = self
                .send
                .flight
                .path
                .link()
                .saturating_sub(self.tuple.headers_len())
                .min(OPTION_SPACE);
            // Kind and length of the SACK option take the room that pads the timestamp, if there is
            // one.
            let beside = match negotiated.peer_timestamp {
                Some(_) => TIMESTAMP_OPTION,
                None => SACK_HEADER,
            };
            let others = beside + echoed_bytes.map_or(0, |option| option.padded_len());
            let room = space.saturating_sub(others);
            for (slot, block) in option
                .iter_mut()
                .zip(self.receiver.reports().take(room / SACK_BLOCK))
            {
                *slot = Some((
                    seq::to_wire(negotiated.irs, block.start),
                    seq::to_wire(negotiated.irs, block.end),
                ));
            }
        }
        option
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
        self.note_born(plan, now);
        if matches!(plan.kind, Kind::Ack | Kind::EarlierAck(_)) {
            self.receiver.spend_answer();
        }
        // An acknowledgement of the past leaves the present one owed, and one that only reports the
        // codepoint of the SYN-ACK leaves the SACK blocks.
        // Joined acknowledgements wait for one that reports SACK blocks.
        let leaves_owed = match plan.kind {
            Kind::EarlierAck(_) => true,
            Kind::Ack => self.ecn.owes_reflection() && self.has_reports(),
            _ => self.receiver.has_joined(),
        };
        if self.negotiated.is_some() && !leaves_owed {
            self.receiver.acknowledged();
        }
        self.note_ecn_sent(plan);
        self.send.note_sent(plan, now);
        match plan.kind {
            Kind::New => {
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
