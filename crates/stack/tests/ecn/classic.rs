//! RFC 3168 §6.1.2–6.1.5: marks are echoed until the sender says that it has slowed down, and it
//! slows down once per window.

use std::time::Duration;

use tautline_base::Bytes;
use tautline_stack::{EcnMode, EcnState};

use crate::peer::*;
use crate::{MSS, classic, config, data, opened_by_peer};

/// The host has ten segments in flight and one more waits for the window.
fn with_a_window_in_flight() -> Peer {
    let mut peer = classic(config(EcnMode::Request));
    let sent = peer.host_writes(100_000);
    assert_eq!(data(&sent).len(), 10, "the initial window");
    peer
}

#[test]
fn the_receiver_echoes_a_mark_at_once_and_until_the_reduction_is_announced() {
    let (mut peer, _) = opened_by_peer(config(EcnMode::Accept), ECE | CWR, 0, 0);
    let mut offset = 0;
    // Past the quick acknowledgments of the start.
    for _ in 0..40 {
        let segment = Segment {
            ecn: ECT0,
            ..peer.data(offset, &[1; 1000])
        };
        assert!(peer.send(&segment).iter().all(|answer| answer.flags == ACK));
        offset += 1000;
    }
    peer.run_for(Duration::from_millis(50));
    let mut send = |ecn, flags| {
        let segment = Segment {
            ecn,
            ..peer.data(offset, &[1; 1000])
        };
        offset += 1000;
        let answers = peer.send(&Segment {
            flags: segment.flags | flags,
            ..segment
        });
        answers
            .iter()
            .map(|answer| answer.flags)
            .collect::<Vec<_>>()
    };
    assert_eq!(send(ECT0, 0), [], "delayed");
    assert_eq!(send(ECT0, 0), [ACK]);
    assert_eq!(send(CE, 0), [ACK | ECE], "a mark is urgent");
    assert_eq!(send(ECT0, 0), [ACK | ECE], "and so is what follows it");
    assert_eq!(send(ECT0, 0), [], "then the old rhythm, with the echo");
    assert_eq!(send(CE, 0), [ACK | ECE]);
    assert_eq!(send(ECT0, CWR), [ACK], "reduced: the echo ends, at once");
    assert_eq!(send(CE, CWR), [ACK | ECE], "marked itself");
    assert_eq!(peer.info().received_ce, 3);
}

#[test]
fn only_fresh_data_is_capable() {
    let mut peer = with_a_window_in_flight();
    let fresh = peer.send(&peer.acknowledges(2 * MSS));
    assert!(
        !fresh.is_empty() && fresh.iter().all(|segment| segment.ecn == ECT0),
        "{fresh:?}"
    );
    // A loss.
    let at = |offset: u32| peer.host_at(offset);
    let lost = Segment {
        options: sack(&[(at(3 * MSS), at(8 * MSS))]),
        ..peer.acknowledges(2 * MSS)
    };
    let sent = peer.send(&lost);
    let again = sent
        .iter()
        .find(|segment| segment.seq == peer.host_at(2 * MSS))
        .expect("sent again");
    assert_eq!(again.ecn, 0, "what is sent again is not capable");
    // A pure acknowledgment.
    peer.send(&Segment {
        ecn: ECT0,
        ..peer.data(0, b"data")
    });
    let answers = peer.run_for(Duration::from_millis(50));
    assert!(
        answers
            .iter()
            .any(|answer| answer.payload.is_empty() && answer.ecn == 0),
        "{answers:?}"
    );
}

