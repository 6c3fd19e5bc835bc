//! Reasons of a sender to wait, and for how long: windows, Nagle's algorithm, timeouts, pacing, its
//! buffer.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_cc::Algorithm;
use tautline_stack::{
    CloseReason, Event, Limits, PacerConfig, Pacing, Recv, SocketOption, TcpConfig, TsqLimit,
};

use crate::pair::{DELAY, Pair};
use crate::{data, nothing_left, tcp};

#[test]
fn a_closed_window_is_probed_and_reopens() {
    let config = TcpConfig {
        receive_buffer: Bytes::new(8_000),
        ..TcpConfig::default()
    };
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
    assert!(
        (2..20).contains(&probes),
        "probes and answers back off: {probes}"
    );
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

/// A driver that is stuck is reset: its ring is empty again, and what it held is sent once more.
#[test]
fn a_reset_of_a_stuck_device_frees_its_ring() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    pair.filter = Box::new(|side, _| side == 1);
    pair.hosts[0].device_mut().stuck = true;
    let payload = data(60_000);
    assert_eq!(pair.hosts[0].send(client, &payload), Ok(payload.len()));
    pair.run_for(Duration::from_secs(1));
    assert!(!pair.hosts[0].device_mut().done.is_empty());
    let dropped = pair.hosts[0].stats().dropped;
    let now = pair.now;
    pair.hosts[0].reset_device(now);
    assert_eq!(pair.hosts[0].device_mut().done.len(), 0);
    assert!(pair.hosts[0].stats().dropped > dropped);
    pair.hosts[0].device_mut().stuck = false;
    pair.filter = Box::new(|_, _| true);
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.read(1, server).0, payload);
    nothing_left(&pair);
}

/// Acknowledgments that make room wake an application whose write was refused.
#[test]
fn an_acknowledgment_that_makes_room_is_an_event() {
    let config = TcpConfig {
        send_buffer: Bytes::new(10_000),
        ..TcpConfig::default()
    };
    let (mut pair, client, _) = Pair::connected(5, config);
    let payload = data(60_000);
    let taken = pair.hosts[0].send(client, &payload).expect("open");
    assert!(taken < payload.len());
    assert!(!pair.events[0].contains(&Event::Writable(client)));
    pair.run_for(Duration::from_secs(1));
    assert!(pair.events[0].contains(&Event::Writable(client)));
}

