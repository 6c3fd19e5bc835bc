//! [`Facts`]: a connection's [`TcpInfo`] under the names and in the units of Linux's `struct
//! tcp_info` (`include/uapi/linux/tcp.h`), with the constants that scripts compare with.

use std::time::Duration;

use tautline_base::Bytes;
use tautline_cc::CongestionState;
use tautline_stack::{EcnState, TcpInfo};

use crate::assertion::Names;

/// Constants by name.
const CONSTANTS: [(&str, i64); 23] = [
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_CLOSING", 11),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCP_INFINITE_SSTHRESH", INFINITE_SSTHRESH),
    ("True", 1),
];
/// Linux's `TCP_INFINITE_SSTHRESH`.
const INFINITE_SSTHRESH: i64 = 0x7fff_ffff;
/// States by the name that [`TcpInfo::state`] has, in Linux's numbering.
const STATES: [(&str, i64); 9] = [
    ("ESTABLISHED", 1),
    ("SYN-SENT", 2),
    ("SYN-RECEIVED", 3),
    ("FIN-WAIT-1", 4),
    ("FIN-WAIT-2", 5),
    ("TIME-WAIT", 6),
    ("CLOSE-WAIT", 8),
    ("LAST-ACK", 9),
    ("CLOSING", 11),
];

/// The facts of a connection; without one every field is unknown, but for its state.
pub(crate) struct Facts(pub(crate) Option<TcpInfo>);

impl Names for Facts {
    fn value(&self, name: &str) -> Option<i64> {
        if let Some((_, value)) = CONSTANTS.iter().find(|(constant, _)| *constant == name) {
            return Some(*value);
        }
        let field = name.strip_prefix("tcpi_")?;
        match &self.0 {
            Some(info) => window(info, field)
                .or_else(|| timing(info, field))
                .or_else(|| counter(info, field)),
            None => (field == "state").then_some(7),
        }
    }
}

fn segments(info: &TcpInfo, bytes: Bytes) -> i64 {
    bytes.get().div_ceil(info.mss.get().max(1)) as i64
}

/// Windows, what is in flight, and negotiation.
fn window(info: &TcpInfo, field: &str) -> Option<i64> {
    Some(match field {
        "state" => STATES
            .iter()
            .find(|(name, _)| *name == info.state)
            .map_or(7, |(_, state)| *state),
        "ca_state" => match info.phase {
            CongestionState::Open if info.sacked > Bytes::ZERO => 1,
            CongestionState::Open => 0,
            CongestionState::Cwr => 2,
            CongestionState::Recovery => 3,
            CongestionState::Loss => 4,
        },
        "options" => {
            let set = [
                info.timestamps,
                info.sack,
                info.scales.is_some(),
                info.ecn != EcnState::Off,
                info.received_ce > 0,
                info.syn_data_acked,
            ];
            set.iter()
                .enumerate()
                .map(|(bit, is_set)| i64::from(*is_set) << bit)
                .sum()
        }
        "snd_wscale" => info.scales.map_or(0, |(peer, _)| i64::from(peer)),
        "rcv_wscale" => info.scales.map_or(0, |(_, own)| i64::from(own)),
        "snd_mss" => info.mss.get() as i64,
        "rcv_mss" => info.peer_mss.get() as i64,
        "advmss" => info.advertised_mss.get() as i64,
        "pmtu" => info.path_mtu.get() as i64,
        "snd_cwnd" => (info.cwnd.get() / info.mss.get().max(1)) as i64,
        "snd_ssthresh" if info.ssthresh == Bytes::MAX => INFINITE_SSTHRESH,
        "snd_ssthresh" => (info.ssthresh.get() / info.mss.get().max(1)) as i64,
        "snd_wnd" => info.peer_window.get() as i64,
        "rcv_wnd" => info.receive_window.get() as i64,
        "rcv_space" => info.receive_space.get() as i64,
        "unacked" => info.segments_unacked as i64,
        "sacked" => segments(info, info.sacked),
        "lost" => segments(info, info.lost),
        "retrans" => info.retransmissions_out as i64,
        "notsent_bytes" => info.unsent.get() as i64,
        "delivery_rate_app_limited" => i64::from(info.app_limited),
        _ => return None,
    })
}

/// Times in microseconds, rates in bytes per second.
fn timing(info: &TcpInfo, field: &str) -> Option<i64> {
    let micros = |time: Duration| time.as_micros() as i64;
    let limited = info.limited;
    Some(match field {
        "rto" => micros(info.rto),
        "ato" => micros(info.delayed_ack),
        "rtt" => micros(info.srtt),
        "rttvar" => micros(info.rttvar),
        "min_rtt" => micros(info.min_rtt),
        "rcv_rtt" => info.receive_rtt.map_or(0, micros),
        "last_data_sent" => info.last_sent.map_or(0, |time| time.as_millis() as i64),
        "last_data_recv" => info.last_received.map_or(0, |time| time.as_millis() as i64),
        "last_ack_recv" => info.last_heard.as_millis() as i64,
        "pacing_rate" => info.pacing_rate.as_bytes_per_sec() as i64,
        "delivery_rate" => info
            .delivery_rate
            .map_or(0, |rate| rate.as_bytes_per_sec() as i64),
        "busy_time" => limited.map_or(0, |limited| micros(limited.busy)),
        "rwnd_limited" => limited.map_or(0, |limited| micros(limited.peer_window)),
        "sndbuf_limited" => limited.map_or(0, |limited| micros(limited.send_buffer)),
        _ => return None,
    })
}

/// Counters.
fn counter(info: &TcpInfo, field: &str) -> Option<i64> {
    Some(match field {
        "retransmits" => i64::from(info.timeouts_in_a_row),
        "probes" => i64::from(info.window_probes),
        "backoff" => i64::from(info.backoff),
        "reordering" => i64::from(info.reordering),
        "reord_seen" => i64::from(info.reorderings),
        "total_retrans" => info.retransmits as i64,
        "bytes_acked" => info.bytes_acked as i64,
        "bytes_received" => info.bytes_received as i64,
        "bytes_sent" => info.bytes_sent as i64,
        "bytes_retrans" => info.bytes_retransmitted as i64,
        "segs_out" => info.segments_out as i64,
        "segs_in" => info.segments_in as i64,
        "data_segs_out" => info.data_segments_out as i64,
        "data_segs_in" => info.data_segments_in as i64,
        "delivered" => info.delivered as i64,
        "delivered_ce" => info.delivered_ce as i64,
        "dsack_dups" => info.duplicates as i64,
        "rcv_ooopack" => info.out_of_order as i64,
        _ => return None,
    })
}
