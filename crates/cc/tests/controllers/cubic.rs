//! CUBIC against the worked numbers and average windows of RFC 9438, and against itself with a
//! mechanism exchanged.

use std::time::Duration;

use crate::support::{Flow, MSS, ack, average_window, config, idle, segments, signal};
use tautline_base::{Bytes, Instant};
use tautline_cc::hystart::HystartPlusPlus;
use tautline_cc::slow_start::{SlowStart, Step};
use tautline_cc::{Ack, Controller, Cubic, Reno, Signal, Verdict};

const MS: Duration = Duration::from_millis(1);

/// CUBIC whose window was cut from 100 to 70 segments.
fn cut_to_70(rtt: Duration) -> Flow<Cubic> {
    let mut flow = Flow::new(Cubic::new(&config(100)), rtt);
    flow.lose();
    assert_eq!(flow.controller.verdict().ssthresh, MSS * 70);
    flow
}

fn window_after(flow: &mut Flow<Cubic>, time: Duration) -> f64 {
    let end = flow.now + time;
    while flow.now < end {
        flow.round();
    }
    segments(&flow.controller)
}

#[test]
fn at_100_ms_the_window_follows_the_cubic() {
    let mut flow = cut_to_70(100 * MS);
    // Per round trip the window reaches W(t + RTT) of the last acknowledgment but one window's
    // worth of lag.
    for (seconds, window) in [(1, 86.68), (1, 95.64), (1, 99.28), (1, 99.99)] {
        let got = window_after(&mut flow, Duration::from_secs(seconds));
        assert!(
            (got - window).abs() < 1.5,
            "{got} and not {window} at {}",
            flow.now
        );
    }
    let beyond = window_after(&mut flow, Duration::from_secs(4));
    assert!(
        (beyond - 121.65).abs() < 6.0,
        "{beyond}: convex beyond the plateau"
    );
}

/// RFC 9438 §4.2: K is the cube root of 30 segments over C, 4.217 s.
#[test]
fn the_model_shows_plateau_and_k_of_the_curve() {
    let mut flow = cut_to_70(100 * MS);
    flow.round();
    let model = flow.controller.model();
    assert_eq!(model.plateau, Some(100.0));
    let k = model.k.expect("an epoch").as_secs_f64();
    assert!((k - 4.217).abs() < 0.001, "{k}");
}

#[test]
fn at_10_ms_the_window_is_renos() {
    let got = window_after(&mut cut_to_70(10 * MS), Duration::from_millis(500));
    assert!((got - 96.47).abs() < 1.0, "{got}: 70 + 50 rounds × 9/17");
}

#[test]
fn back_at_the_old_window_it_grows_as_fast_as_reno() {
    let mut flow = cut_to_70(MS);
    while segments(&flow.controller) < 102.0 {
        flow.round();
    }
    let before = segments(&flow.controller);
    for _ in 0..10 {
        flow.round();
    }
    let per_round = (segments(&flow.controller) - before) / 10.0;
    assert!(
        (0.9..=1.1).contains(&per_round),
        "{per_round} segments per round trip"
    );
}

#[test]
fn fast_convergence_gives_way() {
    let mut flow = cut_to_70(10 * MS);
    while segments(&flow.controller) < 80.0 {
        flow.round();
    }
    let cut_at = segments(&flow.controller);
    flow.lose();
    let window = segments(&flow.controller);
    assert!((window - cut_at * 0.7).abs() < 0.01);
    // The new plateau is 0.85 × the window, so it is reached in ∛(0.15 × 80 / 0.4) = 3.1 s instead
    // of ∛(0.3 × 80 / 0.4) = 3.9 s, and the curve is flat there. Over a long round trip the cubic
    // region shows it.
    flow.rtt = 200 * MS;
    let plateau = window_after(&mut flow, Duration::from_millis(3_100));
    assert!(
        (plateau - 0.85 * cut_at).abs() < 1.0,
        "{plateau} and not {}",
        0.85 * cut_at
    );
}

#[test]
fn average_windows_are_those_of_the_rfc() {
    // RFC 9438 §5.2: 1.054 × (RTT / p)^¾ in the cubic region; Reno's √(1.5 / p) in the friendly
    // region.
    let cases = [
        (100 * MS, 10_000, 1.054 * (0.1_f64 * 10_000.0).powf(0.75)),
        (100 * MS, 30_000, 1.054 * (0.1_f64 * 30_000.0).powf(0.75)),
        (10 * MS, 1_000, (1.5 * 1_000.0_f64).sqrt()),
    ];
    for (rtt, period, law) in cases {
        let average = average_window(Flow::new(Cubic::new(&config(10)), rtt), period);
        assert!(
            (average / law - 1.0).abs() < 0.1,
            "RTT {rtt:?}, p = 1/{period}: {average} and not {law}"
        );
    }
}

