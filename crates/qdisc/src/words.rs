//! [`build`]: a discipline from words, as one would give them to `tc qdisc add`: `fq_codel limit 10240 target 5ms`.
//!
//! This is the outer seam, for command lines and configuration files. Programs that know what they want construct the type.

pub(crate) mod units;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::str::{FromStr, SplitWhitespace};

use tautline_base::Item;

use crate::codel::{self, CeThreshold, Codel, Law, Params};
use crate::config::ConfigError;
use crate::discipline::DynQdisc;
use crate::fq_codel::{self, BacklogScope, FqCodel};
use crate::pfifo::{self, Pfifo};
use crate::pfifo_fast::{self, PfifoFast};

/// Makes the discipline that `words` describe: its kind, then options and their values.
///
/// ```
/// use tautline_base::Packet;
/// let mut qdisc = tautline_qdisc::build::<Packet<()>>("fq_codel limit 10240 target 5ms")?;
/// assert_eq!(qdisc.report().kind, "fq_codel");
/// # Ok::<(), tautline_qdisc::ParseError>(())
/// ```
///
/// # Errors
/// If a word is unknown, a value is missing or does not fit; the message names the word and says what would be accepted.
pub fn build<P: Item + Send + 'static>(words: &str) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
    words.parse::<Kind>()?.build()
}

/// A kind of discipline with its configuration. Parses from words and prints as the words that describe it in full.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// First in, first out.
    Pfifo(pfifo::Config),
    /// Three priorities.
    PfifoFast(pfifo_fast::Config),
    /// One queue under controlled delay.
    Codel(codel::Config),
    /// Fair queues under controlled delay.
    FqCodel(fq_codel::Config),
}

const KINDS: &str = "pfifo, pfifo_fast, codel or fq_codel";
const CODEL_OPTIONS: &str = "target TIME, interval TIME, mtu SIZE, ecn, noecn, ce_threshold TIME, ce_threshold_selector \
                             VALUE/MASK, law rfc8289|linux, linux (all as Linux does)";

impl Kind {
    /// Makes the discipline.
    ///
    /// # Errors
    /// If a value is outside the range of its parameter.
    pub fn build<P: Item + Send + 'static>(self) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
        let kind = self.name();
        let refused = |error| ParseError::Refused { kind, error };
        Ok(match self {
            Self::Pfifo(config) => Box::new(Pfifo::new(config)),
            Self::PfifoFast(config) => Box::new(PfifoFast::new(config)),
            Self::Codel(config) => Box::new(Codel::new(config).map_err(refused)?),
            Self::FqCodel(config) => Box::new(FqCodel::new(config).map_err(refused)?),
        })
    }

    /// `tc`'s name of the kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pfifo(_) => "pfifo",
            Self::PfifoFast(_) => "pfifo_fast",
            Self::Codel(_) => "codel",
            Self::FqCodel(_) => "fq_codel",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pfifo" => Self::Pfifo(pfifo::Config::default()),
            "pfifo_fast" => Self::PfifoFast(pfifo_fast::Config::default()),
            "codel" => Self::Codel(codel::Config::default()),
            "fq_codel" => Self::FqCodel(fq_codel::Config::default()),
            _ => return None,
        })
    }

    /// Sets one option, taking its value from `words`.
    fn set(&mut self, option: &str, words: &mut Words<'_>) -> Result<(), ParseError> {
        let known = match self {
            Self::Pfifo(pfifo::Config { limit }) | Self::PfifoFast(pfifo_fast::Config { limit }) => {
                set_limit(limit, option, words)?
            }
            Self::Codel(config) => set_codel(config, option, words)?,
            Self::FqCodel(config) => set_fq_codel(config, option, words)?,
        };
        if known { Ok(()) } else { Err(ParseError::UnknownOption { kind: self.name(), word: option.to_string() }) }
    }
}

