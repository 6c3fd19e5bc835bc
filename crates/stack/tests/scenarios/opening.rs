//! Connections that open, or do not: losses on the way, nobody there, too many at once.

use std::time::Duration;

use tautline_stack::{CloseReason, Event, Pacing, PathError, Recv, TcpConfig};

use crate::pair::{DELAY, PORT, Pair};
use crate::{SYN, data, nothing_left, tcp};

#[test]
fn every_loss_in_the_opening_is_repaired() {
    // Drop the n-th TCP segment, whichever it is, for the first twelve segments.
    for dropped in 0..12 {
        let mut pair = Pair::new(7);
        pair.hosts[1]
            .listen(PORT, TcpConfig::default())
            .expect("free");
        let mut count = 0;
        pair.filter = Box::new(move |_, frame| {
            count += usize::from(tcp(frame).is_some());
            count != dropped + 1 || tcp(frame).is_none()
        });
        let client = pair.connect(TcpConfig::default());
        let payload = data(20_000);
        assert_eq!(
            pair.hosts[0].send(client, &payload),
            Ok(payload.len()),
            "data may be written before the handshake ends"
        );
        pair.hosts[0].shutdown(client).expect("open");
        let mut got = Vec::new();
        for _ in 0..400 {
            pair.run_for(Duration::from_millis(10));
            let accepted = pair.events[1].iter().find_map(|event| match event {
                Event::Accepted { socket, .. } => Some(*socket),
                _ => None,
            });
            if let Some(server) = accepted {
                let (bytes, end) = pair.read(1, server);
                got.extend(bytes);
                if end == Recv::EndOfStream {
                    pair.hosts[1].close(server, pair.now);
                    break;
                }
            }
        }
        assert_eq!(got, payload, "segment {dropped} dropped");
        pair.run_for(Duration::from_secs(3));
        nothing_left(&pair);
    }
}

#[test]
fn a_closed_port_refuses() {
    let mut pair = Pair::new(3);
    pair.connect(TcpConfig::default());
    pair.run_for(DELAY * 6);
    assert_eq!(pair.closed(0), Some(CloseReason::Refused));
    nothing_left(&pair);
}

#[test]
fn a_silent_link_is_unreachable_after_three_questions_for_each_try_of_the_syn() {
    for syn_retries in [0, 6] {
        let mut pair = Pair::new(3);
        pair.filter = Box::new(|_, _| false);
        let config = TcpConfig {
            syn_retries,
            ..TcpConfig::default()
        };
        pair.connect(config);
        pair.run_for(Duration::from_secs(30));
        assert_eq!(pair.closed(0), Some(CloseReason::Unreachable));
        let asked = 3 * (1 + syn_retries as usize);
        assert_eq!(pair.carried, asked, "ARP requests");
        nothing_left(&pair);
    }
}

/// The third request's loss is no verdict: the host asks again while the SYN waits.
#[test]
fn an_opening_outlives_the_loss_of_its_first_ten_arp_requests_16_15() {
    let mut pair = Pair::new(3);
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("free");
    let mut asked = 0;
    pair.filter = Box::new(move |_, _| {
        asked += 1;
        asked > 10
    });
    let client = pair.connect(TcpConfig::default());
    pair.run_for(Duration::from_secs(5));
    let info = pair.hosts[0].info(client).expect("it still opens");
    assert_eq!(info.path_error, Some(PathError::HostUnreachable));
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.closed(0), None);
    assert!(pair.events[0].contains(&Event::Connected(client)));
}

#[test]
fn half_open_connections_to_silent_neighbors_leave_the_backlog() {
    let mut pair = Pair::new(19);
    pair.hosts[1]
        .listen(
            PORT,
            TcpConfig {
                backlog: 1,
                ..TcpConfig::default()
            },
        )
        .expect("free");
    // Side 1 has no neighbor that answers: its solicitations and answers are lost.
    pair.filter = Box::new(|side, _| side == 0);
    let syn = std::rc::Rc::new(std::cell::RefCell::new(None));
    let keep = syn.clone();
    let mut other = Pair::new(19);
    other.filter = Box::new(move |side, frame| {
        if side == 0 && tcp(frame).is_some() {
            *keep.borrow_mut() = Some(frame.to_vec());
        }
        true
    });
    other.connect(TcpConfig::default());
    other.run_for(DELAY * 4);
    let syn = syn.borrow().clone().expect("a SYN was sent");
    pair.inject(1, &syn);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.hosts[1].socket_count(), 2);
    pair.run_for(Duration::from_secs(9));
    assert_eq!(pair.hosts[1].socket_count(), 1, "the backlog is free again");
    nothing_left(&pair);
}

