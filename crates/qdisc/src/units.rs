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

/// Reads a number of packets: `1000` or `1000p`, an integer as C writes it.
pub fn parse_packets(text: &str) -> Option<u32> {
    let packets = parse_c_integer(text.strip_suffix('p').unwrap_or(text))?;
    packets.try_into().ok()
}

/// Reads a whole number, hexadecimal after `0x`.
pub fn parse_integer(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads a hexadecimal integer, with or without `0x`.
pub fn parse_hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| plain)
}

/// Reads an integer as C writes it: decimal, hexadecimal after `0x`, octal after `0`.
pub fn parse_c_integer(text: &str) -> Option<u64> {
    match text.strip_prefix('0') {
        Some(digits)
            if digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.is_empty() =>
        {
            u64::from_str_radix(digits, 8).ok()
        }
        _ => parse_integer(text),
    }
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
