//! `pfifo`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_qdisc::pfifo::Config;
use tautline_qdisc::units;

use crate::report::Value;
use crate::words::{Options, PACKETS, ParseError, Word, Words};

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
