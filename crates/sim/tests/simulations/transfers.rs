//! A stream arrives equal whatever the link does to it, nothing is left behind, and the same seed
//! gives the same packets.

use std::process::Command;
use std::time::Duration;

use crate::common::{impaired, long_wire, ms, path, percent, run, run_if_found, run_recorded};
use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Rate, Reason};
use tautline_cc::Algorithm;
use tautline_sim::record::Fate;
use tautline_sim::{
    Capture, CaptureConfig, Family, Impairments, LinkConfig, NicConfig, Outcome, PacketTrace,
    SimErrorKind, Transfer, TransferError,
};
use tautline_stack::TcpConfig;
use tautline_tc::Kind;

/// Loss 1 %, reorder 2 %, duplicate 1 %, corrupt 1 %, each way.
fn impairments() -> Impairments {
    Impairments {
        loss: percent(1.0),
        reorder: percent(2.0),
        duplicate: percent(1.0),
        corrupt: percent(1.0),
        ..Impairments::default()
    }
}

#[test]
fn the_same_seed_gives_the_same_packets_and_another_does_not() {
    let run = |seed| {
        run(&impaired(
            Transfer {
                seed,
                bytes: 1 << 20,
                links: path(50, ms(10)),
                ..Transfer::default()
            },
            impairments(),
        ))
    };
    let (first, second, other) = (run(7), run(7), run(8));
    assert_eq!(
        (first.trace_hash, first.events),
        (second.trace_hash, second.events)
    );
    assert_eq!(
        (first.duration, &first.wakes, first.polls),
        (second.duration, &second.wakes, second.polls)
    );
    assert_ne!(first.trace_hash, other.trace_hash);
}

#[test]
fn recording_changes_nothing() {
    let transfer = impaired(
        Transfer {
            bytes: 300_000,
            links: path(50, ms(10)),
            ..Transfer::default()
        },
        impairments(),
    );
    let capture = Capture::new(Vec::new(), CaptureConfig::default()).expect("memory");
    let (recorded, (trace, capture)) = run_recorded(&transfer, (PacketTrace::new(), capture));
    assert_eq!(recorded.trace_hash, run(&transfer).trace_hash);
    assert!(
        capture.finish().expect("memory").len() as u64 > 300_000 * 5,
        "several tap points saw every byte"
    );
    assert_eq!(trace.pending(), 0);
    assert_eq!(trace.records().len() as u64, recorded.packets());
    for packet in trace.records() {
        let Fate::Completed(completed) = packet.fate else {
            panic!("nothing here drops inside a host: {packet:?}")
        };
        let walk = [
            Some(packet.born),
            packet.queued,
            packet.ringed,
            Some(completed),
        ];
        assert!(
            walk.iter().all(Option::is_some) && walk.is_sorted(),
            "{packet:?}"
        );
    }
}

/// Wireshark, which knows nothing of us, finds every frame that a host sends well-formed, with
/// right checksums.
#[test]
fn tshark_finds_no_fault_in_what_is_sent() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let pcapng =
        std::env::temp_dir().join(format!("tautline-transfer-{}.pcapng", std::process::id()));
    let file = std::io::BufWriter::new(std::fs::File::create(&pcapng).expect("a temporary file"));
    let capture = Capture::new(file, CaptureConfig::default()).expect("a temporary file");
    let transfer = impaired(
        Transfer {
            bytes: 100_000,
            links: path(50, ms(10)),
            ..Transfer::default()
        },
        impairments(),
    );
    let (outcome, capture) = run_recorded(&transfer, capture);
    drop(capture.finish().expect("written"));
    let count = |filter: &str| {
        let checks = [
            "-o",
            "tcp.check_checksum:TRUE",
            "-o",
            "ip.check_checksum:TRUE",
            "-Y",
            filter,
        ];
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&pcapng)
            .args(checks)
            .output()
            .expect("tshark runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64
    };
    let ring = r#"frame.interface_name contains ":ring""#;
    let sent = count(ring);
    let bad = count(&format!(
        "{ring} && (tcp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed)"
    ));
    let arrived_bad = count(
        r#"frame.interface_name contains ":received" && (tcp.checksum.status == 0 || ip.checksum.status == 0)"#,
    );
    let _ = std::fs::remove_file(&pcapng);
    assert_eq!((sent, bad), (outcome.packets(), 0));
    assert!(
        arrived_bad > 0,
        "the filter sees the frames that the link damaged"
    );
}

#[test]
fn streams_survive_impairments_on_a_grid_of_seeds_and_paths() {
    for algorithm in Algorithm::ALL {
        for (mbit, rtt, bytes) in [
            (10, ms(1), 400_000),
            (50, ms(20), 1 << 20),
            (1000, ms(5), 1 << 20),
            (100, ms(200), 200_000),
        ] {
            for seed in 1..=4 {
                let sender = TcpConfig {
                    congestion: algorithm.factory(),
                    ..TcpConfig::default()
                };
                let transfer = Transfer {
                    seed,
                    bytes,
                    links: path(mbit, rtt),
                    sender,
                    ..Transfer::default()
                };
                let outcome = run(&impaired(transfer, impairments()));
                assert!(
                    outcome.sender.retransmits > 0,
                    "SEED={seed}: nothing was lost"
                );
                for (host, link) in outcome.hosts.iter().zip(outcome.links.iter().rev()) {
                    assert_eq!(
                        host.bad_checksum + host.malformed,
                        link.corrupted,
                        "SEED={seed}: every flipped bit is caught"
                    );
                }
            }
        }
    }
}

