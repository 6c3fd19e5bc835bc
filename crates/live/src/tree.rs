//! The lines of a report: each qdisc and class below what it belongs to, with its parameters,
//! what passed, and its own counters.

use tautline_tc::{Report, Value};

use crate::amounts::{bytes, time};

pub(crate) fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    add(report, 0, &mut lines);
    lines
}

fn add(report: &Report, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let id = report.id.map_or_else(String::new, |id| format!(" {id}"));
    let options: String = report
        .options
        .iter()
        .map(|(name, value)| word(name, value))
        .collect();
    lines.push(format!("{indent}{}{id}{options}", report.kind));
    let mut passed = Vec::new();
    if let Some(common) = &report.common {
        passed.push(format!(
            "sent {} packets {}, dropped {}, backlog {} packets {}",
            common.sent_packets,
            bytes(common.sent_bytes.get()),
            common.drops,
            common.backlog.packets,
            bytes(common.backlog.bytes.get()),
        ));
    }
    let counts = [
        ("overlimits", report.overlimits),
        ("requeues", report.requeues),
    ];
    passed.extend(
        counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name} {count}")),
    );
    if let Some(sojourn) = report
        .sojourn
        .as_ref()
        .filter(|sojourn| sojourn.count() > 0)
    {
        passed.push(format!("sojourn at most {}", time(sojourn.max)));
    }
    let counters: String = report
        .counters
        .iter()
        .map(|(name, value)| word(name, value))
        .collect();
    let more = [passed.join(", "), counters.trim_start().to_owned()];
    lines.extend(
        more.iter()
            .filter(|line| !line.is_empty())
            .map(|line| format!("{indent}  {line}")),
    );
    report
        .classes
        .iter()
        .chain(&report.children)
        .for_each(|below| add(below, depth + 1, lines));
}

/// ` name value`, without what says nothing.
fn word(name: &str, value: &Value) -> String {
    match value {
        Value::Flag(false) => String::new(),
        Value::Flag(true) => format!(" {name}"),
        Value::Share(share) => format!(" {name} {}", (share * 1e6).round() / 1e6),
        Value::Time(value) => format!(" {name} {}", time(*value)),
        value => format!(" {name} {value}"),
    }
}
