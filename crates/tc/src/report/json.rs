//! A [`Report`] in the shape of `tc -s -j`: rates in bytes per second, times in microseconds (some
//! of `fq` in nanoseconds), sizes in bytes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde_core::ser::{Serialize, SerializeMap, Serializer};

use super::parts::Parts;
use super::tree::{Parent, handle, is_among_parameters};
use super::{ClassShow, QdiscShow, Report, Value, cake, tc};
use tautline_qdisc::Common;
use tautline_qdisc::stats::{Flow, Sojourn};

/// A JSON value.
pub(super) enum Json {
    Null,
    Bool(bool),
    Whole(u64),
    Signed(i64),
    Real(f64),
    Text(String),
    List(Vec<Self>),
    Object(Fields),
}

/// The fields of an object.
pub(super) type Fields = Vec<(&'static str, Json)>;

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(set) => serializer.serialize_bool(*set),
            Self::Whole(number) => serializer.serialize_u64(*number),
            Self::Signed(number) => serializer.serialize_i64(*number),
            Self::Real(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl Serialize for Report {
    /// One object as in `tc -s -j qdisc`, with its classes (as in `tc -s -j class`) and the
    /// qdiscs below it inside.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = qdisc(self, Some(Parent::Root));
        fields.extend(nested(self));
        Json::Object(fields).serialize(serializer)
    }
}

impl Serialize for QdiscShow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.qdiscs().into_iter();
        serializer
            .collect_seq(all.map(|shown| Json::Object(qdisc(shown.report, Some(shown.place)))))
    }
}

impl Serialize for ClassShow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.shown_classes().into_iter();
        serializer
            .collect_seq(all.map(|shown| Json::Object(class(shown.report, Some(shown.place)))))
    }
}

/// The classes and qdiscs below a qdisc or a class; the enclosing object gives their position.
fn nested(report: &Report) -> Fields {
    let mut fields = Fields::new();
    if cake::tins(report).is_empty() && !report.classes.is_empty() {
        let classes = report.classes.iter().map(|below| {
            let mut fields = class(below, below.parent.map(Parent::Below));
            fields.extend(nested(below));
            Json::Object(fields)
        });
        fields.push(("classes", Json::List(classes.collect())));
    }
    if !report.children.is_empty() {
        let children = report.children.iter().map(|below| {
            let mut fields = qdisc(below, None);
            fields.extend(nested(below));
            Json::Object(fields)
        });
        fields.push(("children", Json::List(children.collect())));
    }
    fields
}

/// A qdisc without what is below it.
fn qdisc(report: &Report, place: Option<Parent>) -> Fields {
    let (moved, counters): (Vec<_>, Vec<_>) = report
        .counters
        .iter()
        .partition(|(name, _)| is_among_parameters(report.kind, name));
    let mut options = values(report.kind, report.options.iter().chain(moved));
    options.extend(cake::defaults(report));
    options.extend(told_always(report));
    let mut fields = Fields::from([
        ("kind", Json::Text(report.kind.into())),
        ("handle", Json::Text(handle(report.id))),
    ]);
    fields.extend(placed(place));
    fields.extend((place == Some(Parent::Root)).then_some(("refcnt", Json::Whole(2))));
    fields.push(("options", Json::Object(options)));
    fields.extend(
        report
            .common
            .iter()
            .flat_map(|common| stats(report, common)),
    );
    fields.extend(values(report.kind, counters));
    if report.kind == "codel" {
        fields.extend(["lastcount", "drop_next"].map(|name| (name, Json::Whole(0))));
    }
    fields.extend(report.sojourn.as_ref().map(sojourn));
    if report.kind == "cake" {
        let tins = cake::tins(report).iter().map(cake::tin);
        fields.push(("tins", Json::List(tins.collect())));
    }
    if !report.flows.is_empty() {
        let flows = report.flows.iter().map(flow);
        fields.push(("flows", Json::List(flows.collect())));
    }
    fields
}

/// A class without what is below it.
fn class(report: &Report, place: Option<Parent>) -> Fields {
    let mut fields = Fields::from([
        ("class", Json::Text(report.kind.into())),
        ("handle", Json::Text(handle(report.id))),
    ]);
    fields.extend(placed(place));
    fields.extend(
        report
            .leaf()
            .map(|leaf| ("leaf", Json::Text(leaf.to_string()))),
    );
    fields.extend(values(report.kind, &report.options));
    let common = report.common.as_ref();
    fields.extend(common.map(|common| ("stats", Json::Object(stats(report, common).into()))));
    fields.extend(values(report.kind, &report.counters));
    fields.extend(report.sojourn.as_ref().map(sojourn));
    fields
}

/// The parameters that `tc` prints in JSON although they are as always, such as flags of RED that
/// `sfq` has not.
fn told_always(report: &Report) -> Fields {
    let has = |name: &str| report.options.iter().any(|(option, _)| *option == name);
    match report.kind {
        "htb" => Fields::from([("ver", Json::Text(tc::HTB_VERSION.into()))]),
        "netem" if !has("gap") => Fields::from([("gap", Json::Whole(0))]),
        "pfifo_fast" | "prio" => Fields::from([("multiqueue", Json::Bool(false))]),
        "sfq" if has("redflowlimit") => Fields::from([
            ("adaptive", Json::Bool(false)),
            ("nodrop", Json::Bool(false)),
        ]),
        _ => Fields::new(),
    }
}

