//! RFC 9768: the handshake tells what became of its own packets, then every acknowledgment carries
//! a count of marks.

use std::time::Duration;

use tautline_cc::Ecn;
use tautline_stack::{EcnMode, EcnState, TcpConfig};

use crate::controller::needs;
use crate::peer::*;
use crate::{MSS, config, data, opened_by_peer, opening, syn_ack};

const ASKS: u16 = AE | CWR | ECE;

/// The three flags of a count.
fn ace(count: u16) -> u16 {
    (count & 7) << 6
}

/// Encoding of a reflected codepoint (RFC 9768 tables 2 and 3).
const REFLECTED: [(u8, u16); 4] = [(0, CWR), (ECT1, CWR | ECE), (ECT0, AE), (CE, AE | CWR)];

/// An AccECN option as it stands in `segment`.
fn option(segment: &Segment) -> Option<(u8, Vec<u8>)> {
    [172, 174]
        .into_iter()
        .find_map(|kind| Some((kind, segment.option(kind)?.to_vec())))
}

#[test]
fn the_syn_ack_reflects_the_syn() {
    for (ecn, flags) in REFLECTED {
        let (peer, answer) = opened_by_peer(config(EcnMode::AccEcn), ASKS, ecn, CWR);
        assert_eq!(
            (answer.flags, answer.ecn),
            (SYN | ACK | flags, 0),
            "{ecn:02b}"
        );
        assert_eq!(
            option(&answer),
            Some((172, vec![0, 0, 1, 0, 0, 0, 0, 0, 1])),
            "it tries whether options pass"
        );
        assert_eq!(peer.info().ecn, EcnState::AccEcn);
    }
}

#[test]
fn the_first_acknowledgment_reflects_the_syn_ack_even_before_waiting_data() {
    for (ecn, flags) in REFLECTED {
        let (mut peer, syn) = opening(config(EcnMode::AccEcn));
        assert_eq!(syn.flags, SYN | ASKS);
        peer.host_writes(3000);
        let answer = Segment {
            flags: SYN | ACK | CWR,
            seq: ISN,
            options: crate::options(),
            ecn,
            ..peer.ack()
        };
        let sent = peer.send(&answer);
        assert_eq!(
            (sent[0].flags, sent[0].payload.len()),
            (ACK | flags, 0),
            "{ecn:02b}: a bare one goes first"
        );
        assert!(option(&sent[0]).is_some());
        let first = data(&sent)[0];
        assert_eq!(
            first.flags & ASKS,
            ace(if ecn == CE { 6 } else { 5 }),
            "then the count"
        );
        assert_eq!(first.ecn, ECT0);
    }
}

/// Issue 16.1: data that came out of order with the SYN-ACK needs SACK blocks, the SYN-ACK's
/// codepoint an acknowledgment without them: one of each leaves.
#[test]
fn a_hole_behind_the_syn_ack_draws_two_acknowledgments() {
    let (mut peer, _) = opening(config(EcnMode::AccEcn));
    let syn_ack = Segment {
        flags: SYN | ACK | CWR,
        seq: ISN,
        options: crate::options(),
        ecn: CE,
        ..peer.ack()
    };
    let ahead = peer.data(1000, &[7; 1000]);
    for segment in [syn_ack, ahead] {
        peer.pair.inject(HOST, &segment.to_frame());
    }
    let sent = peer.run_for(Duration::from_millis(1));
    let [reflection, report] = &sent[..] else {
        panic!("{} segments", sent.len())
    };
    assert_eq!(reflection.flags, ACK | AE | CWR);
    assert_eq!(reflection.option(5), None);
    assert_eq!(report.flags, ACK | ace(6));
    assert!(report.option(5).is_some());
}

