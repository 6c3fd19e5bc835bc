//! Connections from birth to end, on a perfect or a selectively lossy wire.

mod pair;

use std::time::Duration;

use pair::{DELAY, PORT, Pair};
use tautline_base::{Bytes, Instant, Reason};
use tautline_cc::Algorithm;
use tautline_stack::{CloseReason, Event, Pacing, Recv, TcpConfig};

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

/// The TCP header of a frame: flags byte and payload length.
fn tcp(frame: &[u8]) -> Option<(u8, usize)> {
    if frame.get(12..14)? != [8, 0] || *frame.get(23)? != 6 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let header = usize::from(frame[46] >> 4) * 4;
    Some((frame[47], total - 20 - header))
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

fn nothing_left(pair: &Pair) {
    for host in &pair.hosts {
        assert_eq!(host.outstanding(), 0, "every frame is back");
    }
}

#[test]
fn data_crosses_both_ways_and_both_ends_close_in_order() {
    let (mut pair, client, server) = Pair::connected(1, TcpConfig::default());
    let upload = data(300_000);
    assert_eq!(pair.transfer(0, client, server, &upload, Duration::from_secs(20)), upload);
    assert_eq!(pair.transfer(1, server, client, &upload[..70_000], Duration::from_secs(20)), &upload[..70_000]);

    pair.hosts[0].shutdown(client).expect("open");
    pair.run_for(DELAY * 4);
    assert_eq!(pair.read(1, server), (vec![], Recv::EndOfStream));
    assert_eq!(pair.state(0, client), Some("FIN-WAIT-2"));
    // Half-closed: the other direction still carries.
    assert_eq!(pair.transfer(1, server, client, b"late", Duration::from_secs(1)), b"late");
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
fn every_loss_in_the_opening_is_repaired() {
    // Drop the n-th TCP segment, whichever it is, for the first twelve segments.
    for dropped in 0..12 {
        let mut pair = Pair::new(7);
        pair.hosts[1].listen(PORT, TcpConfig::default()).expect("free");
        let mut count = 0;
        pair.filter = Box::new(move |_, frame| {
            count += usize::from(tcp(frame).is_some());
            count != dropped + 1 || tcp(frame).is_none()
        });
        let client = pair.connect(TcpConfig::default());
        let payload = data(20_000);
        assert_eq!(pair.hosts[0].send(client, &payload), Ok(payload.len()), "data may be written before the handshake ends");
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
fn a_silent_link_is_unreachable_after_three_questions() {
    let mut pair = Pair::new(3);
    pair.filter = Box::new(|_, _| false);
    pair.connect(TcpConfig::default());
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.closed(0), Some(CloseReason::Unreachable));
    assert_eq!(pair.carried, 3, "three ARP requests");
    nothing_left(&pair);
}

#[test]
fn a_peer_that_vanishes_times_out_within_the_retry_limit() {
    let config = TcpConfig { retries: 4, ..TcpConfig::default() };
    let (mut pair, client, _server) = Pair::connected(5, config);
    pair.filter = Box::new(|_, _| false);
    pair.hosts[0].send(client, &data(5000)).expect("open");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.closed(0), None, "0.21 s x (1 + 2 + 4 + 8) have not passed yet in full");
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
fn a_closed_window_is_probed_and_reopens() {
    let config = TcpConfig { receive_buffer: Bytes::new(8_000), ..TcpConfig::default() };
    let (mut pair, client, server) = Pair::connected(5, config);
    let payload = data(60_000);
    assert_eq!(pair.hosts[0].send(client, &payload), Ok(payload.len()));
    pair.run_for(Duration::from_secs(30));
    let info = pair.hosts[0].info(client).expect("open");
    assert_eq!(info.bytes_acked, 8_001, "the window and the SYN");
    assert!(info.peer_limited);
    let before = pair.carried;
    pair.run_for(Duration::from_secs(60));
    let probes = pair.carried - before;
    assert!((2..20).contains(&probes), "probes and answers back off: {probes}");
    // Lose the window update: only the probe tells that the window is open again.
    pair.filter = Box::new(|side, _| side == 0);
    let mut got = pair.read(1, server).0;
    pair.run_for(DELAY * 2);
    pair.filter = Box::new(|_, _| true);
    for _ in 0..200 {
        pair.run_for(Duration::from_secs(1));
        got.extend(pair.read(1, server).0);
    }
    assert_eq!(got, payload);
    nothing_left(&pair);
}

#[test]
fn a_closed_window_is_not_probed_for_ever() {
    let config = TcpConfig { receive_buffer: Bytes::new(8_000), retries: 5, ..TcpConfig::default() };
    // The peer vanishes behind its closed window.
    let (mut pair, client, _server) = Pair::connected(5, config.clone());
    pair.hosts[0].send(client, &data(60_000)).expect("open");
    pair.run_for(Duration::from_secs(3));
    pair.filter = Box::new(|_, _| false);
    pair.run_for(Duration::from_secs(150));
    assert_eq!(pair.closed(0), Some(CloseReason::TimedOut));
    nothing_left(&pair);
    // The peer answers every probe, but our application has left.
    let (mut pair, client, _server) = Pair::connected(5, config);
    pair.hosts[0].send(client, &data(60_000)).expect("open");
    pair.hosts[0].close(client, pair.now);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.hosts[0].socket_count(), 1);
    pair.run_for(Duration::from_secs(200));
    assert_eq!(pair.hosts[0].socket_count(), 0);
    nothing_left(&pair);
}

#[test]
fn half_open_connections_to_silent_neighbours_leave_the_backlog() {
    let mut pair = Pair::new(19);
    pair.hosts[1].listen(PORT, TcpConfig { backlog: 1, ..TcpConfig::default() }).expect("free");
    // Side 1 has no neighbour that answers: its questions and answers are lost.
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
fn many_connections_at_once() {
    let mut pair = Pair::new(11);
    pair.hosts[1].listen(PORT, TcpConfig { backlog: 1000, ..TcpConfig::default() }).expect("free");
    let clients: Vec<_> = (0..300).map(|_| pair.connect(TcpConfig::default())).collect();
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
    assert_eq!((pair.hosts[0].socket_count(), pair.hosts[1].socket_count()), (0, 1));
    nothing_left(&pair);
}

#[test]
fn a_listener_that_closes_during_a_handshake_resets_the_peer() {
    let mut pair = Pair::new(17);
    let listener = pair.hosts[1].listen(PORT, TcpConfig::default()).expect("free");
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
    pair.hosts[1].listen(PORT, TcpConfig { backlog: 8, ..TcpConfig::default() }).expect("free");
    // The clients' final acknowledgements never arrive.
    pair.filter = Box::new(|side, frame| side == 1 || tcp(frame).is_none_or(|(flags, _)| flags & SYN != 0));
    for _ in 0..50 {
        pair.connect(TcpConfig::default());
    }
    pair.run_for(DELAY * 8);
    assert_eq!(pair.hosts[1].socket_count(), 1 + 8);
    assert!(pair.hosts[1].stats().backlog_full >= 42);
    // They give up in the end, and the backlog is free again.
    pair.run_for(Duration::from_secs(300));
    assert_eq!(pair.hosts[1].socket_count(), 1);
    nothing_left(&pair);
}

#[test]
fn nagle_holds_a_second_small_segment_and_nodelay_does_not() {
    for (nagle, expected) in [(true, 2), (false, 5)] {
        let (mut pair, client, _server) = Pair::connected(5, TcpConfig { nagle, ..TcpConfig::default() });
        let sent = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = sent.clone();
        pair.filter = Box::new(move |side, frame| {
            count.set(count.get() + usize::from(side == 0 && tcp(frame).is_some_and(|(_, len)| len > 0)));
            true
        });
        for _ in 0..5 {
            pair.hosts[0].send(client, b"tick").expect("open");
            pair.run_for(Duration::from_micros(100));
        }
        pair.run_for(Duration::from_millis(500));
        assert_eq!(sent.get(), expected, "nagle {nagle}");
    }
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
    pair.transfer(0, client, server, b"something to copy the header of", Duration::from_secs(1));
    let template =
        captured.borrow().iter().find(|f| tcp(f).is_some_and(|(_, len)| len > 0)).expect("a data segment").clone();
    pair.filter = Box::new(|_, _| true);
    for flags in [RST, RST | 0x10, SYN, SYN | 0x10, FIN | 0x10] {
        for offset in [1_000u32, 30_000, 0u32.wrapping_sub(40_000), 1 << 31] {
            let forged = forge(&template, flags, offset);
            pair.inject(1, &forged);
            pair.run_for(Duration::from_millis(600));
            assert_eq!(pair.state(1, server), Some("ESTABLISHED"), "flags {flags:#x} offset {offset}");
        }
    }
    assert_eq!(pair.transfer(0, client, server, b"still alive", Duration::from_secs(1)), b"still alive");
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

#[test]
fn a_timeout_starts_again_from_one_segment_and_grows() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    let payload = data(14_480);
    pair.filter = Box::new(|_, _| false);
    pair.hosts[0].send(client, &payload).expect("open");
    pair.run_for(Duration::from_millis(150));
    let sent = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let (log, start) = (sent.clone(), pair.now);
    let clock = std::rc::Rc::new(std::cell::Cell::new(start));
    let now = clock.clone();
    pair.filter = Box::new(move |side, frame| {
        if side == 0 && tcp(frame).is_some_and(|(_, len)| len > 0) {
            log.borrow_mut().push(now.get());
        }
        true
    });
    for _ in 0..400 {
        pair.run_for(Duration::from_millis(1));
        clock.set(pair.now);
    }
    assert_eq!(pair.read(1, server).0, payload);
    // One segment, then two, then four: slow start, one round trip apart.
    let mut rounds = Vec::new();
    let mut last = None;
    for at in sent.borrow().iter().copied() {
        match last.replace(at) {
            Some(before) if at - before < DELAY => *rounds.last_mut().expect("a round is open") += 1,
            _ => rounds.push(1),
        }
    }
    assert_eq!(rounds[..3], [1, 2, 4], "{rounds:?}");
    assert_eq!(pair.hosts[0].info(client).expect("open").timeouts, 1);
}

#[test]
fn a_full_segment_with_a_fin_survives_a_timeout() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    let payload = data(1448);
    pair.filter = Box::new(|_, _| false);
    pair.hosts[0].send(client, &payload).expect("open");
    pair.hosts[0].shutdown(client).expect("open");
    pair.run_for(Duration::from_millis(100));
    pair.filter = Box::new(|_, _| true);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.read(1, server), (payload, Recv::EndOfStream));
}

#[test]
fn an_acknowledgement_does_not_wait_for_paced_data() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    let sent = std::rc::Rc::new(std::cell::Cell::new((0, 0)));
    let count = sent.clone();
    pair.filter = Box::new(move |side, frame| {
        if let (0, Some((_, len))) = (side, tcp(frame)) {
            let (data, bare) = count.get();
            count.set((data + usize::from(len > 0), bare + usize::from(len == 0)));
        }
        true
    });
    // Side 1 sends a little, which arrives while side 0 spaces out its first window, and between two departures.
    let (tick, between) = (Duration::from_micros(1), Duration::from_micros(100));
    pair.hosts[1].send(server, b"please acknowledge").expect("open");
    pair.run_for(DELAY / 2 + between);
    pair.hosts[0].send(client, &data(400_000)).expect("open");
    pair.run_for(DELAY / 2 - between - tick);
    let (before, bare) = sent.get();
    assert!(before > 1 && bare == 0, "{before} segments, {bare} acknowledgements");
    pair.run_for(2 * tick);
    assert_eq!(sent.get(), (before, 1), "the acknowledgement leaves at once, no data with it");
    pair.run_for(DELAY / 2);
    assert!(sent.get().0 > before, "it was the pacer that held the data, not the window");
}

