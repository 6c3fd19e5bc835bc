//! What to send next: steps 1 and 3 of the walk (RFC 9293 §3.8, `spec/tcp.md` §1.13).
//!
//! [`Connection::next_segment`] only looks, pacer and TSQ included; [`Connection::commit`] makes it
//! so once there is a frame to write it into.

use std::ops::Range;

use tautline_base::{Bytes, Instant, SegmentId, Tso};
use tautline_cc::{Idle, Recovery};

use super::blocked::Blocked;
use super::connection::{Connection, State};
use super::ecn::Earlier;
use super::receiver::Acknowledgement;
use super::recovery::Phase;
use super::tail_probe::TailProbe;
use crate::config::Pacing;
use crate::seq;
use crate::tsq::TsqRequest;
use crate::wire::{
    EchoedBytes, Flags, OPTION_SPACE, Payload, SACK_BLOCK, SACK_BLOCKS, TIMESTAMP_OPTION, TcpHeader,
};

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
    pub(super) tail_probe: bool,
    /// Departure time that the pacer grants; `now` if it has no say.
    pub(crate) departure: Instant,
}

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sequence space never sent before.
    New,
    /// A lost segment again.
    Again(SegmentId),
    /// A pure acknowledgement.
    Ack,
    /// A pure acknowledgement of what arrived before the marks changed.
    Past(Earlier),
    /// A zero-window probe.
    Probe,
    /// A reset.
    Reset,
}

impl Plan {
    /// The plan carries sequence space: it is paced, charged and answered for.
    pub(crate) fn occupies(&self) -> bool {
        matches!(self.kind, Kind::New | Kind::Again(_))
    }

    /// A segment again: its number, its range, whether it carries the FIN.
    pub(super) fn again((id, range, fin): (SegmentId, Range<u64>, bool)) -> Self {
        Self {
            fin,
            ..Self::new(Kind::Again(id), range)
        }
    }

