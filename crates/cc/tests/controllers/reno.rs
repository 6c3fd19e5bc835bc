//! NewReno against the worked numbers of RFC 5681.

use std::time::Duration;

use crate::support::{Flow, MSS, ack, average_window, config, segments, signal};
use tautline_base::{Bytes, Instant};
use tautline_cc::{Ack, Config, CongestionState, Controller, Reno, Signal};

const RTT: Duration = Duration::from_millis(40);
const NOW: Instant = Instant::from_secs(1);

/// Reno in congestion avoidance at `segments`.
fn avoiding(segments: u64) -> Reno {
    let mut reno = Reno::new(&config(2 * segments));
    reno.on_congestion(&signal(NOW, Signal::Loss));
    reno
}

#[test]
fn a_loss_halves_the_window() {
    let reno = avoiding(10);
    assert_eq!(
        (reno.verdict().cwnd, reno.verdict().ssthresh),
        (MSS * 10, MSS * 10)
    );
}

#[test]
fn a_hundred_segments_open_ten_to_seventeen() {
    // 10 + 11 + … + 16 = 91 acknowledged segments give the seven.
    let mut reno = avoiding(10);
    let mut opened_at = Vec::new();
    for i in 1..=100 {
        let before = segments(&reno);
        reno.on_ack(&ack(NOW, RTT));
        if segments(&reno) > before {
            opened_at.push(i);
        }
    }
    assert_eq!(segments(&reno), 17.0);
    assert_eq!(opened_at, [10, 21, 33, 46, 60, 75, 91]);
}

#[test]
fn slow_start_doubles_per_round_trip_whatever_the_acknowledgments_cover() {
    for stretch in [1, 2, 10] {
        let mut reno = Reno::new(&config(10));
        for _ in 0..10 / stretch {
            reno.on_ack(&Ack {
                acked: MSS * stretch,
                ..ack(NOW, RTT)
            });
        }
        assert_eq!(segments(&reno), 20.0, "acknowledgments of {stretch}");
    }
}

#[test]
fn a_window_that_does_not_limit_the_sender_does_not_grow() {
    let mut reno = Reno::new(&config(10));
    reno.on_ack(&Ack {
        cwnd_limited: false,
        ..ack(NOW, RTT)
    });
    assert_eq!(segments(&reno), 10.0);
}

/// Losses in the window that a mark has cut are repaired without another cut. That recovery ends
/// with the acknowledgment that begins the next one, as behind a queue that overflows although it
/// marks: each of those costs half the window (RFC 5681 §3.1, Linux `tcp_enter_recovery`).
#[test]
fn recoveries_after_a_mark_halve_the_window_each() {
    let mut reno = Reno::new(&config(80));
    let mut windows = Vec::new();
    let mut hear = |kind, state| {
        reno.on_congestion(&signal(NOW, kind));
        for _ in 0..10 {
            reno.on_ack(&Ack {
                state,
                ..ack(NOW, RTT)
            });
        }
        windows.push(segments(&reno));
    };
    hear(Signal::Ce, CongestionState::Cwr);
    for _ in 0..3 {
        hear(Signal::Loss, CongestionState::Recovery);
    }
    assert_eq!(windows, [40.0, 40.0, 20.0, 10.0]);
}

/// The acknowledgment that ends a recovery may report marks of what was sent after the loss was
/// found (Linux `tcp_try_to_open`); one in the middle of it reports those of the same window.
#[test]
fn a_mark_at_the_end_of_a_recovery_halves_the_window_and_one_within_it_does_not() {
    for (state, expected) in [
        (CongestionState::Cwr, 20.0),
        (CongestionState::Recovery, 40.0),
    ] {
        let mut reno = Reno::new(&config(80));
        reno.on_congestion(&signal(NOW, Signal::Loss));
        reno.on_congestion(&signal(NOW, Signal::Ce));
        for _ in 0..3 {
            reno.on_ack(&Ack {
                state,
                ..ack(NOW, RTT)
            });
        }
        assert_eq!(segments(&reno), expected, "{state:?}");
        reno.on_undo(NOW);
        assert_eq!(segments(&reno), expected, "a mark is certain");
    }
}

#[test]
fn recovery_holds_the_window_and_a_timeout_reopens_it() {
    let mut reno = avoiding(10);
    let recovering = Ack {
        state: CongestionState::Recovery,
        ..ack(NOW, RTT)
    };
    for _ in 0..50 {
        reno.on_ack(&recovering);
    }
    assert_eq!(segments(&reno), 10.0, "PRR owns the window");

    reno.on_ack(&ack(NOW, RTT));
    reno.on_congestion(&signal(NOW, Signal::Timeout));
    assert_eq!((segments(&reno), reno.verdict().ssthresh), (1.0, MSS * 5));
    for _ in 0..4 {
        reno.on_ack(&recovering);
    }
    assert_eq!(segments(&reno), 5.0, "slow start up to the threshold");
}

#[test]
fn a_timeout_leaves_room_for_one_segment_beyond_the_flight() {
    let mut reno = Reno::new(&config(10));
    let mut timeout = signal(NOW, Signal::Timeout);
    timeout.in_flight = MSS * 3;
    reno.on_congestion(&timeout);
    assert_eq!(segments(&reno), 4.0);
}

#[test]
fn a_repeated_timeout_holds_the_threshold() {
    let mut reno = Reno::new(&config(40));
    for _ in 0..5 {
        reno.on_congestion(&signal(NOW, Signal::Timeout));
    }
    assert_eq!(reno.verdict().ssthresh, MSS * 20);
    reno.on_undo(NOW);
    assert_eq!(
        (segments(&reno), reno.verdict().ssthresh),
        (40.0, Bytes::MAX),
        "undo goes back before the first"
    );
}

#[test]
fn a_spurious_loss_is_undone_and_a_mark_is_not() {
    for (kind, after_undo) in [
        (Signal::Loss, 20.0),
        (Signal::Ce, 10.0),
        (Signal::LocalDrop, 10.0),
    ] {
        let mut reno = Reno::new(&config(20));
        reno.on_congestion(&signal(NOW, kind));
        reno.on_undo(NOW);
        assert_eq!(segments(&reno), after_undo, "{kind:?}");
    }
}

#[test]
fn with_abe_a_mark_in_congestion_avoidance_leaves_four_fifths() {
    for (abe, kind, left) in [
        (true, Signal::Ce, 16.0),
        (true, Signal::Loss, 10.0),
        (false, Signal::Ce, 10.0),
    ] {
        let mut reno = Reno::new(&Config { abe, ..config(40) });
        reno.on_congestion(&signal(NOW, kind));
        assert_eq!(segments(&reno), 20.0, "slow start is cut in full");
        reno.on_ack(&Ack {
            acked: Bytes::ZERO,
            ..ack(NOW, RTT)
        });
        reno.on_congestion(&signal(NOW, kind));
        assert_eq!(segments(&reno), left, "{kind:?}, ABE {abe}");
    }
}

#[test]
fn the_average_window_follows_the_square_root_law() {
    // One loss in every 1/p segments: √(1.5 / p) (RFC 5681 cut and growth).
    for period in [1_000, 10_000] {
        let average = average_window(Flow::new(Reno::new(&config(10)), RTT), period);
        let law = (1.5 * period as f64).sqrt();
        assert!(
            (average / law - 1.0).abs() < 0.05,
            "p = 1/{period}: {average} and not {law}"
        );
    }
}
