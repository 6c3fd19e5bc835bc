//! The invariants of `net/sched/sch_cake.c` under random traffic, clocks and changes.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
enum Event {
    Enqueue {
        flow: u64,
        hosts: (u32, u32),
        len: u32,
        tos: u8,
        segments: u16,
    },
    Dequeue,
    Advance(u64),
    StepBack(u64),
    Change(Change),
}

fn event() -> impl Strategy<Value = Event> {
    let len = prop_oneof![
        Just(0u32),
        Just(60),
        60..1515u32,
        Just(1514),
        Just(65_535),
        Just(u32::MAX)
    ];
    let tos = prop_oneof![
        Just(0u8),
        Just(2),
        Just(4),
        Just(0xb8),
        Just(0x88 | 1),
        any::<u8>()
    ];
    let enqueue = (
        0..40u64,
        (0..4u32, 0..4u32),
        len,
        tos,
        prop_oneof![8 => Just(1u16), 1 => 2..5u16],
    )
        .prop_map(|(flow, hosts, len, tos, segments)| Event::Enqueue {
            flow,
            hosts,
            len,
            tos,
            segments,
        });
    prop_oneof![
        12 => enqueue,
        8 => Just(Event::Dequeue),
        4 => (0..30_000_000u64).prop_map(Event::Advance),
        1 => prop_oneof![Just(200_000_000), Just(3_600_000_000_000), Just(u64::MAX / 4)].prop_map(Event::Advance),
        1 => (0..400_000_000u64).prop_map(Event::StepBack),
        2 => (0..CHANGES.len()).prop_map(|at| Event::Change(CHANGES[at])),
    ]
}

/// A change of parameters; the first part is true if packets may move to other tins or queues.
type Change = (bool, fn(&mut Config));

const CHANGES: [Change; 17] = [
    (true, |config| config.tins = Tins::BestEffort),
    (true, |config| config.tins = Tins::Diffserv8),
    (true, |config| {
        (config.tins, config.isolation) = (Tins::Diffserv3, Isolation::Flows);
    }),
    (true, |config| config.isolation = Isolation::Hosts),
    (true, |config| config.isolation = Isolation::DualSrcHost),
    (true, |config| config.isolation = Isolation::TripleIsolate),
    (false, |config| {
        config.memory_limit = Some(Bytes::new(20_000))
    }),
    (false, |config| config.memory_limit = None),
    (false, |config| {
        config.bandwidth = Bandwidth::Shaped(Rate::mbit(1));
    }),
    (false, |config| {
        config.bandwidth = Bandwidth::Shaped(Rate::gbit(1));
        config.overhead = Overhead {
            bytes: Some(48),
            framing: Framing::Atm,
            ..config.overhead
        };
    }),
    (false, |config| {
        (config.bandwidth, config.overhead) = (Bandwidth::Unlimited, Overhead::default());
    }),
    (false, |config| {
        let start = config.bandwidth.at_first();
        config.bandwidth = Bandwidth::AutorateIngress { start };
    }),
    (false, |config| config.ingress = true),
    (false, |config| {
        (config.ingress, config.wash) = (false, true)
    }),
    (false, |config| {
        (config.ack_filter, config.split_gso) = (AckFilter::On, false);
    }),
    (false, |config| config.rtt = Duration::from_micros(1)),
    (false, |config| {
        (config.profile, config.rtt) = (Profile::Linux, Duration::from_millis(100));
    }),
];

