//! `htb`.

use alloc::format;
use alloc::vec;

use tautline_base::{Drops, Instant, Item, Qdisc};
use tautline_qdisc::htb::{ClassConfig, ClassStats, Config, Depth};
use tautline_qdisc::{ClassId, Classful, Framing, Htb};

use crate::discipline::{
    Change, Configured, Inspect, Target, change_child, configured, reconfigure,
};
use crate::report::{Report, Value};
use crate::words::parameter::*;
use crate::words::{Expected, Options, ParseError, Words};

impl Parameters for Config {
    const KIND: &'static str = "htb";
    const SHORTENED: &'static [&'static str] = &["r2q", "default", "direct_qlen"];
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("r2q", R2Q, r2q),
        value!("default", MINOR, default),
        value!("direct_qlen", DIRECT_PACKETS, direct_qlen),
        choice!("depth", depth, "exact" => Depth::Exact, "ticks" => Depth::Ticks),
        value!("hz", number::<u32>(), hz),
        preset!("linux", "(all as Linux does)", |config| config.depth =
            Self::linux().depth),
    ];
}

/// Zero counts as one (`htb_init` in Linux).
const R2Q: Syntax<u32> = Syntax {
    parse: |text| text.parse().ok().map(|divisor: u32| divisor.max(1)),
    ..decimal()
};

const MINOR: Syntax<Option<u16>> = Syntax {
    name: "MINOR (hexadecimal)",
    expected: Expected::Text("the number of a class in hexadecimal, e.g. 12 or 0x12"),
    parse: |text| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let minor = u16::from_str_radix(digits, 16).ok()?;
        Some((minor > 0).then_some(minor))
    },
    // As C prints it: a zero has no `0x`.
    show: |minor| Value::word(minor.map_or_else(|| "0".into(), |minor| format!("{minor:#x}"))),
};

/// `tc` shows them without their unit.
const DIRECT_PACKETS: Syntax<u32> = Syntax {
    parse: |text| text.strip_suffix('p').unwrap_or(text).parse().ok(),
    show: |packets| Value::Count((*packets).into()),
    ..PACKETS
};

/// The parameters that were given, and the priority; derived values are in the class's report.
impl Parameters for ClassConfig {
    const KIND: &'static str = "htb";
    const SHORTENED: &'static [&'static str] = &[
        "prio",
        "mtu",
        "mpu",
        "overhead",
        "linklayer",
        "quantum",
        "burst",
        "cburst",
    ];
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("prio", decimal::<u8>(), prio),
        computed!("quantum", SIZE, quantum),
        value!("rate", RATE, rate),
        part!(framing: Framing),
        computed!("ceil", RATE, ceil),
        computed!("burst" | "buffer" | "maxburst", BURST, burst),
        computed!("cburst" | "cbuffer" | "cmaxburst", BURST, cburst),
        changed!("mtu", SIZE, mtu),
    ];
}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P>> Configured for Htb<P, Q> {
    configured!(Config, |htb, config, _now, _drops| htb.reconfigure(config));

    fn details(&self) -> Report {
        let classes = self.classes();
        Report {
            id: Some(ClassId::new(self.handle(), 0)),
            overlimits: self.overlimits(),
            counters: vec![("direct_packets_stat", Value::Count(self.direct_packets()))],
            classes: classes
                .map(|(stats, queue)| report_class(stats, queue))
                .collect(),
            ..Report::default()
        }
    }

    fn change_below(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if let Target::Class(class) = target
            && let Some(config) = self.class_config(class)
        {
            return reconfigure(config.clone(), words, |config| {
                self.change_class_config(class, config, now)
            });
        }
        change_child(self, target, words, now, drops)
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
