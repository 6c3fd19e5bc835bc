//! SFQ's turns, its choice of victims, its keys, RED on its flows; and a plain model of the whole.

use core::time::Duration;

use super::*;
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use crate::red::Params;
use crate::testing::Edit;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::collection::vec;
use proptest::prelude::*;
use tautline_testkit::{Probe, ids};

const ECT0: u8 = 2;
const CE: u8 = 3;
const START: Instant = Instant::from_secs(1);

/// A queue whose first eight flows lie in buckets of their own.
fn sfq(config: Config) -> Ledger<Sfq<Probe>> {
    let queue = (0..)
        .map(|seed| {
            Sfq::<Probe>::new(Config {
                seed: Some(seed),
                divisor: 1024,
                ..config.clone()
            })
            .expect("valid")
        })
        .find(|queue| {
            let mut buckets: Vec<usize> = (0..8).map(|flow| queue.bucket_of(flow)).collect();
            buckets.sort_unstable();
            buckets.dedup();
            buckets.len() == 8
        });
    Ledger::new(queue.expect("some seed"))
}

/// Offers one packet per flow in `flows`, named by position; what is dropped, with its reason.
fn offer(queue: &mut Ledger<Sfq<Probe>>, flows: &[u64]) -> Vec<(u32, DropReason)> {
    let mut drops = Drops::new();
    for (id, &flow) in (0..).zip(flows) {
        queue.enqueue(Probe::new(id).flow(flow), START, &mut drops);
    }
    drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect()
}

fn drain(queue: &mut Ledger<Sfq<Probe>>) -> Vec<u32> {
    ids(core::iter::from_fn(|| {
        queue.dequeue(START, &mut Drops::new())
    }))
}

/// A turn lasts until a quantum is used up; what was sent beyond it is owed in the next.
#[test]
fn flows_take_turns_of_a_quantum() {
    let (mut queue, mut drops) = (
        sfq(Config {
            limit: 1000,
            ..Config::default()
        }),
        Drops::new(),
    );
    for id in 0..120 {
        queue.enqueue(Probe::new(id).flow(0).sized(65), START, &mut drops);
    }
    for id in 0..60 {
        queue.enqueue(Probe::new(1000 + id).flow(1).sized(1514), START, &mut drops);
    }
    let mut turns = vec![(0, 0)];
    for id in drain(&mut queue).into_iter().take(100) {
        let flow = id / 1000;
        match turns.last_mut() {
            Some((last, packets)) if *last == flow => *packets += 1,
            _ => turns.push((flow, 1)),
        }
    }
    assert_eq!(
        turns[..7],
        [(0, 24), (1, 1), (0, 23), (1, 1), (0, 23), (1, 1), (0, 24)]
    );
}

/// A flow that comes anew waits until the others had their turn, and begins with a whole quantum.
#[test]
fn a_new_flow_stands_at_the_end() {
    let mut queue = sfq(Config::default());
    offer(&mut queue, &[0, 0, 1, 1, 2]);
    assert_eq!(drain(&mut queue), [0, 2, 4, 1, 3]);
}

#[test]
fn the_longest_flow_pays_for_the_limit() {
    let overlimit = |id| (id, DropReason::Overlimit);
    for (headdrop, flows, lost) in [
        // The longest loses its newest, or its oldest packet; if it is the newcomer's, that is the
        // newcomer.
        (false, &[0, 0, 0, 0, 1, 1][..], 3),
        (true, &[0, 0, 0, 0, 1, 1], 0),
        (false, &[1, 0, 0, 0, 0, 0], 5),
        (true, &[1, 0, 0, 0, 0, 0], 1),
        // Of two as long, the one that became so last pays.
        (false, &[0, 0, 1, 1, 2, 3], 3),
        (false, &[0, 1, 1, 0, 2, 3], 3),
        // All have one: the one whose turn it is pays.
        (false, &[3, 1, 0, 2, 4, 5], 0),
        (true, &[3, 1, 0, 2, 4, 5], 0),
    ] {
        let mut queue = sfq(Config {
            limit: 5,
            headdrop,
            ..Config::default()
        });
        assert_eq!(offer(&mut queue, flows), [overlimit(lost)], "{flows:?}");
        assert_eq!(
            (
                queue.backlog().packets,
                queue.inner().stats().drop_overlimit
            ),
            (5, 1)
        );
        assert_eq!(drain(&mut queue).len(), 5);
    }
}

