//! [`ParseError`]: the offending words of a description of a qdisc, their position and the remedy.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::ops::Range;

use tautline_base::ConfigError;
use tautline_qdisc::ClassId;

use super::pointer::Pointer;

/// Words that do not describe a qdisc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The bytes of the text that are at fault.
    pub at: Range<usize>,
    pub(crate) problem: Problem,
}

/// The reason why words are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The first word is missing or names no kind of qdisc.
    UnknownKind {
        word: String,
        known: Vec<&'static str>,
    },
    UnknownOption {
        kind: &'static str,
        word: String,
        usage: Vec<Usage>,
    },
    /// The last option lacks its value.
    MissingValue { option: String, expected: Expected },
    /// An option's value cannot be read.
    BadValue {
        option: String,
        word: String,
        expected: Expected,
    },
    /// An option makes sense only after another.
    MissingBefore {
        option: String,
        needed: &'static str,
    },
    /// An unexpected word.
    Misplaced {
        word: String,
        expected: &'static str,
    },
    /// A word is missing.
    Missing { expected: &'static str },
    /// A class that is added exists already.
    Exists { class: ClassId },
    /// A class has a qdisc already.
    Occupied { class: ClassId },
    /// More qdiscs are nested than `most`.
    TooDeep { most: usize },
    /// The qdisc has no such class, or is classless.
    NoClass { kind: &'static str, class: ClassId },
    /// The qdisc refuses a value.
    Refused {
        kind: &'static str,
        error: ConfigError,
    },
    /// A problem of the command in this line, which is about `class`.
    InClass {
        class: ClassId,
        line: usize,
        problem: Box<Self>,
    },
}

/// The value that an option expects, as errors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A description: `a time, e.g. 5ms, 500us`.
    Text(&'static str),
    /// A rate. `tc` also takes a percentage of the device's rate; there is no device here.
    Rate,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl From<&'static str> for Expected {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Rate => f.write_str("a rate, e.g. 20mbit, 1gbit"),
            Self::OneOf([words @ .., last]) if !words.is_empty() => {
                write!(f, "{} or {last}", words.join(", "))
            }
            Self::OneOf(words) => f.write_str(&words.join(", ")),
        }
    }
}

/// An option as error messages show it: `burst|buffer|maxburst SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The words for it: different names of the same parameter, or settings of it.
    pub(crate) words: &'static [&'static str],
    /// The values that may follow; empty if it takes none.
    pub(crate) values: &'static [&'static str],
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join("|"))?;
        if self.values.is_empty() {
            return Ok(());
        }
        write!(f, " {}", self.values.join("|"))
    }
}

impl ParseError {
    /// `kind` refuses what the words at `at` ask for.
    pub fn refused(kind: &'static str, at: Range<usize>, error: ConfigError) -> Self {
        Self {
            at,
            problem: Problem::Refused { kind, error },
        }
    }

    /// The same of the command in `line`, which is about `class`.
    pub(crate) fn in_class(self, class: ClassId, line: usize) -> Self {
        Self {
            at: self.at,
            problem: Problem::InClass {
                class,
                line,
                problem: Box::new(self.problem),
            },
        }
    }