/// An abandoned connection is given up in the end; a peer that lives must not keep its half of it for ever.
#[test]
fn the_peer_hears_that_an_orphan_gave_up() {
    let config = TcpConfig { receive_buffer: Bytes::new(8_000), retries: 4, ..TcpConfig::default() };
    // Behind the window that the peer's application never opens.
    let (mut pair, client, server) = Pair::connected(5, config.clone());
    pair.hosts[0].send(client, &data(60_000)).expect("open");
    pair.hosts[0].close(client, pair.now);
    pair.run_for(Duration::from_secs(200));
    assert_eq!((pair.hosts[0].socket_count(), pair.closed(1)), (0, Some(CloseReason::Reset)));
    pair.hosts[1].close(server, pair.now);
    nothing_left(&pair);
    // Behind a link that loses all its data; its application is still there when it gives up, or not.
    for abandoned in [true, false] {
        let (mut pair, client, _server) = Pair::connected(5, config.clone());
        pair.filter = Box::new(|side, frame| side == 1 || tcp(frame).is_none_or(|(_, len)| len == 0));
        pair.hosts[0].send(client, &data(5_000)).expect("open");
        if abandoned {
            pair.hosts[0].close(client, pair.now);
        }
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.hosts[0].socket_count(), usize::from(!abandoned));
        assert_eq!(pair.closed(1), abandoned.then_some(CloseReason::Reset), "abandoned: {abandoned}");
        nothing_left(&pair);
    }
}

