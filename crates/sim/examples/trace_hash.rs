//! Prints the trace hash of one transfer over a bad link: `cargo run -p tautline-sim --example
//! trace_hash -- SEED`. It is the same number on every machine and in every build profile.

use std::error::Error;
use std::time::Duration;

use tautline_base::Rate;
use tautline_sim::{Impairments, LinkConfig, Probability, Transfer};

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "1".to_owned())
        .parse()?;
    let (percent, rtt) = (Probability::percent(1.0)?, Duration::from_millis(20));
    let impair = Impairments {
        loss: percent,
        duplicate: percent,
        corrupt: percent,
        reorder: percent,
        ..Impairments::default()
    };
    let link = LinkConfig {
        impair,
        ..LinkConfig::bottleneck(Rate::mbit(50), rtt / 2, rtt)
    };
    let outcome = Transfer {
        seed,
        bytes: 1 << 20,
        links: [link.clone(), link],
        ..Transfer::default()
    }
    .run()?;
    println!(
        "{:016x} {} events {:?}",
        outcome.trace_hash, outcome.events, outcome.duration
    );
    Ok(())
}
