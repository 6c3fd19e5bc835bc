//! Every qdisc through [`Ledger`], under random traffic and clocks that stand, leap and step back,
//! beside a plain model (`net/sched/sch_fifo.c`,.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Item};
use tautline_qdisc::blue;
use tautline_qdisc::cake;
use tautline_qdisc::cobalt;
use tautline_qdisc::codel::{self, Codel, Law, Params};
use tautline_qdisc::fifo::{self, Victim};
use tautline_qdisc::fq_codel::{self, BacklogScope, Emptied, FqCodel};
use tautline_qdisc::fq_pie::{self, FqPie};
use tautline_qdisc::pfifo_fast::PRIOMAP;
use tautline_qdisc::pfifo_fast::Places;
use tautline_qdisc::pie::{self, Pie};
use tautline_qdisc::red::{self, IdleDecay};
use tautline_qdisc::sfq;
use tautline_qdisc::{DropReason, Drops, Ledger, Qdisc, Stats};
use tautline_tc::Kind;

use tautline_testkit::{Probe, ids};

/// One thing that happens to a queue.
#[derive(Clone, Debug)]
enum Event {
    Enqueue {
        flow: u64,
        len: u32,
        tos: u8,
        priority: u8,
    },
    Dequeue,
    Advance(u64),
    StepBack(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let len = prop_oneof![Just(0u32), Just(1), 40..1515u32, Just(1514), Just(65_535)];
    let enqueue =
        (0..6u64, len, 0..4u8, 0..16u8).prop_map(|(flow, len, tos, priority)| Event::Enqueue {
            flow,
            len,
            tos,
            priority,
        });
    prop_oneof![
        6 => enqueue,
        4 => Just(Event::Dequeue),
        2 => (0..30_000_000u64).prop_map(Event::Advance),
        1 => prop_oneof![Just(200_000_000), Just(3_600_000_000_000), Just(u64::MAX / 4)].prop_map(Event::Advance),
        1 => (0..400_000_000u64).prop_map(Event::StepBack),
    ]
}

fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), Just(2), 3..40u32, Just(1000)]
}

fn params() -> impl Strategy<Value = Params> {
    let time = prop_oneof![Just(0u64), 1..200_000u64, Just(5_000_000), Just(u64::MAX)];
    (
        time.clone(),
        time,
        prop_oneof![Just(0), Just(1514)],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(target, interval, mtu, ecn, linux)| Params {
            target: Duration::from_nanos(target),
            interval: Duration::from_nanos(interval.max(1024)),
            mtu: Bytes::new(mtu),
            ecn,
            ce_threshold: None,
            law: if linux { Law::Linux } else { Law::Rfc8289 },
        })
}

fn fq_config() -> impl Strategy<Value = fq_codel::Config> {
    let flows = prop_oneof![Just(1), Just(2), Just(1024)];
    let memory = prop_oneof![Just(0), Just(1), Just(10_000), Just(1 << 25)];
    (
        limit(),
        flows,
        prop_oneof![Just(64), Just(300), Just(1514)],
        memory,
        1..65u32,
        params(),
        any::<bool>(),
    )
        .prop_map(
            |(limit, flows, quantum, memory, drop_batch, codel, qdisc)| fq_codel::Config {
                limit,
                flows,
                quantum: Bytes::new(quantum),
                memory_limit: Bytes::new(memory),
                drop_batch,
                codel,
                backlog: if qdisc {
                    BacklogScope::Qdisc
                } else {
                    BacklogScope::Queue
                },
                emptied: if qdisc {
                    Emptied::Forgotten
                } else {
                    Emptied::Waits
                },
                perturbation: Some(42),
            },
        )
}

fn pie_params() -> impl Strategy<Value = pie::Params> {
    let time = prop_oneof![Just(0u64), 1..200_000u64, Just(15_000_000), Just(u64::MAX)];
    let law = prop_oneof![
        Just(pie::Law::Rfc8033),
        Just(pie::Law::Rfc8034),
        Just(pie::Law::Linux)
    ];
    let weights = prop_oneof![Just((0.125, 1.25)), Just((0.0, 0.0)), Just((128.0, 128.0))];
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<u64>());
    (time.clone(), time.clone(), time, weights, law, switches).prop_map(
        |(target, tupdate, max_burst, (alpha, beta), law, (ecn, bytemode, estimator, seed))| {
            pie::Params {
                target: Duration::from_nanos(target),
                tupdate: Duration::from_nanos(tupdate.max(1)),
                max_burst: Duration::from_nanos(max_burst),
                alpha,
                beta,
                ecn,
                bytemode,
                delay: if estimator {
                    pie::DelaySource::DepartureRate
                } else {
                    pie::DelaySource::Timestamp
                },
                dq_threshold: Bytes::new(seed % 20_000),
                law,
                seed,
                ..pie::Params::default()
            }
        },
    )
}