#[test]
fn on_a_long_path_it_beats_reno() {
    let cubic = average_window(Flow::new(Cubic::new(&config(10)), 100 * MS), 10_000);
    let reno = average_window(Flow::new(Reno::new(&config(10)), 100 * MS), 10_000);
    assert!(cubic > 1.3 * reno, "{cubic} and {reno}");
}

#[test]
fn a_mark_may_leave_one_segment_and_a_loss_two() {
    for (kind, window) in [(Signal::Ce, 1.0), (Signal::Loss, 2.0)] {
        let mut cubic = Cubic::new(&config(1));
        cubic.on_congestion(&signal(Instant::ZERO, kind));
        assert_eq!(
            (segments(&cubic), cubic.verdict().ssthresh),
            (window, MSS * 2),
            "{kind:?}"
        );
    }
}

#[test]
fn with_abe_a_mark_in_congestion_avoidance_leaves_more_than_a_loss() {
    // RFC 8511: 0.85 instead of 0.7.
    for (abe, kind, left) in [
        (true, Signal::Ce, 0.85),
        (true, Signal::Loss, 0.7),
        (false, Signal::Ce, 0.7),
    ] {
        let mut flow = Flow::new(
            Cubic::new(&tautline_cc::Config { abe, ..config(100) }),
            100 * MS,
        );
        flow.signal(kind);
        assert_eq!(
            segments(&flow.controller),
            70.0,
            "slow start is cut in full"
        );
        flow.round();
        let before = segments(&flow.controller);
        flow.signal(kind);
        let after = segments(&flow.controller) / before;
        assert!((after - left).abs() < 1e-3, "{kind:?}, ABE {abe}: {after}");
    }
}

#[test]
fn after_a_timeout_the_curve_starts_on_its_plateau() {
    let mut flow = cut_to_70(100 * MS);
    flow.round();
    flow.signal(Signal::Timeout);
    assert_eq!(segments(&flow.controller), 1.0);
    let threshold = flow.controller.verdict().ssthresh.get() as f64 / MSS.get() as f64;
    while segments(&flow.controller) < threshold {
        flow.round();
    }
    let start = segments(&flow.controller);
    // K = 0: after two seconds only 0.4 × 2³ = 3.2 segments were won by the curve, 10 by Reno's
    // estimate.
    let window = window_after(&mut flow, Duration::from_secs(2));
    assert!(
        (window - start - 20.0 * 9.0 / 17.0).abs() < 1.5,
        "{start} → {window}"
    );
}

/// RFC 9438 §4.8: also a timeout in the middle of a recovery, which does not cut once more.
#[test]
fn a_timeout_while_a_loss_is_repaired_ends_the_curve() {
    let mut flow = cut_to_70(100 * MS);
    flow.signal(Signal::Timeout);
    assert_eq!(flow.controller.verdict().ssthresh, MSS * 70);
    while segments(&flow.controller) < 70.0 {
        flow.round();
    }
    let model = flow.controller.model();
    assert_eq!((model.plateau, model.k), (Some(70.0), Some(Duration::ZERO)));
}

#[test]
fn an_undo_restores_everything() {
    let mut disturbed = cut_to_70(100 * MS);
    let mut undisturbed = cut_to_70(100 * MS);
    for _ in 0..20 {
        disturbed.round();
        undisturbed.round();
    }
    let before = disturbed.controller.verdict();
    disturbed.lose();
    assert!(disturbed.controller.verdict().cwnd < before.cwnd);
    disturbed.controller.on_undo(disturbed.now);
    assert_eq!(disturbed.controller.verdict().cwnd, before.cwnd);
    assert_eq!(disturbed.controller.verdict().ssthresh, before.ssthresh);
    for _ in 0..40 {
        disturbed.round();
        undisturbed.round();
        assert_eq!(
            disturbed.controller.verdict(),
            undisturbed.controller.verdict(),
            "curve, epoch and estimate are back"
        );
    }
}

#[test]
fn a_spurious_loss_in_slow_start_gives_slow_start_back() {
    let mut flow = Flow::new(Cubic::new(&config(10)), 100 * MS);
    flow.round();
    flow.lose();
    flow.controller.on_undo(flow.now);
    flow.round();
    assert_eq!(
        (
            segments(&flow.controller),
            flow.controller.verdict().ssthresh
        ),
        (40.0, Bytes::MAX)
    );
}

