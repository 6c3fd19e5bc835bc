//! Explicit congestion notification, written as traces: one end is the host under test, the other
//! one the test plays segment by segment; or both ends are ours, and the wire marks, bleaches or
//! clears.
//!
//! | module | follows |
//! |---|---|
//! | [`negotiation`] | RFC 3168 §6.1.1 |
//! | [`classic`] | RFC 3168 §6.1.2–6.1.5 |
//! | [`exact`] | RFC 8257 §3.2 |
//! | [`accurate`] | RFC 9768 |
//! | [`wire`] | both ends ours: marks, bleaching, cleared flags, lost announcements |

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;

#[path = "../hostile/peer.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of hostile peers, which use another part of it"
)]
mod peer;

mod accurate;
mod classic;
mod controller;
mod exact;
mod negotiation;
mod wire;

use std::net::SocketAddrV4;
use std::time::Duration;

use tautline_stack::{EcnMode, Pacing, TcpConfig};

use pair::address;
use peer::*;

/// Payload of a full segment.
const MSS: u32 = 1000;

fn config(ecn: EcnMode) -> TcpConfig {
    TcpConfig {
        ecn,
        pacing: Pacing::Off,
        nagle: false,
        ..TcpConfig::default()
    }
}

fn options() -> Vec<u8> {
    [mss(MSS as u16), sack_permitted()].concat()
}

/// The peer opens with a SYN of `flags` in a packet of codepoint `ecn`; its last word of the
/// handshake has `ack_flags`. The peer and the SYN-ACK.
fn opened_by_peer(config: TcpConfig, flags: u16, ecn: u8, ack_flags: u16) -> (Peer, Segment) {
    let mut peer = Peer::stranger(config);
    let syn = Segment {
        flags: SYN | flags,
        seq: ISN,
        ack: 0,
        options: options(),
        ecn,
        ..peer.ack()
    };
    let answers = peer.send(&syn);
    let [answer] = &answers[..] else {
        panic!("one SYN-ACK, not {answers:?}")
    };
    peer.host_isn = answer.seq;
    peer.send(&Segment {
        flags: ACK | ack_flags,
        ..peer.ack()
    });
    peer.socket = peer.accepted().expect("the handshake is complete");
    (peer, answer.clone())
}

/// The host begins to open; its SYN.
fn opening(config: TcpConfig) -> (Peer, Segment) {
    let mut peer = Peer::stranger(config.clone());
    let remote = SocketAddrV4::new(address(1 - HOST), PEER_PORT);
    peer.socket = peer.pair.hosts[HOST]
        .connect(remote, config, peer.pair.now)
        .expect("the address is good");
    let seen = peer.run_for(Duration::from_millis(20));
    let [syn] = &seen[..] else {
        panic!("one SYN, not {seen:?}")
    };
    (peer.port, peer.host_isn) = (syn.source_port, syn.seq);
    (peer, syn.clone())
}

/// The peer's SYN-ACK with `flags` in a packet of codepoint `ecn`; the host's answer.
fn syn_ack(peer: &mut Peer, flags: u16, ecn: u8) -> Segment {
    let segment = Segment {
        flags: SYN | ACK | flags,
        seq: ISN,
        options: options(),
        ecn,
        ..peer.ack()
    };
    let answers = peer.send(&segment);
    let [answer] = &answers[..] else {
        panic!("one acknowledgment, not {answers:?}")
    };
    answer.clone()
}

/// A connection that the host asked for and that agreed to classic ECN.
fn classic(config: TcpConfig) -> Peer {
    let (mut peer, syn) = opening(config);
    assert_eq!(syn.flags, SYN | ECE | CWR);
    assert_eq!(syn_ack(&mut peer, ECE, 0).flags, ACK);
    peer
}

/// The segments that carry payload.
fn data(segments: &[Segment]) -> Vec<&Segment> {
    segments
        .iter()
        .filter(|segment| !segment.payload.is_empty())
        .collect()
}
