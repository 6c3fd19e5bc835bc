//! Processing of an arriving segment (RFC 9293 §3.10.7 with RFC 5961 and RFC 7323, in that order).

use std::time::Duration;

use tautline_base::{Instant, SocketId};

use super::connection::Connection;
use super::ecn::{AckState, AckUrgency, Marks, NewMarks};
use super::fast_open::FastOpen;
use super::negotiated::{Age, Negotiated};
use super::prediction::NextData;
use super::receiver::{Acknowledgment, Bounds, Incoming};
use super::send::{AckInput, MAX_RTO, segment_memory};
use super::state::State;
use crate::seq;
use crate::socket::CloseReason;
use crate::wire::{SACK_BLOCKS, Segment};

/// Segments acknowledged at once after a congestion mark (Linux: 2).
const MARK_QUICK_ACKS: u8 = 2;

/// Action of the host after a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Nothing: the connection sends what it owes by itself.
    None,
    /// Nothing either, and its events, memory and deadlines are what they were.
    Unchanged,
    /// Answer this very segment with a reset.
    Reset,
    /// A passive open is complete: hand the connection to its listener.
    Accepted(SocketId),
}

impl Connection {
    /// Processes a segment addressed to this connection.
    pub(crate) fn on_segment(&mut self, segment: &Segment<'_>, now: Instant) -> Reply {
        self.receiver.totals.segments_in += segment.count();
        self.receiver.acks.allow_answers();
        if let Some(next) = NextData::predicted(self, segment, now) {
            return next.accept(self, now);
        }
        match self.state {
            // Only the application's handle remains; to the peer the connection does not exist.
            State::Closed => Reply::Reset,
            State::SynSent => self.in_syn_sent(segment, now),
            State::SynReceived { .. } if self.negotiated.is_none() => {
                self.on_first_syn(segment, now)
            }
            _ => self.synchronized(segment, now),
        }
    }

    /// The SYN that created this connection; with a valid Fast Open cookie its payload counts.
    pub(super) fn on_first_syn(&mut self, segment: &Segment<'_>, now: Instant) -> Reply {
        self.agree(segment, now);
        self.ecn.on_syn(segment.ecn_flags, segment.codepoint);
        let Some(listener) = self.fast_open.trusted_by() else {
            return Reply::None;
        };
        self.send.stream.fin_waits = true;
        // Before anything was advertised nothing would be accepted.
        self.receiver.advertise(0, None);
        self.accept_payload(1, segment, now);
        self.send.stream.syn_data_acked = self.receiver.next() > 1;
        Reply::Accepted(listener)
    }

    /// RFC 9293 §3.10.7.3.
    fn in_syn_sent(&mut self, segment: &Segment<'_>, now: Instant) -> Reply {
        let ack = segment.ack.map(|ack| self.send.flight.offset(ack));
        let expected = 1..=self.fast_open.syn_end();
        let acceptable = ack.map(|ack| {
            ack.is_some_and(|ack| expected.contains(&ack)) && self.send.flight.nxt() == 1
        });
        let first = self.liveness.waiting_since.unwrap_or(now);
        let numbers = self.send.flight.numbers();
        let is_foreign = segment
            .timestamp
            .is_some_and(|(_, echo)| echo != 0 && !numbers.has_stamped(echo, first, now));
        match (acceptable, segment.rst, segment.syn) {
            (Some(false), true, _) => Reply::None,
            (Some(false), false, _) => Reply::Reset,
            // An echoed timestamp that none of our SYNs carried: an answer to another connection
            // (Linux).
            (Some(true), false, _) if is_foreign => Reply::Reset,
            (Some(true), true, _) => {
                self.end(CloseReason::Refused);
                Reply::None
            }
            (None, true, _) | (_, false, false) => Reply::None,
            (Some(true), false, true) => {
                self.agree(segment, now);
                self.ecn
                    .on_syn_ack(segment.ecn_flags, segment.echoed_bytes, segment.codepoint);
                self.state = State::Established;
                self.pending.established = true;
                self.liveness.hear(now);
                let ack = ack.flatten().unwrap_or(1);
                if ack > 1 {
                    self.send.on_syn_data_ack(ack, segment.window);
                    if let Some(attribution) = &mut self.attribution {
                        attribution.born(1..ack, false, now);
                    }
                }
                let offered = segment.offers.mss;
                let mss = offered.unwrap_or_else(|| self.tuple.default_mss());
                self.fast_open
                    .on_syn_ack(ack, (segment.fast_open, mss), now);
                self.process_acknowledgment(ack, segment, now);
                let waits = !self.send.flight.segments.is_empty();
                self.liveness.note_progress(waits, now);
                self.receiver.acks.owe_now();
                Reply::None
            }
            (None, false, true) => {
                // Simultaneous open: our SYN goes out again, as a SYN-ACK.
                self.agree(segment, now);
                self.ecn
                    .on_crossing_syn(segment.ecn_flags, segment.codepoint);
                self.state = State::SynReceived { listener: None };
                // If our SYN has not left yet, its cookie and its data must not be in the SYN-ACK.
                self.fast_open = FastOpen::default();
                self.send.flight.lose_head(now);
                Reply::None
            }
        }
    }

