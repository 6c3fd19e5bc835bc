//! The drop probability: steps, strides and bounds of the controller.

use super::*;

fn controller(law: Law) -> Controller {
    Controller::new(&Params {
        law,
        ..Params::default()
    })
}

/// The input of an update: delays in milliseconds, something queued.
fn input(law: Law, delay: u64, old: u64) -> Input {
    let ticks = |millis| law.tick(millis * 1_000_000);
    Input {
        delay: ticks(delay),
        old: ticks(old),
        empty: false,
    }
}

fn share(p: u64) -> f64 {
    p as f64 / ONE as f64
}

/// The probabilities after each of `count` updates from zero, at a constant delay.
fn course(law: Law, delay: u64, count: usize) -> Vec<u64> {
    let controller = controller(law);
    let mut old = 0;
    core::iter::successors(Some(0), |&p| {
        let next = controller.step(p, input(law, delay, old));
        old = delay;
        Some(next)
    })
    .skip(1)
    .take(count)
    .collect()
}

/// RFC 8033 §4, worked by hand: 20 ms from zero, to the bit in Linux's integers, closely in the
/// RFC's arithmetic.
#[test]
fn the_probability_climbs_as_computed() {
    let linux = course(Law::Linux, 20, 500);
    assert_eq!(
        linux[..5],
        [
            901_599_218_750,
            1_253_442_890_625,
            1_605_286_562_500,
            1_957_130_234_375,
            2_308_973_906_250
        ]
    );
    for law in [Law::Linux, Law::Rfc8033] {
        let course = course(law, 20, 500);
        for (n, expected) in [
            (1, 1.25122e-5),
            (2, 1.73950e-5),
            (3, 2.22778e-5),
            (4, 2.71606e-5),
            (5, 3.20434e-5),
            (10, 5.64575e-5),
            (20, 1.19934e-4),
            (40, 5.10559e-4),
        ] {
            assert!(
                near(share(course[n - 1]), expected, expected * 1e-5),
                "{law} {n}: {}",
                share(course[n - 1])
            );
        }
        let reaches = |level: f64| {
            1 + course
                .iter()
                .position(|&p| share(p) >= level)
                .expect("within 500 updates")
        };
        assert_eq!(
            [1e-4, 1e-3, 1e-2, 1e-1].map(reaches),
            [19, 66, 181, 469],
            "{law}"
        );
    }
}

/// The state shows the share: RFC 8033 §4, worked by hand.
#[test]
fn the_state_shows_a_share_of_one() {
    for (p, expected) in [
        (901_599_218_750, 1.25122e-5),
        (course(Law::Linux, 20, 20)[19], 1.19934e-4),
        (ONE, 1.0),
    ] {
        let mut state = State::default();
        state.set(p, 0);
        assert!(
            near(state.probability(), expected, expected * 1e-5),
            "{}",
            state.probability()
        );
    }
}

/// RFC 8033 §4, worked by hand: 30 ms.
#[test]
fn a_longer_delay_climbs_faster() {
    for law in [Law::Linux, Law::Rfc8033] {
        let course = course(law, 30, 10);
        for (n, expected) in [
            (1, 1.92261e-5),
            (2, 3.38745e-5),
            (3, 4.85229e-5),
            (6, 9.24682e-5),
            (7, 1.07117e-4),
            (10, 2.82898e-4),
        ] {
            assert!(
                near(share(course[n - 1]), expected, expected * 1e-5),
                "{law} {n}: {}",
                share(course[n - 1])
            );
        }
    }
}

/// RFC 8033 §4, worked by hand.
#[test]
fn single_steps_are_capped_raised_and_decayed() {
    let step = |law, p: f64, old, delay, empty| {
        share(controller(law).step(
            (p * ONE as f64) as u64,
            Input {
                empty,
                ..input(law, delay, old)
            },
        ))
    };
    for law in [Law::Linux, Law::Rfc8033] {
        assert!(
            near(step(law, 0.2, 100, 200, false), 0.22, 1e-9),
            "{law}: at most 2 % per update"
        );
        assert!(
            near(step(law, 0.05, 10, 5, false), 0.04625, 1e-9),
            "{law}: half the gains below a tenth"
        );
        assert!(
            near(step(law, 0.099, 15, 300, false), 0.099 + 0.195_937_5, 0.03),
            "{law}: no cap below a tenth"
        );
    }
    assert!(
        near(step(Law::Linux, 0.2, 300, 300, false), 0.24, 1e-9),
        "beyond 250 ms another 2 %, after the cap"
    );
    assert!(near(step(Law::Rfc8033, 0.2, 300, 300, false), 0.22, 1e-9));
    assert!(
        near(step(Law::Linux, 0.2, 0, 0, true), 0.195_029_3, 1e-7),
        "an empty queue decays by a 64th"
    );
    assert!(
        near(step(Law::Linux, 0.2, 0, 0, false), 0.198_125, 1e-9),
        "but not while something is queued"
    );
    assert!(
        near(step(Law::Rfc8033, 0.2, 7, 7, false), 0.199 * 0.98, 1e-9),
        "RFC 8033: below half the target"
    );
    assert!(
        near(step(Law::Rfc8033, 0.2, 8, 7, false), 0.199 - 0.001_25, 1e-9),
        "not if only just"
    );
    assert_eq!(
        controller(Law::Rfc8033).step(ONE, input(Law::Rfc8033, 20, 0)),
        ONE,
        "never above one"
    );
    for law in [Law::Linux, Law::Rfc8033] {
        assert_eq!(
            controller(law).step(ONE / 1_000_000_000, input(law, 0, 20)),
            0,
            "{law}: never below zero"
        );
    }
}

