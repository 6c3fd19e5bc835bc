//! Limits on resources that a peer could hold forever: buffers, orphans, TIME-WAIT, ports
//! (CVE-2008-4609; TRUST rows on exhaustion).

use std::net::SocketAddr;
use std::time::Duration;

use tautline_base::{Bytes, Instant, SocketId};
use tautline_stack::socket::SocketError;
use tautline_stack::{CloseReason, ConnectError, Event, Limits, Pacing, Recv, TcpConfig};

use crate::pair::{DELAY, PORT, Pair, address};
use crate::peer::*;

fn ending(event: &Event) -> Option<(SocketId, CloseReason)> {
    match event {
        Event::Closed { socket, why } => Some((*socket, *why)),
        _ => None,
    }
}

/// Connections from ports of the peer, each with the host's initial sequence number and socket.
fn connections(peer: &mut Peer, count: u16) -> Vec<(u16, u32, SocketId)> {
    (1..=count)
        .map(|port| {
            let syn = Segment {
                source_port: port,
                flags: SYN,
                seq: ISN,
                ack: 0,
                options: mss(1000),
                ..peer.ack()
            };
            let answers = peer.send(&syn);
            let isn = answers
                .iter()
                .find(|answer| answer.destination_port == port)
                .expect("a SYN-ACK")
                .seq;
            peer.send(&Segment {
                source_port: port,
                ack: isn.wrapping_add(1),
                ..peer.ack()
            });
            let accepted = peer.pair.events[HOST]
                .iter()
                .rev()
                .find_map(|event| match event {
                    Event::Accepted { socket, .. } => Some(*socket),
                    _ => None,
                });
            (port, isn, accepted.expect("open"))
        })
        .collect()
}

/// A hundred connections ask for much and never open their windows, answering every probe: when
/// memory is short the oldest go, and who plays fair keeps going.
#[test]
fn zero_windows_cannot_hold_more_memory_than_there_is() {
    let config = TcpConfig {
        nagle: false,
        send_buffer: Bytes::kib(64),
        ..TcpConfig::default()
    };
    let mut peer = Peer::stranger(config);
    let limit = Bytes::kib(1024);
    peer.pair.hosts[HOST].set_limits(Limits {
        memory: limit,
        ..Limits::default()
    });
    let open = connections(&mut peer, 100);
    let page = vec![7; 60_000];
    for (port, isn, socket) in &open {
        let closed = Segment {
            source_port: *port,
            ack: isn.wrapping_add(1),
            window: 0,
            ..peer.ack()
        };
        peer.send(&closed);
        let _ = peer.pair.hosts[HOST].send(*socket, &page);
        peer.run_for(Duration::from_millis(5));
        let held = peer.pair.hosts[HOST].buffer_memory();
        assert!(held <= limit.get() + 128 * 1024, "{held} bytes are held");
    }
    let ended: Vec<_> = peer.pair.events[HOST].iter().filter_map(ending).collect();
    assert!(
        ended.len() >= 80
            && ended
                .iter()
                .all(|(_, why)| *why == CloseReason::OutOfMemory),
        "{} ended",
        ended.len()
    );
    assert_eq!(ended[0].0, open[0].2, "the oldest goes first");
    let order: Vec<_> = ended.iter().map(|(socket, _)| socket.index).collect();
    assert!(order.is_sorted(), "{order:?}");
    // A new one that takes what it is sent gets it.
    let syn = Segment {
        source_port: 7777,
        flags: SYN,
        seq: ISN,
        ack: 0,
        options: mss(1000),
        ..peer.ack()
    };
    let isn = peer
        .send(&syn)
        .iter()
        .find(|answer| answer.destination_port == 7777)
        .expect("a SYN-ACK")
        .seq;
    peer.send(&Segment {
        source_port: 7777,
        ack: isn.wrapping_add(1),
        ..peer.ack()
    });
    peer.socket = peer.pair.events[HOST]
        .iter()
        .rev()
        .find_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        })
        .expect("open");
    assert!(
        peer.pair.hosts[HOST]
            .send(peer.socket, &page)
            .is_ok_and(|taken| taken >= 16_000)
    );
}

