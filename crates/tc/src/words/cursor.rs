//! [`Words`] and [`Word`]: the words of one command, each with its place in the text, so that an
//! error can point at it.

use alloc::string::String;
use core::ops::Range;

use tautline_base::ConfigError;
use tautline_qdisc::{ClassId, units};

use super::error::{Expected, ParseError, Problem};
use super::parameter::{Options, Syntax};

/// A word and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word.
    pub text: &'a str,
    /// Byte offset of its first letter in the whole text.
    pub at: usize,
}

impl Word<'_> {
    /// The bytes of the text it covers.
    pub fn span(&self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    /// The error that `problem` is with this word.
    pub(crate) fn error(&self, problem: Problem) -> ParseError {
        ParseError {
            at: self.span(),
            problem,
        }
    }

    /// The error for this word in the place of `expected`.
    pub(crate) fn misplaced(&self, expected: &'static str) -> ParseError {
        self.error(Problem::Misplaced {
            word: self.text.into(),
            expected,
        })
    }

    /// The error that this word is no value of `option`.
    pub(crate) fn bad_value(&self, option: &str, expected: impl Into<Expected>) -> ParseError {
        self.error(Problem::BadValue {
            option: option.into(),
            word: self.text.into(),
            expected: expected.into(),
        })
    }

    /// The error that this option lacks a value, or something else that belongs to it.
    pub(crate) fn lacks(&self, expected: impl Into<Expected>) -> ParseError {
        self.error(Problem::MissingValue {
            option: self.text.into(),
            expected: expected.into(),
        })
    }

    /// The error that this option makes sense only after `needed`.
    pub(crate) fn needs(&self, needed: &'static str) -> ParseError {
        self.error(Problem::MissingBefore {
            option: self.text.into(),
            needed,
        })
    }

    /// The error that the tree has no `class`, which this word names.
    pub(crate) fn no_class(&self, class: ClassId) -> ParseError {
        self.error(Problem::NoClass {
            kind: "the tree",
            class,
        })
    }
}

/// The words of one command that are not yet read.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    text: &'a str,
    start: usize,
    at: usize,
    end: usize,
}

/// Other words for the same parameter, as `tc` has them: a refusal names the first.
const ALIASES: [(&str, &[&str]); 4] = [
    ("burst", &["buffer", "maxburst"]),
    ("cburst", &["cbuffer"]),
    ("limit", &["latency"]),
    ("mtu", &["minburst"]),
];

