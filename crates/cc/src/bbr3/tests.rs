//! The worked numbers of the draft and of the specification.

use core::time::Duration;

use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Rate, SplitMix64};

use super::bounds::{ShortTerm, inflight_at_loss, with_headroom};
use super::probe_bw::up::Up;
use super::probe_bw::wait::Wait;
use super::{Bbr3, Config, build, measure_rtt};
use crate::controller::{Ack, Controller};

const MSS: Bytes = Bytes::new(1000);

/// ProbeRTT comes when the lowest round trip expires.
fn one_filter() -> Config {
    Config {
        probe_rtt_interval: None,
        ..Config::default()
    }
}

fn segments(count: u64) -> Bytes {
    MSS * count
}

fn mbit(mbit: u64) -> Rate {
    Rate::mbit(mbit)
}

#[test]
fn example_1_reno_waits_as_many_rounds_as_segments_and_63_at_most() {
    let rounds = |target| Wait::rounds_for(segments(target), MSS, &Config::default());
    assert_eq!((rounds(345), rounds(10)), (63, 10));
    let rtt = Duration::from_millis(40);
    assert_eq!(
        (rtt * 63, rtt * 10),
        (Duration::from_millis(2520), Duration::from_millis(400))
    );
}

#[test]
fn example_2_losses_lower_the_bandwidth_to_what_was_delivered_but_by_beta_at_most() {
    let mut bounds = ShortTerm::default();
    for (latest, bw) in [(80, 80), (60, 60), (30, 42)] {
        bounds.cut(
            (mbit(latest), Bytes::ZERO),
            mbit(100),
            segments(100),
            &Config::default(),
        );
        assert_eq!(
            bounds.bw,
            Some(mbit(bw)),
            "after a round that delivered {latest} Mbit/s"
        );
    }
    assert_eq!(
        bounds.inflight,
        Some(Bytes::new(34_300)),
        "70 % three times"
    );
}

/// The round trip that replaces the expired one may be inflated by a queue. The second filter has no
/// such memory.
#[test]
fn the_flight_of_probe_rtt_follows_the_round_trip_that_expired() {
    let ack = |at, millis| Ack {
        rtt: Some(Duration::from_millis(millis)),
        ..Ack::new(Instant::from_secs(at), MSS, Bytes::ZERO)
    };
    // 10 MB/s, half of what is on the way in 40, 20 and 200 ms.
    for (config, inflated, lower) in [
        (one_filter(), 200_000, 100_000),
        (Config::linux_v3(), 1_000_000, 100_000),
    ] {
        let mut bbr = build(&crate::Config::new(MSS), config);
        bbr.bandwidth.bw = mbit(80);
        assert!(!measure_rtt(&mut bbr, &ack(1, 40)));
        assert!(measure_rtt(&mut bbr, &ack(12, 200)), "ProbeRTT is due");
        assert_eq!(bbr.min_rtt.get(), Some(Duration::from_millis(200)));
        assert_eq!(bbr.probe_rtt_cwnd(), Bytes::new(inflated));
        assert!(!measure_rtt(&mut bbr, &ack(13, 20)));
        assert_eq!(bbr.probe_rtt_cwnd(), Bytes::new(lower));
    }
}

#[test]
fn example_3_the_flight_at_which_losses_crossed_the_threshold() {
    let held = |lost| inflight_at_loss(segments(lost), segments(200), segments(lost), 0.02).get();
    assert_eq!((held(8), held(12)), (195_918, 191_836));
}

#[test]
fn losses_before_the_segment_count_against_it() {
    // Three of 199 are gone already: the threshold was crossed before this one.
    assert_eq!(
        inflight_at_loss(MSS, segments(100), segments(4), 0.02),
        segments(99)
    );
}

#[test]
fn example_4_the_longterm_bound_rises_by_powers_of_two_a_round() {
    let cwnd = segments(100);
    let mut up = Up::new(cwnd, MSS);
    for rise in [1, 2, 4, 8, 16, 33, 100, 100] {
        let risen: Bytes = (0..100).map(|_| up.rise(MSS, MSS)).sum();
        // What did not make a segment counts in the next round.
        assert!(
            (segments(rise)..=segments(rise + 1)).contains(&risen),
            "{risen} instead of {rise} segments"
        );
        up.steepen(cwnd, MSS);
    }
}

#[test]
fn example_5_probe_rtt_costs_two_percent_and_one_with_one_filter() {
    for (config, cost) in [(Config::default(), 0.02), (one_filter(), 0.01)] {
        let every = config.probe_rtt_interval.unwrap_or(config.min_rtt_window);
        let lost = (1.0 - config.probe_rtt_cwnd_gain) * config.probe_rtt_duration.as_secs_f64();
        assert!((lost / every.as_secs_f64() - cost).abs() < 1e-9);
    }
}

