//! Numbers with three significant digits and an SI prefix.

use std::time::Duration;

/// `1.23 k`, `45.6 M`; below a thousand as it is.
pub(crate) fn scaled(number: f64) -> String {
    let (number, unit) = match number {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " k"),
        n => {
            return if n.fract() == 0.0 {
                format!("{n:.0} ")
            } else {
                format!("{n:.1} ")
            };
        }
    };
    format!("{number:.digits$}{unit}", digits = digits(number))
}

/// `18.2 Mbit/s`.
pub(crate) fn rate(bits: f64) -> String {
    format!("{}bit/s", scaled(bits))
}

/// `1.51 kB`.
pub(crate) fn bytes(bytes: u64) -> String {
    format!("{}B", scaled(bytes as f64))
}

/// `4.20 ms`.
pub(crate) fn time(time: Duration) -> String {
    let nanos = time.as_nanos() as f64;
    let (number, unit) = match nanos {
        n if n >= 1e9 => (n / 1e9, "s"),
        n if n >= 1e6 => (n / 1e6, "ms"),
        n if n >= 1e3 => (n / 1e3, "µs"),
        n => return format!("{n:.0} ns"),
    };
    format!("{number:.digits$} {unit}", digits = digits(number))
}

/// Decimals for three significant digits.
fn digits(number: f64) -> usize {
    match number {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        let seen = [0.0, 7.5, 999.0, 1234.0, 45_600.0, 987_000.0, 1.5e6, 2e12].map(rate);
        assert_eq!(
            seen,
            [
                "0 bit/s",
                "7.5 bit/s",
                "999 bit/s",
                "1.23 kbit/s",
                "45.6 kbit/s",
                "987 kbit/s",
                "1.50 Mbit/s",
                "2000 Gbit/s"
            ]
        );
        assert_eq!(
            [0, 1514, u64::MAX].map(bytes),
            ["0 B", "1.51 kB", "18446744074 GB"]
        );
        let times = [0, 999, 4_200, 4_200_000, 4_200_000_000]
            .map(|nanos| time(Duration::from_nanos(nanos)));
        assert_eq!(times, ["0 ns", "999 ns", "4.20 µs", "4.20 ms", "4.20 s"]);
    }
}
