//! Queues, hosts, and fairness between them.

use super::*;
use crate::ClassId;
use crate::filter::{Action, Control, Filter, Masked, Matcher};
use crate::testing::by_mark;
use alloc::vec;

/// Flow hashes whose natural queue lies in one set, by what the instance makes of them.
fn flows_of_one_set(count: usize) -> Vec<u64> {
    let set = |flow: u64| {
        Hashes::of(&Probe::new(0).flow(flow), Isolation::Flows, 0).flow as usize % FLOWS
            / hash::WAYS
    };
    (1..).filter(|&flow| set(flow) == 5).take(count).collect()
}

/// Eight flows of a set have a queue each, the ninth shares its natural one; counted as they are
/// found.
#[test]
fn a_set_holds_eight_flows() {
    let (mut queue, mut drops) = (
        cake(Config {
            isolation: Isolation::Flows,
            ..best_effort()
        }),
        Drops::new(),
    );
    let flows = flows_of_one_set(9);
    for (id, &flow) in (0..).zip(&flows) {
        queue.enqueue(Probe::new(id).flow(flow), ms(1), &mut drops);
    }
    let ways = |queue: &Ledger<Cake<Probe>>| ways(queue, 0);
    assert_eq!(ways(&queue), [0, 8, 1]);
    let used = queue.inner().tins[0]
        .flows
        .iter()
        .filter(|flow| !flow.queue.is_empty())
        .count();
    assert_eq!(used, 8);
    let natural =
        |flow| Hashes::of(&Probe::new(0).flow(flow), Isolation::Flows, 0).flow as usize % FLOWS;
    let displaced = natural(flows[8]);
    for &flow in &flows {
        let tag = Hashes::of(&Probe::new(0).flow(flow), Isolation::Flows, 0).flow;
        let at = (0..FLOWS as u16).find(|&id| queue.inner().tins[0].flows[id].tag == tag);
        match at {
            Some(at) => assert!(usize::from(at) / 8 == 5, "in its set"),
            None => assert!(
                flow != flows[8],
                "whoever had the shared queue lost its tag"
            ),
        }
    }
    assert_eq!(displaced / 8, 5);
    let before = ways(&queue);
    queue.enqueue(Probe::new(9).flow(flows[8]), ms(1), &mut drops);
    assert_eq!(ways(&queue), before, "found at once in its natural place");
    queue.inner().verify();
}

/// A flow that lies in another way is found there, and counted so.
#[test]
fn a_displaced_flow_is_found_again() {
    let (mut queue, mut drops) = (
        cake(Config {
            isolation: Isolation::Flows,
            ..best_effort()
        }),
        Drops::new(),
    );
    let natural =
        |flow| Hashes::of(&Probe::new(0).flow(flow), Isolation::Flows, 0).flow as usize % FLOWS;
    let first = 1;
    let second = (2..)
        .find(|&flow| natural(flow) == natural(first))
        .expect("some");
    for flow in [first, second, second, first] {
        queue.enqueue(Probe::new(0).flow(flow), ms(1), &mut drops);
    }
    assert_eq!(ways(&queue, 0), [1, 2, 0]);
}

/// Worked: host X with four bulk flows, Y with one: quanta 378 and 1513, and one more by chance.
#[test]
fn quanta_are_divided_among_a_hosts_flows() {
    let (mut queue, mut drops) = (cake(best_effort()), Drops::new());
    for round in 0..10 {
        for flow in 1..=4u64 {
            queue.enqueue(
                Probe::new(round).flow(flow).hosts(1, 100 + flow as u32),
                ms(1),
                &mut drops,
            );
        }
        queue.enqueue(Probe::new(round).flow(5).hosts(2, 200), ms(1), &mut drops);
    }
    for _ in 0..10 {
        queue.dequeue(ms(1), &mut drops);
    }
    assert_eq!(tin(&queue, 0).bulk_flows, 5);
    let mut random = Random::new(1);
    let Cake { tins, .. } = queue.inner();
    let mut shares = [const { Vec::new() }; 2];
    for id in (0..FLOWS as u16).filter(|&id| !tins[0].flows[id].queue.is_empty()) {
        let (_, packet) = queue
            .inner()
            .packets
            .back(tins[0].flows[id].queue)
            .map(|(at, item)| (at, &item.packet))
            .expect("one");
        let host = usize::from(packet.flow == 5);
        (0..1000).for_each(|_| shares[host].push(tins[0].share(id, &mut random)));
    }
    for (shares, exact) in shares.iter().zip([378.5, 1513.98]) {
        let low = exact as i32;
        assert!(
            shares.iter().all(|&share| share == low || share == low + 1),
            "{exact}"
        );
        let mean = shares.iter().sum::<i32>() as f64 / shares.len() as f64;
        assert!(
            (mean - exact).abs() < 0.1,
            "{mean}: nothing is lost on average"
        );
    }
    queue.inner().verify();
}