#[test]
fn a_repeated_syn_ack_is_reflected_again() {
    let (mut peer, _) = opening(config(EcnMode::AccEcn));
    assert_eq!(syn_ack(&mut peer, CWR, 0).flags, ACK | CWR);
    assert_eq!(syn_ack(&mut peer, CWR, CE).flags, ACK | AE | CWR);
    assert_eq!(peer.info().ecn, EcnState::AccEcn);
}

/// Our SYN left as Not-ECT: any other arrival means that somebody rewrites the field (§3.2.2.3).
#[test]
fn a_reflection_that_cannot_be_makes_the_sender_incapable() {
    for (flags, capable) in [
        (CWR, true),
        (AE | ECE, true),
        (CWR | ECE, false),
        (AE, false),
        (AE | CWR, false),
    ] {
        let (mut peer, _) = opening(config(EcnMode::AccEcn));
        syn_ack(&mut peer, flags, 0);
        assert_eq!(peer.info().ecn, EcnState::AccEcn, "{flags:#x}");
        assert_eq!(
            data(&peer.host_writes(1000))[0].ecn,
            if capable { ECT0 } else { 0 },
            "{flags:#x}"
        );
    }
    // The same at the passive end (table 4); zero means that the peer does not take part.
    for (flags, capable) in [
        (CWR, true),
        (ECE, true),
        (AE | ECE, true),
        (CWR | ECE, false),
        (AE, false),
        (0, false),
    ] {
        let (mut peer, _) = opened_by_peer(config(EcnMode::AccEcn), ASKS, 0, flags);
        assert_eq!(
            data(&peer.host_writes(1000))[0].ecn,
            if capable { ECT0 } else { 0 },
            "{flags:#x}"
        );
    }
}

/// §3.1.4.1: asked twice, then no more; and the answer counts whichever SYN it answers.
#[test]
fn the_second_retransmission_of_the_syn_does_not_ask() {
    let (mut peer, syn) = opening(config(EcnMode::AccEcn));
    let again = peer.run_for(Duration::from_secs(4));
    let flags: Vec<_> = again.iter().map(|segment| segment.flags).collect();
    assert_eq!((syn.flags, flags), (SYN | ASKS, vec![SYN | ASKS, SYN]));
    syn_ack(&mut peer, CWR, 0);
    assert_eq!(peer.info().ecn, EcnState::AccEcn);
    assert_eq!(
        data(&peer.host_writes(1000))[0].ecn,
        ECT0,
        "an active end may: the other one is in the mode for certain"
    );
}

/// §3.2.3.2.2: first without the option, then without flags; a passive end that did that is never
/// capable again.
#[test]
fn the_syn_ack_falls_back_step_by_step() {
    let mut peer = Peer::stranger(config(EcnMode::AccEcn));
    let syn = Segment {
        flags: SYN | ASKS,
        seq: ISN,
        ack: 0,
        options: crate::options(),
        ..peer.ack()
    };
    let first = peer.send(&syn);
    let later = peer.run_for(Duration::from_secs(4));
    let steps: Vec<_> = first
        .iter()
        .chain(&later)
        .map(|s| (s.flags & ASKS, option(s).is_some()))
        .collect();
    assert_eq!(steps, [(CWR, true), (CWR, false), (0, false)]);
    peer.host_isn = first[0].seq;
    peer.send(&Segment {
        flags: ACK | CWR,
        ..peer.ack()
    });
    peer.socket = peer.accepted().expect("open");
    assert_eq!(data(&peer.host_writes(1000))[0].ecn, 0);
    let answers = peer.send(&Segment {
        ecn: CE,
        ..peer.data(0, b"marked")
    });
    assert_eq!(answers[0].flags, ACK | ace(6), "but it tells of marks");
}

