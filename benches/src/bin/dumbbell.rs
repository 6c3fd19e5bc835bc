//! A simulated dumbbell, for `scripts/bench-ns3` to time beside ns-3's: `dumbbell one|ten SECONDS`.
//! Prints packets through the bottleneck and Mbit/s of goodput.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use tautline_benches::dumbbell::{Dumbbell, Passed};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (case, seconds) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["one", seconds] => (Dumbbell::one(), seconds.parse()),
        ["ten", seconds] => (Dumbbell::ten(), seconds.parse()),
        _ => return usage(),
    };
    let Ok(seconds @ 2..=1000) = seconds else {
        return usage();
    };
    let Passed { packets, goodput } = Dumbbell {
        duration: Duration::from_secs(seconds),
        ..case
    }
    .run();
    println!("{packets} {:.3}", goodput.as_bits_per_sec() as f64 / 1e6);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: dumbbell one|ten SECONDS, from 2 to 1000");
    ExitCode::FAILURE
}
