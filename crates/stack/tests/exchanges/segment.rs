//! [`Segment`]: a TCP segment as scripts write it, with numbers relative to the two initial
//! sequence numbers; parsed from text, printed as text, compared.

use std::fmt;

use crate::number::{integer, signed};

pub(crate) const FIN: u16 = 1;
pub(crate) const SYN: u16 = 2;
pub(crate) const RST: u16 = 4;
pub(crate) const ACK: u16 = 16;

/// Letters of the flags, in the order in which they are printed.
const LETTERS: [(char, u16); 9] = [
    ('S', SYN),
    ('F', FIN),
    ('R', RST),
    ('P', 8),
    ('U', 32),
    ('E', 64),
    ('W', 128),
    ('A', 256),
    ('.', ACK),
];

/// Names of the ECN field of an IP header, by its value.
const CODEPOINTS: [&str; 4] = ["not-ect", "ect1", "ect0", "ce"];

/// A TCP segment and the packet it travels in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) flags: u16,
    /// Relative to the sender's initial sequence number: its SYN is 0, its first byte 1.
    pub(crate) seq: i64,
    /// Bytes of payload.
    pub(crate) len: usize,
    /// Relative to the receiver's initial sequence number. Present exactly if the flag is set.
    pub(crate) ack: Option<i64>,
    /// As in the header, unscaled. Arriving without one: the largest. Leaving without one: not
    /// compared.
    pub(crate) window: Option<u16>,
    pub(crate) urgent: u16,
    /// ECN field of the IP header.
    pub(crate) codepoint: u8,
    /// `None`: not compared.
    pub(crate) options: Option<Vec<Choice>>,
    /// Ports, where they are not those of the script's connection.
    pub(crate) from: Option<u16>,
    pub(crate) to: Option<u16>,
    /// The TCP checksum is wrong.
    pub(crate) damaged: bool,
}

/// An option of a TCP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Mss(u16),
    Scale(u8),
    SackOk,
    /// Ranges relative to the initial sequence number of the end they are told.
    Sack(Vec<(i64, i64)>),
    /// Value and echo. The host's are milliseconds since the script began; `None` matches any.
    Stamp(Option<i64>, Option<i64>),
    /// Kind and value.
    Other(u8, Vec<u8>),
}

impl Segment {
    /// Reads `FLAGS SEQ[(LEN)] [ack N] [win N] [urg N] [ECN] [from PORT] [to PORT] [damaged]
    /// [<OPTIONS>]`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (text, options) = match text.split_once('<') {
            None => (text, Some(Vec::new())),
            Some((before, rest)) => {
                let inner = rest
                    .trim()
                    .strip_suffix('>')
                    .ok_or("the options lack their '>'")?;
                (before, parse_options(inner.trim())?)
            }
        };
        let mut words = text.split_whitespace();
        let flags = parse_flags(words.next().ok_or("a segment begins with its flags")?)?;
        let (seq, len) = parse_place(words.next().ok_or("a sequence number follows the flags")?)?;
        let mut segment = Self {
            flags,
            seq,
            len,
            options,
            ..Self::default()
        };
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| format!("'{word}' lacks its number"))
            };
            match word {
                "ack" => segment.ack = Some(signed(value()?)?),
                "win" => segment.window = Some(integer(value()?)?),
                "urg" => segment.urgent = integer(value()?)?,
                "from" => segment.from = Some(integer(value()?)?),
                "to" => segment.to = Some(integer(value()?)?),
                "damaged" => segment.damaged = true,
                word => match CODEPOINTS.iter().position(|name| *name == word) {
                    Some(codepoint) => segment.codepoint = codepoint as u8,
                    None => return Err(format!("'{word}' means nothing in a segment")),
                },
            }
        }
        if segment.ack.is_some() != (flags & ACK != 0) {
            return Err("the flag '.' and an acknowledgment number go together".into());
        }
        Ok(segment)
    }

    /// Why `left`, a segment that left the host, is not what this one, a line of a script, asks
    /// for.
    pub(crate) fn objection(&self, left: &Self) -> Option<&'static str> {
        let differs = [
            (self.flags != left.flags, "other flags"),
            (self.seq != left.seq, "another sequence number"),
            (self.len != left.len, "another length"),
            (self.ack != left.ack, "another acknowledgment number"),
            (
                self.window
                    .is_some_and(|window| Some(window) != left.window),
                "another window",
            ),
            (self.urgent != left.urgent, "another urgent pointer"),
            (self.codepoint != left.codepoint, "another ECN codepoint"),
            ((self.from, self.to) != (left.from, left.to), "other ports"),
            (
                self.options.is_some() && !same_options(self, left),
                "other options",
            ),
        ];
        differs
            .into_iter()
            .find_map(|(differs, what)| differs.then_some(what))
    }
}

