//! Losses among the segments sent during a recovery ([`Successive`]).

use super::*;
use tautline_stack::Successive;

/// Segment 0 of twelve is lost, and segment 12, sent during the repair. Recoveries when the first
/// twelve have arrived, and when everything has.
fn recoveries(successive: Successive) -> [u64; 2] {
    let mut peer = connected(LossRecovery {
        successive,
        ..LossRecovery::default()
    });
    assert_eq!(numbers_written(&mut peer, 20).len(), 10);
    peer.run_for(ms(9));
    let mut sent = Vec::new();
    for last in 2..=10 {
        let answers = peer.send(&sacks(&peer, 0, &[(1, last)]));
        sent.extend(numbers(&peer, &answers));
    }
    assert!(sent.contains(&0) && sent.contains(&15), "{sent:?}");
    assert_eq!(peer.info().fast_recoveries, 1);
    peer.run_for(ms(9));
    // Three beyond it have arrived: segment 12 is lost, while the first repair still goes on.
    peer.send(&sacks(&peer, 0, &[(13, 16), (1, 12)]));
    assert_eq!(peer.info().fast_recoveries, 1);
    peer.send(&sacks(&peer, 12, &[(13, 16)]));
    let over = peer.info();
    assert_eq!(over.recovering, successive == Successive::AtOnce);
    peer.send(&sacks(&peer, 16, &[]));
    [over.fast_recoveries, peer.info().fast_recoveries]
}

fn numbers_written(peer: &mut Peer, segments: u32) -> Vec<u32> {
    let sent = peer.host_writes((segments * MSS) as usize);
    numbers(peer, &sent)
}

#[test]
fn losses_left_behind_begin_a_recovery_at_once_or_wait_for_the_next_loss() {
    assert_eq!(recoveries(Successive::AtOnce), [2, 2]);
    assert_eq!(recoveries(Successive::AtNextLoss), [1, 1]);
}
