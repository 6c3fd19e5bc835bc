//! [`TcpInfo`]: what a user may look at, in the terms of Linux's `TCP_INFO` (`spec/tcp.md` §4) plus our own.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_cc::Model;

use super::connection::{Connection, State};
use super::ecn::EcnState;
use super::recovery::Phase;
use crate::config::Pacing;
use crate::socket::PathError;

/// A connection at one moment.
#[derive(Clone, Debug)]
pub struct TcpInfo {
    /// State, in RFC 9293's names.
    pub state: &'static str,
    /// Congestion controller.
    pub congestion: &'static str,
    /// What it believes.
    pub model: Model,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold.
    pub ssthresh: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// In fast or timeout recovery.
    pub recovering: bool,
    /// Smoothed RTT; zero before a sample.
    pub srtt: Duration,
    /// Mean deviation of the RTT.
    pub rttvar: Duration,
    /// Lowest RTT lately.
    pub min_rtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Pacing rate.
    pub pacing_rate: Rate,
    /// Payload bytes per segment.
    pub mss: Bytes,
    /// Longest IP packet sent, as far as the path's MTU is known.
    pub path_mtu: Bytes,
    /// Window the peer offers, from SND.NXT.
    pub peer_window: Bytes,
    /// The peer's window, not ours, stopped the sender last.
    pub peer_limited: bool,
    /// Written by the application and not yet acknowledged.
    pub unacknowledged: Bytes,
    /// Acknowledged by the peer.
    pub bytes_acked: u64,
    /// Received in order.
    pub bytes_received: u64,
    /// Segments sent and received.
    pub segments_out: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries that proved spurious and were undone.
    pub spurious: u64,
    /// What the ends agreed on about explicit congestion notification.
    pub ecn: EcnState,
    /// Segments of ours that the peer says arrived with a congestion mark (`delivered_ce`).
    pub delivered_ce: u64,
    /// Segments that arrived with a congestion mark.
    pub received_ce: u64,
    /// Reductions of the window for congestion marks, at most one a round trip.
    pub ce_reductions: u64,
    /// The latest that ICMP said of a segment in flight: it ends nothing that is open.
    pub path_error: Option<PathError>,
    /// Packets dropped inside this host that the connection was told of.
    pub local_drops: u64,
    /// Bytes below the socket: in discipline and ring.
    pub tsq_charged: Bytes,
    /// The most of them TSQ allows now; `None` when it is off.
    pub tsq_limit: Option<Bytes>,
    /// How often TSQ throttled the connection.
    pub tsq_throttles: u64,
    /// Fast recoveries.
    pub fast_recoveries: u64,
    /// Probes of the tail of a flight (RFC 8985 §7).
    pub tail_probes: u64,
    /// Losses that a probe of the tail repaired.
    pub tail_losses: u64,
    /// Timeouts that proved spurious and were undone; also counted in `spurious`.
    pub spurious_timeouts: u64,
    /// Segments that the peer says arrived twice (`dsack_dups`).
    pub duplicates: u64,
    /// By how many segments the path displaces one (`reordering`).
    pub reordering: u32,
    /// Segments that came later than one sent after them (`reord_seen`).
    pub reorderings: u32,
    /// How much later than one sent after it a segment may arrive before it counts as lost.
    pub reordering_window: Duration,
}

impl Connection {
    /// A snapshot.
    pub(crate) fn info(&self) -> TcpInfo {
        let counts = &self.repair.counts;
        let (reordering, reorderings) = self.segments.reordering();
        TcpInfo {
            state: self.state_name(),
            congestion: self.controller.name(),
            model: self.controller.model(),
            cwnd: self.cwnd(),
            ssthresh: self.verdict.ssthresh,
            in_flight: Bytes::new(self.segments.in_flight()),
            recovering: self.phase != Phase::Open,
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.deviation(),
            min_rtt: self.rtt.min(),
            rto: self.rtt.rto(),
            pacing_rate: self.verdict.pacing_rate,
            mss: Bytes::new(self.segment_size()),
            path_mtu: Bytes::new(self.path_mtu.longest() as u64),
            peer_window: Bytes::new(self.peer.edge.saturating_sub(self.nxt)),
            peer_limited: self.flight.peer_limited,
            unacknowledged: Bytes::new(self.buffer.len() as u64),
            bytes_acked: self.totals.bytes_acked,
            bytes_received: self.totals.bytes_received,
            segments_out: self.totals.segments_out,
            segments_in: self.totals.segments_in,
            retransmits: self.totals.retransmits,
            timeouts: self.totals.timeouts,
            spurious: self.totals.spurious,
            ecn: self.ecn.state(),
            delivered_ce: self.ecn.totals.delivered,
            received_ce: self.ecn.totals.received,
            ce_reductions: self.ecn.totals.reductions,
            path_error: self.path_error,
            local_drops: self.totals.local_drops,
            tsq_charged: self.tsq.charged(),
            tsq_limit: self.config.tsq.at(self.verdict.pacing_rate, self.full_frame(), self.config.pacing != Pacing::Off),
            tsq_throttles: self.tsq.throttles(),
            fast_recoveries: counts.recoveries,
            tail_probes: counts.tail_probes,
            tail_losses: counts.tail_losses,
            spurious_timeouts: counts.spurious_timeouts,
            duplicates: counts.duplicates,
            reordering,
            reorderings,
            reordering_window: self.segments.window(self.reordering_window()),
        }
    }

    fn state_name(&self) -> &'static str {
        match self.state {
            State::SynSent => "SYN-SENT",
            State::SynReceived { .. } => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
            State::Closed => "CLOSED",
        }
    }
}