fn placed(place: Option<Parent>) -> Option<(&'static str, Json)> {
    Some(match place? {
        Parent::Root => ("root", Json::Bool(true)),
        Parent::Below(class) => ("parent", Json::Text(class.to_string())),
    })
}

fn stats(report: &Report, common: &Common) -> [(&'static str, Json); 7] {
    [
        ("bytes", common.sent_bytes.get()),
        ("packets", common.sent_packets),
        ("drops", common.drops),
        ("overlimits", report.overlimits),
        ("requeues", report.requeues),
        ("backlog", common.backlog.bytes.get()),
        ("qlen", common.backlog.packets as u64),
    ]
    .map(|(name, count)| (name, Json::Whole(count)))
}

fn values<'a>(kind: &str, values: impl IntoIterator<Item = &'a (&'static str, Value)>) -> Fields {
    let shown = values.into_iter();
    shown
        .filter_map(|(name, value)| field(kind, name, value))
        .collect()
}

/// A parameter or counter under its name in JSON; `None` if `tc` does not show it.
fn field(kind: &str, name: &'static str, value: &Value) -> Option<(&'static str, Json)> {
    match (name, value) {
        ("noecn", Value::Flag(set)) => return Some(("ecn", Json::Bool(!set))),
        ("nopacing", Value::Flag(set)) => return Some(("pacing", Json::Bool(!set))),
        ("nobytemode", Value::Flag(set)) => return Some(("bytemode", Json::Bool(!set))),
        ("no_dq_rate_estimator", Value::Flag(set)) => {
            return Some(("dq_rate_estimator", Json::Bool(!set)));
        }
        ("timer_slack" | "next_packet_delay" | "latency", Value::Time(time)) if kind == "fq" => {
            return Some((name, nanos(*time)));
        }
        ("perturb", Value::Time(time)) => return Some((name, Json::Whole(time.as_secs()))),
        (_, Value::Flag(true)) if kind == "cake" => return Some(cake::meaning(name)),
        _ => {}
    }
    match Parts::of(kind, name, value) {
        Some(parts) if parts.is_zero() => None,
        Some(parts) => Some((parts.key(), parts.json())),
        None => Some((name, json(value))),
    }
}

/// A value in JSON's units.
pub(super) fn json(value: &Value) -> Json {
    match value {
        Value::Count(count) | Value::Packets(count) => Json::Whole(*count),
        Value::Signed(count) => Json::Signed(*count),
        Value::Size(size) => Json::Whole(size.get()),
        Value::Time(time) => micros(*time),
        Value::Rate(rate) => Json::Whole(rate.as_bytes_per_sec()),
        Value::Share(share) => Json::Real(*share),
        Value::Flag(set) => Json::Bool(*set),
        Value::Word(word) => Json::Text(word.clone()),
        Value::List(numbers) => whole(numbers),
    }
}

fn whole(numbers: &[u64]) -> Json {
    Json::List(numbers.iter().copied().map(Json::Whole).collect())
}

/// A time in nanoseconds, as `fq` has some.
fn nanos(time: Duration) -> Json {
    Json::Whole(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// A time in microseconds: a whole number, as `tc` writes it, unless it has a fraction.
fn micros(time: Duration) -> Json {
    match u64::try_from(time.as_micros()) {
        Ok(micros) if time.subsec_nanos().is_multiple_of(1_000) => Json::Whole(micros),
        _ => Json::Real(time.as_secs_f64() * 1e6),
    }
}

/// Sojourn times: count, last, percentiles and longest in microseconds; `log2_ns` counts packets
/// by ⌊log₂ nanoseconds⌋, up to the last that is not zero.
fn sojourn(sojourn: &Sojourn) -> (&'static str, Json) {
    let [_, counts @ ..] = sojourn.histogram.counts();
    let used = counts.iter().rposition(|&count| count > 0);
    let used = &counts[..used.map_or(0, |last| last + 1)];
    let fields = Fields::from([
        ("count", Json::Whole(sojourn.count())),
        ("last", micros(sojourn.last)),
        ("p50", micros(sojourn.percentile(50))),
        ("p95", micros(sojourn.percentile(95))),
        ("p99", micros(sojourn.percentile(99))),
        ("max", micros(sojourn.max)),
        ("log2_ns", whole(used)),
    ]);
    ("sojourn", Json::Object(fields))
}

/// A flow: its hash in hexadecimal, or `others`; what it sent and lost, its sojourn times.
fn flow(flow: &Flow) -> Json {
    let counts = &flow.counts;
    Json::Object(Fields::from([
        ("flow", Json::Text(flow.name())),
        ("bytes", Json::Whole(counts.dequeued.bytes.get())),
        ("packets", Json::Whole(counts.dequeued.segments)),
        ("drops", Json::Whole(counts.dropped.packets)),
        sojourn(&counts.sojourn),
    ]))
}
