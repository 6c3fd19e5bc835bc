//! Reordering without loss: RACK's window waits for what is late.

use crate::common::{impaired, long_wire, ms, path, percent, run, wide};
use tautline_sim::{Impairments, Outcome, Transfer};
use tautline_stack::{LossRecovery, Reordering, TcpConfig};

/// Which segments are late decides much of a single run.
const SEEDS: u64 = 5;

fn reordered(share: f64, reordering: Reordering, seed: u64) -> Outcome {
    let loss_recovery = LossRecovery {
        reordering,
        ..LossRecovery::default()
    };
    let sender = TcpConfig {
        loss_recovery,
        ..TcpConfig::default()
    };
    let [there, _] = path(50, ms(20));
    let [_, back] = long_wire(ms(20));
    let impair = Impairments {
        reorder: percent(share),
        reorder_delay: ms(4),
        ..Impairments::default()
    };
    let links = [there, back];
    let transfer = Transfer {
        seed,
        bytes: 32 << 20,
        links,
        sender,
        receiver: wide(),
        ..Transfer::default()
    };
    run(&impaired(transfer, impair))
}

/// The effect: one segment in ten comes 4 ms late on a path of 20 ms.
#[test]
fn a_tenth_of_the_segments_late_costs_less_than_a_twentieth() {
    let [clean, waits, ignores] = [
        (0.0, Reordering::Adaptive),
        (10.0, Reordering::Adaptive),
        (10.0, Reordering::Ignored),
    ]
    .map(|(share, policy)| {
        let goodputs = (1..=SEEDS).map(|seed| {
            let outcome = reordered(share, policy, seed);
            println!(
                "{share} % {policy:?}, seed {seed}: {} {} again",
                outcome.goodput, outcome.sender.retransmits
            );
            outcome.goodput.as_bits_per_sec() as f64
        });
        goodputs.sum::<f64>() / SEEDS as f64
    });
    assert!(waits > clean * 0.95, "{waits} of {clean}");
    assert!(ignores < clean * 0.8, "{ignores} of {clean}");
}
