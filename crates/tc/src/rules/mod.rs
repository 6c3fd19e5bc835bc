//! Filters in `tc`'s words: `protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:10`.

mod action;
mod flower;
mod selector;
#[cfg(test)]
mod tests;

use alloc::string::ToString;
use alloc::vec;
use core::fmt;

use tautline_qdisc::filter::{
    Filter, Filters, Keys, Masked, Matcher, Protocol, RuleStats, Selector, Table,
};

use crate::discipline::Inspect;
use crate::report::{Report, Value};
use crate::words::{NUMBER, ParseError, Problem, Word, Words};

const KINDS: &str = "matchall, fw, u32 or flower";
const COMMON_HELP: &str = "classid CLASS, action ACTION";

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
        if set(&mut rule, option, words)? {
            continue;
        }
        let (kind, help) = match kind.text {
            "u32" => ("u32", selector::HELP),
            "flower" => ("flower", flower::HELP),
            "fw" => ("fw", COMMON_HELP),
            _ => ("matchall", COMMON_HELP),
        };
        let problem = Problem::UnknownOption {
            kind,
            word: option.text.into(),
            help,
        };
        return Err(ParseError {
            at: option.span(),
            problem,
        });
    }
    if let (Matcher::U32(_), Some(handle)) = (&rule.matcher, handle) {
        let problem = Problem::MissingValue {
            option: "handle".into(),
            expected: "divisor DIVISOR: only tables take it",
        };
        return Err(ParseError {
            at: handle.span(),
            problem,
        });
    }
    Ok(rule)
}

/// Reads protocol and preference into `rule`; returns the words for its kind and its handle.
fn read_head<'a>(
    rule: &mut Filter,
    words: &mut Words<'a>,
) -> Result<(Word<'a>, Option<Word<'a>>), ParseError> {
    let mut handle = None;
    loop {
        let end = words.here();
        let missing = Problem::MissingValue {
            option: "filter".into(),
            expected: KINDS,
        };
        let word = words.word().ok_or(ParseError {
            at: end,
            problem: missing,
        })?;
        match word.text {
            "protocol" => {
                rule.protocol = words.value(
                    word,
                    Protocol::parse,
                    "a protocol, e.g. all, ip, ipv6, 0x88cc",
                )?
            }
            "prio" | "pref" | "preference" | "priority" => {
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
    match option.text {
        "flowid" | "classid" => {
            rule.class =
                Some(words.value(option, |text| text.parse().ok(), "a class, e.g. 1:10")?)
        }
        "action" => rule.actions.push(action::read(words)?),
        "police" => rule.actions.push(action::police(option, words)?),
        text => {
            return match &mut rule.matcher {
                Matcher::Flower(keys) => flower::set(keys, option, words),
                Matcher::Table(own) if text == "divisor" => {
                    own.divisor = words.value(option, |text| text.parse().ok(), NUMBER)?;
                    Ok(true)
                }
                // A handle was given as if for a table, but no divisor follows.
                Matcher::Table(_) => {
                    rule.matcher = Matcher::U32(Selector::default());
                    set(rule, option, words)
                }
                Matcher::U32(selector) => selector::set(selector, option, words),
                _ => Ok(false),
            };
        }
    }
    Ok(true)
}

/// The matcher of `kind`, as yet without conditions.
fn matcher(kind: Word<'_>, handle: Option<Word<'_>>) -> Result<Matcher, ParseError> {
    let bad = |word: Word<'_>, expected| {
        let problem = Problem::BadValue {
            option: "handle".into(),
            word: word.text.into(),
            expected,
        };
        ParseError {
            at: word.span(),
            problem,
        }
    };
    match (kind.text, handle) {
        ("fw", Some(word)) => {
            let mark = Masked::parse(word.text, u32::MAX)
                .ok_or_else(|| bad(word, "a mark, e.g. 6 or 0x10/0xf0"))?;
            Ok(Matcher::Mark(mark))
        }
        ("fw", None) => {
            let problem = Problem::MissingBefore {
                option: "fw".into(),
                needed: "handle MARK",
            };
            Err(ParseError {
                at: kind.span(),
                problem,
            })
        }
        ("u32", Some(word)) => {
            let handle = selector::table(word.text)
                .ok_or_else(|| bad(word, "the name of a table, e.g. 1:"))?;
            Ok(Matcher::Table(Table { handle, divisor: 1 }))
        }
        ("u32", None) => Ok(Matcher::U32(Selector::default())),
        ("matchall" | "flower", Some(word)) => {
            Err(bad(word, "no handle: only fw and u32 take one"))
        }
        ("matchall", None) => Ok(Matcher::All),
        ("flower", None) => Ok(Matcher::Flower(Keys::default())),
        _ => {
            let problem = Problem::BadValue {
                option: "filter".into(),
                word: kind.text.into(),
                expected: KINDS,
            };
            Err(ParseError {
                at: kind.span(),
                problem,
            })
        }
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
                flower::write(f, keys)?;
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
