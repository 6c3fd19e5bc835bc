//! FQ against the worked examples of `net/sched/sch_fq.c` and, one by one, what it promises.

use alloc::vec::Vec;

use super::*;
use crate::ledger::Ledger;
use crate::testing::{Change, Edit};
use core::num::NonZeroU32;
use std::string::String;
use std::vec;
use tautline_testkit::{Probe, ids};

const MTU: u32 = 1514;

fn us(micros: u64) -> Instant {
    Instant::from_micros(micros)
}

fn fq(config: Config) -> Ledger<Fq<Probe>> {
    Ledger::new(Fq::new(config).expect("valid"))
}

fn exact() -> Config {
    Config {
        timer_slack: Duration::ZERO,
        ..Config::default()
    }
}

/// Enqueues `packets` of `flow` at `now`, named from 0.
fn put(queue: &mut impl Qdisc<Probe>, flow: u64, packets: u32, len: u32, now: Instant) {
    let mut drops = Drops::new();
    for id in 0..packets {
        queue.enqueue(Probe::new(id).flow(flow).sized(len), now, &mut drops);
    }
    assert!(drops.is_empty());
}

fn take(queue: &mut impl Qdisc<Probe>, now: Instant) -> Vec<u32> {
    ids(core::iter::from_fn(|| {
        queue.dequeue(now, &mut Drops::new())
    }))
}

/// Everything that leaves and when, waking up when the queue asks for it.
fn run(queue: &mut impl Qdisc<Probe>, mut now: Instant) -> Vec<(u64, Probe)> {
    let mut left = Vec::new();
    while let Some(ready) = queue.ready_at() {
        assert!(left.is_empty() || ready > now, "no spinning");
        now = now.max(ready);
        left.extend(
            core::iter::from_fn(|| queue.dequeue(now, &mut Drops::new()))
                .map(|packet| (now.as_nanos(), packet)),
        );
    }
    left
}

fn times(queue: &mut impl Qdisc<Probe>, now: Instant) -> Vec<u64> {
    run(queue, now)
        .into_iter()
        .map(|(time, _)| time / 1000)
        .collect()
}

/// Worked: maxrate 1 Mbit, 18 × 1514 bytes at 0: ten at once, then pairs every 24.224 ms.
#[test]
fn a_flow_keeps_to_the_maxrate_after_its_first_quantum() {
    for config in [
        exact(),
        Config {
            timer_slack: Duration::ZERO,
            ..Config::linux()
        },
    ] {
        let mut queue = fq(Config {
            maxrate: Some(Rate::mbit(1)),
            ..config
        });
        put(&mut queue, 1, 18, MTU, Instant::ZERO);
        let pairs = [0; 10]
            .into_iter()
            .chain((2..10).map(|packet| packet / 2 * 24_224));
        assert_eq!(times(&mut queue, Instant::ZERO), pairs.collect::<Vec<_>>());
        assert_eq!(queue.inner().stats().throttled, 4);
    }
}

/// After a step back of an hour a flow that `maxrate` holds back goes on as without it, and a flow that
/// was idle is forgotten.
#[test]
fn a_clock_that_steps_back_does_not_stop_the_pace() {
    let hour = Duration::from_secs(3600);
    for config in [exact(), Config::linux()] {
        let config = Config {
            maxrate: Some(Rate::mbit(1)),
            timer_slack: Duration::ZERO,
            ..config
        };
        let left = [Duration::ZERO, hour].map(|step| {
            let (mut queue, now) = (fq(config.clone()), Instant::ZERO + hour + hour);
            put(&mut queue, 2, 1, MTU, now);
            put(&mut queue, 1, 18, MTU, now);
            assert_eq!(take(&mut queue, now).len(), 11);
            let later = now + Duration::from_millis(1);
            assert!(take(&mut queue, later).is_empty());
            let now = later - step;
            assert!(take(&mut queue, now).is_empty());
            let times = times(&mut queue, now).into_iter();
            let forgotten = now + Duration::from_secs(10);
            queue.inner_mut().flows.forget_some(forgotten);
            assert_eq!(queue.inner().flows.find(2), None);
            times.map(|time| time - now.as_micros()).collect::<Vec<_>>()
        });
        assert_eq!(left[0], left[1]);
        assert_eq!(left[0][0], 23_224);
    }
}

