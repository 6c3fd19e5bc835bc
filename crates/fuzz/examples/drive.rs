//! `drive TARGET CASES [SEED]`: runs a target on bytes from a seeded generator, without libFuzzer.
//! Case `i` of seed `s` is case 0 of seed `s + i`; `all` stands for every target. `drive TARGET FILE`
//! runs it on the bytes of a file. With `SHOW_CASE` in the environment it prints each case first.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tautline_base::SplitMix64;
use tautline_fuzz::targets::{self, TARGETS};

/// Longest input.
const MOST_BYTES: u64 = 2048;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    if let [name, file] = &arguments[..]
        && let Ok(data) = std::fs::read(file)
    {
        targets::run(name, &data);
        return ExitCode::SUCCESS;
    }
    let (Some(name), Some(cases)) = (arguments.first(), number(1)) else {
        eprintln!("drive: TARGET CASES [SEED], or TARGET FILE are expected");
        return ExitCode::from(2);
    };
    let seed = number(2).unwrap_or(1);
    let wanted = TARGETS
        .iter()
        .map(|(known, _)| *known)
        .filter(|known| name == "all" || name == known);
    let mut played = 0;
    for target in wanted {
        let before = (tautline_fuzz::delivered(), tautline_fuzz::hostile());
        let made = (0..cases).filter(|case| play(target, seed + case)).count();
        let frames = tautline_fuzz::delivered() - before.0;
        let hostile = tautline_fuzz::hostile() - before.1;
        println!(
            "{target}: {cases} inputs, {made} cases, {frames} frames to hosts, {hostile} of them hostile"
        );
        played += 1;
    }
    if played == 0 {
        eprintln!("drive: no target is called {name}");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

/// Plays the case of `seed`, naming it if it panics.
fn play(target: &str, seed: u64) -> bool {
    let mut rng = SplitMix64::new(seed);
    let len = rng.next_u64() % MOST_BYTES + 1;
    let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
    std::panic::catch_unwind(|| targets::run(target, &data)).unwrap_or_else(|payload| {
        eprintln!(
            "reproduce: cargo run --release -p tautline-fuzz --example drive -- {target} 1 {seed}"
        );
        std::panic::resume_unwind(payload)
    })
}
