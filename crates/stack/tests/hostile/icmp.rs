//! ICMP errors of somebody who guesses, and floods that would have us answer (RFC 5927, RFC 5461;
//! row 18).

use std::net::Ipv4Addr;
use std::time::Duration;

use tautline_stack::{CloseReason, PathError, TcpConfig};

use crate::pair::{Pair, address};
use crate::peer::*;

const ICMP: u8 = 1;
/// Ports of an ICMP error, and the error's kinds.
const HOST_UNREACHABLE: (u8, u8) = (3, 1);
const PORT_UNREACHABLE: (u8, u8) = (3, 3);
const TOO_BIG: (u8, u8) = (3, 4);
const TIME_EXCEEDED: (u8, u8) = (11, 0);

/// An error about a segment of the host from its `port` with sequence number `seq`.
fn error(peer: &Peer, (kind, code): (u8, u8), word: u32, seq: u32) -> Vec<u8> {
    let mut quoted = vec![0x45, 0, 0x05, 0xdc, 0, 0, 0x40, 0, 60, 6, 0, 0];
    quoted.extend(address(HOST).octets());
    quoted.extend(address(1 - HOST).octets());
    quoted.extend(peer.port.to_be_bytes());
    quoted.extend(PEER_PORT.to_be_bytes());
    quoted.extend(seq.to_be_bytes());
    message((kind, code), word, &quoted)
}

fn message((kind, code): (u8, u8), word: u32, body: &[u8]) -> Vec<u8> {
    let mut icmp = [&[kind, code, 0, 0][..], &word.to_be_bytes(), body].concat();
    let sum = checksum(&[&icmp]);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(ICMP, &icmp)
}

fn unbelieved(peer: &Peer) -> u64 {
    peer.pair.hosts[HOST].stats().icmp_unbelieved
}

/// A host that has sent a SYN.
fn connecting() -> Peer {
    let mut peer = Peer::stranger(TcpConfig::default());
    let remote = (address(1 - HOST), PEER_PORT);
    peer.socket = peer.pair.hosts[HOST]
        .connect(remote, TcpConfig::default(), peer.pair.now)
        .expect("the address is good");
    let syn = peer.run_for(Duration::from_millis(20)).remove(0);
    (peer.port, peer.host_isn) = (syn.source_port, syn.seq);
    peer
}

/// An answer to a group's hardware address would be an answer to everybody there.
#[test]
fn an_echo_request_from_a_group_is_not_answered() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    let mut request = message((8, 0), 0x0001_0001, b"data");
    let mut answers = |request: &[u8]| {
        let carried = peer.pair.carried;
        peer.send_frame(request);
        peer.pair.carried - carried
    };
    assert_eq!(answers(&request), 1);
    request[6] |= 1;
    assert_eq!(answers(&request), 0);
    let too_long = message((8, 0), 0x0001_0001, &[0; 1473]);
    assert_eq!(answers(&too_long), 0, "longer than the MTU");
}

#[test]
fn an_open_connection_survives_every_error_and_remembers_what_may_be_true() {
    let kinds = [
        (HOST_UNREACHABLE, PathError::HostUnreachable),
        (PORT_UNREACHABLE, PathError::PortUnreachable),
        ((3, 13), PathError::Prohibited),
        (TIME_EXCEEDED, PathError::TimeExceeded),
        ((12, 0), PathError::Parameter),
    ];
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    peer.host_writes(3000);
    for (kind, error_kind) in kinds {
        let frame = error(&peer, kind, 0, peer.host_at(1000));
        peer.send_frame(&frame);
        assert_eq!(peer.info().path_error, Some(error_kind));
    }
    peer.still_works_at(0);
    assert_eq!(unbelieved(&peer), 0);
}

#[test]
fn an_error_about_nothing_in_flight_is_not_believed() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    peer.host_writes(3000);
    for seq in [
        peer.host_at(0).wrapping_sub(1),
        peer.host_at(3000),
        peer.host_at(0).wrapping_add(1 << 31),
        0,
    ] {
        let before = unbelieved(&peer);
        peer.send_frame(&error(&peer, PORT_UNREACHABLE, 0, seq));
        assert_eq!(
            (peer.info().path_error, unbelieved(&peer)),
            (None, before + 1),
            "{seq}"
        );
    }
    peer.still_works_at(0);
}

#[test]
fn a_syn_that_cannot_arrive_ends_the_attempt_at_once_but_not_by_a_guess() {
    for (kind, why) in [
        (PORT_UNREACHABLE, CloseReason::Refused),
        (HOST_UNREACHABLE, CloseReason::Unreachable),
        ((3, 13), CloseReason::Prohibited),
    ] {
        let mut peer = connecting();
        let wrong = peer.host_isn.wrapping_add(1);
        peer.send_frame(&error(&peer, kind, 0, wrong));
        assert_eq!(peer.state(), Some("SYN-SENT"));
        peer.send_frame(&error(&peer, kind, 0, peer.host_isn));
        assert_eq!(peer.pair.closed(HOST), Some(why));
    }
    let mut peer = connecting();
    peer.send_frame(&error(&peer, TIME_EXCEEDED, 0, peer.host_isn));
    assert_eq!(
        peer.state(),
        Some("SYN-SENT"),
        "routes loop for a while when they change"
    );
}