/// Bytes that each flow sends while all stay backlogged: flow, source, destination.
fn shares(isolation: Isolation, flows: &[(u64, u32, u32)]) -> Vec<u64> {
    let (mut queue, mut drops) = (
        cake(Config {
            isolation,
            ..patient()
        }),
        Drops::new(),
    );
    let mut sent = std::vec![0; flows.len()];
    let mut held = std::vec![0; flows.len()];
    for step in 0..20_000 {
        for (at, &(flow, source, destination)) in flows.iter().enumerate() {
            while held[at] < 5 {
                held[at] += 1;
                let id = u32::try_from(at).expect("few");
                queue.enqueue(
                    Probe::new(id).flow(flow).hosts(source, destination),
                    ms(step),
                    &mut drops,
                );
            }
        }
        // A queue that stands for hosts holds packets of several flows: they leave in any order.
        let packet = queue.dequeue(ms(step), &mut drops).expect("backlogged");
        sent[packet.id as usize] += packet.len().get();
        held[packet.id as usize] -= 1;
        for (packet, _) in drops.drain() {
            held[packet.id as usize] -= 1;
        }
    }
    queue.inner().verify();
    sent
}

/// The fairness of each mode: source 1 has three flows to 7, 8, 9, source 2 one to 7.
#[test]
fn every_mode_is_fair_to_whom_it_says() {
    let flows = [(1, 1, 7), (2, 1, 8), (3, 1, 9), (4, 2, 7)];
    for (mode, expected) in [
        (Isolation::Flows, [3, 3, 3, 3]),
        (Isolation::DualSrcHost, [2, 2, 2, 6]),
        (Isolation::DualDstHost, [2, 4, 4, 2]),
        (Isolation::TripleIsolate, [2, 2, 2, 3]),
        (Isolation::Hosts, [3, 3, 3, 3]),
    ] {
        let sent = shares(mode, &flows);
        let (all, parts) = (
            sent.iter().sum::<u64>() as f64,
            expected.iter().sum::<u64>() as f64,
        );
        for (sent, part) in sent.iter().zip(expected) {
            let share = *sent as f64 / all;
            assert!(
                (share - part as f64 / parts).abs() < 0.01,
                "{mode:?}: {sent} of {all}, not {part} of {parts}"
            );
        }
    }
    // Queues by host: the flows of source 1 are in one, and of what it sends each gets some.
    let sent = shares(Isolation::SrcHost, &flows);
    let halves = [sent[..3].iter().sum::<u64>(), sent[3]];
    assert!(halves[0].abs_diff(halves[1]) < 10_000, "{sent:?}");
}

