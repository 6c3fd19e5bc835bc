//! Any text as each word that a command line, a scenario or a control socket takes: what parses
//! prints as something that parses to the same, where it prints.

use std::fmt::Display;
use std::str::FromStr;

use tautline_base::{Bytes, Rate};
use tautline_bql::LimitKind;
use tautline_cc::Algorithm;
use tautline_qdisc::units;
use tautline_sim::{Probability, Trace};
use tautline_stack::{Cidr, TsqLimit};

/// Runs one case.
pub fn run(text: &str) {
    round_trip::<Algorithm>(text);
    round_trip::<Cidr>(text);
    round_trip::<LimitKind>(text);
    parses::<TsqLimit>(text);
    parses::<Bytes>(text);
    parses::<Rate>(text);
    parses::<Probability>(text);
    parses::<Trace>(text);
    let _ = tautline_base::units::parse_duration(text);
    let _ = units::parse_time(text);
    let _ = units::parse_size(text);
    let _ = units::parse_rate(text);
    let _ = units::parse_share(text);
    let _ = units::parse_packets(text);
    let _ = units::parse_integer(text);
}

fn round_trip<T: FromStr<Err: Display> + Display + PartialEq>(text: &str) {
    if let Some(value) = parses::<T>(text) {
        let printed = value.to_string();
        let again = printed.parse::<T>();
        assert!(again.is_ok_and(|again| again == value), "{text}: {printed}");
    }
}

/// The value of `text`; an error must have words.
fn parses<T: FromStr<Err: Display>>(text: &str) -> Option<T> {
    match text.parse::<T>() {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!error.to_string().is_empty(), "{text}");
            None
        }
    }
}