#[test]
fn a_flow_holds_at_most_its_depth() {
    for (headdrop, lost, kept) in [(false, [2, 3], [0, 1]), (true, [0, 1], [2, 3])] {
        let mut queue = sfq(Config {
            depth: 2,
            headdrop,
            ..Config::default()
        });
        assert_eq!(
            offer(&mut queue, &[0; 4]),
            lost.map(|id| (id, DropReason::FlowLimit))
        );
        assert_eq!(
            (drain(&mut queue), queue.inner().stats().drop_depth),
            (kept.to_vec(), 2)
        );
    }
    let mut one = sfq(Config {
        depth: 1,
        headdrop: true,
        ..Config::default()
    });
    assert_eq!(offer(&mut one, &[0, 1, 0, 1]).len(), 2);
    assert_eq!(
        drain(&mut one),
        [2, 3],
        "who replaces a packet keeps its turn"
    );
}

#[test]
fn a_flow_too_many_is_refused_until_another_is_done() {
    let mut queue = sfq(Config {
        flows: 2,
        ..Config::default()
    });
    assert_eq!(
        offer(&mut queue, &[0, 1, 2, 1]),
        [(2, DropReason::Overlimit)]
    );
    assert_eq!(
        queue
            .dequeue(START, &mut Drops::new())
            .map(|packet| packet.id),
        Some(0)
    );
    assert_eq!(offer(&mut queue, &[2]), []);
}

/// Effect: beside a flow that sends ten times as much, a modest one gets all it sends; in a FIFO it
/// does not.
#[test]
fn the_modest_flow_gets_its_share() {
    fn delivered(mut queue: impl Qdisc<Probe>) -> usize {
        let mut drops = Drops::new();
        let mut modest = 0;
        for round in 0..1000 {
            for id in 0..10 {
                queue.enqueue(Probe::new(id).flow(0), START, &mut drops);
            }
            queue.enqueue(Probe::new(round).flow(1), START, &mut drops);
            for _ in 0..2 {
                modest += usize::from(
                    queue
                        .dequeue(START, &mut drops)
                        .is_some_and(|packet| packet.flow == 1),
                );
            }
            drops = Drops::new();
        }
        modest
    }
    assert!(delivered(sfq(Config::default())) >= 995);
    assert!(delivered(Pfifo::new(pfifo::Config { limit: 127 })) < 400);
}

/// Two flows that share a bucket are parted by another key; nothing is lost, nothing overtakes
/// within a flow.
#[test]
fn a_new_key_parts_flows_that_collide() {
    let period = Duration::from_secs(10);
    let config = Config {
        divisor: 4,
        perturb: Some(period),
        ..Config::default()
    };
    let (mut queue, mut drops) = (Ledger::new(Sfq::new(config).expect("valid")), Drops::new());
    let apart = |queue: &Sfq<Probe>| queue.bucket_of(0) != queue.bucket_of(1);
    let (mut parted, mut now) = (0, START);
    for _ in 0..40 {
        for id in 0..20 {
            queue.enqueue(Probe::new(id).flow(u64::from(id % 2)), now, &mut drops);
        }
        queue.dequeue(now + period - Duration::from_nanos(1), &mut drops);
        let (before, key) = (queue.inner().stats().perturbed, queue.inner().hash.key);
        now += period;
        let mut out = ids(core::iter::from_fn(|| queue.dequeue(now, &mut drops)));
        assert_eq!(
            (
                queue.inner().stats().perturbed,
                queue.inner().hash.key != key
            ),
            (before + 1, true)
        );
        parted += usize::from(apart(queue.inner()));
        assert_eq!((out.len(), drops.len()), (19, 0));
        assert!(
            !apart(queue.inner()) || out[..4].windows(2).all(|pair| pair[0] % 2 != pair[1] % 2),
            "{out:?}"
        );
        out.sort_by_key(|id| id % 2);
        let even = out.iter().filter(|&id| id % 2 == 0).count();
        assert!(out[..even].is_sorted() && out[even..].is_sorted());
    }
    assert!((20..40).contains(&parted), "three times in four: {parted}");
    // However long the pause, one key is enough; and a clock that steps back does not postpone the
    // next.
    let before = queue.inner().stats().perturbed;
    for (time, keys) in [(now + period * 1000, 1), (now, 1), (now + period, 2)] {
        queue.dequeue(time, &mut drops);
        assert_eq!(queue.inner().stats().perturbed, before + keys);
    }
    let mut still = sfq(Config::default());
    still.dequeue(Instant::from_secs(1_000_000), &mut drops);
    assert_eq!(still.inner().stats().perturbed, 0);
}

