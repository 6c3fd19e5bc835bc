//! The congestion window bounds what is in flight, at every instant; without it nothing does.

use crate::common::{
    Flight, MSS, long_wire, ms, path, run_recorded, run_watched, sender_info, window_only,
};
use tautline_base::Bytes;
use tautline_cc::Algorithm;
use tautline_sim::Transfer;
use tautline_stack::TcpConfig;

fn with_window(segments: u64) -> (u32, f64) {
    let transfer = Transfer {
        bytes: 4 << 20,
        links: long_wire(ms(20)),
        receiver: TcpConfig {
            receive_start: Bytes::mib(6),
            ..TcpConfig::default()
        },
        sender: window_only(segments),
        ..Transfer::default()
    };
    let (outcome, flight) = run_recorded(&transfer, Flight::default());
    assert_eq!(outcome.sender.retransmits, 0);
    (flight.peak, outcome.duration.as_secs_f64())
}

#[test]
fn bytes_on_the_wire_never_exceed_the_window() {
    for segments in [1, 2, 20, 100] {
        let (peak, seconds) = with_window(segments);
        assert!(
            u64::from(peak) <= segments * MSS,
            "{segments} segments: {peak} bytes in flight"
        );
        assert!(
            u64::from(peak) > (segments - 1) * MSS,
            "{segments} segments: only {peak} bytes in flight"
        );
        // One window per round trip.
        let rounds = (4 << 20) as f64 / (segments * MSS) as f64;
        assert!(
            seconds > rounds * 0.02,
            "{segments} segments: {seconds} s is faster than {rounds} round trips"
        );
    }
}

#[test]
fn without_the_window_the_peers_window_and_the_buffer_are_all_that_holds() {
    let (peak, seconds) = with_window(1 << 20);
    assert!(peak > 2_000_000, "{peak}");
    assert!(seconds < 0.3, "{seconds}");
}

/// With real controllers: outside recovery the bytes in flight stay within the window, or fall
/// until they do.
#[test]
fn controllers_are_obeyed_at_every_step() {
    for algorithm in Algorithm::ALL {
        let sender = TcpConfig {
            congestion: algorithm.factory(),
            ..TcpConfig::default()
        };
        let transfer = Transfer {
            bytes: 8 << 20,
            links: path(50, ms(20)),
            sender,
            ..Transfer::default()
        };
        let (mut before, mut full) = (Bytes::ZERO, 0u64);
        let outcome = run_watched(&transfer, |network| {
            let Some(info) = sender_info(network) else {
                return;
            };
            if !info.recovering {
                assert!(
                    info.in_flight <= info.cwnd.max(before),
                    "{algorithm} at {}: {info:?}",
                    network.now()
                );
                full += u64::from(info.in_flight + info.mss > info.cwnd);
            }
            before = info.in_flight;
        });
        assert!(
            full > 1000,
            "{algorithm}: the window was full at {full} steps only"
        );
        assert!(
            outcome.links[0].drops() > 0,
            "{algorithm}: the path was never full"
        );
    }
}
