//! CoDel against the worked examples of RFC 8289 §5.5, ns-3's suite, and the kernel bugs it must
//! not share.

use alloc::collections::VecDeque;
use core::time::Duration;
use std::vec::Vec;

use super::*;
use tautline_base::Bytes;
use tautline_base::Qdisc;
use tautline_testkit::{Probe, ids};

const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;
const LAWS: [Law; 2] = [Law::Rfc8289, Law::Linux];

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A queue that never ends and whose every packet has waited `delay` when it is taken.
struct Endless {
    now: Instant,
    delay: Duration,
    tos: u8,
}

impl Source<Probe> for Endless {
    fn pop(&mut self) -> Option<Probe> {
        let mut packet = Probe::new(0).tos(self.tos);
        packet.set_enqueued(self.now - self.delay);
        Some(packet)
    }

    fn backlog(&self) -> Bytes {
        Bytes::mib(1)
    }
}

/// A whole number of Linux's ticks, far enough from the epoch for delays to be subtracted.
const START: u64 = 1_024_000_000;

/// The milliseconds after the start at which CoDel signals, when a packet that waited 10 ms is
/// taken each millisecond.
fn signal_times(aqm: &mut Aqm, state: &mut State, tos: u8, from: u64, until: u64) -> Vec<u64> {
    let mut drops = Drops::new();
    let mut times = Vec::new();
    for millis in from..until {
        let now = Instant::from_nanos(START + millis * 1_000_000);
        let mut source = Endless {
            now,
            delay: Duration::from_millis(10),
            tos,
        };
        let packet = aqm
            .dequeue(state, &mut source, now, &mut drops)
            .expect("endless");
        let signals = drops.drain().count() + usize::from(packet.tos == CE && tos != CE);
        assert!(signals <= 1, "one signal per millisecond at most");
        times.extend((signals == 1).then_some(millis));
    }
    times
}

/// After a step back of an hour a queue is signaled within an interval, whether it was to be signaled
/// first or again.
#[test]
fn a_clock_that_steps_back_silences_no_queue() {
    let hour = 3_600_000;
    for law in LAWS {
        for until in [1, 300] {
            let (mut aqm, mut state) = (
                Aqm::new(Params {
                    law,
                    ..Params::default()
                })
                .expect("valid"),
                State::default(),
            );
            let before = signal_times(&mut aqm, &mut state, 0, hour, hour + until);
            assert_eq!(before.is_empty(), until == 1);
            let times = signal_times(&mut aqm, &mut state, 0, 0, 300);
            assert!((1..=101).contains(&times[0]), "{law}: {times:?}");
        }
    }
}

/// RFC 8289 §5.5, worked by hand; marks come at the same instants as drops.
#[test]
fn signals_come_when_the_law_says() {
    let rfc = [100, 200, 271, 329, 379, 424, 464, 502, 538, 571];
    let linux = [101, 201, 251, 308, 357, 401, 441, 479, 514, 547];
    for (law, expected) in [(Law::Rfc8289, rfc), (Law::Linux, linux)] {
        for (ecn, tos) in [(false, ECT0), (true, 0), (true, ECT0), (true, ECT1)] {
            let mut aqm = Aqm::new(Params {
                law,
                ecn,
                ..Params::default()
            })
            .expect("valid");
            let times = signal_times(&mut aqm, &mut State::default(), tos, 0, expected[9] + 1);
            assert_eq!(times, expected, "{law} ecn {ecn} tos {tos}");
            let marks = if ecn && tos != 0 { 10 } else { 0 };
            assert_eq!(
                (aqm.stats().ecn_mark, aqm.stats().dropped),
                (marks, 10 - marks)
            );
        }
    }
}

/// RFC 8289 §5.5, worked by hand: left with count 10; back after 1.0 s it resumes at 9, after 1.7 s
/// it starts anew.
#[test]
fn a_new_episode_resumes_the_pace_of_a_recent_one() {
    for (law, pause, gap) in [
        (Law::Rfc8289, 1_000, 34),
        (Law::Linux, 1_000, 34),
        (Law::Rfc8289, 1_700, 100),
    ] {
        let mut aqm = Aqm::new(Params {
            law,
            ..Params::default()
        })
        .expect("valid");
        let mut state = State::default();
        let times = signal_times(&mut aqm, &mut state, 0, 0, 572);
        assert!(matches!(state.phase(), Phase::Dropping { entry: 1, .. }));
        let count = state.count();
        let again = 572 + pause;
        let mut young = Endless {
            now: ms(0),
            delay: Duration::ZERO,
            tos: 0,
        };
        aqm.dequeue(&mut state, &mut young, ms(0), &mut Drops::new());
        assert_eq!(
            (state.phase(), state.count()),
            (Phase::Below, count - 1),
            "{times:?}"
        );
        let back = signal_times(&mut aqm, &mut state, 0, again, again + 250);
        assert_eq!(back[1] - back[0], gap, "{law} after {pause} ms: {back:?}");
    }
}