/// When another key brings flows together, what is too deep is dropped; so is what finds no flow.
#[test]
fn what_finds_no_place_after_a_change_is_dropped() {
    let mut drops = Drops::new();
    let mut deep = sfq(Config::default());
    offer(&mut deep, &[0, 0, 0, 1]);
    deep.edit(START, &mut drops, |config| config.depth = 2)
        .expect("valid");
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(2, DropReason::FlowLimit)]
    );
    assert_eq!(drain(&mut deep), [0, 3, 1]);
    let mut many = sfq(Config::default());
    offer(&mut many, &[0, 0, 1, 2]);
    many.edit(START, &mut drops, |config| config.flows = 2)
        .expect("valid");
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(3, DropReason::Overlimit)]
    );
    let mut one = sfq(Config::default());
    offer(&mut one, &[0, 1, 0, 1, 2]);
    one.edit(START, &mut drops, |config| {
        (config.divisor, config.limit) = (1, 4)
    })
    .expect("valid");
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(4, DropReason::Overlimit)]
    );
    assert_eq!(drain(&mut one), [0, 2, 1, 3], "one bucket is one FIFO");
    one.edit(START, &mut drops, |config| config.seed = Some(9999))
        .expect_err("the key is fixed");
    assert_eq!(one.inner().config.divisor, 1);
}

/// RED with a step at 3000 bytes and an average that follows at once, nearly.
fn step(ecn: bool, harddrop: bool) -> FlowRed {
    let threshold = Some(Bytes::new(3000));
    let red = Params {
        min: threshold,
        max: threshold,
        avpkt: Bytes::new(100),
        burst: Some(30),
        ..Params::default()
    };
    FlowRed {
        limit: Bytes::new(100_000),
        red,
        ecn,
        harddrop,
    }
}

#[test]
fn red_governs_each_flow_by_itself() {
    // After 0, 1000, ... bytes the average at the newcomer is 0, 500, 1250, 2125, 3062: the fifth
    // of a flow is signaled.
    for (ecn, harddrop, headdrop, lost, marked) in [
        (false, false, false, Some(8), None),
        (false, false, true, Some(0), None),
        (true, true, false, Some(8), None),
        (true, false, false, None, Some(8)),
        (true, false, true, None, Some(0)),
    ] {
        let mut queue = sfq(Config {
            red: Some(step(ecn, harddrop)),
            headdrop,
            ..Config::default()
        });
        let mut drops = Drops::new();
        for id in 0..9 {
            queue.enqueue(
                Probe::new(id).flow(u64::from(id % 2)).sized(1000).tos(ECT0),
                START,
                &mut drops,
            );
        }
        assert_eq!(
            drops
                .drain()
                .map(|(packet, reason)| (packet.id, reason))
                .next(),
            lost.map(|id| (id, DropReason::Early))
        );
        let out = core::iter::from_fn(|| queue.dequeue(START, &mut drops))
            .filter(|packet| packet.tos == CE);
        assert_eq!(ids(out), marked.into_iter().collect::<Vec<_>>());
        let Stats {
            forced_drop,
            forced_mark,
            forced_mark_head,
            overlimits,
            ..
        } = *queue.inner().stats();
        let head = u64::from(marked == Some(0));
        let expected = (
            u64::from(lost.is_some()),
            u64::from(marked.is_some()) - head,
            head,
            1,
        );
        assert_eq!(
            (forced_drop, forced_mark, forced_mark_head, overlimits),
            expected
        );
    }
    // What cannot be marked is dropped; and an average ends with its flow.
    let mut queue = sfq(Config {
        red: Some(step(true, false)),
        ..Config::default()
    });
    for _ in 0..3 {
        assert_eq!(offer(&mut queue, &[0; 4]).len(), 1);
        drain(&mut queue);
    }
    assert_eq!(queue.inner().stats().forced_drop, 3);
}

