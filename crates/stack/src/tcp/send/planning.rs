//! Choice of the next segment.

use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate, SegmentId, Tso};

use super::SendHalf;
use super::persist::Persist;
use super::plan::{Blocked, Kind, Plan};
use crate::config::Pacing;
use crate::tsq::{Tsq, TsqRequest};
use crate::wire::ETHERNET_HEADER;

/// Longest a window that is too small to be worth a segment holds data back (RFC 9293 §3.8.6.2.1:
/// 0.1 to 1 s).
const OVERRIDE: Duration = Duration::from_secs(1);

/// Longest time for which the last segment waits for more data (Linux, tcp(7)).
const LONGEST_CORK: Duration = Duration::from_millis(200);

/// Everything beside its own state that decides what the sending half may send.
#[derive(Clone, Copy)]
pub(in crate::tcp) struct SendContext {
    /// The connection's state lets data leave.
    pub(in crate::tcp) open: bool,
    /// Nothing that was received is out of order.
    pub(in crate::tcp) in_order: bool,
    /// Classic ECN is in use.
    pub(in crate::tcp) classic_ecn: bool,
    /// Payload of a full segment beside the options that are due, in bytes.
    pub(in crate::tcp) full: u64,
    pub(in crate::tcp) now: Instant,
}

impl SendHalf {
    /// Probe of the tail, forward RTO recovery's new data, or a retransmission.
    pub(in crate::tcp) fn next_urgent(&self, context: &SendContext) -> Option<Plan> {
        self.next_tail_probe(context.open)
            .or_else(|| self.next_trial(context))
            .or_else(|| self.flight.next_retransmission())
    }

    /// The SYN, for the first time or again.
    pub(in crate::tcp) fn next_syn(&self) -> Option<Plan> {
        if self.flight.nxt() == 0 {
            return Some(Plan::new(Kind::New, 0..1));
        }
        if self.flight.refused {
            return None;
        }
        self.flight.segments.next_lost().map(Plan::again)
    }

    /// A segment without sequence space.
    #[inline]
    pub(in crate::tcp) fn bare(&self, kind: Kind) -> Plan {
        let nxt = self.flight.nxt();
        Plan::new(kind, nxt..nxt)
    }

    /// Steps 2 and 3 of the walk: the pacer's and TCP Small Queues' answer to `plan`. Only sequence
    /// space is held back.
    ///
    /// # Errors
    /// Which of them holds it back.
    #[inline]
    pub(in crate::tcp) fn admit(
        &self,
        plan: Plan,
        tsq: &Tsq,
        now: Instant,
    ) -> Result<Plan, Blocked> {
        let flight = &self.flight;
        let pacing = flight.config().pacing;
        let departure = match (pacing, flight.paced(&plan)) {
            (Pacing::Internal, Some(next)) if next > now => return Err(Blocked::Pacer(next)),
            (Pacing::Qdisc, Some(next)) => next.max(now),
            _ => now,
        };
        if plan.has_sequence_space() {
            let request = TsqRequest {
                rate: flight.pacing_rate(),
                segment: self.full_frame() * u64::from(plan.segments),
                paced: pacing != Pacing::Off,
                again: matches!(plan.kind, Kind::Retransmit(_)),
                last: flight.segments.len() <= 1,
            };
            if !tsq.admits(&flight.config().tsq, request) {
                return Err(Blocked::Tsq);
            }
        }
        Ok(Plan { departure, ..plan })
    }

    /// A full segment's length on the wire.
    pub(in crate::tcp) fn full_frame(&self) -> Bytes {
        let headers = ETHERNET_HEADER + self.flight.path.headers();
        Bytes::new(self.flight.mss() + headers as u64)
    }

    /// The probe of a closed window is due.
    pub(in crate::tcp) fn window_probe_due(&self) -> bool {
        self.persist.as_ref().is_some_and(|persist| persist.due)
    }