/// A packet that comes after a step back is late by its own time, and is marked, also if packets are queued
/// since before the step.
#[test]
fn a_clock_that_steps_back_does_not_stop_the_marks() {
    let config = Config {
        ce_threshold: Some(Duration::from_millis(1)),
        maxrate: Some(Rate::gbit(1)),
        ..exact()
    };
    let (mut queue, mut drops) = (fq(config), Drops::new());
    let (before, after) = (us(3_600_000_000), us(1_000_000));
    for (id, now) in [(0, before), (1, before), (2, after)] {
        queue.enqueue(Probe::new(id).flow(1).tos(2), now, &mut drops);
    }
    let mut marked = |later| {
        let packet = queue.dequeue(after + Duration::from_millis(later), &mut drops);
        packet.map(|packet| (packet.id, packet.tos == 3))
    };
    assert_eq!(marked(5), Some((0, false)), "it comes from the future");
    assert_eq!(marked(6), Some((1, false)));
    assert_eq!(marked(7), Some((2, true)));
}

/// Worked: at 100 Mbit the gap is 242.24 µs. The slack delays every pair, but the next ones make up
/// for it.
#[test]
fn slack_delays_but_does_not_slow_down() {
    let mut queue = fq(Config {
        maxrate: Some(Rate::mbit(100)),
        ..Config::default()
    });
    put(&mut queue, 1, 16, MTU, Instant::ZERO);
    let left = run(&mut queue, Instant::ZERO)
        .into_iter()
        .map(|(time, _)| time)
        .skip(10);
    let pairs = (1..4u64).flat_map(|pair| [pair * 242_240 + 10_000; 2]);
    assert_eq!(left.collect::<Vec<_>>(), pairs.collect::<Vec<_>>());
    assert_eq!(queue.inner().stats().latency, Duration::from_nanos(3301));
}

/// Worked: 500 kbit is below the threshold: one packet every 24.224 ms, from the first on.
#[test]
fn slow_flows_are_paced_packet_by_packet() {
    let slow = Config {
        maxrate: Some(Rate::kbit(500)),
        ..exact()
    };
    let mut queue = fq(slow.clone());
    put(&mut queue, 1, 4, MTU, Instant::ZERO);
    assert_eq!(
        times(&mut queue, Instant::ZERO),
        [0, 24_224, 48_448, 72_672]
    );
    let mut by_quanta = fq(Config {
        low_rate_threshold: Rate::ZERO,
        initial_quantum: Bytes::ZERO,
        ..slow
    });
    put(&mut by_quanta, 1, 4, MTU, Instant::ZERO);
    assert_eq!(times(&mut by_quanta, Instant::ZERO), [0, 0, 48_448, 48_448]);
}

#[test]
fn no_packet_costs_more_than_a_second() {
    let mut queue = fq(Config {
        maxrate: Some(Rate::bytes_per_sec(1)),
        ..exact()
    });
    put(&mut queue, 1, 3, MTU, Instant::ZERO);
    assert_eq!(times(&mut queue, Instant::ZERO), [0, 1_000_000, 2_000_000]);
    assert_eq!(queue.inner().stats().pkts_too_long, 3);
    let mut unpaced = fq(Config {
        maxrate: Some(Rate::bytes_per_sec(1)),
        pacing: false,
        ..exact()
    });
    put(&mut unpaced, 1, 30, MTU, Instant::ZERO);
    assert_eq!(times(&mut unpaced, Instant::ZERO), [0; 30]);
}

