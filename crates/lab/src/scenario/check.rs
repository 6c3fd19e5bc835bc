//! Validation beyond the types: names that must exist, a network that must be a tree, numbers with
//! bounds.

mod air;
mod flows;
mod network;

use tautline_base::Rate;

use super::Variation;
use super::document::{Axis, Document, Tcp};
use super::error::Fault;
use super::names::Names;
use super::node::{Node, Step, listed};
use super::units::{RateValue, Time};
use crate::quantity::STATISTICS;

use Step::{Key, Number};

/// Top-level keys that an axis can set.
pub(super) const VARIABLE: [&str; 8] = [
    "run", "host", "router", "link", "wifi", "lte", "tcp", "flow",
];
/// Most repetitions.
const MOST_REPETITIONS: usize = 10_000;

/// A document beside the values it was read from, which know their places.
struct Subject<'a> {
    root: &'a Node,
    document: &'a Document,
}

impl Subject<'_> {
    /// The error for the value at `path`.
    fn refuse(&self, path: &[Step<'_>], message: impl std::fmt::Display) -> Fault {
        let mut fault = Fault::new(message).at(self.root.place_of(path));
        fault.key = self.root.key_of(path);
        fault
    }

    fn require(
        &self,
        holds: bool,
        path: &[Step<'_>],
        message: impl std::fmt::Display,
    ) -> Result<(), Fault> {
        if holds {
            Ok(())
        } else {
            Err(self.refuse(path, message))
        }
    }

    fn above_zero(&self, rate: Option<RateValue>, path: &[Step<'_>]) -> Result<(), Fault> {
        self.require(
            rate.is_none_or(|RateValue(rate)| rate > Rate::ZERO),
            path,
            "a rate above 0 is wanted, 8bit at least",
        )
    }
}

/// Checks what is to vary: names that can stand in file names and expressions, each once.
pub(super) fn axes(root: &Node, axes: &[Axis]) -> Result<(), Fault> {
    let refuse = |path: &[Step<'_>], message: &str| {
        let mut fault = Fault::new(message).at(root.place_of(path));
        fault.key = root.key_of(path);
        Err(fault)
    };
    for (number, axis) in axes.iter().enumerate() {
        let path = [Key("axis"), Number(number)];
        if !is_name(&axis.name) {
            return refuse(&[path[0], path[1], Key("name")], NAME);
        }
        if axes[..number].iter().any(|other| other.name == axis.name) {
            return refuse(
                &[path[0], path[1], Key("name")],
                "another axis has this name",
            );
        }
        if axis.value.is_empty() {
            return refuse(&path, "an axis needs at least one [[axis.value]]");
        }
        for (value, named) in axis.value.iter().enumerate() {
            let path = [path[0], path[1], Key("value"), Number(value), Key("name")];
            if !is_label(&named.name) {
                return refuse(
                    &path,
                    "a name of letters, digits, `.`, `+` and `-` is wanted: files are named so",
                );
            }
            if axis.value[..value]
                .iter()
                .any(|other| other.name == named.name)
            {
                return refuse(&path, "another value of this axis has this name");
            }
        }
    }
    Ok(())
}

/// Checks one cell's document.
pub(super) fn document(root: &Node, document: &Document) -> Result<(), Fault> {
    let subject = Subject { root, document };
    subject.require(
        is_label(&document.id),
        &[Key("id")],
        "letters, digits, `.`, `+` and `-` are wanted: files are named so",
    )?;
    subject.require(
        !document.title.trim().is_empty(),
        &[Key("title")],
        "a title is wanted",
    )?;
    if document.elsewhere.is_some() {
        let parts = VARIABLE.iter().find(|part| root.get(part).is_some());
        return match parts {
            Some(part) => Err(subject.refuse(
                &[Key(part)],
                "a row that another command shows has nothing to run here",
            )),
            None => Ok(()),
        };
    }
    times(&subject)?;
    network::check(&subject)?;
    air::check(&subject)?;
    tcp(&subject, &document.tcp, &[Key("tcp")])?;
    flows::check(&subject)?;
    numbers(&subject)
}

fn times(subject: &Subject<'_>) -> Result<(), Fault> {
    let Some(run) = &subject.document.run else {
        return Err(subject.refuse(
            &[],
            "the table `run` with `duration` and `warm_up` is missing",
        ));
    };
    let at = |key| [Key("run"), Key(key)];
    let Time(duration) = run.duration;
    subject.require(
        !duration.is_zero(),
        &at("duration"),
        "a time above 0 is wanted",
    )?;
    subject.require(
        run.warm_up.0 < duration,
        &at("warm_up"),
        format_args!("less than the duration, {duration:?}, is wanted"),
    )?;
    let measured = duration.saturating_sub(run.warm_up.0);
    let sample = run.sample.0;
    subject.require(
        !sample.is_zero()
            && sample <= measured
            && duration.as_nanos() / sample.as_nanos() <= 1_000_000,
        &at("sample"),
        format_args!(
            "a time of at most {measured:?}, and at least a millionth of the duration, is wanted"
        ),
    )?;
    subject.require(
        !run.ping_timeout.0.is_zero(),
        &at("ping_timeout"),
        "a time above 0 is wanted",
    )?;
    subject.require(
        (1..=MOST_REPETITIONS).contains(&run.repetitions),
        &at("repetitions"),
        format_args!("a number from 1 to {MOST_REPETITIONS} is wanted"),
    )
}

fn tcp(subject: &Subject<'_>, tcp: &Tcp, path: &[Step<'_>]) -> Result<(), Fault> {
    for (key, percent) in [("pacing_ca", tcp.pacing_ca), ("pacing_ss", tcp.pacing_ss)] {
        let path = [path, &[Key(key)]].concat();
        subject.require(
            percent.is_none_or(|p| (1..=10_000).contains(&p)),
            &path,
            "percent, from 1 to 10000, are wanted",
        )?;
    }
    for (key, size) in [
        ("send_buffer", tcp.send_buffer),
        ("receive_buffer", tcp.receive_buffer),
        ("receive_start", tcp.receive_start),
    ] {
        let path = [path, &[Key(key)]].concat();
        subject.require(
            size.is_none_or(|size| (2048..=1 << 30).contains(&size.0.get())),
            &path,
            "from 2kib to 1gib is wanted",
        )?;
    }
    Ok(())
}

/// Checks the names of what the table and the figures show: some cell must have each.
pub(super) fn shown(root: &Node, cells: &[Variation]) -> Result<(), Fault> {
    let document = &cells[0].document;
    let subject = Subject { root, document };
    let names: Vec<Names> = cells.iter().map(|cell| Names::of(&cell.document)).collect();
    let some_cell = |check: &dyn Fn(&Names) -> Result<(), String>| {
        let refusals: Result<Vec<_>, ()> = names
            .iter()
            .map(|names| check(names).err().ok_or(()))
            .collect();
        refusals.map_or(Ok(()), |mut all| all.pop().map_or(Ok(()), Err))
    };
    for (number, name) in document.table.iter().enumerate() {
        some_cell(&|names| names.check(name))
            .map_err(|why| subject.refuse(&[Key("table"), Number(number)], why))?;
    }
    for (number, figure) in document.figure.iter().enumerate() {
        for (entry, name) in figure.show.iter().enumerate() {
            let path = [Key("figure"), Number(number), Key("show"), Number(entry)];
            some_cell(&|names| names.suit_figure(figure.kind, name))
                .map_err(|why| subject.refuse(&path, why))?;
        }
    }
    Ok(())
}

/// Names of numbers in analyses of variance.
fn numbers(subject: &Subject<'_>) -> Result<(), Fault> {
    let document = subject.document;
    let names = Names::of(document);
    for (number, anova) in document.anova.iter().enumerate() {
        let at = |key| [Key("anova"), Number(number), Key(key)];
        // A quantity alone means its single values.
        let metric: Vec<String> = anova.metric.split('.').map(str::to_owned).collect();
        names
            .suit(&metric)
            .map_err(|why| subject.refuse(&at("metric"), why))?;
        let known = document.axis.iter().any(|axis| axis.name == anova.over);
        let axes = listed(document.axis.iter().map(|axis| &axis.name));
        subject.require(
            known,
            &at("over"),
            format_args!("no axis is named `{}`; axes: {axes}", anova.over),
        )?;
        subject.require(
            anova.alpha > 0.0 && anova.alpha < 1.0,
            &at("alpha"),
            "a probability between 0 and 1 is wanted",
        )?;
    }
    for (number, shape) in document.shape.iter().enumerate() {
        let at = |key| [Key("shape"), Number(number), Key(key)];
        subject.require(
            !shape.says.trim().is_empty(),
            &at("says"),
            "the shape in words is wanted",
        )?;
    }
    figures(subject)
}

/// Axes and quantities that figures name.
fn figures(subject: &Subject<'_>) -> Result<(), Fault> {
    let document = subject.document;
    let axes: Vec<String> = document.axis.iter().map(|axis| axis.name.clone()).collect();
    for (number, figure) in document.figure.iter().enumerate() {
        let path = [Key("figure"), Number(number)];
        figure
            .check(&axes)
            .map_err(|why| subject.refuse(&path, why))?;
        for (name, value) in &figure.only {
            let values: Vec<&String> = document
                .axis
                .iter()
                .filter(|axis| axis.name == *name)
                .flat_map(|axis| &axis.value)
                .map(|value| &value.name)
                .collect();
            let path = [path[0], path[1], Key("where"), Key(name)];
            subject.require(
                values.contains(&value),
                &path,
                format_args!("`{name}` has the values {}", listed(&values)),
            )?;
        }
    }
    Ok(())
}

/// Rule for names of nodes, flows and axes. `-`, `.` and `>` join names.
const NAME: &str = "a name of letters, digits and `_` is wanted, which begins with a letter";

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether `name` can be part of a file name, joined by `_`.
fn is_label(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(allowed)
        && name.len() <= 64
}

/// A name of a flow or node, which must not be that of a statistic: both stand in the same place in
/// a number's name.
fn check_name(subject: &Subject<'_>, name: &str, path: &[Step<'_>]) -> Result<(), Fault> {
    subject.require(is_name(name), path, NAME)?;
    let taken = STATISTICS.contains(&name);
    subject.require(
        !taken,
        path,
        format_args!(
            "`{name}` is the name of a statistic ({})",
            listed(STATISTICS)
        ),
    )
}