fn start() -> impl Strategy<Value = Config> {
    let shaped = |rate| Config {
        bandwidth: Bandwidth::Shaped(rate),
        ..Config::default()
    };
    let ethernet = Overhead {
        bytes: Some(38),
        mpu: 84,
        ..Overhead::default()
    };
    prop_oneof![
        Just(Config::default()),
        Just(Config {
            tins: Tins::Diffserv4,
            memory_limit: Some(Bytes::new(100_000)),
            ..shaped(Rate::mbit(10))
        }),
        Just(Config {
            tins: Tins::BestEffort,
            overhead: ethernet,
            ..shaped(Rate::kbit(64))
        }),
        Just(Config {
            profile: Profile::Linux,
            tins: Tins::Precedence,
            isolation: Isolation::Flows,
            ..shaped(Rate::gbit(1))
        }),
        Just(shaped(Rate::bits_per_sec(8))),
        Just(Config {
            bandwidth: Bandwidth::AutorateIngress { start: Rate::ZERO },
            ingress: true,
            memory_limit: Some(Bytes::new(3000)),
            ..Config::default()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The account always balances, every count is what a walk finds, memory keeps to its limit,
    /// packets of a flow and tin leave in order, nobody loses or gains marks wrongly, and the queue
    /// says truly when it is ready; a clock that stepped back makes it ready earlier than it said.
    #[test]
    fn everything_is_counted_and_nothing_stalls(config in start(), events in proptest::collection::vec(event(), 0..200)) {
        let (mut queue, mut drops) = (cake(config), Drops::new());
        let (mut now, mut id, mut classified) = (ms(1000), 0, 0);
        let (mut moved, mut seen) = (false, now);
        let mut sent: BTreeMap<(u64, u8), VecDeque<u32>> = BTreeMap::new();
        let mut tos_sent = Vec::new();
        for (step, event) in (0..).zip(events) {
            let mut out = None;
            match event {
                Event::Enqueue { flow, hosts, len, tos, segments } => {
                    let packet = Probe::new(id).flow(flow).hosts(hosts.0, hosts.1).sized(len).tos(tos).of_segments(segments);
                    sent.entry((flow, tos)).or_default().push_back(id);
                    tos_sent.push(tos);
                    id += 1;
                    classified += 1;
                    queue.enqueue(packet, now, &mut drops);
                    seen = now;
                }
                Event::Dequeue => {
                    let ready = queue.ready_at();
                    let stepped = now < std::mem::replace(&mut seen, now);
                    out = queue.dequeue(now, &mut drops);
                    let is_ready = ready.is_some_and(|ready| ready <= now);
                    prop_assert!(out.is_some() == is_ready || queue.inner().config.ingress || (stepped && out.is_some()));
                    if out.is_none() {
                        prop_assert!(queue.ready_at().is_none_or(|ready| ready > now), "no spinning");
                    }
                }
                Event::Advance(nanos) => now += Duration::from_nanos(nanos),
                Event::StepBack(nanos) => now = now - Duration::from_nanos(nanos),
                Event::Change((moves, edit)) => {
                    moved |= moves;
                    queue.edit(now, &mut drops, edit).expect("valid");
                }
            }
            if step % 32 == 0 {
                queue.inner().verify();
            }
            for (packet, reason) in drops.drain() {
                let tos = tos_sent[packet.id as usize];
                let blue = reason == DropReason::Unresponsive && tos & 3 != 0 && packet.tos & 3 == 3;
                prop_assert!(packet.tos & 3 == tos & 3 || blue, "a dropped packet is not marked");
            }
            if let Some(packet) = out {
                let tos = tos_sent[packet.id as usize];
                let washed = packet.tos >> 2 == 0 || packet.tos >> 2 == tos >> 2;
                prop_assert!(washed && (packet.tos & 3 == tos & 3 || tos & 3 != 0 && packet.tos & 3 == 3));
                let queue = sent.get_mut(&(packet.flow, tos)).expect("sent");
                // Earlier ones were dropped, or left before; pieces of one packet share its name.
                // Where tins or queues have become others, a flow has left packets behind.
                while !moved && queue.front().is_some_and(|&first| first < packet.id) {
                    queue.pop_front();
                }
                prop_assert!(moved || queue.front() == Some(&packet.id), "in order");
            }
        }
        let tins = queue.inner().tins().count();
        let ways: u64 = (0..tins).flat_map(|tin| ways(&queue, tin)).sum();
        prop_assert!(moved || ways <= classified);
        let open = |config: &mut Config| (config.bandwidth, config.ingress) = (Bandwidth::Shaped(Rate::gbit(100)), false);
        queue.edit(now, &mut drops, open).expect("valid");
        departures(&mut queue, now, Instant::from_nanos(u64::MAX), &mut drops);
        prop_assert!(queue.backlog().is_empty() && queue.backlog().bytes == Bytes::ZERO);
        queue.inner().verify();
    }

    /// Over any time that begins when the queue has been empty, no more leaves than the rate allows
    /// and one packet, in bytes of the link; and while packets wait, no less.
    #[test]
    fn the_rate_is_an_envelope(
        rate in 10_000..100_000_000u64,
        lens in proptest::collection::vec(60..1515u32, 1..200),
        gaps in proptest::collection::vec(0..3_000_000u64, 200),
    ) {
        let config = Config {
            bandwidth: Bandwidth::Shaped(Rate::bytes_per_sec(rate)),
            overhead: Overhead { bytes: Some(38), mpu: 84, ..Overhead::default() },
            ..best_effort()
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        let (mut now, mut begin, mut sent) = (ms(1000), ms(1000), 0);
        let charged = |len: u64| (len + 24).max(84);
        for (id, (len, gap)) in (0..).zip(lens.iter().zip(&gaps)) {
            let next = now + Duration::from_nanos(*gap);
            for (at, packet) in departures(&mut queue, now, next, &mut drops) {
                sent += charged(packet.len().get());
                let allowed = rate as f64 * (at - begin).as_secs_f64() + 1538.0;
                prop_assert!(sent as f64 <= allowed + 1.0, "{sent} of {allowed}");
            }
            now = next;
            if queue.backlog().is_empty() && queue.inner().shaper.opens_at() <= now {
                (begin, sent) = (now, 0);
            }
            queue.enqueue(Probe::new(id).sized(*len).flow((id % 7).into()), now, &mut drops);
        }
        for (at, packet) in departures(&mut queue, now, Instant::from_nanos(u64::MAX), &mut drops) {
            let least = rate as f64 * (at - begin).as_secs_f64();
            prop_assert!(sent as f64 >= least - 1538.0, "idle while packets wait: {sent} of {least}");
            sent += charged(packet.len().get());
        }
    }

    /// Hosts with any numbers of flows get the same bytes, and so do the flows of one host.
    #[test]
    fn hosts_are_served_alike(flows in proptest::collection::vec(1..12usize, 2..5), len in 200..1515u32, seed: u64) {
        let config = Config { isolation: Isolation::DualSrcHost, seed, ..patient() };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        let mut sent: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        let all: Vec<(u32, u64)> = (0..).zip(&flows).flat_map(|(host, &count)| (0..count as u64).map(move |flow| (host, flow))).collect();
        let packet = |id: u32| {
            let (host, flow) = all[id as usize];
            Probe::new(id).flow(u64::from(host) << 32 | flow | 1 << 60).hosts(host + 1, 0).sized(len)
        };
        for id in (0..all.len() as u32).flat_map(|id| [id; 3]) {
            queue.enqueue(packet(id), ms(1), &mut drops);
        }
        let step = |queue: &mut Ledger<Cake<Probe>>, drops: &mut Drops<Probe>| {
            let left = queue.dequeue(ms(1), drops).expect("backlogged");
            queue.enqueue(packet(left.id), ms(1), drops);
            left
        };
        // Until all have become bulk flows.
        (0..40 * all.len()).for_each(|_| drop(step(&mut queue, &mut drops)));
        prop_assume!(tin(&queue, 0).way_collisions == 0);
        for _ in 0..3000 {
            let left = step(&mut queue, &mut drops);
            *sent.entry(all[left.id as usize]).or_default() += left.len().get();
        }
        let hosts: Vec<u64> =
            (0..flows.len() as u32).map(|host| sent.iter().filter(|(key, _)| key.0 == host).map(|(_, sent)| sent).sum()).collect();
        let (least, most) = (hosts.iter().min().expect("some"), hosts.iter().max().expect("some"));
        // A quantum and a packet, and what chance adds to the sum of quanta.
        prop_assert!(most - least <= 1514 + 12 * u64::from(len) + most / 50, "{hosts:?}");
        queue.inner().verify();
    }

    /// Packets that can be marked are treated as others are, but for being marked instead of
    /// dropped; also by the clock.
    #[test]
    fn marks_replace_drops(seed: u64, load in 2..5u64) {
        let signals = [0, ECT0].map(|tos| {
            let (mut queue, mut drops) = (cake(Config { seed, ..shaped(12_112) }), Drops::new());
            let mut first = None;
            for millis in 1000..1400 {
                for _ in 0..load {
                    queue.enqueue(Probe::new(0).tos(tos), ms(millis), &mut drops);
                }
                let marked = queue.dequeue(ms(millis), &mut drops).is_some_and(|packet| packet.tos == 3);
                let dropped = drops.drain().count() > 0;
                assert!(if tos == 0 { !marked } else { !dropped });
                if marked || dropped {
                    first.get_or_insert(millis);
                }
            }
            first
        });
        prop_assert!(signals[0].is_some() && signals[0] == signals[1], "{signals:?}");
    }
}

/// Clocks near their end saturate.
#[test]
fn the_end_of_time_is_survived() {
    let autorate = Bandwidth::AutorateIngress { start: Rate::ZERO };
    for (bandwidth, profile, ingress) in [
        (Bandwidth::Unlimited, Profile::Design, false),
        (Bandwidth::Shaped(Rate::mbit(1)), Profile::Design, false),
        (autorate, Profile::Linux, false),
        (
            Bandwidth::Shaped(Rate::bits_per_sec(8)),
            Profile::Design,
            true,
        ),
    ] {
        let config = Config {
            bandwidth,
            profile,
            ingress,
            ..Config::default()
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        let end = Instant::from_nanos(u64::MAX);
        for step in 0..100u32 {
            let now = end - Duration::from_millis(1000 - 10 * u64::from(step));
            for flow in 0..3 {
                queue.enqueue(Probe::new(step).flow(flow), now, &mut drops);
            }
            queue.dequeue(now, &mut drops);
            queue.inner().verify();
        }
        departures(&mut queue, end, end, &mut drops);
        assert!(queue.backlog().is_empty(), "{bandwidth:?}");
    }
}

/// A rate that is changed applies to what comes; limits of rates are survived.
#[test]
fn any_rate_will_do() {
    for rate in [1, 63, 64, u64::MAX / 8] {
        let bandwidth = Bandwidth::Shaped(Rate::bytes_per_sec(rate));
        let mut queue = Ledger::new(
            Cake::new(Config {
                bandwidth,
                tins: Tins::Diffserv8,
                ..Config::default()
            })
            .expect("valid"),
        );
        let mut drops = Drops::new();
        for id in 0..10 {
            queue.enqueue(Probe::new(id), ms(1), &mut drops);
        }
        assert!(queue.dequeue(ms(1), &mut drops).is_some());
        let left = departures(&mut queue, ms(1), Instant::from_secs(3600), &mut drops);
        assert_eq!(
            left.len() + drops.len(),
            9,
            "no rate is too low to let go of packets"
        );
    }
}
