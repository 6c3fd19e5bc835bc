//! fq_codel against the worked examples of `net/sched/sch_fq_codel.c` and ns-3's suite.

use core::time::Duration;
use std::collections::VecDeque;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::codel::CeThreshold;
use crate::drr_plus::{Flow, List};
use crate::testing::{Change, Edit, put};
use std::string::String;
use tautline_testkit::{Probe, ids};

const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// An fq_codel and `N` flow hashes that fall into queues of their own.
fn with_flows<const N: usize>(config: Config) -> (FqCodel<Probe>, [u64; N]) {
    let queue = FqCodel::new(config).expect("valid");
    let hashes = queue.queues.hashes_apart();
    (queue, hashes)
}

impl FqCodel<Probe> {
    fn flow(&self, hash: u64) -> &Flow<State> {
        self.queues.peek(self.queues.queue_of(hash))
    }

    fn packets_of(&self, hash: u64) -> usize {
        self.queues.packets_of(self.queues.queue_of(hash))
    }
}

fn config(quantum: u64) -> Config {
    Config {
        quantum: Bytes::new(quantum),
        ..Config::default()
    }
}

/// `net/sched/sch_fq_codel.c`, worked by hand, quantum 1514: A B B B B A B B B A B B B A.
#[test]
fn turns_are_shared_by_bytes() {
    let (mut queue, [a, b]) = with_flows(config(1514));
    put(&mut queue, a, 10, 1514);
    put(&mut queue, b, 30, 500);
    let mut order = Vec::new();
    let mut deficits = Vec::new();
    for _ in 0..14 {
        let packet = queue.dequeue(ms(1), &mut Drops::new()).expect("queued");
        order.push(if packet.flow == a { 'A' } else { 'B' });
        if packet.flow == b {
            deficits.push(queue.flow(b).deficit);
        }
    }
    assert_eq!(order.iter().collect::<String>(), "ABBBBABBBABBBA");
    assert_eq!(
        deficits,
        [1014, 514, 14, -486, 528, 28, -472, 542, 42, -458]
    );
}

/// `net/sched/sch_fq_codel.c`, worked by hand, quantum 300: A B B B A B B B, and A at −1214, −1228,
/// −1242.
#[test]
fn a_small_quantum_gives_the_same_shares() {
    let (mut queue, [a, b]) = with_flows(config(300));
    put(&mut queue, a, 10, 1514);
    put(&mut queue, b, 30, 500);
    let mut order = Vec::new();
    let mut deficits = Vec::new();
    for _ in 0..9 {
        let packet = queue.dequeue(ms(1), &mut Drops::new()).expect("queued");
        order.push(if packet.flow == a { 'A' } else { 'B' });
        if packet.flow == a {
            deficits.push(queue.flow(a).deficit);
        }
    }
    assert_eq!(order.iter().collect::<String>(), "ABBBABBBA");
    assert_eq!(deficits, [-1214, -1228, -1242]);
}

/// ns-3's FQ-CoDel suite: quantum 90, packets of 120 bytes; the deficits and lists after each
/// dequeue.
#[test]
fn deficits_and_lists_follow_the_ns3_suite() {
    let (mut queue, [a, b]) = with_flows(config(90));
    put(&mut queue, a, 1, 120);
    assert_eq!((queue.flow(a).deficit, queue.flow(a).list), (90, List::New));
    let next = |queue: &mut FqCodel<Probe>| {
        queue
            .dequeue(ms(1), &mut Drops::new())
            .map(|packet| packet.flow)
    };
    assert_eq!(next(&mut queue), Some(a));
    assert_eq!(
        (queue.flow(a).deficit, queue.flow(a).list),
        (-30, List::New)
    );
    put(&mut queue, a, 2, 120);
    put(&mut queue, b, 2, 120);
    assert_eq!((queue.flow(b).deficit, queue.flow(b).list), (90, List::New));
    let both = |queue: &FqCodel<Probe>| {
        [a, b].map(|flow| (queue.flow(flow).deficit, queue.flow(flow).list))
    };
    let steps = [
        (b, [(60, List::Old), (-30, List::New)]),
        (a, [(-60, List::Old), (60, List::Old)]),
        (b, [(30, List::Old), (-60, List::Old)]),
        (a, [(-90, List::Old), (30, List::Old)]),
    ];
    for (flow, expected) in steps {
        assert_eq!(next(&mut queue), Some(flow));
        assert_eq!(both(&queue), expected);
    }
    assert_eq!(next(&mut queue), None);
    assert_eq!(both(&queue).map(|(_, list)| list), [List::Idle; 2]);
    put(&mut queue, a, 1, 120);
    assert_eq!(
        (queue.flow(a).deficit, queue.flow(a).list),
        (90, List::New),
        "a debt is forgiven on return"
    );
}