#[test]
fn example_6_cruising_leaves_headroom() {
    let below = |longterm| with_headroom(segments(longterm), MSS, segments(4), &Config::default());
    assert_eq!(below(200), segments(170));
    assert_eq!(below(6), segments(5), "a segment at least");
    assert_eq!(below(4), segments(4), "but four remain");
}

#[test]
fn waits_last_two_to_three_seconds_and_differ_by_seed() {
    let config = Config::default();
    let mut over = alloc::collections::BTreeSet::new();
    for seed in 0..200 {
        let wait = Wait::new(Instant::ZERO, &config, &mut SplitMix64::new(seed));
        let at = (0..4000)
            .find(|&ms| wait.is_over(Instant::from_millis(ms), segments(100), MSS, &config));
        over.insert(at.expect("it ends"));
    }
    assert!(
        *over.first().unwrap() < 2_050 && *over.last().unwrap() > 2_950,
        "{over:?}"
    );
    assert!(
        over.range(..2_000).next().is_none() && over.range(3_002..).next().is_none(),
        "{over:?}"
    );
}

#[test]
fn a_new_connection_paces_at_four_ln_two_windows_a_round_trip() {
    let bbr = Bbr3::new(&crate::Config::new(Bytes::new(1448)));
    assert_eq!(
        bbr.initial_rate(Duration::from_millis(40)),
        Rate::bytes_per_sec(1_002_740)
    );
    assert_eq!(
        bbr.verdict().pacing_rate,
        Rate::bytes_per_sec(40_109_600),
        "a millisecond, before the first sample"
    );
    assert_eq!(bbr.verdict().cwnd, Bytes::new(14_480));
}

#[test]
fn the_linux_profile_differs_where_linux_does() {
    let (draft, linux) = (Config::default(), Config::linux_v3());
    assert_eq!(
        (draft.drain_pacing_gain, draft.down_pacing_gain),
        (0.5, 0.9)
    );
    assert_eq!(
        (linux.drain_pacing_gain, linux.down_pacing_gain),
        (0.34375, 0.90625)
    );
    assert_eq!((draft.drain_rounds, linux.drain_rounds), (Some(3), None));
}

proptest! {
    #[test]
    fn a_cut_never_raises_a_bound_nor_takes_more_than_beta(
        bw in 1..1_000_000_000_u64, inflight in 1..1_000_000_000_u64, latest in any::<(u64, u64)>()
    ) {
        let config = Config::default();
        let mut bounds = ShortTerm { bw: Some(Rate::bytes_per_sec(bw)), inflight: Some(Bytes::new(inflight)) };
        let latest = (Rate::bytes_per_sec(latest.0 % bw), Bytes::new(latest.1 % inflight));
        bounds.cut(latest, Rate::MAX, Bytes::MAX, &config);
        let (after_bw, after_inflight) = (bounds.bw.unwrap().as_bytes_per_sec(), bounds.inflight.unwrap().get());
        prop_assert!(after_bw <= bw && after_bw + 1 >= (bw as f64 * 0.7) as u64);
        prop_assert!(after_inflight <= inflight && after_inflight + 1 >= (inflight as f64 * 0.7) as u64);
    }

    #[test]
    fn the_flight_at_loss_is_between_the_flight_before_and_after_the_segment(
        bytes in 1..65_536_u64, before in 0..100_000_000_u64, lost in 0..1_000_000_u64
    ) {
        let held = inflight_at_loss(Bytes::new(bytes), Bytes::new(before + bytes), Bytes::new(lost + bytes), 0.02);
        prop_assert!(held.get() >= before);
        // It is asked only when the threshold is crossed.
        if (lost + bytes) as f64 > (before + bytes) as f64 * 0.02 {
            prop_assert!(held.get() <= before + bytes + 1);
        }
    }
}

/// `bbr2_start_bw_probe_down` of Linux's branch clips the short-term bound on the flight to the
/// long-term one; the draft keeps both.
#[test]
fn cruising_clips_the_short_term_flight_in_the_linux_profile_only() {
    for (config, kept) in [(Config::default(), 80), (Config::linux_v3(), 50)] {
        let mut bbr = build(&crate::Config::new(MSS), config);
        bbr.bounds.longterm = Some(segments(50));
        bbr.bounds.shortterm.inflight = Some(segments(80));
        let wait = Wait::new(Instant::ZERO, &config, &mut SplitMix64::new(1));
        bbr.enter_cruise(wait);
        assert_eq!(bbr.bounds.shortterm.inflight, Some(segments(kept)));
    }
}
