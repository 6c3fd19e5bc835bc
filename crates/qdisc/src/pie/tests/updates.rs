//! Burst allowance, and when the probability is updated.

use super::*;

/// The burst allowance: RFC 8033 counts it down by updates, Linux by dequeues; nothing is dropped
/// before it is used up.
#[test]
fn bursts_pass_unharmed() {
    for law in [Law::Rfc8033, Law::Linux] {
        let first_drop = |max_burst| {
            let max_burst = Duration::from_millis(max_burst);
            overload(
                Params {
                    law,
                    max_burst,
                    ..Params::default()
                },
                200,
                600,
                0,
            )
            .0[0]
        };
        assert!(first_drop(0) < 150, "{law}: {}", first_drop(0));
        assert!(
            (150..200).contains(&first_drop(150)),
            "{law}: {}",
            first_drop(150)
        );
        assert!(
            (400..450).contains(&first_drop(400)),
            "{law}: {}",
            first_drop(400)
        );
    }
}

/// Linux's first update comes 500 ms after creation, the next ones after `tupdate`, each rounded up
/// to ticks and one more: on a timer of 100 ticks per second 510 and 30 ms (as measured:
/// `overload_blacks_linux_out`).
#[test]
fn updates_come_when_the_timer_would_fire() {
    for (hz, first, period) in [
        (100, 510, 30),
        (250, 504, 20),
        (1000, 501, 16),
        (0, 500, 15),
    ] {
        let mut config = Config::linux();
        config.pie.hz = core::num::NonZeroU32::new(hz);
        assert_eq!(config.pie.period(), Duration::from_millis(period));
        let mut queue = Pie::new(config).expect("valid");
        let mut drops = Drops::new();
        let mut changes = Vec::new();
        for millis in 0..600 {
            let before = queue.state().probability();
            queue.enqueue(Probe::new(0), ms(millis), &mut drops);
            queue.enqueue(Probe::new(0), ms(millis), &mut drops);
            queue.dequeue(ms(millis), &mut drops);
            if queue.state().probability() != before {
                changes.push(millis);
            }
        }
        let expected: Vec<_> = (0..)
            .map(|n| first + n * period)
            .take_while(|&at| at < 600)
            .collect();
        assert_eq!(changes, expected, "hz {hz}");
    }
}

/// As measured on Linux 6.1.192 (HZ 100, `linux-lab/qdisc-trace.sh` with `tbf:12mbit` and `pie
/// limit 1000`), five packets of 1514 bytes per millisecond for 2 s, then one each 0.7 ms: packets
/// that pass in each quarter second of arrival. From 1.2 s on everything is dropped until the queue
/// is empty; then, since the probability is far above one, all that would be third in the queue.
#[test]
fn overload_blacks_linux_out() {
    let linux = [
        1248, 248, 247, 248, 144, 0, 0, 0, 97, 247, 248, 247, 248, 248, 247, 248,
    ];
    let hz = core::num::NonZeroU32::new(100);
    let ours = passed(Params {
        hz,
        ..Params::linux()
    });
    for (quarter, (ours, linux)) in ours.iter().zip(linux).enumerate() {
        assert!(
            i32::abs_diff(*ours, linux) <= 8,
            "quarter {quarter}: {ours}, in Linux {linux}"
        );
    }
    // The RFC's probability is bounded and falls again: all pass for a while, until the queue has
    // grown to its target.
    let ours = passed(Params {
        hz,
        first_update: Duration::from_millis(500),
        tupdate: Duration::from_millis(15),
        ..Params::default()
    });
    assert!(ours[10..].iter().max() > Some(&300), "{ours:?}");
}

/// The packets of each quarter second that pass.
fn passed(pie: Params) -> Vec<i32> {
    let config = Config {
        pie,
        ..Config::default()
    };
    let (mut queue, mut drops) = (Pie::new(config).expect("valid"), Drops::new());
    let start = ms(10);
    let mut passed = vec![0; 16];
    queue.dequeue(Instant::ZERO, &mut drops);
    let overload = (0..10_000).map(|n| n * 200);
    let rest = (0..)
        .map(|n| 2_000_000 + n * 700)
        .take_while(|&at| at < 4_000_000);
    let mut free = 0;
    for micros in overload.chain(rest) {
        while free <= micros * 1000 && !queue.backlog().is_empty() {
            queue
                .dequeue(start + Duration::from_nanos(free), &mut drops)
                .expect("queued");
            free += 1514 * 8 * 1_000_000_000 / 12_000_000;
        }
        free = if queue.backlog().is_empty() {
            free.max(micros * 1000)
        } else {
            free
        };
        queue.enqueue(
            Probe::new(0),
            start + Duration::from_micros(micros),
            &mut drops,
        );
        passed[(micros / 250_000) as usize] += i32::from(drops.drain().count() == 0);
    }
    passed
}

