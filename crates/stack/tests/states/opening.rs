//! Handshakes (RFC 9293 §3.5).

use std::time::Duration;

use tautline_base::Bytes;
use tautline_stack::{CloseReason, Event, Recv, SocketOption, TcpConfig};

use crate::pair::address;
use crate::peer::*;

/// A host that has sent its SYN.
fn connecting(config: TcpConfig) -> (Peer, Segment) {
    let mut peer = Peer::stranger(config.clone());
    let remote = (address(1 - HOST), PEER_PORT);
    peer.socket = peer.pair.hosts[HOST]
        .connect(remote, config, peer.pair.now)
        .expect("the address is good");
    let sent = peer.run_for(Duration::from_millis(20));
    let [syn] = &sent[..] else {
        panic!("one SYN, not {sent:?}")
    };
    (peer.port, peer.host_isn) = (syn.source_port, syn.seq);
    let syn = syn.clone();
    (peer, syn)
}

/// Figure 8 of RFC 9293: both SYNs cross, both ends answer with a SYN-ACK of the same number.
#[test]
fn syns_that_cross_open_one_connection() {
    let (mut peer, syn) = connecting(TcpConfig::default());
    let crossing = Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        options: mss(1000),
        ..peer.ack()
    };
    let answers = peer.send(&crossing);
    let [answer] = &answers[..] else {
        panic!("one SYN-ACK, not {answers:?}")
    };
    assert_eq!(
        (answer.flags, answer.seq, answer.ack),
        (SYN | ACK, syn.seq, ISN.wrapping_add(1))
    );
    assert_eq!(peer.state(), Some("SYN-RECEIVED"));
    peer.send(&Segment {
        flags: SYN | ACK,
        seq: ISN,
        options: mss(1000),
        ..peer.ack()
    });
    assert_eq!(peer.state(), Some("ESTABLISHED"));
    assert!(peer.pair.events[HOST].contains(&Event::Connected(peer.socket)));
    peer.still_works_at(0);
}

/// The peer's SYN-ACK may be lost: its acknowledgment, or its data, completes the opening as well.
#[test]
fn a_crossing_that_loses_the_syn_ack_is_completed_by_an_acknowledgment() {
    let (mut peer, _) = connecting(TcpConfig::default());
    peer.send(&Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        options: mss(1000),
        ..peer.ack()
    });
    peer.send(&peer.data(0, b"hello"));
    assert_eq!(peer.state(), Some("ESTABLISHED"));
    assert_eq!(peer.host_reads(), (b"hello".to_vec(), Recv::Empty));
}

#[test]
fn a_reset_refuses_a_crossing_too() {
    let (mut peer, _) = connecting(TcpConfig::default());
    peer.send(&Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        ..peer.ack()
    });
    peer.send(&Segment {
        flags: RST,
        seq: peer.at(0),
        ack: 0,
        ..peer.ack()
    });
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Refused));
}

/// RFC 9293 §3.10.7.3, in its order.
#[test]
fn in_syn_sent_only_what_fits_counts() {
    let (mut peer, _) = connecting(TcpConfig::default());
    let right = peer.host_at(0);
    // An acknowledgment of something else is answered with a reset of that number, whatever else
    // it says.
    for ack in [
        right.wrapping_sub(1),
        right.wrapping_add(1),
        right ^ 1 << 31,
    ] {
        for flags in [ACK, SYN | ACK, FIN | ACK] {
            let answers = peer.send(&Segment {
                flags,
                ack,
                ..peer.ack()
            });
            let [answer] = &answers[..] else {
                panic!("one reset, not {answers:?}")
            };
            assert_eq!((answer.flags, answer.seq), (RST, ack));
        }
        assert_eq!(
            peer.send(&Segment {
                flags: RST | ACK,
                ack,
                ..peer.ack()
            }),
            [],
            "a reset is not answered"
        );
    }
    // A reset without a right acknowledgment may be anybody's.
    assert_eq!(
        peer.send(&Segment {
            flags: RST,
            ..peer.ack()
        }),
        []
    );
    assert_eq!(peer.send(&peer.ack()), [], "nothing to take from it");
    assert_eq!(peer.state(), Some("SYN-SENT"));
    peer.send(&Segment {
        flags: RST | ACK,
        ..peer.ack()
    });
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Refused));
}

