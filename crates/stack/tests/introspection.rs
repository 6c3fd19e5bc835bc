//! `info()`, the line in the format of `ss`, and the wait causes of an application that writes
//! little: the handshake, Nagle's algorithm, and the application itself. Simulations test the
//! causes under load.

#[expect(dead_code, reason = "of what tests share, these need little")]
mod pair;

use std::time::Duration;

use pair::{DELAY, PORT, Pair};
use tautline_base::{Bytes, SocketId};
use tautline_stack::attribution::{Attribution, Cause};
use tautline_stack::{LossRecovery, Pacing, TcpConfig, TcpInfo};

fn config() -> TcpConfig {
    TcpConfig {
        attribution: true,
        ..TcpConfig::default()
    }
}

fn attribution(pair: &Pair, socket: SocketId) -> &Attribution {
    pair.hosts[0]
        .attribution(socket)
        .expect("the connection keeps account")
}

/// Twenty small writes, `gap` apart; what they waited for Nagle's algorithm on average.
fn small_writes(nagle: bool, gap: Duration) -> (Duration, Duration) {
    let (mut pair, client, _) = Pair::connected(3, TcpConfig { nagle, ..config() });
    for _ in 0..20 {
        assert_eq!(pair.hosts[0].send(client, &[7; 100]), Ok(100));
        pair.run_for(gap);
    }
    pair.run_for(DELAY * 10);
    let found = attribution(&pair, client);
    assert_eq!(found.waits(Cause::Nagle).bytes(), 2000, "every byte counts");
    (
        found.waits(Cause::Nagle).mean(),
        found.time_blocked_by(Cause::Application),
    )
}

#[test]
fn small_segments_wait_for_nagle() {
    let millis = Duration::from_millis(1);
    let (waited, _) = small_writes(true, millis);
    assert!(
        waited > DELAY / 2 && waited < DELAY * 2,
        "half a round trip of 10 ms on average: {waited:?}"
    );
    assert_eq!(small_writes(false, millis).0, Duration::ZERO);
}

#[test]
fn a_quiet_application_is_what_the_connection_waits_for() {
    let (_, quiet) = small_writes(false, Duration::from_millis(100));
    assert!(quiet > Duration::from_millis(19 * 100), "{quiet:?}");
    let (_, busy) = small_writes(false, Duration::ZERO);
    assert!(busy < Duration::from_millis(150), "{busy:?}");
}

/// Waits for the host and for the handshake of 100 bytes, written before the connection is open or
/// after.
fn opening(before: bool) -> [Duration; 2] {
    let mut pair = Pair::new(5);
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("free");
    let client = pair.connect(config());
    if !before {
        pair.run_for(DELAY * 8);
    }
    pair.hosts[0].send(client, &[1; 100]).expect("open");
    pair.run_for(DELAY * 8);
    [Cause::Host, Cause::Handshake].map(|cause| attribution(&pair, client).waits(cause).mean())
}

#[test]
fn what_is_written_early_waits_for_the_handshake() {
    // A round trip for the neighbor's address, one for the SYN.
    assert_eq!(opening(true), [DELAY * 2; 2]);
    assert_eq!(opening(false), [Duration::ZERO; 2]);
}

#[test]
fn nobody_pays_who_did_not_ask() {
    let (pair, client, _) = Pair::connected(3, TcpConfig::default());
    assert!(pair.hosts[0].attribution(client).is_none());
}

/// A transfer of 300 000 bytes in which the segment that begins at byte 100 000 or just after is
/// lost once.
fn lossy_transfer() -> (Pair, SocketId, SocketId) {
    // A probe of the tail would be one more.
    let loss_recovery = LossRecovery {
        tail_loss_probe: false,
        ..LossRecovery::default()
    };
    let (mut pair, client, server) = Pair::connected(
        9,
        TcpConfig {
            loss_recovery,
            ..config()
        },
    );
    let mut carried = 0;
    pair.filter = Box::new(move |side, frame| {
        let before = carried;
        carried += if side == 0 { frame.len() } else { 0 };
        !(before <= 100_000 && carried > 100_000)
    });
    let data: Vec<u8> = (0..300_000).map(|i| (i % 251) as u8).collect();
    assert_eq!(
        pair.transfer(0, client, server, &data, Duration::from_secs(10)),
        data
    );
    pair.run_for(DELAY * 10);
    (pair, client, server)
}

