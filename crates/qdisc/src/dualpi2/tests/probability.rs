//! The base probability: worked steps, ceiling, leaps.

use super::*;

/// RFC 9332 §A.1, worked by hand: 20 ms from zero.
#[test]
fn the_base_probability_is_that_of_linux() {
    let mut controller = Controller::new(&Config::default());
    for expected in [278_125_000, 281_562_500, 285_000_000, 288_437_500] {
        controller.update(steady(20, 1));
        assert_eq!(controller.probability(), expected);
    }
    let mut changed = Controller::new(&Config {
        alpha: 1.0,
        ..Config::default()
    });
    changed.update(steady(20, 1));
    let before = changed.probability();
    changed = changed.with(&Config::default());
    changed.update(steady(20, 1));
    assert_eq!(
        changed.probability() - before,
        3_437_500,
        "a change keeps the delay last seen"
    );
    let mut queue = DualPi2::<Probe>::new(Config::default()).expect("valid");
    queue.controller.update(steady(20, 1));
    let p = queue.probability();
    assert!(
        (p - 0.064756).abs() < 1e-6
            && (2.0 * p - 0.12951).abs() < 1e-5
            && (p * p - 0.0041933).abs() < 1e-7,
        "{p}"
    );
}

/// It stays within 0 and 1; without drops on overload the coupled probability stays within 1.
#[test]
fn the_base_probability_has_a_ceiling() {
    for (overload, coupling, ceiling) in [
        (Overload::Drop, 2, ONE),
        (Overload::Overflow, 2, ONE / 2),
        (Overload::Overflow, 5, ONE / 5),
    ] {
        let mut controller = Controller::new(&Config {
            overload,
            coupling,
            ..Config::default()
        });
        controller.update(steady(10_000, 1));
        assert_eq!(controller.probability(), ceiling, "{overload:?}");
        controller.update(steady(0, 1));
        assert_eq!(controller.probability(), 0);
    }
}

proptest! {
    /// Many updates at once arrive where single ones do.
    #[test]
    fn leaps_equal_steps(first in 0..40_000_000u64, growth in 0..200_000u64, count in 1..3000u64, start in 0.0..1.0f64, weak: bool) {
        let (alpha, beta) = if weak { (0.01, 0.0) } else { (0.16, 3.2) };
        let mut single = Controller::new(&Config { alpha, beta, ..Config::default() });
        single.steady(start, first);
        let mut leaping = single.clone();
        for n in 0..count {
            single.update(Delays { first: first + n * growth, growth: 0, count: 1 });
        }
        leaping.update(Delays { first, growth, count });
        let apart = single.probability().abs_diff(leaping.probability());
        prop_assert!(f64::from(apart) < 1e-4 * f64::from(ONE), "{} {}", single.probability(), leaping.probability());
    }

    /// No delay, no gain, no number of updates overflows.
    #[test]
    fn no_update_overflows(first: u64, growth: u64, count in 1u64.., alpha in 0.0..256.0f64, beta in 0.0..256.0f64) {
        let mut controller = Controller::new(&Config { alpha, beta, ..Config::default() });
        for delays in [Delays { first, growth, count }, Delays { first: 0, growth: 0, count }, Delays { first, growth: 0, count: 1 }] {
            controller.update(delays);
        }
    }
}

/// A leap in which the delay passes the target, and what a leap leaves as the delay last seen: as
/// of single updates.
#[test]
fn leaps_turn_and_end_where_steps_do() {
    for (alpha, beta, start, first, growth, count) in [
        (256.0, 0.0, 0.0, 100_000, 200_000, 78),
        (0.16, 3.2, 0.5, 15_000_000, 1000, 100),
    ] {
        let mut single = Controller::new(&Config {
            alpha,
            beta,
            ..Config::default()
        });
        single.steady(start, first);
        let mut leaping = single.clone();
        let one = |n| Delays {
            first: first + n * growth,
            growth: 0,
            count: 1,
        };
        (0..count).for_each(|n| single.update(one(n)));
        leaping.update(Delays {
            first,
            growth,
            count,
        });
        for controller in [&mut single, &mut leaping] {
            controller.update(one(count));
        }
        let (stepped, leapt) = (single.probability(), leaping.probability());
        assert!(
            (ONE / 10..ONE / 10 * 9).contains(&stepped) && stepped.abs_diff(leapt) < 1000,
            "{stepped} {leapt}"
        );
    }
}
