//! A [`Report`] in the shape of `tc -s -j`: rates in bytes per second, times in microseconds, sizes
//! in bytes.

use alloc::string::ToString;
use core::time::Duration;

use serde_core::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::cake::{self, Meaning, Tin};
use super::layout::Layout;
use super::parts::Parts;
use super::text::handle;
use super::tree::{Parent, Shown};
use super::{ClassShow, QdiscShow, Report, Value};
use tautline_qdisc::Common;
use tautline_qdisc::stats::{Flow, Sojourn};

impl Serialize for Report {
    /// One object as in `tc -s -j qdisc`, with its classes (as in `tc -s -j class`) and the
    /// qdiscs below it inside.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        qdisc(&mut map, self, Some(Parent::Root))?;
        nested(&mut map, self)?;
        map.end()
    }
}

impl Serialize for QdiscShow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.qdiscs().into_iter().map(Qdisc))
    }
}

impl Serialize for ClassShow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.shown_classes().into_iter().map(Class))
    }
}

/// A qdisc alone, without what is below it.
struct Qdisc<'a>(Shown<'a>);

impl Serialize for Qdisc<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        qdisc(&mut map, self.0.report, Some(self.0.place))?;
        map.end()
    }
}

/// A class alone.
struct Class<'a>(Shown<'a>);

impl Serialize for Class<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        class(&mut map, self.0.report, Some(self.0.place))?;
        map.end()
    }
}

/// A qdisc within its parent's object, which says where it stands; with what is below it.
struct Below<'a>(&'a Report);

impl Serialize for Below<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        qdisc(&mut map, self.0, None)?;
        nested(&mut map, self.0)?;
        map.end()
    }
}

/// A class within its qdisc's object, with what is below it.
struct Within<'a>(&'a Report);

impl Serialize for Within<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        class(&mut map, self.0, self.0.parent.map(Parent::Below))?;
        nested(&mut map, self.0)?;
        map.end()
    }
}

fn nested<M: SerializeMap>(map: &mut M, report: &Report) -> Result<(), M::Error> {
    if cake::tins(report).is_empty() && !report.classes.is_empty() {
        map.serialize_entry("classes", &Each(&report.classes, Within))?;
    }
    if !report.children.is_empty() {
        map.serialize_entry("children", &Each(&report.children, Below))?;
    }
    Ok(())
}

/// A list of reports, each made into something that can be written.
struct Each<'a, T>(&'a [Report], fn(&'a Report) -> T);

impl<T: Serialize> Serialize for Each<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

fn qdisc<M: SerializeMap>(
    map: &mut M,
    report: &Report,
    place: Option<Parent>,
) -> Result<(), M::Error> {
    map.serialize_entry("kind", report.kind)?;
    map.serialize_entry("handle", &handle(report.id))?;
    placed(map, place)?;
    map.serialize_entry("options", &Options(report))?;
    if let Some(common) = &report.common {
        stats(map, report, common)?;
    }
    let layout = Layout::of(report.kind);
    values(
        map,
        report.kind,
        report
            .counters
            .iter()
            .filter(|(name, _)| !layout.moves(name)),
        &Layout::UNKNOWN,
    )?;
    sojourn(map, report)?;
    if report.kind == "cake" {
        map.serialize_entry("tins", &Each(cake::tins(report), Tin))?;
    }
    if report.flows.is_empty() {
        Ok(())
    } else {
        map.serialize_entry("flows", &FlowList(&report.flows))
    }
}

fn class<M: SerializeMap>(
    map: &mut M,
    report: &Report,
    place: Option<Parent>,
) -> Result<(), M::Error> {
    map.serialize_entry("class", report.kind)?;
    map.serialize_entry("handle", &handle(report.id))?;
    placed(map, place)?;
    if let Some(leaf) = report.leaf() {
        map.serialize_entry("leaf", &leaf.to_string())?;
    }
    values(
        map,
        report.kind,
        &report.options,
        Layout::of_class(report.kind),
    )?;
    if report.common.is_some() {
        map.serialize_entry("stats", &ClassStats(report))?;
    }
    values(map, report.kind, &report.counters, &Layout::UNKNOWN)?;
    sojourn(map, report)
}

fn placed<M: SerializeMap>(map: &mut M, place: Option<Parent>) -> Result<(), M::Error> {
    match place {
        Some(Parent::Root) => map.serialize_entry("root", &true),
        Some(Parent::Below(class)) => map.serialize_entry("parent", &class.to_string()),
        None => Ok(()),
    }
}

fn stats<M: SerializeMap>(map: &mut M, report: &Report, common: &Common) -> Result<(), M::Error> {
    map.serialize_entry("bytes", &common.sent_bytes.get())?;
    map.serialize_entry("packets", &common.sent_packets)?;
    map.serialize_entry("drops", &common.drops)?;
    map.serialize_entry("overlimits", &report.overlimits)?;
    map.serialize_entry("requeues", &report.requeues)?;
    map.serialize_entry("backlog", &common.backlog.bytes.get())?;
    map.serialize_entry("qlen", &common.backlog.packets)
}

/// The common counters of a class, which `tc` puts into an object of their own.
struct ClassStats<'a>(&'a Report);

impl Serialize for ClassStats<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(common) = &self.0.common {
            stats(&mut map, self.0, common)?;
        }
        map.end()
    }
}

struct Options<'a>(&'a Report);

