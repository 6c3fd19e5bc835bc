//! [`Parameter`]: one row of a configuration's table, which says how `tc`'s words set a parameter
//! and how reports show it. [`Options`]: what words and reports do with any such table.
//!
//! ```text
//! impl Parameters for Config {
//!     const KIND: &'static str = "codel";
//!     const PARAMETERS: &'static [Parameter<Self>] = &[
//!         value!("limit", PACKETS, limit),
//!         part!(codel: Params),
//!         preset!("linux", "(all as Linux does)", |config| *config = Self::linux()),
//!     ];
//! }
//! ```

use alloc::format;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::str::FromStr;
use core::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_qdisc::units;

use super::cursor::{Word, Words};
use super::error::{Expected, ParseError, Usage};
use crate::report::Value;

/// A configuration that `tc`'s words set and show. Implemented for every qdisc's `Config`.
pub trait Options {
    /// `tc`'s name of the qdisc (or of the qdisc whose class this is).
    fn kind(&self) -> &'static str;

    /// Every option, for error messages.
    fn usage(&self) -> Vec<Usage>;

    /// Sets `option`, taking its values from `words`; false, without taking any, if there is no
    /// such option.
    ///
    /// # Errors
    /// If a value is missing or cannot be read.
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError>;

    /// Settles what depends on several options, once all words of a command are set.
    fn complete(&mut self);

    /// Every parameter, in the order and in the names `tc` shows them; set again, they give the
    /// same configuration.
    fn options(&self) -> Vec<(&'static str, Value)>;
}

/// A configuration, or a part that several share, with its table of parameters.
pub(crate) trait Parameters: Sized + 'static {
    /// `tc`'s name of the qdisc.
    const KIND: &'static str;
    /// Every parameter, in `tc`'s order.
    const PARAMETERS: &'static [Parameter<Self>];
    /// Words that may be cut short, in the order in which `tc` compares them: the first that begins
    /// as the word given is meant (`matches` in iproute2).
    const SHORTENED: &'static [&'static str] = &[];

    /// Like [`Options::complete`].
    fn complete(&mut self) {}

    /// The option that `word` means.
    fn meant(word: Word<'_>) -> Word<'_> {
        let is_whole = || {
            let mut usages = Self::usages().into_iter();
            usages.any(|usage| usage.words.contains(&word.text))
        };
        let mut shortened = Self::SHORTENED.iter();
        match shortened.find(|full| full.starts_with(word.text)) {
            Some(full) if !is_whole() => Word {
                text: full,
                at: word.at,
            },
            _ => word,
        }
    }

    /// Like [`Options::usage`].
    fn usages() -> Vec<Usage> {
        let rows = Self::PARAMETERS.iter().map(|parameter| match parameter {
            &Parameter::One { words, values, .. } => Vec::from([Usage { words, values }]),
            Parameter::Part { usage, .. } => usage(),
        });
        rows.flatten().collect()
    }
}

impl<C: Parameters> Options for C {
    fn kind(&self) -> &'static str {
        C::KIND
    }

    fn usage(&self) -> Vec<Usage> {
        C::usages()
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        let meant = C::meant(option);
        let mut set_one = |parameter: &Parameter<C>| match parameter {
            Parameter::One {
                words: names, set, ..
            } if names.contains(&meant.text) => set(self, meant, words).map(|()| true),
            Parameter::One { .. } => Ok(false),
            Parameter::Part { set, .. } => set(self, meant, words),
        };
        for parameter in C::PARAMETERS {
            match set_one(parameter) {
                Ok(false) => {}
                // The text holds the word as it was given.
                Err(error) if error.at == meant.span() => {
                    let at = option.span();
                    return Err(ParseError { at, ..error });
                }
                result => return result,
            }
        }
        Ok(false)
    }

    fn complete(&mut self) {
        Parameters::complete(self);
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let rows = C::PARAMETERS.iter().map(|parameter| match parameter {
            Parameter::One { show, .. } => show(self).into_iter().collect(),
            Parameter::Part { show, .. } => show(self),
        });
        rows.flatten().collect::<Vec<_>>()
    }
}

