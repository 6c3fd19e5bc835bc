//! [`TcpInfo`]: a connection's state for users, in the terms of Linux's `TCP_INFO`
//! (`include/uapi/linux/tcp.h`) plus our own.

mod ss;

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_cc::Model;

pub use ss::Ss;

use super::ecn::EcnState;
use super::send::Reduction;
use crate::attribution::{Attribution, Cause};
use crate::socket::PathError;

/// A connection at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TcpInfo {
    /// State, in RFC 9293's names.
    pub state: &'static str,
    /// Congestion controller.
    pub congestion: &'static str,
    /// The controller's model of the path.
    pub model: Model,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold.
    pub ssthresh: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// In fast or timeout recovery.
    pub recovering: bool,
    /// Latest sample of the RTT; zero before the first.
    pub latest_rtt: Duration,
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
    /// Acknowledged by the peer, the SYN included, as in Linux.
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
    /// Kind of ECN feedback the SYNs negotiated.
    pub ecn: EcnState,
    /// Segments of ours that the peer reports as marked (`delivered_ce`).
    pub delivered_ce: u64,
    /// Segments that arrived with a congestion mark.
    pub received_ce: u64,
    /// Reductions of the window for congestion marks, at most one a round trip.
    pub ce_reductions: u64,
    /// The latest ICMP error about a segment in flight: it ends nothing that is open.
    pub path_error: Option<PathError>,
    /// Packets dropped inside this host, as far as the connection was notified.
    pub local_drops: u64,
    /// Bytes below the socket: in qdisc and ring.
    pub tsq_charged: Bytes,
    /// The most of them TSQ allows now; `None` when it is off.
    pub tsq_limit: Option<Bytes>,
    /// Number of times TSQ throttled the connection.
    pub tsq_throttles: u64,
    /// Fast recoveries.
    pub fast_recoveries: u64,
    /// Probes of the tail of a flight (RFC 8985 §7).
    pub tail_probes: u64,
    /// Losses that a probe of the tail repaired.
    pub tail_losses: u64,
    /// Timeouts that proved spurious and were undone; also counted in `spurious`.
    pub spurious_timeouts: u64,
    /// Segments that the peer reports as duplicates (`dsack_dups`).
    pub duplicates: u64,
    /// Reordering degree of the path in segments (`reordering`).
    pub reordering: u32,
    /// Segments that came later than one sent after them (`reord_seen`).
    pub reorderings: u32,
    /// Reordering window of RACK.
    pub reordering_window: Duration,
    /// Congestion state of the sender (`ca_state`).
    pub phase: tautline_cc::CongestionState,
    /// Proportional rate reduction, while it owns the window.
    pub reduction: Option<Reduction>,
    /// Both ends use timestamps.
    pub timestamps: bool,
    /// The peer takes selective acknowledgments.
    pub sack: bool,
    /// Shifts of the peer's windows and of ours, if both ends scale them (`snd_wscale`,
    /// `rcv_wscale`).
    pub scales: Option<(u8, u8)>,
    /// Doublings of the retransmission timeout (`backoff`).
    pub backoff: u32,
    /// Timeouts since the peer last acknowledged anything new (`retransmits`).
    pub timeouts_in_a_row: u32,
    /// Probes of the peer's closed window (`probes`).
    pub window_probes: u32,
    /// Longest an acknowledgment of ours is held back (`ato`).
    pub delayed_ack: Duration,
    /// Largest segment of the peer (`rcv_mss`).
    pub peer_mss: Bytes,
    /// The segment size we name in our SYN (`advmss`).
    pub advertised_mss: Bytes,
    /// Segments sent and not cumulatively acknowledged (`unacked`).
    pub segments_unacked: usize,
    /// Of those bytes: selectively acknowledged (`sacked`), and marked lost but not yet
    /// retransmitted (`lost`).
    pub sacked: Bytes,
    /// Believed lost and not sent again.
    pub lost: Bytes,
    /// Retransmissions in flight (`retrans`).
    pub retransmissions_out: usize,
    /// Written by the application and not yet sent (`notsent_bytes`).
    pub unsent: Bytes,
    /// Received in order and not yet read by the application (Linux `SIOCINQ`).
    pub unread: Bytes,
    /// The most that may be written and not acknowledged, as far as it has grown (`sk_sndbuf`).
    pub send_buffer: Bytes,
    /// Window we offer, from RCV.NXT (`rcv_wnd`).
    pub receive_window: Bytes,
    /// Most received bytes that may ever wait for the application (`tcp_rmem[2]`).
    pub receive_buffer: Bytes,
    /// Separate ranges held beyond a hole (`rcv_ooopack`).
    pub out_of_order: usize,
    /// Payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload sent again (`bytes_retrans`).
    pub bytes_retransmitted: u64,
    /// The SYN's data was acknowledged by the SYN-ACK (`TCPI_OPT_SYN_DATA`).
    pub syn_data_acked: bool,
    /// Segments with payload sent.
    pub data_segments_out: u64,
    /// Segments with payload received.
    pub data_segments_in: u64,
    /// Segments of ours that the peer reported (`delivered`).
    pub delivered: u64,
    /// The latest delivery rate.
    pub delivery_rate: Option<Rate>,
    /// The application limited it (`delivery_rate_app_limited`).
    pub app_limited: bool,
    /// Time since payload was last sent (`last_data_sent`), if ever.
    pub last_sent: Option<Duration>,
    /// Time since payload was last received (`last_data_recv`), if ever.
    pub last_received: Option<Duration>,
    /// Time since a segment of the peer last arrived (`last_ack_recv`).
    pub last_heard: Duration,
    /// Until the pacer lets the next segment leave; zero means at once.
    pub next_departure: Duration,
    /// The most that may wait to be read, as far as it has grown (`rcv_space`).
    pub receive_space: Bytes,
    /// The round trip as it looks to the receiver (`rcv_rtt`); `None` before the first.
    pub receive_rtt: Option<Duration>,
    /// How long there has been something to send, and what stopped it; only kept with
    /// [`TcpConfig::attribution`](crate::TcpConfig::attribution).
    pub limited: Option<Limited>,
}

/// How long a connection has had data to send, once open, or would have had in a larger buffer
/// (Linux's chronograph).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// In all (`busy_time`).
    pub busy: Duration,
    /// Stopped by the peer's window (`rwnd_limited`).
    pub peer_window: Duration,
    /// By the send buffer: all that it held was sent, and the application could not write more
    /// (`sndbuf_limited`).
    pub send_buffer: Duration,
    /// By the congestion window.
    pub cwnd: Duration,
    /// By TCP Small Queues.
    pub tsq: Duration,
    /// By the pacer.
    pub pacer: Duration,
}

impl Limited {
    pub(super) fn new(attribution: &Attribution) -> Self {
        let idle = [Cause::Application, Cause::Handshake];
        let busy = Cause::ALL.into_iter().filter(|cause| !idle.contains(cause));
        Self {
            busy: busy.map(|cause| attribution.time_blocked_by(cause)).sum(),
            peer_window: attribution.time_blocked_by(Cause::PeerWindow),
            send_buffer: attribution.time_blocked_by(Cause::SendBuffer),
            cwnd: attribution.time_blocked_by(Cause::Cwnd),
            tsq: attribution.time_blocked_by(Cause::Tsq),
            pacer: attribution.time_blocked_by(Cause::Pacer),
        }
    }
}