/// RFC 8290 §4.2: a new flow that ran empty waits among the old ones, so that it cannot come back
/// as new forever.
#[test]
fn a_flow_that_ran_empty_does_not_stay_ahead_of_the_old_ones() {
    let (mut queue, [sparse, bulk]) = with_flows(config(1514));
    put(&mut queue, bulk, 20, 500);
    let next = |queue: &mut FqCodel<Probe>| {
        queue
            .dequeue(ms(1), &mut Drops::new())
            .map(|packet| packet.flow)
    };
    (0..5).for_each(|_| assert_eq!(next(&mut queue), Some(bulk)));
    assert_eq!(
        (queue.flow(bulk).list, queue.flow(bulk).deficit),
        (List::Old, 528)
    );
    put(&mut queue, sparse, 1, 100);
    assert_eq!(
        [next(&mut queue), next(&mut queue)],
        [Some(sparse), Some(bulk)]
    );
    assert_eq!(queue.flow(sparse).list, List::Old);
    put(&mut queue, sparse, 1, 100);
    assert_eq!(
        [next(&mut queue), next(&mut queue)],
        [Some(bulk), Some(sparse)],
        "in its turn, not ahead"
    );
    assert_eq!(next(&mut queue), Some(bulk));
    assert_eq!(queue.flow(sparse).list, List::Idle);
}

/// Linux, seen in traces: while no flow is old, a new flow that ran empty is forgotten and comes
/// back with a full quantum; by RFC 8290 it comes back with what is left.
#[test]
fn a_flow_that_ran_empty_among_new_ones_waits_or_is_forgotten() {
    for (emptied, list, deficit) in [
        (Emptied::Waits, List::Old, 314),
        (Emptied::Forgotten, List::New, 1514),
    ] {
        let (mut queue, [a, b]) = with_flows(Config {
            emptied,
            ..config(1514)
        });
        put(&mut queue, a, 1, 1200);
        put(&mut queue, b, 2, 1000);
        let next = |queue: &mut FqCodel<Probe>| {
            queue
                .dequeue(ms(1), &mut Drops::new())
                .map(|packet| packet.flow)
        };
        assert_eq!([next(&mut queue), next(&mut queue)], [Some(a), Some(b)]);
        put(&mut queue, a, 1, 1200);
        assert_eq!(
            (queue.flow(a).list, queue.flow(a).deficit),
            (list, deficit),
            "{emptied}"
        );
    }
}

/// ns-3's FQ-CoDel suite: limit 4; after A A A B the fifth packet costs the fattest flow half its
/// bytes.
#[test]
fn the_fattest_flow_pays_as_in_the_ns3_suite() {
    let (mut queue, [a, b]) = with_flows(Config {
        limit: 4,
        ..config(1500)
    });
    put(&mut queue, a, 3, 1000);
    put(&mut queue, b, 1, 1000);
    let drops = put(&mut queue, b, 1, 1000);
    assert_eq!(drops.len(), 2);
    assert_eq!(
        [
            queue.backlog().packets,
            queue.packets_of(a),
            queue.packets_of(b)
        ],
        [3, 1, 2]
    );
}

