//! RFC 8985 §7: no later segment reveals the loss of a flight's tail. A probe does.

use super::*;

/// Round trips until the average knows them.
const ROUNDS: u32 = 40;

/// A round trip is known to take `millis`: one segment is sent and acknowledged.
fn with_rtt(loss_recovery: LossRecovery, millis: u64) -> Peer {
    let mut peer = connected(loss_recovery);
    for number in 0..ROUNDS {
        assert_eq!(peer.host_writes(MSS as usize).len(), 1);
        peer.run_for(ms(millis - 1));
        peer.send(&sacks(&peer, number + 1, &[]));
    }
    peer
}

/// Ten segments are written; the last one is lost, and the acknowledgment of the ninth is held
/// back by the peer. How long after the last acknowledgment the host sends the lost one again, and
/// what it took for it.
fn tail_loss(loss_recovery: LossRecovery) -> (Duration, tautline_stack::TcpInfo) {
    let mut peer = with_rtt(loss_recovery, 40);
    assert_eq!(peer.host_writes(10 * MSS as usize).len(), 10);
    peer.run_for(ms(39));
    peer.send(&sacks(&peer, ROUNDS + 8, &[]));
    let since = peer.pair.now - ms(1);
    let (numbers, at) = next_payload(&mut peer, ms(2000)).expect("the tail is sent again");
    assert!(
        numbers == [ROUNDS + 9] || numbers == [ROUNDS + 8],
        "{numbers:?}"
    );
    let info = peer.info();
    (at - since, info)
}

/// The effect: without the probe it takes a timeout, and the window starts anew.
#[test]
fn a_lost_tail_is_sent_again_after_two_round_trips() {
    let (time, info) = tail_loss(LossRecovery::default());
    let limit = info.srtt * 2 + ms(2);
    assert!(
        time <= limit + Duration::from_micros(200),
        "{time:?} with an RTT of {:?}",
        info.srtt
    );
    assert_eq!(
        (info.tail_probes, info.timeouts, info.retransmits),
        (1, 0, 1)
    );
    let (time, info) = tail_loss(LossRecovery {
        tail_loss_probe: false,
        ..LossRecovery::default()
    });
    assert!(time >= ms(200), "{time:?}");
    assert_eq!((info.tail_probes, info.timeouts), (0, 1));
}

/// RFC 8985 §7.2: SRTT 40 ms gives 82 ms with two segments out, 280 ms with one; never later
/// than the timeout, which with a deviation this small comes 240 ms after the last acknowledgment.
#[test]
fn a_lone_segment_allows_for_a_delayed_acknowledgment() {
    for (segments, max_ack_delay, least, most) in
        [(2, 200, 80, 83), (1, 200, 235, 250), (1, 25, 103, 107)]
    {
        let recovery = LossRecovery {
            max_ack_delay: ms(max_ack_delay),
            ..LossRecovery::default()
        };
        let mut peer = with_rtt(recovery, 40);
        let since = peer.pair.now;
        assert_eq!(peer.host_writes(segments * MSS as usize).len(), segments);
        let (_, at) = next_payload(&mut peer, ms(2000)).expect("a probe or a timeout");
        let time = at - since;
        assert!(
            (ms(least)..ms(most)).contains(&time),
            "{segments} segments, {max_ack_delay} ms: {time:?}"
        );
    }
}

/// Two round trips of 10 ms and 2 ms end with a tick of 50 ms.
#[test]
fn the_probe_ends_with_a_tick() {
    let time = |timer_tick| {
        let config = TcpConfig {
            timer_tick,
            ..config(LossRecovery::default())
        };
        let options = [mss(MSS as u16), sack_permitted()].concat();
        let mut peer = Peer::connected(config, options);
        let since = peer.pair.now;
        assert_eq!(peer.host_writes(5 * MSS as usize).len(), 5);
        let (_, at) = next_payload(&mut peer, ms(190)).expect("a probe");
        at - since
    };
    assert!(time(Duration::ZERO) < ms(30));
    let coarse = time(ms(50));
    assert!((ms(50)..=ms(101)).contains(&coarse), "{coarse:?}");
}

