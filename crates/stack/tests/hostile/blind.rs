//! Attacks of somebody who cannot see the connection and guesses its numbers (RFC 5961).

use std::net::Ipv4Addr;
use std::time::Duration;

use tautline_stack::{CloseReason, Event, Recv, TcpConfig};

use crate::peer::*;

/// Longer than the host waits between two challenge acknowledgments.
const PAUSE: Duration = Duration::from_millis(600);

fn connected() -> Peer {
    let mut peer = Peer::connected(TcpConfig::default(), [mss(1000), sack_permitted()].concat());
    peer.run_for(PAUSE);
    peer
}

/// One bare acknowledgment with the connection's own numbers, and nothing else.
#[track_caller]
fn challenged(peer: &Peer, answers: &[Segment], what: &str) {
    let [answer] = answers else {
        panic!("{what}: one challenge, not {answers:?}")
    };
    assert_eq!((answer.flags, answer.payload.len()), (ACK, 0), "{what}");
    assert_eq!(answer.ack, peer.at(0), "{what}");
}

#[test]
fn only_the_exact_number_resets() {
    let mut peer = connected();
    for (offset, what) in [
        (1, "one beyond"),
        (1000, "in the window"),
        (60_000, "far in the window"),
    ] {
        let segment = Segment {
            flags: RST,
            seq: peer.at(offset),
            ..peer.ack()
        };
        let answers = peer.send(&segment);
        challenged(&peer, &answers, what);
        peer.run_for(PAUSE);
    }
    for offset in [
        u32::MAX,
        0u32.wrapping_sub(70_000),
        1 << 30,
        1 << 31,
        0u32.wrapping_sub(1 << 30),
    ] {
        for flags in [RST, RST | ACK] {
            let segment = Segment {
                flags,
                seq: peer.at(offset),
                ..peer.ack()
            };
            assert_eq!(
                peer.send(&segment),
                [],
                "a reset at {offset:#x} is outside the window"
            );
        }
    }
    assert_eq!(peer.state(), Some("ESTABLISHED"));
    let segment = Segment {
        flags: RST,
        ..peer.ack()
    };
    assert_eq!(peer.send(&segment), [], "a reset is never answered");
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));
}

#[test]
fn a_syn_in_an_open_connection_is_challenged_wherever_it_is() {
    let mut peer = connected();
    for offset in [0, 1, 1000, u32::MAX, 1 << 20, 1 << 31] {
        for flags in [SYN, SYN | ACK] {
            let segment = Segment {
                flags,
                seq: peer.at(offset),
                ..peer.ack()
            };
            let answers = peer.send(&segment);
            challenged(&peer, &answers, &format!("flags {flags:#x} at {offset:#x}"));
            peer.run_for(PAUSE);
        }
    }
    peer.still_works_at(0);
}

#[test]
fn an_acknowledgment_of_what_was_never_sent_is_challenged_and_its_data_ignored() {
    let mut peer = connected();
    for ack in [
        1,
        1000,
        1 << 20,
        (1 << 31) - 1,
        1 << 31,
        0u32.wrapping_sub(1 << 20),
    ] {
        let segment = Segment {
            ack: peer.host_at(ack),
            ..peer.data(0, b"injected")
        };
        let answers = peer.send(&segment);
        challenged(&peer, &answers, &format!("ack {ack:#x}"));
        assert_eq!(peer.host_reads(), (Vec::new(), Recv::Empty));
        peer.run_for(PAUSE);
    }
    assert_eq!(peer.info().bytes_acked, 1, "the SYN");
    peer.still_works_at(0);
}

#[test]
fn challenges_are_rare_however_many_guesses_arrive() {
    for (flags, offset) in [(RST, 1000), (SYN, 500), (SYN, 0), (ACK, 1 << 30)] {
        let mut peer = connected();
        let segment = Segment {
            flags,
            seq: peer.at(offset),
            ..peer.ack()
        };
        let answers: usize = (0..400).map(|_| peer.send(&segment).len()).sum();
        assert!(
            (1..=2).contains(&answers),
            "flags {flags:#x}: {answers} answers in 0.4 s"
        );
        peer.still_works_at(0);
    }
}

/// A limit shared by all connections would tell the guesser about the others (CVE-2016-5696).
#[test]
fn the_limit_is_each_connections_own() {
    let mut peer = connected();
    let other = |peer: &Peer| Segment {
        source_port: PEER_PORT + 1,
        ..peer.ack()
    };
    let syn = Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        ..other(&peer)
    };
    let [answer] = &peer.send(&syn)[..] else {
        panic!("a SYN-ACK")
    };
    let ack = answer.seq.wrapping_add(1);
    peer.send(&Segment {
        ack,
        ..other(&peer)
    });
    for _ in 0..100 {
        peer.send(&Segment {
            flags: RST,
            seq: peer.at(9),
            ..peer.ack()
        });
    }
    let answers = peer.send(&Segment {
        flags: RST,
        seq: peer.at(9),
        ack,
        ..other(&peer)
    });
    challenged(&peer, &answers, "the other connection");
}