/// A peer that makes the application answer with single bytes and acknowledges none: what is remembered of
/// each takes a hundred times its memory, and counts.
#[test]
fn the_records_of_short_segments_count() {
    let config = TcpConfig {
        nagle: false,
        pacing: Pacing::Off,
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1000));
    let socket = peer.socket;
    for _ in 0..9_000 {
        assert_eq!(peer.pair.hosts[HOST].send(socket, b"x"), Ok(1));
        peer.run_for(Duration::from_micros(20));
    }
    let held = peer.pair.hosts[HOST].buffer_memory();
    let sent = peer.info().segments_unacked as u64;
    assert!(sent > 1000, "{sent} segments in flight");
    assert!(held >= sent * 64, "{held} bytes for {sent} records");
    // The application keeps the socket of a connection that has ended.
    let reset = Segment {
        flags: RST,
        ..peer.ack()
    };
    peer.send(&reset);
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));
    assert_eq!(peer.pair.hosts[HOST].buffer_memory(), 0);
}

/// Clients that ask for much, never read and leave: what was written for them goes with them, also
/// while the application still holds their sockets (16.16).
#[test]
fn what_was_written_for_a_peer_that_left_is_given_back_16_16() {
    let config = TcpConfig {
        send_buffer: Bytes::kib(64),
        ..TcpConfig::default()
    };
    let mut peer = Peer::stranger(config);
    let open = connections(&mut peer, 100);
    let page = vec![7; 60_000];
    for (_, _, socket) in &open {
        let _ = peer.pair.hosts[HOST].send(*socket, &page);
    }
    peer.run_for(Duration::from_millis(5));
    assert!(peer.pair.hosts[HOST].buffer_memory() >= 6_000_000);
    for (port, ..) in &open {
        let leaves = Segment {
            source_port: *port,
            flags: RST,
            ..peer.ack()
        };
        peer.send(&leaves);
    }
    let ended = peer.pair.events[HOST].iter().filter_map(ending).count();
    let held = peer.pair.hosts[HOST].buffer_memory();
    assert_eq!((ended, held), (100, 0));
}

/// Segments ahead of a hole, and in order with nobody reading: no more than the limit and a little
/// for each connection.
#[test]
fn unread_and_out_of_order_data_cannot_hold_more_memory_than_there_is() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let limit = Bytes::kib(512);
    peer.pair.hosts[HOST].set_limits(Limits {
        memory: limit,
        ..Limits::default()
    });
    let open = connections(&mut peer, 20);
    for (port, isn, _) in &open {
        for number in 0..100u32 {
            let offset = number * 1000 + if port % 2 == 0 { 5 } else { 0 };
            let segment = peer.data(offset, &[1; 1000]);
            peer.pair.inject(
                HOST,
                &Segment {
                    source_port: *port,
                    ack: isn.wrapping_add(1),
                    ..segment
                }
                .to_frame(),
            );
        }
        peer.run_for(Duration::from_millis(1));
    }
    let held = peer.pair.hosts[HOST].buffer_memory();
    assert!(
        held <= limit.get() + 20 * 16 * 1024,
        "{held} bytes are held"
    );
    assert!(held >= limit.get(), "the limit is what held it");
    // Nobody was reset for it, and everybody still moves: the hole is filled and what is read makes
    // room.
    assert!(
        peer.pair.events[HOST]
            .iter()
            .filter_map(ending)
            .next()
            .is_none()
    );
    for (port, isn, socket) in &open {
        let segment = peer.data(0, &[1; 1000]);
        peer.send(&Segment {
            source_port: *port,
            ack: isn.wrapping_add(1),
            ..segment
        });
        let (read, _) = peer.pair.read(HOST, *socket);
        assert!(read.len() >= 1000, "port {port}: {} bytes", read.len());
    }
}

