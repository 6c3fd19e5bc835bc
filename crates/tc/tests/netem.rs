//! netem under random traffic, clocks and changes, with and without a qdisc below
//! (`net/sched/sch_netem.c`, invariants).

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Rate};
use tautline_qdisc::netem::{
    Cells, Chance, Config, Distribution, Draw, GilbertElliott, Link, Loss, Netem, Reorder, Slots,
    Spacing, States,
};
use tautline_qdisc::{DropReason, Drops, Ledger, Qdisc};
use tautline_tc::{Change, DynQdisc, Kind, Target, Words, build};

use tautline_testkit::Probe;

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![3 => (0..30_000_000u64).prop_map(Duration::from_nanos), 1 => Just(Duration::ZERO), 1 => Just(Duration::MAX)]
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![2 => Just(0.0), 1 => Just(1.0), 2 => (0..100u32).prop_map(|percent| f64::from(percent) / 100.0)]
}

fn chance() -> impl Strategy<Value = Chance> {
    (share(), share()).prop_map(|(probability, correlation)| Chance {
        probability,
        correlation,
    })
}

fn loss() -> impl Strategy<Value = Loss> {
    let half = || share().prop_map(|share| share / 2.0);
    prop_oneof![
        chance().prop_map(Loss::Random),
        (half(), half(), half(), share(), half()).prop_map(|(p13, p31, p32, p23, p14)| {
            Loss::States(States {
                p13,
                p31,
                p32,
                p23,
                p14,
            })
        }),
        (share(), share(), share(), share()).prop_map(|(to_bad, to_good, bad_loss, good_loss)| {
            Loss::GilbertElliott(GilbertElliott {
                to_bad,
                to_good,
                bad_loss,
                good_loss,
            })
        }),
    ]
}

fn distribution() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        Just(Distribution::Uniform),
        Just(Distribution::Normal),
        Just(Distribution::Pareto),
        Just(Distribution::ParetoNormal)
    ]
}

fn link() -> impl Strategy<Value = Link> {
    let rate = prop_oneof![
        Just(Rate::mbit(10)),
        Just(Rate::MAX),
        Just(Rate::bytes_per_sec(1))
    ];
    let cells = prop::option::of(
        (1..100u32, -9..9i32).prop_map(|(size, overhead)| Cells { size, overhead }),
    );
    (rate, -100..100i32, cells).prop_map(|(rate, packet_overhead, cells)| Link {
        rate,
        packet_overhead,
        cells,
    })
}

fn slots() -> impl Strategy<Value = Slots> {
    let every = prop_oneof![
        (time(), time()).prop_map(|(one, other)| Spacing::Range {
            min: one.min(other),
            max: one.max(other)
        }),
        (distribution(), time(), time()).prop_map(|(distribution, delay, jitter)| {
            Spacing::Spread {
                distribution,
                delay,
                jitter,
            }
        }),
    ];
    (
        every,
        prop::option::of(1..5u32),
        prop::option::of((1..9000u64).prop_map(Bytes::new)),
    )
        .prop_map(|(every, packets, bytes)| Slots {
            every,
            packets,
            bytes,
        })
}

/// Boxed: its type is too large for the stack of a test's thread.
fn config() -> BoxedStrategy<Config> {
    let delays = (time(), time(), share(), distribution(), any::<bool>());
    let fates = (loss(), any::<bool>(), chance(), chance());
    let order =
        prop::option::of((chance(), 1..5u32).prop_map(|(chance, gap)| Reorder { chance, gap }));
    let limit = prop_oneof![Just(0u32), 1..20u32, Just(1000)];
    (
        limit,
        delays,
        fates,
        order,
        prop::option::of(link()),
        prop::option::of(slots()),
        any::<u64>(),
    )
        .prop_map(
            |(
                limit,
                (delay, jitter, delay_correlation, distribution, linux),
                (loss, ecn, duplicate, corrupt),
                reorder,
                link,
                slots,
                seed,
            )| {
                Config {
                    limit,
                    delay,
                    jitter,
                    delay_correlation,
                    distribution: if jitter.is_zero() {
                        Distribution::Uniform
                    } else {
                        distribution
                    },
                    draw: if linux { Draw::Remainder } else { Draw::Scaled },
                    loss,
                    ecn,
                    duplicate,
                    corrupt,
                    reorder: reorder.filter(|_| !delay.is_zero()),
                    link,
                    slots,
                    seed,
                }
            },
        )
        .boxed()
}

