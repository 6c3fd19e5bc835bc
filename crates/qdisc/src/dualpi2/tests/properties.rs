//! Conservation and bounds under any events.

use super::*;

fn config() -> impl Strategy<Value = Config> {
    let time = prop_oneof![Just(0u64), 1..200_000u64, Just(15_000_000), Just(u64::MAX)]
        .prop_map(Duration::from_nanos);
    let limit = prop_oneof![Just(0), Just(1), 2..40u32, Just(1000)];
    let native = prop_oneof![
        time.clone().prop_map(Native::Delay),
        (0..5u32).prop_map(Native::Packets),
        (time.clone(), time.clone()).prop_map(|(min, range)| Native::Ramp { min, range }),
    ];
    let weights = prop_oneof![Just((0.16, 3.2)), Just((256.0, 256.0)), Just((0.0, 0.0))];
    let memory = proptest::option::of((0..20_000u64).prop_map(Bytes::new));
    (
        limit,
        memory,
        time.clone(),
        time,
        weights,
        native,
        0..=100u8,
        any::<[bool; 4]>(),
        any::<u64>(),
    )
        .prop_map(
            |(
                limit,
                memory_limit,
                target,
                tupdate,
                (alpha, beta),
                native,
                classic_protection,
                switches,
                seed,
            )| Config {
                limit,
                memory_limit,
                target,
                tupdate: tupdate.max(Duration::from_nanos(1)),
                alpha,
                beta,
                native,
                classic_protection,
                overload: if switches[0] {
                    Overload::Drop
                } else {
                    Overload::Overflow
                },
                drop_at: if switches[1] {
                    DropAt::Enqueue
                } else {
                    DropAt::Dequeue
                },
                identifier: if switches[2] {
                    Identifier::L4sEct
                } else {
                    Identifier::AnyEct
                },
                split_gso: switches[3],
                seed,
                ..Config::default()
            },
        )
}

/// One thing that happens: a packet comes, one is asked for, time passes or steps back, parameters
/// change.
#[derive(Clone, Debug)]
enum Event {
    Enqueue { len: u32, tos: u8, segments: u16 },
    Dequeue,
    Advance(u64),
    StepBack(u64),
    Change(std::boxed::Box<Config>),
}

fn event() -> impl Strategy<Value = Event> {
    let len = prop_oneof![Just(0u32), 40..1515u32, Just(65_535), Just(u32::MAX)];
    let segments = prop_oneof![4 => Just(1u16), 1 => 2..5u16];
    prop_oneof![
        6 => (len, 0..4u8, segments).prop_map(|(len, tos, segments)| Event::Enqueue { len, tos, segments }),
        5 => Just(Event::Dequeue),
        2 => prop_oneof![0..30_000_000u64, Just(u64::MAX / 4)].prop_map(Event::Advance),
        1 => (0..400_000_000u64).prop_map(Event::StepBack),
        1 => config().prop_map(|config| Event::Change(config.into())),
    ]
}

proptest! {
    /// The account balances, limits hold, each queue keeps its order, only what understands marks
    /// is marked, work is conserved.
    #[test]
    fn whatever_comes_the_queues_hold(first in config(), events in proptest::collection::vec(event(), 0..200)) {
        let (mut queue, mut drops) = (Ledger::new(DualPi2::new(first.clone()).expect("valid")), Drops::new());
        let (mut now, mut config) = (ms(1), first);
        let mut sent = Vec::new();
        let mut last = [0; 2];
        for event in events {
            match event {
                Event::Enqueue { len, tos, segments } => {
                    let packet = Probe::new(sent.len() as u32).sized(len).tos(tos).of_segments(segments);
                    sent.push((tos, config.identifier.selects(tos)));
                    queue.enqueue(packet, now, &mut drops);
                }
                Event::Dequeue => {
                    let held = queue.backlog().packets;
                    let out = queue.dequeue(now, &mut drops);
                    prop_assert_eq!(out.is_some(), held > 0, "work conservation");
                    if let Some(packet) = out {
                        let (tos, low) = sent[packet.id as usize];
                        let last = &mut last[usize::from(low)];
                        prop_assert!(*last <= packet.id, "each queue in order");
                        *last = packet.id;
                        prop_assert!(packet.tos == tos || tos != 0 && packet.tos == CE);
                    }
                }
                Event::Advance(nanos) => now += Duration::from_nanos(nanos),
                Event::StepBack(nanos) => now = now - Duration::from_nanos(nanos),
                Event::Change(new) => {
                    // The side of a packet is known by the identifier it came under.
                    config = Config { identifier: config.identifier, ..*new };
                    queue.edit(now, &mut drops, |old| {
                        config.memory_limit = config.memory_limit.or(old.memory_limit);
                        *old = config.clone();
                    }).expect("valid");
                }
            }
            drops.drain().for_each(drop);
            let held = queue.backlog();
            prop_assert!(held.packets <= config.limit as usize && held.bytes <= config.memory());
            prop_assert_eq!(queue.ready_at(), (held.packets > 0).then_some(Instant::ZERO));
            prop_assert!((0.0..=1.0).contains(&queue.inner().probability()));
        }
        while queue.dequeue(now, &mut drops).is_some() {}
        prop_assert_eq!(queue.backlog(), Backlog::default());
    }
}
