//! [`Dql`] against the worked numbers of the kernel's rule, the six cases of the thesis (figure
//! 2.2), and a model.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use std::string::ToString;

const FRAME: u64 = 1514;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A queue whose limit is `limit` and whose counters begin at `origin`.
fn starting_at(origin: u32, limit: u32, hold_time: Duration) -> Dql {
    Dql {
        limit,
        queued: origin,
        completed: origin,
        previous: Previous {
            queued: origin,
            ..Previous::default()
        },
        ..Dql::with_limits(0, LARGEST_LIMIT, hold_time)
    }
}

/// A queue whose limit is `limit`, which shrinks by the first slack it sees after 1 ms.
fn with_limit(limit: u32) -> Dql {
    starting_at(0, limit, Duration::ZERO)
}

fn queue(dql: &mut Dql, objects: &[u64]) {
    for &object in objects {
        dql.queued(Bytes::new(object), at(0));
    }
}

/// The limit after a completion of `amount` bytes, late enough for any hold time.
fn complete(dql: &mut Dql, amount: u64) -> u64 {
    dql.completed(Bytes::new(amount), at(1));
    dql.limit().get()
}

/// Queues full frames while the limit lets them.
fn refill(dql: &mut Dql, now: Instant) {
    while dql.available(at(0)) {
        dql.queued(Bytes::new(FRAME), now);
    }
}

// Figure 2.2. Primed: bytes were queued since the previous completion; doubly primed: none were.

#[test]
fn case_a_prime_over_the_limit_and_now_empty() {
    let mut dql = with_limit(1000);
    queue(&mut dql, &[1000, 1000]);
    assert_eq!(
        complete(&mut dql, 2000),
        3000,
        "grows by the 2000 queued since"
    );
}

#[test]
fn case_a_prime_within_the_limit_and_now_empty_is_not_starvation() {
    let mut dql = with_limit(2000);
    queue(&mut dql, &[1000, 1000]);
    assert_eq!(
        complete(&mut dql, 2000),
        2000,
        "the upper layers had no more to send"
    );
}

#[test]
fn case_a_second_still_over_the_limit_and_now_empty() {
    let mut dql = with_limit(1000);
    queue(&mut dql, &[3000]);
    assert_eq!(complete(&mut dql, 500), 1000);
    assert_eq!(
        complete(&mut dql, 2500),
        3000,
        "grows by the 2000 it was over"
    );
}

#[test]
fn case_b_prime_all_that_was_over_the_limit_is_gone() {
    // The third worked example: 4000 bytes are still in flight when the limit grows.
    let mut dql = with_limit(10_000);
    queue(&mut dql, &[4000, 4000, 4000]);
    assert_eq!(complete(&mut dql, 4000), 10_000);
    queue(&mut dql, &[4000]);
    assert_eq!(complete(&mut dql, 8000), 12_000);
    assert_eq!(dql.in_flight(), Bytes::new(4000));
}

#[test]
fn case_b_second_was_over_the_limit_and_now_empty() {
    let mut dql = with_limit(1000);
    queue(&mut dql, &[2000]);
    assert_eq!(complete(&mut dql, 1500), 1000);
    assert_eq!(
        complete(&mut dql, 500),
        2000,
        "500 in flight were below the limit, but 1000 more had been needed before"
    );
}

#[test]
fn case_c_prime_some_of_the_former_bytes_are_left() {
    // As case b', but a few bytes fewer were completed.
    let mut dql = with_limit(10_000);
    queue(&mut dql, &[4000, 4000, 4000]);
    assert_eq!(complete(&mut dql, 4000), 10_000);
    queue(&mut dql, &[4000]);
    assert_eq!(
        complete(&mut dql, 7000),
        8000,
        "the last object was 2000 over, so 2000 of it were not"
    );
}

#[test]
fn case_c_second_busy_without_new_bytes() {
    let mut dql = with_limit(10_000);
    queue(&mut dql, &[4000, 4000, 4000]);
    assert_eq!(complete(&mut dql, 1000), 10_000);
    assert_eq!(
        complete(&mut dql, 4000),
        6000,
        "12 000 at most in flight, less two batches"
    );
}