fn sfq_config() -> impl Strategy<Value = sfq::Config> {
    let flows = prop_oneof![Just(1), Just(3), Just(128)];
    let quantum = prop_oneof![Just(64u64), Just(1514)];
    (
        1..200u32,
        flows,
        quantum,
        1..=127u32,
        any::<[bool; 3]>(),
        any::<u64>(),
    )
        .prop_map(
            |(limit, flows, quantum, depth, [headdrop, perturb, red], seed)| {
                let perturb = perturb.then_some(Duration::from_secs(1));
                let red = red.then(|| sfq::FlowRed {
                    limit: Bytes::new(20_000),
                    ..sfq::FlowRed::default()
                });
                let quantum = Bytes::new(quantum);
                sfq::Config {
                    limit,
                    flows,
                    quantum,
                    depth,
                    headdrop,
                    perturb,
                    red,
                    seed: Some(seed),
                    divisor: 64,
                }
            },
        )
}

fn red_config() -> impl Strategy<Value = red::Config> {
    let threshold = 1000..20_000u64;
    (
        threshold.clone(),
        threshold,
        1..100_000u64,
        any::<[bool; 5]>(),
    )
        .prop_map(
            |(min, width, limit, [gentle, adaptive, ecn, harddrop, linux])| {
                let (low, high) = (Some(Bytes::new(min)), Some(Bytes::new(min + width)));
                let burst = Some(u32::try_from(min / 1000).expect("few"));
                let idle = if linux {
                    IdleDecay::Linux
                } else {
                    IdleDecay::Exact
                };
                let red = red::Params {
                    min: low,
                    max: high,
                    burst,
                    gentle,
                    idle,
                    ..red::Params::default()
                };
                red::Config {
                    limit: Bytes::new(limit),
                    red,
                    adaptive,
                    ecn,
                    harddrop,
                    ..red::Config::default()
                }
            },
        )
}

fn fq_pie_config() -> impl Strategy<Value = fq_pie::Config> {
    (fq_config(), pie_params()).prop_map(
        |(
            fq_codel::Config {
                limit,
                flows,
                quantum,
                memory_limit,
                emptied,
                ..
            },
            pie,
        )| {
            fq_pie::Config {
                limit,
                flows,
                quantum,
                memory_limit,
                pie,
                emptied,
                perturbation: Some(42),
            }
        },
    )
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        limit().prop_map(|limit| Kind::Pfifo(tautline_qdisc::pfifo::Config { limit })),
        (
            proptest::option::of(limit()),
            proptest::option::of(0..20_000u64),
            any::<bool>()
        )
            .prop_map(|(packets, bytes, head)| {
                let victim = if head {
                    Victim::Oldest
                } else {
                    Victim::Newcomer
                };
                Kind::Fifo(fifo::Config {
                    packets,
                    bytes: bytes.map(Bytes::new),
                    victim,
                })
            }),
        limit().prop_map(|limit| Kind::Bfifo(tautline_qdisc::bfifo::Config {
            limit: Bytes::new(600 * u64::from(limit))
        })),
        limit().prop_map(
            |limit| Kind::PfifoHeadDrop(tautline_qdisc::pfifo_head_drop::Config { limit })
        ),
        (limit(), any::<bool>()).prop_map(|(limit, batched)| {
            let places = if batched {
                Places::Batched
            } else {
                Places::AtOnce
            };
            Kind::PfifoFast(tautline_qdisc::pfifo_fast::Config { limit, places })
        }),
        (limit(), params()).prop_map(|(limit, codel)| Kind::Codel(codel::Config { limit, codel })),
        fq_config().prop_map(Kind::FqCodel),
        red_config().prop_map(Kind::Red),
        Just(Kind::Prio(tautline_qdisc::prio::Config::default())),
        (0..4u8, vec(1..3000u64, 0..4)).prop_map(|(strict, quanta)| {
            Kind::Ets(tautline_qdisc::ets::Config {
                bands: Some(8),
                strict,
                quanta: quanta.into_iter().map(Bytes::new).collect(),
                priomap: PRIOMAP.to_vec(),
            })
        }),
        limit().prop_map(|direct_qlen| Kind::Htb(tautline_qdisc::htb::Config {
            direct_qlen,
            ..Default::default()
        })),
        sfq_config().prop_map(Kind::Sfq),
        (0..8usize, any::<bool>(), any::<bool>(), 2_000..1_000_000u64).prop_map(
            |(isolation, linux, filter, memory)| {
                let config = if linux {
                    cake::Config::linux()
                } else {
                    cake::Config::default()
                };
                Kind::Cake(cake::Config {
                    isolation: cake::Isolation::ALL[isolation],
                    ack_filter: if filter {
                        cake::AckFilter::On
                    } else {
                        cake::AckFilter::Off
                    },
                    memory_limit: Some(Bytes::new(memory)),
                    rtt: Duration::from_millis(1),
                    ..config
                })
            }
        ),
        (limit(), any::<[bool; 2]>()).prop_map(|(limit, [ecn, often])| {
            let d1 = if often { 0.5 } else { 0.02 };
            Kind::Blue(blue::Config {
                limit,
                ecn,
                d1,
                threshold: often.then_some(5),
                ..blue::Config::default()
            })
        }),
        (limit(), params(), any::<bool>()).prop_map(|(limit, params, linux)| {
            let config = if linux {
                cobalt::Config::linux()
            } else {
                cobalt::Config::ns3()
            };
            let cobalt = cobalt::Params {
                target: params.target,
                interval: params.interval,
                ..config.cobalt
            };
            Kind::Cobalt(cobalt::Config {
                limit,
                cobalt,
                seed: 7,
            })
        }),
        (limit(), pie_params()).prop_map(|(limit, pie)| Kind::Pie(pie::Config { limit, pie })),
        (limit(), limit()).prop_map(|(limit, flow_limit)| {
            Kind::Fq(tautline_qdisc::fq::Config {
                limit,
                flow_limit,
                ..Default::default()
            })
        }),
        fq_pie_config().prop_map(Kind::FqPie),
    ]
}

