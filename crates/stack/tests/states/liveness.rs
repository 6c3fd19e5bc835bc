//! Keepalive (RFC 9293 §3.8.4) and the user timeout (RFC 5482, kept local).

use std::time::Duration;

use tautline_stack::{CloseReason, Keepalive, SocketOption, TcpConfig};

use crate::peer::*;

const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(100),
    interval: Duration::from_secs(10),
    probes: 3,
};

fn keeping() -> TcpConfig {
    TcpConfig {
        keepalive: Some(KEEPALIVE),
        nagle: false,
        ..TcpConfig::default()
    }
}

/// Seconds until the host sends a segment; `None` if it is silent for `limit` seconds.
fn seconds_until_sent(peer: &mut Peer, limit: u64) -> Option<(u64, Vec<Segment>)> {
    (1..=limit).find_map(|second| {
        let sent = peer.run_for(Duration::from_secs(1));
        (!sent.is_empty()).then_some((second, sent))
    })
}

#[test]
fn defaults_are_those_of_linux_and_off() {
    let Keepalive {
        idle,
        interval,
        probes,
    } = Keepalive::default();
    assert_eq!((idle.as_secs(), interval.as_secs(), probes), (7_200, 75, 9));
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    assert_eq!(
        seconds_until_sent(&mut peer, 20_000),
        None,
        "nobody asked for probes"
    );
    assert_eq!(peer.state(), Some("ESTABLISHED"));
}

#[test]
fn a_quiet_peer_is_asked_and_lives_as_long_as_it_answers() {
    let mut peer = Peer::connected(keeping(), mss(1000));
    for round in 0..5 {
        let (waited, probe) = seconds_until_sent(&mut peer, 200).expect("a probe");
        assert!(
            (99..=101).contains(&waited),
            "round {round}: asked after {waited} s"
        );
        let [probe] = &probe[..] else {
            panic!("one probe, not {probe:?}")
        };
        // One below what the peer expects, empty: it must answer.
        assert_eq!(
            (probe.seq, probe.payload.len(), probe.flags),
            (peer.host_at(u32::MAX), 0, ACK)
        );
        assert_eq!(peer.send(&peer.ack()), [], "the answer is not answered");
    }
    assert_eq!(peer.state(), Some("ESTABLISHED"));
}

/// A machine that slept is no peer that is silent: it asks once, and waits for the answer.
#[test]
fn a_loop_that_comes_hours_late_asks_once() {
    let mut peer = Peer::connected(keeping(), mss(1000));
    peer.pair.now += Duration::from_secs(10_000);
    let sent = peer.run_for(Duration::from_millis(1));
    let [probe] = &sent[..] else {
        panic!("one probe, not {sent:?}")
    };
    assert_eq!(probe.flags, ACK);
    assert_eq!(peer.state(), Some("ESTABLISHED"));
    assert_eq!(peer.send(&peer.ack()), []);
    let (waited, _) = seconds_until_sent(&mut peer, 200).expect("a probe");
    assert!((99..=101).contains(&waited), "asked after {waited} s");
}

#[test]
fn a_silent_peer_is_given_up_after_the_probes() {
    let mut peer = Peer::connected(keeping(), mss(1000));
    let mut at = Vec::new();
    for second in 1..=200_u64 {
        let sent = peer.run_for(Duration::from_secs(1));
        at.extend(sent.iter().map(|segment| (second, segment.flags)));
    }
    let expected = [(100_u64, ACK), (110, ACK), (120, ACK), (130, RST | ACK)];
    assert!(
        at.iter()
            .zip(&expected)
            .all(|(a, b)| a.0.abs_diff(b.0) <= 1 && a.1 == b.1)
            && at.len() == 4,
        "{at:?}"
    );
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));
}

#[test]
fn traffic_puts_the_question_off_and_what_is_outstanding_replaces_it() {
    let mut peer = Peer::connected(keeping(), mss(1000));
    for offset in 0..4 {
        peer.run_for(Duration::from_secs(90));
        peer.send(&peer.data(offset, b"x"));
    }
    assert_eq!(peer.state(), Some("ESTABLISHED"));
    // Unanswered data: retransmissions, no keepalive probe among them.
    peer.host_writes(10);
    let sent: Vec<_> = (0..150)
        .flat_map(|_| peer.run_for(Duration::from_secs(1)))
        .collect();
    assert!(
        !sent.is_empty() && sent.iter().all(|segment| !segment.payload.is_empty()),
        "{sent:?}"
    );
}