/// A connection that nobody accepted does not outlive its listener (16.18).
#[test]
fn a_closed_listener_resets_what_was_not_accepted_16_18() {
    let mut pair = Pair::new(5);
    pair.deaf[1] = true;
    let listener = pair.hosts[1].listen(PORT, TcpConfig::default());
    pair.connect(TcpConfig::default());
    pair.run_for(DELAY * 8);
    assert_eq!(pair.hosts[1].socket_count(), 2);
    pair.hosts[1].close(listener.expect("free"), pair.now);
    pair.run_for(DELAY * 4);
    assert_eq!(pair.closed(0), Some(CloseReason::Reset));
    assert_eq!(pair.hosts[1].next_event(), None);
    nothing_left(&pair);
}

#[test]
fn many_connections_at_once() {
    let mut pair = Pair::new(11);
    pair.hosts[1]
        .listen(
            PORT,
            TcpConfig {
                backlog: 1000,
                ..TcpConfig::default()
            },
        )
        .expect("free");
    let clients: Vec<_> = (0..300)
        .map(|_| pair.connect(TcpConfig::default()))
        .collect();
    for (i, client) in clients.iter().enumerate() {
        pair.hosts[0].send(*client, &data(100 + i)).expect("open");
        pair.hosts[0].close(*client, pair.now);
    }
    pair.run_for(Duration::from_secs(2));
    let servers: Vec<_> = pair.events[1]
        .iter()
        .filter_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        })
        .collect();
    assert_eq!(servers.len(), 300);
    let mut lengths: Vec<_> = servers
        .iter()
        .map(|server| {
            let (bytes, end) = pair.read(1, *server);
            assert_eq!((end, &bytes), (Recv::EndOfStream, &data(bytes.len())));
            pair.hosts[1].close(*server, pair.now);
            bytes.len()
        })
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, (100..400).collect::<Vec<_>>());
    pair.run_for(Duration::from_secs(70));
    assert_eq!(
        (pair.hosts[0].socket_count(), pair.hosts[1].socket_count()),
        (0, 1)
    );
    nothing_left(&pair);
}

/// One call never sends without an end: other work of the event loop has its turn.
#[test]
fn a_poll_sends_no_more_than_its_budget() {
    let mut pair = Pair::new(5);
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    let config = TcpConfig {
        pacing: Pacing::Off,
        ..TcpConfig::default()
    };
    let clients: Vec<_> = (0..30).map(|_| pair.connect(config.clone())).collect();
    pair.run_for(DELAY * 8);
    for client in clients {
        let taken = pair.hosts[0].send(client, &data(14_480));
        assert_eq!(taken, Ok(14_480));
    }
    let births = pair.hosts[0].stats().births;
    let wake = pair.hosts[0].poll(pair.now).expect("there is more to send");
    assert_eq!(pair.hosts[0].stats().births - births, 64);
    assert_eq!(wake.at, pair.now, "at once");
}

#[test]
fn a_listener_that_closes_during_a_handshake_resets_the_peer() {
    let mut pair = Pair::new(17);
    let listener = pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("free");
    pair.connect(TcpConfig::default());
    pair.run_for(DELAY * 3 + DELAY / 2);
    assert_eq!(pair.hosts[1].socket_count(), 2, "half open");
    pair.hosts[1].close(listener, pair.now);
    pair.run_for(DELAY * 6);
    assert_eq!(pair.closed(0), Some(CloseReason::Reset));
    assert_eq!(pair.hosts[1].socket_count(), 0);
    nothing_left(&pair);
}

#[test]
fn the_backlog_bounds_half_open_connections() {
    let mut pair = Pair::new(13);
    pair.hosts[1]
        .listen(
            PORT,
            TcpConfig {
                backlog: 8,
                ..TcpConfig::default()
            },
        )
        .expect("free");
    // The clients' final acknowledgments never arrive.
    pair.filter =
        Box::new(|side, frame| side == 1 || tcp(frame).is_none_or(|(flags, _)| flags & SYN != 0));
    for _ in 0..50 {
        pair.connect(TcpConfig::default());
    }
    pair.run_for(DELAY * 8);
    assert_eq!(pair.hosts[1].socket_count(), 1 + 8);
    assert!(pair.hosts[1].stats().backlog_full >= 42);
    // They time out in the end, and the backlog is free again.
    pair.run_for(Duration::from_secs(300));
    assert_eq!(pair.hosts[1].socket_count(), 1);
    nothing_left(&pair);
}