/// One row of the table of `C`. [`value!`], [`unless_zero!`], [`optional!`], [`computed!`],
/// [`choice!`], [`switch!`], [`flag!`], [`preset!`], [`custom!`] and [`part!`] make them.
pub(crate) enum Parameter<C> {
    /// A parameter.
    One {
        /// The words for it.
        words: &'static [&'static str],
        /// The values that may follow, in error messages: `PACKETS`.
        values: &'static [&'static str],
        /// Sets it from the option and the values that follow.
        set: fn(&mut C, Word<'_>, &mut Words<'_>) -> Result<(), ParseError>,
        /// Its word and its value; `None` if it is not shown.
        show: fn(&C) -> Option<(&'static str, Value)>,
    },
    /// The parameters of a part, such as CoDel's in `fq_codel`; the functions are those of
    /// [`Options`].
    Part {
        usage: fn() -> Vec<Usage>,
        set: fn(&mut C, Word<'_>, &mut Words<'_>) -> Result<bool, ParseError>,
        show: fn(&C) -> Vec<(&'static str, Value)>,
    },
}

/// Syntax of a value.
pub(crate) struct Syntax<T> {
    /// Its name in error messages: `PACKETS`.
    pub(crate) name: &'static str,
    pub(crate) expected: Expected,
    pub(crate) parse: fn(&str) -> Option<T>,
    pub(crate) show: fn(&T) -> Value,
}

pub(crate) const PACKETS: Syntax<u32> = Syntax {
    name: "PACKETS",
    expected: Expected::Text("a number of packets, e.g. 1000 or 1000p"),
    parse: units::parse_packets,
    show: |packets| Value::Packets((*packets).into()),
};

/// A number of packets that `tc` reads as a size: `1k` is 1024 (`get_size` in iproute2).
pub(crate) const LIMIT: Syntax<u32> = Syntax {
    parse: |text| {
        let size = || units::parse_size(text)?.get().try_into().ok();
        size().or_else(|| units::parse_packets(text))
    },
    ..PACKETS
};

pub(crate) const SIZE: Syntax<Bytes> = Syntax {
    name: "SIZE",
    expected: Expected::Text("a size, e.g. 1514, 32Mb"),
    parse: units::parse_size,
    show: |size| Value::Size(*size),
};

/// A size that `tc` reads as an integer as C writes it (`get_unsigned` in iproute2); here it may have
/// a unit.
pub(crate) const QUANTUM: Syntax<Bytes> = Syntax {
    parse: |text| {
        let whole = units::parse_c_integer(text).map(Bytes::new);
        whole.or_else(|| units::parse_size(text))
    },
    ..SIZE
};

/// A bucket's size. `tc` takes a cell size behind it, a power of two, which the kernel has long
/// ignored (`get_size_and_cell` in iproute2).
pub(crate) const BURST: Syntax<Bytes> = Syntax {
    parse: |text| {
        let (size, cell) = text.split_once('/').unwrap_or((text, "1"));
        let is_cell = units::parse_c_integer(cell)?.is_power_of_two();
        units::parse_size(size).filter(|_| is_cell)
    },
    ..SIZE
};

pub(crate) const TIME: Syntax<Duration> = Syntax {
    name: "TIME",
    expected: Expected::Text("a time, e.g. 5ms, 500us"),
    parse: units::parse_time,
    show: |time| Value::Time(*time),
};

/// A time of 64 bits: a number without a unit counts nanoseconds (`get_time64` in iproute2), not
/// microseconds (`get_time`). `tc` reads `timer_slack` of `fq` and the `slot` of `netem` so, and
/// since 2024 the `delay` of `netem` and its jitter, which counted microseconds before.
pub(crate) const TIME64: Syntax<Duration> = Syntax {
    name: "TIME",
    expected: Expected::Text("a time, e.g. 10us; without a unit in ns"),
    parse: |text| units::parse_time(&format!("{text}ns")).or_else(|| units::parse_time(text)),
    show: |time| Value::Time(*time),
};

pub(crate) const RATE: Syntax<Rate> = Syntax {
    name: "RATE",
    expected: Expected::Rate,
    parse: units::parse_rate,
    show: |rate| Value::Rate(*rate),
};

/// A share of one.
pub(crate) const SHARE: Syntax<f64> = Syntax {
    name: "SHARE",
    expected: Expected::Text("a share, e.g. 0.01 or 1%"),
    parse: units::parse_share,
    show: |share| Value::Share(*share),
};

/// A number that may be hexadecimal, such as a seed.
pub(crate) const INTEGER: Syntax<u64> = Syntax {
    parse: units::parse_integer,
    ..number()
};