/// A late wake-up shortens the next delay by the lateness, but at most by half.
#[test]
fn lateness_is_made_up_for() {
    for (late, next) in [(2_000, 48_448), (40_000, 24_224 + 40_000 + 12_112)] {
        let mut queue = fq(Config {
            maxrate: Some(Rate::kbit(500)),
            ..exact()
        });
        put(&mut queue, 1, 3, MTU, Instant::ZERO);
        assert_eq!(take(&mut queue, Instant::ZERO).len(), 1);
        assert_eq!(take(&mut queue, us(24_224 + late)).len(), 1);
        assert_eq!(queue.ready_at(), Some(us(next)));
    }
}

#[test]
fn departures_are_kept_and_order_a_flow() {
    let mut queue = fq(exact());
    let mut drops = Drops::new();
    for (id, departure) in [
        (0, 500),
        (1, 300),
        (2, 0),
        (3, 300),
        (4, 100),
        (5, 500),
        (6, 700),
    ] {
        queue.enqueue(
            Probe::new(id).flow(1).departing(us(departure)),
            us(50),
            &mut drops,
        );
    }
    let left: Vec<_> = run(&mut queue, us(50))
        .into_iter()
        .map(|(time, packet)| (time / 1000, packet.id))
        .collect();
    assert_eq!(
        left,
        [
            (50, 2),
            (100, 4),
            (300, 1),
            (300, 3),
            (500, 0),
            (500, 5),
            (700, 6)
        ]
    );
}

/// With a departure named, a maxrate spaces packets one by one, from the first on.
#[test]
fn maxrate_holds_departures_back_too() {
    let mut queue = fq(Config {
        maxrate: Some(Rate::mbit(1)),
        ..exact()
    });
    for id in 0..3 {
        queue.enqueue(
            Probe::new(id).sized(1250).departing(us(1)),
            us(1),
            &mut Drops::new(),
        );
    }
    assert_eq!(times(&mut queue, us(1)), [1, 10_001, 20_001]);
}

/// A packet that may leave now is not held back by an earlier one of its flow that may not.
#[test]
fn a_throttled_flow_goes_on_for_an_earlier_packet() {
    for busy in [false, true] {
        let mut queue = fq(exact());
        let mut drops = Drops::new();
        queue.enqueue(Probe::new(0).flow(1).departing(us(900)), us(0), &mut drops);
        assert!(take(&mut queue, us(0)).is_empty());
        queue.enqueue(Probe::new(1).flow(1).departing(us(500)), us(0), &mut drops);
        assert_eq!(queue.ready_at(), Some(us(500)));
        if busy {
            queue.enqueue(Probe::new(2).flow(2).departing(us(1)), us(0), &mut drops);
        }
        queue.enqueue(Probe::new(3).flow(1), us(1), &mut drops);
        assert_eq!(
            take(&mut queue, us(1)),
            if busy { [2, 3].as_slice() } else { &[3] }
        );
        assert_eq!(take(&mut queue, us(500)), [1]);
        assert_eq!(queue.ready_at(), Some(us(900)));
        assert_eq!(take(&mut queue, us(900)), [0]);
    }
}

/// However often flows move forward, void entries do not pile up.
#[test]
fn moving_forward_leaves_little_behind() {
    let mut queue = Fq::new(Config {
        flow_limit: u32::MAX,
        ..exact()
    })
    .expect("valid");
    for id in 0..5000 {
        queue.enqueue(
            Probe::new(id).departing(us(20_000 - u64::from(id))),
            us(0),
            &mut Drops::new(),
        );
        assert!(take(&mut queue, us(0)).is_empty());
    }
    assert_eq!(
        (queue.throttled.len(), queue.ready_at()),
        (1, Some(us(15_001)))
    );
    assert_eq!(run(&mut queue, us(0)).len(), 5000);
    assert_eq!(queue.throttled.earliest(), None);
}