/// RFC 8034: gains grow further above a tenth, the probability may pass one, decays below 5 ms,
/// rises above 200 ms.
#[test]
fn docsis_steps_are_its_own() {
    let controller = Controller::new(&Params::docsis(Bytes::mib(1)));
    let step = |p: f64, old, delay| {
        share(controller.step((p * ONE as f64) as u64, input(Law::Rfc8034, delay, old)))
    };
    assert!(near(step(0.5, 8, 8), 0.5 - 2.0 * 0.0005, 1e-9));
    assert!(near(step(2.0, 8, 8), 2.0 - 8.0 * 0.0005, 1e-9));
    assert!(near(step(11.0, 8, 8), 11.0 - 32.0 * 0.0005, 1e-9));
    assert!(near(step(0.05, 8, 8), 0.05 - 0.00025, 1e-9));
    assert!(near(step(0.5, 4, 4), (0.5 - 2.0 * 0.0015) * 0.98, 1e-9));
    assert!(near(step(2.0, 201, 201), 2.04, 1e-9));
    assert!(
        near(step(13.59, 201, 201), 13.6, 1e-9),
        "up to 0.85 for packets of 64 bytes"
    );
}

/// Many steps in one go arrive where single steps do.
#[test]
fn strides_equal_steps() {
    for law in [Law::Linux, Law::Rfc8033, Law::Rfc8034] {
        let controller = controller(law);
        for (start, delay) in [
            (0, 16),
            (0, 200),
            (0, 300),
            (ONE, 14),
            (ONE, 0),
            (ONE / 3, 6),
            (ONE / 2, 15),
            (ONE / 7, 100),
        ] {
            for empty in [false, true] {
                let input = Input {
                    empty,
                    ..input(law, delay, delay)
                };
                let mut single = start;
                for count in 0..6000u64 {
                    if count % 499 == 1 {
                        let strided = controller.advance(start, input, count);
                        let close = near(share(single), share(strided), 1e-9);
                        assert!(
                            close,
                            "{law}: {start} at {delay} ms, {count} steps: {single} {strided}"
                        );
                    }
                    single = controller.step(single, input);
                }
            }
        }
    }
}

fn law() -> impl Strategy<Value = Law> {
    prop_oneof![Just(Law::Rfc8033), Just(Law::Linux), Just(Law::Rfc8034)]
}

proptest! {
    /// The probability stays within bounds, whatever the delays; it does not grow while there is no
    /// delay.
    #[test]
    fn the_probability_stays_a_probability(law in law(), p in prop_oneof![0..=ONE, Just(ONE), 0..14 * ONE], delay: u64, old: u64, empty: bool, count in 1u64..) {
        let (controller, p) = (controller(law), if law == Law::Rfc8033 { p.min(ONE) } else { p });
        let ceiling = match law {
            Law::Rfc8033 => ONE,
            Law::Rfc8034 => 14 * ONE,
            Law::Linux => u64::MAX,
        };
        let input = Input { delay, old, empty };
        prop_assert!(controller.step(p, input) <= ceiling);
        let (steady, short) = (Input { old: delay, ..input }, Input { delay: 0, ..input });
        prop_assert!(controller.advance(p, steady, count) <= ceiling);
        prop_assert!(controller.step(p, short) <= p);
    }

    /// With a constant probability two drops are at least ⌈0.85 / p⌉ and at most ⌈8.5 / p⌉ packets
    /// apart.
    #[test]
    fn gaps_between_drops_are_bounded(p in 0.001..0.9f64, seed: u64, linux: bool) {
        let law = if linux { Law::Linux } else { Law::Rfc8033 };
        let mut constant = Constant::new(Params { law, seed, ..Params::default() }, p);
        let (mut gap, most) = (0, (8.5 / p).ceil() as u64 + 1);
        for _ in 0..10_000 {
            gap += 1;
            if constant.judge(0, 1514) == Verdict::Dropped {
                prop_assert!(gap as f64 >= (0.85 / p).floor() && gap <= most, "{gap} at {p}");
                gap = 0;
            }
            prop_assert!(gap <= most);
        }
    }
}