#[test]
fn worked_1_a_cold_start_doubles() {
    let mut dql = Dql::default();
    let mut limits = Vec::new();
    for _ in 0..7 {
        refill(&mut dql, at(0));
        let in_flight = dql.in_flight().get();
        limits.push(complete(&mut dql, in_flight));
    }
    assert_eq!(
        limits,
        [1514, 4542, 10_598, 22_710, 46_934, 95_382, 192_278]
    );
}

#[test]
fn worked_2_a_high_limit_falls_to_two_batches() {
    let mut dql = starting_at(0, 40_000, Duration::from_millis(10));
    let mut changes = Vec::new();
    refill(&mut dql, at(0));
    for t in 1..=100 {
        let before = dql.limit().get();
        dql.completed(Bytes::new(4 * FRAME), at(t));
        if dql.limit().get() != before {
            changes.push((t, dql.limit().get()));
        }
        refill(&mut dql, at(t));
    }
    assert_eq!(
        changes[..4],
        [(11, 11_234), (17, 12_112), (28, 10_598), (30, 12_112)]
    );
    for pair in changes[2..].windows(3) {
        assert_eq!(
            (pair[2].0 - pair[0].0, pair[2].1),
            (13, pair[0].1),
            "period 13"
        );
    }
}

/// After a step back of an hour too high a limit falls within the hold time.
#[test]
fn a_clock_that_steps_back_does_not_hold_the_limit_up() {
    let hour = 3_600_000;
    let mut dql = starting_at(0, 40_000, Duration::from_millis(10));
    refill(&mut dql, at(hour));
    for t in (hour..hour + 5).chain(1..=12) {
        dql.completed(Bytes::new(4 * FRAME), at(t));
        refill(&mut dql, at(t));
    }
    assert_eq!(dql.limit(), Bytes::new(11_234));
}

#[test]
fn it_limits_what_is_in_flight() {
    // An effect: with the limit at two frames the third is refused, without one it is not.
    let mut dql = with_limit(2 * FRAME as u32);
    refill(&mut dql, at(0));
    assert_eq!(
        dql.in_flight(),
        Bytes::new(3 * FRAME),
        "the limit and one object"
    );
    assert!(crate::Unlimited::default().available(at(0)));
}

#[test]
fn completing_too_much_is_clamped_and_counted() {
    let mut dql = Dql::default();
    queue(&mut dql, &[1000]);
    dql.completed(Bytes::new(1001), at(1));
    dql.completed(Bytes::MAX, at(2));
    assert_eq!((dql.in_flight(), dql.snapshot().overruns), (Bytes::ZERO, 2));
    assert!(dql.available(at(0)));
}

#[test]
fn reset_forgets_all_but_the_parameters() {
    let config = Config {
        limit_min: Bytes::new(3000),
        ..Config::default()
    };
    let mut dql = Dql::new(config).unwrap();
    for _ in 0..5 {
        refill(&mut dql, at(0));
        let in_flight = dql.in_flight().get();
        complete(&mut dql, in_flight);
    }
    refill(&mut dql, at(5));
    dql.reset();
    assert_eq!(dql.snapshot(), Dql::new(config).unwrap().snapshot());
    assert!(dql.available(at(0)));
}

#[test]
fn the_limit_stays_within_its_bounds() {
    let config = Config {
        limit_min: Bytes::new(2000),
        limit_max: Bytes::new(5000),
        ..Config::default()
    };
    let mut dql = Dql::new(config).unwrap();
    assert_eq!(dql.limit(), Bytes::new(2000));
    for _ in 0..5 {
        refill(&mut dql, at(0));
        let in_flight = dql.in_flight().get();
        assert!(complete(&mut dql, in_flight) <= 5000);
    }
    assert_eq!(dql.limit(), Bytes::new(5000));
}

/// The kernel clamps at the next completion, which sets `prev_ovlimit` to zero: what was over the
/// former limit does not raise the new one.
#[test]
fn a_raised_minimum_is_the_limit() {
    let mut dql = with_limit(3000);
    queue(&mut dql, &[FRAME, FRAME]);
    assert_eq!(complete(&mut dql, FRAME), 3000);
    let config = Config {
        limit_min: Bytes::new(30_000),
        ..Config::default()
    };
    dql.reconfigure(config).expect("valid");
    assert_eq!(complete(&mut dql, FRAME), 30_000);
}