/// Ticks per second of a clock that may have none.
pub(crate) const HZ: Syntax<Option<NonZeroU32>> = Syntax {
    name: "N",
    expected: Expected::Text("ticks per second, e.g. 250, or 0 for none"),
    parse: |text| text.parse().ok().map(NonZeroU32::new),
    show: |hz| Value::Count(hz.map_or(0, NonZeroU32::get).into()),
};

/// A whole number, as C writes it (`get_unsigned` with base 0 in iproute2).
pub(crate) const fn number<T: TryFrom<u64> + Copy + Into<u64>>() -> Syntax<T> {
    Syntax {
        name: "N",
        expected: Expected::Text("a whole number, e.g. 64"),
        parse: |text| units::parse_c_integer(text)?.try_into().ok(),
        show: |number| Value::Count((*number).into()),
    }
}

/// A whole number in decimal digits, leading zeros or not (`get_unsigned` with base 10 in iproute2).
pub(crate) const fn decimal<T: FromStr + TryFrom<u64> + Copy + Into<u64>>() -> Syntax<T> {
    Syntax {
        parse: |text| text.parse().ok(),
        ..number()
    }
}

/// `value`, unless it is zero.
pub(crate) fn nonzero<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// `custom!("latency" | "lat", ["TIME"], |config, option, words| …, |config| …)`: a parameter with
/// its own code to set it and to show it. The other macros expand to this one.
macro_rules! custom {
    (
        $name:literal $(| $alias:literal)*,
        [$($value:expr),*],
        |$config:ident, $option:ident, $words:ident| $set:expr,
        $show:expr
    ) => {
        $crate::words::parameter::Parameter::One {
            words: &[$name, $($alias),*],
            values: &[$($value),*],
            set: |$config, $option, $words| {
                $set;
                Ok(())
            },
            show: $show,
        }
    };
}

/// `value!("burst" | "buffer", SIZE, burst)`: a field that words set to the value that follows,
/// and that is always shown.
macro_rules! value {
    ($name:literal $(| $alias:literal)*, $syntax:expr, $($field:ident).+) => {
        $crate::words::parameter::custom!(
            $name $(| $alias)*,
            [$syntax.name],
            |config, option, words| config.$($field).+ = words.read(option, &$syntax)?,
            |config| Some(($name, ($syntax.show)(&config.$($field).+)))
        )
    };
}

/// `changed!("mpu", SIZE, mpu)`: as [`value!`], but shown only if it differs from the default.
macro_rules! changed {
    ($name:literal, $syntax:expr, $($field:ident).+) => {
        $crate::words::parameter::custom!(
            $name,
            [$syntax.name],
            |config, option, words| config.$($field).+ = words.read(option, &$syntax)?,
            |config| {
                let differs = config.$($field).+ != Self::default().$($field).+;
                differs.then(|| ($name, ($syntax.show)(&config.$($field).+)))
            }
        )
    };
}

/// `secret!("perturbation", INTEGER, perturbation)`: as [`optional!`], but never shown.
macro_rules! secret {
    ($name:literal, $syntax:expr, $($field:ident).+) => {
        $crate::words::parameter::custom!(
            $name,
            [$syntax.name],
            |config, option, words| config.$($field).+ = Some(words.read(option, &$syntax)?),
            |_| None
        )
    };
}

/// `optional!("threshold", PACKETS, threshold, "none")`: as [`value!`], for a field that is an
/// `Option` and is shown if it is some. The word at the end, if any, makes it `None`.
macro_rules! optional {
    ($name:literal $(| $alias:literal)*, $syntax:expr, $($field:ident).+ $(, $none:literal)?) => {
        $crate::words::parameter::custom!(
            $name $(| $alias)*,
            [$syntax.name $(, $none)?],
            |config, option, words| {
                let none = false $(|| words.accept($none))?;
                let value = (!none).then(|| words.read(option, &$syntax));
                config.$($field).+ = value.transpose()?;
            },
            |config| Some(($name, ($syntax.show)(config.$($field).+.as_ref()?)))
        )
    };
}

/// `unless_zero!("interval", TIME, interval)`: as [`value!`], but a zero without a unit leaves the
/// field as it is: `tc` passes no such parameter on. A zero with its unit (`0p`, `0ns`), as reports
/// write it, is one.
macro_rules! unless_zero {
    ($name:literal, $syntax:expr, $($field:ident).+) => {
        $crate::words::parameter::custom!(
            $name,
            [$syntax.name],
            |config, option, words| if !words.accept_zero() {
                config.$($field).+ = words.read(option, &$syntax)?;
            },
            |config| Some(($name, ($syntax.show)(&config.$($field).+)))
        )
    };
}

