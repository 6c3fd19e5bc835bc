//! The end that listens.

use std::time::Duration;

use tautline_stack::{CloseReason, Event, Recv, TcpConfig};

use crate::peer::*;
use crate::{FAST_OPEN, on, option};

/// A SYN from `port` with the option, which holds `cookie`, and data.
fn syn(peer: &Peer, port: u16, cookie: &[u8], payload: &[u8]) -> Segment {
    Segment {
        source_port: port,
        flags: SYN,
        seq: ISN,
        ack: 0,
        options: [mss(1000), option(cookie)].concat(),
        payload: payload.to_vec(),
        ..peer.ack()
    }
}

/// The answer to a segment, if it is alone.
fn answer(peer: &mut Peer, segment: &Segment) -> Segment {
    let answers = peer.send(segment);
    let [answer] = &answers[..] else {
        panic!("one answer, not {answers:?}")
    };
    peer.host_isn = answer.seq;
    answer.clone()
}

/// Gets a cookie, from a connection that does nothing else.
fn cookie(peer: &mut Peer) -> Vec<u8> {
    let request = syn(peer, PEER_PORT - 1, &[], b"ignored");
    let answer = answer(peer, &request);
    assert_eq!((answer.flags, answer.ack), (SYN | ACK, ISN.wrapping_add(1)));
    assert_eq!(peer.accepted(), None);
    let reset = Segment {
        source_port: PEER_PORT - 1,
        flags: RST,
        ack: 0,
        ..peer.ack()
    };
    peer.send(&reset);
    answer.option(FAST_OPEN).expect("it was asked for").to_vec()
}

/// A listener, and its cookie.
fn known(config: TcpConfig) -> (Peer, Vec<u8>) {
    let mut peer = Peer::stranger(config);
    let cookie = cookie(&mut peer);
    (peer, cookie)
}

/// RFC 7413 §4.2.2, and the limits of the option's length of §4.1.1.
#[test]
fn only_the_peers_own_cookie_opens_at_the_syn() {
    let (mut peer, right) = known(on());
    assert_eq!(right.len(), 8);
    let wrong: Vec<u8> = right.iter().map(|byte| byte ^ 1).collect();
    let longer = [&right[..], &[0, 0]].concat();
    for (port, cookie) in [(1, &wrong), (2, &longer)] {
        let segment = syn(&peer, port, cookie, b"text");
        let answer = answer(&mut peer, &segment);
        assert_eq!(answer.ack, ISN.wrapping_add(1), "the data is not taken");
        assert_eq!(
            answer.option(FAST_OPEN),
            Some(&right[..]),
            "it gets the right one"
        );
    }
    for (port, len) in [(3, 7), (4, 2)] {
        let segment = syn(&peer, port, &right[..len], b"text");
        let answer = answer(&mut peer, &segment);
        assert_eq!(answer.option(FAST_OPEN), None);
    }
    assert_eq!(peer.accepted(), None);
    let segment = syn(&peer, PEER_PORT, &right, b"text");
    let answer = answer(&mut peer, &segment);
    assert_eq!((answer.flags, answer.ack), (SYN | ACK, peer.at(4)));
    assert_eq!(answer.option(FAST_OPEN), None);
    peer.socket = peer.accepted().expect("it is believed");
    assert_eq!(peer.host_reads(), (b"text".to_vec(), Recv::Empty));
    assert!(peer.info().syn_data_acked);
    let stats = peer.pair.hosts[HOST].stats();
    assert_eq!((stats.fast_opened, stats.fast_open_full), (1, 0));
}

#[test]
fn a_cookie_is_of_no_use_to_another_address() {
    let (mut peer, cookie) = known(on());
    let segment = syn(&peer, PEER_PORT, &cookie, b"text");
    let other = "10.7.0.77".parse().expect("an address");
    peer.send_frame(&from_address(other, &segment));
    assert_eq!(peer.accepted(), None);
}

#[test]
fn by_default_the_option_is_ignored() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let segment = syn(&peer, PEER_PORT, &[], b"text");
    let answer = answer(&mut peer, &segment);
    assert_eq!(answer.option(FAST_OPEN), None);
    assert_eq!(answer.ack, ISN.wrapping_add(1));
}

/// RFC 7413 §4.2.2: data may follow the SYN-ACK; a FIN does not (Linux).
#[test]
fn data_leaves_in_syn_received_and_the_fin_after_it() {
    let (mut peer, cookie) = known(on());
    let segment = syn(&peer, PEER_PORT, &cookie, b"text");
    answer(&mut peer, &segment);
    peer.socket = peer.accepted().expect("it is believed");
    let sent = peer.host_writes(2500);
    let lens: Vec<usize> = sent.iter().map(|segment| segment.payload.len()).collect();
    assert_eq!(lens, [1000, 1000, 500]);
    assert_eq!(sent[0].seq, peer.host_at(0));
    assert_eq!(peer.host_reads().0, b"text");
    let now = peer.pair.now;
    peer.pair.hosts[HOST].close(peer.socket, now);
    let sent = peer.run_for(Duration::from_millis(100));
    assert!(
        sent.iter().all(|segment| segment.flags & FIN == 0),
        "{sent:?}"
    );
    assert_eq!(peer.state(), Some("SYN-RECEIVED"));
    let sent = peer.send(&Segment {
        ack: peer.host_at(2500),
        seq: peer.at(4),
        ..peer.ack()
    });
    assert!(
        sent.iter().any(|segment| segment.flags & FIN != 0),
        "{sent:?}"
    );
    assert_eq!(peer.state(), Some("FIN-WAIT-1"));
}

