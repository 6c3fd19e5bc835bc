//! fq_pie against `net/sched/sch_fq_pie.c`: fq_codel's turns, a PIE for each flow, limits that
//! hold.

use super::*;
use crate::ledger::Ledger;
use crate::pie::Law;
use crate::testing::{Change, Edit, put};
use std::string::String;
use tautline_testkit::{Probe, ids};

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// An fq_pie and `N` flow hashes that fall into queues of their own.
fn with_flows<const N: usize>(config: Config) -> (FqPie<Probe>, [u64; N]) {
    let queue = FqPie::new(config).expect("valid");
    let hashes = queue.queues.hashes_apart();
    (queue, hashes)
}

impl FqPie<Probe> {
    fn state(&self, hash: u64) -> &State {
        &self.queues.peek(self.queues.queue_of(hash)).aqm
    }
}

/// The turns are fq_codel's: RFC 8290 §4, worked by hand, with both quanta.
#[test]
fn turns_are_those_of_fq_codel() {
    for (quantum, expected) in [(1514, "ABBBBABBBABBBA"), (300, "ABBBABBBA")] {
        let config = Config {
            quantum: Bytes::new(quantum),
            ..Config::default()
        };
        let (mut queue, [a, b]) = with_flows(config);
        put(&mut queue, a, 10, 1514);
        put(&mut queue, b, 30, 500);
        let next = |_| {
            queue
                .dequeue(ms(1), &mut Drops::new())
                .expect("queued")
                .flow
        };
        let order: String = (0..expected.len())
            .map(next)
            .map(|flow| if flow == a { 'A' } else { 'B' })
            .collect();
        assert_eq!(order, expected);
    }
}

/// A link of one packet per millisecond; `bulk` sends two each millisecond, `thin` one each 20. The
/// packets lost of each, the longest stay (ms) of each in the second half.
fn contest(mut queue: impl Qdisc<Probe>, bulk: u64, thin: u64) -> [(usize, u64); 2] {
    let mut drops = Drops::new();
    let mut results = [(0, 0); 2];
    let of = |flow| usize::from(flow == thin);
    for millis in 0..4000 {
        for _ in 0..2 {
            queue.enqueue(Probe::new(0).flow(bulk), ms(millis), &mut drops);
        }
        if millis % 20 == 0 {
            queue.enqueue(Probe::new(1).flow(thin).sized(100), ms(millis), &mut drops);
        }
        let packet = queue.dequeue(ms(millis), &mut drops).expect("queued");
        if millis > 2000 {
            let longest = &mut results[of(packet.flow)].1;
            *longest = u64::max(
                *longest,
                (ms(millis) - packet.enqueued()).as_millis() as u64,
            );
        }
        drops
            .drain()
            .for_each(|(packet, _)| results[of(packet.flow)].0 += 1);
    }
    results
}

/// Effect: beside a flow that sends twice what the link carries, a thin flow loses nothing and
/// never waits. With a single PIE for both it loses and waits with the other; with gains of zero
/// the bulk flow's own queue fills.
#[test]
fn each_flow_has_its_own_pie() {
    for law in [Law::Rfc8033, Law::Linux] {
        let pie = Params {
            law,
            ..Params::default()
        };
        let (queue, [bulk, thin]) = with_flows(Config {
            pie: pie.clone(),
            ..Config::default()
        });
        let [(bulk_lost, bulk_waits), (thin_lost, thin_waits)] = contest(queue, bulk, thin);
        assert!(
            bulk_lost > 3000 && bulk_waits < 1000,
            "{law}: {bulk_lost} {bulk_waits}"
        );
        assert_eq!((thin_lost, thin_waits), (0, 0), "{law}");
        let single = crate::Pie::new(crate::pie::Config { limit: 10_240, pie }).expect("valid");
        let [_, (thin_lost, thin_waits)] = contest(single, bulk, thin);
        assert!(
            thin_lost > 10 && (thin_waits > 5 || law == Law::Linux),
            "{law}: {thin_lost} {thin_waits}"
        );
    }
    let neutral = Params {
        alpha: 0.0,
        beta: 0.0,
        ..Params::default()
    };
    let (queue, [bulk, thin]) = with_flows(Config {
        pie: neutral,
        ..Config::default()
    });
    let [(bulk_lost, bulk_waits), _] = contest(queue, bulk, thin);
    assert!(
        bulk_lost == 0 && bulk_waits > 1900,
        "{bulk_lost} {bulk_waits}"
    );
}

