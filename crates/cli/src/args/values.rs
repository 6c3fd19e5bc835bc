//! Values of options: [sizes](Size), [rates](Rates), [times](Times), numbers of seconds, addresses.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use tautline_base::Rate;

/// Text that is not a value of the requested kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not understood: write {example}")]
pub struct Misread {
    text: String,
    example: &'static str,
}

/// An amount of data: a number, with K, M or G for powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = Misread;

    fn from_str(text: &str) -> Result<Self, Misread> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let shift = match &text[digits.len()..] {
            "" => Some(0),
            "K" | "KiB" => Some(10),
            "M" | "MiB" => Some(20),
            "G" | "GiB" => Some(30),
            _ => None,
        };
        shift
            .and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift))
            .map(Self)
            .ok_or_else(|| Misread {
                text: text.to_owned(),
                example: "a number of bytes, with K, M or G for powers of 1024",
            })
    }
}

/// A rate: `100mbit`, `2.5gbit`, `56kbit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates(pub Rate);

impl FromStr for Rates {
    type Err = Misread;

    fn from_str(text: &str) -> Result<Self, Misread> {
        with_unit(
            text,
            &[("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)],
        )
        .map(|bits| Self(Rate::bits_per_sec(bits as u64)))
        .ok_or_else(|| Misread {
            text: text.to_owned(),
            example: "a rate and its unit, e.g. 100mbit or 2.5gbit",
        })
    }
}

/// A time: `20ms`, `150us`, `1.5s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times(pub Duration);

impl FromStr for Times {
    type Err = Misread;

    fn from_str(text: &str) -> Result<Self, Misread> {
        with_unit(text, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
            .map(|nanos| Self(Duration::from_nanos(nanos as u64)))
            .ok_or_else(|| Misread {
                text: text.to_owned(),
                example: "a time and its unit, e.g. 20ms or 150us",
            })
    }
}

/// A number that is not negative, times what its unit is worth. A unit is required: 20 of what?
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (digits, worth) = units
        .iter()
        .find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, worth)))?;
    digits
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0)
        .map(|number| number * worth)
}

/// A time in seconds, fractions allowed.
///
/// # Errors
/// If `text` is not a number of seconds.
pub fn seconds(text: &str) -> Result<Duration, Misread> {
    let misread = || Misread {
        text: text.to_owned(),
        example: "a number of seconds, e.g. 10 or 0.5",
    };
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(misread)
}

/// An address of either family and a port.
pub(crate) fn address_and_port(text: &str) -> Result<SocketAddr, Misread> {
    text.parse().map_err(|_| Misread {
        text: text.to_owned(),
        example: "an address in digits and a port, 10.7.0.2:5001 or [2001:db8::2]:5001",
    })
}

/// A time in seconds that is not zero.
pub(super) fn some_seconds(text: &str) -> Result<Duration, Misread> {
    let misread = || Misread {
        text: text.to_owned(),
        example: "a number of seconds above 0, e.g. 10 or 0.5",
    };
    seconds(text)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(misread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_or_refused() {
        assert_eq!("256M".parse(), Ok(Size(256 << 20)));
        assert_eq!("7".parse(), Ok(Size(7)));
        for text in ["", "M", "1T", "-1", "1.5M", "99999999999G"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!("2.5gbit".parse(), Ok(Rates(Rate::mbit(2500))));
        assert_eq!("150us".parse(), Ok(Times(Duration::from_micros(150))));
        for text in ["", "20", "ms", "-1ms", "infs", "NaNs", "mbit", "1mb"] {
            assert!(
                text.parse::<Times>().is_err() && text.parse::<Rates>().is_err(),
                "{text}"
            );
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("-1").is_err() && seconds("inf").is_err());
    }
}