impl FromStr for Kind {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut words = Words(text.split_whitespace());
        let name = words.0.next().unwrap_or_default();
        let mut kind = Self::named(name).ok_or_else(|| ParseError::UnknownKind { word: name.to_string() })?;
        while let Some(option) = words.0.next() {
            kind.set(option, &mut words)?;
        }
        Ok(kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let options: Vec<(&str, String)> = match self {
            Self::Pfifo(config) => config.options(),
            Self::PfifoFast(config) => config.options(),
            Self::Codel(config) => config.options(),
            Self::FqCodel(config) => config.options(),
        };
        options.iter().try_for_each(|(name, value)| {
            write!(f, " {name}")?;
            if value.is_empty() { Ok(()) } else { write!(f, " {value}") }
        })
    }
}

fn set_limit(limit: &mut u32, option: &str, words: &mut Words<'_>) -> Result<bool, ParseError> {
    if option == "limit" {
        *limit = words.value(option, units::parse_packets, PACKETS)?;
    }
    Ok(option == "limit")
}

fn set_codel(config: &mut codel::Config, option: &str, words: &mut Words<'_>) -> Result<bool, ParseError> {
    if option == "linux" {
        *config = codel::Config { limit: config.limit, ..codel::Config::linux() };
        return Ok(true);
    }
    Ok(set_limit(&mut config.limit, option, words)? || set_params(&mut config.codel, option, words)?)
}

fn set_fq_codel(config: &mut fq_codel::Config, option: &str, words: &mut Words<'_>) -> Result<bool, ParseError> {
    let fq_codel::Config { limit, flows, quantum, memory_limit, drop_batch, codel, backlog, perturbation } = config;
    match option {
        "limit" => *limit = words.value(option, units::parse_packets, PACKETS)?,
        "flows" => *flows = words.value(option, |text| text.parse().ok(), "a whole number, e.g. 1024")?,
        "quantum" => *quantum = words.value(option, units::parse_size, SIZE)?,
        "memory_limit" => *memory_limit = words.value(option, units::parse_size, SIZE)?,
        "drop_batch" => *drop_batch = words.value(option, |text| text.parse().ok(), "a whole number, e.g. 64")?,
        "backlog" => *backlog = words.value(option, parse_scope, "queue or qdisc")?,
        "perturbation" => *perturbation = words.value(option, units::parse_integer, "a whole number, e.g. 0x2a")?,
        "linux" => (codel.law, *backlog) = (Law::Linux, BacklogScope::Qdisc),
        _ => return set_params(codel, option, words),
    }
    Ok(true)
}

