//! Linux's CUBIC: its worked numbers, and where it differs from RFC 9438.

use std::time::Duration;

use crate::support::{Flow, MSS, ack, config, idle, segments, signal};
use tautline_base::{Bytes, Instant};
use tautline_cc::{Ack, Config, Controller, Cubic, CubicLinux, Signal};

const MS: Duration = Duration::from_millis(1);
const NOW: Instant = Instant::from_secs(1000);

/// A window cut from 100 to 70 packets.
fn cut_to_70<C: Controller>(controller: C, rtt: Duration) -> Flow<C> {
    let mut flow = Flow::new(controller, rtt);
    flow.lose();
    assert_eq!(segments(&flow.controller), 70.0);
    flow
}

fn window_after(flow: &mut Flow<impl Controller>, time: Duration) -> f64 {
    let end = flow.now + time;
    while flow.now < end {
        flow.round();
    }
    segments(&flow.controller)
}

#[test]
fn at_100_ms_the_window_follows_the_integers() {
    let mut flow = cut_to_70(CubicLinux::new(&config(100)), 100 * MS);
    for window in [87.0, 96.0, 99.0, 100.0] {
        let got = window_after(&mut flow, Duration::from_secs(1));
        assert!(
            (got - window).abs() <= 1.0,
            "{got} and not {window} at {}",
            flow.now
        );
    }
    let beyond = window_after(&mut flow, Duration::from_secs(4));
    assert!(
        (beyond - 121.0).abs() <= 3.0,
        "{beyond}: convex beyond the plateau"
    );
}

#[test]
fn renos_estimate_does_not_speed_up_at_the_old_window() {
    // α stays 8/15 where RFC 9438 goes to 1: at 1 ms the curve plays no part.
    let climb = |flow: &mut Flow<_>| {
        while segments(&flow.controller) < 102.0 {
            flow.round();
        }
        let before = segments(&flow.controller);
        // Looked at every 1/32 s only, it climbs in steps.
        flow.rounds(320);
        (segments(&flow.controller) - before) / 320.0
    };
    let linux = climb(&mut cut_to_70(CubicLinux::new(&config(100)), MS));
    assert!(
        (linux - 8.0 / 15.0).abs() < 0.08,
        "{linux} packets per round trip"
    );
}

#[test]
fn a_mark_leaves_two_packets() {
    for kind in [Signal::Ce, Signal::Loss] {
        let mut cubic = CubicLinux::new(&config(1));
        cubic.on_congestion(&signal(NOW, kind));
        assert_eq!(
            (segments(&cubic), cubic.verdict().ssthresh),
            (2.0, MSS * 2),
            "{kind:?}"
        );
    }
}

/// The full undo of RFC 9438 §4.9 is a place where Linux is beaten.
#[test]
fn an_undo_gives_the_window_back_but_not_the_curve() {
    fn disturbed<C: Controller>(controller: C) -> (f64, f64) {
        let mut flow = cut_to_70(controller, 100 * MS);
        flow.rounds(20);
        let before = segments(&flow.controller);
        flow.lose();
        flow.controller.on_undo(flow.now);
        assert_eq!(segments(&flow.controller), before);
        (before, window_after(&mut flow, Duration::from_secs(6)))
    }
    let (before, linux) = disturbed(CubicLinux::new(&config(100)));
    assert_eq!(before, 97.0, "two seconds and one delay after the cut");
    let (_, full) = disturbed(Cubic::new(&config(100)));
    // Eight seconds after the first cut the curve is at 121.65; Linux stands on a new plateau six
    // seconds old: 0.4 × 6³ above 81 packets, its fast convergence, is still less than where it
    // starts anew.
    assert!((full - 121.65).abs() < 6.0, "{full}");
    assert!((linux - full).abs() > 5.0, "{linux} and {full}");
}

#[test]
fn a_timeout_forgets_the_plateau_and_looks_for_the_way_out_again() {
    let mut flow = Flow::new(CubicLinux::new(&config(100)), 50 * MS);
    flow.signal(Signal::Timeout);
    assert_eq!(
        (
            segments(&flow.controller),
            flow.controller.verdict().ssthresh
        ),
        (1.0, MSS * 70)
    );
    // From 16 packets on HyStart looks again: ten-fold delays end slow start below the threshold of
    // 70.
    for _ in 0..5 {
        flow.round();
    }
    flow.rtt = 500 * MS;
    flow.round();
    let threshold = flow.controller.verdict().ssthresh;
    assert!(threshold < MSS * 70, "{threshold}");
}

#[test]
fn a_pause_halves_the_window_and_shifts_the_epoch() {
    let mut paused = cut_to_70(
        CubicLinux::new(&Config {
            slow_start_after_idle: false,
            ..config(100)
        }),
        100 * MS,
    );
    let mut steady = cut_to_70(CubicLinux::new(&config(100)), 100 * MS);
    for _ in 0..20 {
        paused.round();
        steady.round();
    }
    let hour = Duration::from_secs(3600);
    paused.now += hour;
    paused.controller.on_idle(&idle(paused.now, hour, 300 * MS));
    paused.round();
    steady.round();
    assert!((segments(&paused.controller) - segments(&steady.controller)).abs() <= 1.0);

    // 1.1 s since the last transmission are one timeout of 600 ms after the first.
    let mut halved = Flow::new(CubicLinux::new(&config(10)), 100 * MS);
    halved.rounds(3);
    assert_eq!(segments(&halved.controller), 80.0);
    halved.now += MS * 1000;
    halved
        .controller
        .on_idle(&idle(halved.now, MS * 1000, 600 * MS));
    assert_eq!(segments(&halved.controller), 40.0);
}

#[test]
fn acknowledgments_of_part_packets_add_up() {
    let mut cubic = CubicLinux::new(&config(10));
    for _ in 0..4 {
        cubic.on_ack(&Ack {
            acked: Bytes::new(500),
            ..ack(NOW, 40 * MS)
        });
    }
    assert_eq!(segments(&cubic), 12.0);
}
