//! [`ConnectionState`]: a TCP connection at one moment, in the shape of the control socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tautline_base::{Bytes, Rate};
use tautline_stack::TcpInfo;
use tautline_stack::attribution::{Attribution, Cause};

/// A TCP connection at one moment. Counters count since it began to open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionState {
    /// State in RFC 9293's names; empty before there is a connection.
    pub state: String,
    /// Congestion controller.
    pub congestion: String,
    /// Payload that the peer acknowledged.
    pub acked_bytes: u64,
    /// Payload received in order.
    pub received_bytes: u64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time; 0 before a sample.
    pub srtt_s: f64,
    /// Pacing rate; nothing if unlimited.
    pub pacing_bytes_per_s: Option<f64>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Bytes in the qdisc and the ring, as TCP Small Queues counts them.
    pub tsq_bytes: u64,
    /// Most of them that TCP Small Queues allows now; nothing if it is off.
    pub tsq_limit_bytes: Option<u64>,
    /// Times that TCP Small Queues held the connection back.
    pub tsq_throttles: u64,
    /// Seconds that the connection was blocked, by cause; empty without attribution.
    pub blocked_s: BTreeMap<String, f64>,
}

impl ConnectionState {
    /// The state in `info`, with the time blocked in `attribution`.
    pub(super) fn new(info: &TcpInfo, attribution: Option<&Attribution>) -> Self {
        // Qdisc and ring hold packets, not connections.
        let causes = Cause::ALL
            .into_iter()
            .filter(|cause| !matches!(cause, Cause::Qdisc | Cause::Ring));
        let blocked = attribution.into_iter().flat_map(|attribution| {
            let seconds = |cause| attribution.time_blocked_by(cause).as_secs_f64();
            causes
                .clone()
                .map(move |cause| (cause.name().to_owned(), seconds(cause)))
        });
        Self {
            state: info.state.to_owned(),
            congestion: info.congestion.to_owned(),
            acked_bytes: info.bytes_acked,
            received_bytes: info.bytes_received,
            cwnd_bytes: info.cwnd.get(),
            srtt_s: info.srtt.as_secs_f64(),
            pacing_bytes_per_s: (info.pacing_rate != Rate::MAX)
                .then(|| info.pacing_rate.as_bits_per_sec() as f64 / 8.0),
            retransmits: info.retransmits,
            timeouts: info.timeouts,
            tsq_bytes: info.tsq_charged.get(),
            tsq_limit_bytes: info.tsq_limit.map(Bytes::get),
            tsq_throttles: info.tsq_throttles,
            blocked_s: blocked.collect(),
        }
    }
}