/// `net/sched/sch_fq_codel.c`, worked by hand: limit 50, half of A's bytes go; A's CoDel counts
/// them.
#[test]
fn half_of_the_fattest_flow_is_dropped_from_its_head() {
    for (of_a, dropped) in [(31, 16), (20, 10)] {
        let (mut queue, [a, b, c]) = with_flows(Config {
            limit: 50,
            ..Config::default()
        });
        put(&mut queue, a, of_a, 1514);
        put(&mut queue, c, 50 - 5 - of_a, 1000);
        put(&mut queue, b, 5, 500);
        assert_eq!(queue.backlog().packets, 50);
        let mut drops = put(&mut queue, b, 1, 500);
        assert_eq!(
            (drops.len(), queue.packets_of(a)),
            (dropped, of_a - dropped)
        );
        assert!(
            drops
                .drain()
                .all(|(packet, reason)| packet.flow == a && reason == DropReason::Overlimit)
        );
        assert_eq!(queue.flow(a).aqm.count() as usize, dropped);
        assert_eq!(
            (
                queue.limit_drops.overlimit as usize,
                queue.limit_drops.overmemory
            ),
            (dropped, 0)
        );
        let out = core::iter::from_fn(|| queue.dequeue(ms(1), &mut Drops::new())).count();
        assert_eq!(out, 51 - dropped);
    }
}

/// `net/sched/sch_fq_codel.c`: `tc`'s counters, after worked 2 and two turns; the largest packet is
/// the largest that came through.
#[test]
fn the_counters_tell_what_happened() {
    let (mut queue, [a, b, c]) = with_flows(Config {
        limit: 50,
        ..Config::default()
    });
    put(&mut queue, a, 31, 1514);
    put(&mut queue, c, 14, 1000);
    put(&mut queue, b, 6, 500);
    let counters = |queue: &FqCodel<Probe>| {
        let counts = queue.queues();
        let drops = queue.limit_drops();
        (
            [drops.overlimit, drops.overmemory, counts.new_flow_count],
            [counts.new_flows_len, counts.old_flows_len],
            counts.memory_used.get(),
        )
    };
    let memory = 15 * 1514 + 14 * 1000 + 6 * 500;
    assert_eq!(counters(&queue), ([16, 0, 3], [3, 0], memory));
    let turns = [a, c].map(|flow| {
        (
            flow,
            queue
                .dequeue(ms(1), &mut Drops::new())
                .expect("queued")
                .flow,
        )
    });
    assert!(turns.iter().all(|(expected, flow)| expected == flow));
    assert_eq!(counters(&queue), ([16, 0, 3], [2, 1], memory - 2514));
    assert_eq!(
        (queue.stats().max_packet, queue.stats().delay()),
        (Bytes::new(1514), Duration::from_millis(1))
    );
}

/// A lowered limit costs the fattest flow its oldest packets, half of its bytes at a time; a
/// refused change changes nothing.
#[test]
fn a_lowered_limit_is_paid_by_the_fattest_flow() {
    let (mut queue, [a, b]) = with_flows(Config::default());
    let mut drops = Drops::new();
    for id in 0..25 {
        queue.enqueue(
            Probe::new(id).flow(if id < 20 { a } else { b }),
            Instant::ZERO,
            &mut drops,
        );
    }
    let refused: [(&str, Change<Config>); 4] = [
        ("flows", |config| config.flows = 7),
        ("perturbation", |config| config.perturbation = Some(7)),
        ("drop_batch", |config| config.drop_batch = 0),
        ("interval", |config| config.codel.interval = Duration::ZERO),
    ];
    for (parameter, edit) in refused {
        let error = queue
            .edit(Instant::ZERO, &mut drops, |config| {
                config.limit = 10;
                edit(config);
            })
            .expect_err(parameter);
        assert_eq!(error.parameter, parameter);
        assert_eq!(
            (queue.backlog().packets, &queue.config),
            (25, &Config::default()),
            "{parameter}"
        );
    }
    queue
        .edit(Instant::ZERO, &mut drops, |config| {
            (config.limit, config.quantum) = (10, Bytes::new(300));
            config.codel.target = Duration::from_millis(7);
        })
        .expect("valid");
    assert!(
        drops
            .iter()
            .all(|(_, reason)| *reason == DropReason::Overlimit)
    );
    assert!(
        ids(drops.drain().map(|(packet, _)| packet))
            .into_iter()
            .eq(0..15)
    );
    assert_eq!(
        (
            queue.packets_of(a),
            queue.packets_of(b),
            queue.limit_drops.overlimit
        ),
        (5, 5, 15)
    );
    assert_eq!(queue.aqm.params().target, Duration::from_millis(7));
    let order: Vec<_> = (0..4)
        .map(|_| {
            queue
                .dequeue(ms(1), &mut Drops::new())
                .expect("queued")
                .flow
        })
        .collect();
    assert_eq!(order, [a, b, a, b]);
    assert_eq!(
        queue.flow(b).deficit,
        -1214,
        "the second turn was worth the new quantum"
    );
}

