//! CAKE's tins: a table in text, a list of objects in JSON.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tautline_qdisc::cake::TinStats;

use super::Value::{self, Count, Rate, Size, Time};
use super::json::{Fields, Json, json};
use super::{Report, tc};

/// The tins of a report; none unless it is one of CAKE.
pub(super) fn tins(report: &Report) -> &[Report] {
    if report.kind == "cake" {
        &report.classes
    } else {
        &[]
    }
}

/// The table of tins, a line for each counter, between empty lines.
pub(super) fn table(report: &Report) -> Vec<String> {
    let tins = tins(report);
    let Some(first) = tins.first() else {
        return Vec::new();
    };
    let row = |label: &str, cells: &mut dyn Iterator<Item = String>| {
        cells.fold(format!("{label:<10}"), |line, cell| {
            format!("{line}{cell:>13}")
        })
    };
    let mut lines = Vec::from([
        String::new(),
        row("", &mut tins.iter().map(|tin| tin.kind.into())),
    ]);
    for (name, _) in &first.counters {
        let cell = |tin: &Report| {
            tin.counters
                .iter()
                .find(|(counter, _)| counter == name)
                .map(|(_, value)| tc::text(value))
        };
        lines.push(row(
            &format!("  {name}"),
            &mut tins.iter().map(|tin| cell(tin).unwrap_or_default()),
        ));
    }
    lines
}

/// A counter of a tin: its name in `tc`'s text, its name in `tc`'s JSON, its value.
type Counter = (&'static str, &'static str, fn(&TinStats) -> Value);

const COUNTERS: [Counter; 20] = [
    ("thresh", "threshold_rate", |tin| Rate(tin.threshold)),
    ("target", "target_us", |tin| Time(tin.target)),
    ("interval", "interval_us", |tin| Time(tin.interval)),
    ("pk_delay", "peak_delay_us", |tin| Time(tin.peak_delay)),
    ("av_delay", "avg_delay_us", |tin| Time(tin.average_delay)),
    ("sp_delay", "base_delay_us", |tin| Time(tin.base_delay)),
    ("backlog", "backlog_bytes", |tin| Size(tin.backlog)),
    ("pkts", "sent_packets", |tin| Count(tin.packets)),
    ("bytes", "sent_bytes", |tin| Count(tin.bytes.get())),
    ("way_inds", "way_indirect_hits", |tin| Count(tin.way_hits)),
    ("way_miss", "way_misses", |tin| Count(tin.way_misses)),
    ("way_cols", "way_collisions", |tin| {
        Count(tin.way_collisions)
    }),
    ("drops", "drops", |tin| Count(tin.drops)),
    ("marks", "ecn_mark", |tin| Count(tin.marks)),
    ("ack_drop", "ack_drops", |tin| Count(tin.ack_drops)),
    ("sp_flows", "sparse_flows", |tin| {
        Count(tin.sparse_flows as u64)
    }),
    ("bk_flows", "bulk_flows", |tin| Count(tin.bulk_flows as u64)),
    ("un_flows", "unresponsive_flows", |tin| {
        Count(tin.unresponsive_flows as u64)
    }),
    ("max_len", "max_pkt_len", |tin| Count(tin.max_len.get())),
    ("quantum", "flow_quantum", |tin| Count(tin.quantum.into())),
];

/// The counters of a tin, as a class of CAKE's report.
pub(crate) fn tin_report(tin: &TinStats) -> Report {
    let counters = COUNTERS.iter().map(|(name, _, value)| (*name, value(tin)));
    Report {
        kind: tin.name,
        counters: counters.collect(),
        ..Report::default()
    }
}

/// A tin in JSON.
pub(super) fn tin(tin: &Report) -> Json {
    let mut fields = Fields::from([("tin", Json::Text(tin.kind.into()))]);
    for (name, value) in &tin.counters {
        let counter = COUNTERS.iter().find(|(text, ..)| text == name);
        fields.push((counter.map_or(*name, |(_, key, _)| key), json(value)));
    }
    Json::Object(fields)
}

/// The JSON parameter and value of `word`, a bare word in text.
pub(super) fn meaning(word: &'static str) -> (&'static str, Json) {
    let (name, value) = match word {
        "unlimited" => ("bandwidth", word),
        "autorate-ingress" => ("autorate", word),
        "besteffort" | "precedence" | "diffserv3" | "diffserv4" | "diffserv8" => ("diffserv", word),
        "flowblind" | "srchost" | "dsthost" | "hosts" | "flows" | "dual-srchost"
        | "dual-dsthost" | "triple-isolate" => ("flowmode", word),
        "ack-filter" => ("ack-filter", "enabled"),
        "ack-filter-aggressive" => ("ack-filter", "aggressive"),
        "no-ack-filter" => ("ack-filter", "disabled"),
        "atm" | "ptm" | "noatm" => ("atm", word),
        "nonat" => return ("nat", Json::Bool(false)),
        "nowash" => return ("wash", Json::Bool(false)),
        "egress" => return ("ingress", Json::Bool(false)),
        "split-gso" => return ("split_gso", Json::Bool(true)),
        "no-split-gso" => return ("split_gso", Json::Bool(false)),
        _ => return (word, Json::Bool(true)),
    };
    (name, Json::Text(value.into()))
}

/// The parameters that `tc` prints in JSON but not in text.
pub(super) fn defaults(report: &Report) -> Fields {
    let mut fields = Fields::from([
        ("bandwidth", Json::Text("unlimited".into())),
        ("raw", Json::Bool(false)),
        ("overhead", Json::Whole(0)),
        ("fwmark", Json::Text("0".into())),
    ]);
    let has = |name: &str| report.options.iter().any(|(option, _)| *option == name);
    fields.retain(|(name, _)| {
        let is_told = has(name) || (*name == "bandwidth" && has("unlimited"));
        report.kind == "cake" && !is_told
    });
    fields
}