/// A qdisc and what its user knows.
struct Rig<Q> {
    queue: Q,
    drops: Drops<Probe>,
    now: Instant,
    next_id: u32,
    tos_sent: Vec<u8>,
    /// Packets inside, by flow and band, oldest first.
    inside: BTreeMap<(u64, u8), VecDeque<u32>>,
}

impl<Q: Qdisc<Probe>> Rig<Q> {
    fn new(queue: Q) -> Self {
        let (tos_sent, inside) = (Vec::new(), BTreeMap::new());
        Self {
            queue,
            drops: Drops::new(),
            now: Instant::from_millis(1),
            next_id: 0,
            tos_sent,
            inside,
        }
    }

    /// Lets `event` happen and checks what holds for every work-conserving qdisc; the packet that
    /// came out, if one did.
    fn step(&mut self, event: &Event) -> Option<Probe> {
        let mut out = None;
        match *event {
            Event::Enqueue {
                flow,
                len,
                tos,
                priority,
            } => {
                let packet = Probe::new(self.next_id)
                    .flow(flow)
                    .sized(len)
                    .tos(tos)
                    .with_priority(priority);
                self.next_id += 1;
                self.tos_sent.push(tos);
                self.inside
                    .entry(Self::key(&packet))
                    .or_default()
                    .push_back(packet.id);
                self.queue.enqueue(packet, self.now, &mut self.drops);
            }
            Event::Dequeue => {
                let held = self.queue.backlog().packets;
                out = self.queue.dequeue(self.now, &mut self.drops);
                assert_eq!(out.is_some(), held > 0, "work conservation");
            }
            Event::Advance(nanos) => self.now += Duration::from_nanos(nanos),
            Event::StepBack(nanos) => self.now = self.now - Duration::from_nanos(nanos),
        }
        for (packet, reason) in self.drops.drain() {
            let queue = self
                .inside
                .get_mut(&Self::key(&packet))
                .expect("a dropped packet was inside");
            let at = queue
                .iter()
                .position(|&id| id == packet.id)
                .expect("dropped once");
            queue.remove(at);
            // BLUE is asked after the control law, and may drop what that has just marked; so may
            // the queue behind RED.
            let sent = self.tos_sent[packet.id as usize];
            let later = matches!(reason, DropReason::Unresponsive | DropReason::Overlimit)
                && sent != 0
                && packet.tos == 3;
            assert!(
                packet.tos == sent || later,
                "a dropped packet is not marked: {reason}"
            );
        }
        if let Some(packet) = &out {
            let queue = self
                .inside
                .get_mut(&Self::key(packet))
                .expect("a packet that left was inside");
            assert_eq!(
                queue.pop_front(),
                Some(packet.id),
                "packets of a flow leave in order"
            );
            let sent = self.tos_sent[packet.id as usize];
            assert!(
                packet.tos == sent || sent != 0 && packet.tos == 3,
                "Not-ECT never gains CE, CE is never lost"
            );
        }
        let inside: usize = self.inside.values().map(VecDeque::len).sum();
        assert_eq!(self.queue.backlog().packets, inside);
        assert_eq!(self.queue.ready_at(), (inside > 0).then_some(Instant::ZERO));
        out
    }

