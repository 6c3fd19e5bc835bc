//! [`Snapshot`]: ports at one moment.

use std::time::Duration;

use tautline_base::{Bytes, Device};
use tautline_bql::{Limit, Port};
use tautline_qdisc::stats::Sojourn;
use tautline_qdisc::{Backlog, DropReason, Qdisc, Stats};
use tautline_tc::{Inspect, Report, Value};

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
    /// Report of the qdisc tree.
    pub report: Report,
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
            report: port.qdisc().report(),
        }
    }

    /// Buckets of its qdisc and of all below it: whose, what is in it, and how much it holds
    /// if that is known.
    pub fn buckets(&self) -> Vec<(String, Value, Option<Value>)> {
        let mut buckets = Vec::new();
        add_buckets(&self.report, &mut buckets);
        buckets
    }
}

/// Names of token counters with the options that hold their bucket's depth.
const TOKENS: [(&str, &str); 4] = [
    ("tokens", "burst"),
    ("peak_tokens", "minburst"),
    ("ctokens", "cburst"),
    ("ptokens", "minburst"),
];

fn add_buckets(report: &Report, buckets: &mut Vec<(String, Value, Option<Value>)>) {
    let whose = report.id.map_or_else(
        || report.kind.to_owned(),
        |id| format!("{} {id}", report.kind),
    );
    for (name, value) in &report.counters {
        if let Some((_, depth)) = TOKENS.into_iter().find(|(tokens, _)| tokens == name) {
            let depth = report
                .options
                .iter()
                .find(|(option, _)| *option == depth)
                .map(|(_, value)| value.clone());
            buckets.push((format!("{whose} {name}"), value.clone(), depth));
        }
    }
    report
        .classes
        .iter()
        .chain(&report.children)
        .for_each(|below| add_buckets(below, buckets));
}
