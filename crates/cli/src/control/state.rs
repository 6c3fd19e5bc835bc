//! [`State`]: a port at one moment, in the shape of the control socket.

use serde::{Deserialize, Serialize};
use tautline_base::Bytes;
use tautline_live::{Counted, PortState};
use tautline_qdisc::Backlog;
use tautline_qdisc::stats::Sojourn;
use tautline_tc::Report;

/// Packets with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A snapshot of one direction. Counters count since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// `to right (eth1)`.
    pub name: String,
    /// Interface that the way leaves at.
    pub interface: String,
    /// `tc`'s name of the root qdisc.
    pub kind: String,
    /// Since the middlebox began, in seconds.
    pub time_s: f64,
    /// Handed to the qdisc.
    pub taken: Amount,
    /// Handed on by the qdisc.
    pub sent: Amount,
    /// In the qdisc.
    pub backlog: Amount,
    /// In the device ring.
    pub ring: Amount,
    /// Most bytes that may be in the ring.
    pub ring_limit: Option<u64>,
    /// Marked by the qdisc.
    pub marks: u64,
    /// Dequeues that a shaper refused.
    pub overlimits: u64,
    /// Drops by reason.
    pub drops: Vec<(String, u64)>,
    /// The last and the longest sojourn time, in nanoseconds.
    pub sojourn_last_max_ns: (u64, u64),
    /// Packets by sojourn time in nanoseconds: the smallest value of each bucket, twice that of the
    /// one before, and its count; empty buckets are left out.
    pub sojourn_ns: Vec<(u64, u64)>,
    /// The qdisc tree as `tc -s -j` prints it.
    #[serde(default)]
    pub report: serde_json::Value,
}

impl State {
    /// The state of `port`, which leaves at `interface`.
    pub fn new(port: PortState, interface: &str, time_s: f64) -> Self {
        let backlog = |of: Backlog| Amount {
            packets: of.packets as u64,
            bytes: of.bytes.get(),
        };
        let amount = |of: Counted| Amount {
            packets: of.packets,
            bytes: of.bytes,
        };
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            name: port.name,
            interface: interface.to_owned(),
            kind: port.report.kind.to_owned(),
            time_s,
            taken: amount(port.taken),
            sent: amount(port.sent),
            backlog: backlog(port.backlog),
            ring: backlog(port.ring),
            ring_limit: port.ring_limit.map(Bytes::get),
            marks: port.marks,
            overlimits: port.report.overlimits,
            drops: port.drops,
            sojourn_last_max_ns: (nanos(port.sojourn.last), nanos(port.sojourn.max)),
            sojourn_ns: port.sojourn.histogram.buckets().collect(),
            report: serde_json::to_value(&port.report).unwrap_or_default(),
        }
    }

    /// The port as the live view draws it, without the counters of its qdisc tree.
    pub fn port(self) -> PortState {
        let backlog = |of: Amount| Backlog {
            packets: usize::try_from(of.packets).unwrap_or(usize::MAX),
            bytes: Bytes::new(of.bytes),
        };
        let counted = |of: Amount| Counted {
            packets: of.packets,
            bytes: of.bytes,
        };
        let (last, max) = self.sojourn_last_max_ns;
        let mut sojourn = Sojourn {
            last: std::time::Duration::from_nanos(last),
            max: std::time::Duration::from_nanos(max),
            ..Sojourn::default()
        };
        for (least, count) in self.sojourn_ns {
            sojourn.histogram.record_many(least, count);
        }
        PortState {
            name: format!("{}, {}", self.name, self.kind),
            taken: counted(self.taken),
            sent: counted(self.sent),
            backlog: backlog(self.backlog),
            ring: backlog(self.ring),
            ring_limit: self.ring_limit.map(Bytes::new),
            marks: self.marks,
            drops: self.drops,
            sojourn,
            report: Report::default(),
        }
    }
}