/// `net/sched/sch_fq_codel.c`, worked by hand: a batch of 64 ends it although half would be 150.
#[test]
fn a_batch_bounds_the_drops() {
    let (mut queue, [a]) = with_flows(Config {
        limit: 299,
        ..Config::default()
    });
    let drops = put(&mut queue, a, 300, 1514);
    assert_eq!((drops.len(), queue.backlog().packets), (64, 236));
    assert_eq!(
        drops.iter().map(|(packet, _)| packet.len()).sum::<Bytes>(),
        Bytes::new(96_896)
    );
    let (mut queue, [a]) = with_flows(Config {
        limit: 299,
        drop_batch: 1,
        ..Config::default()
    });
    assert_eq!(put(&mut queue, a, 300, 1514).len(), 1);
}

/// tdc a4bb: memory_limit 1, flows 1: everything is dropped and the account stays right. Empty
/// packets fit any memory.
#[test]
fn the_memory_limit_holds_after_every_call() {
    let tiny = Config {
        memory_limit: Bytes::new(1),
        flows: 1,
        ..Config::default()
    };
    let (mut queue, [a]) = with_flows(tiny);
    let mut drops = put(&mut queue, a, 3, 1514);
    assert!(
        drops
            .drain()
            .all(|(_, reason)| reason == DropReason::Memory)
    );
    assert_eq!(
        (queue.backlog(), queue.limit_drops.overmemory),
        (Backlog::default(), 3)
    );
    assert!(put(&mut queue, a, 3, 0).is_empty());
    // One batch of small packets does not make room for a large one: 25 000 bytes must go, in four
    // batches of 6400.
    let (mut queue, [a, b]) = with_flows(Config {
        memory_limit: Bytes::new(65_000),
        ..Config::default()
    });
    put(&mut queue, a, 600, 100);
    put(&mut queue, b, 1, 30_000);
    assert!(queue.queues.memory() <= Bytes::new(65_000));
    assert_eq!(queue.packets_of(a), 600 - 4 * 64);
}

/// ns-3's FQ-CoDel suite: 5 flows of 20 packets, 60 dequeues 110 ms apart: the ECT flows have 6
/// marks each, the others 4 drops. ns-3 uses Linux's law, whose fourth signal comes earlier than
/// the exact one.
#[test]
fn marks_and_drops_follow_the_ns3_suite() {
    for (law, drops_each) in [(Law::Linux, 4), (Law::Rfc8289, 3)] {
        let codel = Params {
            law,
            ecn: true,
            ..Params::default()
        };
        let (mut queue, flows) = with_flows::<5>(Config {
            codel,
            ..Config::default()
        });
        let mut drops = Drops::new();
        for _ in 0..20 {
            for (position, flow) in flows.into_iter().enumerate() {
                let tos = if position < 3 { ECT0 } else { 0 };
                queue.enqueue(
                    Probe::new(position as u32).flow(flow).sized(120).tos(tos),
                    Instant::ZERO,
                    &mut drops,
                );
            }
        }
        let mut marks = [0; 5];
        for step in 1..=60 {
            let packet = queue.dequeue(ms(110 * step), &mut drops).expect("queued");
            marks[packet.id as usize] += u32::from(packet.tos == CE);
        }
        let mut lost = [0; 5];
        for id in ids(drops.drain().map(|(packet, _)| packet)) {
            lost[id as usize] += 1;
        }
        assert_eq!(
            (marks, lost),
            ([6, 6, 6, 0, 0], [0, 0, 0, drops_each, drops_each]),
            "{law}"
        );
    }
}