    /// One segment without a FIN.
    pub(super) fn new(kind: Kind, range: Range<u64>) -> Self {
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
    pub(super) fn syn(&self) -> bool {
        self.occupies() && self.range.start == 0
    }

    /// The bytes of the application's stream in it.
    pub(super) fn payload(&self) -> Range<u64> {
        self.range.start.max(1)..self.range.end - u64::from(self.fin)
    }

    /// The sequence space of each of its segments; a FIN is in the last.
    fn pieces(&self) -> impl Iterator<Item = (Range<u64>, bool)> + use<> {
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

impl Connection {
    /// The next segment this connection may send: what TCP allows, at the departure the pacer
    /// grants, within TCP Small Queues. An acknowledgement that is owed does not wait for data.
    ///
    /// `most`: the device takes packets of several segments, of so many in all; then it may be more
    /// than one.
    pub(super) fn next_segment(&self, most: Option<Tso>, now: Instant) -> Result<Plan, Blocked> {
        let opening = matches!(self.state, State::SynSent | State::SynReceived { .. });
        let planned = match self.state {
            State::Closed if self.reset_due => Ok(self.bare(Kind::Reset)),
            State::Closed | State::TimeWait => Err(Blocked::Idle),
            _ if opening => self.next_syn().ok_or(Blocked::Handshake),
            _ => match self.next_urgent(now) {
                Some(urgent) => Ok(urgent),
                None => self.next_data(most, now),
            },
        };
        planned
            .or_else(|blocked| self.next_probe(blocked))
            .and_then(|plan| self.admit(plan, now))
            .or_else(|blocked| {
                let silent = opening || self.state == State::Closed || blocked == Blocked::Restart;
                let ack = if silent { None } else { self.next_ack() };
                ack.map(|ack| Plan {
                    departure: now,
                    ..ack
                })
                .ok_or(blocked)
            })
    }

    /// Steps 2 and 3 of the walk: the pacer's and TCP Small Queues' answer to `plan`. Only sequence
    /// space is held back.
    fn admit(&self, plan: Plan, now: Instant) -> Result<Plan, Blocked> {
        let mut departure = now;
        if self.paces(&plan) {
            let next = self.pacer.next();
            match self.config.pacing {
                Pacing::Internal if next > now => return Err(Blocked::Pacer(next)),
                Pacing::Off | Pacing::Internal => {}
                Pacing::Qdisc => departure = next.max(now),
            }
        }
        let request = TsqRequest {
            rate: self.verdict.pacing_rate,
            segment: self.full_frame() * u64::from(plan.segments),
            paced: self.config.pacing != Pacing::Off,
            again: matches!(plan.kind, Kind::Again(_)),
            last: self.segments.len() <= 1,
        };
        if plan.occupies() && !self.tsq.admits(&self.config.tsq, request) {
            return Err(Blocked::Tsq);
        }
        Ok(Plan { departure, ..plan })
    }

    /// SACK blocks, or the report of a duplicate, wait for an acknowledgement.
    fn has_reports(&self) -> bool {
        self.receiver.out_of_order() > 0 || self.receiver.has_duplicate()
    }

    /// Cheap test that spares a connection without losses and marks the full one.
    #[inline]
    fn may_have_something_urgent(&self) -> bool {
        self.has_reports()
            || self.ecn.negotiated()
            || self.repair.tail == TailProbe::Due
            || self.tries_new_data()
            || self.segments.any_lost()
    }

    /// Whatever goes before new data.
    #[inline]
    fn next_urgent(&self, now: Instant) -> Option<Plan> {
        if self.may_have_something_urgent() {
            self.find_urgent(now)
        } else {
            None
        }
    }

    fn find_urgent(&self, now: Instant) -> Option<Plan> {
        // SACK blocks need the room that data would take: such an acknowledgement goes alone, and
        // first.
        let sack_first = if self.has_reports() {
            self.next_ack()
        } else {
            None
        };
        self.next_ecn_ack()
            .or(sack_first)
            .or_else(|| self.next_tail_probe())
            .or_else(|| self.next_trial(now))
            .or_else(|| self.next_retransmission())
    }

    fn bare(&self, kind: Kind) -> Plan {
        Plan::new(kind, self.nxt..self.nxt)
    }

    fn next_syn(&self) -> Option<Plan> {
        if self.nxt == 0 {
            return Some(Plan::new(Kind::New, 0..1));
        }
        if self.flight.refused {
            return None;
        }
        self.segments.next_lost().map(Plan::again)
    }

    /// The acknowledgement that is owed now: it need not wait for data that is held back.
    pub(crate) fn next_ack(&self) -> Option<Plan> {
        (self.receiver.owed() == Acknowledgement::Now).then(|| self.bare(Kind::Ack))
    }

    /// What only a bare acknowledgement can tell, before anything else.
    fn next_ecn_ack(&self) -> Option<Plan> {
        let past = self
            .ecn
            .earlier()
            .map(|earlier| self.bare(Kind::Past(earlier)));
        past.or_else(|| self.ecn.owes_reflection().then(|| self.bare(Kind::Ack)))
    }

    /// The window or keepalive probe that is due while data is `blocked`.
    fn next_probe(&self, blocked: Blocked) -> Result<Plan, Blocked> {
        let persist = self.timers.persist.as_ref();
        let due = self.liveness.probe_due || persist.is_some_and(|persist| persist.due);
        match self.state {
            State::SynSent | State::SynReceived { .. } | State::TimeWait | State::Closed => {
                Err(blocked)
            }
            _ if due && blocked != Blocked::Restart => Ok(self.bare(Kind::Probe)),
            _ => Err(blocked),
        }
    }

    fn next_retransmission(&self) -> Option<Plan> {
        // The acknowledgement of forward RTO recovery's new data decides, once there is some.
        if self.flight.refused || (self.tries_new_data() && self.sent_trial_data()) {
            return None;
        }
        let lost = self.segments.next_lost()?;
        self.fits_cwnd(&lost.1).then(|| Plan::again(lost))
    }

    /// The congestion window has room for `range`. With nothing in flight one segment always has: a
    /// FIN may make it one longer than the smallest window.
    pub(super) fn fits_cwnd(&self, range: &Range<u64>) -> bool {
        let in_flight = self.segments.in_flight();
        in_flight == 0 || in_flight + (range.end - range.start) <= self.cwnd().get()
    }

    /// Forward RTO recovery sends new data first, if any may leave.
    pub(super) fn next_trial(&self, now: Instant) -> Option<Plan> {
        if !self.tries_new_data() {
            return None;
        }
        self.next_data(None, now).ok()
    }

    /// The application has written what was never sent, and the peer has room for it.
    pub(super) fn has_new_data(&self) -> bool {
        self.nxt < self.buffer.end().min(self.peer.edge)
    }

    /// The segment that comes next in the stream, as long as the peer's window allows.
    pub(super) fn new_segment(&self) -> Plan {
        self.new_segment_of(self.segment_size())
    }

    pub(super) fn new_segment_of(&self, size: u64) -> Plan {
        let end = (self.nxt + size)
            .min(self.buffer.end())
            .min(self.peer.edge.max(self.nxt));
        let fin = self.fin == Some(end);
        Plan {
            fin,
            ..Plan::new(Kind::New, self.nxt..end + u64::from(fin))
        }
    }

    fn next_data(&self, most: Option<Tso>, now: Instant) -> Result<Plan, Blocked> {
        let available = self.buffer.end();
        let open = matches!(self.state, State::Established | State::CloseWait);
        if !open || (self.nxt >= available && self.fin.is_none()) {
            return Err(Blocked::Idle);
        }
        if self.flight.refused {
            return Err(Blocked::Refused);
        }
        if self.flight.idle_since.is_some() || self.should_begin_mtu_search() {
            return Err(Blocked::Restart);
        }
        let size = self
            .probe_size(available)
            .unwrap_or_else(|| self.segment_size());
        let plan = self.new_segment_of(size);
        if plan.range.is_empty() {
            return Err(Blocked::PeerWindow);
        }
        self.hold_back(plan.range.end - u64::from(plan.fin), plan.fin, available)?;
        if !self.fits_cwnd(&plan.range) {
            return Err(Blocked::Cwnd);
        }
        match most {
            Some(tso) if size == self.segment_size() => self.enlarge(plan, tso, now),
            _ => Ok(plan),
        }
    }

    /// Reasons to wait with a segment that is not full: Nagle's in Minshall's form, and the
    /// sender's silly-window rule (RFC 9293 §3.8.6.2.1).
    fn hold_back(&self, end: u64, fin: bool, available: u64) -> Result<(), Blocked> {
        let len = end - self.nxt;
        if len >= self.segment_size() || fin || self.segments.is_empty() {
            Ok(())
        } else if end < available {
            if len < self.peer.largest / 2 {
                Err(Blocked::PeerWindow)
            } else {
                Ok(())
            }
        } else if self.config.nagle && self.flight.small_end > self.una {
            Err(Blocked::Nagle)
        } else {
            Ok(())
        }
    }

    /// Brings up to date what depends on time before new data leaves.
    pub(super) fn restart(&mut self, now: Instant) {
        self.restart_after_idle(now);
        self.begin_mtu_search();
    }

    /// Tells the controller that nothing was in flight, once, when the connection begins to send
    /// again.
    fn restart_after_idle(&mut self, now: Instant) {
        let Some(since) = self.flight.idle_since.take() else {
            return;
        };
        let app_limited = self.sampler.app_limited();
        self.window_validated(now);
        self.controller.on_idle(&Idle {
            now,
            idle: now - since,
            rto: self.rto(),
            app_limited,
        });
        self.verdict = self.controller.verdict();
    }

    /// Whether the pacer has a say about `plan`.
    fn paces(&self, plan: &Plan) -> bool {
        plan.occupies() && !plan.syn() && self.config.pacing != Pacing::Off
    }

    /// The header of `plan`. Fixes the window it advertises.
    pub(crate) fn header(&mut self, plan: &Plan, now: Instant) -> TcpHeader {
        let syn = plan.syn();
        let own_scale = self
            .negotiated
            .as_ref()
            .map_or_else(|| self.own_scale(), |negotiated| negotiated.own_scale);
        let offset = match plan.kind {
            Kind::New | Kind::Again(_) => plan.range.start,
            Kind::Ack | Kind::Past(_) | Kind::Reset => self.nxt,
            // One below what is acknowledged: out of the window, so the peer must answer with its
            // own.
            Kind::Probe => self.una.saturating_sub(1),
        };
        let answering = self.negotiated.is_some();
        let next = match plan.kind {
            Kind::Past(earlier) => earlier.next,
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
            seq: seq::to_wire(self.isn, offset),
            ack: self
                .negotiated
                .as_ref()
                .map(|negotiated| seq::to_wire(negotiated.irs, next)),
            flags: self.flags(plan, syn),
            // Windows in SYNs are never scaled (RFC 7323 §2.2).
            window: self.receiver.advertise(if syn { 0 } else { own_scale }),
            window_scale: (syn && scaling).then_some(own_scale),
            mss: syn.then_some(
                (self.path_mtu.link() - self.tuple.headers_len()).min(usize::from(u16::MAX)) as u16,
            ),
            sack_permitted: syn
                && self
                    .negotiated
                    .as_ref()
                    .is_none_or(|negotiated| negotiated.sack),
            sack: if answering && plan.kind == Kind::Ack {
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
            _ if plan.fin => Flags::Fin,
            Kind::New | Kind::Again(_) if plan.range.end >= self.buffer.end() => Flags::Psh,
            _ => Flags::None,
        }
    }

    fn timestamp_option(&self, syn: bool, now: Instant) -> Option<(u32, u32)> {
        match &self.negotiated {
            None => syn.then(|| (self.timestamp(now), 0)),
            Some(negotiated) => negotiated
                .peer_timestamp
                .map(|echo| (self.timestamp(now), echo)),
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
                .path_mtu
                .link()
                .saturating_sub(self.tuple.headers_len())
                .min(OPTION_SPACE);
            // Kind and length of the SACK option take the room that pads the timestamp.
            let others = TIMESTAMP_OPTION + echoed_bytes.map_or(0, |option| option.padded_len());
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
        if !plan.occupies() {
            return Payload::EMPTY;
        }
        let payload = plan.payload();
        if payload.start >= payload.end {
            Payload::EMPTY
        } else {
            self.buffer.payload(payload)
        }
    }

    /// Accounts for `plan`, which now is a packet. Returns the number of its first segment.
    pub(crate) fn commit(&mut self, plan: &Plan, now: Instant) -> Option<SegmentId> {
        let departure = plan.departure;
        self.note_born(plan, now);
        self.note_totals(plan, now);
        // An acknowledgement of the past leaves the present one owed.
        if self.negotiated.is_some() && !matches!(plan.kind, Kind::Past(_)) {
            self.receiver.acknowledged();
        }
        self.note_ecn_sent(plan);
        if self.paces(plan) {
            // Windows and delivery rates count payload, and so must what is paced by them (as in
            // Linux).
            let payload = plan.payload();
            let len = Bytes::new(payload.end.saturating_sub(payload.start));
            let segments = u32::from(plan.segments);
            self.pacer.departed(
                departure,
                (len, segments),
                self.verdict.pacing_rate,
                self.verdict.burst,
            );
        }
        match plan.kind {
            Kind::New => Some(self.commit_new(plan, now)),
            Kind::Again(id) => {
                self.commit_again(id, plan, now);
                Some(id)
            }
            Kind::Probe => {
                let rto = self.rto();
                if let Some(persist) = &mut self.timers.persist {
                    persist.sent(now, rto);
                }
                self.liveness.probed(now);
                None
            }
            Kind::Ack | Kind::Past(_) => None,
            Kind::Reset => {
                self.reset_due = false;
                None
            }
        }
    }

    fn note_totals(&mut self, plan: &Plan, now: Instant) {
        let totals = &mut self.totals;
        totals.segments_out += u64::from(plan.segments);
        let payload = plan.payload();
        if plan.occupies() && !payload.is_empty() {
            let bytes = payload.end - payload.start;
            totals.data_segments_out += u64::from(plan.segments);
            totals.bytes_retransmitted += if plan.kind == Kind::New { 0 } else { bytes };
            totals.data_sent_at = now;
        }
    }

    fn commit_new(&mut self, plan: &Plan, now: Instant) -> SegmentId {
        let departure = plan.departure;
        let len = plan.range.end - plan.range.start;
        if plan.segments == 1 && len > self.segment_size() + u64::from(plan.fin) {
            self.probe_sent(plan.range.start, len - u64::from(plan.fin));
        }
        if !plan.fin && len < self.segment_size() {
            self.flight.small_end = plan.range.end;
        }
        self.nxt = plan.range.end;
        self.liveness.wait(departure);
        self.timers.persist = None;
        if plan.fin {
            self.state = match self.state {
                State::CloseWait => State::LastAck,
                _ => State::FinWait1,
            };
        }
        let id = self.segments.next_id();
        if plan.segments == 1 {
            self.record(plan.range.clone(), plan.fin, departure);
        } else {
            plan.pieces()
                .for_each(|(range, fin)| self.record(range, fin, departure));
        }
        self.flight.largest = self.flight.largest.max(self.segments.in_flight());
        self.note_sent(len);
        self.validate_window(departure);
        self.renew_mtu_search(now);
        self.notice_sent();
        if self.timers.rto.is_none() {
            self.timers.rto = Some(self.rto_after(departure));
        }
        self.note_tail_probe(plan.tail_probe, None);
        self.schedule_tail_probe(departure);
        id
    }

    /// A segment departs for the first time.
    #[inline]
    fn record(&mut self, range: Range<u64>, fin: bool, departure: Instant) {
        let in_flight = Bytes::new(self.segments.in_flight() + (range.end - range.start));
        let sent = self
            .sampler
            .on_send(departure, in_flight, self.segments.is_empty());
        self.segments.push(range, fin, sent);
    }

    fn commit_again(&mut self, id: SegmentId, plan: &Plan, now: Instant) {
        let departure = plan.departure;
        let in_flight = Bytes::new(self.segments.in_flight() + (plan.range.end - plan.range.start));
        // Segments believed lost are outstanding all the same: what was marked by mistake must not
        // shorten the interval.
        let sent = self.sampler.on_send(departure, in_flight, false);
        let timestamp = self.timestamp(now);
        self.segments.retransmitted(id, sent, timestamp);
        self.totals.retransmits += 1;
        self.note_sent(plan.range.end - plan.range.start);
        if let Some(undo) = &mut self.repair.undo {
            undo.sent_again(timestamp);
        }
        self.note_tail_probe(plan.tail_probe, Some(timestamp));
        self.nothing_to_try();
        if plan.range.start == self.una || self.timers.rto.is_none() {
            self.timers.rto = Some(self.rto_after(departure));
        }
    }

    /// PRR counts what leaves during an episode.
    fn note_sent(&mut self, len: u64) {
        if self.controller.recovery() == Recovery::Prr
            && let Phase::Recovery(episode) = &mut self.phase
        {
            episode.on_sent(Bytes::new(len));
        }
    }
}
