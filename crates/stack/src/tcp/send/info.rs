//! The sending half's part of [`TcpInfo`].

use tautline_base::{Bytes, Instant};

use super::SendHalf;
use super::recovery::Phase;
use crate::tcp::info::TcpInfo;

impl SendHalf {
    pub(in crate::tcp) fn fill(&self, info: &mut TcpInfo, now: Instant) {
        self.fill_control(info, now);
        self.fill_recovery(info);
        let totals = &self.totals;
        info.bytes_acked = totals.bytes_acked;
        info.segments_out = totals.segments_out;
        info.retransmits = totals.retransmits;
        info.timeouts = totals.timeouts;
        info.spurious = totals.spurious;
        info.local_drops = totals.local_drops;
        info.bytes_sent =
            self.nxt.min(self.buffer.end()).saturating_sub(1) + totals.bytes_retransmitted;
        info.bytes_retransmitted = totals.bytes_retransmitted;
        info.data_segments_out = totals.data_segments_out;
        info.delivered = totals.delivered;
        info.delivery_rate = totals.delivery_rate.map(|(rate, _)| rate);
        info.app_limited = totals.delivery_rate.is_some_and(|(_, limited)| limited);
        info.last_sent = (totals.data_segments_out > 0).then(|| now - totals.data_sent_at);
        info.unacknowledged = Bytes::new(self.buffer.len() as u64);
        info.unsent = self.unsent();
        info.send_buffer = Bytes::new(self.buffer.capacity() as u64);
    }

    fn fill_control(&self, info: &mut TcpInfo, now: Instant) {
        let (controller, verdict) = (self.congestion.controller(), self.congestion.verdict());
        info.congestion = controller.name();
        info.model = controller.model();
        info.cwnd = self.cwnd();
        info.ssthresh = verdict.ssthresh;
        info.pacing_rate = verdict.pacing_rate;
        info.next_departure = self.pacer.next() - now;
        info.latest_rtt = self.rtt.latest();
        info.srtt = self.rtt.srtt();
        info.rttvar = self.rtt.deviation();
        info.min_rtt = self.rtt.min();
        info.rto = self.rtt.rto();
        info.backoff = self.rtt.backoff();
        info.mss = Bytes::new(self.mss);
        info.path_mtu = Bytes::new(self.path.longest() as u64);
        info.peer_window = Bytes::new(self.peer.edge.saturating_sub(self.nxt));
        info.peer_limited = self.flight.peer_limited;
        info.timeouts_in_a_row = self.flight.timeouts;
        info.window_probes = self
            .timers
            .persist
            .as_ref()
            .map_or(0, |persist| persist.probes());
    }

    fn fill_recovery(&self, info: &mut TcpInfo) {
        let in_flight = Bytes::new(self.segments.in_flight());
        let sacked = Bytes::new(self.segments.sacked_bytes());
        let outstanding = Bytes::new(self.nxt.saturating_sub(self.una));
        let counts = &self.repair.counts;
        info.in_flight = in_flight;
        info.sacked = sacked;
        info.lost = outstanding.saturating_sub(in_flight).saturating_sub(sacked);
        info.segments_unacked = self.segments.len();
        info.retransmissions_out = self.segments.again();
        info.recovering = self.phase != Phase::Open;
        info.phase = self.phase.report();
        info.reduction = match &self.phase {
            Phase::Recovery(episode) => Some(episode.reduction()),
            Phase::Open | Phase::Loss { .. } => None,
        };
        info.fast_recoveries = counts.recoveries.into();
        info.tail_probes = counts.tail_probes.into();
        info.tail_losses = counts.tail_losses.into();
        info.spurious_timeouts = counts.spurious_timeouts.into();
        info.duplicates = counts.duplicates.into();
        info.ce_reductions = counts.ce_reductions;
        (info.reordering, info.reorderings) = self.segments.reordering();
        info.reordering_window = self.segments.window(self.reordering_window());
    }
}