#[derive(Clone, Debug)]
enum Event {
    Enqueue { len: u32, tos: u8, segments: u16 },
    Dequeue,
    Advance(u64),
    StepBack(u64),
    Reconfigure(Box<Config>),
}

fn event() -> impl Strategy<Value = Event> {
    let len = prop_oneof![Just(0u32), 40..1515u32, Just(65_535), Just(u32::MAX)];
    prop_oneof![
        8 => (len, 0..4u8, 1..4u16).prop_map(|(len, tos, segments)| Event::Enqueue { len, tos, segments }),
        8 => Just(Event::Dequeue),
        3 => (0..8_000_000u64).prop_map(Event::Advance),
        1 => prop_oneof![Just(3_600_000_000_000), Just(u64::MAX / 4)].prop_map(Event::Advance),
        1 => (0..400_000_000u64).prop_map(Event::StepBack),
        1 => config().prop_map(|config| Event::Reconfigure(Box::new(config))),
    ]
}

fn path(config: Config, child: bool) -> Ledger<Netem<Probe, Box<dyn DynQdisc<Probe>>>> {
    let child = child.then(|| build("fq_codel limit 20").expect("valid"));
    let path = child.map_or_else(
        || Netem::new(config.clone()),
        |child| Netem::with_child(config.clone(), child),
    );
    Ledger::new(path.expect("valid"))
}

/// The departures, in order: names, TOS bytes, and whether sent or why not.
fn outcome(config: &Config, child: bool, events: &[Event]) -> Vec<(u32, u8, Option<DropReason>)> {
    let (mut path, mut drops, mut outcome) =
        (path(config.clone(), child), Drops::new(), Vec::new());
    let (mut now, mut limit, mut next_id) = (Instant::from_secs(1), config.limit, 0);
    let mut tos_sent = BTreeMap::new();
    let mut step = |event: &Event, now: &mut Instant| {
        match event {
            Event::Enqueue { len, tos, segments } => {
                let held = path.backlog().packets;
                let packet = Probe::new(next_id)
                    .sized(*len)
                    .tos(*tos)
                    .of_segments(*segments);
                path.enqueue(packet, *now, &mut drops);
                assert!(
                    path.backlog().packets <= held.max(limit as usize),
                    "no packet is taken in above the limit"
                );
                tos_sent.insert(next_id, *tos);
                next_id += 1;
            }
            Event::Dequeue => {
                let packet = path.dequeue(*now, &mut drops);
                if packet.is_none() {
                    assert!(
                        path.ready_at().is_none_or(|ready| ready > *now),
                        "nothing to do now"
                    );
                }
                assert_eq!(path.ready_at().is_some(), !path.backlog().is_empty());
                outcome.extend(packet.map(|packet| (packet.id, packet.tos, None)));
            }
            Event::Advance(nanos) => *now += Duration::from_nanos(*nanos),
            Event::StepBack(nanos) => *now = *now - Duration::from_nanos(*nanos),
            Event::Reconfigure(config) => {
                let kind = Kind::Netem((**config).clone()).to_string();
                let words = kind.strip_prefix("netem").expect("its name").to_string()
                    + if config.ecn { "" } else { " noecn" };
                // Some need what was there before not to be: then nothing changes.
                if path
                    .change(Target::Root, &mut Words::new(&words), *now, &mut drops)
                    .is_ok()
                {
                    limit = config.limit;
                }
            }
        }
        outcome.extend(
            drops
                .drain()
                .map(|(packet, reason)| (packet.id, packet.tos, Some(reason))),
        );
        path.ready_at()
    };
    let mut ready = None;
    for event in events {
        ready = step(event, &mut now);
    }
    // Wakes it when it asks, until it is empty.
    for _ in 0..20 * events.len() {
        let Some(at) = ready else { break };
        now = now.max(at);
        ready = step(&Event::Dequeue, &mut now);
    }
    assert!(
        path.backlog().is_empty() && path.backlog().bytes == Bytes::ZERO,
        "everything leaves"
    );
    for (id, tos, reason) in &outcome {
        let sent = tos_sent[id];
        assert!(
            *tos == sent
                || sent != 0 && *tos == 3 && reason.is_none_or(|reason| reason != DropReason::Loss)
        );
    }
    outcome
}

