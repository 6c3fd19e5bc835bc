//! [`Cursor`]: a position in a script's text.

use std::time::Duration;

use super::ParseError;

/// A time in a script is shorter than so many seconds, eleven days: their sums stay within a `Duration`.
const LONGEST: u64 = 1_000_000;

/// A position in the text of a script.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn error(&self, why: impl Into<String>) -> ParseError {
        ParseError {
            line: self.line_number(),
            why: why.into(),
        }
    }

    pub(super) fn line_number(&self) -> usize {
        self.text[..self.at].matches('\n').count() + 1
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn starts_with(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Passes white space and comments.
    pub(super) fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            let comment = match trimmed {
                text if text.starts_with("//") || text.starts_with('#') => text.find('\n'),
                text if text.starts_with("/*") => text.find("*/").map(|end| end + 2),
                _ => return,
            };
            self.at += comment.unwrap_or(trimmed.len());
        }
    }

    /// Passes spaces, not ends of lines.
    pub(super) fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
    }

    /// Takes `token` after spaces, if it is next.
    pub(super) fn take(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = self.starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Takes `token`, which must be next.
    pub(super) fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        if self.take(token) {
            return Ok(());
        }
        let found: String = self
            .rest()
            .chars()
            .take_while(|c| *c != '\n')
            .take(20)
            .collect();
        Err(self.error(format!("expected `{token}`, found `{found}`")))
    }

    /// Takes characters after spaces for as long as they are `wanted`.
    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        self.skip_spaces();
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A word of letters, digits and underscores.
    pub(super) fn word(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// The rest of the line.
    pub(super) fn line(&mut self) -> &'a str {
        self.take_while(|c| c != '\n')
    }

    /// The text between two marks, over several lines if need be.
    pub(super) fn between(&mut self, open: &str, close: &str) -> Result<String, ParseError> {
        self.expect(open)?;
        let Some(end) = self.rest().find(close) else {
            return Err(self.error(format!("`{open}` lacks its `{close}`")));
        };
        let inside = self.rest()[..end].to_owned();
        self.at += end + close.len();
        Ok(inside)
    }

    /// An integer in decimal or hexadecimal, with its sign.
    pub(super) fn integer(&mut self) -> Result<i64, ParseError> {
        let negative = self.take("-");
        let word = self.word();
        let digits = word.strip_prefix("0x");
        let value = match digits {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        match value {
            Ok(value) => Ok(if negative { -value } else { value }),
            Err(_) => Err(self.error(format!("`{word}` is not a number"))),
        }
    }

    /// A number that fits `T`.
    pub(super) fn number<T: TryFrom<i64>>(&mut self) -> Result<T, ParseError> {
        let value = self.integer()?;
        T::try_from(value).map_err(|_| self.error(format!("{value} is out of range")))
    }

    /// Seconds with a fraction, less than [`LONGEST`].
    pub(super) fn seconds(&mut self) -> Result<Duration, ParseError> {
        self.skip_spaces();
        let rest = self.rest();
        let mut end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        // `0.1...0.2` is a number and an ellipsis.
        if let Some(ellipsis) = rest[..end].find("...") {
            end = ellipsis;
        }
        let text = &rest[..end];
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| {
            if text.is_empty() {
                Ok(0)
            } else {
                text.parse::<u64>()
            }
        };
        let nanos = digits(&format!("{fraction:0<9}"));
        match (digits(whole), nanos) {
            (Ok(LONGEST..), Ok(_)) => Err(self.error(format!(
                "{text} s is too long a time: less than {LONGEST} s"
            ))),
            (Ok(whole), Ok(nanos)) if !text.is_empty() && fraction.len() <= 9 => {
                self.at += end;
                Ok(Duration::from_secs(whole) + Duration::from_nanos(nanos))
            }
            _ => {
                let found: String = rest.chars().take_while(|c| *c != '\n').take(20).collect();
                Err(self.error(format!("expected a time, found `{found}`")))
            }
        }
    }
}
