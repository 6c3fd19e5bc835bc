//! With a NIC that cuts packets of several segments itself, far fewer are born, and the wire sees
//! the same stream.

use crate::common::{
    FRAME, Fixed, MSS, impaired, long_wire, ms, path, percent, run, run_if_found, run_recorded,
    run_watched, sender_info,
};
use proptest::prelude::*;
use tautline_base::{Bytes, Rate, Tso};
use tautline_cc::Algorithm;
use tautline_sim::record::Fate;
use tautline_sim::transfer::SENDER;
use tautline_sim::{Family, Impairments, NicConfig, Outcome, PacketTrace, Transfer};
use tautline_stack::{TcpConfig, TsqLimit};

fn nic(tso: Option<Tso>, rate: Rate) -> NicConfig {
    NicConfig {
        rate,
        tso,
        ..NicConfig::default()
    }
}

fn fixed(cwnd: Bytes, pacing_rate: Rate) -> TcpConfig {
    TcpConfig {
        congestion: Fixed { cwnd, pacing_rate }.factory(),
        ..TcpConfig::default()
    }
}

/// How many segments each packet with data has, in the order of their births.
fn packets(transfer: &Transfer) -> (Outcome, Vec<u64>) {
    let (outcome, trace) = run_recorded(transfer, PacketTrace::new());
    let records = trace
        .records()
        .iter()
        .filter(|record| record.host == SENDER && u64::from(record.len) > FRAME / 2);
    assert!(
        trace
            .records()
            .iter()
            .all(|record| matches!(record.fate, Fate::Completed(_)))
    );
    (
        outcome,
        records
            .map(|record| (u64::from(record.len) - (FRAME - MSS)).div_ceil(MSS))
            .collect(),
    )
}

/// `net/ipv4/tcp_output.c` `tcp_tso_autosize`: what a rate carries in 1/1024 s, and two segments at least; over 40 ms
/// nearness adds nothing.
#[test]
fn a_packet_has_what_the_pacing_rate_carries_in_a_millisecond() {
    for (mbit, segments) in [(10, 2), (100, 8), (1000, 45)] {
        let sender = fixed(Bytes::mib(8), Rate::mbit(mbit));
        let transfer = |tso| Transfer {
            bytes: 900 * MSS,
            links: long_wire(ms(40)),
            nic: nic(tso, Rate::gbit(10)),
            sender: sender.clone(),
            receiver: TcpConfig {
                receive_start: Bytes::mib(6),
                ..TcpConfig::default()
            },
            ..Transfer::default()
        };
        let ((with, sizes), (without, singles)) = (
            packets(&transfer(Some(Tso::MOST))),
            packets(&transfer(None)),
        );
        // What the application has written when the connection opens, and the end of the stream,
        // may be less.
        let whole = sizes.iter().filter(|size| **size == segments).count();
        assert!(
            sizes.iter().all(|size| *size <= segments),
            "{mbit} Mbit/s: {sizes:?}"
        );
        assert!(
            whole as u64 * segments > 900 * 9 / 10,
            "{mbit} Mbit/s: {sizes:?}"
        );
        assert!(singles.iter().all(|size| *size == 1) && singles.len() == 900);
        let frames = [&with, &without].map(|outcome| outcome.nics[SENDER].tx_frames);
        assert_eq!(frames[0], frames[1], "the wire sees the same segments");
        assert_eq!(
            with.sender.data_segments_out,
            without.sender.data_segments_out
        );
    }
}

/// On a short path they may have more than that, unless the profile is of a kernel before 5.18.
#[test]
fn on_a_short_path_packets_are_larger_where_the_round_trip_counts() {
    let largest = |tso_rtt_log| {
        let transfer = Transfer {
            bytes: 900 * MSS,
            links: long_wire(ms(1)),
            nic: nic(Some(Tso::MOST), Rate::gbit(10)),
            sender: TcpConfig {
                tso_rtt_log,
                ..fixed(Bytes::mib(8), Rate::mbit(10))
            },
            ..Transfer::default()
        };
        packets(&transfer).1.into_iter().max()
    };
    let (with, without) = (largest(TcpConfig::default().tso_rtt_log), largest(0));
    assert!(
        with > Some(4) && without == Some(2),
        "{with:?}, {without:?}"
    );
}

/// At the rate of the link the stream takes the same time, and the limits that count bytes see the
/// same ones.
#[test]
fn fewer_births_carry_the_same_stream() {
    let run = |tso| {
        run(&Transfer {
            bytes: 4 << 20,
            links: path(100, ms(10)),
            nic: nic(tso, Rate::gbit(1)),
            ..Transfer::default()
        })
    };
    let (with, without) = (run(Some(Tso::MOST)), run(None));
    let births = |outcome: &Outcome| outcome.hosts[SENDER].births;
    println!(
        "births {} against {}, {} against {}",
        births(&with),
        births(&without),
        with.goodput,
        without.goodput
    );
    assert!(births(&with) * 3 < births(&without));
    assert!(
        with.goodput >= without.goodput.percent(98),
        "{} against {}",
        with.goodput,
        without.goodput
    );
    let queued = [&with, &without].map(|outcome| outcome.queues[SENDER].enqueued.bytes.get());
    assert!(
        queued[0].abs_diff(queued[1]) < queued[1] / 50,
        "disciplines count the headers of each segment: {queued:?}"
    );
}