proptest! {
    /// Conservation with births, limits, marks, liveness, for all parameters; and the same seed
    /// gives the same packets.
    #[test]
    fn the_path_accounts_for_every_packet(config in config(), child: bool, events in vec(event(), 0..150)) {
        let first = outcome(&config, child, &events);
        prop_assert_eq!(first, outcome(&config, child, &events));
    }

    /// Without jitter: each packet after exactly its delay, first in, first out.
    #[test]
    fn a_fixed_delay_is_exact(micros in 0..50_000u64, gaps in vec(0..20_000u64, 1..60)) {
        let delay = Duration::from_micros(micros);
        let (mut path, mut drops) = (path(Config { delay, ..Config::default() }, false), Drops::new());
        let (mut now, mut due) = (Instant::ZERO, Vec::new());
        for (id, gap) in (0..).zip(gaps) {
            now += Duration::from_micros(gap);
            path.enqueue(Probe::new(id), now, &mut drops);
            due.push((now + delay, id));
        }
        for (due, id) in due {
            let ready = path.ready_at().expect("queued");
            prop_assert_eq!(ready, due);
            if due > Instant::ZERO {
                prop_assert!(path.dequeue(due - Duration::from_nanos(1), &mut drops).is_none());
            }
            prop_assert_eq!(path.dequeue(due, &mut drops).map(|packet| packet.id), Some(id));
        }
    }

    /// On a link packets keep their order and its rate, whatever the jitter.
    #[test]
    fn a_link_is_never_faster_than_its_rate(lens in vec(1..1515u32, 2..60), delay in time(), jitter in 0..30_000_000u64) {
        let (delay, jitter) = (delay.min(Duration::from_secs(1)), Duration::from_nanos(jitter));
        let link = Some(Link { rate: Rate::mbit(10), packet_overhead: 0, cells: None });
        let (mut path, mut drops) = (path(Config { delay, jitter, link, ..Config::default() }, false), Drops::new());
        for (id, len) in (0..).zip(&lens) {
            path.enqueue(Probe::new(id).sized(*len), Instant::from_secs(1), &mut drops);
        }
        let mut before = Instant::ZERO;
        for (id, len) in (0..).zip(&lens) {
            let now = path.ready_at().expect("queued");
            prop_assert!(now >= before + Bytes::new((*len).into()) / Rate::mbit(10));
            prop_assert_eq!(path.dequeue(now, &mut drops).map(|packet| packet.id), Some(id));
            before = now;
        }
    }
}

/// The mechanisms neutralised: the default path passes everything at once, in order, unchanged.
#[test]
fn the_default_path_does_nothing() {
    let (mut path, mut drops) = (path(Config::default(), false), Drops::new());
    for id in 0..1000 {
        path.enqueue(Probe::new(id).tos(2), Instant::ZERO, &mut drops);
    }
    for id in 0..1000 {
        let packet = path.dequeue(Instant::ZERO, &mut drops).expect("queued");
        assert_eq!((packet.id, packet.tos), (id, 2));
    }
    assert!(drops.is_empty() && path.ready_at().is_none());
}
