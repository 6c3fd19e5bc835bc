//! [`PfifoHeadDrop`]: first in, first out, bounded in packets, dropping the oldest when full
//! (`tc`'s `pfifo_head_drop`). The sender learns of the loss a whole queue earlier, and what is
//! delivered is fresh.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes};

use crate::fifo::{Bound, Fifo, Victim};
use crate::report::Value;
use crate::words::{Options, PACKETS, ParseError, Word, Words, units};

/// A FIFO bounded in packets that drops at the head.
pub type PfifoHeadDrop<P> = Fifo<P, Config>;

/// Parameters of [`PfifoHeadDrop`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Packets it holds at most; with 0 the newcomer is dropped. Default 1000, the transmit queue
    /// length of a Linux Ethernet device.
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

    fn victim(&self) -> Victim {
        Victim::Oldest
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "pfifo_head_drop"
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
