//! What `--info` prints at the end of a transfer: the connection in one line, and what its bytes waited for.

use std::collections::BTreeMap;

use serde::Serialize;
use tautline_stack::TcpInfo;
use tautline_stack::attribution::{Attribution, Cause};

use crate::report::{micros, print_json};

/// The connection and its waits.
#[derive(Clone, Debug, Serialize)]
struct Introspection {
    event: &'static str,
    /// The line in the manner of `ss -tin`.
    ss: String,
    /// By cause.
    waited_for: BTreeMap<&'static str, Waits>,
}

/// How long the connection stood before one obstacle, and its bytes waited there, in microseconds.
#[derive(Clone, Debug, Serialize)]
struct Waits {
    connection_us: f64,
    bytes: u64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    longest_us: f64,
    /// Where each bucket begins, and the bytes in it.
    histogram: Vec<(f64, u64)>,
}

/// Prints both, as text or as one JSON object on a line.
pub fn print(json: bool, info: &TcpInfo, attribution: &Attribution) {
    let ss = info.ss().to_string();
    if !json {
        println!("{ss}\n{attribution}");
        return;
    }
    let waits = |cause| {
        let waits = attribution.waits(cause);
        Waits {
            connection_us: micros(attribution.stood(cause)),
            bytes: waits.bytes(),
            mean_us: micros(waits.mean()),
            p50_us: micros(waits.percentile(50)),
            p99_us: micros(waits.percentile(99)),
            longest_us: micros(waits.longest()),
            histogram: waits.buckets().map(|(start, bytes)| (micros(start), bytes)).collect(),
        }
    };
    let waited_for = Cause::ALL.into_iter().map(|cause| (cause.name(), waits(cause))).collect();
    print_json(&Introspection { event: "info", ss, waited_for });
}