/// §3.1.5: the kinds of request must not be mixed in one handshake.
#[test]
fn two_kinds_of_request_in_one_handshake_are_reset() {
    for (first, second) in [(ASKS, ECE | CWR), (ECE | CWR, ASKS)] {
        let mut peer = Peer::stranger(config(EcnMode::AccEcn));
        let syn = |peer: &Peer, flags| Segment {
            flags: SYN | flags,
            seq: ISN,
            ack: 0,
            ..peer.ack()
        };
        let answer = peer.send(&syn(&peer, first));
        assert_eq!(answer.len(), 1);
        let answers = peer.send(&syn(&peer, second));
        assert!(
            answers.iter().any(|answer| answer.flags & RST != 0),
            "{answers:?}"
        );
    }
}

#[test]
fn marks_are_counted_and_acknowledged_when_they_begin_and_every_second_one() {
    let (mut peer, _) = opened_by_peer(config(EcnMode::AccEcn), ASKS, 0, CWR);
    let mut offset = 0;
    for _ in 0..40 {
        peer.send(&Segment {
            ecn: ECT0,
            ..peer.data(offset, &[1; 1000])
        });
        offset += MSS;
    }
    peer.run_for(Duration::from_millis(50));
    let mut send = |ecn| {
        let answers = peer.send(&Segment {
            ecn,
            ..peer.data(offset, &[1; 1000])
        });
        offset += MSS;
        answers
            .iter()
            .map(|answer| answer.flags & ASKS)
            .collect::<Vec<_>>()
    };
    assert_eq!(send(ECT0), []);
    assert_eq!(send(CE), [ace(6)], "marks begin");
    assert_eq!(send(CE), [], "one since");
    assert_eq!(send(CE), [ace(8)], "two since, and the field comes round");
    assert_eq!(send(ECT0), [], "marks end: no hurry");
    assert_eq!(send(CE), [ace(9)]);
    assert_eq!(peer.info().received_ce, 4);
}

/// §3.2.3: what arrived, in bytes.
#[test]
fn acknowledgments_carry_the_counts_of_bytes_that_have_changed() {
    let (mut peer, _) = opened_by_peer(config(EcnMode::AccEcn), ASKS, 0, CWR);
    let mut send = |offset, ecn| {
        let answers = peer.send(&Segment {
            ecn,
            ..peer.data(offset, &[1; 1000])
        });
        let [answer] = &answers[..] else {
            panic!("{answers:?}")
        };
        option(answer)
    };
    let count = |n: u32| n.to_be_bytes()[1..].to_vec();
    assert_eq!(send(0, 0), None, "Not-ECT is not counted");
    assert_eq!(send(1000, ECT1), Some((174, count(1001))));
    assert_eq!(
        send(2000, CE),
        Some((174, [count(1001), count(1000)].concat()))
    );
    assert_eq!(
        send(3000, ECT0),
        Some((172, [count(1001), count(1000), count(1001)].concat()))
    );
    // With holes to report the SACK blocks keep their room for two.
    for hole in 0..4 {
        peer.send(&Segment {
            ecn: ECT0,
            ..peer.data(5000 + 2000 * hole, &[1; 1000])
        });
    }
    let answers = peer.send(&Segment {
        ecn: ECT0,
        ..peer.data(15_000, &[1; 1000])
    });
    let blocks = answers[0].option(5).expect("SACK").len() / 8;
    assert!(
        blocks >= 2 && option(&answers[0]).is_some(),
        "{blocks} blocks: {answers:?}"
    );
}

/// §3.2.3.3: data is an acknowledgment, too; a full segment leaves the option its room.
#[test]
fn new_data_carries_the_counts_that_have_changed_and_data_sent_again_where_it_has_room() {
    let (mut peer, _) = opening(config(EcnMode::AccEcn));
    syn_ack(&mut peer, CWR, 0);
    peer.host_writes(100_000);
    let sent = peer.send(&Segment {
        flags: ACK | ace(5),
        ack: peer.acknowledges(2 * MSS).ack,
        ecn: ECT0,
        ..peer.data(0, &[1; 500])
    });
    let told = Some((172, vec![0, 1, 0xf5]));
    let seen: Vec<_> = data(&sent)
        .iter()
        .map(|segment| (segment.payload.len(), option(segment)))
        .collect();
    assert_eq!(
        seen,
        [(992, told), (1000, None), (1000, None), (1000, None)],
        "{sent:?}"
    );
}

