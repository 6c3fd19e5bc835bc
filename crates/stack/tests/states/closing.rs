//! The ways to the end (RFC 9293 §3.6) and what limits each of them.

use std::time::Duration;

use tautline_stack::{CloseReason, Recv, SocketOption, TcpConfig, reset_connections};

use crate::peer::*;

fn connected(config: TcpConfig) -> Peer {
    Peer::connected(
        TcpConfig {
            nagle: false,
            ..config
        },
        [mss(1000), sack_permitted()].concat(),
    )
}

fn fin(segment: Segment) -> Segment {
    Segment {
        flags: FIN | ACK,
        ..segment
    }
}

/// The host's sockets besides the listener.
fn sockets(peer: &Peer) -> usize {
    peer.pair.hosts[HOST].socket_count() - 1
}

#[test]
fn a_half_closed_connection_still_receives_and_a_half_closed_peer_still_gets() {
    let mut peer = connected(TcpConfig::default());
    peer.pair.hosts[HOST].shutdown(peer.socket).expect("open");
    assert_eq!(peer.run_for(Duration::from_millis(1))[0].flags & FIN, FIN);
    peer.send(&peer.acknowledges(1));
    assert_eq!(peer.state(), Some("FIN-WAIT-2"));
    // Held by its application it waits for as long as the peer likes.
    peer.run_for(Duration::from_secs(4_000));
    let late = Segment {
        ack: peer.host_at(1),
        ..peer.data(0, b"late")
    };
    peer.send(&late);
    assert_eq!(peer.host_reads(), (b"late".to_vec(), Recv::Empty));

    let mut peer = connected(TcpConfig::default());
    peer.send(&fin(peer.ack()));
    assert_eq!(
        (peer.state(), peer.host_reads()),
        (Some("CLOSE-WAIT"), (Vec::new(), Recv::EndOfStream))
    );
    peer.run_for(Duration::from_secs(4_000));
    assert_eq!(peer.host_writes(10)[0].payload.len(), 10);
    peer.send(&Segment {
        seq: peer.at(1),
        ..peer.acknowledges(10)
    });
    peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
    assert_eq!(peer.run_for(Duration::from_millis(1))[0].flags & FIN, FIN);
    peer.send(&Segment {
        seq: peer.at(1),
        ..peer.acknowledges(11)
    });
    assert_eq!(sockets(&peer), 0, "LAST-ACK ends with the acknowledgment");
}

/// Figure 13 of RFC 9293.
#[test]
fn ends_that_close_at_once_pass_through_closing() {
    let mut peer = connected(TcpConfig::default());
    peer.pair.hosts[HOST].shutdown(peer.socket).expect("open");
    peer.run_for(Duration::from_millis(1));
    let answers = peer.send(&fin(peer.acknowledges(0)));
    assert_eq!((peer.state(), answers.len()), (Some("CLOSING"), 1));
    // The peer's FIN again is only acknowledged again.
    let answers = peer.send(&fin(peer.acknowledges(0)));
    assert_eq!((peer.state(), answers.len()), (Some("CLOSING"), 1));
    peer.send(&Segment {
        seq: peer.at(1),
        ..peer.acknowledges(1)
    });
    assert_eq!(peer.state(), Some("TIME-WAIT"));
}

#[test]
fn a_fin_that_acknowledges_ours_goes_straight_to_time_wait() {
    let mut peer = connected(TcpConfig::default());
    peer.pair.hosts[HOST].shutdown(peer.socket).expect("open");
    peer.run_for(Duration::from_millis(1));
    peer.send(&fin(peer.acknowledges(1)));
    assert_eq!(peer.state(), Some("TIME-WAIT"));
}

