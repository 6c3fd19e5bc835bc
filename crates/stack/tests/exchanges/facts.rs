//! Facts that scripts ask for: fields of [`TcpInfo`], compared with what a script says.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_stack::TcpInfo;

use crate::number::{duration, signed};

/// The field `name`, as text or as a number: bytes, nanoseconds, counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Text(String),
    Number(u64),
}

/// The field of `info` that is called `name`.
pub(crate) fn of(info: &TcpInfo, name: &str) -> Option<Fact> {
    let bytes = |value: Bytes| Fact::Number(value.get());
    let time = |value: Duration| Fact::Number(value.as_nanos() as u64);
    let rate = |value: Rate| Fact::Number(value.as_bytes_per_sec());
    let yes = |value: bool| Fact::Text(if value { "yes" } else { "no" }.into());
    Some(match name {
        "state" => Fact::Text(info.state.into()),
        "congestion" => Fact::Text(info.congestion.into()),
        "ecn" => Fact::Text(info.ecn.name().into()),
        "recovering" => yes(info.recovering),
        "peer_limited" => yes(info.peer_limited),
        "cwnd" => bytes(info.cwnd),
        "ssthresh" => bytes(info.ssthresh),
        "in_flight" => bytes(info.in_flight),
        "mss" => bytes(info.mss),
        "peer_window" => bytes(info.peer_window),
        "unacknowledged" => bytes(info.unacknowledged),
        "srtt" => time(info.srtt),
        "rttvar" => time(info.rttvar),
        "min_rtt" => time(info.min_rtt),
        "rto" => time(info.rto),
        "pacing_rate" => rate(info.pacing_rate),
        "bytes_acked" => Fact::Number(info.bytes_acked),
        "bytes_received" => Fact::Number(info.bytes_received),
        "segments_out" => Fact::Number(info.segments_out),
        "segments_in" => Fact::Number(info.segments_in),
        "retransmits" => Fact::Number(info.retransmits),
        "timeouts" => Fact::Number(info.timeouts),
        "spurious" => Fact::Number(info.spurious),
        "delivered_ce" => Fact::Number(info.delivered_ce),
        "received_ce" => Fact::Number(info.received_ce),
        "tail_probes" => Fact::Number(info.tail_probes),
        "tail_losses" => Fact::Number(info.tail_losses),
        "duplicates" => Fact::Number(info.duplicates),
        "reordering" => Fact::Number(info.reordering.into()),
        "spurious_timeouts" => Fact::Number(info.spurious_timeouts),
        "backoff" => Fact::Number(info.backoff.into()),
        "window_probes" => Fact::Number(info.window_probes.into()),
        "phase" => Fact::Text(format!("{:?}", info.phase)),
        "unsent" => bytes(info.unsent),
        "sacked" => bytes(info.sacked),
        "lost" => bytes(info.lost),
        "receive_window" => bytes(info.receive_window),
        "bytes_retransmitted" => Fact::Number(info.bytes_retransmitted),
        "reordering_window" => time(info.reordering_window),
        "ce_reductions" => Fact::Number(info.ce_reductions),
        _ => return None,
    })
}

impl Fact {
    /// Whether the fact compares so with `value`, a word, a number, a duration or a number of
    /// `mss`.
    pub(crate) fn holds(&self, operator: &str, value: &str, mss: u64) -> Result<bool, String> {
        let number = match self {
            Self::Text(text) => {
                return match operator {
                    "=" => Ok(text == value),
                    "!=" => Ok(text != value),
                    _ => Err(format!("words cannot be compared by '{operator}'")),
                };
            }
            Self::Number(number) => *number,
        };
        let value = match value.strip_suffix(" mss") {
            Some(count) => signed(count)? as u64 * mss,
            None if value.ends_with('s') => duration(value)?.as_nanos() as u64,
            None => signed(value)? as u64,
        };
        match operator {
            "=" => Ok(number == value),
            "!=" => Ok(number != value),
            "<" => Ok(number < value),
            "<=" => Ok(number <= value),
            ">" => Ok(number > value),
            ">=" => Ok(number >= value),
            _ => Err(format!("'{operator}' compares nothing")),
        }
    }
}