/// A change of RED's weight keeps the averages; one of the buckets computes them anew from what is
/// queued; a flow that ends takes its average along.
#[test]
fn averages_live_as_long_as_their_flows() {
    let (mut queue, mut drops) = (
        sfq(Config {
            red: Some(step(true, false)),
            ..Config::default()
        }),
        Drops::new(),
    );
    let average = |queue: &Ledger<Sfq<Probe>>| {
        let sfq = queue.inner();
        let at = sfq.buckets[sfq.bucket_of(0)].expect("open");
        sfq.aqm
            .as_ref()
            .expect("governed")
            .average(&sfq.flows.0[at.get()].red)
            .get()
    };
    offer(&mut queue, &[0; 3]);
    assert_eq!(average(&queue), 1892);
    queue
        .edit(START, &mut drops, |config| {
            config.red.as_mut().expect("governed").red.burst = Some(60);
        })
        .expect("valid");
    assert_eq!(average(&queue), 1892);
    queue
        .edit(START, &mut drops, |config| {
            config.red.as_mut().expect("governed").red.burst = Some(30);
            config.divisor = 2;
        })
        .expect("valid");
    assert_eq!(average(&queue), 1892, "the same packets, the same average");
    drain(&mut queue);
    offer(&mut queue, &[0]);
    assert_eq!(average(&queue), 0);
}

/// However large a packet, its flow waits for a bounded number of turns.
#[test]
fn a_debt_is_bounded() {
    let (mut queue, mut drops) = (
        sfq(Config {
            quantum: Bytes::new(64),
            ..Config::default()
        }),
        Drops::new(),
    );
    for id in 0..2 {
        queue.enqueue(Probe::new(id).sized(u32::MAX), START, &mut drops);
    }
    queue.dequeue(START, &mut drops);
    let allots = queue.inner().flows.0.iter().map(|flow| flow.allot);
    assert_eq!(allots.min(), Some(64 - (1 << 20)));
    assert_eq!(drain(&mut queue), [1]);
}

/// By chance between the thresholds, at the head with `headdrop`.
#[test]
fn red_signals_by_chance_too() {
    let red = Params {
        min: Some(Bytes::new(1000)),
        max: Some(Bytes::new(100_000)),
        burst: Some(1),
        probability: 0.5,
        ..Params::default()
    };
    for (ecn, headdrop) in [(false, false), (true, false), (true, true)] {
        let flow = FlowRed {
            limit: Bytes::new(100_000),
            red: red.clone(),
            ecn,
            harddrop: false,
        };
        let (mut queue, mut drops) = (
            sfq(Config {
                red: Some(flow),
                headdrop,
                ..Config::default()
            }),
            Drops::new(),
        );
        for id in 0..2000 {
            queue.enqueue(Probe::new(id).sized(1000).tos(ECT0), START, &mut drops);
            if queue.backlog().packets > 50 {
                queue.dequeue(START, &mut drops);
            }
        }
        let Stats {
            prob_drop,
            prob_mark,
            prob_mark_head,
            overlimits,
            ..
        } = *queue.inner().stats();
        let counted = [
            (prob_drop, !ecn),
            (prob_mark, ecn && !headdrop),
            (prob_mark_head, headdrop),
        ];
        assert!(overlimits > 100, "{overlimits}");
        for (count, expected) in counted {
            assert_eq!(count, if expected { overlimits } else { 0 });
        }
    }
}

