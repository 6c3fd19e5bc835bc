//! A next hop that is gone: a connection ends as one whose peer is silent does, although nothing of it
//! leaves any more once the hardware address has been resolved anew in vain (RFC 4861 §7.3.3).

use std::time::Duration;

use tautline_base::SocketId;
use tautline_stack::{CloseReason, Keepalive, TcpConfig};

use crate::pair::Pair;

/// Side 0 connected to side 1, which is quiet for as long as a hardware address is fresh, and then gone.
fn left(config: TcpConfig) -> (Pair, SocketId) {
    let (mut pair, client, _) = Pair::connected(5, config);
    pair.run_for(Duration::from_secs(61));
    pair.filter = Box::new(|side, _| side == 0);
    (pair, client)
}

#[test]
fn keepalive_notices_that_a_host_is_gone() {
    let keepalive = Keepalive {
        idle: Duration::from_secs(100),
        interval: Duration::from_secs(10),
        probes: 9,
    };
    let (mut pair, _) = left(TcpConfig {
        keepalive: Some(keepalive),
        ..TcpConfig::default()
    });
    pair.run_for(Duration::from_secs(120));
    assert_eq!(pair.closed(0), None, "not all probes have left");
    pair.run_for(Duration::from_secs(100));
    assert_eq!(pair.closed(0), Some(CloseReason::TimedOut));
}

#[test]
fn a_user_timeout_ends_keepalive_of_a_host_that_is_gone() {
    let keepalive = Keepalive {
        idle: Duration::from_secs(100),
        interval: Duration::from_secs(10),
        probes: 9,
    };
    let (mut pair, _) = left(TcpConfig {
        keepalive: Some(keepalive),
        user_timeout: Some(Duration::from_secs(160)),
        ..TcpConfig::default()
    });
    pair.run_for(Duration::from_secs(300));
    assert_eq!(pair.closed(0), Some(CloseReason::TimedOut));
}

/// Its window was closed.
#[test]
fn probes_of_the_window_of_a_host_that_is_gone_end() {
    let (mut pair, client, _) = Pair::connected(5, TcpConfig::default());
    for _ in 0..1000 {
        pair.hosts[0].send(client, &[7; 10_000]).expect("open");
        pair.run_for(Duration::from_millis(10));
    }
    pair.filter = Box::new(|side, _| side == 0);
    // Fifteen probes, most of them two minutes apart.
    pair.run_for(Duration::from_secs(2500));
    assert_eq!(pair.closed(0), Some(CloseReason::TimedOut));
}

/// Data that is written when the hardware address cannot be resolved counts from then on.
#[test]
fn a_user_timeout_counts_data_that_cannot_leave() {
    let (mut pair, other) = left(TcpConfig::default());
    let config = TcpConfig {
        user_timeout: Some(Duration::from_secs(30)),
        ..TcpConfig::default()
    };
    // A second connection, open before the host is gone.
    pair.filter = Box::new(|_, _| true);
    let client = pair.connect(config);
    pair.run_for(Duration::from_secs(61));
    pair.filter = Box::new(|side, _| side == 0);
    // The first one finds out.
    pair.hosts[0].send(other, b"data").expect("open");
    pair.run_for(Duration::from_secs(20));
    pair.hosts[0].send(client, b"data").expect("open");
    pair.run_for(Duration::from_secs(40));
    assert_eq!(pair.state(0, client), Some("CLOSED"));
}

/// The same without a user timeout, after as long as its segments would be sent again.
#[test]
fn data_that_cannot_leave_ends_its_connection() {
    let (mut pair, other) = left(TcpConfig::default());
    pair.filter = Box::new(|_, _| true);
    let client = pair.connect(TcpConfig::default());
    pair.run_for(Duration::from_secs(61));
    pair.filter = Box::new(|side, _| side == 0);
    pair.hosts[0].send(other, b"data").expect("open");
    pair.run_for(Duration::from_secs(20));
    pair.hosts[0].send(client, b"data").expect("open");
    pair.run_for(Duration::from_secs(3600));
    assert_eq!(pair.state(0, other), Some("CLOSED"));
    assert_eq!(pair.state(0, client), Some("CLOSED"));
}

/// Data that waited for the host leaves once it is back, and the connection lives.
#[test]
fn a_host_that_comes_back_gets_what_waited() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    let other = pair.connect(TcpConfig::default());
    pair.run_for(Duration::from_secs(61));
    pair.filter = Box::new(|side, _| side == 0);
    pair.hosts[0].send(other, b"data").expect("open");
    pair.run_for(Duration::from_secs(20));
    pair.hosts[0].send(client, b"data").expect("open");
    pair.run_for(Duration::from_secs(40));
    pair.filter = Box::new(|_, _| true);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.read(1, server).0, b"data");
    pair.run_for(Duration::from_secs(5000));
    assert_eq!(pair.state(0, client), Some("ESTABLISHED"));
}

/// A handshake is limited by its retries and by the user timeout, also one whose SYN cannot leave.
#[test]
fn a_user_timeout_ends_a_handshake_whose_syn_cannot_leave() {
    let mut pair = Pair::new(5);
    pair.filter = Box::new(|side, _| side == 0);
    pair.connect(TcpConfig {
        user_timeout: Some(Duration::from_secs(5)),
        ..TcpConfig::default()
    });
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.closed(0), Some(CloseReason::TimedOut));
}

/// A host that comes back after a minute gets what a closed socket has left, whether it was in flight or
/// could not leave. One that does not come back frees the connections all the same.
#[test]
fn a_closed_connection_outlives_a_minute_without_a_next_hop() {
    for comes_back in [true, false] {
        let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
        let other = pair.connect(TcpConfig::default());
        pair.run_for(Duration::from_secs(61));
        pair.filter = Box::new(|side, _| side == 0);
        for (socket, pause) in [(other, 20), (client, 60)] {
            pair.hosts[0].send(socket, b"data").expect("open");
            pair.hosts[0].close(socket, pair.now);
            pair.run_for(Duration::from_secs(pause));
        }
        if comes_back {
            pair.filter = Box::new(|_, _| true);
            pair.run_for(Duration::from_secs(60));
            assert_eq!(pair.read(1, server).0, b"data");
        } else {
            pair.run_for(Duration::from_secs(200));
            assert_eq!(pair.hosts[0].socket_count(), 0);
        }
    }
}
