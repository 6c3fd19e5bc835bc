//! [`DynRlc`] by numbers worked from its rule, over a bearer of constant rate, and against
//! anything.

use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A new limit that goes all the way at once.
fn whole(config: Config) -> DynRlc {
    DynRlc::new(Config {
        smoothing: 1,
        ..config
    })
    .expect("valid")
}

/// The limits after periods in which everything was stored for each of `delays` in turn.
fn limits(mut limit: DynRlc, delays: &[u64]) -> Vec<u64> {
    let mut now = 0;
    let mut one = |delay: u64| {
        for _ in 0..2 {
            limit.queued(Bytes::new(1500), at(now));
            limit.completed(Bytes::new(1500), at(now + delay));
            now += delay.max(100);
        }
        limit.limit().get()
    };
    delays.iter().map(|delay| one(*delay)).collect()
}

/// L · target / delay, between two frames and the buffer: 500 KB at 80 ms are four times too much
/// for 20 ms.
#[test]
fn the_threshold_is_scaled_by_target_over_delay() {
    let worked = [
        (80, 125_000),
        (20, 125_000),
        (10, 250_000),
        (0, 500_000),
        (40, 250_000),
        (20_000, 3028),
    ];
    assert_eq!(
        limits(whole(Config::default()), &worked.map(|(delay, _)| delay)),
        worked.map(|(_, limit)| limit)
    );
    let at_40_ms = whole(Config {
        target: millis(40),
        ..Config::default()
    });
    assert_eq!(limits(at_40_ms, &[80]), [250_000]);
}

#[test]
fn half_of_the_way_is_half_of_the_way() {
    let half = DynRlc::new(Config::default()).expect("valid");
    // Wanted 125 000, then 312 500 · 20 / 40, then 234 375 · 20 / 10.
    assert_eq!(limits(half, &[80, 40, 10]), [312_500, 234_375, 351_563 - 1]);
}

#[test]
fn the_metric_chooses_among_the_delays_of_a_period() {
    let with = |metric| {
        let mut limit = whole(Config {
            metric,
            ..Config::default()
        });
        limit.queued(Bytes::new(1000), at(0));
        limit.queued(Bytes::new(1000), at(30));
        limit.completed(Bytes::new(1000), at(40));
        limit.completed(Bytes::new(1000), at(150));
        limit.limit().get()
    };
    // Delays of 40 and 120 ms.
    assert_eq!(
        [Metric::Min, Metric::Mean, Metric::Max].map(with),
        [250_000, 125_000, 83_333]
    );
}

/// A bearer of 20 Mbit/s with a producer that always has packets settles at 20 ms of its rate, 50
/// 000 bytes, and at 25 000 when the rate halves: what no fixed number of bytes does.
#[test]
fn it_settles_at_the_target_and_follows_the_rate() {
    let mut limit = DynRlc::new(Config::default()).expect("valid");
    let mut settle = |per_ms: u64, from: u64| {
        for now in from..from + 3000 {
            limit.completed(Bytes::new(per_ms), at(now));
            while limit.available(at(now)) {
                limit.queued(Bytes::new(500), at(now));
            }
        }
        limit.limit().get()
    };
    let (fast, slow) = (settle(2500, 0), settle(1250, 3000));
    assert!(
        (46_000..54_000).contains(&fast) && (22_500..27_500).contains(&slow),
        "{fast} and {slow}"
    );
}

#[test]
fn a_packet_moves_down_only_below_the_threshold() {
    let mut limit = DynRlc::new(Config {
        limit_max: Bytes::new(3028),
        ..Config::default()
    })
    .expect("valid");
    limit.queued(Bytes::new(3027), at(0));
    assert!(limit.available(at(0)));
    limit.queued(Bytes::new(1), at(0));
    assert_eq!((limit.available(at(0)), limit.opens_at()), (false, None));
    limit.reset();
    assert_eq!(
        (limit.available(at(0)), limit.in_flight()),
        (true, Bytes::ZERO)
    );
}

#[test]
fn impossible_parameters_are_refused() {
    let bad = [
        (
            Config {
                target: Duration::ZERO,
                ..Config::default()
            },
            "target",
        ),
        (
            Config {
                period: Duration::ZERO,
                ..Config::default()
            },
            "period",
        ),
        (
            Config {
                limit_min: Bytes::ZERO,
                ..Config::default()
            },
            "limit_min",
        ),
        (
            Config {
                limit_max: Bytes::new(1),
                ..Config::default()
            },
            "limit_max",
        ),
        (
            Config {
                smoothing: 0,
                ..Config::default()
            },
            "smoothing",
        ),
    ];
    for (config, name) in bad {
        let error = DynRlc::new(config).expect_err(name).to_string();
        assert!(error.contains(&format!("`{name}`")), "{error}");
    }
}

proptest! {
    /// For any completions, at any time, the threshold stays within its bounds, and an empty buffer
    /// is open.
    #[test]
    fn a_lying_device_breaks_nothing(
        steps in proptest::collection::vec((any::<bool>(), any::<u64>(), any::<u64>()), 1..200), smoothing in 1..5_u32
    ) {
        let config = Config { smoothing, ..Config::default() };
        let mut limit = DynRlc::new(config).expect("valid");
        for (queues, amount, now) in steps {
            let now = Instant::from_nanos(now);
            if queues && limit.available(now) {
                limit.queued(Bytes::new(amount % 65_536), now);
            } else {
                limit.completed(Bytes::new(amount), now);
            }
            prop_assert!(config.limit_min <= limit.limit() && limit.limit() <= config.limit_max);
            prop_assert!(limit.in_flight() > Bytes::ZERO || limit.available(now));
            let stored: Bytes = limit.stored.iter().map(|(bytes, _)| *bytes).sum();
            prop_assert_eq!(stored, limit.in_flight());
        }
    }
}