/// Bucket, allotment, when it came to its length, packets.
type ModelFlow = (usize, i64, usize, VecDeque<(u32, u32)>);

/// SFQ as lists of lists, searched from end to end.
struct Model {
    config: Config,
    /// In the order of turns.
    flows: VecDeque<ModelFlow>,
    time: usize,
}

impl Model {
    fn enqueue(&mut self, bucket: usize, id: u32, len: u32) -> Option<u32> {
        self.time += 1;
        let quantum = self.config.quantum.get() as i64;
        let Config {
            depth,
            headdrop,
            flows: most,
            limit,
            ..
        } = self.config;
        let full = self.flows.len() >= most as usize;
        match self.flows.iter_mut().find(|flow| flow.0 == bucket) {
            Some((_, _, _, packets)) if packets.len() >= depth as usize => {
                if !headdrop {
                    return Some(id);
                }
                packets.push_back((id, len));
                return packets.pop_front().map(|(id, _)| id);
            }
            Some((_, _, time, packets)) => {
                packets.push_back((id, len));
                *time = self.time;
            }
            None if full => return Some(id),
            None => self
                .flows
                .push_back((bucket, quantum, self.time, VecDeque::from([(id, len)]))),
        }
        if self.flows.iter().map(|flow| flow.3.len()).sum::<usize>() <= limit as usize {
            return None;
        }
        self.time += 1;
        let longest = self.flows.iter().map(|flow| flow.3.len()).max()?;
        if longest == 1 {
            return self.flows.pop_front().map(|flow| flow.3[0].0);
        }
        let victim = self
            .flows
            .iter_mut()
            .filter(|flow| flow.3.len() == longest)
            .max_by_key(|flow| flow.2)?;
        victim.2 = self.time;
        let packet = if headdrop {
            victim.3.pop_front()
        } else {
            victim.3.pop_back()
        };
        packet.map(|(id, _)| id)
    }

    fn dequeue(&mut self) -> Option<u32> {
        self.time += 1;
        loop {
            let mut flow = self.flows.pop_front()?;
            if flow.1 <= 0 {
                flow.1 += self.config.quantum.get() as i64;
                self.flows.push_back(flow);
                continue;
            }
            let (id, len) = flow.3.pop_front()?;
            if !flow.3.is_empty() {
                (flow.1, flow.2) = (flow.1 - i64::from(len.max(1)), self.time);
                self.flows.push_front(flow);
            }
            return Some(id);
        }
    }
}

