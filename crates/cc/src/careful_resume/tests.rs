use super::*;
use crate::Algorithm;

const MSS: Bytes = Bytes::new(1000);
const RTT: Duration = Duration::from_millis(100);

/// Resumes a path of 400 segments and 100 ms, from an initial window of ten.
fn resumed_by(algorithm: Algorithm) -> Box<dyn Controller> {
    let config = Config::new(MSS);
    let saved = SavedPath::new(MSS * 400, RTT, config.initial_window);
    assert!(saved.is_some());
    algorithm.build(&Config {
        resume: saved,
        ..config
    })
}

fn resumed() -> Box<dyn Controller> {
    resumed_by(Algorithm::Reno)
}

/// An acknowledgment at `ms` of `acked` segments, the last of `delivered`, that leaves `in_flight`.
fn ack(ms: u64, acked: u64, delivered: u64, in_flight: u64) -> Ack {
    Ack {
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        delivered: MSS * delivered,
        ..Ack::new(Instant::from_millis(ms), MSS * acked, MSS * in_flight)
    }
}

fn congestion(signal: Signal, in_flight: u64) -> Congestion {
    Congestion {
        now: Instant::from_secs(1),
        signal,
        in_flight: MSS * in_flight,
    }
}

/// After the initial window: its first half was acknowledged and replaced.
fn jumped() -> Box<dyn Controller> {
    jumped_by(Algorithm::Reno)
}

fn jumped_by(algorithm: Algorithm) -> Box<dyn Controller> {
    let mut resume = resumed_by(algorithm);
    resume.on_ack(&ack(100, 5, 5, 5));
    assert_eq!(resume.model().state, "reconnaissance");
    resume.on_ack(&ack(110, 5, 10, 10));
    assert_eq!(resume.model().state, "unvalidated");
    resume
}

#[test]
fn a_confirmed_path_is_resumed_at_half_of_its_window_paced() {
    let verdict = jumped().verdict();
    assert_eq!(verdict.cwnd, MSS * 200);
    assert_eq!(verdict.pacing_rate, Rate::mbit(16), "200 kB in 100 ms");
    assert!(verdict.burst <= MSS * 10, "{verdict:?}");
}

#[test]
fn another_path_is_not_resumed() {
    for (rtt, state) in [
        (49, ""),
        (50, "unvalidated"),
        (1000, "unvalidated"),
        (1001, ""),
    ] {
        let mut resume = resumed();
        let rtt = Duration::from_millis(rtt);
        resume.on_ack(&Ack {
            min_rtt: rtt,
            ..ack(100, 10, 10, 0)
        });
        assert_eq!(resume.model().state, state, "{rtt:?}");
    }
}

#[test]
fn a_sender_without_data_waits_and_a_congested_one_gives_up() {
    let mut resume = resumed();
    let limited = Ack {
        cwnd_limited: false,
        ..ack(100, 10, 10, 0)
    };
    resume.on_ack(&limited);
    assert_eq!(resume.model().state, "reconnaissance");
    resume.on_congestion(&congestion(Signal::Ce, 10));
    resume.on_ack(&ack(200, 5, 15, 5));
    assert_eq!((resume.model().state, resume.verdict().cwnd), ("", MSS * 6));
}

#[test]
fn a_window_that_gains_nothing_is_not_saved_or_resumed() {
    assert_eq!(SavedPath::new(MSS * 39, RTT, MSS * 10), None);
    assert!(SavedPath::new(MSS * 40, RTT, MSS * 10).is_some());
    let mut resume = resumed();
    resume.on_ack(&Ack {
        acked: MSS * 190,
        ..ack(100, 10, 200, 0)
    });
    assert_eq!(
        (resume.model().state, resume.verdict().cwnd),
        ("", MSS * 200)
    );
}

/// PipeSize begins with the window of 20 before the jump, ten of which are in flight.
#[test]
fn the_jump_is_validated_by_its_acknowledgments() {
    let mut resume = jumped();
    resume.on_ack(&ack(120, 10, 20, 100));
    assert_eq!(
        (resume.model().state, resume.verdict().cwnd),
        ("unvalidated", MSS * 200)
    );
    resume.on_ack(&ack(130, 1, 21, 119));
    assert_eq!(resume.model().state, "validating");
    assert_eq!(
        resume.verdict().cwnd,
        MSS * 120,
        "the flight, and slow start"
    );
    resume.on_ack(&ack(140, 118, 139, 120));
    assert_eq!(resume.model().state, "validating");
    resume.on_ack(&ack(150, 1, 140, 120));
    assert_eq!(
        (resume.model().state, resume.verdict().cwnd),
        ("", MSS * 239)
    );
}

#[test]
fn an_unused_jump_ends_after_a_round_trip() {
    let mut resume = jumped();
    resume.on_ack(&ack(209, 1, 11, 30));
    assert_eq!(resume.model().state, "unvalidated");
    resume.on_ack(&ack(210, 1, 12, 30));
    assert_eq!(
        (resume.model().state, resume.verdict().cwnd),
        ("validating", MSS * 31)
    );
}

