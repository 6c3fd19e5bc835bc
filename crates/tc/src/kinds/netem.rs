//! `netem`: options with several values, some of which may be left out. A time without a unit counts
//! nanoseconds, as iproute2 has read those of `netem` since 2024.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use core::fmt::Write;
use core::time::Duration;

use tautline_base::{Bytes, Item, Qdisc, Rate};
use tautline_qdisc::netem::{
    Cells, Chance, Config, Distribution, Draw, GilbertElliott, Link, Loss, Reorder, Slots, Spacing,
    States,
};
use tautline_qdisc::units::{self, parse_percent};
use tautline_qdisc::{Classful, Netem};

use super::named;
use crate::discipline::{Change, Configured, Inspect, change_children, configured};
use crate::report::{Report, Value};
use crate::words::parameter::*;
use crate::words::{Expected, ParseError, Word, Words};

const PERCENT: &str = "a percentage, e.g. 1% or 0.5%";

/// A parameter that is a probability with a correlation.
macro_rules! chance {
    ($name:literal, $field:ident) => {
        custom!(
            $name,
            ["PERCENT [CORRELATION]"],
            |config, option, words| config.$field = parse_chance(option, words)?,
            |config| Some(($name, Value::Word(chance_text(config.$field))))
        )
    };
}

impl Parameters for Config {
    const KIND: &'static str = "netem";
    const SHORTENED: &'static [&'static str] = &[
        "limit",
        "latency",
        "delay",
        "loss",
        "drop",
        "ecn",
        "reorder",
        "corrupt",
        "gap",
        "duplicate",
        "distribution",
        "rate",
        "slot",
    ];
    const PARAMETERS: &'static [Parameter<Self>] = &[
        custom!(
            "linux",
            ["(random delays as in Linux)"],
            |config, _option, _words| config.draw = Draw::Remainder,
            |config| Some(("linux", Value::Flag(config.draw == Draw::Remainder)))
        ),
        value!("limit", LIMIT, limit),
        custom!(
            "delay" | "latency",
            ["TIME [JITTER [CORRELATION]]"],
            |config, option, words| {
                config.delay = words.read(option, &TIME64)?;
                if let Some(jitter) = words.further(option, TIME64.parse, TIME64.expected)? {
                    config.jitter = jitter;
                    config.delay_correlation = percent_after(option, words)?.unwrap_or_default();
                }
            },
            |config| Some(("delay", Value::Word(delay_text(config))))
        ),
        value!("distribution", DISTRIBUTION, distribution),
        custom!(
            "loss" | "drop",
            [
                "[random] PERCENT [CORRELATION]",
                "state P13 [P31 [P32 [P23 [P14]]]]",
                "gemodel P [R [1-H [1-K]]]"
            ],
            |config, option, words| config.loss = parse_loss(option, words)?,
            |config| Some(("loss", Value::Word(loss_text(config.loss))))
        ),
        flag!("ecn", "noecn", ecn),
        chance!("duplicate", duplicate),
        custom!(
            "reorder",
            ["PERCENT [CORRELATION]"],
            |config, option, words| {
                let chance = parse_chance(option, words)?;
                let gap = config.reorder.map_or(1, |reorder| reorder.gap);
                config.reorder = (chance.probability > 0.0).then_some(Reorder { chance, gap });
            },
            |config| Some(("reorder", Value::Word(chance_text(config.reorder?.chance))))
        ),
        custom!(
            "gap",
            ["PACKETS"],
            |config, option, words| {
                // A gap alone is kept always. Zero leaves it out, or is 1 if packets are reordered, as
                // in `tc`.
                let gap: u32 = words.read(option, &number())?;
                let always = (gap > 0).then_some(Chance::of(1.0));
                let chance = config.reorder.map(|reorder| reorder.chance).or(always);
                let gap = gap.max(1);
                config.reorder = chance.map(|chance| Reorder { chance, gap });
            },
            |config| Some(("gap", Value::Count(config.reorder?.gap.into())))
        ),
        chance!("corrupt", corrupt),
        custom!(
            "rate",
            ["RATE [PACKETOVERHEAD [CELLSIZE [CELLOVERHEAD]]]"],
            |config, option, words| config.link = parse_link(option, words)?,
            |config| Some(("rate", Value::Word(link_text(config.link?))))
        ),
        custom!(
            "slot",
            [
                "MIN [MAX] [packets N] [bytes N]",
                "distribution NAME DELAY JITTER [packets N] [bytes N]"
            ],
            |config, option, words| config.slots = parse_slots(option, words)?,
            |config| Some(("slot", Value::Word(slots_text(config.slots?))))
        ),
        value!("seed", INTEGER, seed),
    ];
}

