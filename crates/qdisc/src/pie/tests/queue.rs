//! The queue around PIE: limit, reconfiguration, peeking parents.

use super::*;

/// A full queue drops the newcomer, and a lowered limit the oldest.
#[test]
fn the_limit_holds() {
    let mut queue = Ledger::new(
        Pie::new(Config {
            limit: 5,
            ..Config::default()
        })
        .expect("valid"),
    );
    let mut drops = Drops::new();
    for id in 0..7 {
        queue.enqueue(Probe::new(id), Instant::ZERO, &mut drops);
    }
    let late: Vec<_> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(
        late,
        [(5, DropReason::Overlimit), (6, DropReason::Overlimit)]
    );
    queue
        .edit(Instant::ZERO, &mut drops, |config| {
            (config.limit, config.pie.target) = (3, Duration::from_millis(20));
        })
        .expect("valid");
    let old: Vec<_> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(
        old,
        [(0, DropReason::Overlimit), (1, DropReason::Overlimit)]
    );
    let Counters {
        packets_in,
        max_queue,
    } = *queue.inner().counters();
    assert_eq!((packets_in, max_queue), (5, 5));
    assert_eq!(queue.inner().drop_overlimit(), 4);
    assert_eq!(queue.inner().config().pie.target, Duration::from_millis(20));
}

/// A change keeps the probability, the counters and the random sequence, and updates go on at once,
/// at the new pace.
#[test]
fn a_change_interrupts_nothing() {
    let (_, mut queue) = overload(Params::default(), 800, 800, 0);
    let (p, dropped) = (queue.state().probability(), queue.stats().dropped);
    assert!(p > 0.0 && dropped > 0);
    let mut other = Pie::new(Config {
        limit: 100_000,
        ..Config::default()
    })
    .expect("valid");
    (other.control.aqm, other.control.state) =
        (queue.control.aqm.clone(), queue.control.state.clone());
    queue
        .edit(ms(800), &mut Drops::new(), |config| {
            config.pie.tupdate = Duration::from_millis(30);
            config.pie.target = Duration::from_millis(20);
        })
        .expect("valid");
    assert_eq!(
        (queue.state().probability(), queue.stats().dropped),
        (p, dropped)
    );
    let backlog = queue.queue.held().bytes;
    let mut changes = Vec::new();
    for millis in 800..900 {
        let before = queue.control.state.probability();
        queue.control.aqm.admit(
            &mut queue.control.state,
            &mut Probe::new(0).sized(0),
            backlog,
            ms(millis),
        );
        if queue.control.state.probability() != before {
            changes.push(millis);
        }
    }
    // Updates were due each 15 ms from 15 on: the next is at 810, as before the change.
    assert_eq!(changes, [810, 840, 870]);
    queue
        .edit(ms(900), &mut Drops::new(), |config| config.limit = 99_999)
        .expect("valid");
    other
        .edit(ms(900), &mut Drops::new(), |config| {
            (config.limit, config.pie.seed) = (99_999, 1);
        })
        .expect("valid");
    let [same, reseeded] = [&mut queue, &mut other].map(|queue| {
        queue.control.state.steady(0.05, 15_000_000);
        let judge = |_| {
            queue.control.aqm.admit(
                &mut queue.control.state,
                &mut Probe::new(0),
                backlog,
                ms(899),
            ) == Verdict::Dropped
        };
        (0..500).map(judge).collect::<Vec<_>>()
    });
    assert_ne!(same, reseeded);
}

/// A shaper peeks at a packet long before it may leave. Linux judges its delay then, and counts it
/// until it leaves; the other laws leave it in the queue.
#[test]
fn linux_measures_a_packet_when_it_is_looked_at() {
    for (law, delay) in [(Law::Linux, ms(1)), (Law::Rfc8033, ms(9))] {
        let pie = Params {
            law,
            ..Params::default()
        };
        let mut queue = Ledger::new(Pie::new(Config { limit: 2, pie }).expect("valid"));
        let mut drops = Drops::new();
        for id in 0..2 {
            queue.enqueue(Probe::new(id).sized(100), ms(0), &mut drops);
        }
        assert_eq!(queue.peek_len(ms(1), &mut drops), Some(Bytes::new(100)));
        assert_eq!(
            (queue.backlog().packets, queue.backlog().bytes.get()),
            (2, 200),
            "{law:?}"
        );
        queue.enqueue(Probe::new(2).sized(100), ms(2), &mut drops);
        assert_eq!(
            drops.drain().count(),
            1,
            "{law:?}: the limit counts the packet looked at"
        );
        assert_eq!(
            queue.peek_len(ms(3), &mut drops),
            Some(Bytes::new(100)),
            "{law:?}: the same packet"
        );
        assert_eq!(
            queue.dequeue(ms(9), &mut drops).map(|packet| packet.id),
            Some(0)
        );
        let pie = queue.inner();
        assert_eq!(
            pie.control.aqm.delay(pie.state()),
            delay - Instant::ZERO,
            "{law:?}"
        );
        assert_eq!(
            (
                queue.dequeue(ms(9), &mut drops).map(|packet| packet.id),
                queue.ready_at()
            ),
            (Some(1), None)
        );
    }
}
