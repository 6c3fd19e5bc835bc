//! CAKE's tins: a table in text, a list of objects in JSON.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

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

/// Names of a tin's counters in `tc`'s text and JSON.
const NAMES: [(&str, &str); 20] = [
    ("thresh", "threshold_rate"),
    ("target", "target_us"),
    ("interval", "interval_us"),
    ("pk_delay", "peak_delay_us"),
    ("av_delay", "avg_delay_us"),
    ("sp_delay", "base_delay_us"),
    ("backlog", "backlog_bytes"),
    ("pkts", "sent_packets"),
    ("bytes", "sent_bytes"),
    ("way_inds", "way_indirect_hits"),
    ("way_miss", "way_misses"),
    ("way_cols", "way_collisions"),
    ("drops", "drops"),
    ("marks", "ecn_mark"),
    ("ack_drop", "ack_drops"),
    ("sp_flows", "sparse_flows"),
    ("bk_flows", "bulk_flows"),
    ("un_flows", "unresponsive_flows"),
    ("max_len", "max_pkt_len"),
    ("quantum", "flow_quantum"),
];

/// A tin in JSON.
pub(super) fn tin(tin: &Report) -> Json {
    let mut fields = Fields::from([("tin", Json::Text(tin.kind.into()))]);
    for (name, value) in &tin.counters {
        let named = NAMES.iter().find(|(text, _)| text == name);
        fields.push((named.map_or(*name, |(_, key)| key), json(value)));
    }
    Json::Object(fields)
}

/// The parameter that `word`, which stands alone in text, sets in JSON, and its value.
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
        ("raw", Json::Bool(false)),
        ("overhead", Json::Whole(0)),
        ("fwmark", Json::Text("0".into())),
    ]);
    let is_missing = |name: &str| report.options.iter().all(|(option, _)| *option != name);
    fields.retain(|(name, _)| report.kind == "cake" && is_missing(name));
    fields
}
