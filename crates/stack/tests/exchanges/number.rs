//! Numbers as scripts write them.

use std::time::Duration;

/// A whole number.
pub(crate) fn integer<N: TryFrom<i64>>(text: &str) -> Result<N, String> {
    signed(text)
        .and_then(|value| N::try_from(value).map_err(|_| format!("{value} is out of range")))
}

/// A whole number that may be negative.
pub(crate) fn signed(text: &str) -> Result<i64, String> {
    text.replace('_', "")
        .parse()
        .map_err(|_| format!("'{text}' is no number"))
}

/// Seconds with a fraction of up to nine digits: `0.040`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let no_time = || format!("'{text}' is no time in seconds");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 {
        return Err(no_time());
    }
    let whole: u64 = whole.parse().map_err(|_| no_time())?;
    let nanos: u32 = format!("{fraction:0<9}").parse().map_err(|_| no_time())?;
    Ok(Duration::new(whole, nanos))
}

/// A duration with its unit: `200ms`, `1s`, `50us`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let unit: u64 = match &text[digits..] {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => {
            return Err(format!(
                "'{text}' is no duration: it needs one of the units s, ms, us, ns"
            ));
        }
    };
    let amount = seconds(&text[..digits])?;
    let nanos = amount.as_nanos() * u128::from(unit) / 1_000_000_000;
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| format!("'{text}' is too long"))
}

/// Seconds with six digits.
pub(crate) fn print(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}
