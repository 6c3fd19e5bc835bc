//! RFC 6298 and RFC 5682: what a timeout does, and how a spurious one is recognized.

use super::*;

/// Without probes of the tail, so that timeouts come.
fn unprobed() -> LossRecovery {
    LossRecovery {
        tail_loss_probe: false,
        ..LossRecovery::default()
    }
}

/// Ten segments are out and nothing comes back; the head is sent again. Two more segments wait.
fn timed_out(loss_recovery: LossRecovery) -> Peer {
    let mut peer = connected(loss_recovery);
    assert_eq!(peer.host_writes(14 * MSS as usize).len(), 10);
    assert_eq!(next_payload(&mut peer, ms(1000)).expect("a timeout").0, [0]);
    let info = peer.info();
    assert_eq!((info.timeouts, info.cwnd.get()), (1, u64::from(MSS)));
    peer
}

/// All that was sent is only late. The first acknowledgment lets out two new segments; the next is
/// of data sent once.
#[test]
fn a_spurious_timeout_costs_one_retransmission_and_no_window() {
    let mut peer = timed_out(unprobed());
    // No timestamps, no D-SACK: only forward RTO recovery can tell. The head alone says nothing.
    let sent = peer.send(&sacks(&peer, 1, &[]));
    assert_eq!(
        numbers(&peer, &sent),
        [10, 11],
        "new data instead of retransmissions"
    );
    let sent = peer.send(&sacks(&peer, 3, &[]));
    let info = peer.info();
    assert_eq!(
        (info.spurious_timeouts, info.recovering, info.retransmits),
        (1, false, 1)
    );
    assert!(info.cwnd.get() >= 10 * u64::from(MSS), "{}", info.cwnd);
    assert_eq!(numbers(&peer, &sent), [12, 13]);
    // The effect: without it, what arrived is sent again.
    let mut peer = timed_out(LossRecovery {
        frto: false,
        ..unprobed()
    });
    let sent = peer.send(&sacks(&peer, 1, &[]));
    assert_eq!(numbers(&peer, &sent), [1, 2]);
    peer.send(&sacks(&peer, 3, &[]));
    assert_eq!(
        (peer.info().spurious_timeouts, peer.info().recovering),
        (0, true)
    );
}

#[test]
fn a_real_loss_is_repaired_after_the_trial() {
    let mut peer = timed_out(unprobed());
    peer.send(&sacks(&peer, 1, &[]));
    // The new segments arrive beyond the holes; the old ones never will.
    let sent = peer.send(&sacks(&peer, 1, &[(10, 11)]));
    assert!(
        numbers(&peer, &sent).starts_with(&[1]),
        "{:?}",
        numbers(&peer, &sent)
    );
    let info = peer.info();
    assert_eq!((info.spurious_timeouts, info.recovering), (0, true));
}

#[test]
fn without_new_data_retransmissions_go_on() {
    let mut peer = connected(unprobed());
    peer.host_writes(10 * MSS as usize);
    next_payload(&mut peer, ms(1000)).expect("a timeout");
    let sent = peer.send(&sacks(&peer, 1, &[]));
    assert_eq!(numbers(&peer, &sent), [1, 2]);
}

/// Recent segments may still arrive: only the head, and segments older than RACK's window, count as
/// lost.
#[test]
fn a_timeout_does_not_mark_recent_segments_lost() {
    let mut peer = connected(unprobed());
    peer.host_writes(2 * MSS as usize);
    peer.run_for(ms(203));
    peer.host_writes(2 * MSS as usize);
    let (sent, _) = next_payload(&mut peer, ms(50)).expect("a timeout");
    assert_eq!(sent, [0]);
    let info = peer.info();
    assert_eq!(
        (info.timeouts, info.in_flight.get()),
        (1, 3 * u64::from(MSS)),
        "the head again and the two new ones"
    );
}

/// Doubled until something is known about the round trip, and no longer.
#[test]
fn the_timeout_backs_off_and_recovers() {
    let mut peer = connected(unprobed());
    peer.host_writes(MSS as usize);
    let mut at = Vec::new();
    for _ in 0..4 {
        at.push(next_payload(&mut peer, ms(4000)).expect("a timeout").1);
    }
    let gaps: Vec<_> = at
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_millis())
        .collect();
    for (gap, expected) in gaps.iter().zip([420, 840, 1680]) {
        assert!(gap.abs_diff(expected) < 15, "{gaps:?}");
    }
    assert!(peer.info().rto > ms(3000));
    peer.send(&sacks(&peer, 1, &[]));
    assert!(
        peer.info().rto > ms(3000),
        "which copy was acknowledged is not known (Karn)"
    );
    peer.host_writes(MSS as usize);
    peer.send(&sacks(&peer, 2, &[]));
    assert!(peer.info().rto < ms(300));
}

/// A retransmission that is lost too is noticed by what was sent after it.
#[test]
fn a_lost_retransmission_needs_no_second_timeout() {
    let mut peer = timed_out(LossRecovery {
        frto: false,
        ..unprobed()
    });
    peer.run_for(ms(10));
    let sent = peer.send(&sacks(&peer, 1, &[]));
    assert_eq!(numbers(&peer, &sent), [1, 2]);
    // The first of them is lost again.
    peer.run_for(ms(10));
    let sent = peer.send(&sacks(&peer, 1, &[(2, 3)]));
    assert_eq!(
        numbers(&peer, &sent).first(),
        Some(&1),
        "{:?}",
        numbers(&peer, &sent)
    );
    assert_eq!(
        (peer.info().timeouts, peer.info().fast_recoveries),
        (1, 1),
        "a second loss, a second reduction"
    );
}