/// A thousand flows of one host get a byte or two per turn; skipping the laps in which nobody may
/// send serves them alike.
#[test]
fn the_flows_of_a_busy_host_are_served_alike_and_at_once() {
    let served = |profile| {
        let config = Config {
            profile,
            ..patient()
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        for id in 0..3 * 300 {
            queue.enqueue(
                Probe::new(id).flow((id % 300).into()).hosts(1, 1),
                ms(1),
                &mut drops,
            );
        }
        let order: Vec<u32> = (0..900)
            .filter_map(|_| queue.dequeue(ms(1), &mut drops))
            .map(|packet| packet.id)
            .collect();
        queue.inner().verify();
        order
    };
    for profile in [Profile::Design, Profile::Linux] {
        let order = served(profile);
        assert_eq!(order.len(), 900);
        for round in 0..3 {
            let flows: std::collections::BTreeSet<u32> = order[300 * round..300 * (round + 1)]
                .iter()
                .map(|id| id % 300)
                .collect();
            assert!(
                flows.len() > 285,
                "{profile}: {} of 300 flows in round {round}",
                flows.len()
            );
        }
    }
    // Jumbo packets at a slow rate: millions of turns, had they to be taken one by one.
    let (mut queue, mut drops) = (
        cake(Config {
            rtt: Duration::from_secs(1000),
            memory_limit: Some(Bytes::new(4 << 30)),
            split_gso: false,
            ..shaped(1000)
        }),
        Drops::new(),
    );
    for id in 0..3 * 900 {
        queue.enqueue(
            Probe::new(id)
                .flow((id % 900).into())
                .hosts(1, 1)
                .sized(1 << 20),
            ms(1),
            &mut drops,
        );
    }
    let left = departures(&mut queue, ms(1), Instant::from_nanos(u64::MAX), &mut drops);
    assert_eq!(left.len() + drops.len(), 2700);
}

/// A flow of the sparse kind passes a hundred full queues: it waits for one packet at most.
#[test]
fn sparse_flows_go_first() {
    let (mut queue, mut drops) = (cake(shaped(12_112)), Drops::new());
    for id in 0..1000 {
        queue.enqueue(Probe::new(id).flow((id % 100).into()), ms(1000), &mut drops);
    }
    let mut now = ms(1000);
    for _ in 0..500 {
        queue.dequeue(now, &mut drops);
        now += Duration::from_millis(1);
    }
    queue.enqueue(Probe::new(5000).flow(777).sized(100), now, &mut drops);
    assert_eq!(
        queue.dequeue(now, &mut drops).map(|packet| packet.id),
        Some(5000)
    );
}

/// Kernel bug (6.11 to 6.13): counts of hosts were touched in modes that do not use them, and ran
/// below zero. And the modes may change while packets wait.
#[test]
fn hosts_are_counted_only_where_they_matter() {
    for (isolation, sides) in [
        (Isolation::Flows, [0, 0]),
        (Isolation::DualSrcHost, [4, 0]),
        (Isolation::DualDstHost, [0, 4]),
        (Isolation::TripleIsolate, [4, 4]),
    ] {
        let (mut queue, mut drops) = (
            cake(Config {
                isolation,
                ..best_effort()
            }),
            Drops::new(),
        );
        let fill = |queue: &mut Ledger<Cake<Probe>>, drops: &mut Drops<Probe>| {
            for round in 0..20 {
                for flow in 1..=4 {
                    queue.enqueue(Probe::new(round).flow(flow).hosts(1, 2), ms(1), drops);
                }
            }
            for _ in 0..20 {
                queue.dequeue(ms(1), drops);
            }
        };
        fill(&mut queue, &mut drops);
        let hosts = |queue: &Ledger<Cake<Probe>>| queue.inner().tins[0].bulk_flows_of_hosts();
        assert_eq!(hosts(&queue), sides, "{isolation:?}");
        for (other, sides) in [
            (Isolation::TripleIsolate, [4, 4]),
            (Isolation::Flows, [0, 0]),
            (Isolation::DualDstHost, [0, 4]),
        ] {
            queue
                .edit(ms(1), &mut drops, |config| config.isolation = other)
                .expect("valid");
            queue.inner().verify();
            fill(&mut queue, &mut drops);
            assert_eq!(hosts(&queue), sides, "{isolation:?} to {other:?}");
            queue.inner().verify();
        }
        assert_eq!(
            queue.backlog().packets,
            departures(&mut queue, ms(2), ms(2), &mut drops).len() + drops.len()
        );
        queue.inner().verify();
    }
}

/// Kernel bug: when a flow took over a bulk queue of others, the host of the wrong queue was
/// counted down.
#[test]
fn a_collision_moves_the_count_from_host_to_host() {
    let (mut queue, mut drops) = (cake(best_effort()), Drops::new());
    for round in 0..20 {
        for (host, flow) in (1..).zip(flows_of_one_set(9)) {
            queue.enqueue(
                Probe::new(round).flow(flow).hosts(host, 100 + host),
                ms(1),
                &mut drops,
            );
        }
        queue.inner().verify();
    }
    for _ in 0..60 {
        queue.dequeue(ms(1), &mut drops);
        queue.inner().verify();
    }
    assert!(tin(&queue, 0).way_collisions > 0 && tin(&queue, 0).bulk_flows == 8);
    for (host, flow) in (50..).zip(flows_of_one_set(17)) {
        queue.enqueue(
            Probe::new(0).flow(flow).hosts(host, 200 + host),
            ms(1),
            &mut drops,
        );
        queue.inner().verify();
    }
}

/// `net/sched/sch_cake.c` `cake_hash`: a flow that finds an idle queue of its own, or takes over
/// one in use, counts there for its hosts, not for those before.
#[test]
fn a_queue_counts_for_the_hosts_of_its_flow() {
    let mut queue = cake(best_effort());
    let tin = &mut queue.inner_mut().tins[0];
    let mut hosts_of = |flow, host| {
        let id = tin.queue_of(Hashes {
            flow,
            hosts: [host, host + 1],
        });
        let hosts = tin.flows[id].hosts;
        tin.wake(id, &mut Random::new(0));
        (id, hosts)
    };
    // The queues of the first set, each in use from its first packet on.
    for flow in 0..8u16 {
        assert_eq!(hosts_of(flow.into(), 100), (flow, [Some(100), Some(101)]));
    }
    assert_eq!(
        hosts_of(3, 300),
        (3, [Some(100), Some(101)]),
        "in use: it stays with the hosts it has"
    );
    assert_eq!(
        hosts_of(3 + FLOWS as u32, 500),
        (3, [Some(500), Some(501)]),
        "taken over"
    );
    let tin = &mut queue.inner_mut().tins[0];
    for host in [600, 700] {
        let id = tin.queue_of(Hashes {
            flow: 9,
            hosts: [host, host + 1],
        });
        assert_eq!(
            (id, tin.flows[id].hosts),
            (9, [Some(host as u16), Some(host as u16 + 1)]),
            "idle"
        );
    }
}

/// Packets of tins that are no more find a place in others, in order, and with their time of
/// arrival.
#[test]
fn tins_may_change_while_packets_wait() {
    let (mut queue, mut drops) = (
        cake(Config {
            tins: Tins::Diffserv8,
            ..Config::default()
        }),
        Drops::new(),
    );
    for id in 0..64 {
        queue.enqueue(
            Probe::new(id).flow(1).tos(((id % 8) << 5) as u8),
            ms(1),
            &mut drops,
        );
    }
    for (tins, count) in [
        (Tins::Diffserv3, 3),
        (Tins::Precedence, 8),
        (Tins::BestEffort, 1),
        (Tins::Diffserv4, 4),
    ] {
        queue
            .edit(ms(2), &mut drops, |config| config.tins = tins)
            .expect("valid");
        queue.inner().verify();
        assert_eq!(
            (queue.backlog().packets, queue.inner().tins().count()),
            (64, count),
            "{tins:?}"
        );
    }
    let left = departures(&mut queue, ms(3), ms(3), &mut drops);
    assert!(left.iter().all(|(_, packet)| packet.enqueued() == ms(1)));
    for tos in 0..8 {
        let ids: Vec<u32> = left
            .iter()
            .filter(|(_, packet)| packet.tos >> 5 == tos)
            .map(|(_, packet)| packet.id)
            .collect();
        assert!(ids.len() == 8 && ids.is_sorted(), "{ids:?}");
    }
}

/// Filters decide queue and hosts before the hash does, and may drop.
#[test]
fn filters_decide_before_the_hash() {
    let (mut queue, mut drops) = (cake(best_effort()), Drops::new());
    let mut filters = by_mark([(1, ClassId::new(3, 7))]);
    let mark = Masked {
        value: 2,
        mask: u32::MAX,
    };
    let drop = Action::Gact {
        control: Control::Drop,
        share: None,
    };
    filters
        .add(Filter {
            actions: vec![drop],
            ..Filter::new(Matcher::Mark(mark), None)
        })
        .expect("valid");
    queue.inner_mut().set_filters(filters);
    for mark in [1, 2, 1] {
        queue.enqueue(
            Probe::new(mark).flow(u64::from(mark) + 10).marked(mark),
            ms(1),
            &mut drops,
        );
    }
    assert!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .eq([(2, DropReason::Filter)])
    );
    assert_eq!(queue.inner().tins[0].flows[6].bytes.get(), 2 * 1514);
    assert_eq!(queue.inner().tins[0].flows[6].hosts, [Some(2), Some(2)]);
    queue.inner().verify();
}

