//! Values with units, as scenario files write them: `"30s"`, `"10mbit"`, `"64kib"`. A number
//! without its unit is refused.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use tautline_base::{Bytes, Rate};

/// A time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RateValue(pub Rate);

/// An amount of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub Bytes);

/// A value of another crate that reads itself from words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromWords<T>(pub T);

const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];
const RATES: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
];
const SIZES: &[(&str, u64)] = &[
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];

/// Reads a decimal number and its unit, exactly; what is below one is cut off.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
        .count();
    let (number, unit) = text.split_at(digits);
    let (_, worth) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let value = whole.parse::<u64>().ok()?.checked_mul(*worth)?;
    let scale = 10u128.pow(fraction.len() as u32);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(*worth) / scale;
    value.checked_add(u64::try_from(part).ok()?)
}

/// Error for a text that is not a value with a unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: write a number with its unit, e.g. {example}; units: {units}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    example: &'static str,
    units: String,
}

fn refuse(
    text: &str,
    what: &'static str,
    example: &'static str,
    units: &[(&str, u64)],
) -> UnitError {
    let units = units
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ");
    UnitError {
        text: text.to_owned(),
        what,
        example,
        units,
    }
}

impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let nanos =
            with_unit(text, TIMES).ok_or_else(|| refuse(text, "time", "5ms or 30s", TIMES))?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

impl FromStr for RateValue {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bits =
            with_unit(text, RATES).ok_or_else(|| refuse(text, "rate", "10mbit or 1gbit", RATES))?;
        Ok(Self(Rate::bits_per_sec(bits)))
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes =
            with_unit(text, SIZES).ok_or_else(|| refuse(text, "size", "1500b or 64kib", SIZES))?;
        Ok(Self(Bytes::new(bytes)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for FromWords<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|error: T::Err| error.to_string())
    }
}

/// Reads text and parses it.
struct Text<T>(&'static str, std::marker::PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! read_from_text {
    ($($kind:ty: $wanted:literal)*) => { $(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text($wanted, std::marker::PhantomData))
            }
        }
    )* };
}

read_from_text! {
    Time: "a time with its unit in quotes, e.g. \"5ms\""
    RateValue: "a rate with its unit in quotes, e.g. \"10mbit\""
    Size: "a size with its unit in quotes, e.g. \"64kib\""
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for FromWords<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text("words in quotes", std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_with_their_units_are_read_exactly() {
        for (text, nanos) in [
            ("5ms", 5_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1 ms", 100_000),
            ("2min", 120_000_000_000),
        ] {
            assert_eq!(
                text.parse(),
                Ok(Time(Duration::from_nanos(nanos))),
                "{text}"
            );
        }
        assert_eq!("1.5mbit".parse(), Ok(RateValue(Rate::kbit(1500))));
        assert_eq!("64kib".parse(), Ok(Size(Bytes::kib(64))));
    }

    #[test]
    fn numbers_without_units_and_units_of_two_meanings_are_refused_with_what_there_is() {
        for text in [
            "",
            "5",
            "ms",
            "5 m",
            "-5ms",
            "1e3ms",
            ".5s",
            "5.s",
            "5MS",
            "99999999999999999999s",
            "5\u{b5}s",
            "1.2.3s",
        ] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        let error = "64kb"
            .parse::<Size>()
            .expect_err("kb is 1000 to some and 1024 to others")
            .to_string();
        assert_eq!(
            error,
            "\"64kb\" is no size: write a number with its unit, e.g. 1500b or 64kib; units: b, kib, mib, gib"
        );
        assert!("10".parse::<RateValue>().is_err() && "10m".parse::<RateValue>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in prop_oneof![".*", "[0-9.]{0,40} ?[a-z]{0,4}"]) {
            let _ = (text.parse::<Time>(), text.parse::<RateValue>(), text.parse::<Size>());
        }
    }
}