/// RFC 7323 §5: an echoed timestamp that none of our SYNs carried answers somebody else's SYN.
#[test]
fn a_syn_ack_that_echoes_another_time_is_reset() {
    let (mut peer, syn) = connecting(TcpConfig::default());
    let value = syn
        .option(8)
        .map(|v| u32::from_be_bytes([v[0], v[1], v[2], v[3]]))
        .expect("we use timestamps");
    for echo in [
        value.wrapping_sub(1),
        value.wrapping_add(60_000),
        value ^ 1 << 31,
    ] {
        let options = [mss(1000), timestamp(7, echo)].concat();
        let answers = peer.send(&Segment {
            flags: SYN | ACK,
            seq: ISN,
            options,
            ..peer.ack()
        });
        assert_eq!(
            answers
                .iter()
                .map(|answer| answer.flags)
                .collect::<Vec<_>>(),
            [RST],
            "echo {echo}"
        );
    }
    let options = [mss(1000), timestamp(7, value)].concat();
    peer.send(&Segment {
        flags: SYN | ACK,
        seq: ISN,
        options,
        ..peer.ack()
    });
    assert_eq!(peer.state(), Some("ESTABLISHED"));
}

/// Data that comes with a SYN is not delivered before the handshake is complete; here it is not
/// taken at all and comes again.
#[test]
fn data_in_a_syn_waits_for_the_handshake() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let syn = Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        options: mss(1000),
        payload: b"early".to_vec(),
        ..peer.ack()
    };
    let answers = peer.send(&syn);
    let [answer] = &answers[..] else {
        panic!("one SYN-ACK, not {answers:?}")
    };
    assert_eq!(answer.ack, ISN.wrapping_add(1));
    peer.host_isn = answer.seq;
    assert_eq!(peer.accepted(), None);
    peer.send(&peer.ack());
    peer.socket = peer.accepted().expect("complete");
    assert_eq!(peer.host_reads(), (Vec::new(), Recv::Empty));
    peer.send(&peer.data(0, b"early"));
    assert_eq!(peer.host_reads(), (b"early".to_vec(), Recv::Empty));
}

/// Linux `tcp_synack_retries`: SYN-ACKs at 0, 1, 3, 7, 15 and 31 s, and an end at 63 s.
#[test]
fn retries_of_a_handshake_are_bounded() {
    let (mut peer, _) = connecting(TcpConfig::default());
    let again = peer.run_for(Duration::from_secs(500));
    assert!((6..=10).contains(&again.len()), "{again:?}");
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));

    let mut peer = Peer::stranger(TcpConfig::default());
    let answers = peer.send(&Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        ..peer.ack()
    });
    let again = peer.run_for(Duration::from_secs(500));
    assert_eq!((answers.len(), again.len()), (1, 5));
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1, "only the listener");
}

/// Linux `tcp_init_transfer`: one timeout of the SYN-ACK says nothing about the window for data;
/// after two of them it begins with one segment.
#[test]
fn a_syn_ack_lost_once_costs_nothing_of_the_initial_window() {
    for (millis, timeouts, window) in [(1_500, 1, 10), (3_500, 2, 1)] {
        let mut peer = Peer::stranger(TcpConfig::default());
        let answers = peer.send(&Segment {
            flags: SYN,
            seq: ISN,
            ack: 0,
            options: mss(1000),
            ..peer.ack()
        });
        peer.host_isn = answers[0].seq;
        let again = peer.run_for(Duration::from_millis(millis));
        assert_eq!(again.len(), timeouts, "{again:?}");
        peer.send(&peer.ack());
        let accepted = peer.pair.events[HOST].iter().find_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        });
        let socket = accepted.expect("open");
        let host = &mut peer.pair.hosts[HOST];
        assert_eq!(host.send(socket, &[7; 30_000]), Ok(30_000));
        let sent = peer.run_for(Duration::from_millis(100));
        assert_eq!(sent.len(), window);
    }
}

