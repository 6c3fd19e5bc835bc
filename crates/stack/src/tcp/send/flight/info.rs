//! The flight's part of [`TcpInfo`].

use tautline_base::{Bytes, Instant};

use super::Flight;
use crate::tcp::info::TcpInfo;

impl Flight {
    pub(in crate::tcp::send) fn fill(&self, info: &mut TcpInfo, now: Instant) {
        self.recovery.fill(info);
        self.segments.fill(info, self.reordering_window());
        let totals = &self.totals;
        info.bytes_acked = totals.bytes_acked;
        info.retransmits = totals.retransmits;
        info.timeouts = totals.timeouts.into();
        info.spurious = totals.spurious.into();
        info.local_drops = totals.local_drops.into();
        info.delivered = totals.delivered;
        info.delivery_rate = totals.delivery_rate.map(|(rate, _)| rate);
        info.app_limited = totals.delivery_rate.is_some_and(|(_, limited)| limited);
        let (controller, verdict) = (self.congestion.controller(), self.congestion.verdict());
        info.congestion = controller.name();
        info.model = controller.model();
        info.cwnd = self.cwnd();
        info.ssthresh = verdict.ssthresh;
        info.pacing_rate = self.pacing_rate();
        info.next_departure = self.congestion.next_departure() - now;
        info.latest_rtt = self.rtt.latest();
        info.srtt = self.rtt.srtt();
        info.rttvar = self.rtt.deviation();
        info.min_rtt = self.rtt.min();
        info.rto = self.rtt.rto();
        info.backoff = self.rtt.backoff();
        info.mss = Bytes::new(self.mss);
        info.path_mtu = Bytes::new(self.path.longest() as u64);
        info.timeouts_in_a_row = self.timeouts;
    }
}