impl<'a> Words<'a> {
    /// The words of `text`, one command.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            start: 0,
            at: 0,
            end: text.len(),
        }
    }

    /// The commands of `text`: separated by line ends or semicolons, empty ones left out, comments
    /// (`#` to the end of the line) too.
    pub fn commands(text: &'a str) -> impl Iterator<Item = Self> {
        let mut start = 0;
        text.split_inclusive('\n')
            .flat_map(move |line| {
                let line_start = start;
                start += line.len();
                let code = line.split('#').next().unwrap_or_default();
                let mut at = line_start;
                code.split(';').map(move |part| {
                    let words = Self {
                        text,
                        start: at,
                        at,
                        end: at + part.len(),
                    };
                    at += part.len() + 1;
                    words
                })
            })
            .filter(|words| words.peek().is_some())
    }

    /// Takes the next word.
    pub fn word(&mut self) -> Option<Word<'a>> {
        let rest = self.text.get(self.at..self.end)?;
        let skipped = rest.len() - rest.trim_start().len();
        let text = rest.split_whitespace().next()?;
        let at = self.at + skipped;
        self.at = at + text.len();
        Some(Word { text, at })
    }

    /// The next word, left in place.
    pub fn peek(&self) -> Option<Word<'a>> {
        self.clone().word()
    }

    /// Position of the next word: for errors about what is missing.
    pub fn here(&self) -> Range<usize> {
        self.peek().map_or(self.end..self.end, |word| word.span())
    }

    /// The words of this command before `option`.
    pub(crate) fn before(&self, option: Word<'_>) -> impl Iterator<Item = Word<'a>> {
        let mut words = Self {
            at: self.start,
            end: option.at,
            ..*self
        };
        core::iter::from_fn(move || words.word())
    }

    /// The number of the line in which this command begins, from 1.
    pub(crate) fn line(&self) -> usize {
        let before = &self.text[..self.command().start];
        1 + before.matches(['\n', CONTINUED]).count()
    }

    /// The range of this command, from its first word to its last, read or not.
    pub fn command(&self) -> Range<usize> {
        let command = &self.text[self.start..self.end];
        let start = self.start + (command.len() - command.trim_start().len());
        start..start + command.trim().len()
    }

    /// The error for this command, pointing at the value that `error` names, or at the whole
    /// command if no word of it set that parameter.
    pub fn refused(&self, kind: &'static str, error: ConfigError) -> ParseError {
        let at = self
            .place_of(error.parameter)
            .unwrap_or_else(|| self.command());
        ParseError::refused(kind, at, error)
    }

    /// Points a refusal at the value it is about, among the words of this command.
    pub(crate) fn locate(&self, error: ParseError) -> ParseError {
        match error.problem {
            Problem::Refused { kind, error } => self.refused(kind, error),
            _ => error,
        }
    }

    /// The position of the value of `parameter`, or of the parameter itself if it takes no value.
    fn place_of(&self, parameter: &str) -> Option<Range<usize>> {
        let aliases = ALIASES
            .iter()
            .find(|(name, _)| *name == parameter)
            .map_or(&[][..], |(_, aliases)| aliases);
        let (mut words, mut place) = (
            Self {
                at: self.start,
                ..*self
            },
            None,
        );
        while let Some(word) = words.word() {
            let shortened = place.is_none() && parameter.starts_with(word.text);
            if shortened || word.text == parameter || aliases.contains(&word.text) {
                let value = words
                    .peek()
                    .filter(|value| value.text.contains(|c: char| c.is_ascii_digit()));
                place = Some(value.unwrap_or(word).span());
            }
        }
        place
    }

    /// Takes the next word if it is `expected`.
    pub fn accept(&mut self, expected: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.text == expected);
        if found {
            self.word();
        }
        found
    }

    /// Takes the next word if it is a zero without a unit.
    pub(crate) fn accept_zero(&mut self) -> bool {
        let zero = |text: &str| units::parse_c_integer(text).filter(|&number| number == 0);
        self.optional(zero).is_some()
    }

    /// Reads the value of `option`; `expected` says what it should be: `a time, e.g. 5ms`.
    pub(crate) fn value<T>(
        &mut self,
        option: Word<'_>,
        parse: impl FnOnce(&str) -> Option<T>,
        expected: impl Into<Expected>,
    ) -> Result<T, ParseError> {
        match self.word() {
            None => Err(option.lacks(expected)),
            Some(word) => parse(word.text).ok_or_else(|| word.bad_value(option.text, expected)),
        }
    }

    /// Reads the value of `option` as `syntax` says.
    pub(crate) fn read<T>(
        &mut self,
        option: Word<'_>,
        syntax: &Syntax<T>,
    ) -> Result<T, ParseError> {
        self.value(option, syntax.parse, syntax.expected)
    }

    /// Takes the next word if it can be read as the value that may stand there.
    pub(crate) fn optional<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = parse(self.peek()?.text)?;
        self.word();
        Some(value)
    }

    /// Reads the value that may follow those of `option`: it does if the next word begins as a number
    /// (`NEXT_IS_NUMBER` in iproute2).
    pub(crate) fn further<T>(
        &mut self,
        option: Word<'_>,
        parse: impl FnOnce(&str) -> Option<T>,
        expected: impl Into<Expected>,
    ) -> Result<Option<T>, ParseError> {
        let begins = |word: Word<'_>| {
            word.text
                .starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
        };
        let follows = self.peek().is_some_and(begins);
        follows
            .then(|| self.value(option, parse, expected))
            .transpose()
    }

    /// The error that this command lacks `expected`.
    pub(crate) fn missing(&self, expected: &'static str) -> ParseError {
        ParseError {
            at: self.command(),
            problem: Problem::Missing { expected },
        }
    }

    /// Reads options up to the first other word.
    pub(crate) fn apply_known(&mut self, options: &mut dyn Options) -> Result<(), ParseError> {
        let mut ahead = self.clone();
        while let Some(option) = ahead.word()
            && options.set(option, &mut ahead)?
        {
            *self = ahead.clone();
        }
        Ok(())
    }

    /// Reads options until the words end, and [completes](Options::complete) them.
    pub(crate) fn apply(&mut self, options: &mut dyn Options) -> Result<(), ParseError> {
        while let Some(option) = self.word() {
            if !options.set(option, self)? {
                return Err(option.error(Problem::UnknownOption {
                    kind: options.kind(),
                    word: option.text.into(),
                    usage: options.usage(),
                }));
            }
        }
        options.complete();
        Ok(())
    }
}

