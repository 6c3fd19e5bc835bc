//! `netem`: options with several values, some of which may be left out.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

use tautline_base::{Bytes, Drops, Instant, Item, Qdisc, Rate};
use tautline_qdisc::netem::{
    Cells, Chance, Config, Distribution, Draw, GilbertElliott, Link, Loss, Reorder, Slots, Spacing,
    States, Stats,
};
use tautline_qdisc::units;
use tautline_qdisc::{Classful, Netem};

use super::named;
use crate::discipline::{Change, Inspect, Target, change_below, reconfigure};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, RATE, SIZE, TIME, Word, Words};

const PERCENT: &str = "a percentage, e.g. 1% or 0.5%";

const DISTRIBUTION: &str = "uniform, normal, pareto or paretonormal";

impl Options for Config {
    fn kind(&self) -> &'static str {
        "netem"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, delay TIME [JITTER [CORRELATION]], distribution uniform|normal|pareto|paretonormal, loss [random] PERCENT \
         [CORRELATION], loss state P13 [P31 [P32 [P23 [P14]]]], loss gemodel P [R [1-H [1-K]]], ecn, noecn, duplicate PERCENT \
         [CORRELATION], corrupt PERCENT [CORRELATION], reorder PERCENT [CORRELATION], gap PACKETS, rate RATE [PACKETOVERHEAD \
         [CELLSIZE [CELLOVERHEAD]]], slot MIN [MAX] [packets N] [bytes N], slot distribution NAME DELAY JITTER [packets N] [bytes \
         N], seed N, linux (random delays as in Linux)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "delay" | "latency" => {
                self.delay = words.value(option, units::parse_time, TIME)?;
                if let Some(jitter) = optional(words, units::parse_time) {
                    self.jitter = jitter;
                    self.delay_correlation = optional(words, parse_percent).unwrap_or_default();
                }
            }
            "distribution" => {
                self.distribution = words.value(option, |text| text.parse().ok(), DISTRIBUTION)?
            }
            "loss" | "drop" => self.loss = parse_loss(option, words)?,
            "ecn" => self.ecn = true,
            "noecn" => self.ecn = false,
            "duplicate" => self.duplicate = parse_chance(option, words)?,
            "corrupt" => self.corrupt = parse_chance(option, words)?,
            "reorder" => {
                let chance = parse_chance(option, words)?;
                let gap = self.reorder.map_or(1, |reorder| reorder.gap);
                self.reorder = (chance.probability > 0.0).then_some(Reorder { chance, gap });
            }
            "gap" => {
                // A gap alone is kept always.
                let chance = self
                    .reorder
                    .map_or_else(|| Chance::of(1.0), |reorder| reorder.chance);
                let gap = words.value(option, |text| text.parse().ok(), NUMBER)?;
                self.reorder = Some(Reorder { chance, gap });
            }
            "rate" => self.link = parse_link(option, words)?,
            "slot" => self.slots = parse_slots(option, words)?,
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            "linux" => self.draw = Draw::Remainder,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("linux", Value::Flag(self.draw == Draw::Remainder)),
            ("limit", Value::Packets(self.limit.into())),
            ("delay", Value::Word(delay_text(self))),
            (
                "distribution",
                Value::Word(format!("{}", self.distribution)),
            ),
            ("loss", Value::Word(loss_text(self.loss))),
            ("ecn", Value::Flag(self.ecn)),
            ("duplicate", Value::Word(chance_text(self.duplicate))),
        ];
        if let Some(Reorder { chance, gap }) = self.reorder {
            options.push(("reorder", Value::Word(chance_text(chance))));
            options.push(("gap", Value::Count(gap.into())));
        }
        options.push(("corrupt", Value::Word(chance_text(self.corrupt))));
        options.extend(self.link.map(|link| ("rate", Value::Word(link_text(link)))));
        options.extend(
            self.slots
                .map(|slots| ("slot", Value::Word(slots_text(slots)))),
        );
        options.push(("seed", Value::Count(self.seed)));
        options
    }
}

fn delay_text(config: &Config) -> String {
    let (delay, jitter) = (units::time(config.delay), units::time(config.jitter));
    match (config.jitter.is_zero(), config.delay_correlation == 0.0) {
        (true, true) => delay,
        (false, true) => format!("{delay} {jitter}"),
        (_, false) => format!("{delay} {jitter} {}", percent(config.delay_correlation)),
    }
}

/// Takes the next word if it can be read as the value that may stand there.
fn optional<T>(words: &mut Words<'_>, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let value = parse(words.peek()?.text)?;
    words.word();
    Some(value)
}

/// Reads `1%`, or `1`, which is one percent as well.
fn parse_percent(text: &str) -> Option<f64> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    let plain = !digits.is_empty()
        && digits
            .bytes()
            .all(|digit| digit.is_ascii_digit() || digit == b'.');
    // Shifted as a text, so that what was written is the nearest number to what is meant.
    let share: f64 = format!("{digits}e-2").parse().ok()?;
    (plain && share <= 1.0).then_some(share)
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

fn parse_chance(option: Word<'_>, words: &mut Words<'_>) -> Result<Chance, ParseError> {
    let probability = words.value(option, parse_percent, PERCENT)?;
    Ok(Chance {
        probability,
        correlation: optional(words, parse_percent).unwrap_or_default(),
    })
}

fn chance_text(
    Chance {
        probability,
        correlation,
    }: Chance,
) -> String {
    let mut text = percent(probability);
    if correlation > 0.0 {
        text = text + " " + &percent(correlation);
    }
    text
}

