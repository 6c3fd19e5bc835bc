//! Filters in `tc`'s words: `protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:10`.

mod action;
mod flower;
mod selector;
#[cfg(test)]
mod tests;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use tautline_qdisc::filter::{
    Filter, Filters, Keys, Masked, Matcher, Protocol, RuleStats, Selector, Table,
};
use tautline_qdisc::units;

use crate::discipline::Inspect;
use crate::kind::write_words;
use crate::report::{Report, Value};
use crate::tree::place::filter_word;
use crate::words::parameter::{Parameters, number};
use crate::words::{Expected, Options, ParseError, Problem, Usage, Word, Words, parse_class};

const KINDS: Expected = Expected::OneOf(&["matchall", "fw", "u32", "flower"]);

/// Options of every rule.
const COMMON: [Usage; 3] = [
    Usage {
        words: &["classid", "flowid"],
        values: &["CLASS"],
    },
    Usage {
        words: &["action"],
        values: &["ACTION"],
    },
    Usage {
        words: &["police"],
        values: &["rate RATE burst SIZE"],
    },
];

/// Reads a rule from the words after `tc filter add`, to their end. Skips the words for its
/// parent (`dev eth0 parent 1:`).
///
/// # Errors
/// If a word is unknown, a value is missing or does not fit.
pub fn read_filter(words: &mut Words<'_>) -> Result<Filter, ParseError> {
    let mut rule = Filter::new(Matcher::All, None);
    let (kind, handle) = read_head(&mut rule, words)?;
    rule.matcher = matcher(kind, handle)?;
    while let Some(option) = words.word() {
        if !set(&mut rule, option, words)? {
            return Err(unknown(&rule.matcher, option));
        }
    }
    match (&rule.matcher, handle) {
        (Matcher::U32(_), Some(handle)) => {
            let mut error = Word {
                text: "handle",
                ..handle
            }
            .lacks("divisor DIVISOR: only tables take it");
            error.at = handle.span();
            Err(error)
        }
        _ => Ok(rule),
    }
}

/// A rule with this matcher has no such option.
fn unknown(matcher: &Matcher, option: Word<'_>) -> ParseError {
    let (kind, mut usage) = match matcher {
        Matcher::U32(_) | Matcher::Table(_) => ("u32", Selector::usages()),
        Matcher::Flower(_) => ("flower", Keys::usages()),
        Matcher::Mark(_) => ("fw", Vec::new()),
        _ => ("matchall", Vec::new()),
    };
    if kind == "u32" {
        usage.push(Usage {
            words: &["divisor"],
            values: &["DIVISOR"],
        });
    }
    usage.extend(COMMON);
    option.error(Problem::UnknownOption {
        kind,
        word: option.text.into(),
        usage,
    })
}

/// Reads protocol and preference into `rule`; returns the words for its kind and its handle.
fn read_head<'a>(
    rule: &mut Filter,
    words: &mut Words<'a>,
) -> Result<(Word<'a>, Option<Word<'a>>), ParseError> {
    let mut handle = None;
    loop {
        let end = words.here();
        let word = words.word().ok_or_else(|| ParseError {
            at: end,
            problem: Problem::MissingValue {
                option: "filter".into(),
                expected: KINDS,
            },
        })?;
        match filter_word(word.text) {
            "protocol" => rule.protocol = words.value(word, Protocol::parse, flower::PROTOCOL)?,
            "preference" | "priority" => {
                let positive = |text: &str| text.parse().ok().filter(|preference| *preference > 0);
                rule.preference = Some(words.value(word, positive, "from 1 to 65535")?);
            }
            "handle" => handle = Some(words.word().unwrap_or(word)),
            // `Tree` has read the parent.
            "dev" | "parent" => {
                words.word();
            }
            "root" => {}
            _ => return Ok((word, handle)),
        }
    }
}

