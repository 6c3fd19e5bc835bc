//! Actions in `tc`'s words.

use core::fmt;

use tautline_qdisc::filter::{Action, Choice, Control, DSCP, Masked, Police, Share};
use tautline_qdisc::{Framing, units};

use crate::words::{ParseError, Part, Problem, RATE, SIZE, Word, Words};

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
const CONTROL: &str = "pass, drop, reclassify, pipe or continue";

fn parse_control(text: &str) -> Option<Control> {
    let named = CONTROLS.iter().find(|(name, _)| *name == text);
    named.map(|(_, control)| *control)
}

/// Takes a control if the next word is one.
fn accept_control(words: &mut Words<'_>) -> Option<Control> {
    let control = parse_control(words.peek()?.text)?;
    words.word();
    Some(control)
}

fn control_name(control: Control) -> &'static str {
    let named = CONTROLS.iter().find(|(_, named)| *named == control);
    named.map_or("", |(name, _)| name)
}

/// Reads the words after `action`.
pub(super) fn read(words: &mut Words<'_>) -> Result<Action, ParseError> {
    const ACTIONS: &str = "pass, drop, reclassify, pipe, continue, gact, skbedit, pedit or police";
    if let Some(control) = accept_control(words) {
        return share(control, words);
    }
    let at = words.here();
    let name = words.word().unwrap_or(Word {
        text: "",
        at: at.start,
    });
    match name.text {
        "gact" => {
            let control = words.value(name, parse_control, CONTROL)?;
            share(control, words)
        }
        "skbedit" => skbedit(words),
        "pedit" => read_dsfield(name, words),
        "police" => police(name, words),
        "" => Err(ParseError {
            at,
            problem: Problem::MissingValue {
                option: "action".into(),
                expected: ACTIONS,
            },
        }),
        word => {
            let problem = Problem::BadValue {
                option: "action".into(),
                word: word.into(),
                expected: ACTIONS,
            };
            Err(ParseError { at, problem })
        }
    }
}

/// `random determ|netrand CONTROL N`, if it follows.
fn share(control: Control, words: &mut Words<'_>) -> Result<Action, ParseError> {
    let Some(random) = words.peek().filter(|word| word.text == "random") else {
        return Ok(control.into());
    };
    words.word();
    let choice = |text: &str| match text {
        "netrand" => Some(Choice::Random),
        "determ" => Some(Choice::Counted),
        _ => None,
    };
    let choice = words.value(random, choice, "netrand or determ")?;
    let other = words.value(random, parse_control, CONTROL)?;
    let one_in = words.value(
        random,
        |text| text.parse().ok().filter(|count| *count > 0),
        "from 1 to 65535",
    )?;
    Ok(Action::Gact {
        control,
        share: Some(Share {
            choice,
            one_in,
            control: other,
        }),
    })
}

fn skbedit(words: &mut Words<'_>) -> Result<Action, ParseError> {
    let (mut priority, mut mark) = (None, None);
    while let Some(option) = words
        .peek()
        .filter(|word| matches!(word.text, "priority" | "mark"))
    {
        words.word();
        if option.text == "priority" {
            priority = Some(words.value(
                option,
                |text| text.parse().ok().filter(|value| *value < 16),
                "from 0 to 15",
            )?);
        } else {
            mark = Some(words.value(
                option,
                |text| Masked::parse(text, u32::MAX),
                "a mark, e.g. 0x10 or 1/0xff",
            )?);
        }
    }
    Ok(Action::Skbedit {
        priority,
        mark,
        control: accept_control(words).unwrap_or(Control::Pipe),
    })
}

/// `[ex] munge ip dsfield set VALUE [retain MASK]`.
fn read_dsfield(name: Word<'_>, words: &mut Words<'_>) -> Result<Action, ParseError> {
    words.accept("ex");
    let expected = |text: &'static str| move |word: &str| (word == text).then_some(());
    words.value(name, expected("munge"), "munge ip dsfield set VALUE")?;
    words.value(
        name,
        |word| matches!(word, "ip" | "ip6").then_some(()),
        "ip or ip6",
    )?;
    let field = |word: &str| matches!(word, "dsfield" | "tos" | "traffic_class").then_some(());
    words.value(name, field, "dsfield: other fields cannot be rewritten")?;
    words.value(name, expected("set"), "set VALUE")?;
    let value = words.value(name, dsfield, DSFIELD)?;
    let mut mask = DSCP;
    if let Some(retain) = words.peek().filter(|word| word.text == "retain") {
        words.word();
        let within = |text: &str| dsfield(text).filter(|mask| mask & !DSCP == 0);
        mask = words.value(
            retain,
            within,
            "a mask within 0xfc: the ECN field stays as it is",
        )?;
    }
    Ok(Action::Dsfield {
        set: Masked::new(value, mask),
        control: accept_control(words).unwrap_or(Control::Pipe),
    })
}