/// The scale that our SYN names is that of the windows after it, whatever the size of the buffer
/// becomes meanwhile.
#[test]
fn a_buffer_that_changes_after_the_syn_does_not_change_the_scale() {
    for size in [5_000, 20_000, 60_000_000] {
        let (mut peer, syn) = connecting(TcpConfig::default());
        let scale = syn.option(3).expect("windows are scaled")[0];
        let resize = SocketOption::ReceiveBuffer(Bytes::new(size));
        let resized = peer.pair.hosts[HOST].set_option(peer.socket, resize);
        resized.expect("open");
        let again = peer.run_for(Duration::from_millis(1100));
        assert_eq!(again[0].option(3), Some(&[scale][..]), "the SYN again");
        let options = [mss(1000), crate::peer::scale(0)].concat();
        let answers = peer.send(&Segment {
            flags: SYN | ACK,
            seq: ISN,
            options,
            ..peer.ack()
        });
        let window = u64::from(answers[0].window) << scale;
        // The SYN has offered 64 KiB.
        let most = size.max(1 << 16) + (1 << scale);
        assert!((5_000..=most).contains(&window), "{window} of {size}");
        peer.still_works_at(0);
    }
}

/// The SYN-ACK that the application asks for is repeated as often as any other.
#[test]
fn a_deferred_syn_ack_has_the_retries_of_a_syn_ack() {
    let mut peer = Peer::stranger(TcpConfig {
        deferred_accept: true,
        syn_ack_retries: 1,
        ..TcpConfig::default()
    });
    let syn = Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        ..peer.ack()
    };
    assert_eq!(peer.send(&syn), []);
    let mut events = peer.pair.events[HOST].iter();
    let request = events.find_map(|event| match event {
        Event::Requested { request, .. } => Some(*request),
        _ => None,
    });
    let now = peer.pair.now;
    let accepted = peer.pair.hosts[HOST].accept(request.expect("it waits"), now);
    accepted.expect("it is there");
    assert_eq!(peer.run_for(Duration::from_secs(500)).len(), 2);
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));
}

/// RFC 9293 §3.10.7.4: in SYN-RECEIVED an acknowledgment that does not cover the SYN is reset, although it
/// names a number of ours.
#[test]
fn an_acknowledgment_of_less_than_the_syn_is_reset() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let answers = peer.send(&Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        options: mss(1000),
        ..peer.ack()
    });
    peer.host_isn = answers[0].seq;
    let stale = Segment {
        ack: peer.host_isn,
        ..peer.data(0, b"data")
    };
    let answers = peer.send(&stale);
    let [answer] = &answers[..] else {
        panic!("one reset, not {answers:?}")
    };
    assert_eq!((answer.flags, answer.seq), (RST, peer.host_isn));
    assert_eq!(peer.accepted(), None);
    peer.send(&peer.ack());
    peer.socket = peer.accepted().expect("complete");
    peer.still_works_at(0);
}

/// Nothing is outstanding once the SYN-ACKs have crossed as well.
#[test]
fn a_user_timeout_ends_no_quiet_connection_whose_syns_have_crossed() {
    let (mut peer, _) = connecting(TcpConfig {
        user_timeout: Some(Duration::from_secs(5)),
        ..TcpConfig::default()
    });
    for (flags, ack) in [(SYN, 0), (SYN | ACK, peer.ack().ack)] {
        peer.send(&Segment {
            flags,
            seq: ISN,
            ack,
            options: mss(1000),
            ..peer.ack()
        });
    }
    peer.run_for(Duration::from_secs(10));
    peer.still_works_at(0);
}

/// RFC 7323 §4.1: the echoed timestamp tells which of two SYNs was answered, so that the round trip is
/// known. Without it the timeout begins with three seconds (RFC 6298 §5.7).
#[test]
fn a_syn_that_was_sent_again_measures_the_round_trip_by_its_timestamp() {
    for echoes in [true, false] {
        let (mut peer, _) = connecting(TcpConfig::default());
        let again = peer.run_for(Duration::from_millis(1100));
        let [again] = &again[..] else {
            panic!("one SYN, not {again:?}")
        };
        let value = again.option(8).expect("we use timestamps");
        let value = u32::from_be_bytes([value[0], value[1], value[2], value[3]]);
        let options = if echoes {
            [mss(1000), timestamp(7, value)].concat()
        } else {
            mss(1000)
        };
        peer.send(&Segment {
            flags: SYN | ACK,
            seq: ISN,
            options,
            ..peer.ack()
        });
        let info = peer.info();
        assert_eq!(info.state, "ESTABLISHED");
        if echoes {
            assert!((90..=130).contains(&info.srtt.as_millis()), "{info:?}");
            assert!(info.rto < Duration::from_millis(500), "{info:?}");
        } else {
            assert_eq!(info.rto, Duration::from_secs(3));
        }
    }
}