/// Probabilities are the flows' own: the one that stands has one, the one that is served at once
/// has none.
#[test]
fn probabilities_are_the_flows_own() {
    let (mut queue, [standing, thin]) = with_flows(Config::default());
    put(&mut queue, standing, 500, 1514);
    for millis in 0..400 {
        if millis % 4 == 0 {
            queue.enqueue(
                Probe::new(0).flow(thin).sized(60),
                ms(millis),
                &mut Drops::new(),
            );
        }
        queue.dequeue(ms(millis), &mut Drops::new());
    }
    let mut drops = Drops::new();
    for flow in [standing, thin] {
        queue.enqueue(Probe::new(9).flow(flow), ms(400), &mut drops);
    }
    assert!(queue.state(standing).probability() > 0.0);
    assert_eq!(queue.state(thin).probability(), 0.0);
}

/// Kernel flaw: memory beyond the limit is counted and not refused. Here the packet that would
/// exceed it is.
#[test]
fn the_memory_limit_holds() {
    let limit = Bytes::new(3 * 1514);
    let (mut queue, [a, b]) = with_flows(Config {
        memory_limit: limit,
        ..Config::default()
    });
    assert!(put(&mut queue, a, 3, 1514).is_empty(), "exactly full");
    let mut drops = put(&mut queue, b, 1, 1);
    assert!(
        drops
            .drain()
            .all(|(packet, reason)| packet.flow == b && reason == DropReason::Memory)
    );
    assert_eq!(
        (
            queue.counters.overmemory,
            queue.counters.overlimit,
            queue.queues.memory()
        ),
        (1, 0, limit)
    );
    assert!(put(&mut queue, b, 1, 0).is_empty(), "an empty packet fits");
}

/// A full fq_pie drops the newcomer of any flow; a lowered limit costs the fattest flow its oldest
/// packets.
#[test]
fn the_packet_limit_holds_and_may_be_lowered() {
    let (queue, [a, b]) = with_flows(Config {
        limit: 5,
        ..Config::default()
    });
    let (mut queue, mut drops) = (Ledger::new(queue), Drops::new());
    for (id, flow) in [(0, a), (1, a), (2, a), (3, a), (4, b), (5, b), (6, a)] {
        queue.enqueue(Probe::new(id).flow(flow), Instant::ZERO, &mut drops);
    }
    assert!(
        drops
            .iter()
            .all(|(_, reason)| *reason == DropReason::Overlimit)
    );
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [5, 6]);
    queue
        .edit(Instant::ZERO, &mut drops, |config| config.limit = 3)
        .expect("valid");
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [0, 1]);
    queue
        .edit(Instant::ZERO, &mut drops, |config| {
            config.memory_limit = Bytes::new(1514);
        })
        .expect("valid");
    assert!(
        drops
            .iter()
            .all(|(_, reason)| *reason == DropReason::Memory)
    );
    assert_eq!(drops.drain().count(), 2);
    assert_eq!(
        (
            queue.inner().counters.overlimit,
            queue.inner().counters.overmemory
        ),
        (4, 2)
    );
    assert_eq!(
        (queue.ready_at(), queue.backlog().packets),
        (Some(Instant::ZERO), 1)
    );
    assert_eq!(
        (
            queue.inner().counters().packets_in,
            queue.inner().stats().dropped
        ),
        (5, 0)
    );
}

#[test]
fn what_is_fixed_at_creation_cannot_change() {
    let mut queue = FqPie::<Probe>::new(Config::default()).expect("valid");
    let refused: [(&str, Change<Config>); 3] = [
        ("flows", |config| config.flows = 7),
        ("perturbation", |config| config.perturbation = Some(7)),
        ("law", |config| config.pie.law = Law::Linux),
    ];
    for (parameter, edit) in refused {
        let error = queue.edit(Instant::ZERO, &mut Drops::new(), edit);
        assert_eq!(error.expect_err("fixed").parameter, parameter);
        assert_eq!(queue.config, Config::default(), "nothing changed");
    }
}