fn set(rule: &mut Filter, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
    match (option.text, &mut rule.matcher) {
        ("flowid" | "classid", _) => {
            let class = words.value(option, parse_class, "a class, e.g. 1:10")?;
            rule.class = Some(class);
        }
        ("action", _) => rule.actions.push(action::read(words)?),
        ("police", _) => rule.actions.push(action::read_police(option, words)?),
        ("divisor", Matcher::Table(table)) => table.divisor = words.read(option, &number())?,
        (_, Matcher::Flower(keys)) => return keys.set(option, words),
        (_, Matcher::U32(selector)) => return selector.set(option, words),
        // A handle was given as if for a table, but no divisor follows.
        (_, matcher @ Matcher::Table(_)) => {
            let mut selector = Selector::default();
            let known = selector.set(option, words)?;
            *matcher = Matcher::U32(selector);
            return Ok(known);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The matcher of `kind`, as yet without conditions.
fn matcher(kind: Word<'_>, handle: Option<Word<'_>>) -> Result<Matcher, ParseError> {
    match (kind.text, handle) {
        ("fw", Some(word)) => Masked::parse(
            word.text,
            u32::MAX,
            (units::parse_c_integer, units::parse_c_integer),
        )
        .map(Matcher::Mark)
        .ok_or_else(|| word.bad_value("handle", "a mark, e.g. 6 or 0x10/0xf0")),
        ("fw", None) => Err(kind.needs("handle MARK")),
        ("u32", Some(word)) => selector::table(word.text)
            .map(|handle| Matcher::Table(Table { handle, divisor: 1 }))
            .ok_or_else(|| word.bad_value("handle", "the name of a table, e.g. 1:")),
        ("u32", None) => Ok(Matcher::U32(Selector::default())),
        ("matchall" | "flower", Some(word)) => {
            Err(word.bad_value("handle", "no handle: only fw and u32 take one"))
        }
        ("matchall", None) => Ok(Matcher::All),
        ("flower", None) => Ok(Matcher::Flower(Keys::default())),
        _ => Err(kind.bad_value("filter", KINDS)),
    }
}

/// A rule in `tc`'s words, such that [`read_filter`] reads the same rule back.
#[derive(Clone, Copy, Debug)]
pub struct FilterWords<'a>(pub &'a Filter);

impl fmt::Display for FilterWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filter = self.0;
        write!(f, "protocol {}", filter.protocol)?;
        if let Some(preference) = filter.preference {
            write!(f, " pref {preference}")?;
        }
        #[allow(unreachable_patterns, reason = "reachable from another crate only")]
        match &filter.matcher {
            Matcher::All => f.write_str(" matchall")?,
            Matcher::Mark(mark) => write!(f, " handle {mark} fw")?,
            Matcher::Table(Table { handle, divisor }) => {
                write!(f, " handle {handle:x}: u32 divisor {divisor}")?
            }
            Matcher::U32(selector) => {
                f.write_str(" u32")?;
                selector::write(f, selector)?;
            }
            Matcher::Flower(keys) => {
                f.write_str(" flower")?;
                write_words(f, keys)?;
            }
            // `tc` has no words for it: `read_filter` refuses these.
            other => write!(f, " {other:?}")?,
        }
        if let Some(class) = filter.class {
            write!(f, " flowid {class}")?;
        }
        filter.actions.iter().try_for_each(|action| {
            f.write_str(" ")?;
            action::write(f, action)
        })
    }
}

impl Inspect for Filters {
    /// A child for each rule, in the order they were added: its words, how many packets it was
    /// tried on and how many it matched.
    fn report(&self) -> Report {
        let child = |(filter, stats): (&Filter, RuleStats)| Report {
            kind: "filter",
            id: filter.class,
            options: vec![("rule", Value::word(FilterWords(filter).to_string()))],
            overlimits: stats.exceeded,
            counters: vec![
                ("rule_hit", Value::Count(stats.tried)),
                ("success", Value::Count(stats.hits)),
            ],
            ..Report::default()
        };
        Report {
            kind: "filters",
            children: self.iter().zip(self.stats()).map(child).collect(),
            ..Report::default()
        }
    }
}