/// Endless answers within one poll were found so in another stack.
#[test]
fn a_half_closed_connection_answers_a_guess_once() {
    let mut peer = connected();
    peer.pair.hosts[HOST].shutdown(peer.socket).expect("open");
    let fin = peer.run_for(Duration::from_millis(1));
    assert_eq!(fin.len(), 1);
    peer.send(&peer.acknowledges(1));
    assert_eq!(peer.state(), Some("FIN-WAIT-2"));
    peer.run_for(PAUSE);
    for (flags, offset) in [
        (SYN, 0),
        (SYN | ACK, 77),
        (RST, 5),
        (RST | ACK, 1 << 29),
        (ACK, 1 << 29),
    ] {
        let segment = Segment {
            flags,
            seq: peer.at(offset),
            ..peer.acknowledges(1)
        };
        assert!(peer.send(&segment).len() <= 1, "flags {flags:#x}");
        peer.run_for(PAUSE);
    }
    assert_eq!(peer.state(), Some("FIN-WAIT-2"));
}

/// Two ends that each think the other is wrong must fall silent.
#[test]
fn bare_acknowledgments_are_not_acknowledged() {
    let mut peer = connected();
    for _ in 0..100 {
        assert_eq!(peer.send(&peer.ack()), []);
    }
}

#[test]
fn data_is_cut_to_the_window() {
    let config = TcpConfig {
        receive_buffer: tautline_base::Bytes::new(3_000),
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1460));
    let text: Vec<u8> = (0..6000).map(|i| (i % 251) as u8).collect();
    // Wholly beyond: answered, not kept.
    for offset in [3_001, 4_000, 1 << 20] {
        let answers = peer.send(&peer.data(offset, b"beyond"));
        assert_eq!(answers.len(), 1, "{offset}");
        assert_eq!(answers[0].ack, peer.at(0));
    }
    // Across the edge: the part inside is kept.
    for offset in [0, 1_400, 2_800] {
        peer.send(&peer.data(offset as u32, &text[offset..offset + 1400]));
    }
    let answers = peer.send(&peer.data(2_999, &text[2_999..4_000]));
    assert_eq!(
        (answers.last().map(|answer| (answer.ack, answer.window))),
        Some((peer.at(3_000), 0))
    );
    assert_eq!(peer.host_reads(), (text[..3_000].to_vec(), Recv::Empty));
}

/// The host's answers when it has to ask for our hardware address first.
fn first_answers(peer: &mut Peer, segment: &Segment) -> Vec<Segment> {
    let at_once = peer.send(segment);
    let later = peer.run_for(Duration::from_millis(20));
    [at_once, later].concat()
}

/// SYNs in the name of neighbors that do not exist: nobody answers ARP for them, and the backlog is
/// free again soon.
#[test]
fn half_open_connections_with_nobody_give_the_backlog_back() {
    let config = TcpConfig {
        backlog: 4,
        ..TcpConfig::default()
    };
    let mut peer = Peer::stranger(config);
    let syn = Segment {
        flags: SYN,
        ..peer.ack()
    };
    for nobody in 100..120 {
        peer.send_frame(&from_address(Ipv4Addr::new(10, 7, 0, nobody), &syn));
    }
    assert_eq!(
        peer.pair.hosts[HOST].socket_count(),
        1 + 4,
        "no more than the backlog"
    );
    peer.run_for(Duration::from_secs(10));
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1, "only the listener");
    assert_eq!(peer.pair.hosts[HOST].outstanding(), 0);
    assert_eq!(
        first_answers(&mut peer, &syn).len(),
        1,
        "an existing neighbor is learned again"
    );
}

/// Nor may they be held by those to whom no way leads back: off our network, and there is no
/// gateway.
#[test]
fn a_stranger_without_a_route_opens_nothing() {
    let mut peer = Peer::stranger(TcpConfig {
        backlog: 1,
        ..TcpConfig::default()
    });
    let syn = Segment {
        flags: SYN,
        ..peer.ack()
    };
    peer.send_frame(&from_address(Ipv4Addr::new(192, 0, 2, 9), &syn));
    peer.run_for(Duration::from_secs(10));
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1, "only the listener");
    assert_eq!(
        first_answers(&mut peer, &syn).len(),
        1,
        "a neighbor is learned"
    );
}

/// A listener's handshake ends with an acknowledgment. A SYN that acknowledges as well is no part
/// of it, and must not open a connection of which no application is notified.
#[test]
fn a_syn_that_acknowledges_completes_no_passive_open() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let syn = Segment {
        flags: SYN,
        seq: ISN,
        ..peer.ack()
    };
    peer.host_isn = first_answers(&mut peer, &syn)[0].seq;
    for _ in 0..3 {
        peer.send(&Segment {
            flags: SYN | ACK,
            seq: ISN,
            ..peer.ack()
        });
    }
    peer.run_for(Duration::from_secs(300));
    let told = peer.pair.events[HOST]
        .iter()
        .any(|event| matches!(event, Event::Accepted { .. }));
    assert!(
        told || peer.pair.hosts[HOST].socket_count() == 1,
        "accepted, or gone"
    );
}