/// Memory overflows because its limit fell. After a tenth of a second those go that took buffers
/// while half of the memory was taken and whose application leaves its data unread.
#[test]
fn when_memory_overflows_applications_that_do_not_read_lose_their_connections() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let limits = |kib| Limits {
        memory: Bytes::kib(kib),
        ..Limits::default()
    };
    peer.pair.hosts[HOST].set_limits(limits(500));
    let open = connections(&mut peer, 20);
    let (reader, waiting) = (open[18].2, open[14].2);
    for (port, isn, _) in &open {
        // One has nothing to read: its first byte is missing.
        let missing = u32::from(*port == 15);
        for number in 0..20u32 {
            let segment = Segment {
                source_port: *port,
                ack: isn.wrapping_add(1),
                ..peer.data(number * 1000 + missing, &[1; 1000])
            };
            peer.pair.inject(HOST, &segment.to_frame());
        }
        peer.run_for(Duration::from_millis(1));
    }
    peer.pair.hosts[HOST].set_limits(limits(240));
    let reset = |peer: &Peer| -> Vec<SocketId> {
        let ended = peer.pair.events[HOST].iter().filter_map(ending);
        ended.map(|(socket, _)| socket).collect()
    };
    let mut buffer = [0; 100];
    for step in 0..40 {
        peer.run_for(Duration::from_millis(10));
        let read = peer.pair.hosts[HOST].recv(reader, &mut buffer);
        assert!(read.is_ok(), "step {step}: {read:?}");
        if step < 8 {
            assert_eq!(reset(&peer), [], "step {step}");
        }
        // Something happens, so that the host examines them.
        let segment = peer.data(20_000 + step, &[1]);
        peer.pair.inject(
            HOST,
            &Segment {
                source_port: open[18].0,
                ack: open[18].1.wrapping_add(1),
                ..segment
            }
            .to_frame(),
        );
    }
    let (reset, held) = (reset(&peer), peer.pair.hosts[HOST].buffer_memory());
    assert!(held <= 240 * 1024 * 5 / 4, "{held}, {} reset", reset.len());
    assert!(!reset.is_empty() && !reset.contains(&reader));
    assert!(!reset.contains(&waiting), "nobody could read there");
    assert!(!reset.contains(&open[0].2), "it took little memory");
}

/// Clients come one after the other, and nobody reads what they send. Those that came first are known to
/// be stalled before memory overflows, so no more is held at any time than a quarter beyond the limit
/// and what a newcomer sends.
#[test]
fn stalled_applications_are_known_before_memory_overflows() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let limit = Bytes::kib(512);
    peer.pair.hosts[HOST].set_limits(Limits {
        memory: limit,
        ..Limits::default()
    });
    let most = limit.get() * 5 / 4 + 16 * 1024;
    for (port, isn, _) in &connections(&mut peer, 250) {
        for number in 0..10u32 {
            let segment = Segment {
                source_port: *port,
                ack: isn.wrapping_add(1),
                ..peer.data(number * 1000, &[1; 1000])
            };
            peer.pair.inject(HOST, &segment.to_frame());
        }
        peer.run_for(Duration::from_millis(10));
        let held = peer.pair.hosts[HOST].buffer_memory();
        assert!(held <= most, "{held} bytes after {port}");
    }
    assert!(peer.pair.hosts[HOST].stats().out_of_memory > 100);
}

/// Connections whose application leaves 20 kB unread each, and that the peer has ended with `flags`,
/// after memory has overflowed for long.
fn unread_and_over(flags: u16) -> (Peer, Vec<SocketId>) {
    let mut peer = Peer::stranger(TcpConfig::default());
    let limits = |kib| Limits {
        memory: Bytes::kib(kib),
        ..Limits::default()
    };
    peer.pair.hosts[HOST].set_limits(limits(500));
    let open = connections(&mut peer, 20);
    for (port, isn, _) in &open {
        let data = (0..20u32).map(|number| peer.data(number * 1000, &[1; 1000]));
        let end = Segment {
            flags,
            ..peer.data(20_000, &[])
        };
        for segment in data.chain([end]).collect::<Vec<_>>() {
            let segment = Segment {
                source_port: *port,
                ack: isn.wrapping_add(1),
                ..segment
            };
            peer.pair.inject(HOST, &segment.to_frame());
        }
        peer.run_for(Duration::from_millis(1));
    }
    peer.pair.hosts[HOST].set_limits(limits(240));
    for _ in 0..40 {
        peer.run_for(Duration::from_millis(10));
        // Something happens, so that the host examines them.
        peer.pair.inject(HOST, &peer.data(20_000, &[1]).to_frame());
    }
    assert!(peer.pair.hosts[HOST].stats().out_of_memory > 0);
    (peer, open.into_iter().map(|(.., socket)| socket).collect())
}

