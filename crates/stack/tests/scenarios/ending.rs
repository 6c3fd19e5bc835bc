//! Connections that end: in order, with a reset, for want of an answer. What an ended or quiet one
//! leaves behind.

use std::time::Duration;

use tautline_base::{Bytes, Instant, Reason};
use tautline_stack::{CloseReason, Recv, TcpConfig};

use crate::pair::{DELAY, Pair};
use crate::{FIN, RST, SYN, data, nothing_left, tcp};

#[test]
fn data_crosses_both_ways_and_both_ends_close_in_order() {
    let (mut pair, client, server) = Pair::connected(1, TcpConfig::default());
    let upload = data(300_000);
    assert_eq!(
        pair.transfer(0, client, server, &upload, Duration::from_secs(20)),
        upload
    );
    assert_eq!(
        pair.transfer(
            1,
            server,
            client,
            &upload[..70_000],
            Duration::from_secs(20)
        ),
        &upload[..70_000]
    );

    pair.hosts[0].shutdown(client).expect("open");
    pair.run_for(DELAY * 4);
    assert_eq!(pair.read(1, server), (vec![], Recv::EndOfStream));
    assert_eq!(pair.state(0, client), Some("FIN-WAIT-2"));
    // Half-closed: the other direction still carries.
    assert_eq!(
        pair.transfer(1, server, client, b"late", Duration::from_secs(1)),
        b"late"
    );
    pair.hosts[1].shutdown(server).expect("open");
    pair.run_for(DELAY * 4);
    assert_eq!(pair.closed(1), Some(CloseReason::Finished));
    assert_eq!(pair.state(0, client), Some("TIME-WAIT"));
    pair.hosts[0].close(client, pair.now);
    pair.hosts[1].close(server, pair.now);
    pair.run_for(Duration::from_secs(61));
    assert_eq!(pair.hosts[0].socket_count(), 0, "TIME-WAIT has passed");
    assert_eq!(pair.hosts[1].socket_count(), 1, "the listener stays");
    nothing_left(&pair);
}

#[test]
fn simultaneous_close_passes_through_closing() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    pair.hosts[0].shutdown(client).expect("open");
    pair.hosts[1].shutdown(server).expect("open");
    pair.run_for(DELAY / 2);
    assert_eq!(pair.state(0, client), Some("FIN-WAIT-1"));
    pair.run_for(DELAY);
    assert_eq!(pair.state(0, client), Some("CLOSING"));
    pair.run_for(DELAY * 3);
    assert_eq!(pair.state(0, client), Some("TIME-WAIT"));
    assert_eq!(pair.state(1, server), Some("TIME-WAIT"));
}

#[test]
fn a_peer_that_vanishes_times_out_within_the_retry_limit() {
    let config = TcpConfig {
        retries: 4,
        ..TcpConfig::default()
    };
    let (mut pair, client, _server) = Pair::connected(5, config);
    pair.filter = Box::new(|_, _| false);
    pair.hosts[0].send(client, &data(5000)).expect("open");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(
        pair.closed(0),
        None,
        "0.21 s x (1 + 2 + 4 + 8) have not passed yet in full"
    );
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.closed(0), Some(CloseReason::TimedOut));
    nothing_left(&pair);
}

#[test]
fn abort_resets_the_peer() {
    let (mut pair, client, _server) = Pair::connected(5, TcpConfig::default());
    pair.hosts[0].abort(client).expect("open");
    pair.run_for(DELAY * 3);
    assert_eq!(pair.closed(0), Some(CloseReason::Aborted));
    assert_eq!(pair.closed(1), Some(CloseReason::Reset));
    nothing_left(&pair);
}

#[test]
fn an_abort_is_not_forgotten_when_the_socket_is_closed_at_once() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    pair.hosts[0].send(client, b"never read").expect("open");
    pair.run_for(DELAY * 3);
    pair.hosts[1].abort(server).expect("open");
    pair.hosts[1].close(server, pair.now);
    pair.run_for(DELAY * 3);
    assert_eq!(pair.closed(0), Some(CloseReason::Reset));
    assert_eq!(pair.hosts[1].socket_count(), 1, "only the listener is left");
    nothing_left(&pair);
}

#[test]
fn closing_with_unread_data_resets() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    pair.hosts[0].send(client, b"never read").expect("open");
    pair.run_for(DELAY * 3);
    pair.hosts[1].close(server, pair.now);
    pair.run_for(DELAY * 3);
    assert_eq!(pair.closed(0), Some(CloseReason::Reset));
    nothing_left(&pair);
}

#[test]
fn blind_resets_and_syns_do_not_end_a_connection() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    let captured = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = captured.clone();
    pair.filter = Box::new(move |side, frame| {
        if side == 0 && tcp(frame).is_some() {
            keep.borrow_mut().push(frame.to_vec());
        }
        true
    });
    pair.transfer(
        0,
        client,
        server,
        b"something to copy the header of",
        Duration::from_secs(1),
    );
    let template = captured
        .borrow()
        .iter()
        .find(|f| tcp(f).is_some_and(|(_, len)| len > 0))
        .expect("a data segment")
        .clone();
    pair.filter = Box::new(|_, _| true);
    for flags in [RST, RST | 0x10, SYN, SYN | 0x10, FIN | 0x10] {
        for offset in [1_000u32, 30_000, 0u32.wrapping_sub(40_000), 1 << 31] {
            let forged = forge(&template, flags, offset);
            pair.inject(1, &forged);
            pair.run_for(Duration::from_millis(600));
            assert_eq!(
                pair.state(1, server),
                Some("ESTABLISHED"),
                "flags {flags:#x} offset {offset}"
            );
        }
    }
    assert_eq!(
        pair.transfer(0, client, server, b"still alive", Duration::from_secs(1)),
        b"still alive"
    );
}

