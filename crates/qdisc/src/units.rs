//! Numbers and units as `tc` reads and writes them: `5ms`, `32Mb`, `1000p`.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use tautline_base::units::parse_duration;
use tautline_base::{Bytes, Rate};

/// Writes a time in the largest unit that leaves no fraction.
pub fn time(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    with_unit(nanos, &units, "ns")
}

/// Writes an amount in the largest unit that leaves no fraction.
pub fn size(size: Bytes) -> String {
    with_unit(
        size.get().into(),
        &[(1 << 30, "Gb"), (1 << 20, "Mb"), (1 << 10, "Kb")],
        "b",
    )
}

/// Writes a rate as `tc` does: the largest decimal unit that leaves no fraction.
pub fn rate(rate: Rate) -> String {
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

/// Reads a time as [`parse_duration`] does.
pub fn parse_time(text: &str) -> Option<Duration> {
    parse_duration(text).ok()
}

/// Reads an amount of data as [`Bytes`] does.
pub fn parse_size(text: &str) -> Option<Bytes> {
    text.parse().ok()
}

/// Reads a rate as [`Rate`] does.
pub fn parse_rate(text: &str) -> Option<Rate> {
    text.parse().ok()
}

/// Reads a share of one: `0.02` or `2%`.
pub fn parse_share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => parse_number(percent, -2)?,
        None => parse_number(text, 0)?,
    };
    (share <= 1.0).then_some(share)
}

/// Reads a percentage, `2%` or `2`, as a share of one (`parse_percent` in iproute2).
pub fn parse_percent(text: &str) -> Option<f64> {
    let share = parse_number(text.strip_suffix('%').unwrap_or(text), -2)?;
    (share <= 1.0).then_some(share)
}

/// Reads a number of at least zero as `strtod` does, `0.5`, `1e-1`, `0x10`, and shifts it by `power`
/// of ten. It is shifted as a text, so that the result is the nearest number to what is meant.
fn parse_number(text: &str, power: i32) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let number = lower.strip_prefix('+').unwrap_or(&lower);
    let hexadecimal = number.starts_with("0x");
    let (digits, exponent) = match number.split_once('e') {
        Some((digits, exponent)) if !hexadecimal => (digits.to_string(), exponent.parse().ok()?),
        _ if hexadecimal => (parse_c_integer(number)?.to_string(), 0),
        _ => (number.to_string(), 0i32),
    };
    let plain = digits
        .bytes()
        .all(|digit| digit.is_ascii_digit() || digit == b'.');
    let value = format!("{digits}e{}", exponent.checked_add(power)?);
    value.parse().ok().filter(|_| plain && !digits.is_empty())
}

/// Reads a number of packets: `1000` or `1000p`, an integer as C writes it.
pub fn parse_packets(text: &str) -> Option<u32> {
    let packets = parse_c_integer(text.strip_suffix('p').unwrap_or(text))?;
    packets.try_into().ok()
}

/// Reads a whole number, hexadecimal after `0x`.
pub fn parse_integer(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => digits_of(digits, 16),
        None => text.parse().ok(),
    }
}

/// Reads a hexadecimal integer, with or without `0x`.
pub fn parse_hexadecimal(text: &str) -> Option<u64> {
    digits_of(text.strip_prefix("0x").unwrap_or(text), 16)
}

/// Reads an integer as C writes it: decimal, hexadecimal after `0x`, octal after `0`.
pub fn parse_c_integer(text: &str) -> Option<u64> {
    let number = text.strip_prefix('+').unwrap_or(text);
    match number.strip_prefix('0') {
        Some("") => Some(0),
        Some(rest) if !rest.starts_with(['x', 'X']) => digits_of(rest, 8),
        Some(_) => parse_integer(number),
        None => digits_of(number, 10),
    }
}

/// Reads digits alone: `from_str_radix` would take a sign.
fn digits_of(digits: &str, radix: u32) -> Option<u64> {
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix).ok().filter(|_| plain)
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
            ["1000p", "1000", "0x3e8", "01750p"].map(parse_packets),
            [Some(1000); 4]
        );
        assert_eq!(["0x1f", "0X1F", "31"].map(parse_integer), [Some(31); 3]);
        assert_eq!(
            ["8", "+8", "010", "0x8", "0X8", "+0x8"].map(parse_c_integer),
            [Some(8); 6]
        );
        for (text, share) in [
            ("1e-1%", 0.001),
            ("1e-1", 0.001),
            ("0x10%", 0.16),
            ("+5%", 0.05),
            (".5", 0.005),
            ("5.%", 0.05),
            ("1E2", 1.0),
        ] {
            assert_eq!(parse_percent(text), Some(share), "{text}");
        }
        for (text, share) in [("0.02", 0.02), ("2%", 0.02), ("2e-2", 0.02), ("0x1", 1.0)] {
            assert_eq!(parse_share(text), Some(share), "{text}");
        }
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
        assert_eq!(["0x", "0x+5", "five"].map(parse_integer), [None; 3]);
        assert_eq!(
            ["08", "0+5", "++5", "-1", "0x", ""].map(parse_c_integer),
            [None; 6]
        );
        assert_eq!(parse_hexadecimal("0x"), None);
        for text in [
            "", "%", "101%", "-5%", "5%%", "nan%", "inf", "e", "1e", "1.2.3", "0x1.8", ".",
        ] {
            assert_eq!(parse_percent(text), None, "{text}");
        }
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
            let _ = (parse_share(&text), parse_percent(&text), parse_c_integer(&text));
        }
    }
}
