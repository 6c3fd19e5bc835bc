//! Numbers as `tc` prints them: three digits of a time, sizes to within 16 bytes. For people; JSON
//! holds the exact values.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use tautline_base::{Bytes, Rate};

use super::Value;

/// Linux's version of HTB.
pub(super) const HTB_VERSION: &str = "3.17";

/// A value as `tc` prints it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Size(size) => size_text(*size),
        Value::Time(time) => time_text(*time),
        Value::Rate(rate) => rate_text(*rate),
        Value::Share(share) => share_text(*share),
        value => value.to_string(),
    }
}

/// A value without its unit: bytes, packets.
pub(super) fn bare(value: &Value) -> String {
    match value {
        Value::Size(size) => size.get().to_string(),
        Value::Packets(count) => count.to_string(),
        value => text(value),
    }
}

/// Seconds or milliseconds to three digits, or whole microseconds; what is shorter in nanoseconds.
fn time_text(time: Duration) -> String {
    let nanos = time.as_nanos();
    match nanos {
        1..1_000 => format!("{nanos}ns"),
        0..1_000_000 => format!("{}us", nanos / 1_000),
        1_000_000..1_000_000_000 => three_digits(nanos as f64 / 1e6) + "ms",
        _ => three_digits(time.as_secs_f64()) + "s",
    }
}

fn three_digits(number: f64) -> String {
    let decimals = if number < 10.0 {
        2
    } else {
        usize::from(number < 100.0)
    };
    trimmed(format!("{number:.decimals$}"))
}

/// Without zeros behind the point.
fn trimmed(number: String) -> String {
    if number.contains('.') {
        number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_string()
    } else {
        number
    }
}

/// Whole MiB or KiB if that is nearly so, else bytes.
fn size_text(size: Bytes) -> String {
    let bytes = size.get();
    let nearly = |unit: u64, tolerance: u64| {
        let whole = (bytes / unit).saturating_add(u64::from(bytes % unit >= unit / 2));
        (bytes >= unit && whole.saturating_mul(unit).abs_diff(bytes) < tolerance).then_some(whole)
    };
    match (nearly(1 << 20, 1 << 10), nearly(1 << 10, 16)) {
        (Some(whole), _) => format!("{whole}Mb"),
        (None, Some(whole)) => format!("{whole}Kb"),
        (None, None) => format!("{bytes}b"),
    }
}

/// Three to six digits: what is below them is cut off.
fn rate_text(rate: Rate) -> String {
    let mut bits = rate.as_bits_per_sec();
    let mut units = ["bit", "Kbit", "Mbit", "Gbit", "Tbit"]
        .into_iter()
        .peekable();
    let mut unit = "";
    while let Some(next) = units.next() {
        unit = next;
        let readable = bits < 1_000 || (!bits.is_multiple_of(1_000) && bits < 1_000_000);
        if readable || units.peek().is_none() {
            break;
        }
        bits /= 1_000;
    }
    format!("{bits}{unit}")
}

/// Six digits.
fn share_text(share: f64) -> String {
    format!("{share:.5e}")
        .parse::<f64>()
        .unwrap_or(share)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from `tc qdisc show` of iproute2 6.1.0 with Linux 6.1.192. (`1e+03ms` is written
    /// out here.)
    #[test]
    fn numbers_are_those_of_tc() {
        for (bits, text) in [
            (0, "0bit"),
            (8, "8bit"),
            (992, "992bit"),
            (1_000, "1Kbit"),
            (999_992, "999992bit"),
            (1_000_000, "1Mbit"),
            (1_234_560, "1234Kbit"),
            (12_345_672, "12345Kbit"),
            (123_456_784, "123456Kbit"),
            (1_234_567_888, "1234Mbit"),
            (123_456_789_008, "123456Mbit"),
            (3_000_000_000_000_000, "3000Tbit"),
        ] {
            assert_eq!(rate_text(Rate::bits_per_sec(bits)), text);
        }
        for (bytes, text) in [
            (0, "0b"),
            (1, "1b"),
            (1023, "1023b"),
            (1025, "1Kb"),
            (1039, "1Kb"),
            (1040, "1040b"),
            (2047, "2Kb"),
            (20_462, "20462b"),
            (20_465, "20Kb"),
            (1_048_575, "1024Kb"),
            (1_048_576, "1Mb"),
            (1_049_599, "1Mb"),
            (1_049_600, "1025Kb"),
            (1_050_000, "1050000b"),
            (15_503_360, "15140Kb"),
            (4_294_967_295, "4096Mb"),
        ] {
            assert_eq!(size_text(Bytes::new(bytes)), text);
        }
        for (micros, text) in [
            (0, "0us"),
            (999, "999us"),
            (1_001, "1ms"),
            (1_049, "1.05ms"),
            (9_994, "9.99ms"),
            (9_999, "10ms"),
            (99_949, "99.9ms"),
            (99_950, "100ms"),
            (999_499, "999ms"),
            (1_000_000, "1s"),
            (1_234_567, "1.23s"),
            (99_949_999, "99.9s"),
            (1_234_000_000, "1234s"),
        ] {
            assert_eq!(time_text(Duration::from_micros(micros)), text);
        }
        assert_eq!(time_text(Duration::from_nanos(999)), "999ns");
        assert_eq!(
            (share_text(0.02), share_text(1.0 / 3.0)),
            ("0.02".into(), "0.333333".into())
        );
        assert_eq!(
            (bare(&Value::Size(Bytes::kib(2))), bare(&Value::Packets(7))),
            ("2048".into(), "7".into())
        );
    }

    #[test]
    fn extremes_are_printed() {
        for value in [
            Value::Size(Bytes::MAX),
            Value::Time(Duration::MAX),
            Value::Rate(Rate::MAX),
            Value::Share(f64::MAX),
        ] {
            assert!(!text(&value).is_empty());
        }
    }
}