const DISTRIBUTION: Syntax<Distribution> = Syntax {
    name: "uniform|normal|pareto|paretonormal",
    expected: Expected::OneOf(&["uniform", "normal", "pareto", "paretonormal"]),
    parse: |text| text.parse().ok(),
    show: |distribution| Value::word(distribution.to_string()),
};

fn delay_text(config: &Config) -> String {
    let (delay, jitter) = (units::time(config.delay), units::time(config.jitter));
    match (config.jitter.is_zero(), config.delay_correlation == 0.0) {
        (true, true) => delay,
        (false, true) => format!("{delay} {jitter}"),
        (_, false) => format!("{delay} {jitter} {}", percent(config.delay_correlation)),
    }
}

/// Writes a share as a percentage that reads as the same number.
fn percent(share: f64) -> String {
    let text = format!("{share:e}");
    let shifted = text.split_once('e').and_then(|(digits, exponent)| {
        let exponent = exponent.parse::<i32>().ok()? + 2;
        format!("{digits}e{exponent}").parse::<f64>().ok()
    });
    format!("{}%", shifted.unwrap_or(100.0 * share))
}

/// Reads a percentage, if one follows.
fn percent_after(option: Word<'_>, words: &mut Words<'_>) -> Result<Option<f64>, ParseError> {
    words.further(option, parse_percent, PERCENT)
}

fn parse_chance(option: Word<'_>, words: &mut Words<'_>) -> Result<Chance, ParseError> {
    let probability = words.value(option, parse_percent, PERCENT)?;
    Ok(Chance {
        probability,
        correlation: percent_after(option, words)?.unwrap_or_default(),
    })
}

fn chance_text(chance: Chance) -> String {
    let probability = percent(chance.probability);
    if chance.correlation > 0.0 {
        return format!("{probability} {}", percent(chance.correlation));
    }
    probability
}

fn parse_loss(option: Word<'_>, words: &mut Words<'_>) -> Result<Loss, ParseError> {
    if words.accept("state") {
        let p13 = words.value(option, parse_percent, PERCENT)?;
        let mut next = |default| Ok(percent_after(option, words)?.unwrap_or(default));
        return Ok(Loss::States(States {
            p13,
            p31: next(1.0 - p13)?,
            p32: next(0.0)?,
            p23: next(1.0)?,
            p14: next(0.0)?,
        }));
    }
    if words.accept("gemodel") {
        let to_bad = words.value(option, parse_percent, PERCENT)?;
        let mut next = |default| Ok(percent_after(option, words)?.unwrap_or(default));
        return Ok(Loss::GilbertElliott(GilbertElliott {
            to_bad,
            to_good: next(1.0 - to_bad)?,
            bad_loss: next(1.0)?,
            good_loss: next(0.0)?,
        }));
    }
    words.accept("random");
    parse_chance(option, words).map(Loss::Random)
}

fn loss_text(loss: Loss) -> String {
    let (model, shares) = match loss {
        Loss::Random(chance) => return chance_text(chance),
        Loss::States(loss) => (
            "state",
            vec![loss.p13, loss.p31, loss.p32, loss.p23, loss.p14],
        ),
        Loss::GilbertElliott(loss) => (
            "gemodel",
            vec![loss.to_bad, loss.to_good, loss.bad_loss, loss.good_loss],
        ),
    };
    shares
        .into_iter()
        .fold(model.into(), |text, share| text + " " + &percent(share))
}