    /// Forward RTO recovery sends new data first, if any may leave.
    fn next_trial(&self, context: &SendContext) -> Option<Plan> {
        if !self.flight.recovery.is_trying_new_data() {
            return None;
        }
        self.next_data(None, context).ok()
    }

    /// The next `size` bytes of the stream, as far as the peer's window allows.
    pub(super) fn new_segment_of(&self, size: u64) -> Plan {
        self.stream.segment(self.flight.nxt(), size)
    }

    /// The probe of the tail that is due: new data whatever the congestion window, else the last
    /// segment again. A segment that is still in this host cannot be acknowledged and needs none.
    fn next_tail_probe(&self, open: bool) -> Option<Plan> {
        let Self { flight, .. } = self;
        if !flight.recovery.is_tail_probe_due() || flight.segments.tail_in_host() {
            return None;
        }
        let fresh = open.then(|| self.new_segment_of(self.flight.mss()));
        fresh
            .filter(|plan| !plan.range.is_empty() && !self.flight.refused)
            .or_else(|| flight.segments.last_outstanding().map(Plan::again))
            .map(|plan| Plan {
                tail_probe: true,
                ..plan
            })
    }

    /// New data, as much in one packet as `most` allows.
    ///
    /// # Errors
    /// The reason why none may leave.
    pub(in crate::tcp) fn next_data(
        &self,
        most: Option<Tso>,
        context: &SendContext,
    ) -> Result<Plan, Blocked> {
        let Self { stream, flight, .. } = self;
        if !context.open || (flight.nxt() >= stream.buffer.end() && !stream.has_fin_to_send()) {
            return Err(Blocked::Idle);
        }
        if flight.refused {
            return Err(Blocked::Refused);
        }
        if flight.needs_restart() {
            return Err(Blocked::Restart);
        }
        let size = flight
            .mtu_probe(context.in_order, || {
                stream.sendable_end().min(stream.record_end())
            })
            .unwrap_or(context.full);
        let plan = self.new_segment_of(size);
        if plan.range.is_empty() {
            return Err(Blocked::PeerWindow);
        }
        self.hold_back(&plan, context.full)?;
        if !flight.fits_cwnd(&plan.range) {
            return Err(Blocked::Cwnd);
        }
        match most {
            Some(tso) if size == flight.mss() => self.enlarge(plan, tso, context),
            _ => Ok(plan),
        }
    }

    /// Reasons to wait with a segment that is not full: Nagle's in Minshall's form, and the
    /// sender's silly-window rule, which the probe timer overrides (RFC 9293 §3.8.6.2.1).
    fn hold_back(&self, plan: &Plan, full: u64) -> Result<(), Blocked> {
        let end = plan.range.end - u64::from(plan.fin);
        let len = end - plan.range.start;
        let is_last = self.stream.fin() == Some(end);
        if len >= full || is_last || self.stream.ends_record(end) {
            Ok(())
        } else if end < self.stream.buffer.end() {
            let overridden = self.window_probe_due();
            if len < self.stream.window.largest() / 2 && !overridden {
                Err(Blocked::PeerWindow)
            } else {
                Ok(())
            }
        } else if self.stream.corked || self.stream.more {
            if self.window_probe_due() {
                Ok(())
            } else {
                Err(Blocked::Cork)
            }
        } else if self.flight.config().nagle && self.small_end > self.flight.una() {
            Err(Blocked::Nagle)
        } else {
            Ok(())
        }
    }

    /// Notes that nothing may leave. True if the peer's closed window is probed.
    pub(in crate::tcp) fn on_blocked(&mut self, blocked: Blocked, context: &SendContext) -> bool {
        if self.next_tail_probe(context.open).is_none() {
            self.flight.recovery.cancel_tail_probe();
        }
        if self.flight.recovery.is_trying_new_data() && self.next_trial(context).is_none() {
            self.flight.recovery.end_trial(self.flight.nxt());
        }
        match blocked {
            Blocked::Cwnd => {
                self.flight.congestion.limit(self.flight.nxt());
                self.peer_limited = false;
            }
            Blocked::PeerWindow => {
                self.peer_limited = true;
                // With nothing in flight, only probing can show that the window opened. Its timer may
                // run already, for what a cork held back.
                if self.flight.segments.is_empty() {
                    self.begin_to_probe(context.now);
                    return true;
                }
            }
            // Until something is in flight nothing else ends the wait.
            Blocked::Cork if self.flight.segments.is_empty() => {
                self.begin_to_probe(context.now);
            }
            _ => {}
        }
        false
    }

