use alloc::vec::Vec;

use super::*;

const RTT: Duration = Duration::from_millis(100);
const MS: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Instant {
    Instant::from_millis(1_000_000 + millis)
}

/// A law that saw a window of 100 packets cut to 70.
fn cut_at_100(tick: Duration) -> Growth {
    let mut growth = Growth::new(tick);
    assert_eq!(growth.reduce(100), 70);
    growth
}

#[test]
fn the_worked_integers() {
    let k = time_to_origin(30);
    assert_eq!(k, 4317);
    let targets = [0, 1, 2, 3].map(|seconds| target(100, k, seconds << TIME_SHIFT));
    assert_eq!(targets, [70, 87, 96, 100]);
    assert_eq!(target(100, k, k), 100);
    assert_eq!(target(100, k, 8 << TIME_SHIFT), 121);
}

#[test]
fn beta_is_717_of_1024_and_convergence_is_fast() {
    let mut growth = Growth::new(MS);
    assert_eq!((growth.reduce(1000), growth.last_max), (700, Some(1000)));
    assert_eq!(
        (growth.reduce(700), growth.last_max),
        (490, Some(595)),
        "below the last plateau: 700 × 1741 / 2048"
    );
    assert_eq!(
        (growth.reduce(600), growth.last_max),
        (420, Some(600)),
        "back above it"
    );
}

#[test]
fn below_the_target_the_gap_decides() {
    // At the beginning of the epoch the target is on the curve one delay ahead: 100 − 0.4 × (4.216 s
    // − 0.1 s)³ is 72.1.
    let mut growth = cut_at_100(MS);
    growth.on_rtt(RTT, at(0));
    assert_eq!(target(100, 4317, 102), 73);
    assert_eq!(growth.packets_per_growth(70, 1, at(0)), 70 / 3);
}

#[test]
fn the_answer_stands_for_a_thirty_second_of_a_second() {
    for (tick, fresh_ms) in [(MS, 31), (MS * 4, 28), (MS * 10, 30)] {
        let mut growth = cut_at_100(tick);
        let first = growth.packets_per_growth(70, 1, at(0));
        let within = growth.packets_per_growth(70, 1, at(fresh_ms));
        assert_eq!(
            (within, growth.answer.map(|answer| answer.tick)),
            (first, Some(growth.ticks(at(0))))
        );
        let later = at(fresh_ms) + tick;
        growth.packets_per_growth(70, 1, later);
        assert_eq!(
            growth.answer.map(|answer| answer.tick),
            Some(growth.ticks(later)),
            "tick {tick:?}"
        );
        growth.packets_per_growth(71, 1, later + tick);
        assert_eq!(
            growth.answer.map(|answer| answer.cwnd),
            Some(71),
            "another window is looked at in the next tick"
        );
    }
}

#[test]
fn above_the_target_it_all_but_stands_and_without_plateau_it_grows_by_a_twentieth() {
    let mut unknown = Growth::new(MS);
    assert_eq!(unknown.packets_per_growth(100, 1, at(0)), 20);
    let mut known = cut_at_100(MS);
    assert_eq!(known.packets_per_growth(100, 1, at(0)), 10_000);
    assert_eq!(known.packets_per_growth(101, 1, at(10)), 10_100);
}

#[test]
fn growth_is_at_most_one_packet_for_two() {
    let mut growth = cut_at_100(MS);
    growth.packets_per_growth(70, 1, at(0));
    assert_eq!(growth.packets_per_growth(70, 1, at(60_000)), 2);
}

#[test]
fn reno_opens_by_eight_fifteenths_and_goes_on_beyond_the_old_window() {
    // One acknowledged window at a time: α is 8/15 below the old window and above it.
    let mut growth = cut_at_100(MS);
    let mut reno = Vec::new();
    let mut now = at(0);
    for _ in 0..150 {
        for _ in 0..70 {
            growth.packets_per_growth(70, 1, now);
        }
        now += MS * 40;
        reno.push(growth.epoch.expect("it began").reno);
    }
    // Every 131 (= 70 × 15 / 8) acknowledgments count one packet.
    assert_eq!(reno.first(), Some(&70));
    assert!(
        (i64::try_from(reno[74]).unwrap() - (70 + 75 * 70 / 131)).abs() <= 1,
        "{}",
        reno[74]
    );
    assert!(
        (i64::try_from(reno[149]).unwrap() - (70 + 150 * 70 / 131)).abs() <= 1,
        "{}",
        reno[149]
    );
}

#[test]
fn delays_of_the_first_second_are_ignored() {
    let mut growth = cut_at_100(MS);
    assert!(growth.on_rtt(RTT, at(0)), "no epoch yet");
    growth.packets_per_growth(70, 1, at(0));
    assert!(!growth.on_rtt(RTT / 2, at(999)));
    assert_eq!(growth.delay_min(), Some(RTT));
    assert!(growth.on_rtt(RTT / 2, at(1000)));
    assert_eq!(growth.delay_min(), Some(RTT / 2));
}

#[test]
fn a_pause_shifts_the_epoch() {
    let (mut paused, mut steady) = (cut_at_100(MS), cut_at_100(MS));
    paused.packets_per_growth(70, 1, at(0));
    steady.packets_per_growth(70, 1, at(0));
    let hour = Duration::from_secs(3600);
    paused.pause(hour, at(500) + hour);
    assert_eq!(
        paused.packets_per_growth(71, 1, at(1000) + hour),
        steady.packets_per_growth(71, 1, at(1000))
    );
    paused.pause(Duration::MAX, at(2000) + hour);
    assert_eq!(
        paused.epoch.map(|epoch| epoch.start),
        Some(paused.ticks(at(2000) + hour)),
        "never in the future"
    );
}

#[test]
fn absurd_times_and_windows() {
    for tick in [Duration::ZERO, Duration::MAX] {
        let mut growth = Growth::new(tick);
        growth.reduce(1 << 24);
        growth.on_rtt(Duration::MAX, Instant::from_nanos(u64::MAX));
        for now in [0, u64::MAX, 1, u64::MAX / 2] {
            for cwnd in [1, 2, 1 << 24] {
                let per = growth.packets_per_growth(cwnd, u64::MAX, Instant::from_nanos(now));
                assert!(per >= 2);
            }
        }
    }
}