/// The pace is resumed up to 16 intervals after the signal that was due next, and not later.
#[test]
fn the_memory_of_an_episode_ends_after_sixteen_intervals() {
    for law in LAWS {
        let mut aqm = Aqm::new(Params {
            law,
            ..Params::default()
        })
        .expect("valid");
        let mut state = State::default();
        signal_times(&mut aqm, &mut state, 0, 0, 572);
        let Phase::Dropping { next, .. } = state.phase() else {
            panic!("ten signals were due")
        };
        let mut young = Endless {
            now: ms(0),
            delay: Duration::ZERO,
            tos: 0,
        };
        aqm.dequeue(&mut state, &mut young, ms(0), &mut Drops::new());
        let last = (next.as_nanos() - START) / 1_000_000 + 1_600;
        let until_entry = if law == Law::Linux { 101 } else { 100 };
        for (entry, resumed) in [(last - 1, true), (last + 1, false)] {
            let mut state = state.clone();
            let times = signal_times(&mut aqm, &mut state, 0, entry - until_entry, entry + 1);
            assert_eq!(times, [entry]);
            assert_eq!(state.count() > 1, resumed, "{law} at {entry} ms");
        }
    }
}

/// RFC 8289 §5.5: resumed while now − drop_next < 16 intervals, so no longer when they are just
/// over.
#[test]
fn sixteen_intervals_to_the_nanosecond_are_too_late() {
    for (early, resumed) in [(1, true), (0, false)] {
        let mut aqm = Aqm::new(Params::default()).expect("valid");
        let mut state = State::default();
        signal_times(&mut aqm, &mut state, 0, 0, 572);
        let Phase::Dropping { next, .. } = state.phase() else {
            panic!("ten signals were due")
        };
        let entry = next + Duration::from_millis(1_600) - Duration::from_nanos(early);
        let mut take = |now: Instant, delay| {
            let mut source = Endless {
                now,
                delay: Duration::from_millis(delay),
                tos: 0,
            };
            aqm.dequeue(&mut state, &mut source, now, &mut Drops::new())
                .expect("endless");
        };
        take(next, 0);
        take(entry - Duration::from_millis(100), 10);
        take(entry, 10);
        assert_eq!(
            (aqm.stats().dropped, state.count() > 1),
            (11, resumed),
            "{early} ns early"
        );
    }
}

/// An episode of a single signal has no pace to resume: the next begins with count 1 again.
#[test]
fn an_episode_of_one_signal_leaves_no_pace() {
    for law in LAWS {
        let mut aqm = Aqm::new(Params {
            law,
            ..Params::default()
        })
        .expect("valid");
        let mut state = State::default();
        for from in [0, 150] {
            let times = signal_times(&mut aqm, &mut state, 0, from, from + 102);
            assert_eq!((times.len(), state.count()), (1, 1), "{law} from {from} ms");
            let mut young = Endless {
                now: ms(0),
                delay: Duration::ZERO,
                tos: 0,
            };
            aqm.dequeue(&mut state, &mut young, ms(0), &mut Drops::new());
        }
    }
}

/// A delay of exactly the target counts as above it.
#[test]
fn the_target_itself_is_too_long() {
    for (micros, phase_is_below) in [(4_999, true), (5_000, false)] {
        let mut queue = filled(Config::default(), 4, 1514, 0);
        queue
            .dequeue(Instant::from_micros(micros), &mut Drops::new())
            .expect("queued");
        assert_eq!(
            queue.state().phase() == Phase::Below,
            phase_is_below,
            "{micros} us"
        );
    }
}

fn filled(config: Config, packets: u32, len: u32, tos: u8) -> Codel<Probe> {
    let mut codel = Codel::new(config).expect("valid");
    for id in 0..packets {
        codel.enqueue(
            Probe::new(id).sized(len).tos(tos),
            Instant::ZERO,
            &mut Drops::new(),
        );
    }
    codel
}