/// FreeBSD-SA-15:13 and its kin: in no state may a peer keep what nobody holds.
#[test]
fn an_abandoned_connection_ends_in_every_state_however_the_peer_behaves() {
    type Script = fn(&mut Peer);
    let close = |peer: &mut Peer| {
        peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
        peer.run_for(Duration::from_millis(1));
    };
    let before: [(&str, Script); 3] = [
        ("ESTABLISHED", |_| {}),
        ("CLOSE-WAIT", |peer| {
            peer.send(&fin(peer.ack()));
        }),
        ("with data behind a closed window", |peer| {
            peer.send(&Segment {
                window: 0,
                ..peer.ack()
            });
            peer.host_writes(5_000);
        }),
    ];
    let after: [(&str, Script); 4] = [
        ("silence", |_| {}),
        ("the FIN is acknowledged and no more comes", |peer| {
            peer.send(&peer.acknowledges(1));
        }),
        ("the peer's FIN crosses and no more comes", |peer| {
            peer.send(&fin(peer.ack()));
        }),
        (
            "the window stays closed and every probe is answered",
            |peer| {
                for _ in 0..20_000 {
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
            },
        ),
    ];
    for (first, before) in before {
        for (then, after) in after {
            let mut peer = connected(TcpConfig::default());
            before(&mut peer);
            close(&mut peer);
            after(&mut peer);
            peer.run_for(Duration::from_secs(2_000));
            assert_eq!(sockets(&peer), 0, "{first}, then {then}");
            assert_eq!(
                peer.pair.hosts[HOST].outstanding(),
                0,
                "{first}, then {then}"
            );
        }
    }
}

#[test]
fn an_orphan_in_fin_wait_2_ends_after_its_own_time() {
    let config = TcpConfig {
        fin_wait: Duration::from_secs(7),
        ..TcpConfig::default()
    };
    let mut peer = connected(config);
    peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
    peer.run_for(Duration::from_millis(1));
    peer.send(&peer.acknowledges(1));
    peer.run_for(Duration::from_secs(6));
    assert_eq!(sockets(&peer), 1);
    peer.run_for(Duration::from_secs(2));
    assert_eq!(sockets(&peer), 0);
}

/// Linux `tcp_orphan_retries`: an orphan's segment is retransmitted 8 times, not 15.
#[test]
fn an_orphan_has_fewer_retries() {
    for (orphan, retries) in [(true, 8), (false, 15)] {
        let mut peer = connected(TcpConfig::default());
        peer.host_writes(100);
        if orphan {
            peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
        }
        let sent = peer.run_for(Duration::from_secs(2_000));
        let again = sent
            .iter()
            .filter(|segment| segment.seq == peer.host_at(0) && segment.flags & RST == 0)
            .count();
        // The tail is probed for once besides.
        assert!(
            (retries..=retries + 1).contains(&again),
            "orphan {orphan}: {again}"
        );
    }
}

#[test]
fn linger_of_nothing_resets_at_once() {
    for live in [false, true] {
        let linger = Some(Duration::ZERO);
        let mut peer = connected(TcpConfig {
            linger: if live { None } else { linger },
            ..TcpConfig::default()
        });
        peer.host_writes(10);
        if live {
            peer.pair.hosts[HOST]
                .set_option(peer.socket, SocketOption::Linger(linger))
                .expect("open");
        }
        peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
        let sent = peer.run_for(Duration::from_millis(1));
        assert_eq!(
            sent.iter()
                .map(|segment| segment.flags & (RST | FIN))
                .collect::<Vec<_>>(),
            [RST]
        );
        assert_eq!(sockets(&peer), 0);
    }
}

#[test]
fn a_linger_time_bounds_the_delivery() {
    let linger = Some(Duration::from_secs(3));
    let mut peer = connected(TcpConfig {
        linger,
        ..TcpConfig::default()
    });
    peer.host_writes(10);
    peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
    peer.run_for(Duration::from_millis(2_900));
    assert_eq!(sockets(&peer), 1);
    let sent = peer.run_for(Duration::from_millis(200));
    assert_eq!(
        (
            sockets(&peer),
            sent.last().map(|segment| segment.flags & RST)
        ),
        (0, Some(RST))
    );
    // A peer that takes it in time sees an end in order.
    let mut peer = connected(TcpConfig {
        linger,
        ..TcpConfig::default()
    });
    peer.host_writes(10);
    peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
    peer.run_for(Duration::from_secs(1));
    peer.send(&fin(peer.acknowledges(11)));
    let sent = peer.run_for(Duration::from_secs(100));
    assert!(
        sent.iter().all(|segment| segment.flags & RST == 0),
        "{sent:?}"
    );
    assert_eq!(sockets(&peer), 0);
}

/// An application may hold the socket of a connection that ended: a new one takes its ports.
#[test]
fn a_syn_takes_the_ports_of_a_closed_connection() {
    let mut peer = connected(TcpConfig::default());
    peer.send(&Segment {
        flags: RST,
        ..peer.ack()
    });
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));
    let syn = Segment {
        flags: SYN,
        seq: ISN.wrapping_add(1 << 20),
        ack: 0,
        ..peer.ack()
    };
    let answers = peer.send(&syn);
    let answers: Vec<_> = answers.iter().map(|it| (it.flags, it.ack)).collect();
    assert_eq!(answers, [(SYN | ACK, syn.seq.wrapping_add(1))]);
}

