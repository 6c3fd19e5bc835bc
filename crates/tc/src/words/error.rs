//! [`ParseError`]: the offending words of a description of a qdisc, their position and the remedy.

use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::ops::Range;

use tautline_base::ConfigError;
use tautline_qdisc::ClassId;

use super::pointer::Pointer;

/// The expected value in errors about a rate.
pub(crate) const RATE: &str = "a rate, e.g. 20mbit, 1gbit";

/// Words that do not describe a qdisc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The bytes of the text that are at fault.
    pub at: Range<usize>,
    /// The reason.
    pub problem: Problem,
}

/// The reason why words are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The first word is missing or names no kind of qdisc.
    UnknownKind {
        /// The word found.
        word: String,
        /// Every kind.
        known: Vec<&'static str>,
    },
    /// The qdisc has no such option.
    UnknownOption {
        /// The kind of the qdisc.
        kind: &'static str,
        /// The word found.
        word: String,
        /// The options it has.
        help: &'static str,
    },
    /// An option stands at the end without its value.
    MissingValue {
        /// The option.
        option: String,
        /// The expected value.
        expected: &'static str,
    },
    /// An option's value cannot be read.
    BadValue {
        /// The option.
        option: String,
        /// The word found.
        word: String,
        /// The expected word or value.
        expected: &'static str,
    },
    /// A rate is a percentage of the link's rate, which `tc` allows; there is no device here.
    DeviceShare {
        /// The option.
        option: String,
        /// The word found.
        word: String,
    },
    /// An option makes sense only after another.
    MissingBefore {
        /// The option.
        option: String,
        /// The one that must precede it.
        needed: &'static str,
    },
    /// A word stands where something else should.
    Misplaced {
        /// The word found.
        word: String,
        /// The expected word or value.
        expected: &'static str,
    },
    /// A word is missing.
    Missing {
        /// The expected word.
        expected: &'static str,
    },
    /// A class has a qdisc already.
    Occupied {
        /// The class.
        class: ClassId,
    },
    /// The tree is too deep.
    TooDeep {
        /// The maximum depth.
        most: usize,
    },
    /// The qdisc has no such class, or is classless.
    NoClass {
        /// The kind of the qdisc.
        kind: &'static str,
        /// The class asked for.
        class: ClassId,
    },
    /// The qdisc refuses a value.
    Refused {
        /// The kind of the qdisc.
        kind: &'static str,
        /// The range it accepts.
        error: ConfigError,
    },
}

impl ParseError {
    /// `kind` refuses what the words at `at` ask for.
    pub fn refused(kind: &'static str, at: Range<usize>, error: ConfigError) -> Self {
        Self {
            at,
            problem: Problem::Refused { kind, error },
        }
    }

    /// Shows the line of `text` that is at fault, a mark under the words, and the message: three
    /// lines. `text` must be what was parsed.
    ///
    /// ```
    /// let text = "fq_codel limit 7 flows 0";
    /// let error = tautline_tc::build::<tautline_base::Packet<()>>(text).err().expect("no flows");
    /// assert_eq!(error.pointing_at(text).to_string(), "\
    /// fq_codel limit 7 flows 0
    ///                        ^
    /// fq_codel: `flows` must be from 1 to 65536, not 0");
    /// ```
    pub fn pointing_at<'a>(&'a self, text: &'a str) -> impl fmt::Display + 'a {
        Pointer::new(self, text)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::UnknownKind { word, known } => {
                write!(
                    f,
                    "`{word}` is no queueing discipline: choose {}",
                    known.join(", ")
                )?;
                closest(word, known.iter().copied())
                    .map_or(Ok(()), |name| write!(f, "; did you mean `{name}`?"))
            }
            Problem::UnknownOption { kind, word, help } => {
                write!(f, "`{word}` is no option of {kind}, which takes: {help}")
            }
            Problem::MissingValue { option, expected } => {
                write!(f, "`{option}` lacks its value: {expected}")
            }
            Problem::BadValue {
                option,
                word,
                expected,
            } => {
                write!(f, "`{word}` is no value for `{option}`: give {expected}")
            }
            Problem::DeviceShare { option, word } => write!(
                f,
                "`{word}` is no value for `{option}`: there is no device of which it could be a share; give {RATE}"
            ),
            Problem::MissingBefore { option, needed } => {
                write!(f, "`{option}` needs `{needed}` before it")
            }
            Problem::Misplaced { word, expected } => {
                write!(f, "`{word}` does not fit here: give {expected}")
            }
            Problem::Missing { expected } => write!(f, "something is missing: {expected}"),
            Problem::Occupied { class } => write!(f, "class {class} has a qdisc already"),
            Problem::TooDeep { most } => write!(f, "no more than {most} qdiscs may be nested"),
            Problem::NoClass { kind, class } => write!(f, "{kind} has no class {class}"),
            Problem::Refused { kind, error } => write!(f, "{kind}: {error}"),
        }
    }
}

impl Error for ParseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.problem {
            Problem::Refused { error, .. } => Some(error),
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
