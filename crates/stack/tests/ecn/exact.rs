//! RFC 8257 §3.2: with a controller that answers to the share of marks, the flag follows every
//! mark.

use std::time::Duration;

use tautline_cc::Ecn;
use tautline_stack::{EcnMode, EcnState, TcpConfig};

use crate::controller::needs;
use crate::peer::*;
use crate::{MSS, config, data, opened_by_peer, opening, syn_ack};

fn dctcp() -> TcpConfig {
    TcpConfig {
        congestion: needs(Ecn::Dctcp),
        ..config(EcnMode::Accept)
    }
}

/// Linux: a controller that needs ECN asks for it whatever `tcp_ecn` says, except "off".
#[test]
fn the_controller_asks_for_what_it_needs() {
    let (mut peer, syn) = opening(dctcp());
    assert_eq!(syn.flags, SYN | ECE | CWR);
    syn_ack(&mut peer, ECE, 0);
    assert_eq!(peer.info().ecn, EcnState::Classic);
    let (_, syn) = opening(TcpConfig {
        ecn: EcnMode::Off,
        ..dctcp()
    });
    assert_eq!(syn.flags, SYN);
}

#[test]
fn a_change_of_marks_acknowledges_what_was_held_back_with_the_old_flag() {
    let (mut peer, _) = opened_by_peer(dctcp(), ECE | CWR, 0, 0);
    let mut offset = 0;
    for _ in 0..40 {
        peer.send(&Segment {
            ecn: ECT0,
            ..peer.data(offset, &[1; 1000])
        });
        offset += MSS;
    }
    peer.run_for(Duration::from_millis(50));
    let mut send = |ecn: u8| {
        let answers = peer.send(&Segment {
            ecn,
            ..peer.data(offset, &[1; 1000])
        });
        offset += MSS;
        let base = peer.at(offset);
        answers
            .iter()
            .map(|answer| (base.wrapping_sub(answer.ack) / MSS, answer.flags))
            .collect::<Vec<_>>()
    };
    // Acknowledgments: how many segments behind the latest, and their flags.
    assert_eq!(send(ECT0), [], "held back");
    assert_eq!(
        send(CE),
        [(1, ACK), (0, ACK | ECE)],
        "what was held back goes first, without the flag"
    );
    assert_eq!(send(CE), [], "marks go on: the delayed rhythm");
    assert_eq!(send(CE), [(0, ACK | ECE)]);
    assert_eq!(send(CE), []);
    assert_eq!(send(ECT0), [(1, ACK | ECE), (0, ACK)], "marks end");
    assert_eq!(send(CE), [(0, ACK | ECE)], "nothing was held back");
    assert_eq!(peer.info().received_ce, 5);
}

/// Marks that change with every segment of a batch are acknowledged one by one: the last of these
/// acknowledgments, of what has arrived, is not left behind, because nothing would wake it.
#[test]
fn a_batch_with_many_changes_of_marks_is_acknowledged_whole() {
    let (mut peer, _) = opened_by_peer(dctcp(), ECE | CWR, 0, 0);
    for offset in 0..40 {
        peer.send(&peer.data(offset * MSS, &[1; 1000]));
    }
    peer.run_for(Duration::from_millis(50));
    let segments = 10;
    for number in 0..segments {
        let segment = Segment {
            ecn: if number % 2 == 0 { ECT0 } else { CE },
            ..peer.data((40 + number) * MSS, &[1; 1000])
        };
        peer.pair.inject(HOST, &segment.to_frame());
    }
    let answers = peer.run_for(Duration::from_millis(200));
    let base = peer.at(40 * MSS);
    let covered = |answer: &Segment| answer.ack.wrapping_sub(base) / MSS;
    assert_eq!(
        answers.iter().map(covered).collect::<Vec<_>>(),
        (1..=segments).collect::<Vec<_>>()
    );
    for answer in &answers {
        let echo = if covered(answer) % 2 == 0 { ECE } else { 0 };
        assert_eq!(answer.flags, ACK | echo, "up to {}", covered(answer));
    }
}

/// As Linux for controllers that need ECN: switches of such networks drop what they cannot mark.
#[test]
fn everything_after_the_handshake_is_capable() {
    let (mut peer, syn) = opening(dctcp());
    let answer = syn_ack(&mut peer, ECE, 0);
    assert_eq!((syn.ecn, answer.ecn), (0, ECT0));
    let sent = peer.host_writes(100_000);
    assert!(!data(&sent).is_empty() && sent.iter().all(|segment| segment.ecn == ECT0));
    let at = |offset: u32| peer.host_at(offset);
    let lost = Segment {
        options: sack(&[(at(MSS), at(6 * MSS))]),
        ..peer.acknowledges(0)
    };
    let again = peer.send(&lost);
    assert!(
        again
            .iter()
            .any(|segment| segment.seq == peer.host_at(0) && segment.ecn == ECT0),
        "{again:?}"
    );
}

#[test]
fn marks_are_counted_by_what_each_acknowledgment_covers() {
    let (mut peer, _) = opening(dctcp());
    syn_ack(&mut peer, ECE, 0);
    peer.host_writes(100_000);
    peer.send(&Segment {
        flags: ACK | ECE,
        ..peer.acknowledges(3 * MSS)
    });
    peer.send(&peer.acknowledges(7 * MSS));
    peer.send(&Segment {
        flags: ACK | ECE,
        ..peer.acknowledges(9 * MSS)
    });
    assert_eq!(peer.info().delivered_ce, 5);
}