/// A segment without payload, with its sequence number moved and other flags, checksums right.
fn forge(template: &[u8], flags: u8, offset: u32) -> Vec<u8> {
    let mut frame = template[..66].to_vec();
    let seq = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]).wrapping_add(offset);
    frame[38..42].copy_from_slice(&seq.to_be_bytes());
    frame[47] = flags;
    frame[16..18].copy_from_slice(&52u16.to_be_bytes());
    let mut ip = smoltcp::wire::Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.fill_checksum();
    let (source, destination) = (ip.src_addr().into(), ip.dst_addr().into());
    smoltcp::wire::TcpPacket::new_unchecked(&mut frame[34..]).fill_checksum(&source, &destination);
    frame
}

/// An abandoned connection is given up in the end; a peer that lives must not keep its half of it
/// forever.
#[test]
fn the_peer_hears_that_an_orphan_gave_up() {
    let config = TcpConfig {
        receive_buffer: Bytes::new(8_000),
        retries: 4,
        ..TcpConfig::default()
    };
    // Behind the window that the peer's application never opens.
    let (mut pair, client, server) = Pair::connected(5, config.clone());
    pair.hosts[0].send(client, &data(60_000)).expect("open");
    pair.hosts[0].close(client, pair.now);
    pair.run_for(Duration::from_secs(200));
    assert_eq!(
        (pair.hosts[0].socket_count(), pair.closed(1)),
        (0, Some(CloseReason::Reset))
    );
    pair.hosts[1].close(server, pair.now);
    nothing_left(&pair);
    // Behind a link that loses all its data; the application still holds the socket when the
    // connection ends, or has closed it.
    for abandoned in [true, false] {
        let (mut pair, client, _server) = Pair::connected(5, config.clone());
        pair.filter =
            Box::new(|side, frame| side == 1 || tcp(frame).is_none_or(|(_, len)| len == 0));
        pair.hosts[0].send(client, &data(5_000)).expect("open");
        if abandoned {
            pair.hosts[0].close(client, pair.now);
        }
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.hosts[0].socket_count(), usize::from(!abandoned));
        assert_eq!(
            pair.closed(1),
            abandoned.then_some(CloseReason::Reset),
            "abandoned: {abandoned}"
        );
        nothing_left(&pair);
    }
}

/// Sums of times saturate at the end of time; what would be due there must not be due forever.
#[test]
fn the_end_of_time_is_quiet() {
    for before_the_end in [0, 1, 1_000_000, 5_000_000_000] {
        let now = Instant::from_nanos(u64::MAX - before_the_end);
        let mut pair = busy();
        for host in &mut pair.hosts {
            let quiet = (0..100).any(|_| host.poll(now).is_none_or(|wake| wake.at > now));
            assert!(quiet, "{before_the_end} ns before the end");
        }
        // A segment that has not left the host is waited for, however long.
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut pair = busy();
            pair.hosts[0].device_mut().stuck = true;
            let _ = pair.hosts[0].poll(now);
            done.send(()).expect("the test waits");
        });
        assert_eq!(
            ended.recv_timeout(Duration::from_secs(20)),
            Ok(()),
            "{before_the_end} ns before the end"
        );
    }
}

/// Connections in the middle of everything: data both ways, a closed window, a handshake, an
/// orphan.
fn busy() -> Pair {
    let config = TcpConfig {
        receive_buffer: Bytes::new(8_000),
        ..TcpConfig::default()
    };
    let (mut pair, client, server) = Pair::connected(5, config);
    pair.hosts[0].send(client, &data(60_000)).expect("open");
    pair.hosts[1].send(server, &data(60_000)).expect("open");
    pair.run_for(DELAY * 3);
    pair.connect(TcpConfig::default());
    let _ = pair.hosts[0].poll(pair.now);
    pair.hosts[1].close(server, pair.now);
    pair
}

/// A connection whose received data was read holds no memory: a second after the last arrival the
/// host wakes once to free it.
#[test]
fn a_quiet_connection_gives_its_memory_back() {
    let (mut pair, client, server) = Pair::connected(
        5,
        TcpConfig {
            receive_start: Bytes::mib(6),
            ..TcpConfig::default()
        },
    );
    pair.hosts[0].send(client, &data(100_000)).expect("open");
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.hosts[1].poll(pair.now), None, "unread data stays");
    assert_eq!(pair.read(1, server).0.len(), 100_000);
    let wake = pair.hosts[1].poll(pair.now).expect("memory is held");
    assert_eq!(wake.why, Reason::Idle);
    pair.run_for(wake.at - pair.now);
    assert_eq!(pair.hosts[1].poll(pair.now), None);
}