/// `SHUT_RD`: what has arrived is read, then the end. Data for a half that nobody reads resets the
/// connection once its other half is closed, too (RFC 1122 §4.2.2.13).
#[test]
fn a_shut_receiving_half_ends_what_is_read() {
    let mut peer = connected(TcpConfig::default());
    peer.send(&peer.data(0, b"so far"));
    let mut buffer = [0; 32];
    let host = &mut peer.pair.hosts[HOST];
    let mut socket = host.tcp(peer.socket).expect("open");
    socket.shutdown_receive().expect("open");
    let reads = [0, 1].map(|_| host.recv(peer.socket, &mut buffer));
    assert_eq!(reads, [Ok(Recv::Data(6)), Ok(Recv::EndOfStream)]);
    host.shutdown(peer.socket).expect("open");
    peer.run_for(Duration::from_millis(1));
    peer.send(&peer.acknowledges(1));
    let answers = peer.send(&peer.data(6, b"more"));
    assert_eq!(answers.last().map(|answer| answer.flags & RST), Some(RST));
}

/// An application that is about to stop waits until its closed connections have delivered.
#[test]
fn a_closed_connection_delivers_until_its_fin_is_acknowledged() {
    let mut peer = connected(TcpConfig::default());
    peer.host_writes(10);
    assert!(!peer.pair.hosts[HOST].is_delivering(), "it is not closed");
    peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
    peer.run_for(Duration::from_millis(1));
    peer.send(&peer.acknowledges(10));
    assert!(peer.pair.hosts[HOST].is_delivering(), "the FIN is not");
    peer.send(&peer.acknowledges(11));
    assert_eq!(sockets(&peer), 1, "FIN-WAIT-2");
    assert!(!peer.pair.hosts[HOST].is_delivering());
    // Of one that its application holds the FIN counts, too.
    let mut peer = connected(TcpConfig::default());
    peer.pair.hosts[HOST].shutdown(peer.socket).expect("open");
    peer.run_for(Duration::from_millis(1));
    assert!(peer.pair.hosts[HOST].is_delivering(), "the FIN is not");
    peer.send(&peer.acknowledges(1));
    assert!(!peer.pair.hosts[HOST].is_delivering());
}

#[test]
fn a_host_that_stops_resets_what_is_open_and_spares_what_is_delivered() {
    let resets = |peer: &mut Peer| reset_connections(&mut peer.pair.hosts[HOST]);
    // Held by its application, or not delivered.
    for is_closed in [false, true] {
        let mut peer = connected(TcpConfig::default());
        peer.host_writes(10);
        if is_closed {
            peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
            peer.run_for(Duration::from_millis(1));
        }
        assert_eq!(resets(&mut peer), 1);
        let last = peer.run_for(Duration::from_millis(1));
        assert_eq!(last.last().map(|last| last.flags & RST), Some(RST));
        assert_eq!(resets(&mut peer), 0, "it is over");
    }
    let mut peer = connected(TcpConfig::default());
    peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
    peer.run_for(Duration::from_millis(1));
    peer.send(&peer.acknowledges(1));
    assert_eq!(sockets(&peer), 1, "FIN-WAIT-2");
    assert_eq!(
        resets(&mut peer),
        0,
        "its peer may not have read everything"
    );
    // One that its application holds waits for the peer's data.
    let mut peer = connected(TcpConfig::default());
    peer.pair.hosts[HOST].shutdown(peer.socket).expect("open");
    peer.run_for(Duration::from_millis(1));
    peer.send(&peer.acknowledges(1));
    assert_eq!(peer.state(), Some("FIN-WAIT-2"));
    assert_eq!(resets(&mut peer), 1);
}

#[test]
fn data_for_an_orphan_is_answered_with_a_reset() {
    let mut peer = connected(TcpConfig::default());
    peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
    peer.run_for(Duration::from_millis(1));
    let answers = peer.send(&peer.data(0, b"too late"));
    assert_eq!(
        answers.last().map(|answer| answer.flags & RST),
        Some(RST),
        "what is lost must not be thought delivered"
    );
    assert_eq!(sockets(&peer), 0);
}

#[test]
fn an_application_that_holds_a_reset_connection_reads_what_came_before() {
    let mut peer = connected(TcpConfig::default());
    peer.send(&peer.data(0, b"last words"));
    peer.send(&Segment {
        flags: RST,
        seq: peer.at(10),
        ..peer.ack()
    });
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));
    let mut buffer = [0; 32];
    assert_eq!(
        peer.pair.hosts[HOST].recv(peer.socket, &mut buffer),
        Ok(Recv::Data(10))
    );
}