/// A CE threshold for ECT(1) marks every packet of that kind that waited longer, and leaves ECT(0)
/// to the law.
#[test]
fn the_ce_threshold_selects_its_packets() {
    let ce_threshold = Some(CeThreshold {
        delay: Duration::from_millis(2),
        mask: 3,
        selector: 1,
    });
    let codel = Params {
        ecn: true,
        ce_threshold,
        ..Params::default()
    };
    let (mut queue, [scalable, classic]) = with_flows(Config {
        codel,
        ..Config::default()
    });
    let mut marks = [0, 0];
    for millis in 0..70 {
        for (flow, tos) in [(scalable, ECT1), (classic, ECT0)] {
            queue.enqueue(
                Probe::new(0).flow(flow).tos(tos),
                ms(millis),
                &mut Drops::new(),
            );
        }
        let packet = queue
            .dequeue(ms(millis), &mut Drops::new())
            .expect("queued");
        marks[usize::from(packet.flow == classic)] += u32::from(packet.tos == CE);
    }
    // The k-th packet of each flow leaves after k milliseconds in the queue: 35 leave, those with k
    // ≤ 2 unmarked.
    assert_eq!(marks, [32, 0]);
}

/// A flow that holds less than one MTU is not signaled for a backlog that others cause, unless the
/// scope is Linux's.
#[test]
fn the_scope_of_the_backlog_decides_for_a_thin_flow() {
    for (backlog, signalled) in [(BacklogScope::Queue, false), (BacklogScope::Qdisc, true)] {
        let (mut queue, [thin, bulk]) = with_flows(Config {
            backlog,
            ..Config::default()
        });
        put(&mut queue, thin, 3, 100);
        put(&mut queue, bulk, 100, 1514);
        let mut drops = Drops::new();
        for millis in [10, 10, 300, 300] {
            queue.dequeue(ms(millis), &mut drops).expect("queued");
        }
        assert_eq!(
            drops.drain().any(|(packet, _)| packet.flow == thin),
            signalled,
            "{backlog}"
        );
    }
}

/// Effect: one packet each 20 ms beside a flow that keeps 100 packets queued on a link of one
/// packet per millisecond.
#[test]
fn a_sparse_flow_passes_a_backlog_that_delays_it_in_a_fifo() {
    let unruly = Params {
        target: Duration::from_secs(1000),
        ..Params::default()
    };
    let (fair, [sparse, bulk]) = with_flows(Config {
        codel: unruly,
        ..Config::default()
    });
    let fifo = crate::Pfifo::new(crate::pfifo::Config::default());
    assert!(worst_delay(fair, sparse, bulk) <= Duration::from_millis(1));
    assert!(worst_delay(fifo, sparse, bulk) >= Duration::from_millis(99));
}

fn worst_delay(mut queue: impl Qdisc<Probe>, sparse: u64, bulk: u64) -> Duration {
    let (mut worst, mut drops) = (Duration::ZERO, Drops::new());
    for millis in 0..1000 {
        while queue.backlog().packets < 100 {
            queue.enqueue(Probe::new(0).flow(bulk), ms(millis), &mut drops);
        }
        if millis % 20 == 0 {
            queue.enqueue(
                Probe::new(1).flow(sparse).sized(100),
                ms(millis),
                &mut drops,
            );
        }
        let packet = queue.dequeue(ms(millis), &mut drops).expect("queued");
        if packet.flow == sparse {
            worst = worst.max(ms(millis) - packet.enqueued());
        }
    }
    worst
}

/// SplitMix64 from seed 0, its first three numbers as published; each is the mix of a multiple of
/// the golden ratio.
#[test]
fn hashes_are_mixed_by_splitmix64() {
    let golden = 0x9e37_79b9_7f4a_7c15_u64;
    let outputs = [
        0xe220_a839_7b1d_cdaf,
        0x6e78_9e6a_a1b9_65f4,
        0x06c4_5d18_8009_454f,
    ];
    assert_eq!(
        [0, 1, 2].map(|n| crate::drr_plus::mix(golden.wrapping_mul(n))),
        outputs
    );
}