#[test]
fn one_reduction_for_a_window_of_counted_marks() {
    let (mut peer, _) = opening(config(EcnMode::AccEcn));
    syn_ack(&mut peer, CWR, 0);
    let sent = peer.host_writes(100_000);
    assert_eq!(data(&sent).len(), 10);
    let mut after = Vec::new();
    for acked in 1..=10u16 {
        after.extend(peer.send(&Segment {
            flags: ACK | ace(5 + acked),
            ..peer.acknowledges(u32::from(acked) * MSS)
        }));
    }
    let info = peer.info();
    assert_eq!(
        (info.ce_reductions, info.delivered_ce, info.ssthresh.get()),
        (1, 10, 7_000)
    );
    assert!(
        after.iter().all(|segment| segment.flags & ASKS == ace(5)),
        "the flags count what arrived here, nothing else"
    );
}

/// §3.2.2.5.2: nine packets at once, and the field has moved by one: nine marks, to be safe; the
/// option knows better.
#[test]
fn a_count_that_may_have_come_round_is_read_on_the_safe_side_unless_the_option_tells() {
    for (options, told) in [
        (vec![], 9),
        (vec![172, 8, 0, 31, 0x41, 0, 3, 0xe8, 1, 1, 1, 1], 1),
    ] {
        let (mut peer, _) = opening(config(EcnMode::AccEcn));
        syn_ack(&mut peer, CWR, 0);
        peer.host_writes(100_000);
        peer.send(&Segment {
            flags: ACK | ace(6),
            options,
            ..peer.acknowledges(9 * MSS)
        });
        assert_eq!(
            (peer.info().delivered_ce, peer.info().ce_reductions),
            (told, 1)
        );
    }
}

/// §3.2.2.4: a field that is always cleared.
#[test]
fn a_zeroed_count_ends_capability() {
    let (mut peer, _) = opening(config(EcnMode::AccEcn));
    syn_ack(&mut peer, CWR, 0);
    peer.host_writes(100_000);
    let sent = peer.send(&peer.acknowledges(2 * MSS));
    assert!(
        !sent.is_empty() && sent.iter().all(|segment| segment.ecn == 0),
        "{sent:?}"
    );
    assert_eq!(peer.info().ce_reductions, 0);
}

/// RFC 9331 §4: only with a count of marks may a scalable controller enter the queue for scalable
/// traffic.
#[test]
fn ect1_needs_accurate_feedback() {
    let scalable = || TcpConfig {
        congestion: needs(Ecn::L4s),
        ..config(EcnMode::Accept)
    };
    for (answer, ecn) in [(CWR, ECT1), (ECE, 0), (0, 0)] {
        let (mut peer, syn) = opening(scalable());
        assert_eq!(
            syn.flags,
            SYN | ASKS,
            "the controller asks for what it needs"
        );
        syn_ack(&mut peer, answer, 0);
        assert!(
            data(&peer.host_writes(5000))
                .iter()
                .all(|segment| segment.ecn == ecn),
            "{answer:#x}"
        );
    }
    // What is lost goes again in the same queue.
    let (mut peer, _) = opening(scalable());
    syn_ack(&mut peer, CWR, 0);
    peer.host_writes(100_000);
    let at = |offset: u32| peer.host_at(offset);
    let lost = Segment {
        flags: ACK | ace(5),
        options: sack(&[(at(MSS), at(6 * MSS))]),
        ..peer.acknowledges(0)
    };
    let again = peer.send(&lost);
    assert!(
        again
            .iter()
            .any(|segment| segment.seq == peer.host_at(0) && segment.ecn == ECT1),
        "{again:?}"
    );
}