/// Sums of times saturate at the end of time; what would be due there must not be due for ever.
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
            pair.hosts[0].poll(now);
            done.send(()).expect("the test waits");
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(()), "{before_the_end} ns before the end");
    }
}

/// Connections in the middle of everything: data both ways, a closed window, a handshake, an orphan.
fn busy() -> Pair {
    let config = TcpConfig { receive_buffer: Bytes::new(8_000), ..TcpConfig::default() };
    let (mut pair, client, server) = Pair::connected(5, config);
    pair.hosts[0].send(client, &data(60_000)).expect("open");
    pair.hosts[1].send(server, &data(60_000)).expect("open");
    pair.run_for(DELAY * 3);
    pair.connect(TcpConfig::default());
    pair.hosts[0].poll(pair.now);
    pair.hosts[1].close(server, pair.now);
    pair
}

/// What was received and read leaves no memory behind: a second after the last arrival the host wakes to give it back, once.
#[test]
fn a_quiet_connection_gives_its_memory_back() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig { receive_start: Bytes::mib(6), ..TcpConfig::default() });
    pair.hosts[0].send(client, &data(100_000)).expect("open");
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.hosts[1].poll(pair.now), None, "unread data stays");
    assert_eq!(pair.read(1, server).0.len(), 100_000);
    let wake = pair.hosts[1].poll(pair.now).expect("memory is held");
    assert_eq!(wake.why, Reason::Idle);
    pair.run_for(wake.at - pair.now);
    assert_eq!(pair.hosts[1].poll(pair.now), None);
}

