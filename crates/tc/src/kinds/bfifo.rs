//! `bfifo`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_qdisc::bfifo::Config;
use tautline_qdisc::units;

use crate::report::Value;
use crate::words::{Options, ParseError, SIZE, Word, Words};

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
