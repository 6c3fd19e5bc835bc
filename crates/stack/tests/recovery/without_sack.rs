//! RFC 5681, RFC 3042, RFC 6582: a peer that does not say what arrived.

use super::*;

fn connected() -> Peer {
    Peer::connected(config(LossRecovery::default()), mss(MSS as u16))
}

/// RFC 3042: the first two duplicates let out a new segment each; RFC 5681 §3.2: the third makes
/// the head lost.
#[test]
fn duplicates_let_out_new_data_and_then_the_lost_segment() {
    let mut peer = connected();
    assert_eq!(peer.host_writes(30 * MSS as usize).len(), 10);
    let mut sent = Vec::new();
    for _ in 0..3 {
        let answers = peer.send(&peer.ack());
        sent.push(numbers(&peer, &answers));
    }
    assert_eq!(sent, [vec![10], vec![11], vec![0]]);
    assert_eq!(peer.info().fast_recoveries, 1);
}

/// RFC 6582 §3.2: a partial acknowledgment names the next hole; the window is reduced once; the
/// end is where the recovery began.
#[test]
fn partial_acknowledgments_repair_one_hole_after_the_other() {
    let mut peer = connected();
    peer.host_writes(30 * MSS as usize);
    for _ in 0..3 {
        peer.send(&peer.ack());
    }
    let after_one = peer.info().ssthresh;
    let mut again = Vec::new();
    for hole in [3, 6] {
        let sent = peer.send(&peer.acknowledges(hole * MSS));
        again.extend(
            numbers(&peer, &sent)
                .into_iter()
                .filter(|number| *number < 10),
        );
    }
    assert_eq!(again, [3, 6]);
    assert!(peer.info().recovering);
    peer.send(&peer.acknowledges(12 * MSS));
    peer.send(&peer.acknowledges(13 * MSS));
    let info = peer.info();
    assert_eq!(
        (
            info.recovering,
            info.fast_recoveries,
            info.timeouts,
            info.ssthresh
        ),
        (false, 1, 0, after_one)
    );
}

/// RFC 5681 §2.
#[test]
fn window_and_data_segments_are_no_duplicates() {
    let mut peer = connected();
    peer.host_writes(30 * MSS as usize);
    for count in 0..5 {
        let sent = peer.send(&peer.data(count * 10, b"0123456789"));
        assert_eq!(numbers(&peer, &sent), [], "{count}");
    }
    assert_eq!(peer.info().fast_recoveries, 0);
}

/// RFC 5682 §2.1: the segment that was sent again fills the only hole, and an acknowledgment of everything
/// follows. It acknowledges segments that were sent once, but the timeout was no mistake.
#[test]
fn a_timeout_that_repairs_the_only_loss_is_not_spurious() {
    let mut peer = connected();
    assert_eq!(peer.host_writes(2 * MSS as usize).len(), 2);
    peer.send(&peer.ack());
    let (again, _) = next_payload(&mut peer, ms(1000)).expect("a timeout");
    assert_eq!(again, [0]);
    peer.send(&peer.acknowledges(2 * MSS));
    let info = peer.info();
    assert_eq!((info.timeouts, info.spurious_timeouts), (1, 0));
    assert!(info.ssthresh.get() <= 7 * u64::from(MSS) && info.cwnd.get() <= 3 * u64::from(MSS));
}

/// The same: that the head was late is known once new data was sent, and what was sent once is
/// acknowledged.
#[test]
fn a_spurious_timeout_is_found_by_new_data() {
    let mut peer = connected();
    assert_eq!(peer.host_writes(14 * MSS as usize).len(), 10);
    next_payload(&mut peer, ms(1000)).expect("a timeout");
    let sent = peer.send(&peer.acknowledges(MSS));
    assert_eq!(numbers(&peer, &sent), [10, 11]);
    assert_eq!(peer.info().spurious_timeouts, 0);
    peer.send(&peer.acknowledges(3 * MSS));
    assert_eq!(peer.info().spurious_timeouts, 1);
}