    /// RFC 9293 §3.10.7.4: every state in which both ends know each other's sequence numbers.
    pub(super) fn synchronized(&mut self, segment: &Segment<'_>, now: Instant) -> Reply {
        let Some(negotiated) = &self.negotiated else {
            return Reply::None;
        };
        let offset = seq::from_wire(negotiated.irs, self.receiver.next(), segment.seq);

        // PAWS (RFC 7323 §5.3); resets are exempt.
        match negotiated.timestamps.age(segment, now) {
            _ if segment.rst => {}
            Age::Fresh => {}
            Age::Old if self.is_harmless_duplicate(offset, negotiated, segment) => {}
            Age::Old => {
                self.challenge(segment, now);
                return Reply::None;
            }
            // Once negotiated, the option is in every segment (RFC 7323 §3.2).
            Age::Missing => return Reply::None,
        }

        let len = segment.payload.len() as u64 + u64::from(segment.syn) + u64::from(segment.fin);
        let Some(offset) = offset.filter(|offset| self.receiver.accepts(*offset, len)) else {
            return self.on_segment_outside_window(offset, segment, now);
        };
        if segment.rst {
            return self.on_reset(offset, now);
        }
        if segment.syn {
            return self.on_second_syn(offset, segment, now);
        }
        let Some(ack) = segment.ack else {
            return Reply::None;
        };
        let is_opening = matches!(self.state, State::SynReceived { .. });
        let ack = self.send.acceptable_ack(ack);
        // What completes the handshake acknowledges our SYN.
        let Some(ack) = ack.filter(|ack| *ack > 0 || !is_opening) else {
            if is_opening {
                return Reply::Reset;
            }
            self.challenge(segment, now);
            return Reply::None;
        };
        // Recorded only after these checks: the timestamp of a forged segment would make PAWS
        // reject the peer's own (RFC 5961 §5.2).
        if offset <= self.receiver.acknowledged_up_to()
            && let Some(negotiated) = &mut self.negotiated
        {
            negotiated.timestamps.note(segment, now);
        }
        self.on_acceptable(offset, ack, segment, now)
    }