    /// Starts the timer of the window probe, or of the override if the window is only small, unless
    /// it runs.
    fn begin_to_probe(&mut self, now: Instant) {
        let rto = self.flight.rtt.rto();
        let persist = self.persist.get_or_insert_with(|| Persist::new(now, rto));
        if self.flight.nxt() < self.stream.sendable_end() {
            let longest = if self.stream.corked || self.stream.more {
                LONGEST_CORK
            } else {
                OVERRIDE
            };
            persist.expire_by(now + rto.min(longest));
        }
    }

    /// Nothing can leave, for the hardware address of the next hop is not known. A window probe that is
    /// due counts as sent. New data has no timeout while nothing is in flight: it is given up after as
    /// many probes, which take about as long. True if data, or the FIN, waits to be sent.
    pub(in crate::tcp) fn on_unresolved_next_hop(&mut self, now: Instant) -> bool {
        if self.window_probe_due() {
            self.probed_window(now);
        }
        let nxt = self.flight.nxt();
        let waits =
            nxt < self.stream.buffer.end() || self.stream.fin().is_some_and(|fin| nxt <= fin);
        if waits && self.flight.segments.is_empty() {
            let rto = self.flight.rtt.rto();
            self.persist.get_or_insert_with(|| Persist::new(now, rto));
        }
        waits
    }

    /// Accounts for a packet that leaves.
    pub(in crate::tcp) fn note_sent(&mut self, plan: &Plan, now: Instant) {
        let totals = &mut self.totals;
        totals.segments_out += u64::from(plan.segments);
        if !plan.has_sequence_space() {
            return;
        }
        let payload = plan.payload();
        let len = payload.end.saturating_sub(payload.start);
        if len > 0 {
            totals.data_segments_out += u64::from(plan.segments);
            totals.bytes_retransmitted += if plan.kind == Kind::New { 0 } else { len };
            totals.data_sent_at = now;
        }
        if self.flight.paced(plan).is_some() {
            let rate = self.flight.pacing_rate();
            let len = (len, u32::from(plan.segments));
            self.flight.congestion.pace(plan.departure, len, rate);
        } else if len > 0 {
            let segments = u32::from(plan.segments);
            self.flight.congestion.departed_unpaced(segments);
        }
    }

    /// `plan`, which is new, is a packet now; `full`: bytes of a full segment. Returns the number of
    /// its first segment.
    pub(in crate::tcp) fn commit_new(&mut self, plan: &Plan, full: u64, now: Instant) -> SegmentId {
        let is_data = !plan.fin && !plan.syn();
        if is_data && plan.range.end - plan.range.start < full {
            self.small_end = plan.range.end;
        }
        self.persist = None;
        let buffer_limited = self.stream.buffer.wants_room();
        let id = self.flight.commit_new(plan, buffer_limited, now);
        self.stream.sent(self.flight.nxt());
        id
    }

    /// A full segment of `len` bytes of new data leaves behind another one in the same instant.
    /// Returns its number.
    #[inline]
    pub(in crate::tcp) fn commit_in_train(
        &mut self,
        len: u64,
        pace: Option<Rate>,
        now: Instant,
    ) -> SegmentId {
        let flight = &mut self.flight;
        match pace {
            Some(rate) => flight.congestion.pace(now, (len, 1), rate),
            None => flight.congestion.departed_unpaced(1),
        }
        let (nxt, sampler) = (flight.nxt(), &mut flight.congestion.sampler);
        flight.segments.record(nxt..nxt + len, false, now, sampler)
    }

