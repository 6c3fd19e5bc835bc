//! FQ under random traffic, departures, clocks and changes (`net/sched/sch_fq.c`, invariants).

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Item, Rate};
use tautline_qdisc::fq::{BANDS, BeyondHorizon, Config, Fq, Priorities, Weighted};
use tautline_qdisc::pfifo_fast::PRIOMAP;
use tautline_qdisc::{Drops, Ledger, Qdisc};
use tautline_tc::{Change, Kind, Target, Words};

use tautline_testkit::Probe;

#[derive(Clone, Debug)]
enum Event {
    /// A packet that names a departure so far from now, or none.
    Enqueue {
        flow: u64,
        len: u32,
        priority: u8,
        departs_in: Option<i64>,
    },
    Dequeue,
    Advance(u64),
    Reconfigure(Config),
}

fn enqueue() -> impl Strategy<Value = Event> {
    let len = prop_oneof![
        Just(0u32),
        40..1515u32,
        Just(1514),
        Just(65_535),
        Just(u32::MAX)
    ];
    let nanos = prop_oneof![-5_000_000..20_000_000i64, Just(30_000_000_000)];
    (0..6u64, len, 0..16u8, prop::option::of(nanos)).prop_map(
        |(flow, len, priority, departs_in)| Event::Enqueue {
            flow,
            len,
            priority,
            departs_in,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let advance =
        prop_oneof![4 => 0..8_000_000u64, 1 => Just(100_000_000), 1 => Just(4_000_000_000)]
            .prop_map(Event::Advance);
    prop_oneof![12 => enqueue(), 10 => Just(Event::Dequeue), 5 => advance, 1 => config(false).prop_map(Event::Reconfigure)]
}

fn config(linux: bool) -> impl Strategy<Value = Config> {
    let limits = (
        prop_oneof![Just(0u32), 1..8u32, Just(10_000)],
        prop_oneof![Just(0u32), 1..5u32, Just(100)],
    );
    let quanta = (
        prop_oneof![Just(64), Just(3028)],
        prop_oneof![Just(0), Just(15_140)],
    );
    let rate = prop::option::of(prop_oneof![
        Just(Rate::ZERO),
        Just(Rate::kbit(500)),
        Just(Rate::mbit(10)),
        Just(Rate::MAX)
    ]);
    (limits, quanta, rate, any::<bool>(), 1..4u32, any::<bool>()).prop_map(
        move |((limit, flow_limit), (quantum, initial), maxrate, pacing, buckets, cap)| Config {
            limit,
            flow_limit,
            quantum: Bytes::new(quantum),
            initial_quantum: Bytes::new(initial),
            maxrate,
            pacing,
            buckets,
            orphan_mask: None,
            beyond_horizon: if cap {
                BeyondHorizon::Cap
            } else {
                BeyondHorizon::Drop
            },
            priorities: if linux {
                Priorities::Control
            } else {
                Priorities::Bands(Weighted {
                    weights: [Bytes::kib(16); BANDS],
                    ..Weighted::default()
                })
            },
            ..Config::default()
        },
    )
}

/// A queue, the clock, and when each packet inside may leave, by flow in the order in which they
/// must.
struct Rig {
    queue: Ledger<Fq<Probe>>,
    config: Config,
    drops: Drops<Probe>,
    now: Instant,
    inside: BTreeMap<u64, Vec<(Instant, u32)>>,
    next_id: u32,
}

impl Rig {
    fn new(config: Config) -> Self {
        let queue = Ledger::new(Fq::new(config.clone()).expect("valid"));
        Self {
            queue,
            config,
            drops: Drops::new(),
            now: Instant::from_secs(1),
            inside: BTreeMap::new(),
            next_id: 0,
        }
    }

    /// The queue a packet's order is kept in: its flow, or that of control packets.
    fn lane(&self, packet: &Probe) -> u64 {
        let control = self.config.priorities == Priorities::Control && packet.priority() == 7;
        if control { u64::MAX } else { packet.flow }
    }

    fn step(&mut self, event: &Event) -> Option<Probe> {
        let mut out = None;
        match event {
            Event::Enqueue {
                flow,
                len,
                priority,
                departs_in,
            } => {
                let departure = departs_in.map_or(Instant::ZERO, |nanos| {
                    if nanos < 0 {
                        self.now - Duration::from_nanos(nanos.unsigned_abs())
                    } else {
                        self.now + Duration::from_nanos(nanos as u64)
                    }
                });
                let packet = Probe::new(self.next_id)
                    .flow(*flow)
                    .sized(*len)
                    .with_priority(*priority)
                    .departing(departure);
                let lane = self.lane(&packet);
                // Linux 6.1 sorts by departures that have passed, too; the default takes them for
                // "now".
                let past_counts =
                    self.config.priorities == Priorities::Control && departure > Instant::ZERO;
                let time = if lane == u64::MAX {
                    Instant::ZERO
                } else {
                    let earliest = if past_counts { Instant::ZERO } else { self.now };
                    departure.min(self.now + self.config.horizon).max(earliest)
                };
                let queue = self.inside.entry(lane).or_default();
                queue.push((time, self.next_id));
                queue.sort_unstable();
                self.next_id += 1;
                self.queue.enqueue(packet, self.now, &mut self.drops);
            }
            Event::Dequeue => {
                out = self.queue.dequeue(self.now, &mut self.drops);
                let ready = self.queue.ready_at();
                assert!(
                    out.is_some() || ready.is_none_or(|ready| ready > self.now),
                    "nothing to do now"
                );
            }
            Event::Advance(nanos) => self.now += Duration::from_nanos(*nanos),
            Event::Reconfigure(config) => {
                let config = Config {
                    priorities: self.config.priorities.clone(),
                    ..config.clone()
                };
                // Through the words, so that the account sees what is dropped.
                let words = Kind::Fq(config.clone()).to_string();
                let words = words
                    .strip_prefix("fq")
                    .expect("its name")
                    .replace("linux", "");
                let unlimited = if config.maxrate.is_none() {
                    " maxrate unlimited"
                } else {
                    ""
                };
                let pacing = if config.pacing { " pacing" } else { "" };
                let words = words + unlimited + pacing;
                self.queue
                    .change(
                        Target::Root,
                        &mut Words::new(&words),
                        self.now,
                        &mut self.drops,
                    )
                    .expect(&words);
                self.config = config;
            }
        }
        let dropped: Vec<Probe> = self.drops.drain().map(|(packet, _)| packet).collect();
        for packet in dropped {
            let queue = self.inside.entry(self.lane(&packet)).or_default();
            let at = queue
                .iter()
                .position(|(_, id)| *id == packet.id)
                .expect("dropped once");
            queue.remove(at);
        }
        if let Some(packet) = &out {
            let lane = self.lane(packet);
            let (time, id) = self.inside.get_mut(&lane).expect("was inside").remove(0);
            assert_eq!(id, packet.id, "the first of its flow by time and arrival");
            assert!(time <= self.now, "not before its departure");
        }
        self.check();
        out
    }

    fn check(&self) {
        let held: usize = self.inside.values().map(Vec::len).sum();
        assert_eq!(self.queue.backlog().packets, held);
        assert_eq!(self.queue.ready_at().is_some(), held > 0);
        let short_cut = 8;
        let bands = if self.config.priorities == Priorities::Control {
            1
        } else {
            BANDS
        };
        assert!(
            held <= bands * self.config.limit as usize + if bands == 1 { 0 } else { short_cut }
        );
        for (&lane, queue) in &self.inside {
            assert!(lane == u64::MAX || queue.len() <= self.config.flow_limit as usize + short_cut);
        }
    }

    /// Everything leaves if it is woken when it asks to be.
    fn drain(&mut self) {
        for _ in 0..2 * self.queue.backlog().packets {
            self.now = self.now.max(self.queue.ready_at().unwrap_or_default());
            self.step(&Event::Dequeue);
        }
        assert!(self.queue.backlog().is_empty() && self.queue.ready_at().is_none());
    }
}

proptest! {
    #[test]
    fn flows_keep_order_time_and_limits(config in any::<bool>().prop_flat_map(config), events in vec(event(), 0..300)) {
        let mut rig = Rig::new(config);
        for event in &events {
            rig.step(event);
        }
        rig.drain();
    }

    /// Clocks that step back, leap, and end.
    #[test]
    fn any_clock_is_survived(config in any::<bool>().prop_flat_map(config), steps in vec((enqueue(), any::<bool>(), any::<u64>(), 0..64u32), 0..200)) {
        let control = config.priorities == Priorities::Control;
        let mut queue = Ledger::new(Fq::new(config).expect("valid"));
        let (mut drops, mut latest) = (Drops::new(), Instant::ZERO);
        for (id, (event, dequeue, nanos, shift)) in (0..).zip(steps) {
            let now = Instant::from_nanos(nanos >> shift);
            let Event::Enqueue { flow, len, priority, departs_in } = event else { unreachable!("only those") };
            let departure = departs_in.map_or(Instant::ZERO, |nanos| now + Duration::from_nanos(nanos.unsigned_abs()));
            let packet = Probe::new(id).flow(flow).sized(len).with_priority(priority).departing(departure);
            queue.enqueue(packet, now, &mut drops);
            latest = latest.max(now);
            if dequeue {
                match queue.dequeue(now, &mut drops) {
                    // What was due when it came passes by the flows, also if the clock then steps
                    // back.
                    Some(packet) => {
                        let due = packet.departure().min(packet.enqueued() + Duration::from_secs(10));
                        prop_assert!(due <= latest || control && packet.priority() == 7);
                    }
                    None => prop_assert!(queue.ready_at().is_none_or(|ready| ready > now)),
                }
            }
        }
        for _ in 0..2 * queue.backlog().packets {
            let now = queue.ready_at().unwrap_or_default();
            queue.dequeue(now, &mut drops);
        }
        prop_assert!(queue.backlog().is_empty());
    }

    /// A flow that always has packets sends its first quantum, then no more than the rate, however
    /// late the wake-ups.
    #[test]
    fn a_maxrate_holds_in_the_long_run(
        mbit in 1..200u64,
        lens in vec(60..1515u32, 1..6),
        late in vec(0..2_000_000u64, 1..9),
        edt: bool,
    ) {
        let config = Config { maxrate: Some(Rate::mbit(mbit)), flow_limit: 1000, timer_slack: Duration::ZERO, ..Config::default() };
        let start = Instant::from_secs(1);
        let (mut queue, mut drops, mut now, mut sent) = (Fq::new(config.clone()).expect("valid"), Drops::new(), start, 0);
        for (id, len) in (0..600).zip(lens.iter().cycle()) {
            let departure = if edt { start } else { Instant::ZERO };
            queue.enqueue(Probe::new(id).sized(*len).departing(departure), start, &mut drops);
        }
        for late in late.iter().cycle() {
            let Some(ready) = queue.ready_at() else { break };
            now = now.max(ready + Duration::from_nanos(*late));
            while let Some(packet) = queue.dequeue(now, &mut drops) {
                sent += packet.len().get();
                let paid = (Rate::mbit(mbit) * (now - start)).get();
                prop_assert!(sent <= paid + config.initial_quantum.get() + config.quantum.get() + 1514);
            }
        }
        prop_assert!(queue.backlog().is_empty());
    }

    /// Backlogged flows of one band get the same bytes, but for the first quantum, a quantum, and a
    /// packet.
    #[test]
    fn flows_share_by_bytes(lens in vec(60..1515u32, 2..6), turns in 1..300usize) {
        let config = Config { flow_limit: 1000, initial_quantum: Bytes::new(3028), ..Config::linux() };
        let (mut queue, mut drops) = (Ledger::new(Fq::new(config).expect("valid")), Drops::new());
        for _ in 0..300 {
            for (flow, &len) in (0..).zip(&lens) {
                queue.enqueue(Probe::new(0).flow(flow).sized(len), Instant::ZERO, &mut drops);
            }
        }
        let mut sent = vec![0; lens.len()];
        for _ in 0..turns {
            let packet = queue.dequeue(Instant::ZERO, &mut drops).expect("backlogged");
            sent[packet.flow as usize] += packet.len().get();
        }
        let spread = sent.iter().max().expect("flows") - sent.iter().min().expect("flows");
        prop_assert!(spread <= 2 * 3028 + 1514, "{sent:?}");
    }
}

/// The mechanism neutralised: without departures the same packets leave at once, in arrival order.
#[test]
fn departures_are_what_spaces_packets() {
    let leave = |spaced: bool| {
        let (mut queue, mut drops) = (Fq::new(Config::default()).expect("valid"), Drops::new());
        for id in 0..10u32 {
            let departure = if spaced {
                Instant::from_millis(1 + u64::from(id))
            } else {
                Instant::ZERO
            };
            queue.enqueue(
                Probe::new(id).departing(departure),
                Instant::ZERO,
                &mut drops,
            );
        }
        let mut now = Instant::ZERO;
        while let Some(ready) = queue.ready_at() {
            now = now.max(ready);
            queue.dequeue(now, &mut drops);
        }
        now
    };
    assert_eq!(leave(false), Instant::ZERO);
    assert_eq!(leave(true), Instant::from_micros(10_010));
    assert_eq!(PRIOMAP, Weighted::default().priomap);
}