/// `bql_set_stall_thrs` in `net/core/net-sysfs.c` leaves the counts alone; so does a reset.
#[test]
fn stalls_found_stay_when_the_threshold_changes() {
    let config = |millis: Option<u64>| Config {
        stall_threshold: millis.map(Duration::from_millis),
        ..Config::default()
    };
    let mut dql = Dql::new(config(Some(16))).expect("valid");
    for (queued, completed) in [(100, 100), (104, 200)] {
        dql.queued(Bytes::new(FRAME), at(queued));
        dql.completed(Bytes::new(FRAME), at(completed));
    }
    let found = |dql: &Dql| (dql.snapshot().stall_cnt, dql.snapshot().stall_max);
    let stall = (1, Duration::from_millis(96));
    assert_eq!(found(&dql), stall);
    for threshold in [Some(400), None, Some(16)] {
        dql.reconfigure(config(threshold)).expect("valid");
        assert_eq!(found(&dql), stall, "{threshold:?}");
    }
    dql.reset();
    assert_eq!(found(&dql), stall);
}

#[test]
fn refused_parameters_are_named() {
    let beyond = Config {
        limit_max: Bytes::new(1_879_048_193),
        ..Config::default()
    };
    assert_eq!(
        Dql::new(beyond).unwrap_err().to_string(),
        "`limit_max` must be at most 1879048192b, not 1879048193b"
    );
    let crossed = Config {
        limit_min: Bytes::new(2),
        limit_max: Bytes::new(1),
        ..Config::default()
    };
    assert_eq!(Dql::new(crossed).unwrap_err().parameter, "limit_min");
    assert!(Dql::new(Config::default()).is_ok());
}

/// The rule once more, with totals that never wrap and the outcome of each completion in the open.
#[derive(Debug, Default)]
struct Model {
    limit: i64,
    hold: u64,
    queued: i64,
    completed: i64,
    last: i64,
    previous_queued: i64,
    previous_over: i64,
    previous_last: i64,
    watched_since: Option<u64>,
    slacks: Vec<i64>,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Starved,
    Watched,
    Shrunk,
    Nothing,
}

impl Model {
    fn available(&self) -> bool {
        self.queued - self.completed <= self.limit
    }

    fn queue(&mut self, object: i64, now: u64) {
        self.watched_since.get_or_insert(now);
        self.last = object;
        self.queued += object;
    }

    fn complete(&mut self, amount: i64, now: u64) -> Outcome {
        let in_flight = self.queued - self.completed;
        let in_flight_before = self.previous_queued - self.completed;
        let over = (in_flight - self.limit).max(0);
        let limit = self.limit;
        self.completed += amount;
        let left_of_before = self.previous_queued - self.completed;
        let outcome = if (over > 0 && amount == in_flight)
            || (self.previous_over > 0 && left_of_before <= 0)
        {
            self.limit += (-left_of_before).max(0) + self.previous_over;
            self.watch_again(now);
            Outcome::Starved
        } else if amount < in_flight && in_flight_before > 0 && left_of_before > 0 {
            let unneeded = if self.previous_over > 0 {
                self.previous_last - self.previous_over
            } else {
                0
            };
            self.slacks.push(
                (self.limit + self.previous_over - 2 * amount)
                    .max(unneeded)
                    .max(0),
            );
            if now > self.watched_since.unwrap() + self.hold {
                self.limit = (self.limit - self.slacks.iter().min().unwrap()).max(0);
                self.watch_again(now);
                Outcome::Shrunk
            } else {
                Outcome::Watched
            }
        } else {
            Outcome::Nothing
        };
        self.previous_over = if self.limit == limit { over } else { 0 };
        self.previous_queued = self.queued;
        self.previous_last = self.last;
        outcome
    }