/// The same options in any order; a stamp that is not given matches any.
fn same_options(asked: &Segment, left: &Segment) -> bool {
    let (Some(asked), Some(left)) = (&asked.options, &left.options) else {
        return false;
    };
    let matches = |a: &Choice, b: &Choice| match (a, b) {
        (Choice::Stamp(value, echo), Choice::Stamp(left_value, left_echo)) => {
            (value.is_none() || value == left_value) && (echo.is_none() || echo == left_echo)
        }
        _ => a == b,
    };
    asked.len() == left.len() && asked.iter().all(|a| left.iter().any(|b| matches(a, b)))
}

fn parse_flags(text: &str) -> Result<u16, String> {
    if text == "-" {
        return Ok(0);
    }
    let flag = |letter| {
        LETTERS
            .iter()
            .find(|(name, _)| *name == letter)
            .map(|(_, bit)| bit)
    };
    text.chars().try_fold(0, |flags, letter| {
        flag(letter)
            .map(|bit| flags | bit)
            .ok_or_else(|| format!("no flag is called '{letter}'"))
    })
}

/// `SEQ` or `SEQ(LEN)`.
fn parse_place(text: &str) -> Result<(i64, usize), String> {
    match text.split_once('(') {
        None => Ok((signed(text)?, 0)),
        Some((seq, len)) => Ok((
            signed(seq)?,
            integer(len.strip_suffix(')').ok_or("a length lacks its ')'")?)?,
        )),
    }
}

/// `mss N`, `wscale N`, `sackok`, `ts VALUE ECHO`, `sack FROM-TO ...`, `kind N HEX`, separated by
/// commas; `any` alone.
fn parse_options(text: &str) -> Result<Option<Vec<Choice>>, String> {
    if text == "any" {
        return Ok(None);
    }
    text.split(',')
        .map(|option| parse_option(option.trim()))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn parse_option(text: &str) -> Result<Choice, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let stamp = |word: &str| {
        if word == "*" {
            Ok(None)
        } else {
            signed(word).map(Some)
        }
    };
    match words[..] {
        ["mss", value] => Ok(Choice::Mss(integer(value)?)),
        ["wscale", shift] => Ok(Choice::Scale(integer(shift)?)),
        ["sackok"] => Ok(Choice::SackOk),
        ["ts", value, echo] => Ok(Choice::Stamp(stamp(value)?, stamp(echo)?)),
        ["sack", ref blocks @ ..] => blocks
            .iter()
            .map(|block| {
                let (start, end) = block
                    .split_once("..")
                    .ok_or_else(|| format!("'{block}' is no range FROM..TO"))?;
                Ok((signed(start)?, signed(end)?))
            })
            .collect::<Result<_, String>>()
            .map(Choice::Sack),
        ["kind", kind, ref hex @ ..] => {
            let bytes = hex.iter().map(|byte| {
                u8::from_str_radix(byte, 16).map_err(|_| format!("'{byte}' is no hexadecimal byte"))
            });
            Ok(Choice::Other(
                integer(kind)?,
                bytes.collect::<Result<_, _>>()?,
            ))
        }
        _ => Err(format!("'{text}' is no option")),
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.flags == 0 {
            f.write_str("-")?;
        }
        for (letter, bit) in LETTERS {
            if self.flags & bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        write!(f, " {}", self.seq)?;
        if self.len > 0 {
            write!(f, "({})", self.len)?;
        }
        let named = [
            ("ack", self.ack),
            ("win", self.window.map(i64::from)),
            ("from", self.from.map(i64::from)),
            ("to", self.to.map(i64::from)),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                write!(f, " {name} {value}")?;
            }
        }
        if self.urgent > 0 {
            write!(f, " urg {}", self.urgent)?;
        }
        if self.codepoint > 0 {
            write!(f, " {}", CODEPOINTS[usize::from(self.codepoint)])?;
        }
        if self.damaged {
            f.write_str(" damaged")?;
        }
        match &self.options {
            None => f.write_str(" <any>"),
            Some(options) if options.is_empty() => Ok(()),
            Some(options) => {
                let texts: Vec<String> = options.iter().map(ToString::to_string).collect();
                write!(f, " <{}>", texts.join(", "))
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = |value: &Option<i64>| value.map_or("*".to_owned(), |value| value.to_string());
        match self {
            Self::Mss(value) => write!(f, "mss {value}"),
            Self::Scale(shift) => write!(f, "wscale {shift}"),
            Self::SackOk => f.write_str("sackok"),
            Self::Stamp(value, echo) => write!(f, "ts {} {}", stamp(value), stamp(echo)),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks
                    .iter()
                    .try_for_each(|(start, end)| write!(f, " {start}..{end}"))
            }
            Self::Other(kind, value) => {
                write!(f, "kind {kind}")?;
                value.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
        }
    }
}
