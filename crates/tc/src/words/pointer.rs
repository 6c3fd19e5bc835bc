//! [`Pointer`]: shows a [`ParseError`] beneath the words that caused it.

use core::fmt;

use super::error::ParseError;

/// The faulty line, a marker under the words, and the message.
pub(super) struct Pointer<'a> {
    error: &'a ParseError,
    line: &'a str,
    /// Characters before the marker, and its length.
    before: usize,
    marked: usize,
}

impl<'a> Pointer<'a> {
    pub(super) fn new(error: &'a ParseError, text: &'a str) -> Self {
        let [start, end] = [error.at.start, error.at.end].map(|at| letter_at(text, at));
        let from = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let until = text[start..]
            .find('\n')
            .map_or(text.len(), |newline| start + newline);
        let marked = text[start..end.clamp(start, until)].chars().count().max(1);
        Self {
            error,
            line: &text[from..until],
            before: text[from..start].chars().count(),
            marked,
        }
    }
}

/// `at`, rounded down to a character boundary of `text`: the error may belong to another text.
fn letter_at(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A tab or an escape sequence would shift the marker.
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        self.line
            .chars()
            .try_for_each(|letter| write!(f, "{}", plain(letter)))?;
        writeln!(
            f,
            "\n{:before$}{:^<marked$}",
            "",
            "",
            before = self.before,
            marked = self.marked
        )?;
        write!(f, "{}", self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Problem;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn shown(text: &str, at: core::ops::Range<usize>) -> String {
        let error = ParseError {
            at,
            problem: Problem::UnknownOption {
                kind: "k",
                word: "w".into(),
                usage: Vec::new(),
            },
        };
        error.pointing_at(text).to_string()
    }

    #[test]
    fn the_mark_stands_under_the_word() {
        let message = "`w` is no option of k, which takes: nothing";
        for (text, at, line, mark) in [
            ("codel ecm", 6..9, "codel ecm", "      ^^^"),
            ("first\n\tsecond x\nthird", 14..15, " second x", "        ^"),
            ("codel limit", 11..11, "codel limit", "           ^"),
            ("ü ecm", 3..6, "ü ecm", "  ^^^"),
            ("two\nlines", 0..9, "two", "^^^"),
            ("", 0..0, "", "^"),
        ] {
            assert_eq!(shown(text, at), [line, "\n", mark, "\n", message].concat());
        }
    }

    proptest! {
        #[test]
        fn no_place_in_no_text_panics(text in ".*", start in 0..300usize, len in 0..300usize) {
            shown(&text, start..start + len);
        }
    }
}
