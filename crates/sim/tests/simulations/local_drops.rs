//! A sender whose own qdisc refuses packets: it waits for room instead of trying again at the
//! same instant.

use crate::common::{ms, path};
use tautline_base::Rate;
use tautline_sim::{NicConfig, Transfer};
use tautline_stack::{LocalDropReporting, Pacing, TcpConfig, TsqLimit};

/// 100 Mbit/s at the sender's own NIC, below a qdisc of `limit` packets, with nothing that holds
/// TCP back.
fn crowded(limit: u32, local_drop_reporting: LocalDropReporting, seed: u64) -> Transfer {
    Transfer {
        seed,
        bytes: 2 << 20,
        links: path(1000, ms(20)),
        nic: NicConfig {
            rate: Rate::mbit(100),
            ..NicConfig::default()
        },
        qdisc: format!("pfifo limit {limit}").parse().expect("valid words"),
        sender: TcpConfig {
            pacing: Pacing::Off,
            tsq: TsqLimit::Off,
            local_drop_reporting,
            ..TcpConfig::default()
        },
        ..Transfer::default()
    }
}

#[test]
fn refused_packets_are_sent_again_when_there_is_room() {
    for (limit, seed) in [(3, 1), (20, 2), (100, 3)] {
        for local_drop_reporting in [
            LocalDropReporting::Nothing,
            LocalDropReporting::Enqueue,
            LocalDropReporting::Everything,
        ] {
            let outcome = crowded(limit, local_drop_reporting, seed)
                .run()
                .unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
            assert!(
                outcome.content_equal && outcome.outstanding == 0,
                "SEED={seed}"
            );
            assert!(
                outcome.queues[0].drops() > 0,
                "SEED={seed}: the discipline was never full"
            );
            if local_drop_reporting != LocalDropReporting::Nothing {
                assert!(
                    outcome.sender.local_drops > 0,
                    "SEED={seed}: the connection was not told"
                );
            }
        }
    }
}

#[test]
fn being_told_spares_drops() {
    let drops = |local_drop_reporting| {
        crowded(20, local_drop_reporting, 7)
            .run()
            .expect("it arrives")
            .queues[0]
            .drops()
    };
    let (told, untold) = (
        drops(LocalDropReporting::Enqueue),
        drops(LocalDropReporting::Nothing),
    );
    assert!(told < untold, "told of drops: {told}, not told: {untold}");
}