/// ns-3's CoDel suite, with its times: 20 packets at 0; dequeued at 2 targets, then at that plus 2
/// intervals, again, and at twice that time.
#[test]
fn drops_follow_the_ns3_suite() {
    for law in LAWS {
        for (ecn, tos) in [(false, ECT0), (true, ECT0)] {
            let codel = Params {
                law,
                ecn,
                mtu: Bytes::new(1500),
                ..Params::default()
            };
            let mut queue = filled(Config { limit: 500, codel }, 20, 1000, tos);
            let mut drops = Drops::new();
            let mut signals = Vec::new();
            for millis in [10, 210, 210, 420] {
                queue.dequeue(ms(millis), &mut drops).expect("queued");
                signals.push(queue.stats().dropped + queue.stats().ecn_mark);
            }
            // By 420 ms two more are due (310, 381), by Linux's law three (310, 360, 416). A mark
            // delivers the marked packet, so each takes a dequeue of its own.
            let due = if law == Law::Linux { 3 } else { 2 };
            assert_eq!(signals, [0, 1, 1, if ecn { 2 } else { 1 + due }], "{law}");
            assert_eq!(
                queue.backlog().packets,
                if ecn { 16 } else { 15 - due as usize },
                "{law}"
            );
            assert_eq!(drops.len() as u64, queue.stats().dropped);
        }
    }
}

/// ns-3's CoDel suite: 6 packets in and out in order; 503 packets against a limit of 500.
#[test]
fn order_and_limit_follow_the_ns3_suite() {
    let mut queue = filled(
        Config {
            limit: 500,
            ..Config::default()
        },
        6,
        1000,
        0,
    );
    let out = core::iter::from_fn(|| queue.dequeue(ms(1), &mut Drops::new()));
    assert_eq!(ids(out), [0, 1, 2, 3, 4, 5]);
    let queue = filled(
        Config {
            limit: 500,
            ..Config::default()
        },
        503,
        1000,
        0,
    );
    assert_eq!((queue.backlog().packets, queue.drop_overlimit), (500, 3));
    assert_eq!(queue.stats().dropped, 0, "limit drops are not the law's");
}

/// ns-3's CoDel suite: a CE threshold of 2 ms marks at 3 ms and at two targets, not at 1 ms.
#[test]
fn delays_above_the_ce_threshold_are_marked() {
    let threshold = CeThreshold::all(Duration::from_millis(2));
    let codel = Params {
        ecn: true,
        ce_threshold: Some(threshold),
        ..Params::default()
    };
    let mut queue = filled(
        Config {
            codel: codel.clone(),
            ..Config::default()
        },
        20,
        1000,
        ECT0,
    );
    for (millis, marked) in [(1, false), (2, false), (3, true), (10, true)] {
        let packet = queue
            .dequeue(ms(millis), &mut Drops::new())
            .expect("queued");
        assert_eq!(packet.tos == CE, marked, "at {millis} ms");
    }
    assert_eq!((queue.stats().ce_mark, queue.stats().ecn_mark), (2, 0));
    let l4s = CeThreshold {
        mask: 3,
        selector: 1,
        ..threshold
    };
    for (tos, marked) in [(ECT0, false), (ECT1, true), (0, false)] {
        let codel = Params {
            ce_threshold: Some(l4s),
            ..codel.clone()
        };
        let mut queue = filled(
            Config {
                codel,
                ..Config::default()
            },
            2,
            1000,
            tos,
        );
        assert_eq!(
            queue
                .dequeue(ms(3), &mut Drops::new())
                .map(|packet| packet.tos == CE),
            Some(marked)
        );
    }
}

/// Kernel bug: the start of a standing queue outlived the queue, and the first packet after a pause
/// was dropped.
#[test]
fn an_emptied_queue_forgets_that_it_stood() {
    for law in LAWS {
        let codel = Params {
            law,
            ..Params::default()
        };
        let mut queue = filled(
            Config {
                codel,
                ..Config::default()
            },
            4,
            1514,
            0,
        );
        let mut drops = Drops::new();
        queue.dequeue(ms(10), &mut drops).expect("queued");
        assert!(matches!(queue.state().phase(), Phase::Above { .. }));
        for _ in 0..3 {
            queue.dequeue(ms(10), &mut drops).expect("queued");
        }
        assert_eq!(
            queue.state().phase(),
            Phase::Below,
            "also when nobody asks the empty queue"
        );
        for id in 0..4 {
            queue.enqueue(Probe::new(id), ms(1000), &mut drops);
        }
        queue.dequeue(ms(1010), &mut drops).expect("queued");
        assert!(drops.is_empty(), "an interval has not passed");
    }
}