fn parse_loss(option: Word<'_>, words: &mut Words<'_>) -> Result<Loss, ParseError> {
    if words.accept("state") {
        let p13 = words.value(option, parse_percent, PERCENT)?;
        let mut next = |default| optional(words, parse_percent).unwrap_or(default);
        let (p31, p32, p23, p14) = (next(1.0 - p13), next(0.0), next(1.0), next(0.0));
        return Ok(Loss::States(States {
            p13,
            p31,
            p32,
            p23,
            p14,
        }));
    }
    if words.accept("gemodel") {
        let to_bad = words.value(option, parse_percent, PERCENT)?;
        let mut next = |default| optional(words, parse_percent).unwrap_or(default);
        let (to_good, bad_loss, good_loss) = (next(1.0 - to_bad), next(1.0), next(0.0));
        return Ok(Loss::GilbertElliott(GilbertElliott {
            to_bad,
            to_good,
            bad_loss,
            good_loss,
        }));
    }
    words.accept("random");
    parse_chance(option, words).map(Loss::Random)
}

fn loss_text(loss: Loss) -> String {
    let (model, shares) = match loss {
        Loss::Random(chance) => return chance_text(chance),
        Loss::States(States {
            p13,
            p31,
            p32,
            p23,
            p14,
        }) => ("state", vec![p13, p31, p32, p23, p14]),
        Loss::GilbertElliott(GilbertElliott {
            to_bad,
            to_good,
            bad_loss,
            good_loss,
        }) => ("gemodel", vec![to_bad, to_good, bad_loss, good_loss]),
    };
    shares
        .into_iter()
        .fold(model.into(), |text, share| text + " " + &percent(share))
}

/// A rate of zero means that there is no link.
fn parse_link(option: Word<'_>, words: &mut Words<'_>) -> Result<Option<Link>, ParseError> {
    let rate = words.value(option, units::parse_rate, RATE)?;
    let packet_overhead = optional(words, |text| text.parse().ok()).unwrap_or_default();
    let size = optional(words, |text| text.parse().ok()).unwrap_or_default();
    let overhead = optional(words, |text| text.parse().ok()).unwrap_or_default();
    let cells = (size > 0).then_some(Cells { size, overhead });
    Ok((rate > Rate::ZERO).then_some(Link {
        rate,
        packet_overhead,
        cells,
    }))
}

fn link_text(
    Link {
        rate,
        packet_overhead,
        cells,
    }: Link,
) -> String {
    let rate = units::rate(rate);
    match cells {
        Some(Cells { size, overhead }) => format!("{rate} {packet_overhead} {size} {overhead}"),
        None if packet_overhead != 0 => format!("{rate} {packet_overhead}"),
        None => rate,
    }
}

/// Windows that follow at once and hold any number of packets are no windows.
fn parse_slots(option: Word<'_>, words: &mut Words<'_>) -> Result<Option<Slots>, ParseError> {
    let every = if words.accept("distribution") {
        let distribution: Distribution =
            words.value(option, |text| text.parse().ok(), DISTRIBUTION)?;
        let delay = words.value(option, units::parse_time, TIME)?;
        Spacing::Spread {
            distribution,
            delay,
            jitter: words.value(option, units::parse_time, TIME)?,
        }
    } else {
        let min = words.value(option, units::parse_time, TIME)?;
        Spacing::Range {
            min,
            max: optional(words, units::parse_time).unwrap_or(min),
        }
    };
    let (mut packets, mut bytes) = (None, None);
    loop {
        if words.accept("packets") {
            packets = Some(words.value(option, units::parse_packets, PACKETS)?);
        } else if words.accept("bytes") {
            bytes = Some(words.value(option, units::parse_size, SIZE)?);
        } else {
            break;
        }
    }
    let none = (every, packets, bytes)
        == (
            Spacing::Range {
                min: ZERO,
                max: ZERO,
            },
            None,
            None,
        );
    Ok((!none).then_some(Slots {
        every,
        packets,
        bytes,
    }))
}

const ZERO: core::time::Duration = core::time::Duration::ZERO;

fn slots_text(
    Slots {
        every,
        packets,
        bytes,
    }: Slots,
) -> String {
    let mut text = match every {
        Spacing::Range { min, max } => format!("{} {}", units::time(min), units::time(max)),
        Spacing::Spread {
            distribution,
            delay,
            jitter,
        } => {
            format!(
                "distribution {distribution} {} {}",
                units::time(delay),
                units::time(jitter)
            )
        }
    };
    // Writing to a string cannot fail.
    let _ = packets.map(|packets| write!(text, " packets {packets}"));
    let _ = bytes.map(|bytes: Bytes| write!(text, " bytes {}", bytes.get()));
    text
}

impl<P: Item, Q: Qdisc<P> + Inspect> Inspect for Netem<P, Q> {
    fn report(&self) -> Report {
        let Stats {
            lost,
            ecn_mark,
            duplicated,
            corrupted,
            reordered,
            split,
        } = *self.stats();
        Report {
            kind: "netem",
            id: named(self.handle()),
            options: self.config().options(),
            requeues: reordered,
            counters: vec![
                ("lost", Value::Count(lost)),
                ("ecn_mark", Value::Count(ecn_mark)),
                ("duplicated", Value::Count(duplicated)),
                ("corrupted", Value::Count(corrupted)),
                ("reordered", Value::Count(reordered)),
                ("split", Value::Count(split)),
            ],
            children: self.child().into_iter().map(Q::report).collect(),
            ..Report::default()
        }
    }
}

impl<P: Item, Q: Qdisc<P> + Change<P>> Change<P> for Netem<P, Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if target != Target::Root {
            return change_below(self, "netem", target, words, now, drops);
        }
        reconfigure(self.config().clone(), words, |config| {
            self.reconfigure(config)
        })
    }
}
