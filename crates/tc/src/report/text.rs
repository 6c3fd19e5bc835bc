//! A [`Report`] as `tc -s -d qdisc show` and `tc -s -d class show` print it, without their blanks
//! at line ends.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::cake;
use super::layout::{Layout, Parameter};
use super::parts::Parts;
use super::tc;
use super::tree::{Parent, Shown};
use super::{ClassShow, QdiscShow, Report, Value};
use tautline_qdisc::ClassId;
use tautline_qdisc::stats::{Flow, FlowCounts, Sojourn};

impl fmt::Display for Report {
    /// The qdiscs, then the classes, each as `tc` prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.qdisc_show())?;
        let classes = self.class_show().to_string();
        if classes.is_empty() {
            Ok(())
        } else {
            write!(f, "\n{classes}")
        }
    }
}

impl fmt::Display for QdiscShow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.qdiscs().iter().flat_map(qdisc).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for ClassShow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.shown_classes().iter().flat_map(class).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The lines of one qdisc.
fn qdisc(shown: &Shown<'_>) -> Vec<String> {
    let (report, layout) = (shown.report, Layout::of(shown.report.kind));
    let place = match shown.place {
        Parent::Root => "root refcnt 2".to_string(),
        Parent::Below(class) => format!("parent {class}"),
    };
    let mut lines = Vec::from([words(
        format!("qdisc {} {} {place}", report.kind, handle(report.id)),
        report,
        layout,
    )]);
    lines.extend(common(report));
    lines.extend(counters(report, layout));
    lines.extend(sojourn(report));
    lines.extend(cake::table(report));
    lines.extend(flows(report));
    lines
}

/// The lines of one class.
fn class(shown: &Shown<'_>) -> Vec<String> {
    let (report, layout) = (shown.report, Layout::of_class(shown.report.kind));
    let place = match shown.place {
        Parent::Root => "root".to_string(),
        Parent::Below(class) => format!("parent {class}"),
    };
    let leaf = report
        .leaf()
        .map_or_else(String::new, |leaf| format!(" leaf {leaf}"));
    let mut lines = Vec::from([words(
        format!("class {} {} {place}{leaf}", report.kind, handle(report.id)),
        report,
        layout,
    )]);
    lines.extend(common(report));
    lines.extend(counters(report, layout));
    lines.extend(sojourn(report));
    lines
}

/// A name; `0:` stands for none, as in `tc`.
pub(super) fn handle(id: Option<ClassId>) -> String {
    id.unwrap_or_default().to_string()
}

/// The first line: what it is, and its parameters.
fn words(mut line: String, report: &Report, layout: &Layout) -> String {
    let moved = report
        .counters
        .iter()
        .filter(|(name, _)| layout.moves(name));
    let mut left: Vec<&(&str, Value)> = report.options.iter().chain(moved).collect();
    let mut show = |name: &str, value: &Value, text: String| match value {
        Value::Flag(false) => {}
        Value::Flag(true) => line.extend([" ", &name.replace('~', " ")]),
        _ => line.extend([" ", name, " ", &text]),
    };
    for Parameter {
        name,
        shown,
        missing,
        bare,
        hidden,
        literal,
        seconds,
        ..
    } in layout.parameters()
    {
        if literal {
            show(shown, &Value::Flag(true), String::new());
        } else if let Some(at) = left.iter().position(|(option, _)| *option == name) {
            let (_, value) = left.remove(at);
            let text = match (value, Parts::of(report.kind, name, value)) {
                (_, Some(parts)) if parts.is_zero() => continue,
                (_, Some(parts)) => parts.text(),
                (Value::Time(time), None) if seconds => format!("{}sec", time.as_secs()),
                (_, None) if bare => tc::bare(value),
                (_, None) => tc::text(value),
            };
            if !hidden {
                show(shown, value, text);
            }
        } else if let Some(missing) = missing {
            show(shown, &Value::word(missing), missing.into());
        }
    }
    left.into_iter()
        .for_each(|(name, value)| show(name, value, value.to_string()));
    line
}

/// The lines that all have.
fn common(report: &Report) -> Vec<String> {
    let Some(common) = &report.common else {
        return Vec::new();
    };
    let (overlimits, requeues) = (report.overlimits, report.requeues);
    let backlog = tc::text(&Value::Size(common.backlog.bytes));
    let sent = format!(
        " Sent {} bytes {} pkt (dropped {}, overlimits {overlimits} requeues {requeues})",
        common.sent_bytes.get(),
        common.sent_packets,
        common.drops
    );
    Vec::from([
        sent,
        format!(
            " backlog {backlog} {}p requeues {requeues}",
            common.backlog.packets
        ),
    ])
}

