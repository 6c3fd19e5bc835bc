//! RFC 8985 §6.2 step 5, with Linux's additions: the end of the reordering window finds a loss.

use super::*;

/// Twelve segments, of which the peer reports the second after 10 ms: the first is lost when the
/// reordering window ends. What is sent then, and after the peer has reported the third.
fn repaired(config: TcpConfig) -> (Duration, [Vec<u32>; 2]) {
    let options = [mss(MSS as u16), sack_permitted()].concat();
    let mut peer = Peer::connected(config, options);
    assert_eq!(peer.host_writes(20 * MSS as usize).len(), 10);
    peer.run_for(ms(9));
    let since = peer.pair.now;
    let answers = peer.send(&sacks(&peer, 0, &[(1, 2)]));
    assert_eq!(numbers(&peer, &answers), [10], "limited transmit");
    let (lost, at) = next_payload(&mut peer, ms(200)).expect("the first is sent again");
    assert_eq!(peer.info().fast_recoveries, 1);
    let answers = peer.send(&sacks(&peer, 0, &[(1, 3)]));
    (at - since, [lost, numbers(&peer, &answers)])
}

/// `tcp_rack_reo_timeout`: the window admits as much as after a delivery.
#[test]
fn the_timer_counts_as_a_delivery_in_linux() {
    for (prr_credit_on_timer, then) in [(false, vec![]), (true, vec![11])] {
        let loss_recovery = LossRecovery {
            prr_credit_on_timer,
            ..LossRecovery::linux()
        };
        assert_eq!(repaired(config(loss_recovery)).1, [vec![0], then]);
    }
}

/// The window of a quarter of 10 ms, and 2 ms, end with a tick of the clock: 10 to 20 ms later with 100
/// ticks a second.
#[test]
fn the_timer_ends_with_a_tick() {
    let time = |timer_tick| {
        let config = TcpConfig {
            timer_tick,
            ..config(LossRecovery::default())
        };
        repaired(config).0
    };
    assert!(time(Duration::ZERO) < ms(7));
    let coarse = time(ms(10));
    assert!((ms(10)..=ms(21)).contains(&coarse), "{coarse:?}");
}