/// A rate of zero means that there is no link.
fn parse_link(option: Word<'_>, words: &mut Words<'_>) -> Result<Option<Link>, ParseError> {
    let rate = words.read(option, &RATE)?;
    let overhead = |words: &mut Words<'_>| {
        let bytes = words.further(option, parse_signed, "bytes, e.g. 14 or -14")?;
        Ok(bytes.unwrap_or_default())
    };
    let packet_overhead = overhead(words)?;
    let size = words.further(
        option,
        number().parse,
        "the payload of a cell in bytes, e.g. 48",
    )?;
    let (size, overhead) = (size.unwrap_or_default(), overhead(words)?);
    let cells = (size > 0).then_some(Cells { size, overhead });
    Ok((rate > Rate::ZERO).then_some(Link {
        rate,
        packet_overhead,
        cells,
    }))
}

/// An integer as C writes it, with its sign (`get_s32` in iproute2).
fn parse_signed(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) if !digits.starts_with('+') => (-1, digits),
        _ => (1, text),
    };
    let value = i64::try_from(units::parse_c_integer(digits)?).ok()?;
    i32::try_from(sign * value).ok()
}

fn link_text(link: Link) -> String {
    let (rate, packet_overhead) = (units::rate(link.rate), link.packet_overhead);
    match link.cells {
        Some(Cells { size, overhead }) => format!("{rate} {packet_overhead} {size} {overhead}"),
        None if packet_overhead != 0 => format!("{rate} {packet_overhead}"),
        None => rate,
    }
}

/// Windows that follow at once and hold any number of packets are no windows.
fn parse_slots(option: Word<'_>, words: &mut Words<'_>) -> Result<Option<Slots>, ParseError> {
    let every = if words.accept("distribution") {
        let distribution = words.read(option, &DISTRIBUTION)?;
        let delay = words.read(option, &TIME64)?;
        Spacing::Spread {
            distribution,
            delay,
            jitter: words.read(option, &TIME64)?,
        }
    } else {
        let min = words.read(option, &TIME64)?;
        Spacing::Range {
            min,
            max: words
                .further(option, TIME64.parse, TIME64.expected)?
                .unwrap_or(min),
        }
    };
    let (mut packets, mut bytes) = (None, None);
    loop {
        if words.accept("packets") {
            packets = Some(words.read(option, &PACKETS)?);
        } else if words.accept("bytes") {
            bytes = Some(words.read(option, &SIZE)?);
        } else {
            break;
        }
    }
    let slots = Slots {
        every,
        packets,
        bytes,
    };
    let at_once = Spacing::Range {
        min: Duration::ZERO,
        max: Duration::ZERO,
    };
    let none = Slots {
        every: at_once,
        packets: None,
        bytes: None,
    };
    Ok((slots != none).then_some(slots))
}

fn slots_text(slots: Slots) -> String {
    let mut text = match slots.every {
        Spacing::Range { min, max } => format!("{} {}", units::time(min), units::time(max)),
        Spacing::Spread {
            distribution,
            delay,
            jitter,
        } => {
            let (delay, jitter) = (units::time(delay), units::time(jitter));
            format!("distribution {distribution} {delay} {jitter}")
        }
    };
    // Writing to a string cannot fail.
    let _ = slots
        .packets
        .map(|packets| write!(text, " packets {packets}"));
    let _ = slots
        .bytes
        .map(|bytes: Bytes| write!(text, " bytes {}", bytes.get()));
    text
}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P>> Configured for Netem<P, Q> {
    configured!(Config, |netem, config, _now, _drops| netem
        .reconfigure(config));

    fn details(&self) -> Report {
        let stats = self.stats();
        Report {
            id: named(self.handle()),
            requeues: stats.reordered,
            counters: vec![
                ("lost", Value::Count(stats.lost)),
                ("ecn_mark", Value::Count(stats.ecn_mark)),
                ("duplicated", Value::Count(stats.duplicated)),
                ("corrupted", Value::Count(stats.corrupted)),
                ("reordered", Value::Count(stats.reordered)),
                ("split", Value::Count(stats.split)),
            ],
            children: self.child().into_iter().map(Q::report).collect(),
            ..Report::default()
        }
    }

    change_children!();
}