/// `computed!("quantum", SIZE, quantum)`: as [`optional!`], but zero makes it `None`, as in `tc`: it
/// is computed then.
macro_rules! computed {
    ($name:literal $(| $alias:literal)*, $syntax:expr, $($field:ident).+) => {
        $crate::words::parameter::custom!(
            $name $(| $alias)*,
            [$syntax.name],
            |config, option, words| {
                let value = words.read(option, &$syntax)?;
                config.$($field).+ = $crate::words::parameter::nonzero(value);
            },
            |config| Some(($name, ($syntax.show)(config.$($field).+.as_ref()?)))
        )
    };
}

/// `or_word!("packets", PACKETS, packets, "unlimited")`: as [`optional!`], but always shown: `None`
/// as the word.
macro_rules! or_word {
    ($name:literal, $syntax:expr, $($field:ident).+, $none:literal) => {
        $crate::words::parameter::custom!(
            $name,
            [$syntax.name, $none],
            |config, option, words| {
                let value = (!words.accept($none)).then(|| words.read(option, &$syntax));
                config.$($field).+ = value.transpose()?;
            },
            |config| {
                let none = || $crate::report::Value::word($none);
                Some(($name, config.$($field).+.as_ref().map_or_else(none, $syntax.show)))
            }
        )
    };
}

/// `choice!("law", codel.law, "rfc8289" => Law::Rfc8289, "linux" => Law::Linux)`: a field with a
/// word for each value. Of two words for the same value, the first is printed.
macro_rules! choice {
    ($name:literal, $($field:ident).+, $($word:literal => $value:expr),+ $(,)?) => {
        $crate::words::parameter::custom!(
            $name,
            [$($word),+],
            |config, option, words| {
                let parse = |text: &str| match text {
                    $($word => Some($value),)+
                    _ => None,
                };
                let expected = $crate::words::Expected::OneOf(&[$($word),+]);
                config.$($field).+ = words.value(option, parse, expected)?;
            },
            |config| {
                let value = &config.$($field).+;
                let (word, _) = [$(($word, $value)),+].into_iter().find(|(_, other)| other == value)?;
                Some(($name, $crate::report::Value::word(word)))
            }
        )
    };
}

/// `switch!(drop_at, "drop_enqueue" => DropAt::Enqueue, "drop_dequeue" => DropAt::Dequeue)`: a
/// field with a word for each value, which stands alone.
macro_rules! switch {
    ($($field:ident).+, $($word:literal => $value:expr),+ $(,)?) => {
        $crate::words::parameter::custom!(
            $($word)|+,
            [],
            |config, option, _words| {
                config.$($field).+ = match option.text {
                    $($word => $value,)+
                    _ => return Ok(()),
                };
            },
            |config| {
                let value = &config.$($field).+;
                let (word, _) = [$(($word, $value)),+].into_iter().find(|(_, other)| other == value)?;
                Some((word, $crate::report::Value::Flag(true)))
            }
        )
    };
}

/// `flag!("ecn", "noecn", ecn)`: a field that is true or false, shown as the first word or not at
/// all.
macro_rules! flag {
    ($on:literal, $off:literal, $($field:ident).+) => {
        $crate::words::parameter::custom!(
            $on | $off,
            [],
            |config, option, _words| config.$($field).+ = option.text == $on,
            |config| Some(($on, $crate::report::Value::Flag(config.$($field).+)))
        )
    };
}

/// `preset!("linux", "(all as Linux does)", |config| *config = Self::linux())`: a word for several
/// settings, which are shown one by one.
macro_rules! preset {
    ($word:literal, $help:literal, |$config:ident| $set:expr) => {
        $crate::words::parameter::custom!($word, [$help], |$config, _option, _words| $set, |_| None)
    };
}

/// `part!(codel: Params)`: the parameters of a field that has a table of its own.
macro_rules! part {
    ($field:ident: $part:ty) => {
        $crate::words::parameter::Parameter::Part {
            usage: <$part as $crate::words::parameter::Parameters>::usages,
            set: |config, option, words| config.$field.set(option, words),
            show: |config| config.$field.options(),
        }
    };
}

pub(crate) use {
    changed, choice, computed, custom, flag, optional, or_word, part, preset, secret, switch,
    unless_zero, value,
};