/// The same over IPv6, whose headers have no checksum of their own: bits that flip there are the
/// link's business.
#[test]
fn streams_over_ipv6_survive_impairments() {
    let impairments = Impairments {
        corrupt: percent(0.0),
        ..impairments()
    };
    let mut retransmits = 0;
    for (mbit, rtt, bytes) in [
        (10, ms(1), 400_000),
        (50, ms(20), 1 << 20),
        (100, ms(200), 200_000),
    ] {
        for seed in 1..=4 {
            let transfer = Transfer {
                seed,
                family: Family::Ipv6,
                bytes,
                links: path(mbit, rtt),
                ..Transfer::default()
            };
            let outcome = run(&impaired(transfer, impairments));
            assert!(outcome.content_equal, "SEED={seed}");
            retransmits += outcome.sender.retransmits;
            assert_eq!(outcome.sender.mss.get(), 1500 - 60 - 12);
        }
    }
    assert!(retransmits > 50, "{retransmits}");
}

/// A qdisc of the host's own that doubles packets: what it bears comes to rest with the rest.
#[test]
fn a_discipline_may_double_packets() {
    let qdisc: Kind = "netem delay 1ms duplicate 20%".parse().expect("valid");
    let transfer = Transfer {
        bytes: 300_000,
        qdisc,
        links: path(50, ms(20)),
        ..Transfer::default()
    };
    let outcome = transfer.run().expect("it comes to its end");
    assert!(
        outcome.content_equal && outcome.outstanding == 0,
        "{} frames outstanding",
        outcome.outstanding
    );
    let [host, _] = outcome.hosts;
    let ended = host.completed + host.dropped;
    assert!(
        ended > host.births * 11 / 10,
        "{ended} ends of {} births",
        host.births
    );
}

