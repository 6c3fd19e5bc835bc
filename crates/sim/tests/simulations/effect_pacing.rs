//! Pacing spaces departures by the controller's rate; without it a window leaves in one burst.

use std::time::Duration;

use crate::common::{Departures, FRAME, Fixed, MSS, long_wire, ms, run_recorded};
use tautline_base::{Bytes, Rate};
use tautline_sim::{NicConfig, Outcome, Transfer};
use tautline_stack::{Pacing, TcpConfig, TsqLimit};

const RATE: Rate = Rate::mbit(40);

/// Bytes at the rate in `span`: it counts payload, frames count more.
fn on_the_wire(span: Duration) -> u64 {
    (RATE * span).get() * FRAME / MSS
}

fn departures(pacing: Pacing) -> (Departures, f64) {
    departures_under("pfifo", pacing)
}

fn departures_under(qdisc: &str, pacing: Pacing) -> (Departures, f64) {
    let (departures, outcome) = outcome_under(qdisc, pacing);
    (departures, outcome.duration.as_secs_f64())
}

fn outcome_under(qdisc: &str, pacing: Pacing) -> (Departures, Outcome) {
    let congestion = Fixed {
        cwnd: Bytes::new(100 * MSS),
        pacing_rate: RATE,
    }
    .factory();
    let sender = TcpConfig {
        congestion,
        pacing,
        tsq: TsqLimit::Off,
        ..TcpConfig::default()
    };
    let nic = NicConfig {
        rate: Rate::gbit(10),
        ..NicConfig::default()
    };
    let qdisc = qdisc.parse().expect(qdisc);
    let transfer = Transfer {
        bytes: 4 << 20,
        qdisc,
        links: long_wire(ms(20)),
        nic,
        sender,
        ..Transfer::default()
    };
    let (outcome, departures) = run_recorded(&transfer, Departures::default());
    (departures, outcome)
}

/// 4 MiB take as long as the rate says, and the handshake.
fn assert_takes_what_the_rate_does(seconds: f64) {
    let ideal = (Bytes::mib(4) / RATE).as_secs_f64();
    assert!(
        (ideal..ideal * 1.10 + 0.06).contains(&seconds),
        "{seconds} s, at the rate it takes {ideal}"
    );
}

#[test]
fn departures_keep_to_the_rate() {
    let (paced, seconds) = departures(Pacing::Internal);
    for span in [ms(1), ms(5), ms(20), ms(100)] {
        let (most, budget) = (paced.most_within(span), on_the_wire(span));
        // The verdict's burst of two frames, and the frame that begins the span.
        assert!(
            most <= budget + 3 * FRAME,
            "{most} bytes within {span:?}, the rate gives {budget}"
        );
    }
    assert_takes_what_the_rate_does(seconds);
}

#[test]
fn without_pacing_a_window_leaves_in_one_burst() {
    let (unpaced, seconds) = departures(Pacing::Off);
    let (paced, _) = departures(Pacing::Internal);
    let (burst, spaced) = (unpaced.most_within(ms(1)), paced.most_within(ms(1)));
    assert!(
        burst > 90 * FRAME && burst > 8 * spaced,
        "{burst} against {spaced} bytes within 1 ms"
    );
    assert!(
        seconds < 0.95 * (Bytes::mib(4) / RATE).as_secs_f64(),
        "only the window held it back: {seconds} s"
    );
}

/// With `Pacing::Qdisc` a segment only carries its departure, which `fq` honors.
#[test]
fn departure_stamps_are_kept_by_fq() {
    let (fq, seconds) = departures_under("fq", Pacing::Qdisc);
    for span in [ms(1), ms(5), ms(20)] {
        let (most, budget) = (fq.most_within(span), on_the_wire(span));
        assert!(
            most <= budget + 3 * FRAME,
            "{most} bytes within {span:?}, the rate gives {budget}"
        );
    }
    assert_takes_what_the_rate_does(seconds);
}

/// A FIFO lets segments go at once, 64 of them in the first poll that has data to pace. From then on
/// the connection paces itself, and round trips are measured from when segments left.
#[test]
fn where_the_qdisc_does_not_pace_the_connection_does() {
    for qdisc in ["pfifo", "fq_codel", "prio", "fq nopacing"] {
        let (departures, outcome) = outcome_under(qdisc, Pacing::Qdisc);
        for span in [ms(5), ms(20), ms(100)] {
            let (most, budget) = (departures.most_within(span), on_the_wire(span));
            assert!(
                most <= budget + (64 + 3) * FRAME,
                "{qdisc}: {most} bytes within {span:?}, the rate gives {budget}"
            );
        }
        let burst = departures.most_within(ms(1));
        let later = departures.since(ms(200)).most_within(ms(1));
        assert!(
            later <= on_the_wire(ms(1)) + 3 * FRAME,
            "{qdisc}: {later} bytes within 1 ms, at first {burst}"
        );
        let info = outcome.sender;
        assert!(
            info.min_rtt >= ms(20),
            "{qdisc}: {:?} over 20 ms",
            info.min_rtt
        );
        assert_takes_what_the_rate_does(outcome.duration.as_secs_f64());
    }
}

/// FQ drops what is to depart after more than 10 s. At 100 bytes a second segments are 14.5 s apart: each is
/// refused until its time is within the horizon, and no refusal may move the next attempt further away.
#[test]
fn a_rate_so_low_that_segments_lie_beyond_the_horizon_still_makes_progress() {
    let rate = Rate::bytes_per_sec(100);
    let congestion = Fixed {
        cwnd: Bytes::new(4 * MSS),
        pacing_rate: rate,
    }
    .factory();
    let sender = TcpConfig {
        congestion,
        pacing: Pacing::Qdisc,
        ..TcpConfig::default()
    };
    let bytes = 10 * MSS;
    let transfer = Transfer {
        bytes,
        qdisc: "fq".parse().expect("fq"),
        links: long_wire(ms(20)),
        sender,
        ..Transfer::default()
    };
    let (outcome, _) = run_recorded(&transfer, Departures::default());
    let (seconds, ideal) = (
        outcome.duration.as_secs_f64(),
        (Bytes::new(bytes) / rate).as_secs_f64(),
    );
    assert!(
        outcome.sender.local_drops > 0 && seconds < 3.0 * ideal,
        "{seconds} s, at the rate {ideal} s"
    );
}