    /// `count` segments of `len` bytes were [committed in a train](Self::commit_in_train). To assess
    /// the use of the window once is the same as after each segment: the more is in flight, the more
    /// the window limits, and what it limits is assessed anew at once.
    pub(in crate::tcp) fn end_train(&mut self, count: u64, len: u64, now: Instant) {
        let totals = &mut self.totals;
        totals.segments_out += count;
        totals.data_segments_out += count;
        let buffer_limited = self.stream.buffer.wants_room();
        let flight = &mut self.flight;
        flight.cwr_due = false;
        if flight.congestion.uses_prr() {
            flight.recovery.on_sent(Bytes::new(count * len));
        }
        flight.validate_window(buffer_limited, now);
        flight.schedule_tail_probe(now);
    }

    /// A window probe left.
    pub(in crate::tcp) fn probed_window(&mut self, now: Instant) {
        if let Some(persist) = &mut self.persist {
            persist.sent(now, self.flight.rtt.rto());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::config::{MtuProbing, TcpConfig};
    use crate::tcp::Tuple;
    use crate::tcp::ecn::Marks;
    use crate::tcp::send::{AckInput, AppData, Numbers, SendOptions};
    use crate::wire::SACK_BLOCKS;

    const NOW: Instant = Instant::from_secs(1);

    /// Past the handshake, with segments of 1460 bytes and an unscaled window in the SYN.
    fn opened(window: u16, config: TcpConfig) -> SendHalf {
        let numbers = Numbers {
            isn: 0,
            timestamp_offset: 0,
        };
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let tuple = Tuple {
            local: address,
            remote: address,
            local_port: 1,
            remote_port: 2,
        };
        let mut half = SendHalf::new(numbers, &tuple, 1500, Arc::new(config));
        let syn = half.next_syn().expect("nothing is sent");
        half.commit_new(&syn, 1460, NOW);
        let options = SendOptions {
            sack: false,
            most: 1460,
            headers: 40,
        };
        half.open(options, false);
        half.stream.window.update_from_syn(1, window);
        acknowledge(&mut half);
        half
    }

    fn acknowledge(half: &mut SendHalf) {
        let input = AckInput {
            now: NOW,
            ack: half.flight.nxt(),
            sack: [const { None }; SACK_BLOCKS],
            echo: None,
            bare: true,
        };
        if let Some(summary) = half.on_ack(&input) {
            half.react(&summary, Marks::default());
        }
        half.flight.restart(NOW);
    }

    proptest! {
        /// With nothing in flight the probe timer follows from [`Blocked::PeerWindow`]: that must be
        /// the peer's doing, not a segment size of our own.
        #[test]
        fn only_the_peers_window_makes_a_segment_too_small_to_send(
            first in 0u16..20_000,
            then in 0u16..20_000,
            (sent, written) in (0usize..20_000, 0usize..20_000),
            probing in prop::sample::select(vec![MtuProbing::Off, MtuProbing::Always]),
            (finishes, nagle) in any::<(bool, bool)>(),
        ) {
            let config = TcpConfig { nagle, mtu_probing: probing, ..TcpConfig::default() };
            let mut half = opened(first, config);
            let full = half.flight.mss();
            let context = SendContext { open: true, in_order: true, classic_ecn: false, full, now: NOW };
            half.write(AppData::Zeros(sent), false);
            while let Ok(plan) = half.next_data(None, &context) {
                half.commit_new(&plan, full, NOW);
            }
            acknowledge(&mut half);
            let nxt = half.flight.nxt();
            half.update_window(1, nxt, then.into());
            half.write(AppData::Zeros(written), false);
            if finishes {
                half.stream.finish();
            }
            prop_assert!(half.flight.segments.is_empty());
            if half.next_data(None, &context) == Err(Blocked::PeerWindow) {
                let window = half.stream.window.edge().saturating_sub(nxt);
                let unsent = half.stream.buffer.end() + u64::from(finishes) - nxt;
                prop_assert!(window < half.flight.mss() && window < unsent, "{window} of {unsent}");
            }
        }
    }
}
