//! [`Pfifo`]: first in, first out, bounded in packets, dropping the newcomer when full (`tc`'s
//! `pfifo`).

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes};

use crate::fifo::{Bound, Fifo};
use crate::report::Value;
use crate::words::{Options, PACKETS, ParseError, Word, Words, units};

/// A FIFO bounded in packets.
pub type Pfifo<P> = Fifo<P, Config>;

/// Parameters of [`Pfifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Packets it holds at most. Default 1000, the transmit queue length of a Linux Ethernet
    /// device.
    pub limit: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: 1000 }
    }
}

impl Bound for Config {
    #[inline]
    fn admits(&self, held: Backlog, _len: Bytes) -> bool {
        held.packets < self.limit as usize
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "pfifo"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![("limit", Value::Packets(self.limit.into()))]
    }
}