    /// Shows the line of `text` that is at fault, a mark under the words, and the message. `text` must be what was parsed.
    ///
    /// ```
    /// let text = "fq_codel limit 7 flows 65537";
    /// let error = tautline_tc::build::<tautline_base::Packet<()>>(text).expect_err("too many");
    /// assert_eq!(error.pointing_at(text).to_string(), "\
    /// fq_codel limit 7 flows 65537
    ///                        ^^^^^
    /// fq_codel: `flows` must be from 1 to 65536, not 65537");
    /// ```
    pub fn pointing_at<'a>(&'a self, text: &'a str) -> impl fmt::Display + 'a {
        Pointer::new(self, text)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind { word, known } => unknown_kind(f, word, known),
            Self::UnknownOption { kind, word, usage } => {
                let intro = format!("`{word}` is no option of {kind}, which takes:");
                if usage.is_empty() {
                    return write!(f, "{intro} nothing");
                }
                write_list(f, intro, usage)?;
                suggest(f, word, usage.iter().flat_map(|usage| usage.words))
            }
            Self::MissingValue { option, expected } => {
                write!(f, "`{option}` lacks its value: {expected}")
            }
            Self::BadValue {
                option,
                word,
                expected,
            } => {
                write!(f, "`{word}` is no value for `{option}`: ")?;
                match expected {
                    Expected::Rate if word.ends_with('%') => {
                        f.write_str("there is no device of which it could be a share; ")?;
                    }
                    _ => {}
                }
                write!(f, "give {expected}")?;
                match expected {
                    Expected::OneOf(words) => suggest(f, word, *words),
                    _ => Ok(()),
                }
            }
            Self::MissingBefore { option, needed } => {
                write!(f, "`{option}` needs `{needed}` before it")
            }
            Self::Misplaced { word, expected } => {
                write!(f, "`{word}` does not fit here: give {expected}")
            }
            Self::Missing { expected } => write!(f, "something is missing: {expected}"),
            Self::Occupied { class } => write!(f, "class {class} has a qdisc already"),
            Self::TooDeep { most } => write!(f, "no more than {most} qdiscs may be nested"),
            Self::NoClass { kind, class } => write!(f, "{kind} has no class {class}"),
            Self::Exists { class } => write!(
                f,
                "class {class} exists already: replace or change sets its parameters"
            ),
            Self::Refused { kind, error } => write!(f, "{kind}: {error}"),
            Self::InClass {
                class,
                line,
                problem,
            } => write!(f, "class {class} in line {line}: {problem}"),
        }
    }
}

/// Writes that `word` names none of the kinds `known`, or that there is no word.
fn unknown_kind(f: &mut fmt::Formatter<'_>, word: &str, known: &[&'static str]) -> fmt::Result {
    let intro = if word.is_empty() {
        "the name of a queueing discipline is missing: choose".into()
    } else {
        format!("`{word}` is no queueing discipline: choose")
    };
    write_list(f, intro, known)?;
    suggest(f, word, known)
}

/// Columns of a line in a list of options.
const COLUMNS: usize = 96;

/// Writes `items` after the words of `line`, on further lines if they do not fit one.
fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    mut line: String,
    items: &[T],
) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        let end = if at + 1 < items.len() { "," } else { "" };
        let item = format!(" {item}{end}");
        // An item longer than a line is broken between its alternatives.
        let pieces = item.splitn(if item.len() > COLUMNS { usize::MAX } else { 1 }, '|');
        for (at, piece) in pieces.enumerate() {
            let bar = if at > 0 { "|" } else { "" };
            if line.len() + bar.len() + piece.len() > COLUMNS {
                writeln!(f, "{line}")?;
                line = String::from(" ");
            }
            line.extend([bar, piece]);
        }
    }
    f.write_str(&line)
}

/// Writes a question for the known word that is closest to `word`, if one is close.
fn suggest<'a>(
    f: &mut fmt::Formatter<'_>,
    word: &str,
    known: impl IntoIterator<Item = &'a &'a str>,
) -> fmt::Result {
    closest(word, known.into_iter().copied())
        .map_or(Ok(()), |name| write!(f, "; did you mean `{name}`?"))
}

impl Error for ParseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem.source()
    }
}

impl Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused { error, .. } => Some(error),
            Self::InClass { problem, .. } => problem.source(),
            _ => None,
        }
    }
}

/// The known word with the fewest edits from `word`, at most a third of its letters.
fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (edits(word, name), name))
        .filter(|(edits, name)| *edits <= name.len().div_ceil(3).min(3) && *edits < name.len())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// Letters to insert, remove or replace to make `from` into `to`.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_word_is_suggested() {
        let known = ["codel", "fq_codel", "fq", "cake"];
        for (word, name) in [
            ("fq_code", Some("fq_codel")),
            ("cak", Some("cake")),
            ("", None),
        ] {
            assert_eq!(closest(word, known.into_iter()), name, "{word}");
        }
        assert_eq!((edits("kitten", "sitting"), edits("", "ab")), (3, 2));
    }
}
