//! Actions in `tc`'s words.

use alloc::format;
use core::fmt;
use core::ops::RangeInclusive;

use tautline_base::{Bytes, Rate};
use tautline_qdisc::filter::{Action, Choice, Control, DSCP, Masked, Police, Share};
use tautline_qdisc::{Framing, units};

use crate::kind::write_words;
use crate::report::Value;
use crate::words::parameter::*;
use crate::words::{Expected, Options, ParseError, Word, Words};

/// Words for controls; of two names the first is printed.
const CONTROLS: [(&str, Control); 7] = [
    ("pass", Control::Pass),
    ("ok", Control::Pass),
    ("drop", Control::Drop),
    ("shot", Control::Drop),
    ("reclassify", Control::Reclassify),
    ("pipe", Control::Pipe),
    ("continue", Control::Continue),
];

const CONTROL: Syntax<Control> = Syntax {
    name: "CONTROL",
    expected: Expected::OneOf(&["pass", "drop", "reclassify", "pipe", "continue"]),
    parse: |text| {
        let named = CONTROLS.iter().find(|(name, _)| *name == text);
        named.map(|(_, control)| *control)
    },
    show: |control| Value::word(control_name(*control)),
};

const ACTIONS: Expected = Expected::OneOf(&[
    "pass",
    "drop",
    "reclassify",
    "pipe",
    "continue",
    "gact",
    "skbedit",
    "pedit",
    "police",
]);

fn control_name(control: Control) -> &'static str {
    let named = CONTROLS.iter().find(|(_, named)| *named == control);
    named.map_or("", |(name, _)| name)
}

/// Reads the words after `action`.
pub(super) fn read(words: &mut Words<'_>) -> Result<Action, ParseError> {
    if let Some(control) = words.optional(CONTROL.parse) {
        return read_share(control, words);
    }
    let end = words.here().start;
    let Some(name) = words.word() else {
        let mut error = Word {
            text: "action",
            at: end,
        }
        .lacks(ACTIONS);
        error.at = end..end;
        return Err(error);
    };
    match name.text {
        "gact" => {
            let control = words.read(name, &CONTROL)?;
            read_share(control, words)
        }
        "skbedit" => read_skbedit(words),
        "pedit" => read_dsfield(name, words),
        "police" => read_police(name, words),
        _ => Err(name.bad_value("action", ACTIONS)),
    }
}

/// `random determ|netrand CONTROL N`, if it follows.
fn read_share(control: Control, words: &mut Words<'_>) -> Result<Action, ParseError> {
    let Some(random) = words.peek().filter(|word| word.text == "random") else {
        return Ok(control.into());
    };
    words.word();
    let choice = |text: &str| match text {
        "netrand" => Some(Choice::Random),
        "determ" => Some(Choice::Counted),
        _ => None,
    };
    let choice = words.value(random, choice, Expected::OneOf(&["netrand", "determ"]))?;
    let other = words.read(random, &CONTROL)?;
    let positive = |text: &str| text.parse().ok().filter(|count| *count > 0);
    let share = Share {
        choice,
        one_in: words.value(random, positive, "from 1 to 65535")?,
        control: other,
    };
    Ok(Action::Gact {
        control,
        share: Some(share),
    })
}

/// Fields that `skbedit` sets.
#[derive(Default)]
struct Edit {
    priority: Option<u8>,
    mark: Option<Masked<u32>>,
}

impl Parameters for Edit {
    const KIND: &'static str = "skbedit";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        optional!("priority", PRIORITY, priority),
        optional!("mark", MARK, mark),
    ];
}

/// `tc` reads and prints it as the name of a class of no qdisc, so in hexadecimal (`get_tc_classid`):
/// `a` and `:a` are 10.
const PRIORITY: Syntax<u8> = Syntax {
    name: "PRIORITY (hexadecimal)",
    expected: Expected::Text("from 0 to f, a hexadecimal digit"),
    parse: |text| {
        let digits = text.strip_prefix(':').unwrap_or(text);
        let value = units::parse_hexadecimal(digits)?;
        u8::try_from(value).ok().filter(|value| *value < 16)
    },
    show: |priority| Value::Word(format!(":{priority:x}")),
};

const MARK: Syntax<Masked<u32>> = Syntax {
    name: "MARK[/MASK]",
    expected: Expected::Text("a mark, e.g. 0x10 or 1/0xff"),
    parse: |text| {
        Masked::parse(
            text,
            u32::MAX,
            (units::parse_c_integer, units::parse_c_integer),
        )
    },
    show: |mark| Value::Word(format!("{mark}")),
};

fn read_skbedit(words: &mut Words<'_>) -> Result<Action, ParseError> {
    let mut edit = Edit::default();
    words.apply_known(&mut edit)?;
    Ok(Action::Skbedit {
        priority: edit.priority,
        mark: edit.mark,
        control: words.optional(CONTROL.parse).unwrap_or(Control::Pipe),
    })
}

/// `[ex] munge ip dsfield set VALUE [retain MASK]`.
fn read_dsfield(name: Word<'_>, words: &mut Words<'_>) -> Result<Action, ParseError> {
    words.accept("ex");
    for (allowed, expected) in [
        (&["munge"][..], "munge ip dsfield set VALUE"),
        (&["ip", "ip6"], "ip or ip6"),
        (
            &["dsfield", "tos", "traffic_class"],
            "dsfield: other fields cannot be rewritten",
        ),
        (&["set"], "set VALUE"),
    ] {
        words.value(name, |word| allowed.contains(&word).then_some(()), expected)?;
    }
    let value = words.read(name, &DSFIELD)?;
    let mut mask = DSCP;
    if let Some(retain) = words.peek().filter(|word| word.text == "retain") {
        words.word();
        let within = |text: &str| parse_dsfield(text).filter(|mask| mask & !DSCP == 0);
        let expected = "a mask within 0xfc: the ECN field stays as it is";
        mask = words.value(retain, within, expected)?;
    }
    Ok(Action::Dsfield {
        set: Masked::new(value, mask),
        control: words.optional(CONTROL.parse).unwrap_or(Control::Pipe),
    })
}

