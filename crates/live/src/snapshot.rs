//! [`Snapshot`]: ports at one moment.

use std::time::Duration;

use tautline_base::{Bytes, Device};
use tautline_bql::{Limit, Port};
use tautline_qdisc::stats::Sojourn;
use tautline_qdisc::{Backlog, DropReason, Qdisc, Stats};
use tautline_tc::{Inspect, Report, Value};

use crate::tree;

/// Ports at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Time since the beginning.
    pub at: Duration,
    /// The ports, the same and in the same order each time.
    pub ports: Vec<PortState>,
}

/// Packets with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A port at one moment. Whatever is counted is counted since the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortState {
    /// Name, for example `to right (eth1)`.
    pub name: String,
    /// Handed to its qdisc.
    pub taken: Counted,
    /// Handed on by its qdisc.
    pub sent: Counted,
    /// Waiting in its qdisc.
    pub backlog: Backlog,
    /// In its ring.
    pub ring: Backlog,
    /// Most bytes that may be in its ring; none where there is no limit.
    pub ring_limit: Option<Bytes>,
    /// Marked "congestion experienced" by its qdisc.
    pub marks: u64,
    /// Packets dropped, by reason; those there were.
    pub drops: Vec<(String, u64)>,
    /// Sojourn times in its qdisc.
    pub sojourn: Sojourn,
    /// Its qdisc tree.
    pub qdisc: QdiscState,
    /// Hosts that carry most, the heaviest first; empty if they are not counted.
    pub hosts: Vec<Talker>,
    /// Flows that carry most.
    pub flows: Vec<Talker>,
}

/// A qdisc tree at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QdiscState {
    /// `tc`'s name of the root qdisc.
    pub kind: String,
    /// Token buckets of all qdiscs and classes.
    pub buckets: Vec<Bucket>,
    /// A line or two for each qdisc and class, indented: parameters and counters.
    pub lines: Vec<String>,
}

/// A token bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bucket {
    /// `tbf 1: tokens`.
    pub name: String,
    /// Its tokens in bytes; nothing if Linux counts them in ticks.
    pub bytes: Option<Bytes>,
    /// Its depth, if known.
    pub depth: Option<Bytes>,
    /// Its tokens with their unit.
    pub text: String,
}

/// Traffic of a host or a flow, counted since it entered a table of bounded size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Talker {
    /// An address, or a flow's protocol, addresses and ports.
    pub name: String,
    /// Packets sent.
    pub sent: Counted,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Sum of the sojourn times of the packets sent.
    pub sojourn_sum: Duration,
}

impl QdiscState {
    /// The tree of `report`.
    pub fn of(report: &Report) -> Self {
        let mut buckets = Vec::new();
        add_buckets(report, &mut buckets);
        Self {
            kind: report.kind.to_owned(),
            buckets,
            lines: tree::lines(report),
        }
    }
}

impl PortState {
    /// The state of `port`.
    pub fn of<Q, D, L>(name: impl Into<String>, port: &Port<Stats<Q>, D, L>) -> Self
    where
        Q: Qdisc<tautline_base::Packet<D::Frame>> + Inspect,
        D: Device,
        L: Limit,
    {
        let (stats, ring) = (port.qdisc().stats(), port.ring());
        let drops = DropReason::ALL
            .into_iter()
            .map(|reason| (reason.to_string(), stats.dropped_for(reason).packets));
        let limit = ring.limit().limit();
        Self {
            name: name.into(),
            taken: Counted {
                packets: stats.enqueued.packets,
                bytes: stats.enqueued.bytes.get(),
            },
            sent: Counted {
                packets: stats.dequeued.packets,
                bytes: stats.dequeued.bytes.get(),
            },
            backlog: port.backlog(),
            ring: Backlog {
                packets: ring.in_flight(),
                bytes: ring.limit().in_flight(),
            },
            ring_limit: (limit < Bytes::MAX).then_some(limit),
            marks: stats.dequeued.ce.saturating_sub(stats.enqueued.ce),
            drops: drops.filter(|(_, count)| *count > 0).collect(),
            sojourn: stats.sojourn.clone(),
            qdisc: QdiscState::of(&port.qdisc().report()),
            hosts: Vec::new(),
            flows: Vec::new(),
        }
    }
}

/// Names of token counters with the options that hold their bucket's depth.
const TOKENS: [(&str, &str); 4] = [
    ("tokens", "burst"),
    ("peak_tokens", "minburst"),
    ("ctokens", "cburst"),
    ("ptokens", "minburst"),
];

fn add_buckets(report: &Report, buckets: &mut Vec<Bucket>) {
    let whose = report.id.map_or_else(
        || report.kind.to_owned(),
        |id| format!("{} {id}", report.kind),
    );
    for (name, value) in &report.counters {
        if let Some((_, depth)) = TOKENS.into_iter().find(|(tokens, _)| tokens == name) {
            let depth = report.options.iter().find(|(option, _)| *option == depth);
            buckets.push(Bucket {
                name: format!("{whose} {name}"),
                bytes: bytes(value),
                depth: depth.and_then(|(_, value)| bytes(value)),
                text: match value {
                    Value::Signed(ticks) => format!("{ticks} ticks of 64 ns"),
                    value => value.to_string(),
                },
            });
        }
    }
    report
        .classes
        .iter()
        .chain(&report.children)
        .for_each(|below| add_buckets(below, buckets));
}

fn bytes(value: &Value) -> Option<Bytes> {
    match value {
        Value::Size(bytes) => Some(*bytes),
        _ => None,
    }
}