    fn watch_again(&mut self, now: u64) {
        self.watched_since = Some(now);
        self.slacks.clear();
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// Queue objects of this size while the limit lets them, so many at most.
    Queue(u64, usize),
    /// Complete so many per mille of what is in flight.
    Complete(u64),
    Wait(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (1..9000_u64, 1..40_usize).prop_map(|(size, count)| Event::Queue(size, count)),
        (Just(FRAME), 1..40_usize).prop_map(|(size, count)| Event::Queue(size, count)),
        prop_oneof![Just(1000), Just(500), 0..1000_u64].prop_map(Event::Complete),
        prop_oneof![0..5_u64, Just(50)].prop_map(Event::Wait),
    ];
    prop::collection::vec(event, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Counters that wrap on the way change nothing; neither does the arithmetic of the model.
    #[test]
    fn it_does_as_the_model_through_a_wrap(
        events in events(), limit in 0..60_000_u32, origin in prop_oneof![Just(u32::MAX - 4999), any::<u32>()]
    ) {
        let hold = 10;
        let mut dql = starting_at(origin, limit, Duration::from_millis(hold));
        let mut model = Model { limit: limit.into(), hold, ..Model::default() };
        let (mut now, mut grown_at) = (0, None);
        for event in events {
            match event {
                Event::Queue(size, count) => {
                    for _ in 0..count {
                        prop_assert_eq!(dql.available(at(0)), model.available());
                        if !dql.available(at(0)) {
                            break;
                        }
                        dql.queued(Bytes::new(size), at(now));
                        model.queue(size as i64, now);
                        prop_assert_eq!(dql.limit().get() as i64, model.limit, "only completions change the limit");
                        prop_assert!(dql.in_flight() <= dql.limit() + Bytes::new(size), "one object may overshoot, no more");
                    }
                }
                Event::Complete(per_mille) => {
                    let before = dql.limit();
                    let amount = dql.in_flight().get() * per_mille / 1000;
                    dql.completed(Bytes::new(amount), at(now));
                    let outcome = model.complete(amount as i64, now);
                    prop_assert_eq!(dql.limit().get() as i64, model.limit);
                    prop_assert!(dql.limit() >= before || outcome == Outcome::Shrunk);
                    prop_assert!(dql.limit() <= before || outcome == Outcome::Starved);
                    if dql.limit() < before {
                        prop_assert!(grown_at.is_none_or(|grown_at| now > grown_at + hold), "shrunk within the hold time");
                    }
                    if outcome == Outcome::Starved {
                        grown_at = Some(now);
                    }
                }
                Event::Wait(millis) => now += millis,
            }
            prop_assert_eq!(dql.in_flight().get() as i64, model.queued - model.completed);
            prop_assert!(dql.in_flight() > Bytes::ZERO || dql.available(at(0)), "stuck: empty and closed");
        }
        prop_assert_eq!(dql.snapshot().overruns, 0);
    }

    /// With any completions that a device reports, the limit stays within its bounds and the queue never sticks.
    #[test]
    fn a_lying_device_breaks_nothing(
        bounds in (0..10_000_u64, 10_000..100_000_u64), steps in prop::collection::vec((any::<bool>(), any::<u64>(), any::<u64>()), 1..200)
    ) {
        let config = Config { limit_min: Bytes::new(bounds.0), limit_max: Bytes::new(bounds.1), ..Config::default() };
        let mut dql = Dql::new(config).unwrap();
        for (queues, amount, now) in steps {
            let now = Instant::from_nanos(now);
            if queues && dql.available(at(0)) {
                dql.queued(Bytes::new(amount % 65_536), now);
            } else {
                dql.completed(Bytes::new(amount), now);
            }
            prop_assert!(config.limit_min <= dql.limit() && dql.limit() <= config.limit_max);
            prop_assert!(dql.in_flight() > Bytes::ZERO || dql.available(at(0)));
        }
    }

    /// New bounds hold from the moment they are given, whatever is in flight; refused ones change
    /// nothing.
    #[test]
    fn it_can_be_reconfigured_at_any_moment(
        steps in prop::collection::vec((0..3_u8, 1..20_000_u64, 0..40_000_u64), 1..200)
    ) {
        let mut dql = Dql::default();
        let mut bounds = (Bytes::ZERO, Bytes::new(LARGEST_LIMIT.into()));
        for (now, (what, a, b)) in (0..).zip(steps) {
            let in_flight = dql.in_flight();
            match what {
                0 if dql.available(at(now)) => dql.queued(Bytes::new(a), at(now)),
                1 => dql.completed(Bytes::new(a).min(in_flight), at(now)),
                _ => {
                    let (limit_min, limit_max) = (Bytes::new(a), Bytes::new(b));
                    let config = Config { limit_min, limit_max, hold_time: Duration::from_millis(a % 5), stall_threshold: None };
                    prop_assert_eq!(dql.reconfigure(config).is_ok(), a <= b);
                    bounds = if a <= b { (limit_min, limit_max) } else { bounds };
                    prop_assert_eq!(dql.in_flight(), in_flight);
                }
            }
            let snapshot = dql.snapshot();
            prop_assert_eq!((snapshot.limit_min, snapshot.limit_max), bounds);
            prop_assert!(bounds.0 <= snapshot.limit && snapshot.limit <= bounds.1);
            prop_assert!(dql.in_flight() > Bytes::ZERO || dql.available(at(now)));
            prop_assert_eq!(snapshot.overruns, 0);
        }
    }

    /// Reset with anything in flight: what follows is as with a new one.
    #[test]
    fn after_a_reset_it_is_as_new(before in events(), after in events(), min in 0..5000_u64) {
        let hold_time = Duration::from_millis(10);
        let config = Config { limit_min: Bytes::new(min), hold_time, ..Config::default() };
        let mut used = Dql::new(config).unwrap();
        let mut now = 0;
        for event in before {
            happen(&mut used, event, &mut now);
        }
        used.reset();
        prop_assert_eq!((used.in_flight(), used.limit()), (Bytes::ZERO, config.limit_min));
        let mut fresh = Dql::new(config).unwrap();
        let mut fresh_now = now;
        for event in after {
            let (a, b) = (happen(&mut used, event.clone(), &mut now), happen(&mut fresh, event, &mut fresh_now));
            prop_assert_eq!(a, b);
        }
    }
}

/// Lets `event` happen; limit and bytes in flight after it.
fn happen(dql: &mut Dql, event: Event, now: &mut u64) -> (Bytes, Bytes) {
    match event {
        Event::Queue(size, count) => {
            for _ in 0..count {
                if !dql.available(at(*now)) {
                    break;
                }
                dql.queued(Bytes::new(size), at(*now));
            }
        }
        Event::Complete(per_mille) => dql.completed(
            Bytes::new(dql.in_flight().get() * per_mille / 1000),
            at(*now),
        ),
        Event::Wait(millis) => *now += millis,
    }
    (dql.limit(), dql.in_flight())
}

/// Calls that a search makes.
#[derive(Clone, Copy, Debug)]
enum Call {
    Queue(u64),
    Complete(u64),
}

/// Every sequence of calls on a queue of a few bytes, `depth` more of them: the same from any origin of the
/// counters, bounded, and changed by completions only.
fn search(dqls: [&Dql; 2], in_flight: u64, millis: u64, depth: u32, cases: &mut u64) {
    let available = dqls[0].available(at(millis));
    assert_eq!(available, in_flight <= dqls[0].limit().get());
    *cases += 1;
    if depth == 0 {
        return;
    }
    let queues = [1, 2].into_iter().filter(|_| available).map(Call::Queue);
    let completions = (1..=in_flight).map(Call::Complete);
    for call in queues.chain(completions) {
        let before = dqls[0].limit();
        let [a, b] = dqls.map(|dql| {
            let mut dql = dql.clone();
            match call {
                Call::Queue(bytes) => dql.queued(Bytes::new(bytes), at(millis)),
                Call::Complete(bytes) => dql.completed(Bytes::new(bytes), at(millis)),
            }
            dql
        });
        assert_eq!(a.snapshot(), b.snapshot(), "{call:?}");
        let left = match call {
            Call::Queue(bytes) => in_flight + bytes,
            Call::Complete(bytes) => in_flight - bytes,
        };
        let limit = a.limit();
        assert_eq!((a.in_flight().get(), a.snapshot().overruns), (left, 0));
        assert!((1..=6).contains(&limit.get()), "{call:?}: {limit}");
        match call {
            Call::Queue(_) => assert_eq!(limit, before),
            // A shortage is at most what was in flight, by this completion and the one before.
            Call::Complete(_) => assert!(limit.get() <= before.get() + in_flight + 2),
        }
        search([&a, &b], left, millis + 1, depth - 1, cases);
    }
}

#[test]
fn every_short_sequence_of_calls_keeps_the_account() {
    let new = |origin| Dql {
        limit_min: 1,
        limit_max: 6,
        ..starting_at(origin, 1, Duration::ZERO)
    };
    let mut cases = 0;
    search([&new(0), &new(u32::MAX - 2)], 0, 0, 9, &mut cases);
    assert!(cases > 5_000, "{cases}");
}
