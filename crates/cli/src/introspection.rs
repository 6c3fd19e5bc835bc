//! Output of `--info` at the end of a transfer: the connection in one line, and what its bytes
//! waited for.

use std::collections::BTreeMap;

use serde::Serialize;
use tautline_stack::TcpInfo;
use tautline_stack::attribution::{Attribution, Cause};

use crate::report::say;
use crate::report::{micros, print_json};

/// A connection, and the time its bytes waited, by cause.
#[derive(Clone, Debug, Serialize)]
struct Introspection {
    event: &'static str,
    /// The line in the manner of `ss -tin`.
    ss: String,
    waited_for: BTreeMap<&'static str, Waits>,
}

/// Time that the connection was blocked by one cause, and that its bytes waited for it, in
/// microseconds.
#[derive(Clone, Debug, Serialize)]
struct Waits {
    connection_us: f64,
    bytes: u64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    longest_us: f64,
    /// Lower bound of each bucket, and the bytes in it.
    histogram: Vec<(f64, u64)>,
}

/// Prints both, as text or as one JSON object on a line.
pub fn print(json: bool, info: &TcpInfo, attribution: &Attribution) {
    if json {
        print_json(&describe(info, attribution));
    } else {
        say!("{}\n{attribution}", info.ss());
    }
}

fn describe(info: &TcpInfo, attribution: &Attribution) -> Introspection {
    let waits = |cause| {
        let waits = attribution.waits(cause);
        Waits {
            connection_us: micros(attribution.time_blocked_by(cause)),
            bytes: waits.bytes(),
            mean_us: micros(waits.mean()),
            p50_us: micros(waits.percentile(50)),
            p99_us: micros(waits.percentile(99)),
            longest_us: micros(waits.longest()),
            histogram: waits
                .buckets()
                .map(|(start, bytes)| (micros(start), bytes))
                .collect(),
        }
    };
    let waited_for = Cause::ALL
        .into_iter()
        .map(|cause| (cause.name(), waits(cause)))
        .collect();
    Introspection {
        event: "info",
        ss: info.ss().to_string(),
        waited_for,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_sim::Transfer;
    use tautline_sim::transfer::SENDER;
    use tautline_stack::TcpConfig;

    #[test]
    fn every_cause_is_reported_with_its_bytes() {
        let sender = TcpConfig {
            attribution: true,
            ..TcpConfig::default()
        };
        let mut shown = None;
        let watched = Transfer {
            bytes: 100_000,
            sender,
            ..Transfer::default()
        }
        .run_watched(|network| {
            let end = network.endpoint(SENDER);
            if let Some((_, socket)) = end.apps.sockets().next()
                && let (Some(info), Some(attribution)) =
                    (end.host.info(socket), end.host.attribution(socket))
            {
                shown = Some(serde_json::to_value(describe(&info, attribution)).expect("JSON"));
            }
        });
        watched.expect("the transfer completes");
        let shown = shown.expect("the connection was open");
        assert!(
            shown["ss"]
                .as_str()
                .is_some_and(|line| line.contains(" cwnd:")),
            "{shown}"
        );
        for cause in Cause::OF_BYTES {
            let waits = &shown["waited_for"][cause.name()];
            assert!(waits["bytes"].as_u64() >= Some(100_000), "{cause}: {waits}");
            let in_buckets: u64 = waits["histogram"]
                .as_array()
                .expect("pairs")
                .iter()
                .filter_map(|pair| pair[1].as_u64())
                .sum();
            assert_eq!(Some(in_buckets), waits["bytes"].as_u64(), "{cause}");
        }
    }
}
