//! [`Bfifo`]: first in, first out, bounded in bytes, dropping the newcomer that does not fit
//! (`tc`'s `bfifo`).

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes};

use crate::fifo::{Bound, Fifo};
use crate::report::Value;
use crate::words::{Options, ParseError, SIZE, Word, Words, units};

/// A FIFO bounded in bytes.
pub type Bfifo<P> = Fifo<P, Config>;

/// Parameters of [`Bfifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes it holds at most. Default 1000 frames of 1514, the transmit queue of a Linux Ethernet
    /// device.
    pub limit: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: Bytes::new(1000 * 1514),
        }
    }
}

impl Bound for Config {
    #[inline]
    fn admits(&self, held: Backlog, len: Bytes) -> bool {
        held.bytes + len <= self.limit
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "bfifo"
    }

    fn help(&self) -> &'static str {
        "limit SIZE"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_size, SIZE)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![("limit", Value::Size(self.limit))]
    }
}