fn set_params(params: &mut Params, option: &str, words: &mut Words<'_>) -> Result<bool, ParseError> {
    match option {
        "target" => params.target = words.value(option, units::parse_time, TIME)?,
        "interval" => params.interval = words.value(option, units::parse_time, TIME)?,
        "mtu" => params.mtu = words.value(option, units::parse_size, SIZE)?,
        "law" => params.law = words.value(option, parse_law, "rfc8289 or linux")?,
        "ecn" => params.ecn = true,
        "noecn" => params.ecn = false,
        "ce_threshold" => {
            params.ce_threshold = Some(CeThreshold::all(words.value(option, units::parse_time, TIME)?));
        }
        "ce_threshold_selector" => {
            let (selector, mask) = words.value(option, parse_selector, "VALUE/MASK, e.g. 0x1/0x3")?;
            let threshold = params
                .ce_threshold
                .as_mut()
                .ok_or_else(|| ParseError::MissingBefore { option: option.to_string(), needed: "ce_threshold" })?;
            (threshold.selector, threshold.mask) = (selector, mask);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn parse_scope(text: &str) -> Option<BacklogScope> {
    [BacklogScope::Queue, BacklogScope::Qdisc].into_iter().find(|scope| scope.to_string() == text)
}

fn parse_law(text: &str) -> Option<Law> {
    [Law::Rfc8289, Law::Linux].into_iter().find(|law| law.to_string() == text)
}

fn parse_selector(text: &str) -> Option<(u8, u8)> {
    let (selector, mask) = text.split_once('/')?;
    let byte = |text| u8::try_from(units::parse_integer(text)?).ok();
    Some((byte(selector)?, byte(mask)?))
}

const PACKETS: &str = "a number of packets, e.g. 1000 or 1000p";
const SIZE: &str = "a size, e.g. 1514, 32Mb";
const TIME: &str = "a time, e.g. 5ms, 500us";

/// The words not yet read.
struct Words<'a>(SplitWhitespace<'a>);

impl Words<'_> {
    /// Reads the value of `option`.
    fn value<T>(
        &mut self,
        option: &str,
        parse: impl Fn(&str) -> Option<T>,
        expected: &'static str,
    ) -> Result<T, ParseError> {
        let option = || option.to_string();
        let word = self.0.next().ok_or_else(|| ParseError::MissingValue { option: option(), expected })?;
        parse(word).ok_or_else(|| ParseError::BadValue { option: option(), word: word.to_string(), expected })
    }
}

/// Words that describe no discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// The first word names no discipline, or there is none.
    UnknownKind {
        /// What stands there.
        word: String,
    },
    /// The discipline has no such option.
    UnknownOption {
        /// The discipline.
        kind: &'static str,
        /// What stands there.
        word: String,
    },
    /// An option stands at the end without its value.
    MissingValue {
        /// The option.
        option: String,
        /// What should follow it.
        expected: &'static str,
    },
    /// An option's value cannot be read.
    BadValue {
        /// The option.
        option: String,
        /// What stands there.
        word: String,
        /// What should.
        expected: &'static str,
    },
    /// An option makes sense only after another.
    MissingBefore {
        /// The option.
        option: String,
        /// The one that must precede it.
        needed: &'static str,
    },
    /// The discipline refuses a value.
    Refused {
        /// The discipline.
        kind: &'static str,
        /// What it says.
        error: ConfigError,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind { word } => write!(f, "`{word}` is no queueing discipline: choose {KINDS}"),
            Self::UnknownOption { kind, word } => {
                write!(f, "`{word}` is no option of {kind}, which takes: limit PACKETS")?;
                match *kind {
                    "codel" => write!(f, ", {CODEL_OPTIONS}"),
                    "fq_codel" => write!(
                        f,
                        ", flows N, quantum SIZE, memory_limit SIZE, drop_batch N, backlog queue|qdisc, perturbation N, \
                         {CODEL_OPTIONS}"
                    ),
                    _ => Ok(()),
                }
            }
            Self::MissingValue { option, expected } => write!(f, "`{option}` lacks its value: {expected}"),
            Self::BadValue { option, word, expected } => write!(f, "`{word}` is no value for `{option}`: give {expected}"),
            Self::MissingBefore { option, needed } => write!(f, "`{option}` needs `{needed}` before it"),
            Self::Refused { kind, error } => write!(f, "{kind}: {error}"),
        }
    }
}