/// The lines of this kind alone: those `tc` has, then one of what it has not and is not zero.
fn counters(report: &Report, layout: &Layout) -> Vec<String> {
    let mut left: Vec<&(&str, Value)> = report
        .counters
        .iter()
        .filter(|(name, _)| !layout.moves(name))
        .collect();
    let mut lines: Vec<String> = layout
        .counters
        .iter()
        .map(|line| fill(line, &mut left))
        .collect();
    let more: Vec<String> = left
        .iter()
        .filter(|(_, value)| !value.is_zero())
        .map(|(name, value)| more(name, value))
        .collect();
    if !more.is_empty() {
        lines.push(format!("  {}", more.join(" ")));
    }
    lines
}

fn more(name: &str, value: &Value) -> String {
    match value {
        Value::Flag(_) => name.to_string(),
        value => format!("{name} {}", tc::text(value)),
    }
}

/// Fills a line of [`Layout::counters`], taking what it shows from `left`.
fn fill(line: &str, left: &mut Vec<&(&str, Value)>) -> String {
    let mut filled = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['{', '[']) {
        filled.push_str(&rest[..at]);
        let (close, optional) = if rest[at..].starts_with('[') {
            (']', true)
        } else {
            ('}', false)
        };
        let end = at
            + rest[at..]
                .find(close)
                .expect("a layout closes what it opens");
        let inner = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if optional {
            let (name, set) = optional_value(inner, left);
            let part = fill(inner, left);
            if set {
                filled.push_str(&part);
            } else {
                left.retain(|(counter, _)| *counter != name);
            }
            continue;
        }
        let (name, missing) = inner.split_once('|').unwrap_or((inner, "0"));
        let (name, width) = name
            .split_once('#')
            .map_or((name, None), |(name, width)| (name, Some(width)));
        match left.iter().position(|(counter, _)| *counter == name) {
            Some(at) => {
                let (_, value) = left.remove(at);
                filled.push_str(&match width {
                    Some(width) => format!(
                        "{:>width$}",
                        tc::bare(value),
                        width = width.parse().unwrap_or(0)
                    ),
                    None => tc::text(value),
                });
            }
            None => filled.push_str(missing),
        }
    }
    filled + rest
}

/// The value an optional part is about, and whether it is there and not zero.
fn optional_value<'a>(part: &'a str, left: &[&(&str, Value)]) -> (&'a str, bool) {
    let start = part.find('{').expect("an optional part is about a value") + 1;
    let name = part[start..]
        .split(['}', '#', '|'])
        .next()
        .unwrap_or_default();
    (
        name,
        left.iter()
            .any(|(counter, value)| *counter == name && !value.is_zero()),
    )
}

/// The line that `tc` lacks.
fn sojourn(report: &Report) -> Option<String> {
    let sojourn = report
        .sojourn
        .as_ref()
        .filter(|sojourn| sojourn.count() > 0)?;
    Some(format!("  {}", times(sojourn)))
}

fn times(sojourn: &Sojourn) -> String {
    let [p50, p95, p99] =
        [50, 95, 99].map(|percent| tc::text(&Value::Time(sojourn.percentile(percent))));
    let [last, max] = [sojourn.last, sojourn.max].map(|time| tc::text(&Value::Time(time)));
    format!("sojourn last {last} p50 {p50} p95 {p95} p99 {p99} max {max}")
}

/// Flows that are shown one by one; JSON has all.
const FLOWS_SHOWN: usize = 16;

/// A line for each of the flows that sent most, and one for those that had no place.
fn flows(report: &Report) -> Vec<String> {
    let shown = report
        .flows
        .iter()
        .enumerate()
        .filter(|(rank, flow)| *rank < FLOWS_SHOWN || flow.hash.is_none());
    shown
        .map(|(_, flow)| {
            let Flow {
                counts:
                    FlowCounts {
                        dequeued,
                        dropped,
                        sojourn,
                        ..
                    },
                ..
            } = flow;
            let (name, bytes, packets) = (flow.name(), dequeued.bytes.get(), dequeued.segments);
            format!(
                "  flow {name} sent {bytes} bytes {packets} pkt dropped {} {}",
                dropped.packets,
                times(sojourn)
            )
        })
        .collect()
}