#[test]
fn a_closed_window_is_not_probed_for_ever() {
    let config = TcpConfig {
        receive_buffer: Bytes::new(8_000),
        retries: 5,
        ..TcpConfig::default()
    };
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
fn nagle_holds_a_second_small_segment_and_nodelay_does_not() {
    for (nagle, expected) in [(true, 2), (false, 5)] {
        let (mut pair, client, _server) = Pair::connected(
            5,
            TcpConfig {
                nagle,
                ..TcpConfig::default()
            },
        );
        let sent = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = sent.clone();
        pair.filter = Box::new(move |side, frame| {
            count.set(
                count.get() + usize::from(side == 0 && tcp(frame).is_some_and(|(_, len)| len > 0)),
            );
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
            Some(before) if at - before < DELAY => {
                *rounds.last_mut().expect("a round is open") += 1
            }
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
fn an_acknowledgment_does_not_wait_for_paced_data() {
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
    // Side 1 sends a little, which arrives while side 0 spaces out its first window, and between
    // two departures.
    let (tick, between) = (Duration::from_micros(1), Duration::from_micros(100));
    pair.hosts[1]
        .send(server, b"please acknowledge")
        .expect("open");
    pair.run_for(DELAY / 2 + between);
    pair.hosts[0].send(client, &data(400_000)).expect("open");
    pair.run_for(DELAY / 2 - between - tick);
    let (before, bare) = sent.get();
    assert!(
        before > 1 && bare == 0,
        "{before} segments, {bare} acknowledgments"
    );
    pair.run_for(2 * tick);
    assert_eq!(
        sent.get(),
        (before, 1),
        "the acknowledgment leaves at once, no data with it"
    );
    pair.run_for(DELAY / 2);
    assert!(
        sent.get().0 > before,
        "it was the pacer that held the data, not the window"
    );
}

/// The first ten segments of a connection leave at once (Linux `tcp_update_skb_after_send`), those before its pacing begins
/// included.
#[test]
fn segments_that_left_before_a_stream_is_paced_count_among_its_first() {
    // The last leaves as a train of segments.
    for (messages, len, at_once) in [(1, 37, 9), (4, 37, 6), (1, 7000, 5)] {
        let config = TcpConfig {
            pacer: PacerConfig::linux(),
            pacing: Pacing::Off,
            tsq: TsqLimit::Off,
            ..TcpConfig::default()
        };
        let (mut pair, client, _) = Pair::connected(5, config);
        for _ in 0..messages {
            pair.hosts[0].send(client, &data(len)).expect("open");
            pair.run_for(DELAY * 4);
        }
        let segments = |pair: &Pair| pair.hosts[0].info(client).expect("open").data_segments_out;
        let before = segments(&pair);
        let internal = SocketOption::Pacing(Pacing::Internal);
        pair.hosts[0].set_option(client, internal).expect("open");
        pair.hosts[0].send(client, &data(60_000)).expect("open");
        pair.run_for(Duration::from_nanos(1));
        assert_eq!(segments(&pair) - before, at_once, "{before} before");
    }
}

/// Linux `TCP_CONGESTION` on a live connection.
#[test]
fn another_controller_takes_over_with_the_window_of_the_one_before() {
    let (mut pair, client, server) = Pair::connected(3, TcpConfig::default());
    let payload = data(200_000);
    assert_eq!(
        pair.transfer(0, client, server, &payload, Duration::from_secs(20)),
        payload
    );
    let before = pair.hosts[0].info(client).expect("open");
    assert!(before.cwnd > before.mss * 20, "the window has grown");
    pair.hosts[0]
        .set_option(client, SocketOption::Congestion(Algorithm::Reno.factory()))
        .expect("open");
    let after = pair.hosts[0].info(client).expect("open");
    assert_eq!((before.congestion, after.congestion), ("cubic", "reno"));
    assert_eq!(after.cwnd, before.cwnd);
    assert_eq!(
        pair.transfer(0, client, server, &payload, Duration::from_secs(20)),
        payload
    );
}

/// A mebibyte for segments of 1448 bytes that cost 2728 each holds 556 575 bytes; what the peer
/// reports out of order costs only its bytes.
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
    assert!(
        (most - 1448..=most).contains(&written),
        "{written} of {most}"
    );
    pair.run_for(DELAY * 2 + Duration::from_millis(1));
    let info = pair.hosts[0].info(client).expect("open");
    assert!(
        info.sacked > Bytes::ZERO && info.bytes_acked <= 1,
        "{info:?}"
    );
    let (room, free) = (
        write(&mut pair) as u64,
        info.sacked.get() / 1448 * 1280 * 1448 / 2728,
    );
    assert!(
        room.abs_diff(free) <= 2 * 1448,
        "{room} bytes of room after {}",
        info.sacked
    );
}

/// Linux `tcp_push`: the segment at the end of a write is pushed, although more was written before it
/// leaves.
#[test]
fn each_write_is_pushed_or_only_the_last() {
    for (push_writes, expected) in [(false, 1), (true, 2)] {
        let config = TcpConfig {
            push_writes,
            ..TcpConfig::default()
        };
        let (mut pair, client, _server) = Pair::connected(5, config);
        let pushed = Rc::new(Cell::new(0));
        let counter = Rc::clone(&pushed);
        pair.filter = Box::new(move |side, frame| {
            let (flags, long) = (frame[14 + 20 + 13], frame.len() > 100);
            if side == 0 && long && flags & 1 << 3 != 0 {
                counter.set(counter.get() + 1);
            }
            true
        });
        for _ in 0..2 {
            assert_eq!(pair.hosts[0].send(client, &data(20_000)), Ok(20_000));
        }
        pair.run_for(Duration::from_secs(2));
        assert_eq!(pushed.get(), expected, "{push_writes}");
    }
}

/// Linux `sk_stream_memory_free`: what fits of a segment is not written alone, the whole segment is.
#[test]
fn a_full_buffer_ends_with_a_full_segment_where_whole_ones_are_written() {
    for send_whole_segments in [false, true] {
        let config = TcpConfig {
            send_buffer: Bytes::kib(100),
            send_overhead: Bytes::new(1280),
            send_whole_segments,
            ..TcpConfig::default()
        };
        let (mut pair, client, _server) = Pair::connected(5, config);
        let mut written = 0;
        while let Ok(taken @ 1..) = pair.hosts[0].send(client, &data(1000)) {
            written += taken;
        }
        let fits = (100 << 10) * 1448 / 2728;
        if send_whole_segments {
            assert_eq!(written, (100_usize << 10).div_ceil(2728) * 1448);
        } else {
            assert!((fits - 1448..=fits).contains(&written), "{written}");
        }
    }
}

/// A window that the application leaves unused for longer than a timeout goes half way to what is
/// used, and so on to the initial one; three quarters are remembered as threshold. Without
/// validation (`slow_start_after_idle` off) it stays.
#[test]
fn an_unused_window_decays() {
    let window = |validates| {
        let build = move |config: &tautline_cc::Config| {
            Algorithm::Reno.build(&tautline_cc::Config {
                slow_start_after_idle: validates,
                ..*config
            })
        };
        let config = TcpConfig {
            congestion: tautline_cc::Factory::new(build),
            nagle: false,
            ..TcpConfig::default()
        };
        let (mut pair, client, server) = Pair::connected(5, config);
        let payload = data(2_000_000);
        assert_eq!(
            pair.transfer(0, client, server, &payload, Duration::from_secs(20)),
            payload
        );
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
    assert!(
        after.cwnd < after.mss * 12 && after.cwnd >= after.mss * 10,
        "{} of {full}",
        after.cwnd
    );
    let (full, after) = window(false);
    assert!(after.cwnd >= full, "{} of {full}", after.cwnd);
}

/// With 20 000 bytes allowed unsent, no more are taken beyond what leaves at once, and the next
/// `Writable` comes with less than half of them left.
#[test]
fn what_is_unsent_bounds_what_may_be_written() {
    let config = TcpConfig {
        notsent_lowat: Some(Bytes::new(20_000)),
        ..TcpConfig::default()
    };
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
        assert!(
            before < Instant::from_secs(100),
            "{sent} sent, {} received",
            received.len()
        );
    }
    assert_eq!(received, payload);
    assert!(told >= 400_000 / 20_000 - 1, "{told}");
}

/// Issue 16.15: with one byte allowed unsent, a write takes a whole segment all the same.
#[test]
fn the_least_bound_on_unsent_data_makes_no_tiny_segments() {
    let config = TcpConfig {
        notsent_lowat: Some(Bytes::new(1)),
        ..TcpConfig::default()
    };
    let (mut pair, client, _) = Pair::connected(5, config);
    let mss = pair.hosts[0].info(client).expect("open").mss;
    let payload = data(20_000);
    let taken = pair.hosts[0].send(client, &payload).expect("open");
    assert_eq!(Bytes::new(taken as u64), mss);
    pair.run_for(Duration::from_micros(100));
    let info = pair.hosts[0].info(client).expect("open");
    assert_eq!((info.data_segments_out, info.unsent), (1, Bytes::ZERO));
}

/// An empty write ends the record before it, if anything of that waits; else it ends nothing, and what
/// follows leaves as ever.
#[test]
fn an_empty_record_holds_nothing_back() {
    for before in [0, 700] {
        let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
        let [first, second] = [&data(before), &data(60_000)];
        assert_eq!(pair.hosts[0].send(client, first), Ok(first.len()));
        pair.run_for(DELAY * 4);
        let mut socket = pair.hosts[0].tcp(client).expect("open");
        assert_eq!(socket.send_record(&[]), Ok(0));
        assert_eq!(pair.hosts[0].send(client, second), Ok(second.len()));
        pair.run_for(Duration::from_secs(10));
        assert_eq!(pair.read(1, server).0, [&first[..], second].concat());
    }
}

/// A reader that lags once leaves a large buffer behind. It goes although bytes keep coming.
#[test]
fn a_trickle_does_not_hold_the_memory_of_a_burst() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    let payload = data(1_000_000);
    assert_eq!(pair.hosts[0].send(client, &payload), Ok(payload.len()));
    for _ in 0..100 {
        pair.run_for(DELAY * 4);
        pair.hosts[1]
            .tcp(server)
            .expect("open")
            .peek(&mut [0])
            .expect("open");
    }
    let burst = pair.hosts[1].buffer_memory();
    assert!(burst > 60_000, "{burst}");
    let mut read = pair.read(1, server).0;
    while read.len() < payload.len() {
        pair.run_for(DELAY * 4);
        read.extend(pair.read(1, server).0);
    }
    for _ in 0..50 {
        assert_eq!(pair.hosts[0].send(client, b"more"), Ok(4));
        pair.run_for(Duration::from_millis(200));
        assert_eq!(pair.read(1, server).0, b"more");
    }
    let trickle = pair.hosts[1].buffer_memory();
    assert!(trickle < 20_000, "{trickle} of {burst}");
}

/// Corked data waits for the application, not for a peer that keeps its window closed: when memory is
/// short, its connection is not among the first to be reset.
#[test]
fn corked_data_is_not_suspect_when_memory_is_short() {
    let (mut pair, client, server) = Pair::connected(5, TcpConfig::default());
    let mut socket = pair.hosts[0].tcp(client).expect("open");
    assert_eq!(socket.send_more(b"head"), Ok(4));
    pair.run_for(Duration::from_millis(1));
    let memory = Bytes::new(1);
    pair.hosts[0].set_limits(Limits {
        memory,
        ..Limits::default()
    });
    assert_eq!(pair.hosts[0].send(client, b"and body"), Ok(8));
    pair.run_for(DELAY * 4);
    assert_eq!(pair.read(1, server).0, b"headand body");
    assert_eq!(pair.hosts[0].stats().out_of_memory, 0);
}