impl Error for ParseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Probe;
    use core::time::Duration;
    use tautline_base::Bytes;

    /// tdc's defaults: fq_codel limit 10240p flows 1024 target 5ms interval 100ms memory_limit 32Mb ecn drop_batch 64.
    #[test]
    fn defaults_are_those_of_tc() {
        for (name, words) in [
            ("pfifo", "pfifo limit 1000p"),
            ("pfifo_fast", "pfifo_fast limit 1000p"),
            ("codel", "codel limit 1000p target 5ms interval 100ms mtu 1514b law rfc8289 noecn"),
            (
                "fq_codel",
                "fq_codel limit 10240p flows 1024 quantum 1514b memory_limit 32Mb drop_batch 64 backlog queue target 5ms \
                 interval 100ms mtu 1514b law rfc8289 ecn",
            ),
        ] {
            assert_eq!(name.parse::<Kind>().expect(name).to_string(), words);
        }
    }

    #[test]
    fn what_is_printed_is_read_again() {
        for words in [
            "pfifo limit 7",
            "pfifo_fast limit 0p",
            "codel linux limit 50 target 20ms interval 1s ecn ce_threshold 1ms ce_threshold_selector 0x1/0x3",
            "fq_codel linux limit 7 flows 3 quantum 300 memory_limit 5Kb drop_batch 1 noecn mtu 0 ce_threshold 0ms",
        ] {
            let kind: Kind = words.parse().expect(words);
            assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
        }
        let Ok(Kind::FqCodel(config)) = "fq_codel linux".parse() else { panic!("fq_codel parses") };
        assert_eq!(config, fq_codel::Config::linux());
        let Ok(Kind::Codel(config)) = "codel linux".parse() else { panic!("codel parses") };
        assert_eq!(config, codel::Config::linux());
    }

    #[test]
    fn every_word_sets_its_parameter() {
        let words = "fq_codel limit 7p flows 3 quantum 300 memory_limit 5Kb drop_batch 2 backlog qdisc perturbation 0x2a \
                     target 1ms interval 2s mtu 9 law linux noecn ce_threshold 3us ce_threshold_selector 1/3";
        let Ok(Kind::FqCodel(config)) = words.parse() else { panic!("fq_codel parses") };
        let codel = Params {
            target: Duration::from_millis(1),
            interval: Duration::from_secs(2),
            mtu: Bytes::new(9),
            ecn: false,
            ce_threshold: Some(CeThreshold { delay: Duration::from_micros(3), mask: 3, selector: 1 }),
            law: Law::Linux,
        };
        let expected = fq_codel::Config {
            limit: 7,
            flows: 3,
            quantum: Bytes::new(300),
            memory_limit: Bytes::kib(5),
            drop_batch: 2,
            codel,
            backlog: BacklogScope::Qdisc,
            perturbation: 42,
        };
        assert_eq!(config, expected);
        let Ok(Kind::Codel(config)) = "codel noecn ecn".parse() else { panic!("codel parses") };
        assert!(config.codel.ecn);
    }

    #[test]
    fn errors_name_the_word_and_the_remedy() {
        for (words, message) in [
            ("", "`` is no queueing discipline: choose pfifo, pfifo_fast, codel or fq_codel"),
            ("bloat", "`bloat` is no queueing discipline: choose pfifo, pfifo_fast, codel or fq_codel"),
            ("pfifo limits 5", "`limits` is no option of pfifo, which takes: limit PACKETS"),
            ("codel target", "`target` lacks its value: a time, e.g. 5ms, 500us"),
            ("codel target 5parsec", "`5parsec` is no value for `target`: give a time, e.g. 5ms, 500us"),
            ("fq_codel flows -1", "`-1` is no value for `flows`: give a whole number, e.g. 1024"),
            ("fq_codel flows 0", "fq_codel: `flows` must be from 1 to 65536, not 0"),
            ("fq_codel quantum 2Mb", "fq_codel: `quantum` must be from 64b to 1Mb, not 2Mb"),
            ("fq_codel drop_batch 0", "fq_codel: `drop_batch` must be at least 1, not 0"),
            ("codel ce_threshold_selector 1/3", "`ce_threshold_selector` needs `ce_threshold` before it"),
            (
                "codel interval 0",
                "codel: `interval` must be longer than the tick of the control law's clock (1ns, or 1024ns with law linux), not 0ns",
            ),
        ] {
            let error = build::<Probe>(words).err().expect(words);
            assert_eq!(error.to_string(), message);
        }
        let error = build::<Probe>("fq_codel red").err().expect("unknown").to_string();
        assert!(error.contains("quantum SIZE") && error.contains("target TIME"), "{error}");
    }
}