/// The data of a connection that is over takes memory, too, until the application has read it: what
/// is discarded is discarded, and what is not is counted.
#[test]
fn unread_data_of_connections_that_are_over_is_counted_as_long_as_it_is_held() {
    let (peer, sockets) = unread_and_over(RST);
    let host = &peer.pair.hosts[HOST];
    let infos = sockets.iter().filter_map(|socket| host.info(*socket));
    let (mut unread, mut lost) = (0, 0);
    for info in infos {
        unread += info.unread.get();
        lost += u64::from(info.unread == Bytes::ZERO);
    }
    assert!(
        unread <= host.buffer_memory(),
        "{unread} of {}",
        host.buffer_memory()
    );
    assert!(host.buffer_memory() <= 240 * 1024 * 5 / 4);
    assert_eq!(lost, host.stats().out_of_memory);
}

/// A stream whose data was discarded does not seem to end there, although its end has arrived.
#[test]
fn discarded_data_is_no_end_of_the_stream() {
    let (mut peer, sockets) = unread_and_over(FIN | ACK);
    let (mut lost, mut buffer) = (0, vec![0; 30_000]);
    for socket in sockets {
        let host = &mut peer.pair.hosts[HOST];
        match host.recv(socket, &mut buffer) {
            Ok(read) => assert_eq!(read, Recv::Data(20_000)),
            Err(why) => {
                assert_eq!(why, SocketError::Closed);
                lost += 1;
            }
        }
    }
    assert_eq!(lost, peer.pair.hosts[HOST].stats().out_of_memory);
}

/// Six peers could fill three times the memory. Their windows close as it fills, so nothing is
/// dropped, and everything arrives once the application reads.
#[test]
fn windows_close_before_memory_runs_out() {
    const CONNECTIONS: usize = 6;
    const EACH: usize = 2 << 20;
    let limit = Bytes::mib(4);
    let config = TcpConfig {
        send_buffer: Bytes::mib(4),
        receive_start: Bytes::mib(6),
        ..TcpConfig::default()
    };
    let mut pair = Pair::new(7);
    pair.hosts[1].set_limits(Limits {
        memory: limit,
        ..Limits::default()
    });
    let listened = pair.hosts[1].listen(PORT, config.clone());
    listened.expect("the port is free");
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| pair.connect(config.clone()))
        .collect();
    pair.run_for(DELAY * 8);
    let data: Vec<u8> = (0..EACH).map(|at| (at ^ (at >> 8)) as u8).collect();
    for client in &clients {
        assert_eq!(pair.hosts[0].send(*client, &data), Ok(EACH));
    }
    for _ in 0..400 {
        pair.run_for(DELAY);
        let held = pair.hosts[1].buffer_memory();
        assert!(held <= limit.get(), "{held} bytes are held");
    }
    let held = pair.hosts[1].buffer_memory();
    assert!(held >= limit.get() / 3, "only {held} bytes are held");
    let retransmitted: u64 = clients
        .iter()
        .filter_map(|client| pair.hosts[0].info(*client))
        .map(|info| info.retransmits)
        .sum();
    assert_eq!(retransmitted, 0);
    let servers: Vec<_> = pair.events[1]
        .iter()
        .filter_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        })
        .collect();
    let mut received = vec![Vec::new(); CONNECTIONS];
    for _ in 0..2000 {
        for (all, server) in received.iter_mut().zip(&servers) {
            all.extend(pair.read(1, *server).0);
        }
        pair.run_for(DELAY);
    }
    for all in received {
        assert!(all == data, "{} bytes of {EACH}", all.len());
    }
}

#[test]
fn closed_connections_that_still_deliver_are_bounded() {
    let mut peer = Peer::stranger(TcpConfig {
        nagle: false,
        ..TcpConfig::default()
    });
    peer.pair.hosts[HOST].set_limits(Limits {
        orphans: 5,
        ..Limits::default()
    });
    let open = connections(&mut peer, 20);
    let mut resets = 0;
    for (_, _, socket) in &open {
        peer.pair.hosts[HOST]
            .send(*socket, b"never acknowledged")
            .expect("open");
        let now = peer.pair.now;
        peer.pair.hosts[HOST].close(*socket, now);
        resets += peer
            .run_for(Duration::from_millis(1))
            .iter()
            .filter(|segment| segment.flags & RST != 0)
            .count();
    }
    assert_eq!((peer.pair.hosts[HOST].socket_count(), resets), (1 + 5, 15));
    assert_eq!(peer.pair.hosts[HOST].stats().too_many_orphans, 15);
    // They end by themselves, and then there is room for others.
    peer.run_for(Duration::from_secs(1_000));
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1);
    let [(_, _, socket)] = connections(&mut peer, 1)[..] else {
        unreachable!("one was asked for")
    };
    let now = peer.pair.now;
    peer.pair.hosts[HOST].close(socket, now);
    assert!(
        peer.run_for(Duration::from_millis(1))
            .iter()
            .all(|segment| segment.flags & RST == 0)
    );
}

