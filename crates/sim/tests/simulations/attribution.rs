//! Every mechanism of the send path makes bytes wait, and the attribution says which: in each
//! scenario one cause dominates, and with its mechanism switched off another does.

use crate::common::{Fixed, MSS, long_wire, ms, run_watched};
use tautline_base::{Bytes, Rate};
use tautline_bql::LimitKind;
use tautline_sim::transfer::SENDER;
use tautline_sim::{NicConfig, RingLimit, Transfer};
use tautline_stack::attribution::{Attribution, Cause};
use tautline_stack::{Pacing, TcpConfig, TsqLimit};

const BYTES: u64 = 1 << 20;

/// Nothing above the qdisc limits the sender, and the NIC is the bottleneck. (The window in a SYN
/// is never scaled: for a round trip the peer's window allows 64 KiB.)
fn free() -> Transfer {
    let sender = TcpConfig {
        congestion: Fixed {
            cwnd: Bytes::mib(64),
            pacing_rate: Rate::MAX,
        }
        .factory(),
        pacing: Pacing::Off,
        tsq: TsqLimit::Off,
        attribution: true,
        ..TcpConfig::default()
    };
    let receiver = TcpConfig {
        receive_start: Bytes::mib(6),
        ..TcpConfig::default()
    };
    let nic = NicConfig {
        rate: Rate::mbit(100),
        ..NicConfig::default()
    };
    let qdisc = "pfifo limit 10000".parse().expect("valid");
    Transfer {
        bytes: BYTES,
        links: long_wire(ms(4)),
        nic,
        qdisc,
        sender,
        receiver,
        ..Transfer::default()
    }
}

/// Where the sender's bytes waited, at the end of a transfer.
#[track_caller]
fn attribution(transfer: &Transfer) -> Attribution {
    let mut last = None;
    run_watched(transfer, |network| {
        let end = network.endpoint(SENDER);
        if let Some((_, socket)) = end.apps.sockets().next()
            && let Some(found) = end.host.attribution(socket)
        {
            last = Some(found.clone());
        }
    });
    last.expect("the connection keeps account")
}

/// The cause that bytes waited longest for on average.
fn dominant(attribution: &Attribution) -> Cause {
    Cause::OF_BYTES
        .into_iter()
        .max_by_key(|cause| attribution.waits(*cause).mean())
        .expect("there are causes")
}

/// `cause` dominates in `with`, by three times any other, and not in `without`.
#[track_caller]
fn shows(cause: Cause, with: &Transfer, without: &Transfer) {
    let (with, without) = (attribution(with), attribution(without));
    println!("with:\n{with}\nwithout:\n{without}");
    assert_eq!(dominant(&with), cause, "{with}");
    for other in Cause::OF_BYTES
        .into_iter()
        .filter(|other| *other != cause && *other != Cause::Handshake)
    {
        assert!(
            with.waits(cause).mean() > 3 * with.waits(other).mean(),
            "{other}\n{with}"
        );
    }
    assert_ne!(dominant(&without), cause, "{without}");
    assert!(
        without.waits(cause).mean() < with.waits(cause).mean() / 10,
        "{with}\n{without}"
    );
    for sender in [Cause::Cwnd, Cause::Tsq, Cause::Host] {
        assert_eq!(with.waits(sender).bytes(), BYTES, "every byte counts once");
    }
}

#[test]
fn the_congestion_window() {
    let mut narrow = free();
    narrow.sender.congestion = Fixed {
        cwnd: Bytes::new(10 * MSS),
        pacing_rate: Rate::MAX,
    }
    .factory();
    shows(Cause::Cwnd, &narrow, &free());
}

#[test]
fn the_window_of_the_peer() {
    let mut narrow = free();
    narrow.receiver.receive_buffer = Bytes::new(20_000);
    narrow.receiver.receive_start = Bytes::new(20_000);
    shows(Cause::PeerWindow, &narrow, &free());
}

/// 1 ms of the NIC's rate may wait below the socket.
fn with_small_queues() -> Transfer {
    let mut small = free();
    small.sender.tsq = TsqLimit::millis(1);
    small.sender.congestion = Fixed {
        cwnd: Bytes::mib(64),
        pacing_rate: Rate::mbit(100),
    }
    .factory();
    small
}

#[test]
fn small_queues() {
    shows(Cause::Tsq, &with_small_queues(), &free());
}

#[test]
fn the_pacer_of_the_connection() {
    let paced = |pacing| {
        let mut transfer = free();
        transfer.sender.congestion = Fixed {
            cwnd: Bytes::mib(64),
            pacing_rate: Rate::mbit(20),
        }
        .factory();
        transfer.sender.pacing = pacing;
        transfer
    };
    shows(Cause::Pacer, &paced(Pacing::Internal), &paced(Pacing::Off));
}

/// Stamped packets wait in the qdisc, but for the pacer.
#[test]
fn the_pacer_in_the_discipline() {
    let paced = |pacing| {
        let mut transfer = free();
        transfer.sender.congestion = Fixed {
            cwnd: Bytes::mib(64),
            pacing_rate: Rate::mbit(20),
        }
        .factory();
        transfer.sender.pacing = pacing;
        transfer.qdisc = "fq limit 10000 flow_limit 10000".parse().expect("valid");
        transfer
    };
    shows(Cause::Pacer, &paced(Pacing::Qdisc), &paced(Pacing::Off));
}

#[test]
fn the_discipline() {
    shows(Cause::Qdisc, &free(), &with_small_queues());
}

#[test]
fn the_ring() {
    let mut deep = free();
    deep.ring_limit = RingLimit::Device(LimitKind::Unlimited);
    deep.nic.tx_ring = 4096;
    shows(Cause::Ring, &deep, &free());
}

#[test]
fn frames_of_the_host() {
    let mut few = free();
    few.frames = 8;
    shows(Cause::Host, &few, &free());
}
