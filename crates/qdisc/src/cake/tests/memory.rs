//! The memory limit, and BLUE, which it wakes.

use super::*;

/// The longest queue of all tins loses its head; the newcomer's own queue too if that is the
/// longest.
#[test]
fn the_longest_queue_loses_its_head() {
    let (mut queue, mut drops) = (
        cake(Config {
            memory_limit: Some(Bytes::new(15_140)),
            ..Config::default()
        }),
        Drops::new(),
    );
    for id in 0..6 {
        queue.enqueue(Probe::new(id).flow(1), ms(1), &mut drops);
    }
    for id in 6..10 {
        queue.enqueue(Probe::new(id).flow(2).tos(0xb8), ms(1), &mut drops);
    }
    assert!(drops.is_empty());
    queue.enqueue(Probe::new(10).flow(3).sized(1), ms(1), &mut drops);
    let dropped: Vec<_> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(dropped, [(0, DropReason::Memory)]);
    queue.enqueue(
        Probe::new(11).flow(2).sized(6000).tos(0xb8),
        ms(1),
        &mut drops,
    );
    assert_eq!(
        drops
            .drain()
            .map(|(packet, _)| packet.id)
            .collect::<Vec<_>>(),
        [6, 7, 8]
    );
    assert_eq!(queue.inner().stats().memory_used, Bytes::new(13_627 + 6000));
    assert_eq!((tin(&queue, 1).drops, tin(&queue, 2).drops), (1, 3));
    queue.inner().verify();
}

/// Packets are dropped until the limit holds, if need be the newcomer too; one without bytes needs
/// no memory.
#[test]
fn nothing_is_too_large() {
    let (mut queue, mut drops) = (
        cake(Config {
            memory_limit: Some(Bytes::new(1)),
            ..Config::default()
        }),
        Drops::new(),
    );
    for len in [0, 1, 2, u32::MAX] {
        queue.enqueue(Probe::new(len).sized(len), ms(1), &mut drops);
        queue.inner().verify();
    }
    assert_eq!(
        drops
            .drain()
            .map(|(packet, _)| packet.id)
            .collect::<Vec<_>>(),
        [0, 1, 2, u32::MAX]
    );
}

/// A lowered limit is kept at once.
#[test]
fn a_lowered_limit_drops_from_the_longest() {
    let (mut queue, mut drops) = (cake(best_effort()), Drops::new());
    for id in 0..100 {
        queue.enqueue(Probe::new(id).flow((id % 3).into()), ms(1), &mut drops);
    }
    queue
        .edit(ms(1), &mut drops, |config| {
            config.memory_limit = Some(Bytes::new(15_140));
        })
        .expect("valid");
    assert_eq!((queue.backlog().packets, drops.len()), (10, 90));
    queue.inner().verify();
}

/// BLUE: a flow that answers nothing, ECN or not, makes its queue drop more and more, and calms
/// down when it is gone.
#[test]
fn an_unresponsive_flow_is_cut_back_and_forgotten() {
    let (mut queue, mut drops) = (
        cake(Config {
            memory_limit: Some(Bytes::new(60_000)),
            ..shaped(12_112)
        }),
        Drops::new(),
    );
    let mut reasons = [0; DropReason::ALL.len()];
    for millis in 1000..5000 {
        for _ in 0..2 {
            queue.enqueue(Probe::new(0).flow(1).tos(ECT0), ms(millis), &mut drops);
        }
        queue.enqueue(
            Probe::new(1).flow(2).tos(ECT0).sized(60),
            ms(millis),
            &mut drops,
        );
        while queue.dequeue(ms(millis), &mut drops).is_some() {}
        drops.drain().for_each(|(packet, reason)| {
            assert_eq!(packet.id, 0, "the small flow is spared");
            reasons[reason.index()] += 1;
        });
    }
    assert_eq!(tin(&queue, 0).unresponsive_flows, 1);
    assert!(
        reasons[DropReason::Unresponsive.index()] > 500
            && reasons[DropReason::Memory.index()] > 100,
        "{reasons:?}"
    );
    assert_eq!(
        reasons[DropReason::Target.index()],
        0,
        "what can be marked is marked"
    );
    assert!(tin(&queue, 0).marks > 10);
    queue.inner().verify();
    for millis in 5000..200_000 {
        queue.enqueue(Probe::new(1).flow(2).sized(60), ms(millis), &mut drops);
        departures(&mut queue, ms(millis), ms(millis), &mut drops);
    }
    assert_eq!(tin(&queue, 0).unresponsive_flows, 0);
    queue.inner().verify();
}