/// A policer whose rate and burst are still to be read.
struct Policer {
    rate: Option<Rate>,
    burst: Option<Bytes>,
    police: Police,
}

impl Parameters for Policer {
    const KIND: &'static str = "police";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        optional!("rate", RATE, rate),
        optional!("burst" | "buffer" | "maxburst", BURST, burst),
        optional!("mtu" | "minburst", BURST, police.mtu),
        Parameter::Part {
            usage: Framing::usages,
            set: |policer, option, words| policer.police.framing.set(option, words),
            show: |policer| policer.police.framing.options(),
        },
        custom!(
            "conform-exceed",
            ["EXCEED[/CONFORM]"],
            |policer, option, words| {
                let expected = "EXCEED or EXCEED/CONFORM, e.g. drop/pass";
                let (exceed, conform) = words.value(option, parse_controls, expected)?;
                policer.police.exceed = exceed;
                policer.police.conform = conform.unwrap_or(policer.police.conform);
            },
            |policer| {
                let Police {
                    exceed, conform, ..
                } = policer.police;
                let [exceed, conform] = [exceed, conform].map(control_name);
                Some(("conform-exceed", Value::Word(format!("{exceed}/{conform}"))))
            }
        ),
        custom!(
            "pass" | "ok" | "drop" | "shot" | "reclassify" | "pipe" | "continue",
            [],
            |policer, option, _words| {
                let exceed = (CONTROL.parse)(option.text);
                policer.police.exceed = exceed.unwrap_or(policer.police.exceed);
            },
            |_| None
        ),
    ];
}

/// `EXCEED` or `EXCEED/CONFORM`.
fn parse_controls(text: &str) -> Option<(Control, Option<Control>)> {
    let (exceed, conform) = match text.split_once('/') {
        Some((exceed, conform)) => (exceed, Some((CONTROL.parse)(conform)?)),
        None => (text, None),
    };
    Some(((CONTROL.parse)(exceed)?, conform))
}

/// Reads the words after `police`.
pub(super) fn read_police(name: Word<'_>, words: &mut Words<'_>) -> Result<Action, ParseError> {
    let mut policer = Policer {
        rate: None,
        burst: None,
        police: Police::new(Rate::ZERO, Bytes::ZERO),
    };
    words.apply_known(&mut policer)?;
    let police = Police {
        rate: policer.rate.ok_or_else(|| name.lacks("rate RATE"))?,
        burst: policer.burst.ok_or_else(|| name.lacks("burst SIZE"))?,
        ..policer.police
    };
    let refused = |error| words.refused("police", error);
    police.check().map_err(refused)?;
    Ok(Action::Police(police))
}

/// A TOS byte, or the name of a DSCP: `EF` is 0xb8.
pub(super) const DSFIELD: Syntax<u8> = Syntax {
    expected: Expected::Text("a TOS byte, e.g. 0xb8 or EF"),
    parse: parse_dsfield,
    ..number()
};

pub(super) fn parse_dsfield(text: &str) -> Option<u8> {
    let digit = |at: usize, allowed: RangeInclusive<u8>| {
        let digit = text.as_bytes().get(at)?.checked_sub(b'0')?;
        allowed.contains(&digit).then_some(digit)
    };
    let dscp = match (text.get(..2), text.len()) {
        (Some("EF"), 2) => 46,
        (Some("VA"), 2) => 44,
        (Some("LE"), 2) => 1,
        (Some("CS"), 3) => digit(2, 0..=7)? * 8,
        (Some("AF"), 4) => digit(2, 1..=4)? * 8 + digit(3, 1..=3)? * 2,
        _ => return u8::try_from(units::parse_integer(text)?).ok(),
    };
    Some(dscp << 2)
}

/// Writes an action in `tc`'s words, from `action` on.
#[allow(unreachable_patterns, reason = "reachable from another crate only")]
pub(super) fn write(f: &mut fmt::Formatter<'_>, action: &Action) -> fmt::Result {
    match action {
        Action::Gact { control, share } => {
            write!(f, "action {}", control_name(*control))?;
            let Some(share) = share else { return Ok(()) };
            let choice = match share.choice {
                Choice::Random => "netrand",
                Choice::Counted => "determ",
            };
            let control = control_name(share.control);
            write!(f, " random {choice} {control} {}", share.one_in)
        }
        &Action::Skbedit {
            priority,
            mark,
            control,
        } => {
            f.write_str("action skbedit")?;
            write_words(f, &Edit { priority, mark })?;
            write!(f, " {}", control_name(control))
        }
        Action::Dsfield {
            set: Masked { value, mask },
            control,
        } => {
            let control = control_name(*control);
            write!(
                f,
                "action pedit munge ip dsfield set {value:#x} retain {mask:#x} {control}"
            )
        }
        Action::Police(police) => {
            f.write_str("action police")?;
            let policer = Policer {
                rate: Some(police.rate),
                burst: Some(police.burst),
                police: *police,
            };
            write_words(f, &policer)
        }
        // `tc` has no words for it: `read` refuses these.
        other => write!(f, "action {other:?}"),
    }
}