/// Updates made late, all at once, leave what updates on time would have.
#[test]
fn late_updates_equal_punctual_ones() {
    for law in [Law::Rfc8033, Law::Linux, Law::Rfc8034] {
        for estimator in [DelaySource::Timestamp, DelaySource::DepartureRate] {
            for pause in [10, 100, 1000, 14_000, 100_000] {
                let params = Params {
                    law,
                    delay: estimator,
                    max_burst: Duration::from_millis(50),
                    ..Params::default()
                };
                let (_, mut queue) = overload(params, 800, 800, 0);
                let (mut aqm, mut punctual) =
                    (queue.control.aqm.clone(), queue.control.state.clone());
                let backlog = queue.queue.held().bytes;
                for millis in 800..=800 + pause {
                    aqm.admit(
                        &mut punctual,
                        &mut Probe::new(0).sized(0),
                        backlog,
                        ms(millis),
                    );
                }
                queue.control.aqm.admit(
                    &mut queue.control.state,
                    &mut Probe::new(0).sized(0),
                    backlog,
                    ms(800 + pause),
                );
                let (late, on_time) = (queue.control.state.probability(), punctual.probability());
                assert!(
                    near(late, on_time, 1e-9),
                    "{law} {estimator:?} {pause}: {late} {on_time}"
                );
            }
        }
    }
}

/// RFC 8034: nothing below a third of the buffer; the first drop opens a burst; after a second of
/// quiet it is inactive again.
#[test]
fn docsis_wakes_and_rests() {
    let mut aqm = Aqm::new(Params::docsis(Bytes::new(300_000))).expect("valid");
    let mut state = State::default();
    let judge = |aqm: &mut Aqm, state: &mut State, backlog, millis| {
        state.accumulate(8.5);
        aqm.admit(
            state,
            &mut Probe::new(0).sized(1024),
            Bytes::new(backlog),
            ms(millis),
        )
    };
    assert_eq!(judge(&mut aqm, &mut state, 0, 0), Verdict::Pass);
    state.steady(0.5, 10_000_000);
    assert_eq!(
        judge(&mut aqm, &mut state, 99_999, 0),
        Verdict::Pass,
        "below a third of the buffer"
    );
    assert_eq!(judge(&mut aqm, &mut state, 100_000, 0), Verdict::Dropped);
    assert_eq!(
        judge(&mut aqm, &mut state, 100_000, 0),
        Verdict::Pass,
        "the drop opened a burst"
    );
    assert!(
        aqm.admit(&mut state, &mut Probe::new(0), Bytes::new(100_000), ms(16)) == Verdict::Pass
    );
    assert_eq!(state.probability(), 0.0, "which clears the probability");
    // Nine updates of 16 ms use up 142 ms.
    aqm.admit(&mut state, &mut Probe::new(0), Bytes::ZERO, ms(16 * 9));
    state.steady(0.5, 10_000_000);
    assert_eq!(
        judge(&mut aqm, &mut state, 3000, 16 * 9),
        Verdict::Dropped,
        "active: no matter how short the queue"
    );
    state.steady(0.0, 0);
    aqm.admit(&mut state, &mut Probe::new(0), Bytes::ZERO, ms(16 * 70));
    state.steady(0.5, 10_000_000);
    assert_eq!(
        judge(&mut aqm, &mut state, 3000, 16 * 70),
        Verdict::Dropped,
        "quiet for less than a second"
    );
    state.steady(0.0, 0);
    aqm.admit(&mut state, &mut Probe::new(0), Bytes::ZERO, ms(16 * 150));
    state.steady(0.5, 10_000_000);
    assert_eq!(
        judge(&mut aqm, &mut state, 3000, 16 * 150),
        Verdict::Pass,
        "inactive again"
    );
}

/// RFC 8034: only quiet updates lead to rest: under a delay an active queue stays active, so that a
/// drop opens no further burst, and a quiescent one does not become inactive.
#[test]
fn docsis_does_not_rest_under_a_delay() {
    let mut aqm = Aqm::new(Params::docsis(Bytes::new(300_000))).expect("valid");
    let mut state = State::default();
    let judge = |aqm: &mut Aqm, state: &mut State, backlog, updates: u64| {
        state.steady(0.5, 10_000_000);
        aqm.admit(state, &mut Probe::new(0), Bytes::ZERO, ms(16 * updates));
        state.accumulate(8.5);
        aqm.admit(
            state,
            &mut Probe::new(0).sized(1024),
            Bytes::new(backlog),
            ms(16 * updates),
        )
    };
    assert_eq!(
        judge(&mut aqm, &mut state, 100_000, 0),
        Verdict::Dropped,
        "a third of the buffer"
    );
    aqm.admit(&mut state, &mut Probe::new(0), Bytes::ZERO, ms(16 * 9));
    for updates in [10, 11, 12] {
        assert_eq!(
            judge(&mut aqm, &mut state, 3000, updates),
            Verdict::Dropped,
            "no further burst"
        );
    }
    state.steady(0.0, 0);
    aqm.admit(&mut state, &mut Probe::new(0), Bytes::ZERO, ms(16 * 20));
    assert_eq!(
        judge(&mut aqm, &mut state, 3000, 150),
        Verdict::Dropped,
        "two seconds of delay are no rest"
    );
    assert_eq!(
        judge(&mut aqm, &mut state, 3000, 150),
        Verdict::Pass,
        "which opened a burst: it was quiescent"
    );
}
