//! `red`, and RED's parameters for `sfq`.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item, Qdisc};
use tautline_qdisc::red::{Config, IdleDecay, Params, Stats};
use tautline_qdisc::units;
use tautline_qdisc::{Classful, Red};

use super::named;
use crate::discipline::{Change, Inspect, Target, change_below, reconfigure};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, ParseError, Part, RATE, SIZE, Word, Words};

impl<P: Item, Q: Qdisc<P> + Inspect> Inspect for Red<P, Q> {
    fn report(&self) -> Report {
        let Stats {
            prob_mark,
            forced_mark,
            prob_drop,
            forced_drop,
            pdrop,
            overlimits,
        } = *self.stats();
        Report {
            kind: "red",
            id: named(self.handle()),
            options: shown(self.config()),
            overlimits,
            counters: vec![
                ("marked", Value::Count(prob_mark + forced_mark)),
                ("early", Value::Count(prob_drop + forced_drop)),
                ("pdrop", Value::Count(pdrop)),
                ("other", Value::Count(0)),
                ("average", Value::Size(self.average())),
                ("max_p", Value::Share(self.max_probability())),
            ],
            children: vec![self.child().report()],
            ..Report::default()
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "red"
    }

    fn help(&self) -> &'static str {
        "limit SIZE, min SIZE, max SIZE, avpkt SIZE, burst N, probability SHARE, bandwidth RATE, adaptive, noadaptive, ecn, noecn, \
         harddrop, noharddrop, nodrop, drop, gentle, nogentle, idle exact|linux|never, seed N, linux (all as Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_size, SIZE)?,
            "adaptive" | "adaptative" => self.adaptive = true,
            "noadaptive" => self.adaptive = false,
            "ecn" => self.ecn = true,
            "noecn" => self.ecn = false,
            "harddrop" => self.harddrop = true,
            "noharddrop" => self.harddrop = false,
            "nodrop" => self.nodrop = true,
            "drop" => self.nodrop = false,
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            "linux" => (self.red.idle, self.red.gentle) = (IdleDecay::Linux, false),
            _ => return self.red.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("limit", Value::Size(self.limit))];
        options.extend(self.red.options());
        options.extend([
            ("adaptive", Value::Flag(self.adaptive)),
            ("ecn", Value::Flag(self.ecn)),
            ("harddrop", Value::Flag(self.harddrop)),
            ("nodrop", Value::Flag(self.nodrop)),
        ]);
        options.push(("seed", Value::Count(self.seed)));
        options
    }
}

impl Part for Params {
    /// Sets `option`, if it is one of these parameters.
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "min" => self.min = Some(words.value(option, units::parse_size, SIZE)?),
            "max" => self.max = Some(words.value(option, units::parse_size, SIZE)?),
            "avpkt" => self.avpkt = words.value(option, units::parse_size, SIZE)?,
            "burst" => self.burst = Some(words.value(option, |text| text.parse().ok(), NUMBER)?),
            "probability" => {
                self.probability =
                    words.value(option, units::parse_share, "a probability, e.g. 0.02")?;
            }
            "bandwidth" => self.bandwidth = words.value(option, units::parse_rate, RATE)?,
            "gentle" => self.gentle = true,
            "nogentle" => self.gentle = false,
            "idle" => self.idle = words.value(option, parse_idle, "exact, linux or never")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = Vec::new();
        options.extend(self.min.map(|min| ("min", Value::Size(min))));
        options.extend(self.max.map(|max| ("max", Value::Size(max))));
        options.push(("avpkt", Value::Size(self.avpkt)));
        options.extend(
            self.burst
                .map(|burst| ("burst", Value::Count(burst.into()))),
        );
        options.push(("probability", Value::Share(self.probability)));
        options.push(("bandwidth", Value::Rate(self.bandwidth)));
        options.push(("gentle", Value::Flag(self.gentle)));
        options.push(("idle", Value::Word(self.idle.to_string())));
        options
    }
}

/// The options with everything derived written out, as `tc` shows them.
fn shown(config: &Config) -> Vec<(&'static str, Value)> {
    Config {
        red: config.red.derived(config.limit),
        ..config.clone()
    }
    .options()
}

impl<P: Item, Q: Qdisc<P> + Change<P>> Change<P> for Red<P, Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if target != Target::Root {
            return change_below(self, "red", target, words, now, drops);
        }
        reconfigure(self.config().clone(), words, |config| {
            self.reconfigure(config)
        })
    }
}

fn parse_idle(text: &str) -> Option<IdleDecay> {
    [IdleDecay::Exact, IdleDecay::Linux, IdleDecay::Never]
        .into_iter()
        .find(|decay| decay.to_string() == text)
}