/// Never more in flight than the window, and never more than half of it in one packet.
#[test]
fn windows_hold_packets_of_several_segments_too() {
    let cwnd = Bytes::new(11 * MSS);
    let sender = TcpConfig {
        tsq: TsqLimit::Off,
        ..fixed(cwnd, Rate::gbit(10))
    };
    let nic = nic(Some(Tso::MOST), Rate::gbit(10));
    let transfer = Transfer {
        bytes: 400_000,
        links: long_wire(ms(10)),
        nic,
        sender,
        ..Transfer::default()
    };
    let (_, sizes) = packets(&transfer);
    assert!(
        sizes.iter().all(|size| *size <= 5) && sizes.contains(&5),
        "{sizes:?}"
    );
    let mut most = 0;
    run_watched(&transfer, |network| {
        let info = sender_info(network);
        most = info.map_or(0, |info| info.in_flight.get()).max(most);
    });
    assert!(most <= cwnd.get() && most > 9 * MSS, "{most}");
}

/// A hole in the middle of a packet is repaired, and nothing else of it.
#[test]
fn only_lost_segments_are_sent_again() {
    let sender = fixed(Bytes::new(200 * MSS), Rate::gbit(1));
    let nic = nic(Some(Tso::MOST), Rate::gbit(10));
    let transfer = Transfer {
        bytes: 4 << 20,
        links: long_wire(ms(10)),
        nic,
        sender,
        ..Transfer::default()
    };
    let links = transfer.links.clone();
    let mut transfer = impaired(
        transfer,
        Impairments {
            loss: percent(0.5),
            ..Impairments::default()
        },
    );
    transfer.links[1] = links[1].clone();
    let outcome = run_if_found(&transfer).expect("this seed finds its peer");
    let lost = outcome.links[SENDER].lost;
    println!("{lost} lost, {} sent again", outcome.sender.retransmits);
    assert!(
        lost >= 10 && outcome.sender.retransmits <= lost + 1,
        "{lost} lost, {} sent again",
        outcome.sender.retransmits
    );
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let impairments = Impairments {
        loss: percent(1.0),
        reorder: percent(2.0),
        ..Impairments::default()
    };
    let run = |seed, tso| {
        let nic = nic(tso, Rate::gbit(1));
        run(&impaired(
            Transfer {
                seed,
                bytes: 1 << 20,
                links: path(50, ms(10)),
                nic,
                ..Transfer::default()
            },
            impairments,
        ))
    };
    let (first, second) = (run(7, Some(Tso::MOST)), run(7, Some(Tso::MOST)));
    assert_eq!(
        (first.trace_hash, first.events, first.duration),
        (second.trace_hash, second.events, second.duration)
    );
    assert_ne!(first.trace_hash, run(7, None).trace_hash);
}

/// Qdiscs that split packets of several segments, by configuration or because these do not fit,
/// lose nothing.
#[test]
fn qdiscs_take_them_whole_or_split_them() {
    for (words, splits) in [
        ("fq", false),
        ("sfq", false),
        ("pfifo_fast", false),
        ("cake bandwidth 80mbit no-split-gso", false),
        ("cake bandwidth 80mbit", true),
        ("cake unlimited", true),
        ("dualpi2", true),
        ("tbf rate 80mbit burst 5000 limit 500000", true),
        ("tbf rate 80mbit burst 100000 limit 500000", false),
    ] {
        let nic = nic(Some(Tso::MOST), Rate::gbit(1));
        let qdisc = words.parse().expect(words);
        let mut split = false;
        let transfer = Transfer {
            bytes: 2 << 20,
            links: long_wire(ms(4)),
            nic,
            qdisc,
            ..Transfer::default()
        };
        let outcome = transfer
            .run()
            .unwrap_or_else(|error| panic!("{words}: {error}"));
        let (packets, births) = (
            outcome.nics[SENDER].tx_packets,
            outcome.hosts[SENDER].births,
        );
        split |= packets > births;
        println!(
            "{words}: {births} births, {packets} packets, {} frames, {}",
            outcome.nics[0].tx_frames, outcome.goodput
        );
        assert!(outcome.content_equal && outcome.outstanding == 0, "{words}");
        assert_eq!(split, splits, "{words}");
        assert!(births * 2 < outcome.nics[SENDER].tx_frames, "{words}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any loss, reordering, duplication and size of packets, the stream arrives and nothing is
    /// left behind.
    #[test]
    fn streams_survive(
        seed: u64,
        (max_size, max_segments) in (1500u16.., 1u16..100),
        (loss, reorder, duplicate) in (0.0..4.0, 0.0..4.0, 0.0..2.0),
        (mbit, rtt) in (5u64..500, 1u64..60),
        ipv6: bool,
        algorithm in 0..Algorithm::ALL.len(),
        bytes in 1u64..600_000,
    ) {
        let nic = nic(Some(Tso { max_size, max_segments }), Rate::gbit(1));
        let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
        let sender = TcpConfig { congestion: Algorithm::ALL[algorithm].factory(), ..TcpConfig::default() };
        let transfer = Transfer { seed, family, bytes, links: path(mbit, ms(rtt)), nic, sender, ..Transfer::default() };
        let impairments = Impairments {
            loss: percent(loss),
            reorder: percent(reorder),
            duplicate: percent(duplicate),
            ..Impairments::default()
        };
        run_if_found(&impaired(transfer, impairments));
    }
}