/// Kernel bug: drops of others, heard before the first episode, set an inverse root of zero and
/// flushed the queue.
#[test]
fn drops_heard_early_flush_nothing() {
    for law in LAWS {
        let mut aqm = Aqm::new(Params {
            law,
            ..Params::default()
        })
        .expect("valid");
        let mut state = State::default();
        state.count_drops(64);
        let times = signal_times(&mut aqm, &mut state, 0, 0, 309);
        let expected = if law == Law::Linux {
            [101, 201, 251, 308].as_slice()
        } else {
            &[100, 200, 271]
        };
        assert_eq!(times, expected, "{law}: as if nothing had been heard");
    }
}

/// Drops heard during an episode quicken the signals. In Linux's arithmetic they make the root
/// anything: see `law`.
#[test]
fn drops_heard_while_dropping_quicken_the_pace() {
    let mut aqm = Aqm::new(Params::default()).expect("valid");
    let mut state = State::default();
    signal_times(&mut aqm, &mut state, 0, 0, 102);
    state.count_drops(98);
    let times = signal_times(&mut aqm, &mut state, 0, 102, 232);
    assert_eq!(state.count(), 99 + times.len() as u32);
    assert_eq!(times[1] - times[0], 10, "interval / √100");
}

/// Effect: a sender that halves its window at a drop meets a short queue with CoDel, a full one
/// with the target out of reach.
#[test]
fn the_law_keeps_the_queue_of_a_responsive_sender_short() {
    let with = mean_delay(Params::default());
    let without = mean_delay(Params {
        target: Duration::from_secs(1000),
        ..Params::default()
    });
    let endless_interval = mean_delay(Params {
        interval: Duration::from_secs(1000),
        ..Params::default()
    });
    assert!(with < Duration::from_millis(15), "{with:?}");
    assert!(
        without > Duration::from_millis(60) && endless_interval > Duration::from_millis(60),
        "{without:?}"
    );
}

/// The mean delay behind a link of one packet per millisecond, of an additive-increase sender 50 ms
/// away; buffer 150 packets.
fn mean_delay(codel: Params) -> Duration {
    let mut queue = Codel::new(Config { limit: 150, codel }).expect("valid");
    let mut drops = Drops::new();
    let mut acks = VecDeque::from([0; 1]);
    let (mut window, mut in_flight, mut total, mut sent) = (10.0, 1.0, Duration::ZERO, 0);
    for millis in 0..60_000 {
        while acks.front().is_some_and(|&at| at <= millis) {
            acks.pop_front();
            window += 1.0 / window;
            in_flight -= 1.0;
        }
        while in_flight < window {
            queue.enqueue(Probe::new(0), ms(millis), &mut drops);
            in_flight += 1.0;
        }
        if let Some(packet) = queue.dequeue(ms(millis), &mut drops) {
            acks.push_back(millis + 50);
            total += ms(millis) - packet.enqueued();
            sent += 1;
        }
        let lost = drops.drain().count();
        in_flight -= lost as f64;
        window = if lost > 0 {
            f64::max(window / 2.0, 2.0)
        } else {
            window
        };
    }
    assert!(sent > 48_000, "the link stays busy: {sent}");
    total / sent
}

/// RFC 8289 §5.5: on Linux's clock of 1024 ns, 5 ms are 4882 ticks and show as 4999 µs.
#[test]
fn the_delay_shown_is_that_of_the_packet_judged_last() {
    for (law, nanos) in [(Law::Rfc8289, 5_000_000), (Law::Linux, 4882 * 1024)] {
        let codel = Params {
            law,
            ..Params::default()
        };
        let mut queue = filled(
            Config {
                codel,
                ..Config::default()
            },
            2,
            1514,
            0,
        );
        for expected in [nanos, 0] {
            queue
                .dequeue(Instant::from_nanos(expected), &mut Drops::new())
                .expect("queued");
            assert_eq!(
                queue.stats().delay(),
                Duration::from_nanos(expected),
                "{law}"
            );
        }
    }
}

/// New parameters leave the counters alone.
#[test]
fn a_change_keeps_the_counters() {
    let mut aqm = Aqm::new(Params::default()).expect("valid");
    signal_times(&mut aqm, &mut State::default(), 0, 0, 572);
    let before = aqm.stats().clone();
    assert_eq!(before.dropped, 10);
    aqm.set_params(Params {
        ecn: true,
        ..Params::default()
    })
    .expect("valid");
    assert!(aqm.params().ecn);
    assert_eq!(*aqm.stats(), before);
}

#[test]
fn an_interval_below_the_clock_tick_is_refused() {
    for (law, nanos) in [(Law::Rfc8289, 0), (Law::Linux, 1023)] {
        let params = Params {
            law,
            interval: Duration::from_nanos(nanos),
            ..Params::default()
        };
        assert_eq!(
            Aqm::new(params).err().map(|error| error.parameter),
            Some("interval")
        );
    }
}
