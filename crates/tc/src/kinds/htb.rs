//! `htb`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item, Qdisc};
use tautline_qdisc::htb::{ClassConfig, ClassStats, Config, Depth};
use tautline_qdisc::units;
use tautline_qdisc::{ClassId, Classful, Htb};

use crate::discipline::{Change, Inspect, Target, change_below, reconfigure};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, Part, RATE, SIZE, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "htb"
    }

    fn help(&self) -> &'static str {
        "r2q N, default MINOR (hexadecimal), direct_qlen PACKETS, depth exact|ticks, hz N, linux (all as Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "default" => {
                let minor = |text: &str| {
                    u16::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
                };
                let minor = words.value(
                    option,
                    minor,
                    "the number of a class in hexadecimal, e.g. 12 or 0x12",
                )?;
                self.default = (minor > 0).then_some(minor);
            }
            "r2q" => self.r2q = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "direct_qlen" => {
                self.direct_qlen = words.value(option, units::parse_packets, PACKETS)?
            }
            "depth" => self.depth = words.value(option, parse_depth, "exact or ticks")?,
            "hz" => self.hz = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "linux" => self.depth = Self::linux().depth,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("r2q", Value::Count(self.r2q.into())),
            (
                "default",
                Value::word(alloc::format!("{:#x}", self.default.unwrap_or(0))),
            ),
            ("direct_qlen", Value::Count(self.direct_qlen.into())),
            ("depth", Value::word(alloc::format!("{}", self.depth))),
            ("hz", Value::Count(self.hz.into())),
        ]
    }
}

impl Options for ClassConfig {
    fn kind(&self) -> &'static str {
        "htb"
    }

    fn help(&self) -> &'static str {
        "rate RATE, ceil RATE, burst SIZE, cburst SIZE, prio N, quantum SIZE, mtu SIZE, mpu SIZE, overhead N, linklayer \
         ethernet|atm|adsl"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        // tc allows a cell size behind the burst, which the kernel has long ignored.
        let burst = |text: &str| units::parse_size(text.split('/').next().unwrap_or_default());
        match option.text {
            "rate" => self.rate = words.value(option, units::parse_rate, RATE)?,
            "ceil" => self.ceil = Some(words.value(option, units::parse_rate, RATE)?),
            "burst" | "buffer" | "maxburst" => self.burst = Some(words.value(option, burst, SIZE)?),
            "cburst" | "cbuffer" | "cmaxburst" => {
                self.cburst = Some(words.value(option, burst, SIZE)?)
            }
            "prio" => self.prio = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "quantum" => self.quantum = Some(words.value(option, units::parse_size, SIZE)?),
            "mtu" => self.mtu = words.value(option, units::parse_size, SIZE)?,
            _ => return self.framing.set(option, words),
        }
        Ok(true)
    }

    /// The parameters that were given, and the priority; derived values are in the class's report.
    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("prio", Value::Count(self.prio.into()))];
        options.extend(
            self.quantum
                .map(|quantum| ("quantum", Value::Size(quantum))),
        );
        options.push(("rate", Value::Rate(self.rate)));
        options.extend(self.framing.options());
        options.extend(self.ceil.map(|ceil| ("ceil", Value::Rate(ceil))));
        options.extend(self.burst.map(|burst| ("burst", Value::Size(burst))));
        options.extend(self.cburst.map(|burst| ("cburst", Value::Size(burst))));
        options.extend((self.mtu != Self::default().mtu).then_some(("mtu", Value::Size(self.mtu))));
        options
    }
}

fn parse_depth(text: &str) -> Option<Depth> {
    match text {
        "exact" => Some(Depth::Exact),
        "ticks" => Some(Depth::Ticks),
        _ => None,
    }
}

impl<P: Item, Q: Qdisc<P> + Inspect> Inspect for Htb<P, Q> {
    fn report(&self) -> Report {
        Report {
            kind: "htb",
            id: Some(ClassId::new(self.handle(), 0)),
            options: self.config().options(),
            overlimits: self.overlimits(),
            counters: vec![("direct_packets_stat", Value::Count(self.direct_packets()))],
            classes: self
                .classes()
                .map(|(stats, queue)| report_class(stats, queue))
                .collect(),
            ..Report::default()
        }
    }
}

fn report_class<Q: Inspect>(stats: ClassStats, queue: Option<&Q>) -> Report {
    let ticks = |nanos: i64| Value::Signed((nanos >> 6).clamp(i32::MIN.into(), i32::MAX.into()));
    let mut options = stats.config.options();
    options.push(("level", Value::Count(stats.level as u64)));
    if queue.is_none() {
        options.retain(|(name, _)| !matches!(*name, "prio" | "quantum"));
    }
    Report {
        kind: "htb",
        id: Some(stats.id),
        parent: stats.parent,
        options,
        common: Some(stats.common),
        overlimits: stats.overlimits,
        counters: vec![
            ("lended", Value::Count(stats.lends)),
            ("borrowed", Value::Count(stats.borrows)),
            ("giants", Value::Count(stats.giants)),
            ("tokens", ticks(stats.tokens)),
            ("ctokens", ticks(stats.ceil_tokens)),
        ],
        children: queue.iter().map(|queue| queue.report()).collect(),
        ..Report::default()
    }
}

impl<P: Item, Q: Qdisc<P> + Change<P>> Change<P> for Htb<P, Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if target == Target::Root {
            return reconfigure(self.config().clone(), words, |config| {
                self.reconfigure(config)
            });
        }
        if let Target::Class(class) = target
            && let Some(config) = self.class_config(class)
        {
            return reconfigure(config.clone(), words, |config| {
                self.change_class_config(class, config, now)
            });
        }
        change_below(self, "htb", target, words, now, drops)
    }
}
