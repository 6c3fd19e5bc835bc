//! So many packets through one qdisc, for `scripts/bench-qdisc` to count instructions of:
//! `qdisc_pairs SCRIPT FLOWS PAIRS`.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::ExitCode;

use tautline_benches::queue::{Backlogged, CASES, Pkt};
use tautline_tc::Tree;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [script, flows, pairs] = arguments.as_slice() else {
        CASES
            .iter()
            .for_each(|(name, script)| println!("{name}\t{script}"));
        return ExitCode::SUCCESS;
    };
    let (Ok(flows), Ok(pairs)) = (flows.parse::<u64>(), pairs.parse::<u64>()) else {
        eprintln!("usage: qdisc_pairs SCRIPT FLOWS PAIRS; without arguments it lists the scripts");
        return ExitCode::FAILURE;
    };
    // A drawn key would put flows elsewhere in each run.
    let tree = script.parse::<Tree>();
    match tree.and_then(|tree| tree.with_hash_key(0).build::<Pkt>()) {
        Ok(queue) => {
            let mut standing = Backlogged::new(queue, flows.max(1));
            let passed = (0..pairs).filter(|_| black_box(standing.pair())).count() as u64;
            if passed == pairs {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("{}", error.pointing_at(script));
            ExitCode::FAILURE
        }
    }
}