/// A host that has closed first, and nobody holds the connection: its numbers.
fn in_time_wait(options: Vec<u8>) -> Peer {
    let stamped = !options.is_empty();
    let mut peer = Peer::connected(TcpConfig::default(), [mss(1000), options].concat());
    let now = peer.pair.now;
    peer.pair.hosts[HOST].close(peer.socket, now);
    peer.run_for(Duration::from_millis(1));
    let options = if stamped {
        timestamp(100, 0)
    } else {
        Vec::new()
    };
    let answers = peer.send(&Segment {
        flags: FIN | ACK,
        options,
        ..peer.acknowledges(1)
    });
    assert_eq!(answers.len(), 1, "the FIN is acknowledged");
    assert_eq!(
        (peer.state(), peer.pair.hosts[HOST].socket_count()),
        (None, 2),
        "a record, counted among the sockets"
    );
    peer
}

/// RFC 9293 §3.10.7.4: data beyond the FIN is not accepted, so the answer says what is expected.
#[test]
fn data_after_the_end_is_answered_in_time_wait() {
    let mut peer = in_time_wait(Vec::new());
    let answers = peer.send(&Segment {
        seq: peer.at(1),
        payload: b"more".to_vec(),
        ..peer.acknowledges(1)
    });
    let answers: Vec<_> = answers.iter().map(|it| (it.flags, it.ack)).collect();
    assert_eq!(answers, [(ACK, peer.at(1))]);
}

#[test]
fn time_wait_lasts_its_time_whatever_comes() {
    let mut peer = in_time_wait(Vec::new());
    // RFC 1337: a reset does not cut it short; nor does anything else.
    for flags in [RST, RST | ACK, PSH, 0] {
        assert_eq!(
            peer.send(&Segment {
                flags,
                seq: peer.at(1),
                ..peer.acknowledges(1)
            }),
            [],
            "flags {flags:#x}"
        );
    }
    peer.run_for(Duration::from_secs(59));
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 2);
    peer.run_for(Duration::from_secs(2));
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1);
    let answers = peer.send(&Segment {
        seq: peer.at(1),
        ..peer.acknowledges(1)
    });
    assert_eq!(answers[0].flags, RST, "forgotten");
}

/// Our last acknowledgment was lost: the FIN comes again, is acknowledged, and the time begins
/// anew. A flood gets two answers a second.
#[test]
fn a_fin_again_is_acknowledged_and_a_flood_is_not() {
    let mut peer = in_time_wait(Vec::new());
    peer.run_for(Duration::from_secs(50));
    let fin = Segment {
        flags: FIN | ACK,
        ..peer.acknowledges(1)
    };
    let answers = peer.send(&fin);
    let [answer] = &answers[..] else {
        panic!("one acknowledgment, not {answers:?}")
    };
    assert_eq!(
        (answer.flags, answer.seq, answer.ack),
        (ACK, peer.host_at(1), peer.at(1))
    );
    peer.run_for(Duration::from_secs(50));
    assert_eq!(
        peer.pair.hosts[HOST].socket_count(),
        2,
        "the time began anew"
    );
    let answers: usize = (0..2_000).map(|_| peer.send(&fin).len()).sum();
    assert!((3..=5).contains(&answers), "{answers} answers in 2 s");
}

#[test]
fn a_new_syn_follows_time_wait_only_if_it_is_newer() {
    // Offset of the SYN's number from the next expected one, its timestamp if timestamps were in
    // use, and whether it opens.
    let cases: [(u32, Option<u32>, bool); 7] = [
        (1, None, true),
        (100_000, None, true),
        (0, None, false),
        (0u32.wrapping_sub(1), None, false),
        (0u32.wrapping_sub(1), Some(101), true),
        (100_000, Some(99), false),
        (100_000, Some(101), true),
    ];
    for (offset, value, opens) in cases {
        let stamped = value.is_some();
        let mut peer = in_time_wait(if stamped { timestamp(1, 0) } else { Vec::new() });
        let options = [
            mss(1000),
            value.map_or(Vec::new(), |value| timestamp(value, 0)),
        ]
        .concat();
        let syn = Segment {
            flags: SYN,
            seq: peer.at(1).wrapping_add(offset),
            ack: 0,
            options,
            ..peer.ack()
        };
        let answers = peer.send(&syn);
        let opened = answers.iter().any(|answer| answer.flags == SYN | ACK);
        assert_eq!(
            opened, opens,
            "offset {}, timestamp {value:?}: {answers:?}",
            offset as i32
        );
        if opens {
            let beyond = answers[0].seq.wrapping_sub(peer.host_at(1));
            assert_eq!(beyond, 65_537, "beyond every number of the old connection");
        }
    }
}