#[test]
fn congestion_of_the_jump_leaves_half_of_what_arrived() {
    for signal in [Signal::Loss, Signal::Ce] {
        let mut resume = jumped();
        resume.on_ack(&ack(130, 20, 30, 180));
        resume.on_congestion(&congestion(signal, 100));
        assert_eq!(resume.model().state, "safe retreat");
        assert_eq!(resume.verdict().cwnd, MSS * 20, "half of 20 and 20");
        assert_eq!(resume.recovery(), Recovery::Controller);
        let recovering = Ack {
            state: CongestionState::Recovery,
            ..ack(1099, 60, 90, 40)
        };
        resume.on_ack(&recovering);
        assert_eq!(
            (resume.model().state, resume.verdict().cwnd),
            ("safe retreat", MSS * 20)
        );
        // Sent after the congestion: no part of the jump.
        resume.on_ack(&ack(1100, 40, 130, 10));
        let verdict = resume.verdict();
        assert_eq!(resume.model().state, "");
        assert_eq!((verdict.cwnd, verdict.ssthresh), (MSS * 20, MSS * 50));
        assert_eq!(resume.recovery(), Recovery::Prr);
    }
}

/// Sends one window from `now`, acknowledged over the following round trip; the window in segments.
fn round(resume: &mut dyn Controller, now: &mut Instant, delivered: &mut u64) -> f64 {
    let sent = resume.verdict().cwnd.get() / MSS.get();
    for _ in 0..sent {
        *now += RTT / u32::try_from(sent).expect("small");
        *delivered += 1;
        let now = *now;
        resume.on_ack(&Ack {
            now,
            next_departure: now,
            ..ack(0, 1, *delivered, sent - 1)
        });
    }
    resume.verdict().cwnd.get() as f64 / MSS.get() as f64
}

/// RFC 9959: congestion avoidance follows a retreat. CUBIC's curve of before the retreat would lead
/// back to the window of the jump at half a window per round trip, or would have to climb from the
/// window before the jump first.
#[test]
fn after_a_retreat_cubic_avoids_congestion_from_the_window_that_is_left() {
    let cubics = [
        Algorithm::Cubic,
        Algorithm::CubicSearch,
        Algorithm::CubicLinux,
    ];
    for (algorithm, validating) in cubics.into_iter().flat_map(|a| [(a, false), (a, true)]) {
        let mut resume = jumped_by(algorithm);
        let mut delivered = 10;
        if validating {
            delivered = 30;
            resume.on_ack(&ack(130, 20, delivered, 180));
            assert_eq!(resume.model().state, "validating");
        }
        resume.on_congestion(&congestion(Signal::Loss, 100));
        delivered += 60;
        resume.on_ack(&Ack {
            state: CongestionState::Recovery,
            ..ack(1050, 60, delivered, 40)
        });
        delivered += 40;
        resume.on_ack(&ack(1100, 40, delivered, 10));
        assert_eq!(resume.model().state, "slow-start");
        let ssthresh = resume.verdict().ssthresh.get() as f64 / MSS.get() as f64;
        let mut now = Instant::from_millis(1100);
        while round(&mut *resume, &mut now, &mut delivered) < ssthresh {}
        let begins = resume.verdict().cwnd.get() as f64 / MSS.get() as f64;
        for _ in 0..9 {
            round(&mut *resume, &mut now, &mut delivered);
        }
        let ends = round(&mut *resume, &mut now, &mut delivered);
        // By the estimate of Reno five to ten segments; Linux's CUBIC without a plateau grows by a
        // twentieth.
        let most = if algorithm == Algorithm::CubicLinux {
            1.05_f64.powi(10) * 1.02
        } else {
            1.2
        };
        assert!(
            ends - begins > 4.0 && ends / begins < most,
            "{algorithm}, validating {validating}: {ssthresh}, {begins} → {ends}"
        );
    }
}

#[test]
fn a_timeout_and_a_pause_end_it() {
    let mut resume = jumped();
    resume.on_congestion(&congestion(Signal::Timeout, 0));
    assert_eq!((resume.model().state, resume.verdict().cwnd), ("", MSS));
    let mut resume = jumped();
    resume.on_idle(&Idle {
        now: Instant::from_secs(1),
        idle: RTT,
        rto: Duration::from_secs(1),
        app_limited: true,
    });
    assert_eq!(
        (resume.model().state, resume.verdict().cwnd),
        ("", MSS * 20)
    );
}

#[test]
fn a_spurious_retreat_returns_to_the_window_before_the_jump() {
    let mut resume = jumped();
    resume.on_congestion(&congestion(Signal::Loss, 100));
    resume.on_undo(Instant::from_secs(1));
    assert_eq!(
        (resume.model().state, resume.verdict().cwnd),
        ("", MSS * 20)
    );
}

#[test]
fn bbr_ignores_a_saved_path() {
    let config = Config::new(MSS);
    let bbr = |resume| Algorithm::Bbr.build(&Config { resume, ..config });
    let saved = SavedPath::new(MSS * 400, RTT, config.initial_window);
    assert_eq!(bbr(saved).model().state, bbr(None).model().state);
}

#[test]
fn packets_are_as_long_as_the_controller_below_asks() {
    let reno = Algorithm::Reno.build(&Config::new(MSS));
    for (autosized, segments) in [(1, 2), (40, 40)] {
        assert_eq!(reno.packet_segments(autosized), segments);
        assert_eq!(jumped().packet_segments(autosized), segments);
    }
}
