//! So many acknowledgments through one controller, for `scripts/bench-cc` to count instructions
//! of: `controller_acks NAME COUNT`.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::ExitCode;

use tautline_benches::acks::Acks;
use tautline_cc::Algorithm;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, count] = arguments.as_slice() else {
        Algorithm::ALL
            .iter()
            .for_each(|algorithm| println!("{algorithm}"));
        return ExitCode::SUCCESS;
    };
    let (Ok(algorithm), Ok(count)) = (name.parse::<Algorithm>(), count.parse::<u64>()) else {
        eprintln!("usage: controller_acks NAME COUNT; without arguments it lists the names");
        return ExitCode::FAILURE;
    };
    let mut acks = Acks::new(algorithm);
    (0..count).for_each(|_| {
        black_box(acks.ack());
    });
    ExitCode::SUCCESS
}