/// RFC 9293 §3.10.7.4, RFC 5961 §4.2: a SYN that opens nothing is challenged, at the rate of other
/// segments that do not fit. It does not prolong TIME-WAIT.
#[test]
fn a_syn_that_follows_nothing_is_challenged_in_time_wait() {
    let mut peer = in_time_wait(Vec::new());
    let syn = Segment {
        flags: SYN,
        seq: peer.at(0),
        ack: 0,
        options: mss(1000),
        ..peer.ack()
    };
    let answers: Vec<_> = (0..100).flat_map(|_| peer.send(&syn)).collect();
    let [answer] = &answers[..] else {
        panic!("one challenge, not {answers:?}")
    };
    let expected = (ACK, peer.host_at(1), peer.at(1));
    assert_eq!((answer.flags, answer.seq, answer.ack), expected);
    peer.run_for(Duration::from_secs(50));
    peer.send(&syn);
    peer.run_for(Duration::from_secs(11));
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1);
}

#[test]
fn time_waits_are_bounded_in_number() {
    let mut pair = Pair::new(9);
    pair.hosts[0].set_limits(Limits {
        time_wait: 10,
        ..Limits::default()
    });
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    for _ in 0..25 {
        let client = pair.connect(TcpConfig::default());
        pair.run_for(DELAY * 6);
        pair.hosts[0].close(client, pair.now);
        pair.run_for(DELAY * 2);
        let server = pair.events[1].iter().rev().find_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        });
        pair.hosts[1].close(server.expect("accepted"), pair.now);
        pair.run_for(DELAY * 4);
    }
    assert_eq!(pair.hosts[0].socket_count(), 10);
    assert_eq!(pair.hosts[0].stats().time_wait_full, 15);
    pair.run_for(Duration::from_secs(61));
    assert_eq!(
        (pair.hosts[0].socket_count(), pair.hosts[1].socket_count()),
        (0, 1)
    );
}

/// Every port towards one peer is taken: an error, and ports that come free are found again.
#[test]
fn ports_run_out_and_come_back() {
    let mut pair = Pair::new(9);
    let remote = SocketAddr::from((address(1), 9));
    let mut sockets = Vec::new();
    let error = loop {
        match pair.hosts[0].connect(remote, TcpConfig::default(), pair.now) {
            Ok(socket) => sockets.push(socket),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ConnectError::NoPort(_)), "{error}");
    assert_eq!(sockets.len(), 61_000 - 32_768, "Linux's range");
    // Another peer, or another port of it, has all of them.
    let other = SocketAddr::from((address(1), 10));
    assert!(
        pair.hosts[0]
            .connect(other, TcpConfig::default(), pair.now)
            .is_ok()
    );
    let gone = sockets.swap_remove(12_345);
    pair.hosts[0].close(gone, pair.now);
    let again = pair.hosts[0]
        .connect(remote, TcpConfig::default(), pair.now)
        .expect("one port is free");
    assert_ne!(again, gone, "the old handle names nothing");
    assert!(pair.hosts[0].info(gone).is_none());
}

/// The driver's clock jumps or steps back: nothing spins, nothing panics, and the connection goes
/// on.
#[test]
fn a_clock_that_jumps_does_no_harm() {
    for to in [
        0,
        1,
        999_000_000,
        3_600_000_000_000,
        30 * 86_400_000_000_000,
    ] {
        let mut peer = Peer::connected(
            TcpConfig {
                nagle: false,
                ..TcpConfig::default()
            },
            mss(1000),
        );
        peer.host_writes(10);
        peer.pair.now = Instant::from_nanos(to);
        peer.run_for(Duration::from_millis(1));
        peer.send(&peer.acknowledges(10));
        peer.still_works_at(0);
    }
}