#[test]
fn new_data_is_the_better_probe_even_beyond_the_window() {
    let mut peer = connected(LossRecovery::default());
    assert_eq!(
        peer.host_writes(12 * MSS as usize).len(),
        10,
        "the window holds ten"
    );
    let (sent, _) = next_payload(&mut peer, ms(100)).expect("a probe");
    assert_eq!(sent, [10], "an eleventh, and no second probe of this tail");
    assert_eq!(peer.info().retransmits, 0);
    // All arrive: nothing was lost, nothing is paid.
    let before = peer.info().cwnd;
    peer.send(&sacks(&peer, 11, &[]));
    let info = peer.info();
    assert!(info.cwnd >= before && !info.recovering);
    assert_eq!(info.tail_losses, 0);
}

#[test]
fn a_loss_that_the_probe_repaired_costs_the_window_once() {
    let mut peer = connected(LossRecovery::default());
    peer.host_writes(10 * MSS as usize);
    peer.send(&sacks(&peer, 8, &[]));
    let (sent, _) = next_payload(&mut peer, ms(100)).expect("a probe");
    assert_eq!(sent, [9]);
    let before = peer.info().cwnd;
    // The probe fills the hole; whether it or the original did shows when something later is
    // acknowledged.
    peer.send(&sacks(&peer, 10, &[]));
    assert_eq!(peer.info().tail_losses, 0);
    peer.host_writes(MSS as usize);
    peer.send(&sacks(&peer, 11, &[]));
    let info = peer.info();
    assert_eq!(
        (info.tail_losses, info.timeouts, info.recovering),
        (1, 0, false)
    );
    assert!(
        info.cwnd < before && info.cwnd == info.ssthresh,
        "{} after {before}",
        info.cwnd
    );
}

#[test]
fn a_probe_that_arrived_twice_costs_nothing() {
    let mut peer = connected(LossRecovery::default());
    peer.host_writes(10 * MSS as usize);
    peer.send(&sacks(&peer, 8, &[]));
    assert_eq!(next_payload(&mut peer, ms(100)).expect("a probe").0, [9]);
    peer.send(&sacks(&peer, 10, &[]));
    let before = peer.info().cwnd;
    peer.send(&sacks(&peer, 10, &[(9, 10)]));
    peer.host_writes(MSS as usize);
    peer.send(&sacks(&peer, 11, &[]));
    let info = peer.info();
    assert_eq!(
        (info.tail_losses, info.duplicates, info.spurious),
        (0, 1, 0)
    );
    assert!(info.cwnd >= before);
}

/// The probe's SACK shows two holes before it.
#[test]
fn a_probe_starts_fast_recovery_of_a_longer_tail() {
    let mut peer = connected(LossRecovery::default());
    peer.host_writes(10 * MSS as usize);
    peer.send(&sacks(&peer, 7, &[]));
    assert_eq!(next_payload(&mut peer, ms(100)).expect("a probe").0, [9]);
    peer.run_for(ms(10));
    let sent = peer.send(&sacks(&peer, 7, &[(9, 10)]));
    assert_eq!(numbers(&peer, &sent), [7]);
    let info = peer.info();
    assert_eq!((info.fast_recoveries, info.timeouts), (1, 0));
}

#[test]
fn peers_without_sack_and_tails_with_holes_are_not_probed() {
    let mut peer = Peer::connected(config(LossRecovery::default()), mss(MSS as u16));
    peer.host_writes(10 * MSS as usize);
    peer.run_for(ms(150));
    assert_eq!(peer.info().tail_probes, 0);
    let mut peer = connected(LossRecovery {
        reordering: tautline_stack::Reordering::Static,
        ..LossRecovery::default()
    });
    peer.host_writes(10 * MSS as usize);
    peer.send(&sacks(&peer, 0, &[(1, 2)]));
    peer.run_for(ms(150));
    assert_eq!(peer.info().tail_probes, 0, "RACK's timer looks after it");
    assert_eq!(peer.info().fast_recoveries, 1);
}