#[test]
fn a_path_is_never_said_to_be_narrower_than_the_floor_or_wider_than_what_was_sent() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1400));
    peer.host_writes(2800);
    let before = peer.info();
    for mtu in [1, 67, 1440, 1500, 9000, 65_535] {
        peer.send_frame(&error(&peer, TOO_BIG, mtu, peer.host_at(0)));
        assert_eq!(
            (peer.info().mss, peer.info().path_mtu),
            (before.mss, before.path_mtu),
            "{mtu}"
        );
    }
    // Not in flight.
    peer.send_frame(&error(&peer, TOO_BIG, 1000, peer.host_at(2800)));
    assert_eq!(peer.info().mss, before.mss);
    let again = peer.send_frame(&error(&peer, TOO_BIG, 1000, peer.host_at(0)));
    assert_eq!(peer.info().mss.get(), 1000 - 40);
    let lengths: Vec<usize> = again.iter().map(|segment| segment.payload.len()).collect();
    assert_eq!(
        lengths,
        [960, 440, 960, 440],
        "what was too long is cut and sent again"
    );
    // However often it is repeated, it changes nothing and sends nothing.
    for _ in 0..100 {
        assert_eq!(
            peer.send_frame(&error(&peer, TOO_BIG, 1000, peer.host_at(0))),
            []
        );
    }
    let got: Vec<u8> = again
        .iter()
        .flat_map(|segment| segment.payload.clone())
        .collect();
    assert_eq!(
        got,
        (0..2800usize).map(|i| (i % 251) as u8).collect::<Vec<u8>>()
    );
}

/// RFC 1191 §3, §5, §7: no link carries less than 68 bytes; a forged report makes packets no shorter
/// than 296; a router that names no MTU means the next one that links have.
#[test]
fn a_small_report_counts_as_the_floor_and_one_without_a_number_as_the_next_size() {
    for (claimed, mtu) in [
        (68, 296),
        (295, 296),
        (296, 296),
        (297, 297),
        (575, 575),
        (0, 1006),
    ] {
        let mut peer = Peer::connected(TcpConfig::default(), mss(1400));
        peer.host_writes(2800);
        peer.send_frame(&error(&peer, TOO_BIG, claimed, peer.host_at(0)));
        assert_eq!(
            (peer.info().path_mtu.get(), peer.info().mss.get()),
            (mtu, mtu - 40),
            "{claimed}"
        );
    }
}

#[test]
fn an_error_with_a_quotation_cut_short_or_of_something_else_is_harmless() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    peer.host_writes(1000);
    let whole = error(&peer, PORT_UNREACHABLE, 0, peer.host_at(0));
    for len in 0..28 {
        peer.send_frame(&message(PORT_UNREACHABLE, 0, &whole[42..42 + len]));
    }
    for (at, byte) in [
        (0, 0x44),
        (0, 0x65),
        (0, 0x4f),
        (7, 1),
        (9, 17),
        (9, 1),
        (9, 58),
        (12, 9),
        (19, 9),
        (21, 0),
    ] {
        let mut quoted = whole[42..].to_vec();
        quoted[at] = byte;
        peer.send_frame(&message(PORT_UNREACHABLE, 0, &quoted));
    }
    assert_eq!(peer.info().path_error, None);
    peer.still_works_at(0);
}

#[test]
fn redirects_quenches_and_advertisements_of_routers_do_nothing() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    peer.host_writes(1000);
    for kind in [
        (5, 0),
        (5, 1),
        (4, 0),
        (9, 0),
        (10, 0),
        (13, 0),
        (17, 0),
        (3, 16),
    ] {
        assert_eq!(
            peer.send_frame(&error(&peer, kind, 0x0a07_0063, peer.host_at(0))),
            [],
            "{kind:?}"
        );
    }
    assert_eq!(peer.info().path_error, None);
    peer.still_works_at(0);
}

/// Frames that side HOST sends while `frame` comes `count` times within a moment.
fn answers(frame: &[u8], count: usize) -> (usize, u64) {
    let mut pair = Pair::new(3);
    let sent = std::rc::Rc::new(std::cell::Cell::new(0));
    let keep = sent.clone();
    pair.filter = Box::new(move |side, _| {
        keep.set(keep.get() + usize::from(side == HOST));
        false
    });
    for _ in 0..count {
        pair.inject(HOST, frame);
        pair.run_for(Duration::from_micros(1));
    }
    (sent.get(), pair.hosts[HOST].stats().icmp_limited)
}

#[test]
fn a_flood_for_protocols_nobody_speaks_is_answered_within_limits() {
    let (sent, limited) = answers(&ipv4(200, &[0; 20]), 1000);
    assert!(
        (40..=100).contains(&sent) && limited >= 900,
        "{sent} {limited}"
    );
}

#[test]
fn neither_broadcasts_nor_errors_nor_fragments_are_answered_with_errors() {
    let unknown = ipv4(200, &[0; 20]);
    let mut to_all = unknown.clone();
    to_all[..6].fill(0xff);
    let mut broadcast = unknown.clone();
    broadcast[30..34].copy_from_slice(&Ipv4Addr::BROADCAST.octets());
    seal(&mut broadcast);
    let mut from_all = unknown.clone();
    from_all[26..30].copy_from_slice(&Ipv4Addr::new(10, 7, 0, 255).octets());
    seal(&mut from_all);
    let mut fragment = unknown.clone();
    fragment[21] = 1;
    seal(&mut fragment);
    let error = message(PORT_UNREACHABLE, 0, &unknown[14..]);
    for (name, frame) in [
        ("frame to all", to_all),
        ("to all", broadcast),
        ("from all", from_all),
        ("fragment", fragment),
        ("error", error),
    ] {
        assert_eq!(answers(&frame, 10).0, 0, "{name}");
    }
    assert_eq!(answers(&unknown, 1).0, 1);
}
