//! Link framing: `mpu`, `overhead`, `linklayer`.

use alloc::string::ToString;
use alloc::vec::Vec;

use tautline_base::Bytes;
use tautline_qdisc::units;
use tautline_qdisc::{Framing, LinkLayer};

use crate::report::Value;
use crate::words::{NUMBER, ParseError, Part, SIZE, Word, Words};

impl Part for Framing {
    /// Sets `option` if it is one of these; see [`Options::set`](crate::words::Options::set).
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "mpu" => {
                let small = |text: &str| {
                    units::parse_size(text).and_then(|size| u16::try_from(size.get()).ok())
                };
                self.mpu = words.value(option, small, SIZE)?;
            }
            "overhead" => self.overhead = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "linklayer" => {
                self.linklayer = words.value(option, parse_linklayer, "ethernet, atm or adsl")?
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The parameters that differ from the default, as `tc` shows them.
    fn options(&self) -> Vec<(&'static str, Value)> {
        let Self {
            overhead,
            mpu,
            linklayer,
        } = *self;
        let all = [
            (mpu > 0, "mpu", Value::Size(Bytes::new(mpu.into()))),
            (overhead > 0, "overhead", Value::Count(overhead.into())),
            (
                linklayer != LinkLayer::Ethernet,
                "linklayer",
                Value::word(linklayer.to_string()),
            ),
        ];
        all.into_iter()
            .filter_map(|(differs, name, value)| differs.then_some((name, value)))
            .collect()
    }
}

fn parse_linklayer(text: &str) -> Option<LinkLayer> {
    match text {
        "ethernet" => Some(LinkLayer::Ethernet),
        "atm" | "adsl" => Some(LinkLayer::Atm),
        _ => None,
    }
}
