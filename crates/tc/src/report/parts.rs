//! [`Parts`]: parameters that consist of several, as netem's `delay 20ms 2ms 25%`: in text in a
//! row, in JSON an object.

use alloc::string::String;
use alloc::vec::Vec;

use serde_core::ser::{Serialize, SerializeMap, Serializer};

use super::Value;
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
    /// From which on `tc` prints the names of the parts too.
    named: usize,
}

const fn form(option: &'static str, key: &'static str, parts: &'static [&'static str]) -> Form {
    Form {
        option,
        model: "",
        key,
        parts,
        named: parts.len(),
    }
}

const NETEM: [Form; 9] = [
    form("delay", "delay", &["delay", "jitter", "correlation"]),
    Form {
        model: "gemodel",
        named: 0,
        ..form("loss", "loss-gemodel", &["p", "r", "1-h", "1-k"])
    },
    Form {
        model: "state",
        named: 0,
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
    words: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    /// The parts of `option` of a `kind`; `None` if it has but one.
    pub(super) fn of(kind: &str, option: &str, value: &'a Value) -> Option<Self> {
        let Value::Word(text) = value else {
            return None;
        };
        let forms = if kind == "netem" { &NETEM[..] } else { &[] };
        let mut words = text.split_ascii_whitespace().peekable();
        let first = *words.peek()?;
        let form = forms
            .iter()
            .find(|form| form.option == option && (form.model.is_empty() || form.model == first))?;
        let words = words
            .filter(|word| *word != form.model && !form.parts.contains(word))
            .collect();
        Some(Self { form, words })
    }

    /// Its name in JSON.
    pub(super) fn key(&self) -> &'static str {
        self.form.key
    }

    /// Nothing but zeros, which `tc` does not show.
    pub(super) fn is_zero(&self) -> bool {
        self.words
            .iter()
            .all(|word| number(word) == Some(Number::Real(0.0)))
    }

    /// As `tc` prints it.
    pub(super) fn text(&self) -> String {
        let mut all = Vec::new();
        all.extend((!self.form.model.is_empty()).then_some(self.form.model));
        for (at, (name, word)) in self.form.parts.iter().zip(&self.words).enumerate() {
            all.extend((at >= self.form.named).then_some(*name));
            all.push(word);
        }
        all.join(" ")
    }
}

impl Serialize for Parts<'_> {
    /// Times in seconds, shares of one, rates in bytes per second, as in `tc`; what is not said is
    /// zero.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.form.parts.len()))?;
        let mut words = self.words.iter();
        for name in self.form.parts {
            match words
                .next()
                .map_or(Some(Number::Whole(0)), |word| number(word))
            {
                Some(Number::Whole(number)) => map.serialize_entry(name, &number)?,
                Some(Number::Real(number)) => map.serialize_entry(name, &number)?,
                None => map.serialize_entry(name, &())?,
            }
        }
        map.end()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Whole(u64),
    Real(f64),
}

/// Reads a share, a number, a time or a rate.
fn number(word: &str) -> Option<Number> {
    if let Some(percent) = word.strip_suffix('%') {
        return percent
            .parse::<f64>()
            .ok()
            .map(|percent| Number::Real(percent / 100.0));
    }
    let whole = word.parse().ok().map(Number::Whole);
    let time = || units::parse_time(word).map(|time| Number::Real(time.as_secs_f64()));
    let rate = || units::parse_rate(word).map(|rate| Number::Whole(rate.as_bytes_per_sec()));
    whole.or_else(time).or_else(rate)
}
