//! [`State`]: a port at one moment, in the shape of the control socket.

use serde::{Deserialize, Serialize};
use tautline_base::Bytes;
use tautline_live::{Bucket, Counted, PortState, QdiscState, Talker};
use tautline_qdisc::Backlog;
use tautline_qdisc::stats::Sojourn;
use tautline_tc::Report;

use super::connection::ConnectionState;
use super::talkers::{Counters, End, TopTalkers};

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
    /// Name of the pair of interfaces, if the middlebox has several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pair: String,
    /// `to right (eth1)`.
    pub name: String,
    /// Interface that the way leaves at.
    pub interface: String,
    /// `tc`'s name of the root qdisc.
    pub kind: String,
    /// Since the program began, in seconds.
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
    /// The tree as lines of text.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Token buckets of the tree.
    #[serde(default)]
    pub buckets: Vec<TokenBucket>,
    /// Hosts and flows that carry most.
    #[serde(flatten)]
    pub talkers: TopTalkers,
    /// The connection, if the process is one end of a transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionState>,
}

/// A token bucket of a qdisc.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    /// `tbf 1: tokens`.
    pub name: String,
    /// Its tokens in bytes; nothing if Linux counts them in ticks.
    pub bytes: Option<u64>,
    /// Its depth in bytes, if known.
    pub depth: Option<u64>,
    /// Its tokens with their unit.
    pub text: String,
}

impl State {
    /// The state of `port`, which leaves at `interface` through the qdisc of `report`.
    pub fn new(
        port: PortState,
        report: &Report,
        talkers: TopTalkers,
        (interface, time_s): (&str, f64),
    ) -> Self {
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
            pair: String::new(),
            name: port.name,
            interface: interface.to_owned(),
            kind: port.qdisc.kind,
            time_s,
            taken: amount(port.taken),
            sent: amount(port.sent),
            backlog: backlog(port.backlog),
            ring: backlog(port.ring),
            ring_limit: port.ring_limit.map(Bytes::get),
            marks: port.marks,
            overlimits: report.overlimits,
            drops: port.drops,
            sojourn_last_max_ns: (nanos(port.sojourn.last), nanos(port.sojourn.max)),
            sojourn_ns: port.sojourn.histogram.buckets().collect(),
            report: serde_json::to_value(report).unwrap_or_default(),
            lines: port.qdisc.lines,
            buckets: port.qdisc.buckets.into_iter().map(bucket).collect(),
            talkers,
            connection: None,
        }
    }

    /// The port as the live view draws it.
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
            name: match &*self.pair {
                "" => self.name,
                pair => format!("{pair}: {}", self.name),
            },
            taken: counted(self.taken),
            sent: counted(self.sent),
            backlog: backlog(self.backlog),
            ring: backlog(self.ring),
            ring_limit: self.ring_limit.map(Bytes::new),
            marks: self.marks,
            drops: self.drops,
            sojourn,
            qdisc: QdiscState {
                kind: self.kind,
                buckets: self.buckets.into_iter().map(drawn_bucket).collect(),
                lines: self.lines,
            },
            hosts: self.talkers.drawn_hosts(),
            flows: self.talkers.drawn_flows(),
        }
    }
}

fn bucket(of: Bucket) -> TokenBucket {
    TokenBucket {
        name: of.name,
        bytes: of.bytes.map(Bytes::get),
        depth: of.depth.map(Bytes::get),
        text: of.text,
    }
}

fn drawn_bucket(of: TokenBucket) -> Bucket {
    Bucket {
        name: of.name,
        bytes: of.bytes.map(Bytes::new),
        depth: of.depth.map(Bytes::new),
        text: of.text,
    }
}

impl TopTalkers {
    /// The hosts as the live view draws them.
    pub fn drawn_hosts(&self) -> Vec<Talker> {
        let name = |end| match end {
            End::Source => "source",
            End::Destination => "destination",
        };
        let hosts = self.hosts.iter();
        hosts
            .map(|host| {
                let name = format!("{} ({})", host.address, name(host.end));
                drawn(name, &host.traffic)
            })
            .collect()
    }

    /// The flows as the live view draws them.
    pub fn drawn_flows(&self) -> Vec<Talker> {
        let flows = self.flows.iter();
        flows
            .map(|flow| drawn(flow.flow.clone(), &flow.traffic))
            .collect()
    }
}

fn drawn(name: String, traffic: &Counters) -> Talker {
    Talker {
        name,
        sent: Counted {
            packets: traffic.packets,
            bytes: traffic.bytes,
        },
        drops: traffic.drops,
        marks: traffic.marks,
        sojourn_sum: std::time::Duration::from_nanos(traffic.sojourn_sum_ns),
    }
}
