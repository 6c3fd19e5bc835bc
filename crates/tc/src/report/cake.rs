//! CAKE's tins: a table in text, a list of objects in JSON.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_core::ser::{Serialize, SerializeMap, Serializer};

use super::json::{Json, Micros};
use super::{Report, Value, tc};

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
pub(super) struct Tin<'a>(pub(super) &'a Report);

impl Serialize for Tin<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("tin", self.0.kind)?;
        for (name, value) in &self.0.counters {
            let key = NAMES
                .iter()
                .find(|(text, _)| text == name)
                .map_or(*name, |(_, key)| key);
            match value {
                Value::Time(time) => map.serialize_entry(key, &Micros(*time))?,
                value => map.serialize_entry(key, &Json(value))?,
            }
        }
        map.end()
    }
}

/// JSON value of a CAKE word: a flag, or the name of the parameter's setting.
pub(super) enum Meaning {
    Is(bool),
    Named(&'static str),
}

/// The parameter that `word`, which stands alone in text, sets in JSON.
pub(super) fn meaning(word: &'static str) -> Option<(&'static str, Meaning)> {
    use Meaning::{Is, Named};
    Some(match word {
        "unlimited" => ("bandwidth", Named("unlimited")),
        "autorate-ingress" => ("autorate", Named(word)),
        "besteffort" | "precedence" | "diffserv3" | "diffserv4" | "diffserv8" => {
            ("diffserv", Named(word))
        }
        "flowblind" | "srchost" | "dsthost" | "hosts" | "flows" | "dual-srchost"
        | "dual-dsthost" | "triple-isolate" => ("flowmode", Named(word)),
        "nat" => ("nat", Is(true)),
        "nonat" => ("nat", Is(false)),
        "wash" => ("wash", Is(true)),
        "nowash" => ("wash", Is(false)),
        "ingress" => ("ingress", Is(true)),
        "egress" => ("ingress", Is(false)),
        "ack-filter" => ("ack-filter", Named("enabled")),
        "ack-filter-aggressive" => ("ack-filter", Named("aggressive")),
        "no-ack-filter" => ("ack-filter", Named("disabled")),
        "split-gso" => ("split_gso", Is(true)),
        "no-split-gso" => ("split_gso", Is(false)),
        "atm" | "ptm" | "noatm" => ("atm", Named(word)),
        _ => return None,
    })
}

/// Adds the parameters that `tc` prints in JSON but not in text.
pub(super) fn defaults<M: SerializeMap>(map: &mut M, report: &Report) -> Result<(), M::Error> {
    let missing = |name: &str| {
        report.kind == "cake" && report.options.iter().all(|(option, _)| *option != name)
    };
    if missing("raw") {
        map.serialize_entry("raw", &false)?;
    }
    if missing("overhead") {
        map.serialize_entry("overhead", &0)?;
    }
    if missing("fwmark") {
        map.serialize_entry("fwmark", "0")
    } else {
        Ok(())
    }
}