#[test]
fn what_lies_beyond_the_horizon_is_dropped_or_capped() {
    let far = || Probe::new(1).departing(Instant::from_secs(12));
    let (mut queue, mut drops) = (fq(exact()), Drops::new());
    queue.enqueue(far(), Instant::from_secs(1), &mut drops);
    queue.enqueue(
        Probe::new(2).departing(Instant::from_secs(11)),
        Instant::from_secs(1),
        &mut drops,
    );
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(1, DropReason::Horizon)]
    );
    assert_eq!(
        (queue.backlog().packets, queue.inner().stats().horizon_drops),
        (1, 1)
    );

    let mut queue = fq(Config {
        beyond_horizon: BeyondHorizon::Cap,
        ..exact()
    });
    queue.enqueue(far(), Instant::from_secs(1), &mut drops);
    assert_eq!(times(&mut queue, Instant::from_secs(1)), [11_000_000]);
    assert_eq!(queue.inner().stats().horizon_caps, 1);
}

#[test]
fn devices_that_delay_get_packets_early() {
    let mut queue = fq(Config {
        offload_horizon: Duration::from_micros(40),
        ..exact()
    });
    queue.enqueue(Probe::new(0).departing(us(100)), us(0), &mut Drops::new());
    assert!(take(&mut queue, us(59)).is_empty());
    assert_eq!(queue.ready_at(), Some(us(60)));
    assert_eq!(take(&mut queue, us(60)), [0]);
}

/// Deficit round robin by bytes: A's quantum is two packets, so is B's, of a third of the size.
#[test]
fn turns_are_shared_by_bytes() {
    let mut queue = fq(Config {
        initial_quantum: Bytes::new(3028),
        ..Config::linux()
    });
    put(&mut queue, 1, 6, MTU, us(0));
    put(&mut queue, 2, 16, 500, us(0));
    let order: String = run(&mut queue, us(0))
        .iter()
        .map(|(_, packet)| if packet.flow == 1 { 'A' } else { 'B' })
        .collect();
    assert_eq!(order, "AABBBBBBBAABBBBBBAABBB");
}

/// A flow that goes idle keeps its credit for the refill delay, here 14 bytes; then it has a whole
/// quantum. Linux counts ticks, from an odd one: with 100 a second, six of them.
#[test]
fn credit_is_refilled_after_a_pause() {
    for (hz, pause, first) in [
        (None, 40, 1),
        (None, 41, 2),
        (NonZeroU32::new(100), 59, 1),
        (NonZeroU32::new(100), 60, 2),
    ] {
        let mut queue = fq(Config {
            initial_quantum: Bytes::new(1528),
            hz,
            ..Config::linux()
        });
        put(&mut queue, 1, 1, MTU, us(0));
        put(&mut queue, 3, 1, MTU, us(0));
        take(&mut queue, us(0));
        let now = Instant::from_millis(pause);
        put(&mut queue, 1, 3, MTU, now);
        put(&mut queue, 2, 3, MTU, now);
        let left: Vec<u64> = run(&mut queue, now)
            .into_iter()
            .map(|(_, packet)| packet.flow)
            .collect();
        assert_eq!(
            left.iter().take_while(|&&flow| flow == 1).count(),
            first,
            "{hz:?}: {left:?}"
        );
    }
}

/// Linux up to 6.6, seen in traces: a debt outlasts any pause, and while nothing is queued no
/// flow's turn ends.
#[test]
fn linux_keeps_debts() {
    for (linux, flow) in [(true, 2), (false, 1)] {
        let quanta = Config {
            quantum: Bytes::new(1000),
            initial_quantum: Bytes::new(1000),
            ..exact()
        };
        let config = if linux {
            Config {
                hz: None,
                ..Config::linux()
            }
        } else {
            quanta.clone()
        };
        let Config {
            quantum,
            initial_quantum,
            ..
        } = quanta;
        let mut queue = fq(Config {
            quantum,
            initial_quantum,
            maxrate: Some(Rate::gbit(100)),
            ..config
        });
        put(&mut queue, 1, 1, 2500, us(0));
        take(&mut queue, us(0));
        put(&mut queue, 3, 1, 100, us(1));
        take(&mut queue, us(1));
        let now = Instant::from_secs(2);
        put(&mut queue, 1, 1, 100, now);
        put(&mut queue, 2, 1, 100, now);
        assert_eq!(
            queue
                .dequeue(now, &mut Drops::new())
                .map(|packet| packet.flow),
            Some(flow),
            "linux {linux}"
        );
    }
}