/// Reads the name of a class or a qdisc. Both numbers are hexadecimal and may begin with `0x`, as
/// `strtoul` takes them (`get_tc_classid` in iproute2).
pub(crate) fn parse_class(text: &str) -> Option<ClassId> {
    let (major, minor) = text.split_once(':')?;
    let plain = |number| match str::strip_prefix(number, "0x") {
        Some("") => None,
        digits => Some(digits.unwrap_or(number)),
    };
    [plain(major)?, plain(minor)?].join(":").parse().ok()
}

/// Whitespace that stands for the end of a line that is put together with the next.
const CONTINUED: char = '\u{b}';

/// Puts lines that end in a backslash together with the next; every word stays where it is.
pub(crate) fn joined(text: &str) -> String {
    text.replace("\\\r\n", "  \u{b}").replace("\\\n", " \u{b}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn words_know_their_place() {
        let text = &joined(
            "  htb default\\\n 12\n# a comment\nclass  classid 1:1; qdisc pfifo ;;\n\ttail # more",
        );
        let commands: Vec<Vec<Word<'_>>> = Words::commands(text)
            .map(|mut words| std::iter::from_fn(|| words.word()).collect())
            .collect();
        let plain: Vec<Vec<&str>> = commands
            .iter()
            .map(|words| words.iter().map(|word| word.text).collect())
            .collect();
        assert_eq!(
            plain,
            [
                vec!["htb", "default", "12"],
                vec!["class", "classid", "1:1"],
                vec!["qdisc", "pfifo"],
                vec!["tail"]
            ]
        );
        for word in commands.iter().flatten() {
            assert_eq!(&text[word.span()], word.text);
        }
    }

    #[test]
    fn numbers_of_classes_may_begin_with_0x() {
        let class = |major, minor| Some(ClassId::new(major, minor));
        for (text, expected) in [
            ("1:10", class(1, 0x10)),
            ("0x1:0x10", class(1, 0x10)),
            ("0xffff:", class(0xffff, 0)),
            (":0xa", class(0, 0xa)),
            ("0x:1", None),
            ("1:0x0x1", None),
            ("1:0x10000", None),
            ("0x1", None),
        ] {
            assert_eq!(parse_class(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_missing_has_a_place_too() {
        let mut words = Words::new("limit ");
        let option = words.word().expect("a word");
        assert_eq!(words.here(), 6..6);
        let error = words
            .value(option, |text| text.parse::<u32>().ok(), "a number")
            .expect_err("no value");
        assert_eq!(error.at, 0..5);
        assert_eq!(words.command(), 0..5);
        assert!(Words::new("ecn x").accept("ecn") && !Words::new("x ecn").accept("ecn"));
    }

    #[test]
    fn a_refusal_points_at_the_value_it_is_about() {
        let text = "pfifo;  tbf burst 1 rate 1mbit buffer 7 ecn ";
        let mut words = Words::commands(text).nth(1).expect("two commands");
        words.word();
        let place = |parameter| {
            let error = ConfigError {
                parameter,
                value: "7".into(),
                allowed: "more".into(),
            };
            &text[words.refused("tbf", error).at]
        };
        assert_eq!(
            (place("burst"), place("rate"), place("ecn")),
            ("7", "1mbit", "ecn")
        );
        assert_eq!(place("limit"), "tbf burst 1 rate 1mbit buffer 7 ecn");
    }

    #[test]
    fn a_share_of_a_device_is_refused_as_such() {
        let mut words = Words::new("rate 50%");
        let option = words.word().expect("a word");
        let error = words
            .read(option, &crate::words::parameter::RATE)
            .expect_err("no device");
        assert_eq!(error.at, 5..8);
        assert_eq!(
            error.to_string(),
            "`50%` is no value for `rate`: there is no device of which it could be a share; give a rate, e.g. 20mbit, 1gbit"
        );
    }
}