fn info(pair: &Pair, side: usize, socket: SocketId) -> TcpInfo {
    pair.hosts[side].info(socket).expect("open")
}

#[test]
fn the_counters_of_both_ends_agree() {
    let (pair, client, server) = lossy_transfer();
    let (sender, receiver) = (info(&pair, 0, client), info(&pair, 1, server));
    assert_eq!(sender.bytes_sent - sender.bytes_retransmitted, 300_000);
    assert_eq!(receiver.bytes_received, 300_000);
    assert_eq!((sender.retransmits, sender.bytes_retransmitted), (1, 1448));
    assert_eq!(
        sender.data_segments_out,
        receiver.data_segments_in + 1,
        "one was lost"
    );
    assert_eq!(
        sender.delivered,
        sender.data_segments_out - 1 + 1,
        "the SYN counts, the lost copy does not"
    );
    assert_eq!(
        (
            sender.segments_unacked,
            sender.unsent.get(),
            sender.lost.get(),
            sender.sacked.get()
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(
        (sender.timestamps, sender.sack, sender.scales),
        (true, true, Some((7, 7)))
    );
    assert_eq!(
        (
            sender.path_mtu.get(),
            sender.advertised_mss.get(),
            sender.mss.get()
        ),
        (1500, 1460, 1448)
    );
    assert_eq!(
        (
            receiver.peer_mss.get(),
            receiver.data_segments_out,
            receiver.last_sent
        ),
        (1448, 0, None)
    );
    assert!(
        sender
            .last_sent
            .is_some_and(|ago| ago > DELAY * 9 && ago < DELAY * 20),
        "{:?}",
        sender.last_sent
    );
    assert!(sender.delivery_rate.is_some());
    let limited = sender.limited.expect("kept");
    assert!(
        limited.cwnd + limited.pacer + limited.peer_window + limited.send_buffer + limited.tsq
            <= limited.busy
    );
    assert!(
        receiver.limited.is_some_and(|limited| limited.busy < DELAY),
        "it has nothing to send"
    );
}

/// State of a transfer with a send buffer of `size` bytes.
fn through_a_buffer_of(size: u64) -> TcpInfo {
    let config = TcpConfig {
        send_buffer: Bytes::new(size),
        pacing: Pacing::Off,
        ..config()
    };
    let (mut pair, client, server) = Pair::connected(3, config);
    let data: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
    assert_eq!(
        pair.transfer(0, client, server, &data, Duration::from_secs(10)),
        data
    );
    info(&pair, 0, client)
}

#[test]
fn a_small_send_buffer_is_what_a_greedy_application_waits_for() {
    let (narrow, wide) = (through_a_buffer_of(8_000), through_a_buffer_of(1 << 20));
    let [narrowed, free] = [&narrow, &wide].map(|info| info.limited.expect("kept"));
    // Less than the initial window every round trip.
    assert!(
        narrowed.send_buffer > DELAY * 20 && narrowed.send_buffer > narrowed.busy / 2,
        "{narrowed:?}"
    );
    assert_eq!(free.send_buffer, Duration::ZERO, "{free:?}");
    assert!(
        narrow.ss().to_string().contains(" sndbuf_limited:"),
        "{}",
        narrow.ss()
    );
    assert!(
        !wide.ss().to_string().contains("sndbuf_limited"),
        "{}",
        wide.ss()
    );
}

/// `notsent` of `ss`: written, and beyond what the window lets out.
#[test]
fn what_is_not_sent_yet_is_reported() {
    let (mut pair, client, _) = Pair::connected(5, config());
    let written = pair.hosts[0].send(client, &[7; 100_000]).expect("open");
    pair.run_for(Duration::from_millis(1));
    let info = info(&pair, 0, client);
    assert!(info.unsent > Bytes::ZERO);
    assert_eq!(info.unsent.get() + info.bytes_sent, written as u64);
}

/// `ss -ti` shows a threshold that was set, and each limit's share of the busy time.
#[test]
fn the_line_has_the_threshold_and_shares_of_the_busy_time() {
    let (pair, client, _) = lossy_transfer();
    let mut info = info(&pair, 0, client);
    let mss = info.mss;
    assert!(info.ss().to_string().contains(" ssthresh:"));
    info.ssthresh = mss * 7;
    let mut limited = info.limited.expect("asked for");
    limited.busy = Duration::from_millis(200);
    limited.cwnd = Duration::from_millis(50);
    info.limited = Some(limited);
    let line = info.ss().to_string();
    for part in [" ssthresh:7 ", " busy:200ms", " cwnd_limited:50ms(25.0%)"] {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
    info.ssthresh = Bytes::MAX;
    assert!(!info.ss().to_string().contains(" ssthresh:"));
}

#[test]
fn the_line_reads_as_ss_would_print_it() {
    let (pair, client, server) = lossy_transfer();
    let line = info(&pair, 0, client).ss().to_string();
    for part in [
        "ESTABLISHED ts sack cubic wscale:7,7 rto:2",
        " ato:40 mss:1448 pmtu:1500 rcvmss:536 advmss:1460 cwnd:",
        " bytes_sent:301448 ",
        " bytes_retrans:1448",
        " cubic:(state:avoidance,w_max:",
        " send ",
        " retrans:0/1",
        " minrtt:10 ",
        " tsq:(0/",
        " rack:(window:2.5)",
        " busy:",
    ] {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
    assert!(
        !line.contains("unacked") && !line.contains("lost:"),
        "{line}"
    );
    let line = info(&pair, 1, server).ss().to_string();
    assert!(
        line.contains(" bytes_received:300000 ") && !line.contains("lastsnd"),
        "{line}"
    );
    assert!(
        line.contains(" rcv_rtt:") && line.contains(" rcv_space:"),
        "{line}"
    );
}

#[test]
fn a_recovery_is_told_of_while_it_lasts() {
    let (mut pair, client, _) = Pair::connected(9, TcpConfig::default());
    let mut frames = 0;
    pair.filter = Box::new(move |side, frame| {
        frames += usize::from(side == 0 && frame.len() > 1000);
        frames != 1
    });
    pair.hosts[0].send(client, &[0; 100_000]).expect("open");
    let mut told = None;
    for _ in 0..40 {
        pair.run_for(Duration::from_millis(1));
        told = told.or_else(|| {
            info(&pair, 0, client)
                .reduction
                .map(|reduction| (reduction, info(&pair, 0, client).ss().to_string()))
        });
    }
    let (reduction, line) = told.expect("a recovery");
    assert!(
        reduction.delivered <= reduction.divisor && reduction.out.get() > 0,
        "{reduction:?}"
    );
    assert!(
        line.contains(" prr:(delivered:")
            && line.contains(" phase:Recovery")
            && line.contains(" unacked:"),
        "{line}"
    );
}

/// Fifteen segments at once, and `late` bytes more when the first acknowledgments have come;
/// whether the last delivery rate is the application's.
fn last_rate_is_the_application_s(late: usize) -> bool {
    let (mut pair, client, _) = Pair::connected(
        7,
        TcpConfig {
            pacing: Pacing::Off,
            nagle: false,
            ..config()
        },
    );
    pair.hosts[0].send(client, &[1; 15 * 1460]).expect("open");
    pair.run_for(DELAY * 2 + DELAY / 2);
    let info = pair.hosts[0].info(client).expect("open");
    assert!(
        info.cwnd.get() > 15 * 1460,
        "the window is open, and nothing waits: {}",
        info.cwnd
    );
    pair.hosts[0].send(client, &vec![1; late]).expect("open");
    pair.run_for(DELAY * 20);
    pair.hosts[0].info(client).expect("open").app_limited
}

#[test]
fn who_writes_too_late_limits_the_flight_and_who_is_done_does_not() {
    assert!(!last_rate_is_the_application_s(0));
    assert!(last_rate_is_the_application_s(3 * 1460));
}
