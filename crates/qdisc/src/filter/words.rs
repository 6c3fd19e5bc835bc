//! A rule in `tc`'s words: `protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:10`.

use alloc::vec::Vec;
use core::fmt;

use super::action::Action;
use super::masked::Masked;
use super::protocol::Protocol;
use super::selector::words::{HELP as U32_HELP, table};
use super::selector::{Selector, Table};
use super::{Filter, Matcher, flower};
use crate::words::{NUMBER, ParseError, Problem, Word, Words};

const KINDS: &str = "matchall, fw, u32 or flower";
const COMMON_HELP: &str = "classid CLASS, action ACTION";

impl Filter {
    /// Reads a rule, to the end of `words`: what follows `tc filter add`. Words about where it
    /// stands (`dev eth0 parent 1:`) are passed over.
    ///
    /// # Errors
    /// If a word is unknown, a value is missing or does not fit.
    pub fn from_words(words: &mut Words<'_>) -> Result<Self, ParseError> {
        let (mut preference, mut protocol, mut handle) = (None, Protocol::All, None);
        let kind = loop {
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
                    protocol = words.value(
                        word,
                        Protocol::parse,
                        "a protocol, e.g. all, ip, ipv6, 0x88cc",
                    )?
                }
                "prio" | "pref" | "preference" | "priority" => {
                    let positive =
                        |text: &str| text.parse().ok().filter(|preference| *preference > 0);
                    preference = Some(words.value(word, positive, "from 1 to 65535")?);
                }
                "handle" => handle = Some(words.word().unwrap_or(word)),
                // Where it stands, which `Tree` has read.
                "dev" | "parent" => {
                    words.word();
                }
                "root" => {}
                _ => break word,
            }
        };
        let mut rule = Self {
            preference,
            protocol,
            matcher: matcher(kind, handle)?,
            class: None,
            actions: Vec::new(),
        };
        while let Some(option) = words.word() {
            if rule.set(option, words)? {
                continue;
            }
            let (kind, help) = match rule.matcher {
                Matcher::All => ("matchall", COMMON_HELP),
                Matcher::Mark(_) => ("fw", COMMON_HELP),
                Matcher::Table(_) | Matcher::U32(_) => ("u32", U32_HELP),
                Matcher::Flower(_) => ("flower", flower::HELP),
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

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "flowid" | "classid" => {
                self.class =
                    Some(words.value(option, |text| text.parse().ok(), "a class, e.g. 1:10")?)
            }
            "action" => self.actions.push(Action::from_words(words)?),
            "police" => self.actions.push(Action::police(option, words)?),
            text => {
                return match &mut self.matcher {
                    Matcher::All | Matcher::Mark(_) => Ok(false),
                    Matcher::Flower(keys) => keys.set(option, words),
                    Matcher::Table(own) if text == "divisor" => {
                        own.divisor = words.value(option, |text| text.parse().ok(), NUMBER)?;
                        Ok(true)
                    }
                    // A handle was given as if for a table, but no divisor follows.
                    Matcher::Table(_) => {
                        self.matcher = Matcher::U32(Selector::default());
                        self.set(option, words)
                    }
                    Matcher::U32(selector) => selector.set(option, words),
                };
            }
        }
        Ok(true)
    }
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
            let handle =
                table(word.text).ok_or_else(|| bad(word, "the name of a table, e.g. 1:"))?;
            Ok(Matcher::Table(Table { handle, divisor: 1 }))
        }
        ("u32", None) => Ok(Matcher::U32(Selector::default())),
        ("matchall" | "flower", Some(word)) => {
            Err(bad(word, "no handle: only fw and u32 take one"))
        }
        ("matchall", None) => Ok(Matcher::All),
        ("flower", None) => Ok(Matcher::Flower(flower::Keys::default())),
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

impl fmt::Display for Filter {
    /// In `tc`'s words, such that they are read back as the same rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "protocol {}", self.protocol)?;
        if let Some(preference) = self.preference {
            write!(f, " pref {preference}")?;
        }
        match &self.matcher {
            Matcher::All => f.write_str(" matchall")?,
            Matcher::Mark(mark) => write!(f, " handle {mark} fw")?,
            Matcher::Table(Table { handle, divisor }) => {
                write!(f, " handle {handle:x}: u32 divisor {divisor}")?
            }
            Matcher::U32(selector) => write!(f, " u32{selector}")?,
            Matcher::Flower(keys) => write!(f, " flower{keys}")?,
        }
        if let Some(class) = self.class {
            write!(f, " flowid {class}")?;
        }
        self.actions
            .iter()
            .try_for_each(|action| write!(f, " {action}"))
    }
}
