//! RFC 2883, RFC 3522, RFC 3708: retransmissions that were needless, how that shows, and what it
//! changes.

use super::*;

/// Ten segments are out, the head is late; the peer has the next three, and the head is sent again.
fn overtaken(peer: &mut Peer) -> Vec<u32> {
    assert_eq!(peer.host_writes(20 * MSS as usize).len(), 10);
    peer.run_for(ms(9));
    let mut sent = Vec::new();
    for last in 2..=4 {
        let answers = peer.send(&sacks(peer, 0, &[(1, last)]));
        sent.extend(numbers(peer, &answers));
    }
    assert!(sent.contains(&0), "{sent:?}");
    assert_eq!(peer.info().fast_recoveries, 1);
    sent
}

#[test]
fn a_duplicate_of_every_retransmission_undoes_the_reduction() {
    let mut peer = connected(LossRecovery::default());
    let before = peer.info().cwnd;
    overtaken(&mut peer);
    assert!(peer.info().ssthresh < before);
    peer.send(&sacks(&peer, 4, &[]));
    assert!(peer.info().recovering);
    peer.send(&sacks(&peer, 4, &[(0, 1)]));
    let info = peer.info();
    assert_eq!(
        (info.spurious, info.recovering, info.duplicates),
        (1, false, 1)
    );
    assert!(
        info.cwnd >= before && info.ssthresh.get() == u64::MAX,
        "{} {}",
        info.cwnd,
        info.ssthresh
    );
    assert_eq!(info.reorderings, 1, "the path reorders");
}

/// The report comes when the recovery is over.
#[test]
fn a_late_duplicate_undoes_it_too() {
    let mut peer = connected(LossRecovery::default());
    let before = peer.info().cwnd;
    overtaken(&mut peer);
    peer.send(&sacks(&peer, 12, &[]));
    let sent = peer.info();
    assert!(!sent.recovering && sent.ssthresh < before, "{sent:?}");
    peer.send(&sacks(&peer, 12, &[(0, 1)]));
    let info = peer.info();
    assert_eq!((info.spurious, info.ssthresh.get()), (1, u64::MAX));
}

/// Eifel: the acknowledgment of the head echoes a timestamp from before it was sent again.
#[test]
fn an_old_echo_undoes_it() {
    for (late, spurious) in [(true, 1), (false, 0)] {
        let options = [mss(1012), sack_permitted(), timestamp(1, 0)].concat();
        let mut peer = Peer::connected(config(LossRecovery::default()), options);
        let first = peer.host_writes(20 * MSS as usize);
        let echo = |segment: &Segment| {
            let at = segment
                .options
                .windows(2)
                .position(|kind| kind == [8, 10])
                .expect("timestamps")
                + 2;
            u32::from_be_bytes(segment.options[at..at + 4].try_into().expect("four bytes"))
        };
        let old = echo(&first[0]);
        peer.run_for(ms(9));
        let mut again = None;
        for last in 2..=4 {
            let blocks = (peer.host_at(MSS), peer.host_at(last * MSS));
            let options = [timestamp(1, old), sack(&[blocks])].concat();
            for segment in peer.send(&Segment {
                options,
                ..peer.acknowledges(0)
            }) {
                if segment.seq == peer.host_at(0) {
                    again = Some(echo(&segment));
                }
            }
        }
        let again = again.expect("the head is sent again");
        let options = timestamp(2, if late { old } else { again });
        peer.send(&Segment {
            options,
            ..peer.acknowledges(10 * MSS)
        });
        assert_eq!(peer.info().spurious, spurious, "late: {late}");
    }
}

/// Liars: nothing was sent again, or not that often.
#[test]
fn reports_of_what_was_not_sent_again_are_ignored() {
    let mut peer = connected(LossRecovery::default());
    peer.host_writes(5 * MSS as usize);
    peer.send(&sacks(&peer, 5, &[]));
    let before = peer.info();
    for _ in 0..10 {
        peer.send(&sacks(&peer, 5, &[(0, 1)]));
        peer.send(&sacks(&peer, 5, &[(0, 5)]));
    }
    let info = peer.info();
    assert_eq!(
        (info.spurious, info.cwnd, info.ssthresh),
        (0, before.cwnd, before.ssthresh)
    );
}

/// The effect: every round trip in which a duplicate is reported widens the reordering window by a
/// quarter of the lowest RTT.
#[test]
fn duplicates_widen_the_reordering_window() {
    let widened = |reordering| {
        let mut peer = connected(LossRecovery {
            reordering,
            ..LossRecovery::default()
        });
        overtaken(&mut peer);
        // The head was late, as its duplicate tells; and another one is late, sent once.
        peer.send(&sacks(&peer, 4, &[(0, 1)]));
        peer.run_for(ms(9));
        let next = (peer.info().bytes_acked - 1) as u32 / MSS;
        peer.send(&sacks(&peer, next, &[(next + 1, next + 2)]));
        peer.send(&sacks(&peer, next + 2, &[]));
        let (before, sent) = (peer.info(), peer.info().retransmits);
        assert!(before.reorderings > 0);
        // A second episode.
        peer.run_for(ms(30));
        let answers = peer.send(&sacks(&peer, next + 2, &[(next + 3, next + 5)]));
        let mut again = numbers(&peer, &answers);
        again.extend(
            next_payload(&mut peer, ms(30))
                .map(|(sent, _)| sent)
                .unwrap_or_default(),
        );
        assert!(again.contains(&(next + 2)), "{again:?}");
        assert!(peer.info().retransmits > sent);
        peer.send(&sacks(&peer, next + 5, &[(next + 2, next + 3)]));
        peer.run_for(ms(9));
        peer.host_writes(MSS as usize);
        peer.run_for(ms(9));
        peer.send(&sacks(&peer, next + 6, &[]));
        (before.reordering_window, peer.info().reordering_window)
    };
    let (before, after) = widened(tautline_stack::Reordering::Adaptive);
    assert!(after > before, "{before:?}, {after:?}");
    let (before, after) = widened(tautline_stack::Reordering::Static);
    assert_eq!(before, after);
}

/// The host as receiver: what comes twice is reported first (RFC 2883 §4), also from far below.
#[test]
fn the_host_reports_what_arrives_twice() {
    let mut peer = connected(LossRecovery::default());
    let data = vec![7; MSS as usize];
    for offset in 0..4 {
        peer.send(&peer.data(offset * MSS, &data));
    }
    let blocks = |peer: &Peer, answers: &[Segment]| {
        let [answer] = answers else {
            panic!("one answer, not {answers:?}")
        };
        let at = answer.options.iter().position(|kind| *kind == 5)?;
        let block = &answer.options[at + 2..at + 10];
        let word =
            |at: usize| u32::from_be_bytes(block[at..at + 4].try_into().expect("four bytes"));
        Some((
            word(0).wrapping_sub(peer.at(0)),
            word(4).wrapping_sub(peer.at(0)),
        ))
    };
    for offset in [3, 0, 2] {
        let answers = peer.send(&peer.data(offset * MSS, &data));
        assert_eq!(
            blocks(&peer, &answers),
            Some((offset * MSS, (offset + 1) * MSS))
        );
    }
    let answers = peer.send(&peer.data(4 * MSS, &data));
    assert_eq!(blocks(&peer, &answers), None, "it is reported once");
    // A peer that did not agree to SACK hears nothing of it.
    let mut plain = Peer::connected(config(LossRecovery::default()), mss(MSS as u16));
    for _ in 0..2 {
        let answers = plain.send(&plain.data(0, &data));
        assert_eq!(blocks(&plain, &answers), None);
    }
}