#[test]
fn keepalive_can_be_switched_while_the_connection_lives() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    peer.run_for(Duration::from_secs(5_000));
    peer.pair.hosts[HOST]
        .set_option(peer.socket, SocketOption::Keepalive(Some(KEEPALIVE)))
        .expect("open");
    let (waited, _) = seconds_until_sent(&mut peer, 200).expect("a probe");
    assert!(
        (99..=101).contains(&waited),
        "asked {waited} s after it was switched on"
    );
    peer.send(&peer.ack());
    peer.pair.hosts[HOST]
        .set_option(peer.socket, SocketOption::Keepalive(None))
        .expect("open");
    assert_eq!(seconds_until_sent(&mut peer, 1_000), None);
}

/// Linux: with a user timeout the time decides, not the count of probes.
#[test]
fn a_user_timeout_ends_keepalive_by_the_clock() {
    let config = TcpConfig {
        user_timeout: Some(Duration::from_secs(145)),
        ..keeping()
    };
    let mut peer = Peer::connected(config, mss(1000));
    let probes: Vec<_> = (0..139)
        .flat_map(|_| peer.run_for(Duration::from_secs(1)))
        .collect();
    assert_eq!(probes.len(), 4, "more than the count of 3");
    assert_eq!(peer.pair.closed(HOST), None);
    peer.run_for(Duration::from_secs(12));
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));
}

#[test]
fn unacknowledged_data_is_given_up_punctually() {
    for limit in [700, 5_000, 3_600_000] {
        let config = TcpConfig {
            user_timeout: Some(Duration::from_millis(limit)),
            nagle: false,
            ..TcpConfig::default()
        };
        let mut peer = Peer::connected(config, mss(1000));
        peer.host_writes(10);
        let before = Duration::from_millis(limit - 50);
        peer.run_for(before);
        assert_eq!(peer.pair.closed(HOST), None, "{limit} ms");
        let last = peer.run_for(Duration::from_millis(60));
        assert_eq!(
            peer.pair.closed(HOST),
            Some(CloseReason::TimedOut),
            "{limit} ms"
        );
        assert_eq!(
            last.last().map(|segment| segment.flags & RST),
            Some(RST),
            "the peer is told"
        );
    }
}

#[test]
fn progress_starts_the_user_timeout_again() {
    let config = TcpConfig {
        user_timeout: Some(Duration::from_secs(5)),
        nagle: false,
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1000));
    peer.host_writes(5_000);
    for acknowledged in 1..5 {
        peer.run_for(Duration::from_millis(4_500));
        peer.send(&peer.acknowledges(1000 * acknowledged));
    }
    assert_eq!(peer.pair.closed(HOST), None);
    peer.run_for(Duration::from_secs(6));
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));
}

/// CVE-2008-4609 (sockstress): a peer that answers every probe with a closed window lasts as long
/// as the application allows.
#[test]
fn a_window_held_closed_ends_with_the_user_timeout_although_the_peer_answers() {
    for (limit, ends) in [(None, false), (Some(Duration::from_secs(120)), true)] {
        let config = TcpConfig {
            user_timeout: limit,
            nagle: false,
            ..TcpConfig::default()
        };
        let mut peer = Peer::connected(config, mss(1000));
        peer.send(&Segment {
            window: 0,
            ..peer.ack()
        });
        peer.host_writes(1_000);
        for _ in 0..3_000 {
            if !peer.run_for(Duration::from_millis(100)).is_empty() {
                peer.pair.inject(
                    HOST,
                    &Segment {
                        window: 0,
                        ..peer.ack()
                    }
                    .to_frame(),
                );
            }
        }
        assert_eq!(
            peer.pair.closed(HOST) == Some(CloseReason::TimedOut),
            ends,
            "{limit:?}"
        );
    }
}

/// The window closes while what does not fill a segment waits for more: its time counts as well.
#[test]
fn a_window_that_closes_over_corked_data_ends_with_the_user_timeout() {
    let config = TcpConfig {
        user_timeout: Some(Duration::from_secs(30)),
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1000));
    let cork = SocketOption::Cork(true);
    let corked = peer.pair.hosts[HOST].set_option(peer.socket, cork);
    corked.expect("open");
    assert_eq!(peer.host_writes(100).len(), 0);
    peer.send(&Segment {
        window: 0,
        ..peer.ack()
    });
    // Nobody answers the probes.
    peer.run_for(Duration::from_secs(40));
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));
}

#[test]
fn switching_nagle_off_lets_go_what_waits() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    assert_eq!(peer.host_writes(10).len(), 1);
    assert_eq!(
        peer.host_writes(10).len(),
        0,
        "a second small segment waits"
    );
    peer.pair.hosts[HOST]
        .set_option(peer.socket, SocketOption::Nodelay(true))
        .expect("open");
    assert_eq!(peer.run_for(Duration::from_millis(1)).len(), 1);
}