/// Linux `TCP_CONGESTION` on a live connection.
#[test]
fn another_controller_takes_over_with_the_window_of_the_one_before() {
    let (mut pair, client, server) = Pair::connected(3, TcpConfig::default());
    let payload = data(200_000);
    assert_eq!(pair.transfer(0, client, server, &payload, Duration::from_secs(20)), payload);
    let before = pair.hosts[0].info(client).expect("open");
    assert!(before.cwnd > before.mss * 20, "the window has grown");
    pair.hosts[0].set_congestion(client, Algorithm::Reno.factory()).expect("open");
    let after = pair.hosts[0].info(client).expect("open");
    assert_eq!((before.congestion, after.congestion), ("cubic", "reno"));
    assert_eq!(after.cwnd, before.cwnd);
    assert_eq!(pair.transfer(0, client, server, &payload, Duration::from_secs(20)), payload);
}

/// A mebibyte for segments of 1448 bytes that cost 2728 each holds 556 575 bytes; what the peer reports out of order costs only
/// its bytes.
#[test]
fn a_segment_is_charged_its_overhead_until_it_is_acknowledged_in_whatever_way() {
    let config = TcpConfig {
        send_buffer: Bytes::mib(1),
        send_overhead: Bytes::new(1280),
        pacing: Pacing::Off,
        ..TcpConfig::default()
    };
    let (mut pair, client, _server) = Pair::connected(5, config);
    let chunk = data(100_000);
    let write = |pair: &mut Pair| {
        let mut written = 0;
        loop {
            match pair.hosts[0].send(client, &chunk).expect("open") {
                0 => return written,
                taken => written += taken,
            }
        }
    };
    // The first segment is lost: others are reported, none is acknowledged.
    let mut seen = 0;
    pair.filter = Box::new(move |_, frame| {
        seen += usize::from(frame.len() > 1000);
        !(frame.len() > 1000 && seen == 1)
    });
    let most = (1 << 20) * 1448 / 2728;
    let written = write(&mut pair);
    assert!((most - 1448..=most).contains(&written), "{written} of {most}");
    pair.run_for(DELAY * 2 + Duration::from_millis(1));
    let info = pair.hosts[0].info(client).expect("open");
    assert!(info.sacked > Bytes::ZERO && info.bytes_acked <= 1, "{info:?}");
    let (room, free) = (write(&mut pair) as u64, info.sacked.get() / 1448 * 1280 * 1448 / 2728);
    assert!(room.abs_diff(free) <= 2 * 1448, "{room} bytes of room after {}", info.sacked);
}