/// A packet of a removed tin stays in the queue and with the hosts that a filter named; with another
/// isolation queues have other meanings, and its own hash decides.
#[test]
fn a_removed_tin_keeps_what_a_filter_decided() {
    let four = Config {
        tins: Tins::Diffserv4,
        ..best_effort()
    };
    let urgent = Probe::new(0).flow(11).hosts(5, 6).marked(1).tos(0xb8);
    for isolation in [four.isolation, Isolation::Flows] {
        let (mut queue, mut drops) = (cake(four.clone()), Drops::new());
        queue
            .inner_mut()
            .set_filters(by_mark([(1, ClassId::new(3, 7))]));
        queue.enqueue(urgent.clone(), ms(1), &mut drops);
        assert_eq!(queue.inner().tins[3].flows[6].bytes.get(), 1514);
        queue
            .edit(ms(2), &mut drops, |config| {
                (config.tins, config.isolation) = (Tins::BestEffort, isolation);
            })
            .expect("valid");
        let flow = &queue.inner().tins[0].flows[6];
        if isolation == four.isolation {
            assert_eq!(flow.bytes.get(), 1514);
            assert_eq!(flow.hosts, [Some(2), Some(2)]);
        } else {
            assert_eq!(flow.bytes, Bytes::ZERO);
        }
        queue.inner().verify();
    }
}