proptest! {
    /// The same packets leave and are lost, in the same order, as in a model that searches all it
    /// has.
    #[test]
    fn sfq_is_lists_of_lists(
        limit in 1..20u32,
        depth in 1..8u32,
        flows in 1..8u32,
        divisor in prop_oneof![Just(1u32), Just(2), Just(16)],
        quantum in prop_oneof![Just(64u64), Just(300), Just(1514)],
        headdrop: bool,
        steps in vec((0..3u8, 0..9u64, prop_oneof![Just(0u32), Just(1514), 1..1600u32, Just(65_535)]), 0..300),
    ) {
        let quantum = Bytes::new(quantum);
        let config = Config { limit, depth, flows, divisor, quantum, headdrop, ..Config::default() };
        let (mut queue, mut drops) = (Ledger::new(Sfq::<Probe>::new(config.clone()).expect("valid")), Drops::new());
        let flows = flows.min(divisor);
        let mut model = Model { config: Config { flows, ..config }, flows: VecDeque::new(), time: 0 };
        for (id, (what, flow, len)) in (0..).zip(steps) {
            if what == 0 {
                prop_assert_eq!(queue.dequeue(START, &mut drops).map(|packet| packet.id), model.dequeue());
            } else {
                queue.enqueue(Probe::new(id).flow(flow).sized(len), START, &mut drops);
                let lost = model.enqueue(queue.inner().bucket_of(flow), id, len);
                prop_assert_eq!(drops.drain().map(|(packet, _)| packet.id).next(), lost);
            }
            prop_assert!(queue.backlog().packets <= limit as usize && drops.is_empty());
        }
        prop_assert_eq!(drain(&mut queue), core::iter::from_fn(|| model.dequeue()).collect::<Vec<_>>());
    }

    /// Through new keys, changes of every parameter and RED nothing is lost unseen, limits hold,
    /// flows keep their order.
    #[test]
    fn changes_and_keys_lose_nothing(
        first in 0..6usize,
        headdrop: bool,
        steps in vec((0..12u8, 0..9u64, 0..1600u32, 0..40_000_000_000u64), 0..300),
    ) {
        const CHANGES: [fn(&mut Config); 6] = [
            |config| config.limit = 7,
            |config| (config.limit, config.depth) = (30, 3),
            |config| (config.flows, config.divisor) = (3, 2),
            |config| (config.flows, config.divisor, config.depth) = (128, 64, 127),
            |config| {
                (config.perturb, config.quantum) = (Some(Duration::from_secs(3)), Bytes::new(64));
            },
            |config| {
                let red = Params {
                    min: Some(Bytes::new(3000)),
                    max: Some(Bytes::new(6000)),
                    avpkt: Bytes::new(500),
                    ..Params::default()
                };
                config.red = Some(FlowRed {
                    limit: Bytes::new(20_000),
                    red,
                    ecn: true,
                    harddrop: false,
                });
            },
        ];
        let config = Config { headdrop, ..Config::default() };
        let (mut queue, mut drops, mut now) = (Ledger::new(Sfq::<Probe>::new(config).expect("valid")), Drops::new(), START);
        queue.edit(now, &mut drops, CHANGES[first]).expect("valid");
        let mut last = [None; 9];
        for (id, (what, flow, len, nanos)) in (0..).zip(steps) {
            match what {
                0..5 => queue.enqueue(Probe::new(id).flow(flow).sized(len).tos(ECT0), now, &mut drops),
                5..8 => {
                    let held = queue.backlog().packets;
                    let packet = queue.dequeue(now, &mut drops);
                    // A new key may bring flows together that hold too much for one.
                    prop_assert!(packet.is_some() || held == drops.len());
                    if let Some(packet) = packet {
                        let last = &mut last[packet.flow as usize];
                        prop_assert!(last.replace(packet.id) < Some(packet.id));
                    }
                }
                8 | 9 => now += Duration::from_nanos(nanos),
                10 => now = now - Duration::from_nanos(nanos),
                _ => queue.edit(now, &mut drops, CHANGES[flow as usize % 6]).expect("valid"),
            }
            let Config { limit, .. } = queue.inner().config;
            prop_assert!(queue.backlog().packets <= limit as usize);
            prop_assert_eq!(queue.ready_at(), (!queue.backlog().is_empty()).then_some(Instant::ZERO));
            drops = Drops::new();
        }
        drain(&mut queue);
        prop_assert!(queue.backlog().is_empty());
    }
}

/// A flow of empty packets has its turn like any other, not forever.
#[test]
fn empty_packets_end_their_turn() {
    let mut queue = sfq(Config {
        limit: 400,
        quantum: Bytes::new(64),
        ..Config::default()
    });
    for id in 0..200 {
        queue.enqueue(
            Probe::new(id).flow((id / 100).into()).sized(0),
            START,
            &mut Drops::new(),
        );
    }
    let left = drain(&mut queue);
    assert_eq!(left[..128].iter().filter(|&&id| id >= 100).count(), 64);
}
