//! [`Parts`]: parameters that consist of several, as netem's `delay 20ms 2ms 25%`: in text in a
//! row, in JSON an object.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::json::{Fields, Json};
use super::{Value, tc};
use tautline_qdisc::units;

/// The parts of one form of a parameter.
#[derive(Clone, Copy, Debug)]
struct Form {
    option: &'static str,
    /// The word with which this form begins, if there are several.
    model: &'static str,
    /// Its name in `tc`'s JSON.
    key: &'static str,
    /// The parts in order, by their names in JSON.
    parts: &'static [&'static str],
    /// Number of parts from which `tc` prints their names too, and leaves out zeros.
    named: usize,
    /// Words before the first part: of the model, of its distribution.
    before: usize,
}

const fn form(option: &'static str, key: &'static str, parts: &'static [&'static str]) -> Form {
    Form {
        option,
        model: "",
        key,
        parts,
        named: parts.len(),
        before: 0,
    }
}

const NETEM: [Form; 10] = [
    form("delay", "delay", &["delay", "jitter", "correlation"]),
    Form {
        model: "gemodel",
        named: 0,
        before: 1,
        ..form("loss", "loss-gemodel", &["p", "r", "1-h", "1-k"])
    },
    Form {
        model: "state",
        named: 0,
        before: 1,
        ..form("loss", "loss-state", &["p13", "p31", "p32", "p23", "p14"])
    },
    form("loss", "loss-random", &["loss", "correlation"]),
    form("duplicate", "duplicate", &["duplicate", "correlation"]),
    form("reorder", "reorder", &["reorder", "correlation"]),
    form("corrupt", "corrupt", &["corrupt", "correlation"]),
    Form {
        named: 1,
        ..form(
            "rate",
            "rate",
            &["rate", "packetoverhead", "cellsize", "celloverhead"],
        )
    },
    Form {
        model: "distribution",
        named: 2,
        before: 2,
        ..form(
            "slot",
            "slot",
            &["distribution", "jitter", "packets", "bytes"],
        )
    },
    Form {
        named: 2,
        ..form(
            "slot",
            "slot",
            &["min-delay", "max-delay", "packets", "bytes"],
        )
    },
];

/// A parameter taken apart.
pub(super) struct Parts<'a> {
    form: &'static Form,
    /// The parts that are given, by their index in the form.
    given: Vec<(usize, &'a str)>,
}

impl<'a> Parts<'a> {
    /// The parts of `option` of a `kind`; `None` if it has but one.
    pub(super) fn of(kind: &str, option: &str, value: &'a Value) -> Option<Self> {
        let Value::Word(text) = value else {
            return None;
        };
        let forms = if kind == "netem" { &NETEM[..] } else { &[] };
        let first = text.split_ascii_whitespace().next()?;
        let form = forms
            .iter()
            .find(|form| form.option == option && (form.model.is_empty() || form.model == first))?;
        let (mut given, mut next) = (Vec::new(), 0);
        for word in text.split_ascii_whitespace().skip(form.before) {
            // The value of a part that is named stands behind the name, that of another in its place.
            if let Some(at) = form.parts.iter().position(|part| *part == word) {
                next = at;
            } else {
                given.push((next, word));
                next += 1;
            }
        }
        Some(Self { form, given })
    }

    /// Its name in JSON.
    pub(super) fn key(&self) -> &'static str {
        self.form.key
    }

    /// Nothing but zeros, which `tc` does not show.
    pub(super) fn is_zero(&self) -> bool {
        self.given
            .iter()
            .all(|(_, word)| matches!(number(word), Some(Json::Real(0.0))))
    }

    /// As `tc` prints it.
    pub(super) fn text(&self) -> String {
        let Form {
            model,
            parts,
            named,
            ..
        } = self.form;
        let mut all = Vec::new();
        all.extend((!model.is_empty()).then(|| model.to_string()));
        for &(at, word) in &self.given {
            if at >= *named && word == "0" {
                continue;
            }
            all.extend((at >= *named).then(|| parts[at].to_string()));
            all.push(shown(word));
        }
        all.join(" ")
    }

    /// Times in seconds, shares of one, rates in bytes per second, as in `tc`; missing parts are
    /// zero.
    pub(super) fn json(&self) -> Json {
        let part = |(at, name): (usize, &&'static str)| {
            let given = self.given.iter().find(|(given, _)| *given == at);
            let value = given.map_or(Some(Json::Whole(0)), |(_, word)| number(word));
            (*name, value.unwrap_or(Json::Null))
        };
        Json::Object(
            self.form
                .parts
                .iter()
                .enumerate()
                .map(part)
                .collect::<Fields>(),
        )
    }
}

/// A share, a time or a rate to as many digits as `tc` prints; another word as it is.
fn shown(word: &str) -> String {
    let percent = || Some(Value::Share(word.strip_suffix('%')?.parse().ok()?));
    let rate = || units::parse_rate(word.ends_with("bit").then_some(word)?).map(Value::Rate);
    let time = || units::parse_time(word.ends_with('s').then_some(word)?).map(Value::Time);
    if let Some(percent) = percent() {
        return tc::text(&percent) + "%";
    }
    rate()
        .or_else(time)
        .map_or_else(|| word.into(), |value| tc::text(&value))
}

/// Reads a share, a number, a time or a rate.
fn number(word: &str) -> Option<Json> {
    if let Some(percent) = word.strip_suffix('%') {
        return Some(Json::Real(percent.parse::<f64>().ok()? / 100.0));
    }
    let whole = word.parse().ok().map(Json::Whole);
    let time = || units::parse_time(word).map(|time| Json::Real(time.as_secs_f64()));
    let rate = || units::parse_rate(word).map(|rate| Json::Whole(rate.as_bytes_per_sec()));
    whole.or_else(time).or_else(rate)
}
