//! [`Words`] and [`Word`]: the words of one command, each with its place in the text, so that an error can point at it.

use core::ops::Range;

use super::error::{ParseError, Problem};
use super::options::Options;

/// A word and where it stands.
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
}

/// The words of one command that are not yet read.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Words<'a> {
    /// The words of `text`, one command.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, end: text.len() }
    }

    /// The commands of `text`: separated by line ends or semicolons, empty ones left out, comments (`#` to the end of the line)
    /// too.
    pub fn commands(text: &'a str) -> impl Iterator<Item = Self> {
        let mut start = 0;
        text.split_inclusive('\n')
            .flat_map(move |line| {
                let line_start = start;
                start += line.len();
                let code = line.split('#').next().unwrap_or_default();
                let mut at = line_start;
                code.split(';').map(move |part| {
                    let words = Self { text, at, end: at + part.len() };
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

    /// Where the next word would stand: for errors about what is missing.
    pub fn here(&self) -> Range<usize> {
        self.peek().map_or(self.end..self.end, |word| word.span())
    }

    /// Takes the next word if it is `expected`.
    pub fn accept(&mut self, expected: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.text == expected);
        if found {
            self.word();
        }
        found
    }

    /// Reads the value of `option`; `expected` says what it should be: `a time, e.g. 5ms`.
    ///
    /// # Errors
    /// If there is no word, or `parse` cannot read it.
    pub fn value<T>(
        &mut self,
        option: Word<'_>,
        parse: impl FnOnce(&str) -> Option<T>,
        expected: &'static str,
    ) -> Result<T, ParseError> {
        let Some(word) = self.word() else {
            let problem = Problem::MissingValue { option: option.text.into(), expected };
            return Err(ParseError { at: option.span(), problem });
        };
        parse(word.text).ok_or_else(|| {
            let problem = Problem::BadValue { option: option.text.into(), word: word.text.into(), expected };
            ParseError { at: word.span(), problem }
        })
    }

    /// Reads options until the words end.
    ///
    /// # Errors
    /// If a word is no option, or a value does not fit.
    pub fn apply(&mut self, options: &mut dyn Options) -> Result<(), ParseError> {
        while let Some(option) = self.word() {
            if !options.set(option, self)? {
                let problem =
                    Problem::UnknownOption { kind: options.kind(), word: option.text.into(), help: options.help() };
                return Err(ParseError { at: option.span(), problem });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn words_know_their_place() {
        let text = "  htb default 12\n# a comment\nclass  classid 1:1; qdisc pfifo ;;\n\ttail # more";
        let commands: Vec<Vec<Word<'_>>> =
            Words::commands(text).map(|mut words| std::iter::from_fn(|| words.word()).collect()).collect();
        let plain: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(|word| word.text).collect()).collect();
        assert_eq!(
            plain,
            [vec!["htb", "default", "12"], vec!["class", "classid", "1:1"], vec!["qdisc", "pfifo"], vec!["tail"]]
        );
        for word in commands.iter().flatten() {
            assert_eq!(&text[word.span()], word.text);
        }
    }

    #[test]
    fn what_is_missing_has_a_place_too() {
        let mut words = Words::new("limit ");
        let option = words.word().expect("a word");
        assert_eq!(words.here(), 6..6);
        let error = words.value(option, |text| text.parse::<u32>().ok(), "a number").expect_err("no value");
        assert_eq!(error.at, 0..5);
        assert!(Words::new("ecn x").accept("ecn") && !Words::new("x ecn").accept("ecn"));
    }
}