#[test]
fn bands_share_by_weight() {
    let mut queue = fq(Config {
        limit: u32::MAX,
        flow_limit: u32::MAX,
        ..Config::default()
    });
    let mut drops = Drops::new();
    for id in 0..3000 {
        for (flow, priority) in [(1, 2), (2, 0), (3, 6)] {
            queue.enqueue(
                Probe::new(id)
                    .flow(flow)
                    .sized(1024)
                    .with_priority(priority),
                us(0),
                &mut drops,
            );
        }
    }
    let mut sent = [0; 3];
    for _ in 0..SHORT_CUT {
        queue.dequeue(us(0), &mut drops);
    }
    for _ in 0..2 * 13 * 64 {
        sent[queue.dequeue(us(0), &mut drops).expect("backlogged").flow as usize - 1] += 1;
    }
    assert_eq!(sent, [2 * 64, 2 * 3 * 64, 2 * 9 * 64]);
}

/// A band in deep debt, alone, is served all the same: the search for credit goes on until it is
/// paid.
#[test]
fn debt_does_not_stop_a_band() {
    let weights = [Bytes::kib(16); BANDS];
    let mut queue = fq(Config {
        priorities: Priorities::Bands(Weighted {
            weights,
            ..Weighted::default()
        }),
        flow_limit: u32::MAX,
        ..Config::default()
    });
    put(&mut queue, 1, 40, u32::MAX, us(0));
    assert_eq!(times(&mut queue, us(0)), [0; 40]);
}

#[test]
fn limits_are_per_band_and_per_flow() {
    let (mut queue, mut drops) = (
        fq(Config {
            limit: 3,
            flow_limit: 2,
            ..exact()
        }),
        Drops::new(),
    );
    let later = us(100);
    for (id, flow, priority) in [
        (0, 1, 0),
        (1, 1, 0),
        (2, 1, 0),
        (3, 2, 0),
        (4, 3, 0),
        (5, 4, 6),
        (6, 5, 7),
    ] {
        queue.enqueue(
            Probe::new(id)
                .flow(flow)
                .with_priority(priority)
                .departing(later),
            us(0),
            &mut drops,
        );
    }
    let dropped: Vec<_> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(
        dropped,
        [(2, DropReason::FlowLimit), (4, DropReason::Overlimit)]
    );
    assert_eq!(queue.inner().stats().band_packets, [2, 3, 0]);
    assert_eq!(queue.inner().stats().band_drops, [0, 1, 0]);
    assert_eq!(queue.inner().stats().flows_plimit, 1);
}

/// Without bands one limit counts everything, and priority 7 is served before all flows whatever
/// their credit.
#[test]
fn the_older_form_has_one_limit_and_a_queue_for_control() {
    let (mut queue, mut drops) = (
        fq(Config {
            limit: 4,
            ..Config::linux()
        }),
        Drops::new(),
    );
    for (id, priority) in [(0, 0), (1, 7), (2, 6), (3, 7), (4, 7)] {
        queue.enqueue(
            Probe::new(id).flow(id.into()).with_priority(priority),
            us(0),
            &mut drops,
        );
    }
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [4]);
    assert_eq!(queue.inner().stats().internal, 2);
    assert_eq!(take(&mut queue, us(0)), [1, 3, 0, 2]);
}

