//! `pfifo_fast`.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::PfifoFast;
use tautline_qdisc::pfifo_fast::{Config, PRIOMAP, Places};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{Options, PACKETS, ParseError, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "pfifo_fast"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, places at-once|batched, linux (places as Linux frees them)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "places" => self.places = words.value(option, parse_places, "at-once or batched")?,
            "linux" => self.places = Places::Batched,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("limit", Value::Packets(self.limit.into())),
            ("places", Value::Word(self.places.to_string())),
        ]
    }
}

impl<P> Inspect for PfifoFast<P> {
    fn report(&self) -> Report {
        // What cannot be chosen is shown nevertheless, as in Linux.
        let priomap = PRIOMAP.iter().map(|&band| band.into()).collect();
        let mut options = vec![
            ("bands", Value::Count(3)),
            ("priomap", Value::List(priomap)),
        ];
        options.extend(self.config().options());
        Report {
            kind: "pfifo_fast",
            options,
            children: self.bands().iter().map(Inspect::report).collect(),
            ..Report::default()
        }
    }
}

fn parse_places(text: &str) -> Option<Places> {
    [Places::AtOnce, Places::Batched]
        .into_iter()
        .find(|places| places.to_string() == text)
}

impl<P: Item> Change<P> for PfifoFast<P> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        _now: Instant,
        _drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        reconfigure_leaf(self.config().clone(), target, words, |config| {
            self.reconfigure(config);
            Ok(())
        })
    }
}
