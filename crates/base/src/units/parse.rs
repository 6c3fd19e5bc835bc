//! Times, sizes and rates as `tc` reads them: `5ms`, `32Mb`, `20mbit`.

use core::str::FromStr;
use core::time::Duration;

use super::{Bytes, Rate};
use crate::config_error::ConfigError;

/// Parses a time: `5ms`, `1.5s`; a number without a unit counts microseconds, as `get_time` of `tc`
/// reads it. `tc` reads some options in nanoseconds (`get_time64`): `tautline-tc` puts the unit behind
/// theirs.
///
/// # Errors
/// If `text` is not a number with a unit of time, or exceeds 64 bits of nanoseconds.
pub fn parse_duration(text: &str) -> Result<Duration, ConfigError> {
    let nanos = parse_with_unit(text, |unit| {
        Some(match unit {
            "s" | "sec" | "secs" => 1_000_000_000,
            "ms" | "msec" | "msecs" => 1_000_000,
            "us" | "usec" | "usecs" | "" => 1_000,
            "ns" | "nsec" | "nsecs" => 1,
            _ => return None,
        })
    });
    nanos
        .map(Duration::from_nanos)
        .ok_or_else(|| ConfigError::new("time", text, "a time such as 5ms or 500us"))
}

impl FromStr for Bytes {
    type Err = ConfigError;

    /// Parses an amount of data: `32Mb` is 32 MiB, `1514` or `1514b` are bytes, `8mbit` is 1 MiB.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let bytes = parse_with_unit(text, |unit| {
            Some(match unit {
                "b" | "" => 1,
                "k" | "kb" => 1 << 10,
                "m" | "mb" => 1 << 20,
                "g" | "gb" => 1 << 30,
                "kbit" => 1 << 7,
                "mbit" => 1 << 17,
                "gbit" => 1 << 27,
                _ => return None,
            })
        });
        bytes
            .map(Self::new)
            .ok_or_else(|| ConfigError::new("size", text, "a size such as 1514 or 32Mb"))
    }
}

impl FromStr for Rate {
    type Err = ConfigError;

    /// Parses a rate: `20mbit`, `1.5gbit`, `20mibit` (of 1024²), `125kbps` (bytes per second); a
    /// number without a unit counts bits per second. As in `tc`, a prefix alone (`20m`) is not a
    /// unit.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let bits = parse_with_unit(text, |unit| {
            let (worth, prefix) = match (unit.strip_suffix("bps"), unit.strip_suffix("bit")) {
                (Some(prefix), _) => (8, prefix),
                (None, Some(prefix)) => (1, prefix),
                (None, None) if unit.is_empty() => (1, ""),
                (None, None) => return None,
            };
            let scale = match prefix {
                "" => 1,
                "k" => 1_000,
                "m" => 1_000_000,
                "g" => 1_000_000_000,
                "t" => 1_000_000_000_000,
                "ki" => 1 << 10,
                "mi" => 1 << 20,
                "gi" => 1 << 30,
                "ti" => 1 << 40,
                _ => return None,
            };
            Some(worth * scale)
        });
        bits.map(Self::bits_per_sec)
            .ok_or_else(|| ConfigError::new("rate", text, "a rate such as 20mbit or 1gbit"))
    }
}

/// Parses a number and its unit, in any case, exactly; a fraction of the smallest unit is cut off.
/// Numbers are those of `tc`: `5`, `+5`, `1.5`, `.5`, `5.`, `1e6`, `0x10`.
fn parse_with_unit(text: &str, worth: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let number = lower.strip_prefix('+').unwrap_or(&lower);
    if let Some(hexadecimal) = number.strip_prefix("0x") {
        let (digits, unit) = split_digits(hexadecimal, |byte| byte.is_ascii_hexdigit());
        return u64::from_str_radix(digits, 16)
            .ok()?
            .checked_mul(worth(unit)?);
    }
    let (whole, rest) = split_digits(number, |byte| byte.is_ascii_digit());
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest, |byte| byte.is_ascii_digit()),
        None => ("", rest),
    };
    let (exponent, unit) = split_exponent(rest);
    let digits: u128 = [whole, fraction].concat().parse().ok()?;
    let value = digits.checked_mul(worth(unit)?.into())?;
    let power = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let value = match 10u128.checked_pow(power.unsigned_abs()) {
        Some(scale) if power >= 0 => value.checked_mul(scale)?,
        Some(scale) => value / scale,
        None if value == 0 || power < 0 => 0,
        None => return None,
    };
    u64::try_from(value).ok()
}

fn split_digits(text: &str, digit: impl Fn(&u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().take_while(digit).count())
}

/// The power of ten that follows a number, 0 if none does, and the rest.
fn split_exponent(text: &str) -> (i32, &str) {
    let sign = |rest: &'_ str| if rest.starts_with(['+', '-']) { 1 } else { 0 };
    text.strip_prefix('e').map_or((0, text), |rest| {
        let (digits, unit) = split_digits(&rest[sign(rest)..], |byte| byte.is_ascii_digit());
        let written = &rest[..rest.len() - unit.len()];
        if digits.is_empty() {
            (0, text)
        } else {
            (written.parse().unwrap_or(i32::MAX), unit)
        }
    })
}