/// One impairment at a time, and a lot of it.
#[test]
fn streams_survive_each_impairment_alone() {
    let none = Impairments::default();
    let (loss, duplicate, corrupt) = (percent(10.0), percent(30.0), percent(10.0));
    let cases = [
        ("loss", Impairments { loss, ..none }),
        ("duplicate", Impairments { duplicate, ..none }),
        ("corrupt", Impairments { corrupt, ..none }),
        (
            "reorder",
            Impairments {
                reorder: percent(30.0),
                reorder_delay: ms(30),
                ..none
            },
        ),
    ];
    for (name, impair) in cases {
        for seed in 1..=5 {
            let transfer = Transfer {
                seed,
                bytes: 300_000,
                links: path(50, ms(20)),
                ..Transfer::default()
            };
            let outcome = run(&impaired(transfer, impair));
            println!(
                "{name} SEED={seed}: {:?}, {} retransmits",
                outcome.duration, outcome.sender.retransmits
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any path, any size, any random draws.
    #[test]
    fn any_stream_over_any_path(
        seed: u64,
        bytes in 0..200_000u64,
        mbit in 1..1000u64,
        rtt_us in 0..100_000u64,
        impairments in prop::array::uniform4(0.0..8.0f64),
        qdisc in prop::sample::select(vec!["pfifo limit 20", "pfifo_fast", "codel limit 100", "fq_codel", "fq_codel limit 5 flows 4"]),
        ring in 1..64usize,
        reads_from in 0..3_000u64,
    ) {
        let [loss, duplicate, corrupt, reorder] = impairments.map(percent);
        let impair = Impairments { loss, duplicate, corrupt, reorder, reorder_delay: Duration::from_micros(rtt_us / 3) };
        let transfer = Transfer {
            seed,
            bytes,
            links: path(mbit, Duration::from_micros(rtt_us)),
            nic: NicConfig { tx_ring: ring, ..NicConfig::default() },
            qdisc: qdisc.parse().expect("valid"),
            frames: 300,
            reads_from: Instant::from_millis(reads_from),
            ..Transfer::default()
        };
        // Every case must carry its stream: who found nobody by bad random draws tries again with other
        // random draws, a lossless path never has to.
        let transfer = impaired(transfer, impair);
        let tries = if impairments[0] + impairments[2] > 1.0 { 5 } else { 1 };
        let again = |more| Transfer { seed: seed.wrapping_add(more), ..transfer.clone() };
        prop_assert!((0..tries).any(|more| run_if_found(&again(more)).is_some()), "nobody was found {tries} times");
    }
}

#[test]
fn an_empty_stream_and_a_single_byte_arrive() {
    for bytes in [0, 1] {
        let outcome = run(&Transfer {
            bytes,
            links: path(10, ms(10)),
            ..Transfer::default()
        });
        assert!(outcome.duration < ms(50), "{:?}", outcome.duration);
    }
}

/// Hosts are woken by what arrives, by interrupts, and by few timers of their own; never in
/// circles.
#[test]
fn wakes_per_packet_are_bounded() {
    let bulk = run(&Transfer {
        bytes: 16 << 20,
        links: path(100, ms(20)),
        ..Transfer::default()
    });
    let inputs = |reason| bulk.wakes.get(&reason).copied().unwrap_or(0);
    let timers = bulk.wakes_total() - inputs(Reason::Link) - inputs(Reason::Reap);
    println!(
        "bulk: {} packets, {:?}, {} polls",
        bulk.packets(),
        bulk.wakes,
        bulk.polls
    );
    assert!(
        bulk.wakes_total() <= 2 * bulk.packets(),
        "an arrival and a completion each, no more"
    );
    assert!(
        timers * 4 <= bulk.packets(),
        "{timers} timer wakes for {} packets",
        bulk.packets()
    );
    assert!(
        bulk.polls * 2 <= 3 * bulk.wakes_total(),
        "{} polls",
        bulk.polls
    );

    let ping = run(&Transfer {
        bytes: 1,
        links: path(10, ms(10)),
        ..Transfer::default()
    });
    println!("ping: {} packets, {:?}", ping.packets(), ping.wakes);
    assert!(
        ping.wakes_total() <= 3 * ping.packets() + 4,
        "{:?} for {} packets",
        ping.wakes,
        ping.packets()
    );
}

/// A reader that is away for a quarter of an hour costs a handful of probes.
#[test]
fn waiting_costs_nothing() {
    // A window that grows only where somebody reads would make the two runs differ in more than the
    // waiting.
    let receiver = TcpConfig {
        receive_start: Bytes::mib(6),
        ..TcpConfig::default()
    };
    let (reads_from, links) = (Instant::from_secs(900), long_wire(ms(20)));
    let away = Transfer {
        reads_from,
        bytes: 8 << 20,
        links,
        receiver,
        ..Transfer::default()
    };
    let (away, here) = (
        run(&away),
        run(&Transfer {
            reads_from: Instant::ZERO,
            ..away.clone()
        }),
    );
    assert!(away.duration > Duration::from_secs(900));
    // The window opens anew after the silence, in other bursts than without it: pacing and
    // completions are not part of its cost.
    let cost = |outcome: &Outcome| {
        outcome
            .wakes
            .iter()
            .filter(|(why, _)| !matches!(why, Reason::Pacing | Reason::Reap))
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    assert!(
        cost(&away) < cost(&here) + 100,
        "{:?} against {:?}",
        away.wakes,
        here.wakes
    );
}

#[test]
fn a_dead_link_ends_in_an_error_that_names_the_seed() {
    let dead = Impairments {
        loss: percent(100.0),
        ..Impairments::default()
    };
    let transfer = impaired(
        Transfer {
            seed: 42,
            links: path(10, ms(10)),
            ..Transfer::default()
        },
        dead,
    );
    let error = transfer.run().expect_err("nothing arrives");
    let TransferError::Simulation(stall) = &error else {
        panic!("{error}")
    };
    assert_eq!(stall.kind, SimErrorKind::Failed { host: 0 });
    assert!(error.to_string().contains("SEED=42"), "{error}");
}

#[test]
fn a_transfer_that_takes_too_long_is_stopped() {
    let transfer = Transfer {
        limit: ms(100),
        ..Transfer {
            bytes: 1 << 30,
            links: path(10, ms(10)),
            ..Transfer::default()
        }
    };
    let Err(TransferError::Simulation(stall)) = transfer.run() else {
        panic!("1 GiB at 10 Mbit/s is not done in 100 ms")
    };
    assert_eq!(stall.kind, SimErrorKind::TimeLimit);
    assert!(stall.at <= Instant::from_millis(100));
}

#[test]
fn bad_parameters_are_refused() {
    let nic = NicConfig {
        rate: Rate::ZERO,
        ..NicConfig::default()
    };
    let error = Transfer {
        nic,
        ..Transfer::default()
    }
    .run()
    .expect_err("a card without a rate");
    assert!(error.to_string().contains("`rate`"), "{error}");
}

/// Episodes of real losses follow one another so closely that what one sent again is acknowledged
/// in the next. Nothing overtakes anything here, so nothing may be taken for spurious (Linux loses
/// an eighth of what a stack loses that believes it).
#[test]
fn losses_of_a_full_queue_are_never_called_spurious() {
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        let bottleneck = LinkConfig {
            rate: Rate::mbit(10),
            queue: "codel".parse().expect("valid"),
            ..LinkConfig::default()
        };
        let links = [
            bottleneck,
            LinkConfig {
                delay: ms(100),
                ..LinkConfig::default()
            },
        ];
        let sender = TcpConfig {
            congestion: congestion.factory(),
            ..TcpConfig::default()
        };
        let outcome = run(&Transfer {
            bytes: 6 << 20,
            links,
            sender,
            ..Transfer::default()
        });
        assert!(
            outcome.sender.retransmits > 20,
            "{congestion}: {} lost",
            outcome.sender.retransmits
        );
        assert_eq!(outcome.sender.spurious, 0, "{congestion}");
    }
}