/// The SYN-ACK is sent again until the peer answers; the SYN that comes again brings no data.
#[test]
fn a_lost_syn_ack_is_sent_again() {
    let (mut peer, cookie) = known(on());
    let segment = syn(&peer, PEER_PORT, &cookie, b"text");
    let first = answer(&mut peer, &segment);
    peer.socket = peer.accepted().expect("it is believed");
    let again = peer.run_for(Duration::from_millis(1100));
    let [again] = &again[..] else {
        panic!("one SYN-ACK, not {again:?}")
    };
    assert_eq!(
        (again.flags, again.seq, again.ack),
        (first.flags, first.seq, first.ack)
    );
    let plain = Segment {
        options: mss(1000),
        payload: Vec::new(),
        ..segment
    };
    let again = answer(&mut peer, &plain);
    assert_eq!(
        (again.flags, again.seq, again.ack),
        (first.flags, first.seq, first.ack)
    );
    peer.send(&Segment {
        seq: peer.at(4),
        ..peer.ack()
    });
    assert_eq!(peer.state(), Some("ESTABLISHED"));
    let connected = Event::Connected(peer.socket);
    assert!(
        !peer.pair.events[HOST].contains(&connected),
        "it was accepted"
    );
    assert_eq!(peer.host_reads().0, b"text");
    peer.still_works_at(4);
}

/// A peer that never answers holds its place for as long as a half-open connection, and the
/// application learns of it.
#[test]
fn a_peer_that_never_answers_is_given_up() {
    let (mut peer, cookie) = known(on());
    let segment = syn(&peer, PEER_PORT, &cookie, b"text");
    answer(&mut peer, &segment);
    peer.run_for(Duration::from_secs(200));
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));
}

/// Linux `tcp_fastopen_synack_timer`: once more than a SYN-ACK that accepts no data, whatever the retries
/// of a SYN are.
#[test]
fn the_syn_ack_has_a_bound_of_its_own() {
    let config = TcpConfig {
        syn_retries: 9,
        syn_ack_retries: 1,
        ..on()
    };
    let (mut peer, cookie) = known(config);
    let segment = syn(&peer, PEER_PORT, &cookie, b"text");
    answer(&mut peer, &segment);
    let again = peer.run_for(Duration::from_secs(2000));
    assert_eq!(again.len(), 2);
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));
}

/// RFC 7413 §5.1: what rests on cookies alone is bounded, and a reset, which may come from the host
/// whose address was forged, frees no place before a minute is over.
#[test]
fn the_queue_is_bounded_and_resets_do_not_empty_it() {
    let config = TcpConfig {
        fast_open_queue: 2,
        ..on()
    };
    let (mut peer, cookie) = known(config);
    let is_believed = |peer: &mut Peer, port| {
        let segment = syn(peer, port, &cookie, b"text");
        answer(peer, &segment).ack == peer.at(4)
    };
    assert!(is_believed(&mut peer, 1) && is_believed(&mut peer, 2));
    let reset = Segment {
        source_port: 2,
        flags: RST,
        seq: peer.at(4),
        ack: 0,
        ..peer.ack()
    };
    peer.send(&reset);
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));
    assert!(!is_believed(&mut peer, 3), "the reset frees no place");
    // The first one is proven, which does.
    let segment = syn(&peer, 1, &cookie, b"text");
    answer(
        &mut peer,
        &Segment {
            options: mss(1000),
            payload: Vec::new(),
            ..segment
        },
    );
    peer.send(&Segment {
        source_port: 1,
        seq: peer.at(4),
        ..peer.ack()
    });
    assert!(is_believed(&mut peer, 4));
    assert!(!is_believed(&mut peer, 5));
    assert_eq!(peer.pair.hosts[HOST].stats().fast_open_full, 2);
    peer.run_for(Duration::from_secs(61));
    assert!(is_believed(&mut peer, 6), "after a minute it does");
}

/// SYN cookies leave no state for data: Fast Open then waits (Linux).
#[test]
fn a_full_backlog_answers_without_it() {
    let (mut peer, cookie) = known(TcpConfig { backlog: 1, ..on() });
    let plain = Segment {
        options: mss(1000),
        ..syn(&peer, 1, &[], b"")
    };
    peer.send(&plain);
    let segment = syn(&peer, PEER_PORT, &cookie, b"text");
    let answer = answer(&mut peer, &segment);
    assert_eq!(answer.ack, ISN.wrapping_add(1));
    assert_eq!(peer.accepted(), None);
}
