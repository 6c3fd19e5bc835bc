//! Numbers and units as `tc` reads and writes them: `5ms`, `32Mb`, `1000p`.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use tautline_base::{Bytes, Rate};

/// Writes a time in the largest unit that leaves no fraction.
pub(crate) fn time(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    with_unit(nanos, &units, "ns")
}

/// Writes an amount in the largest unit that leaves no fraction.
pub(crate) fn size(size: Bytes) -> String {
    with_unit(
        size.get().into(),
        &[(1 << 30, "Gb"), (1 << 20, "Mb"), (1 << 10, "Kb")],
        "b",
    )
}

/// Writes a rate as `tc` does: the largest decimal unit that leaves no fraction.
pub(crate) fn rate(rate: Rate) -> String {
    let bits = u128::from(rate.as_bits_per_sec());
    with_unit(
        bits,
        &[
            (1_000_000_000_000, "Tbit"),
            (1_000_000_000, "Gbit"),
            (1_000_000, "Mbit"),
            (1_000, "Kbit"),
        ],
        "bit",
    )
}

fn with_unit(value: u128, units: &[(u128, &str)], smallest: &str) -> String {
    let fitting = units
        .iter()
        .find(|(unit, _)| value != 0 && value.is_multiple_of(*unit));
    fitting.map_or_else(
        || format!("{value}{smallest}"),
        |(unit, name)| (value / unit).to_string() + name,
    )
}

/// Reads a time: `5ms`, `1.5s`; a bare number counts microseconds, as in `tc`.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let nanos = parse_with_unit(text, |unit| {
        Some(match unit {
            "s" | "sec" | "secs" => 1_000_000_000,
            "ms" | "msec" | "msecs" => 1_000_000,
            "us" | "usec" | "usecs" | "" => 1_000,
            "ns" | "nsec" | "nsecs" => 1,
            _ => return None,
        })
    })?;
    Some(Duration::from_nanos(nanos))
}

/// Reads an amount of data: `32Mb` is 32 MiB, `1514` or `1514b` are bytes, `8mbit` is 1 MiB.
pub fn parse_size(text: &str) -> Option<Bytes> {
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
    })?;
    Some(Bytes::new(bytes))
}

/// Reads a rate: `20mbit`, `1.5gbit`, `20mibit` (of 1024²), `125kbps` (bytes per second); a bare
/// number counts bits per second. As in `tc`, a prefix alone (`20m`) is no unit.
pub(crate) fn parse_rate(text: &str) -> Option<Rate> {
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
    })?;
    Some(Rate::bits_per_sec(bits))
}

/// Reads a share of one: `0.02` or `2%`.
pub(crate) fn parse_share(text: &str) -> Option<f64> {
    let (digits, scale) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |digits| (digits, 100.0));
    let plain = !digits.is_empty()
        && digits
            .bytes()
            .all(|digit| digit.is_ascii_digit() || digit == b'.');
    let share = digits.parse::<f64>().ok()? / scale;
    (plain && (0.0..=1.0).contains(&share)).then_some(share)
}

/// Reads a number of packets: `1000` or `1000p`.
pub(crate) fn parse_packets(text: &str) -> Option<u32> {
    text.strip_suffix('p').unwrap_or(text).parse().ok()
}

/// Reads a whole number, hexadecimal after `0x`.
pub(crate) fn parse_integer(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads a number and its unit, of any case, exactly; what is below one is cut off. Numbers are
/// those of `tc`: `5`, `+5`, `1.5`, `.5`, `5.`, `1e6`, `0x10`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_those_of_tc() {
        for (text, nanos) in [
            ("5ms", 5_000_000),
            ("100MSEC", 100_000_000),
            ("1.5s", 1_500_000_000),
            ("7", 7_000),
            ("0.5ns", 0),
            ("1e3us", 1_000_000),
            ("0x10ms", 16_000_000),
            (".5s", 500_000_000),
            ("1e-3s", 1_000_000),
            ("0e99s", 0),
            ("1e-99s", 0),
        ] {
            assert_eq!(
                parse_time(text),
                Some(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
        for (text, bytes) in [
            ("32Mb", 32 << 20),
            ("1514", 1514),
            ("1514b", 1514),
            ("1.5k", 1536),
            ("8mbit", 1 << 20),
        ] {
            assert_eq!(parse_size(text), Some(Bytes::new(bytes)), "{text}");
        }
        for (text, bytes) in [
            ("1.5Mbit", 187_500),
            ("100kbps", 100_000),
            ("10Mibit", 1_310_720),
            ("10", 1),
            ("10bit", 1),
            ("10Bps", 10),
            ("10kibps", 10_240),
            ("1e6bit", 125_000),
            ("1e6", 125_000),
            ("0x10kbit", 2_000),
            ("+5mbit", 625_000),
            (".5mbit", 62_500),
            ("5.mbit", 625_000),
            ("3gibps", 3_221_225_472),
            ("10MBPS", 10_000_000),
            ("2tibit", 274_877_906_944),
            ("2tbps", 2_000_000_000_000),
            ("0", 0),
            ("7bit", 0),
        ] {
            assert_eq!(parse_rate(text), Some(Rate::bytes_per_sec(bytes)), "{text}");
        }
        assert_eq!(
            (parse_packets("1000p"), parse_packets("1000")),
            (Some(1000), Some(1000))
        );
        assert_eq!(
            (parse_integer("0x1f"), parse_integer("31")),
            (Some(31), Some(31))
        );
        assert_eq!(
            (time(Duration::from_micros(4999)), size(Bytes::mib(32))),
            ("4999us".into(), "32Mb".into())
        );
        assert_eq!(
            (time(Duration::ZERO), size(Bytes::new(1514))),
            ("0ns".into(), "1514b".into())
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "ms",
            "5 ms",
            "5mx",
            "1.2.3s",
            "-5ms",
            ".",
            "5\u{b5}s",
            "99999999999999999999999999999999999999999s",
        ] {
            assert_eq!(parse_time(text), None, "{text:?}");
            assert_eq!(parse_size(text), None, "{text:?}");
        }
        for text in [
            "10m",
            "10M",
            "10mb",
            "10mib",
            "10mbits",
            "10mbps/s",
            "50%",
            "-5mbit",
            "inf",
            "nan",
            "1e400bit",
            "10pbit",
            "bit",
            "e6",
            "0x",
            "1e30",
            "18446744073709551616bit",
            "1e99999999999bit",
        ] {
            assert_eq!(parse_rate(text), None, "{text}");
        }
        assert_eq!(
            (parse_packets("p"), parse_packets("5q"), parse_packets("-1")),
            (None, None, None)
        );
        assert_eq!((parse_integer("0x"), parse_integer("five")), (None, None));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value: u64, shift in 0u32..64) {
            let (instant, amount) = (Duration::from_nanos(value >> shift), Bytes::new(value >> shift << (shift / 2)));
            prop_assert_eq!(parse_time(&time(instant)), Some(instant));
            prop_assert_eq!(parse_size(&size(amount)), Some(amount));
            let speed = Rate::bytes_per_sec(value >> 3 >> shift);
            prop_assert_eq!(parse_rate(&rate(speed)), Some(speed));
        }

        #[test]
        fn no_text_panics(text in prop_oneof![".*", "[+-]?[0-9.]{0,50}(e[+-]?[0-9]{0,12})?[a-z%]{0,4}"]) {
            let _ = (parse_time(&text), parse_size(&text), parse_rate(&text), parse_packets(&text), parse_integer(&text));
            let _ = parse_share(&text);
        }
    }
}