impl Serialize for Options<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let layout = Layout::of(self.0.kind);
        values(&mut map, self.0.kind, &self.0.options, layout)?;
        values(
            &mut map,
            self.0.kind,
            self.0
                .counters
                .iter()
                .filter(|(name, _)| layout.moves(name)),
            layout,
        )?;
        cake::defaults(&mut map, self.0)?;
        map.end()
    }
}

/// Parameter and JSON value of a word without value; `None` if it sets the flag of its own name.
fn meaning(kind: &str, word: &'static str) -> Option<(&'static str, Meaning)> {
    match word {
        "noecn" => Some(("ecn", Meaning::Is(false))),
        "nobytemode" => Some(("bytemode", Meaning::Is(false))),
        "no_dq_rate_estimator" => Some(("dq_rate_estimator", Meaning::Is(false))),
        _ if kind == "cake" => cake::meaning(word),
        _ => None,
    }
}

fn values<'a, M: SerializeMap>(
    map: &mut M,
    kind: &str,
    values: impl IntoIterator<Item = &'a (&'static str, Value)>,
    layout: &Layout,
) -> Result<(), M::Error> {
    values
        .into_iter()
        .try_for_each(|(name, value)| match (meaning(kind, name), value) {
            (Some((name, Meaning::Is(on))), Value::Flag(said)) => {
                map.serialize_entry(name, &(on == *said))
            }
            (Some((name, Meaning::Named(word))), Value::Flag(true)) => {
                map.serialize_entry(name, word)
            }
            _ => {
                let layout = layout
                    .parameters()
                    .find(|parameter| parameter.name == *name);
                let shown = layout.map_or(*name, |parameter| parameter.shown);
                match (value, Parts::of(kind, name, value)) {
                    (_, Some(parts)) if parts.is_zero() => Ok(()),
                    (_, Some(parts)) => map.serialize_entry(parts.key(), &parts),
                    (Value::Time(time), None) if layout.is_some_and(|layout| layout.seconds) => {
                        map.serialize_entry(shown, &time.as_secs())
                    }
                    (_, None) => map.serialize_entry(shown, &Json(value)),
                }
            }
        })
}

fn sojourn<M: SerializeMap>(map: &mut M, report: &Report) -> Result<(), M::Error> {
    report.sojourn.as_ref().map_or(Ok(()), |sojourn| {
        map.serialize_entry("sojourn", &Times(sojourn))
    })
}

/// A value in JSON's units.
pub(super) struct Json<'a>(pub(super) &'a Value);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Count(count) | Value::Packets(count) => serializer.serialize_u64(*count),
            Value::Signed(count) => serializer.serialize_i64(*count),
            Value::Size(size) => serializer.serialize_u64(size.get()),
            Value::Time(time) => Micros(*time).serialize(serializer),
            Value::Rate(rate) => serializer.serialize_u64(rate.as_bytes_per_sec()),
            Value::Share(share) => serializer.serialize_f64(*share),
            Value::Flag(set) => serializer.serialize_bool(*set),
            Value::Word(word) => serializer.serialize_str(word),
            Value::List(numbers) => serializer.collect_seq(numbers),
        }
    }
}

/// A time in microseconds: a whole number, as `tc` writes it, unless there are nanoseconds to tell.
pub(super) struct Micros(pub(super) Duration);

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.0.as_micros()) {
            Ok(micros) if self.0.subsec_nanos().is_multiple_of(1_000) => {
                serializer.serialize_u64(micros)
            }
            _ => serializer.serialize_f64(self.0.as_secs_f64() * 1e6),
        }
    }
}

/// Sojourn times: count, last, percentiles and longest in microseconds; `log2_ns` counts packets
/// by ⌊log₂ nanoseconds⌋, up to the last that is not zero.
struct Times<'a>(&'a Sojourn);

impl Serialize for Times<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(sojourn) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("count", &sojourn.count())?;
        map.serialize_entry("last", &Micros(sojourn.last))?;
        for (name, percent) in [("p50", 50), ("p95", 95), ("p99", 99)] {
            map.serialize_entry(name, &Micros(sojourn.percentile(percent)))?;
        }
        map.serialize_entry("max", &Micros(sojourn.max))?;
        map.serialize_entry("log2_ns", &Histogram(&sojourn.histogram))?;
        map.end()
    }
}

struct FlowList<'a>(&'a [Flow]);

impl Serialize for FlowList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(FlowEntry))
    }
}

/// A flow: its hash in hexadecimal, or `others`; what it sent and lost, its sojourn times.
struct FlowEntry<'a>(&'a Flow);

impl Serialize for FlowEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Flow { counts, .. } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("flow", &self.0.name())?;
        map.serialize_entry("bytes", &counts.dequeued.bytes.get())?;
        map.serialize_entry("packets", &counts.dequeued.segments)?;
        map.serialize_entry("drops", &counts.dropped.packets)?;
        map.serialize_entry("sojourn", &Times(&counts.sojourn))?;
        map.end()
    }
}

struct Histogram<'a>(&'a [u64]);

impl Serialize for Histogram<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = self
            .0
            .iter()
            .rposition(|&count| count > 0)
            .map_or(0, |last| last + 1);
        let mut seq = serializer.serialize_seq(Some(used))?;
        self.0[..used]
            .iter()
            .try_for_each(|count| seq.serialize_element(count))?;
        seq.end()
    }
}