/// A window that the application leaves unused for longer than a timeout goes half way to what is used, and so on to the initial one;
/// three quarters are remembered as threshold. Without validation (`slow_start_after_idle` off) it stays.
#[test]
fn an_unused_window_decays() {
    let window = |validates| {
        let build = move |config: &tautline_cc::Config| {
            Algorithm::Reno.build(&tautline_cc::Config { slow_start_after_idle: validates, ..*config })
        };
        let config = TcpConfig { congestion: tautline_cc::Factory::new(build), nagle: false, ..TcpConfig::default() };
        let (mut pair, client, server) = Pair::connected(5, config);
        let payload = data(2_000_000);
        assert_eq!(pair.transfer(0, client, server, &payload, Duration::from_secs(20)), payload);
        let full = pair.hosts[0].info(client).expect("open").cwnd;
        // A segment every 5 ms: something is always in flight, and it is little.
        for _ in 0..1_000 {
            assert_eq!(pair.hosts[0].send(client, &payload[..1000]), Ok(1000));
            pair.run_for(Duration::from_millis(5));
            pair.read(1, server);
        }
        (full, pair.hosts[0].info(client).expect("open"))
    };
    let (full, after) = window(true);
    assert!(full > after.mss * 100, "{full}");
    assert!(after.cwnd < after.mss * 12 && after.cwnd >= after.mss * 10, "{} of {full}", after.cwnd);
    let (full, after) = window(false);
    assert!(after.cwnd >= full, "{} of {full}", after.cwnd);
}

/// With 20 000 bytes allowed unsent, no more are taken beyond what leaves at once, and the next `Writable` comes with less than half
/// of them left.
#[test]
fn what_is_unsent_bounds_what_may_be_written() {
    let config = TcpConfig { notsent_lowat: Some(Bytes::new(20_000)), ..TcpConfig::default() };
    let (mut pair, client, server) = Pair::connected(5, config);
    let payload = data(400_000);
    let (mut sent, mut received, mut told) = (0, Vec::new(), 0);
    while received.len() < payload.len() {
        // Only when told, but for the first time.
        if sent == 0 || pair.events[0].contains(&Event::Writable(client)) {
            told += u32::from(sent > 0);
            let unsent = pair.hosts[0].info(client).expect("open").unsent;
            assert!(sent == 0 || unsent < Bytes::new(10_000), "{unsent} unsent");
            pair.events[0].clear();
            sent += pair.hosts[0].send(client, &payload[sent..]).expect("open");
            assert!(pair.hosts[0].info(client).expect("open").unsent <= Bytes::new(20_000));
        }
        let before = pair.now;
        pair.run_for(Duration::from_micros(100));
        received.extend(pair.read(1, server).0);
        assert!(before < Instant::from_secs(100), "{sent} sent, {} received", received.len());
    }
    assert_eq!(received, payload);
    assert!(told >= 400_000 / 20_000 - 1, "{told}");
}
