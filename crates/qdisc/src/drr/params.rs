//! [`Config`] and [`ClassConfig`]: what DRR and each of its classes are told.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Bytes, ConfigError};

use crate::report::Value;
use crate::words::{Options, ParseError, SIZE, Word, Words, units};

/// Parameters of [`Drr`](super::Drr): it has none, its classes do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "drr"
    }

    fn help(&self) -> &'static str {
        "nothing; its classes take: quantum SIZE"
    }

    fn set(&mut self, _option: Word<'_>, _words: &mut Words<'_>) -> Result<bool, ParseError> {
        Ok(false)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

/// Parameters of a class of [`Drr`](super::Drr).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Bytes it sends per turn, at least 1; below the longest packet a turn may pass without one.
    /// Default 1514, one Ethernet frame (Linux: that of the device).
    pub quantum: Bytes,
}

impl Default for ClassConfig {
    fn default() -> Self {
        Self {
            quantum: Bytes::new(1514),
        }
    }
}

impl ClassConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(
            self.quantum > Bytes::ZERO,
            "quantum",
            units::size(self.quantum),
            "at least 1b",
        )
    }
}

impl Options for ClassConfig {
    fn kind(&self) -> &'static str {
        "drr"
    }

    fn help(&self) -> &'static str {
        "quantum SIZE"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "quantum" => self.quantum = words.value(option, units::parse_size, SIZE)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![("quantum", Value::Size(self.quantum))]
    }
}