#[test]
fn one_reduction_per_window_announced_once_on_fresh_data() {
    let mut peer = with_a_window_in_flight();
    let before = peer.info();
    assert_eq!((before.cwnd, before.ce_reductions), (Bytes::new(10_000), 0));
    let mut sent = Vec::new();
    // Every acknowledgment of the window echoes; all of it is one signal.
    for acked in 1..=10 {
        sent.extend(peer.send(&Segment {
            flags: ACK | ECE,
            ..peer.acknowledges(acked * MSS)
        }));
    }
    let after = peer.info();
    assert_eq!((after.ce_reductions, after.delivered_ce), (1, 10));
    // CUBIC leaves 0.7 of the window.
    assert_eq!(after.ssthresh, Bytes::new(7_000));
    assert_eq!(after.retransmits, 0);
    let announced: Vec<_> = data(&sent)
        .iter()
        .map(|segment| segment.flags & CWR != 0)
        .collect();
    assert!(
        announced[0] && announced.iter().filter(|cwr| **cwr).count() == 1,
        "the first fresh segment says so: {announced:?}"
    );
    // What was sent after the reduction comes back marked: that is the next signal.
    peer.send(&Segment {
        flags: ACK | ECE,
        ..peer.acknowledges(11 * MSS)
    });
    assert_eq!(peer.info().ce_reductions, 2);
}

#[test]
fn the_flight_shrinks_to_the_new_window_smoothly() {
    let mut peer = with_a_window_in_flight();
    let mut per_ack = Vec::new();
    for acked in 1..=10 {
        let flags = if acked == 1 { ACK | ECE } else { ACK };
        per_ack.push(
            data(&peer.send(&Segment {
                flags,
                ..peer.acknowledges(acked * MSS)
            }))
            .len(),
        );
    }
    // RFC 9937 with RecoverFS 10 and ssthresh 7: seven leave for ten that were delivered.
    assert_eq!(per_ack.iter().sum::<usize>(), 7, "{per_ack:?}");
    assert!(per_ack.iter().all(|sent| *sent <= 1), "{per_ack:?}");
}

/// RFC 3168 §6.1.2: an acknowledgment of all that is in flight counts as any other, and no more than once
/// in a window.
#[test]
fn an_echo_that_leaves_nothing_in_flight_reduces_the_window() {
    for echoes in [&[5][..], &[2, 5]] {
        let mut peer = classic(config(EcnMode::Request));
        assert_eq!(peer.host_writes(5_000).len(), 5);
        for acked in echoes {
            peer.send(&Segment {
                flags: ACK | ECE,
                ..peer.acknowledges(acked * MSS)
            });
        }
        let info = peer.info();
        assert_eq!((info.in_flight, info.ce_reductions), (Bytes::ZERO, 1));
        assert_eq!(info.ssthresh, Bytes::new(7_000));
        let sent = peer.host_writes(2_000);
        let announced: Vec<_> = sent
            .iter()
            .map(|segment| segment.flags & CWR != 0)
            .collect();
        assert_eq!(announced, [true, false]);
        peer.send(&peer.acknowledges(7_000));
        assert_eq!(peer.info().ce_reductions, 1);
    }
}

#[test]
fn an_echo_nobody_agreed_to_means_nothing() {
    let (mut peer, _) = opened_by_peer(config(EcnMode::Off), ECE | CWR, 0, 0);
    peer.host_writes(100_000);
    for acked in 1..=5 {
        peer.send(&Segment {
            flags: ACK | ECE,
            ..peer.acknowledges(acked * MSS)
        });
    }
    let answers = peer.send(&Segment {
        ecn: CE,
        ..peer.data(0, b"marked")
    });
    assert!(
        answers
            .iter()
            .all(|answer| answer.flags & ECE == 0 && answer.ecn == 0),
        "{answers:?}"
    );
    let info = peer.info();
    assert_eq!(
        (
            info.ecn,
            info.ce_reductions,
            info.received_ce,
            info.delivered_ce
        ),
        (EcnState::Off, 0, 0, 0)
    );
    assert!(info.cwnd > Bytes::new(10_000), "the window grew");
}

/// A receiver that never stops can slow a sender down, no more: a reduction per round trip, and
/// never below two segments.
#[test]
fn a_flood_of_echoes_costs_one_reduction_a_round_trip() {
    let mut peer = with_a_window_in_flight();
    let (mut acked, mut highest) = (0, 10);
    let mut rounds = 0;
    while acked < 100 {
        let round = highest;
        rounds += 1;
        while acked < round {
            acked += 1;
            // Twice each: duplicates echo too.
            for _ in 0..2 {
                let sent = peer.send(&Segment {
                    flags: ACK | ECE,
                    ..peer.acknowledges(acked * MSS)
                });
                highest += data(&sent).len() as u32;
            }
        }
        assert!(
            peer.info().cwnd >= Bytes::new(u64::from(MSS)),
            "round {rounds}"
        );
    }
    let info = peer.info();
    assert!(
        info.ce_reductions <= rounds && info.ce_reductions >= rounds / 2,
        "{} in {rounds} rounds",
        info.ce_reductions
    );
    assert_eq!(info.retransmits, 0, "echoes are no losses");
}