    fn key(packet: &Probe) -> (u64, u8) {
        (packet.flow, PRIOMAP[usize::from(packet.priority())])
    }

    /// Takes everything out, in bounded steps.
    fn drain(&mut self) {
        for _ in 0..self.queue.backlog().packets {
            self.step(&Event::Dequeue);
        }
        assert!(self.queue.backlog().is_empty(), "all delivered or dropped");
        assert_eq!(self.queue.backlog().bytes, Bytes::ZERO);
        assert!(self.step(&Event::Dequeue).is_none());
    }
}

proptest! {
    /// Conservation, order, ECN, liveness, work conservation: for each kind and all its parameters.
    #[test]
    fn no_discipline_loses_reorders_or_stalls(kind in kind(), events in vec(event(), 0..300)) {
        let mut rig = Rig::new(Stats::new(Ledger::new(kind.with_hash_key(0).build().expect("valid"))));
        for event in &events {
            rig.step(event);
        }
        rig.drain();
        let stats = rig.queue.stats();
        prop_assert_eq!(stats.enqueued.packets, stats.dequeued.packets + stats.drops());
        prop_assert_eq!(stats.sojourn.histogram.total(), stats.dequeued.packets);
    }

    /// The same events give the same packets.
    #[test]
    fn disciplines_are_deterministic(kind in kind(), events in vec(event(), 0..200)) {
        let [mut one, mut two] = [(); 2].map(|()| Rig::new(Ledger::new(kind.clone().with_hash_key(0).build().expect("valid"))));
        for event in &events {
            let name = |packet: Option<Probe>| packet.map(|packet| (packet.id, packet.tos));
            prop_assert_eq!(name(one.step(event)), name(two.step(event)));
        }
    }

    /// No packet leaves a band while a lower-numbered band holds any; a band holds at most the
    /// limit.
    #[test]
    fn pfifo_fast_is_strict(limit in limit(), events in vec(event(), 0..300)) {
        let kind = Kind::PfifoFast(tautline_qdisc::pfifo_fast::Config { limit, places: Places::AtOnce });
        let mut rig = Rig::new(Ledger::new(kind.with_hash_key(0).build().expect("valid")));
        for event in &events {
            let out = rig.step(event).map(|packet| PRIOMAP[usize::from(packet.priority())]);
            let mut held = [0; 3];
            rig.inside.iter().for_each(|(&(_, band), queue)| held[usize::from(band)] += queue.len());
            prop_assert!(held.iter().all(|&packets| packets <= limit as usize));
            prop_assert!(out.is_none_or(|band| held[..usize::from(band)] == [0, 0][..usize::from(band)]));
        }
    }

    /// CoDel leaves a backlog of one MTU alone, and signals only after an interval above the
    /// target.
    #[test]
    fn codel_signals_only_standing_queues(params in params(), events in vec(event(), 0..300)) {
        let config = codel::Config { limit: 1000, codel: params.clone() };
        let mut rig = Rig::new(Codel::new(config).expect("valid"));
        let mut quiet_since = rig.now;
        for event in &events {
            let before = rig.queue.stats().dropped + rig.queue.stats().ecn_mark;
            let held = rig.queue.backlog().bytes;
            let packet = rig.step(event);
            let signals = rig.queue.stats().dropped + rig.queue.stats().ecn_mark - before;
            if signals > 0 {
                prop_assert!(held > params.mtu);
                prop_assert!(rig.now + Duration::from_nanos(2048) >= quiet_since + params.interval);
            }
            let young = packet.is_some_and(|packet| rig.now - packet.enqueued() + Duration::from_nanos(2048) <= params.target);
            let quiet = matches!(event, Event::Dequeue) && (young || rig.queue.backlog().bytes <= params.mtu);
            quiet_since = if quiet { rig.now } else { quiet_since.min(rig.now) };
        }
    }

    /// PIE never exceeds its limit, never drops a packet it has queued, and lets a queue of two
    /// packets be.
    #[test]
    fn pie_drops_newcomers_only(limit in limit(), pie in pie_params(), events in vec(event(), 0..300)) {
        let mut rig = Rig::new(Ledger::new(Pie::new(pie::Config { limit, pie }).expect("valid")));
        for event in &events {
            let (held, early) = (rig.queue.backlog(), rig.queue.inner().stats().dropped);
            rig.step(event);
            let now = rig.queue.backlog();
            prop_assert!(now.packets <= limit as usize);
            let out = usize::from(matches!(event, Event::Dequeue) && held.packets > 0);
            prop_assert!(now.packets + out == held.packets || now.packets == held.packets + 1);
            prop_assert!(held.bytes >= Bytes::new(2 * 1514) || rig.queue.inner().stats().dropped == early);
            prop_assert!((0.0..=256.0).contains(&rig.queue.inner().state().probability()));
        }
    }

    /// Packet and memory limits hold after every call, whatever the batch and the sizes.
    #[test]
    fn fq_codel_keeps_its_limits(config in fq_config(), events in vec(event(), 0..300)) {
        let mut rig = Rig::new(Ledger::new(FqCodel::new(config.clone()).expect("valid")));
        for event in &events {
            rig.step(event);
            let held = rig.queue.backlog();
            prop_assert!(held.packets <= config.limit as usize && held.bytes <= config.memory_limit);
        }
    }

    /// The same of fq_pie, which also never drops a packet it has queued.
    #[test]
    fn fq_pie_keeps_its_limits(config in fq_pie_config(), events in vec(event(), 0..300)) {
        let mut rig = Rig::new(Ledger::new(FqPie::new(config.clone()).expect("valid")));
        for event in &events {
            let before = rig.queue.backlog().packets;
            rig.step(event);
            let held = rig.queue.backlog();
            prop_assert!(held.packets <= config.limit as usize && held.bytes <= config.memory_limit);
            let out = usize::from(matches!(event, Event::Dequeue) && before > 0);
            prop_assert!(held.packets + out >= before);
        }
    }

    /// Continuously backlogged flows are served the same bytes, but for a quantum at the start, one
    /// in turn, and a packet.
    #[test]
    fn fq_codel_is_fair_in_bytes(lens in vec(60..1515u32, 2..6), quantum in 64..3000u64, turns in 1..400usize) {
        let codel = Params { target: Duration::MAX, ..Params::default() };
        // Under this key the four flows have queues of their own.
        let config = fq_codel::Config { quantum: Bytes::new(quantum), codel, perturbation: Some(0), ..fq_codel::Config::default() };
        let mut queue = Ledger::new(FqCodel::new(config).expect("valid"));
        let mut drops = Drops::new();
        for _ in 0..400 {
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
        prop_assert!(spread <= 2 * quantum + 1514, "{sent:?}");
    }
}

/// A clock that starts near its end saturates; nothing overflows, everything comes out.
#[test]
fn the_end_of_time_is_survived() {
    for words in [
        "codel ecn",
        "codel linux",
        "cobalt",
        "cobalt linux",
        "cake",
        "cake linux",
        "fq_codel",
        "fq_codel linux",
        "pfifo",
        "pfifo_fast",
        "fifo",
        "bfifo",
        "pfifo_head_drop",
        "prio",
        "ets strict 1 quanta 1000",
        "htb",
        "red ecn adaptive",
        "blue",
        "red linux adaptive",
        "sfq limit 1000 perturb 10",
        "tbf rate 13mbit burst 15140 limit 1mb",
        "pie",
        "pie linux",
        "pie docsis",
        "fq flow_limit 1000",
        "fq_pie",
        "fq_pie linux",
    ] {
        let mut queue = Ledger::new(tautline_tc::build::<Probe>(words).expect(words));
        let (mut drops, end) = (Drops::new(), Instant::from_nanos(u64::MAX));
        for step in 0..100u32 {
            let now = end - Duration::from_millis(1000 - 10 * u64::from(step));
            for id in 0..3 {
                queue.enqueue(Probe::new(3 * step + id), now, &mut drops);
            }
            queue.dequeue(now, &mut drops).expect("queued");
        }
        let rest = ids(std::iter::from_fn(|| queue.dequeue(end, &mut drops)));
        assert!(rest.is_sorted() && queue.backlog().is_empty(), "{words}");
        let by_choice = [DropReason::Target, DropReason::Early, DropReason::FlowLimit];
        assert!(
            drops.drain().all(|(_, reason)| by_choice.contains(&reason)),
            "{words}"
        );
    }
}
