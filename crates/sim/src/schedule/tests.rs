//! Tests of schedules: worked departures across steps and by traces.

use std::time::Duration;

use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Rate};

use super::{LineRate, Schedule, Trace, TraceError};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A line without framing that is at `mbit` until the first step.
fn line(mbit: u64, schedule: Schedule) -> LineRate {
    schedule.check().expect("a schedule");
    LineRate::new(Rate::mbit(mbit), Bytes::ZERO, schedule)
}

/// When frames of `len` leave that wait since `start_ms`, one after the other, in ms.
fn departures(line: &mut LineRate, start_ms: u64, len: u64, count: usize) -> Vec<f64> {
    let mut at = Instant::from_millis(start_ms);
    let mut next = || {
        at = line.departure(at, Bytes::new(len));
        at.as_nanos() as f64 / 1e6
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn a_step_in_the_middle_of_a_frame_speeds_up_what_is_left_of_it() {
    // 1250 bytes take 10 ms at 1 Mbit/s and 1 ms at 10 Mbit/s. Of the second frame half is through
    // when the step comes.
    let mut line = line(1, Schedule::Steps(vec![(ms(15), Rate::mbit(10))]));
    assert_eq!(departures(&mut line, 0, 1250, 4), [10.0, 15.5, 16.5, 17.5]);
}

#[test]
fn an_outage_holds_a_frame_until_it_is_over() {
    let steps = vec![
        (ms(5), Rate::ZERO),
        (ms(100), Rate::mbit(1)),
        (ms(102), Rate::mbit(2)),
    ];
    // Half is through at 5 ms; 2 ms of 5 pass at 1 Mbit/s from 100 ms, the last 3 in half the time.
    assert_eq!(
        departures(&mut line(1, Schedule::Steps(steps.clone())), 0, 1250, 2),
        [103.5, 108.5]
    );
    assert_eq!(
        departures(&mut line(1, Schedule::Steps(steps)), 50, 1250, 1),
        [106.0]
    );
}

#[test]
fn a_trace_delivers_at_its_stamps_and_begins_again() {
    let trace: Trace = "2\n2\n4\n\n10\n".parse().expect("a trace");
    assert_eq!(
        (trace.period(), trace.mean_rate()),
        (ms(10), Rate::kbit(4800))
    );
    // Frames of a whole opportunity each: a second round from 10 ms on.
    let mut line = line(1, Schedule::Trace(trace.clone()));
    assert_eq!(
        departures(&mut line, 0, 1514, 10),
        [2.0, 2.0, 4.0, 10.0, 12.0, 12.0, 14.0, 20.0, 22.0, 22.0]
    );
    // What finds nobody waiting is lost: who comes at 3 ms begins with the stamp of 4.
    let mut line = self::line(1, Schedule::Trace(trace.clone()));
    assert_eq!(departures(&mut line, 3, 1514, 2), [4.0, 10.0]);
    assert_eq!(
        departures(&mut line, 1_000_000_003, 1514, 2),
        [1_000_000_004.0, 1_000_000_010.0]
    );
    // Three of 500 bytes of IP share an opportunity; one of 2000 takes one and a third.
    let mut line = self::line(1, Schedule::Trace(trace));
    assert_eq!(
        departures(&mut line, 0, 514, 7),
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 4.0]
    );
    assert_eq!(departures(&mut line, 4, 2014, 2), [10.0, 12.0]);
}

#[test]
fn what_is_no_trace_is_refused_by_line() {
    let refusal = |text: &str| text.parse::<Trace>().expect_err("no trace");
    assert_eq!(refusal(" \n"), TraceError::Empty);
    assert_eq!(refusal("0\n0\n"), TraceError::NoPeriod { line: 2 });
    assert_eq!(
        refusal("1\n\n9\n7\n"),
        TraceError::Decreasing {
            line: 4,
            stamp: 7,
            before: 9
        }
    );
    let error = refusal("1\nabc\n").to_string();
    assert_eq!(
        error,
        "line 2: `abc` is no whole number of milliseconds: invalid digit found in string"
    );
}

#[test]
fn steps_that_cannot_be_are_refused() {
    let refusal = |steps: &[(u64, u64)]| {
        let steps = steps
            .iter()
            .map(|(at, mbit)| (ms(*at), Rate::mbit(*mbit)))
            .collect();
        Schedule::Steps(steps)
            .check()
            .expect_err("it should have been refused")
            .to_string()
    };
    assert_eq!(
        refusal(&[(5, 1), (5, 2)]),
        "`schedule` must be steps in order of time, not 5ms after 5ms"
    );
    assert_eq!(
        refusal(&[(5, 1), (6, 0)]),
        "`schedule` must be above 0 in its last step, not 0.0Kbit"
    );
}

proptest! {
    /// However it is cut into steps of one rate, a line is as fast as that rate.
    #[test]
    fn steps_of_the_same_rate_change_nothing(at in prop::collection::btree_set(1..10_000_u64, 0..20), lens in prop::collection::vec(0..3000_u64, 1..50)) {
        let (rate, steps) = (Rate::kbit(12_345), at.iter().map(|at| (Duration::from_micros(*at), Rate::kbit(12_345))).collect());
        let mut plain = LineRate::new(rate, Bytes::new(24), Schedule::Constant);
        let mut cut = LineRate::new(rate, Bytes::new(24), Schedule::Steps(steps));
        let (mut a, mut b) = (Instant::ZERO, Instant::ZERO);
        for len in lens {
            (a, b) = (plain.departure(a, Bytes::new(len)), cut.departure(b, Bytes::new(len)));
            prop_assert_eq!(a, b);
        }
    }

    /// A trace never goes back, and over many periods carries its mean and no more.
    #[test]
    fn a_trace_carries_what_it_says(stamps in prop::collection::vec(1..50_u64, 1..30), len in 20..2000_u64) {
        let mut stamps = stamps;
        stamps.sort_unstable();
        let text: String = stamps.iter().map(|stamp| format!("{stamp}\n")).collect();
        let trace: Trace = text.parse().expect("a trace");
        let (mut line, mut at, mut carried) = (line(1, Schedule::Trace(trace.clone())), Instant::ZERO, 0);
        let end = Instant::ZERO + trace.period() * 100;
        loop {
            let next = line.departure(at, Bytes::new(len));
            prop_assert!(next >= at);
            if next > end {
                break;
            }
            (at, carried) = (next, carried + len - 14);
        }
        let offered = 100 * 1500 * stamps.len() as u64;
        prop_assert!(carried <= offered && carried + len >= offered, "{} of {}", carried, offered);
    }
}