/// `net/sched/sch_fq_codel.c`: Linux's arithmetic, the backlog of all queues before CoDel, new
/// flows that are forgotten; the rest is the same.
#[test]
fn linux_differs_in_three_things() {
    let codel = Params {
        law: Law::Linux,
        ..Config::default().codel
    };
    let linux = Config {
        codel,
        backlog: BacklogScope::Qdisc,
        emptied: Emptied::Forgotten,
        ..Config::default()
    };
    assert_eq!(linux, Config::linux());
}

/// Another secret puts the flows into other queues; the same secret into the same. Instances that
/// are given none draw one each.
#[test]
fn the_perturbation_moves_flows() {
    let queues = |perturbation| {
        let queue = FqCodel::<Probe>::new(Config {
            perturbation,
            ..Config::default()
        })
        .expect("valid");
        (0..1000)
            .map(|hash| queue.queues.queue_of(hash).get())
            .collect::<Vec<_>>()
    };
    assert_eq!(queues(Some(1)), queues(Some(1)));
    let stay = |one: Vec<usize>, other: Vec<usize>| {
        let pairs = one.into_iter().zip(other);
        pairs.filter(|(one, other)| one == other).count()
    };
    for same in [
        stay(queues(Some(1)), queues(Some(2))),
        stay(queues(None), queues(None)),
        stay(queues(None), queues(Some(0))),
    ] {
        assert!(same < 20, "{same} of 1000 flows stayed");
    }
    let mut counts = [0; 1024];
    queues(Some(3))
        .into_iter()
        .for_each(|queue| counts[queue] += 1);
    assert!(
        counts.iter().max() <= Some(&8),
        "consecutive hashes spread over the queues"
    );
}

/// A flow as RFC 8290 §4 describes it: lengths of its packets, and its deficit.
#[derive(Default)]
struct Turns {
    packets: VecDeque<u32>,
    deficit: i64,
    is_listed: bool,
}

/// The scheduler of RFC 8290 §4.2, turn by turn; lists of flows by number.
#[derive(Default)]
struct Walk {
    flows: [Turns; 3],
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl Walk {
    fn enqueue(&mut self, at: usize, len: u32, quantum: i64) {
        let flow = &mut self.flows[at];
        flow.packets.push_back(len);
        if !flow.is_listed {
            (flow.is_listed, flow.deficit) = (true, quantum);
            self.new.push_back(at);
        }
    }

    fn dequeue(&mut self, quantum: i64) -> Option<(usize, u32)> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            let flow = &mut self.flows[at];
            if flow.deficit <= 0 {
                flow.deficit += quantum;
                list.pop_front();
                self.old.push_back(at);
            } else if let Some(len) = flow.packets.pop_front() {
                flow.deficit -= i64::from(len);
                return Some((at, len));
            } else {
                list.pop_front();
                if is_new {
                    self.old.push_back(at);
                } else {
                    flow.is_listed = false;
                }
            }
        }
    }
}

proptest! {
    /// Beside a scheduler that takes every turn: the same packets and deficits. A flow that is alone
    /// gets the quanta of all its turns at once.
    #[test]
    fn turns_that_are_skipped_change_nothing(
        quantum in 64..1600u64, events in vec((0..3usize, 1..3000u32, 0..3u8), 0..100),
    ) {
        let (mut queue, hashes) = with_flows::<3>(config(quantum));
        let (mut walk, mut drops) = (Walk::default(), Drops::new());
        let turn = quantum as i64;
        for (flow, len, takes) in events {
            put(&mut queue, hashes[flow], 1, len);
            walk.enqueue(flow, len, turn);
            for _ in 0..takes {
                let got = queue.dequeue(Instant::ZERO, &mut drops);
                let got = got.map(|packet| (packet.flow, packet.len().get()));
                let expected = walk.dequeue(turn);
                prop_assert_eq!(got, expected.map(|(flow, len)| (hashes[flow], len.into())));
                for (flow, hash) in walk.flows.iter().zip(hashes) {
                    prop_assert_eq!(i64::from(queue.flow(hash).deficit), flow.deficit);
                }
            }
        }
        prop_assert!(drops.is_empty());
    }
}