/// A sender that says CWR all the time gets no echoes, and the bandwidth that losses leave it.
#[test]
fn a_sender_that_always_announces_a_reduction_is_acknowledged_at_once_and_believed() {
    let (mut peer, _) = opened_by_peer(config(EcnMode::Accept), ECE | CWR, 0, 0);
    for segment in 0..60 {
        let segment = Segment {
            ecn: ECT0,
            ..peer.data(segment * 100, &[7; 100])
        };
        let answers = peer.send(&Segment {
            flags: segment.flags | CWR,
            ..segment
        });
        assert_eq!(
            answers
                .iter()
                .map(|answer| answer.flags)
                .collect::<Vec<_>>(),
            [ACK]
        );
    }
    assert_eq!(peer.host_reads().0.len(), 6000);
}

/// RFC 4015: a reduction that the timestamps prove needless is undone, unless the network marked as
/// well.
#[test]
fn an_echo_during_recovery_makes_the_reduction_final() {
    let run = |flags: u16| {
        let mut config = config(EcnMode::Request);
        config.congestion = tautline_cc::Algorithm::Reno.factory();
        let (mut peer, _) = crate::opening(config);
        let opening = [mss(MSS as u16), sack_permitted(), timestamp(1, 0)].concat();
        peer.send(&Segment {
            flags: SYN | ACK | ECE,
            seq: ISN,
            options: opening,
            ..peer.ack()
        });
        let sent = peer.host_writes(100_000);
        let first = data(&sent)[0].clone();
        let size = first.payload.len() as u32;
        let stamp = u32::from_be_bytes(
            first.option(8).expect("a timestamp")[..4]
                .try_into()
                .expect("four bytes"),
        );
        peer.run_for(Duration::from_millis(20));
        let at = |segment: u32| peer.host_at(segment * size);
        let (one, five) = (at(1), at(5));
        let options = [sack(&[(one, five)]), timestamp(2, stamp)].concat();
        let again = peer.send(&Segment {
            flags: ACK | flags,
            options,
            ..peer.acknowledges(0)
        });
        assert!(
            again.iter().any(|segment| segment.seq == first.seq),
            "taken for lost, and sent again: {again:?}"
        );
        // The original arrives after all: the acknowledgment echoes its timestamp.
        let options = timestamp(3, stamp);
        peer.send(&Segment {
            options,
            ..peer.acknowledges(5 * size)
        });
        let info = peer.info();
        (info.spurious, info.cwnd.get() / u64::from(size))
    };
    let (spurious, window) = run(0);
    assert_eq!(spurious, 1);
    assert!(window >= 10, "restored: {window} segments");
    let (spurious, window) = run(ECE);
    assert_eq!(spurious, 1, "the loss was none");
    assert!(window <= 6, "but the reduction stays: {window} segments");
}

/// A loss during a reduction for marks prolongs it and is repaired, but does not reduce again.
#[test]
fn a_loss_in_a_window_of_marks_is_repaired_within_the_same_reduction() {
    let mut peer = with_a_window_in_flight();
    peer.send(&Segment {
        flags: ACK | ECE,
        ..peer.acknowledges(MSS)
    });
    assert_eq!(peer.info().ssthresh, Bytes::new(7_000));
    let at = |offset: u32| peer.host_at(offset);
    let lost = Segment {
        options: sack(&[(at(2 * MSS), at(8 * MSS))]),
        ..peer.acknowledges(MSS)
    };
    let sent = peer.send(&lost);
    assert!(
        sent.iter().any(|segment| segment.seq == peer.host_at(MSS)),
        "sent again: {sent:?}"
    );
    let info = peer.info();
    assert_eq!(
        (info.ssthresh, info.ce_reductions, info.recovering),
        (Bytes::new(7_000), 1, true)
    );
}