#[test]
fn the_short_cut_is_taken_only_past_nothing_that_is_due() {
    let (mut queue, mut drops) = (fq(exact()), Drops::new());
    queue.enqueue(Probe::new(0).flow(1).departing(us(50)), us(0), &mut drops);
    assert!(take(&mut queue, us(0)).is_empty());
    // The only flow is throttled: eight packets pass by, the ninth has a flow.
    put(&mut queue, 2, 9, MTU, us(1));
    assert_eq!(
        (queue.inner().stats().internal, queue.inner().stats().flows),
        (8, 2)
    );
    assert_eq!(take(&mut queue, us(1)), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    // The throttled flow is overdue: nobody passes.
    put(&mut queue, 2, 1, MTU, us(50));
    assert_eq!(queue.inner().stats().internal, 8);
    let flows: Vec<u64> = run(&mut queue, us(50))
        .into_iter()
        .map(|(_, packet)| packet.flow)
        .collect();
    assert_eq!(flows, [2, 1]);
    // Everybody is paced: nobody passes.
    let mut paced = fq(Config {
        maxrate: Some(Rate::mbit(1)),
        ..exact()
    });
    put(&mut paced, 2, 1, MTU, us(50));
    assert_eq!(paced.inner().stats().internal, 0);
}

#[test]
fn late_packets_are_marked() {
    let (mut queue, mut drops) = (
        fq(Config {
            ce_threshold: Some(Duration::from_micros(10)),
            ..exact()
        }),
        Drops::new(),
    );
    for (id, tos, departure) in [(0, 2, 5), (1, 2, 6), (2, 0, 5)] {
        queue.enqueue(
            Probe::new(id)
                .flow(id.into())
                .tos(tos)
                .departing(us(departure)),
            us(0),
            &mut drops,
        );
    }
    let marked: Vec<_> = core::iter::from_fn(|| queue.dequeue(us(16), &mut drops))
        .map(|packet| (packet.id, packet.tos))
        .collect();
    assert_eq!(marked, [(0, 3), (1, 2), (2, 0)]);
    assert_eq!(queue.inner().stats().ce_mark, 1);
}

/// A mask folds flows together.
#[test]
fn masked_hashes_share_queues() {
    for (orphan_mask, flows) in [(None, 2), (Some(1023), 1)] {
        let mut queue = fq(Config {
            orphan_mask,
            ..Config::default()
        });
        for flow in [1, 1, 1025] {
            queue.enqueue(
                Probe::new(0).flow(flow).departing(us(9)),
                us(0),
                &mut Drops::new(),
            );
        }
        assert_eq!(queue.inner().stats().flows, flows);
    }
}

/// Flows that went away are forgotten in time.
#[test]
fn idle_flows_are_forgotten() {
    let mut queue = fq(Config {
        buckets: 8,
        ..Config::linux()
    });
    for second in 0..1000 {
        put(&mut queue, second, 1, MTU, Instant::from_secs(second));
        take(&mut queue, Instant::from_secs(second));
    }
    let Stats {
        flows, forgotten, ..
    } = queue.inner().stats();
    assert!(flows <= 17, "{flows}");
    assert_eq!(forgotten, 1000 - flows as u64);
}

#[test]
fn empty_packets_do_not_stop_the_others() {
    let mut queue = fq(Config {
        initial_quantum: Bytes::new(64),
        quantum: Bytes::new(64),
        flow_limit: 1000,
        ..Config::linux()
    });
    put(&mut queue, 1, 500, 0, us(0));
    put(&mut queue, 2, 1, MTU, us(0));
    let left = run(&mut queue, us(0));
    assert_eq!(
        left.iter().position(|(_, packet)| packet.flow == 2),
        Some(64)
    );
}

#[test]
fn a_million_flows() {
    let mut queue = fq(Config {
        limit: u32::MAX,
        buckets: 1,
        ..Config::default()
    });
    let mut drops = Drops::new();
    for flow in 0..1_000_000 {
        queue.enqueue(Probe::new(0).flow(flow).departing(us(1)), us(0), &mut drops);
    }
    assert_eq!(queue.inner().stats().flows, 1_000_000);
    assert_eq!(take(&mut queue, us(1)).len(), 1_000_000);
}

#[test]
fn a_live_change_drops_what_no_longer_fits_and_paces_anew() {
    let (mut queue, mut drops) = (
        fq(Config {
            maxrate: Some(Rate::mbit(1)),
            ..exact()
        }),
        Drops::new(),
    );
    for flow in 1..=3 {
        put(&mut queue, flow, 12, MTU, us(0));
    }
    assert_eq!(take(&mut queue, us(0)).len(), 30);
    let mut change = |queue: &mut Ledger<Fq<Probe>>, edit: fn(&mut Config)| {
        let result = queue.edit(us(1), &mut drops, edit);
        result.map(|()| {
            drops
                .drain()
                .map(|(packet, reason)| (packet.flow, packet.id, reason))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(
        change(&mut queue, |config| config.limit = 4).expect("valid"),
        [
            (1, 10, DropReason::Overlimit),
            (2, 10, DropReason::Overlimit)
        ]
    );
    assert_eq!(
        change(&mut queue, |config| (config.limit, config.flow_limit) =
            (9, 1))
        .expect("valid"),
        [(3, 10, DropReason::FlowLimit)]
    );
    assert_eq!(
        change(&mut queue, |config| config.buckets = 1).expect("valid"),
        []
    );
    let refused: [(&str, Change<Config>); 4] = [
        ("orphan_mask", |config| config.orphan_mask = Some(7)),
        ("linux", |config| {
            config.priorities = Priorities::Control;
        }),
        ("quantum", |config| config.quantum = Bytes::new(1)),
        ("weights", |config| {
            let Priorities::Bands(Weighted { weights, .. }) = &mut config.priorities else {
                panic!("bands are the default")
            };
            *weights = [Bytes::new(1); BANDS];
        }),
    ];
    for (parameter, edit) in refused {
        let error = change(&mut queue, edit).expect_err(parameter);
        assert_eq!(error.parameter, parameter);
    }
    assert_eq!(
        (queue.backlog().packets, take(&mut queue, us(2))),
        (3, vec![])
    );
    change(&mut queue, |config| {
        (config.maxrate, config.flow_limit) = (None, 2);
    })
    .expect("valid");
    put(&mut queue, 1, 1, MTU, us(3));
    assert_eq!(take(&mut queue, us(3)), [11, 0, 11, 11]);
}

/// Flows lose packets before the control queue does.
#[test]
fn the_older_form_shrinks() {
    let (mut queue, mut drops) = (fq(Config::linux()), Drops::new());
    for id in 0..6 {
        queue.enqueue(
            Probe::new(id).with_priority(if id < 4 { 7 } else { 0 }),
            us(0),
            &mut drops,
        );
    }
    queue
        .edit(us(0), &mut drops, |config| config.limit = 1)
        .expect("valid");
    assert_eq!(
        ids(drops.drain().map(|(packet, _)| packet)),
        [4, 5, 0, 1, 2]
    );
    assert_eq!(take(&mut queue, us(0)), [3]);
}

#[test]
fn bad_parameters_are_named() {
    let bands = |weighted| Config {
        priorities: Priorities::Bands(weighted),
        ..Config::default()
    };
    for (config, parameter) in [
        (
            Config {
                quantum: Bytes::new(63),
                ..Config::default()
            },
            "quantum",
        ),
        (
            Config {
                initial_quantum: Bytes::mib(1025),
                ..Config::default()
            },
            "initial_quantum",
        ),
        (
            Config {
                buckets: 0,
                ..Config::default()
            },
            "buckets",
        ),
        (
            Config {
                buckets: 262_145,
                ..Config::default()
            },
            "buckets",
        ),
        (
            bands(Weighted {
                priomap: [3; 16],
                ..Weighted::default()
            }),
            "priomap",
        ),
        (
            bands(Weighted {
                weights: [Bytes::kib(16), Bytes::kib(16), Bytes::new(16_383)],
                ..Weighted::default()
            }),
            "weights",
        ),
        (
            bands(Weighted {
                weights: [Bytes::mib(2048); 3],
                ..Weighted::default()
            }),
            "weights",
        ),
    ] {
        assert_eq!(
            Fq::<Probe>::new(config).err().map(|error| error.parameter),
            Some(parameter)
        );
    }
}