const POLICE_OPTIONS: [&str; 10] = [
    "rate",
    "burst",
    "buffer",
    "maxburst",
    "mtu",
    "minburst",
    "mpu",
    "overhead",
    "linklayer",
    "conform-exceed",
];

/// `EXCEED` or `EXCEED/CONFORM`.
fn parse_controls(text: &str) -> Option<(Control, Option<Control>)> {
    match text.split_once('/') {
        Some((above, within)) => Some((parse_control(above)?, Some(parse_control(within)?))),
        None => Some((parse_control(text)?, None)),
    }
}

/// Reads the words after `police`.
pub(super) fn police(name: Word<'_>, words: &mut Words<'_>) -> Result<Action, ParseError> {
    let (mut rate, mut burst, mut mtu) = (None, None, None);
    let mut framing = Framing::default();
    let (mut exceed, mut conform) = (Control::Reclassify, Control::Pass);
    let known =
        |word: &Word<'_>| POLICE_OPTIONS.contains(&word.text) || parse_control(word.text).is_some();
    while let Some(option) = words.peek().filter(known) {
        words.word();
        match option.text {
            "rate" => rate = Some(words.value(option, units::parse_rate, RATE)?),
            "burst" | "buffer" | "maxburst" => {
                burst = Some(words.value(option, units::parse_size, SIZE)?)
            }
            "mtu" | "minburst" => mtu = Some(words.value(option, units::parse_size, SIZE)?),
            "conform-exceed" => {
                let (above, within) = words.value(
                    option,
                    parse_controls,
                    "EXCEED or EXCEED/CONFORM, e.g. drop/pass",
                )?;
                (exceed, conform) = (above, within.unwrap_or(conform));
            }
            control if !framing.set(option, words)? => {
                exceed = parse_control(control).unwrap_or(exceed)
            }
            _ => {}
        }
    }
    let missing = |expected| {
        let problem = Problem::MissingValue {
            option: name.text.into(),
            expected,
        };
        ParseError {
            at: name.span(),
            problem,
        }
    };
    let rate = rate.ok_or_else(|| missing("rate RATE"))?;
    let burst = burst.ok_or_else(|| missing("burst SIZE"))?;
    let police = Police {
        rate,
        burst,
        mtu,
        framing,
        exceed,
        conform,
    };
    police
        .check()
        .map_err(|error| words.refused("police", error))?;
    Ok(Action::Police(police))
}

/// The expected value in errors about a TOS byte.
pub(super) const DSFIELD: &str = "a TOS byte, e.g. 0xb8 or EF";

/// Reads a TOS byte, or the name of a DSCP: `EF` is 0xb8.
pub(super) fn dsfield(text: &str) -> Option<u8> {
    let digit = |at: usize, allowed: core::ops::RangeInclusive<u8>| {
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
            share.map_or(Ok(()), |share| write_share(f, share))
        }
        Action::Skbedit {
            priority,
            mark,
            control,
        } => {
            f.write_str("action skbedit")?;
            priority.map_or(Ok(()), |priority| write!(f, " priority {priority}"))?;
            mark.map_or(Ok(()), |mark| write!(f, " mark {mark}"))?;
            write!(f, " {}", control_name(*control))
        }
        Action::Dsfield {
            set: Masked { value, mask },
            control,
        } => {
            write!(
                f,
                "action pedit munge ip dsfield set {value:#x} retain {mask:#x} {}",
                control_name(*control)
            )
        }
        Action::Police(police) => write_police(f, police),
        // `tc` has no words for it: `read` refuses these.
        other => write!(f, "action {other:?}"),
    }
}

fn write_share(f: &mut fmt::Formatter<'_>, share: Share) -> fmt::Result {
    let choice = match share.choice {
        Choice::Random => "netrand",
        Choice::Counted => "determ",
    };
    let control = control_name(share.control);
    write!(f, " random {choice} {control} {}", share.one_in)
}

fn write_police(f: &mut fmt::Formatter<'_>, police: &Police) -> fmt::Result {
    let (rate, burst) = (units::rate(police.rate), units::size(police.burst));
    write!(f, "action police rate {rate} burst {burst}")?;
    if let Some(mtu) = police.mtu {
        write!(f, " mtu {}", units::size(mtu))?;
    }
    for (name, value) in police.framing.options() {
        write!(f, " {name} {value}")?;
    }
    let (exceed, conform) = (control_name(police.exceed), control_name(police.conform));
    write!(f, " conform-exceed {exceed}/{conform}")
}