    /// A segment outside the window. `offset`: its start, if it maps to the stream at all.
    fn on_segment_outside_window(
        &mut self,
        offset: Option<u64>,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Reply {
        if segment.rst {
            return match offset {
                Some(offset) if self.receiver.is_reset_by(offset) => self.on_reset(offset, now),
                _ => Reply::None,
            };
        }
        // The first SYN again, without its data.
        if segment.syn && offset == Some(0) && matches!(self.state, State::SynReceived { .. }) {
            return self.on_second_syn(0, segment, now);
        }
        if let Some(old) = offset.filter(|_| !segment.syn) {
            self.receiver
                .note_duplicate(old..old + segment.payload.len() as u64);
        }
        self.challenge(segment, now);
        Reply::None
    }

    /// A segment at `offset` that passed every check and acknowledges all bytes below `ack`.
    fn on_acceptable(
        &mut self,
        offset: u64,
        ack: u64,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Reply {
        if matches!(self.state, State::SynReceived { .. }) {
            let bare = segment.payload.is_empty() && segment.sack[0].is_none();
            self.ecn
                .on_handshake_ack(segment.ecn_flags, segment.echoed_bytes, bare);
        }
        let reply = self.complete_open();
        let len = segment.payload.len() as u64 + u64::from(segment.fin);
        let is_old = len > 0 && offset + len <= self.receiver.next();
        self.liveness.hear(now);
        let negotiated = self.negotiated.as_ref();
        let window = negotiated.map_or(0, |agreed| agreed.window_of(segment));
        let opened = self.send.update_window(offset, ack, window);
        self.send.on_peer_alive(self.orphan);
        let una = self.send.flight.una();
        self.process_acknowledgment(ack, segment, now);
        self.liveness.repeats = is_old && self.send.flight.una() == una;
        if opened || self.send.flight.una() > una {
            let waits = !self.send.flight.segments.is_empty();
            self.liveness.note_progress(waits, now);
        }
        self.on_own_fin_acked(now);
        if self.ecn.negotiated() {
            self.on_ecn_mark(segment);
        }
        self.accept_payload(offset, segment, now);
        reply
    }

    /// Counts the mark of an acceptable segment and schedules the acknowledgment that echoes it.
    fn on_ecn_mark(&mut self, segment: &Segment<'_>) {
        let state = AckState {
            next: self.receiver.next(),
            owes: self.receiver.acks.owed() != Acknowledgment::None,
        };
        match self.ecn.on_segment(segment, state) {
            AckUrgency::None => {}
            AckUrgency::Quick => {
                self.receiver.acks.end_pingpong();
                self.receiver.acks.acknowledge_quickly(MARK_QUICK_ACKS);
            }
            AckUrgency::Now => self.receiver.acks.owe_now(),
        }
    }

    /// True for a duplicate acknowledgment without data that was reordered by less than one RTO:
    /// PAWS rejects it, but it needs no answer (Linux `tcp_disordered_ack`).
    fn is_harmless_duplicate(
        &self,
        offset: Option<u64>,
        negotiated: &Negotiated,
        segment: &Segment<'_>,
    ) -> bool {
        let bare = segment.payload.is_empty() && !segment.syn && !segment.fin;
        let acknowledges_nothing = segment
            .ack
            .is_some_and(|ack| self.send.flight.offset(ack) == Some(self.send.flight.una()));
        let late = match (segment.timestamp, negotiated.timestamps.recent) {
            (Some((value, _)), Some(recent)) => {
                Duration::from_millis(recent.wrapping_sub(value).into())
            }
            _ => return false,
        };
        bare && offset == Some(self.receiver.next())
            && acknowledges_nothing
            && self.send.flight.una() + negotiated.window_of(segment)
                == self.send.stream.window.edge()
            && late <= self.send.flight.rtt.rto()
    }

    /// Answers an unacceptable segment with an acknowledgment: always if it carried data, else at a
    /// limited rate (RFC 5961 §5).
    fn challenge(&mut self, segment: &Segment<'_>, now: Instant) {
        if self
            .liveness
            .challenge(!segment.payload.is_empty() && !segment.syn, now)
        {
            self.receiver.acks.owe_now();
            if self.state == State::TimeWait {
                self.enter_time_wait(now);
            }
        }
    }

    /// RFC 5961 §3.2: only the exact sequence number resets; any other in the window gets a
    /// challenge ACK.
    fn on_reset(&mut self, offset: u64, now: Instant) -> Reply {
        if !self.receiver.is_reset_by(offset) {
            if self.liveness.challenge(false, now) {
                self.receiver.acks.owe_now();
            }
            return Reply::None;
        }
        match self.state {
            // RFC 1337: a stray reset must not cut TIME-WAIT short.
            State::TimeWait => {}
            State::SynReceived { listener: None } if !self.fast_open.is_trusted() => {
                self.end(CloseReason::Refused);
            }
            _ => self.end(CloseReason::Reset),
        }
        Reply::None
    }

    /// A SYN on a synchronized connection: a retransmission because our SYN-ACK was lost, or an
    /// attack (RFC 5961 §4.2).
    fn on_second_syn(&mut self, offset: u64, segment: &Segment<'_>, now: Instant) -> Reply {
        if let State::SynReceived { listener } = self.state
            && offset == 0
        {
            match segment.ack {
                // The SYN-ACK of a simultaneous open.
                Some(ack)
                    if listener.is_none()
                        && self.send.flight.offset(ack) == Some(1)
                        && self.send.flight.nxt() == 1 =>
                {
                    self.liveness.hear(now);
                    self.complete_open();
                    self.process_acknowledgment(1, segment, now);
                    let waits = !self.send.flight.segments.is_empty();
                    self.liveness.note_progress(waits, now);
                    self.receiver.acks.owe_now();
                }
                _ if !self.ecn.on_syn_again(segment.ecn_flags, segment.codepoint) => {
                    self.end(CloseReason::Reset);
                    return Reply::Reset;
                }
                _ => {
                    // The SYN-ACK echoes the SYN that it answers (RFC 7323 §4.3).
                    if let Some(negotiated) = &mut self.negotiated {
                        negotiated.timestamps.note(segment, now);
                    }
                    // It is sent again, unless the first copy has not left this host.
                    self.send.flight.lose_head(now);
                }
            }
        } else {
            if segment.ack.is_some() && offset == 0 {
                self.ecn.on_syn_ack_again(segment.codepoint);
            }
            self.challenge(segment, now);
        }
        Reply::None
    }

    /// Processes an acceptable acknowledgment up to offset `ack`, with its SACK blocks.
    fn process_acknowledgment(&mut self, ack: u64, segment: &Segment<'_>, now: Instant) {
        let negotiated = self.negotiated.as_ref();
        let sack = negotiated.is_some_and(|agreed| agreed.sack) && segment.sack[0].is_some();
        let input = AckInput {
            now,
            ack,
            sack: if sack {
                segment.sack.map(|block| {
                    let (left, right) = block?;
                    Some(self.send.flight.offset(left)?..self.send.flight.offset(right)?)
                })
            } else {
                [const { None }; SACK_BLOCKS]
            },
            echo: negotiated.and_then(|agreed| agreed.echo_in(segment)),
            bare: segment.payload.is_empty() && !segment.fin,
        };
        if let Some(summary) = self.send.on_ack(&input) {
            // The ECN flags of the handshake echo no marks, and an old acknowledgment reports
            // nothing new.
            let delivery = &summary.delivery;
            let news = !segment.syn && !delivery.opening && ack >= self.send.flight.una();
            let marks = if news {
                let newly = NewMarks {
                    packets: delivery.packets,
                    bytes: delivery.bytes,
                    segment: self.send.flight.mss(),
                };
                self.ecn.on_acknowledgment(segment, newly)
            } else {
                Marks::default()
            };
            self.send.react(&summary, marks);
            self.pending.writable |= self.send.has_room_again(self.host_memory.pressure);
        }
    }

    /// Our SYN has been acknowledged.
    fn complete_open(&mut self) -> Reply {
        let State::SynReceived { listener } = self.state else {
            return Reply::None;
        };
        self.state = State::Established;
        self.send.flight.opened();
        self.send.stream.fin_waits = false;
        let was_trusted = self.fast_open.is_trusted();
        self.fast_open = FastOpen::default();
        match listener {
            Some(listener) => Reply::Accepted(listener),
            None if was_trusted => Reply::None,
            None => {
                self.pending.established = true;
                Reply::None
            }
        }
    }

    /// Our FIN has been acknowledged (RFC 9293 §3.6).
    fn on_own_fin_acked(&mut self, now: Instant) {
        if !self.send.fin_acked() {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.orphan {
                    self.liveness.close = Some(now + self.config.fin_wait);
                }
            }
            State::Closing => self.enter_time_wait(now),
            State::LastAck => {
                self.end(CloseReason::Finished);
            }
            _ => {}
        }
    }

    /// Accepts the payload and FIN of an acceptable segment.
    #[inline]
    fn accept_payload(&mut self, offset: u64, segment: &Segment<'_>, now: Instant) {
        let carries_data = !segment.payload.is_empty();
        if !carries_data && !segment.fin {
            return;
        }
        let end = offset + segment.payload.len() as u64;
        match self.state {
            State::Established | State::FinWait1 | State::FinWait2 => {}
            State::SynReceived { .. } if segment.syn => {}
            State::Closed => return,
            // The peer's FIN was received before: repeat the acknowledgment. In TIME-WAIT this
            // restarts the 2 MSL timer.
            state => {
                self.receiver.acks.owe_now();
                if state != State::TimeWait {
                    // Report the duplicate payload with D-SACK (RFC 2883).
                    self.receiver.note_duplicate(offset..end);
                } else if segment.fin {
                    self.enter_time_wait(now);
                }
                return;
            }
        }
        let fresh = end > self.receiver.next();
        let unwanted = self.orphan || self.receiver.is_shut() && self.state != State::Established;
        if unwanted && fresh && carries_data {
            // Nobody will read this payload: a reset tells the peer that it is lost (RFC 1122
            // §4.2.2.13).
            self.abort(CloseReason::Aborted);
            return;
        }
        if fresh && carries_data && self.host_memory.pressure && self.receiver.holds_enough(offset)
        {
            self.receiver.acks.owe_now();
            return;
        }
        let bounds = Bounds::new(&self.config, &self.send.flight.rtt);
        if carries_data {
            self.receiver
                .note_payload((segment.count(), segment.size), bounds, now);
        }
        let delay = self
            .receiver
            .acks
            .delay_of_arrival(carries_data, bounds, now);
        self.prepare_to_receive(segment, fresh, now);
        // Without SACK the peer counts duplicate acknowledgments, so none may be compressed.
        let sack = self.negotiated.as_ref().is_some_and(|agreed| agreed.sack);
        let is_ahead = offset > self.receiver.next();
        let rule = self.config.ack_compression.filter(|_| sack && is_ahead);
        let srtt = self.send.flight.rtt.srtt();
        let compression = rule.map(|rule| self.receiver.compression(rule, srtt, now));
        let payload = Incoming::of(segment);
        let by = (bounds.wait(now, delay), compression);
        let accepted = self.receiver.accept(offset, payload, segment.fin, by);
        self.pending.readable |= accepted.wakes_reader;
        if accepted.finished {
            self.on_peer_fin(now);
        }
    }

    /// Sizes the window before payload is accepted. After a duplicate segment the peer needs
    /// acknowledgments at once (Linux).
    #[inline]
    pub(super) fn prepare_to_receive(&mut self, segment: &Segment<'_>, fresh: bool, now: Instant) {
        if !fresh {
            self.receiver.acks.end_pingpong();
            self.receiver.acknowledge_quickly(segment.size);
        }
        if self.host_memory.pressure || self.receiver.has_grown_to(self.config.receive_buffer.get())
        {
            return;
        }
        let negotiated = self.negotiated.as_ref();
        let echo = negotiated.and_then(|agreed| agreed.echo_in(segment));
        let clock = self.send.flight.numbers().timestamp(now);
        let echo = echo
            .map(|echo| (echo, Duration::from_millis(clock.wrapping_sub(echo).into())))
            .filter(|(_, age)| *age < MAX_RTO);
        let lens = (segment.payload.len() as u64, self.send.flight.mss());
        let config = &self.config;
        let beside = segment_memory(config.send_headroom);
        let on_read = config.size_on_read.then_some(beside);
        let most = (config.receive_buffer.get(), on_read);
        self.receiver.right_size(most, now, lens, echo);
    }

    fn on_peer_fin(&mut self, now: Instant) {
        self.receiver.acks.owe_now();
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }
}
