//! The receiver's window bounds what is in flight; a reader that pauses stops the sender, and
//! nothing is lost.

use crate::common::{Departures, Flight, long_wire, ms, run_recorded, window_only};
use tautline_base::{Bytes, Instant};
use tautline_sim::Transfer;
use tautline_stack::TcpConfig;

fn with_buffer(receive_buffer: Bytes) -> Transfer {
    let receiver = TcpConfig {
        receive_buffer,
        receive_start: receive_buffer,
        ..TcpConfig::default()
    };
    Transfer {
        bytes: 4 << 20,
        links: long_wire(ms(20)),
        sender: window_only(1 << 20),
        receiver,
        ..Transfer::default()
    }
}

#[test]
fn bytes_on_the_wire_never_exceed_the_offered_window() {
    for kib in [8, 64, 500] {
        let (_, flight) = run_recorded(&with_buffer(Bytes::kib(kib)), Flight::default());
        assert!(
            u64::from(flight.peak) <= kib << 10,
            "{kib} KiB: {} bytes in flight",
            flight.peak
        );
        assert!(
            u64::from(flight.peak) > kib << 9,
            "{kib} KiB: only {} bytes in flight",
            flight.peak
        );
    }
    let (_, unbounded) = run_recorded(&with_buffer(Bytes::mib(6)), Flight::default());
    assert!(unbounded.peak > 2_000_000, "{}", unbounded.peak);
}

#[test]
fn a_pausing_reader_stops_the_sender_and_loses_nothing() {
    let (buffer, wakes_up) = (Bytes::kib(64), Instant::from_secs(20));
    let paused = Transfer {
        reads_from: wakes_up,
        ..with_buffer(buffer)
    };
    let (outcome, departures) = run_recorded(&paused, Departures::default());
    let early: Vec<_> = departures
        .0
        .iter()
        .filter(|(at, _)| *at < wakes_up)
        .collect();
    let sent: u64 = early.iter().map(|(_, len)| len - 66).sum();
    assert!(
        sent <= buffer.get() + 64,
        "{sent} bytes into a window of {buffer}: the rest must wait, but for probes"
    );
    assert!(sent > buffer.get() / 2, "{sent}");
    // Probes back off: in 20 s there are few of them, and the opened window is used at once.
    assert!(
        early.len() < 64 + 16,
        "{} frames before the reader came",
        early.len()
    );
    assert!(
        outcome.duration < (wakes_up - Instant::ZERO) + ms(3_000),
        "{:?}",
        outcome.duration
    );
}
