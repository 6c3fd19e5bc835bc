//! `tbf`.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Bytes, Drops, Instant, Item, Qdisc, Rate};
use tautline_qdisc::tbf::{Config, Limit, Peak, Stats};
use tautline_qdisc::units;
use tautline_qdisc::{ClassId, Classful, Tbf};

use super::named;
use crate::discipline::{Change, Inspect, Target, change_below, reconfigure};
use crate::report::{Report, Value};
use crate::words::{Options, ParseError, Part, RATE, SIZE, TIME, Word, Words};

impl<P: Item, Q: Qdisc<P> + Inspect> Inspect for Tbf<P, Q> {
    fn report(&self) -> Report {
        let Stats {
            too_long,
            split,
            overlimits,
        } = *self.stats();
        let (tokens, peak_tokens) = self.tokens();
        let mut counters = vec![
            ("drop_too_long", Value::Count(too_long)),
            ("split", Value::Count(split)),
            ("tokens", Value::Size(tokens)),
        ];
        counters.extend(peak_tokens.map(|tokens| ("peak_tokens", Value::Size(tokens))));
        Report {
            kind: "tbf",
            id: named(self.handle()),
            options: self.config().options(),
            overlimits,
            counters,
            children: vec![self.child().report()],
            ..Report::default()
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "tbf"
    }

    fn help(&self) -> &'static str {
        "rate RATE, burst SIZE, peakrate RATE, mtu SIZE, limit SIZE, latency TIME, mpu SIZE, overhead N, linklayer \
         ethernet|atm|adsl, frame SIZE, linux (all as Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "rate" => self.rate = words.value(option, units::parse_rate, RATE)?,
            "burst" | "buffer" | "maxburst" => {
                self.burst = words.value(option, units::parse_size, SIZE)?
            }
            "peakrate" => peak_mut(self).rate = words.value(option, units::parse_rate, RATE)?,
            "mtu" | "minburst" => {
                peak_mut(self).mtu = words.value(option, units::parse_size, SIZE)?
            }
            "limit" => self.limit = Limit::Bytes(words.value(option, units::parse_size, SIZE)?),
            "latency" | "lat" => {
                self.limit = Limit::Latency(words.value(option, units::parse_time, TIME)?)
            }
            "frame" => self.frame = words.value(option, units::parse_size, SIZE)?,
            "linux" => self.frame = Self::linux().frame,
            _ => return self.framing.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("rate", Value::Rate(self.rate)),
            ("burst", Value::Size(self.burst)),
        ];
        if let Some(Peak { rate, mtu }) = self.peak {
            options.extend([
                ("peakrate", Value::Rate(rate)),
                ("minburst", Value::Size(mtu)),
            ]);
        }
        options.push(match self.limit {
            Limit::Bytes(bytes) => ("limit", Value::Size(bytes)),
            Limit::Latency(latency) => ("lat", Value::Time(latency)),
        });
        options.extend(self.framing.options());
        options.push(("frame", Value::Size(self.frame)));
        options
    }
}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P>> Change<P> for Tbf<P, Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if target != Target::Root {
            return change_below(self, "tbf", target, words, now, drops);
        }
        reconfigure(self.config().clone(), words, |config| {
            self.reconfigure(config)
        })?;
        if self.child().report().kind != "bfifo" {
            return Ok(());
        }
        let limit = format!("limit {}", self.config().limit().get());
        let class = ClassId::new(self.handle(), 1);
        let changed = self.with_child(class, drops, |child, drops| {
            child.change(Target::Root, &mut Words::new(&limit), now, drops)
        });
        changed.unwrap_or(Ok(()))
    }
}

fn peak_mut(config: &mut Config) -> &mut Peak {
    config.peak.get_or_insert(Peak {
        rate: Rate::ZERO,
        mtu: Bytes::ZERO,
    })
}