#[test]
fn an_hour_without_data_does_not_make_the_window_jump() {
    let mut paused = cut_to_70(100 * MS);
    paused.controller = Cubic::new(&tautline_cc::Config {
        slow_start_after_idle: false,
        ..config(100)
    });
    paused.lose();
    let mut steady = cut_to_70(100 * MS);
    for _ in 0..20 {
        paused.round();
        steady.round();
    }
    paused.now += Duration::from_secs(3600);
    paused.controller.on_idle(&idle(
        paused.now,
        Duration::from_secs(3600),
        Duration::from_millis(300),
    ));
    paused.round();
    steady.round();
    assert_eq!(
        paused.controller.verdict().cwnd,
        steady.controller.verdict().cwnd
    );
}

#[test]
fn an_hour_of_little_data_does_not_make_the_window_jump() {
    let mut flow = cut_to_70(100 * MS);
    for _ in 0..20 {
        flow.round();
    }
    let before = segments(&flow.controller);
    for _ in 0..3600 {
        flow.now += Duration::from_secs(1);
        flow.controller.on_ack(&Ack {
            cwnd_limited: false,
            ..ack(flow.now, flow.rtt)
        });
    }
    assert_eq!(
        segments(&flow.controller),
        before,
        "no growth while the application limits"
    );
    flow.round();
    let growth = segments(&flow.controller) - before;
    assert!(growth < 2.0, "{growth} segments in the round after");
}

#[test]
fn hystart_leaves_before_the_loss_and_plain_slow_start_does_not() {
    /// RFC 5681: no way out but loss.
    #[derive(Clone)]
    struct Plain;
    impl SlowStart for Plain {
        fn on_ack(&mut self, ack: &Ack, _before: impl FnOnce() -> Verdict) -> Step {
            Step::Grow(ack.acked)
        }
    }

    // A bottleneck of 1000 segments per second, 50 ms away: above a window of 50 a queue adds to
    // the RTT.
    fn overshoot(cubic: Cubic<impl SlowStart>) -> f64 {
        let mut flow = Flow::new(cubic, 50 * MS);
        for _ in 0..12 {
            let window = segments(&flow.controller);
            flow.rtt = (50 * MS).max(Duration::from_secs_f64(window / 1000.0));
            flow.round();
        }
        segments(&flow.controller)
    }

    let plain = overshoot(Cubic::with_slow_start(&config(10), Plain));
    let hystart = overshoot(Cubic::with_slow_start(&config(10), HystartPlusPlus::new()));
    assert!(plain > 10_000.0, "{plain}");
    assert!(hystart < 500.0, "{hystart}");
}

/// RFC 9406 §4.3: `L` is 8 for a sender that does not pace.
#[test]
fn without_pacing_a_large_acknowledgment_opens_the_window_by_eight_segments() {
    for (paced, opened) in [(true, 44.0), (false, 8.0)] {
        let config = tautline_cc::Config {
            paced,
            ..config(50)
        };
        let mut cubic = Cubic::new(&config);
        cubic.on_ack(&Ack {
            cwnd_limited: true,
            ..Ack::new(Instant::ZERO, config.mss * 44, Bytes::ZERO)
        });
        assert_eq!(segments(&cubic), 50.0 + opened, "{paced}");
    }
}

#[test]
fn hystart_minds_only_the_first_slow_start() {
    let mut flow = Flow::new(Cubic::new(&config(100)), 50 * MS);
    flow.signal(Signal::Timeout);
    flow.round();
    for doubled in [4.0, 8.0, 16.0, 32.0, 64.0] {
        flow.rtt += 50 * MS;
        flow.round();
        assert_eq!(
            segments(&flow.controller),
            doubled,
            "up to the threshold of 70, however long the RTT grows"
        );
    }
}

#[test]
fn conservative_growth_is_a_quarter_per_round() {
    let mut flow = Flow::new(Cubic::new(&config(50)), 50 * MS);
    flow.round();
    flow.rtt = 60 * MS;
    let mut windows = vec![segments(&flow.controller)];
    for _ in 0..5 {
        flow.round();
        windows.push(segments(&flow.controller));
    }
    // 100 → 125 → 156 → 195 → 244 → 305; seven acknowledgments still count in full before the
    // alarm.
    for (got, expected) in windows
        .iter()
        .zip([100.0, 125.0, 156.0, 195.0, 244.0, 305.0])
    {
        assert!((got / expected - 1.0).abs() < 0.06, "{windows:?}");
    }
    flow.round();
    assert!(
        flow.controller.verdict().ssthresh < Bytes::MAX,
        "congestion avoidance after five rounds"
    );
}
