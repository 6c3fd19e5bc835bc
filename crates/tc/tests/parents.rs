//! Every leaf below every classful qdisc: random traffic, drops inside the children, changes behind
//! the parent's back; the parent's account is exact after every step, and everything comes out.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Item, Rate};
use tautline_qdisc::filter::Filters;
use tautline_qdisc::{
    Backlog, ClassId, Drops, Drr, Ets, Htb, Pfifo, Prio, Qdisc, Tbf, drr, ets, htb, pfifo, prio,
    tbf,
};
use tautline_tc::{DynQdisc, Report, Target, Words, build, read_filter};

use tautline_testkit::Probe;

type Boxed = Box<dyn DynQdisc<Probe>>;

/// Leaves that drop: at their limits, at dequeue, from other flows; that reorder; that hold back.
const LEAVES: [&str; 16] = [
    "pfifo limit 3",
    "bfifo limit 4000",
    "pfifo_head_drop limit 3",
    "pfifo_fast limit 2",
    "codel limit 9 target 1us interval 5us mtu 0",
    "fq_codel limit 5 flows 4 target 1us interval 5us",
    "fq_codel linux limit 5 flows 4 target 1us interval 5us memory_limit 9000",
    "cobalt limit 9 target 1us interval 5us",
    "pie limit 4 target 1us tupdate 1ms",
    "fq_pie limit 4 flows 4 target 1us tupdate 1ms",
    "red limit 20000 min 2000 max 6000 avpkt 1000 burst 3 probability 0.5",
    "fq limit 6 flow_limit 3 maxrate 1mbit",
    "tbf rate 1mbit burst 2000 limit 6000",
    "prio",
    "ets strict 1 quanta 700 1",
    "htb default 7 direct_qlen 3",
];

/// Three classes, two of them with the leaf in question.
fn parent(which: usize, leaf: &str) -> Boxed {
    let leaf = || build(leaf).expect(leaf);
    let fifo = || Boxed::from(Pfifo::new(pfifo::Config { limit: 4 }));
    let mut filters = Filters::default();
    for minor in 1..=3 {
        let words = format!("handle {minor} fw classid 1:{minor}");
        filters
            .add(read_filter(&mut Words::new(&words)).expect("a rule"))
            .expect("new");
    }
    let class = |minor| ClassId::new(1, minor);
    match which {
        0 => {
            let config = tbf::Config {
                rate: Rate::mbit(2),
                burst: Bytes::new(4000),
                ..tbf::Config::default()
            };
            Box::new(Tbf::new(config, leaf()).expect("valid").with_handle(1))
        }
        1 => {
            let mut prio =
                Prio::new(1, prio::Config::default(), vec![leaf(), fifo(), leaf()]).expect("valid");
            prio.set_filters(filters);
            Box::new(prio)
        }
        2 => {
            let mut drr = Drr::new(1);
            for (minor, quantum, child) in [(1, 1514, leaf()), (2, 1, fifo()), (3, 500, leaf())] {
                drr.add_class(
                    class(minor),
                    drr::ClassConfig {
                        quantum: Bytes::new(quantum),
                    },
                    child,
                )
                .expect("new");
            }
            drr.set_filters(filters);
            Box::new(drr)
        }
        3 => {
            let config = ets::Config {
                strict: 1,
                quanta: [1, 500].map(Bytes::new).to_vec(),
                ..ets::Config::default()
            };
            let mut ets = Ets::new(1, config, vec![leaf(), fifo(), leaf()]).expect("valid");
            ets.set_filters(filters);
            Box::new(ets)
        }
        _ => {
            let mut htb = Htb::new(
                1,
                htb::Config {
                    default: Some(2),
                    ..htb::Config::default()
                },
            )
            .expect("valid");
            let config = |rate, ceil| htb::ClassConfig::new(Rate::mbit(rate), Rate::mbit(ceil));
            htb.add_class(class(9), None, config(4, 4), fifo())
                .expect("new");
            for (minor, rate, child) in [(1, 1, leaf()), (2, 1, fifo()), (3, 2, leaf())] {
                htb.add_class(class(minor), Some(class(9)), config(rate, 4), child)
                    .expect("new");
            }
            htb.set_filters(filters);
            Box::new(htb)
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Enqueue {
        mark: u32,
        flow: u64,
        len: u32,
        segments: u16,
        priority: u8,
    },
    Dequeue,
    Advance(u64),
    StepBack(u64),
    ChangeBelow(u16, u8),
}

fn event() -> impl Strategy<Value = Event> {
    let len = prop_oneof![Just(0u32), 40..1515u32, Just(1514), Just(9000)];
    let enqueue = (0..5u32, 0..4u64, len, 1..9u16, 0..8u8).prop_map(
        |(mark, flow, len, segments, priority)| Event::Enqueue {
            mark,
            flow,
            len,
            segments,
            priority,
        },
    );
    prop_oneof![
        8 => enqueue,
        6 => Just(Event::Dequeue),
        4 => (0..20_000_000u64).prop_map(Event::Advance),
        1 => (0..50_000_000u64).prop_map(Event::StepBack),
        1 => (1..4u16, 0..9u8).prop_map(|(minor, limit)| Event::ChangeBelow(minor, limit)),
    ]
}

/// Packets that entered, were born, left and were dropped.
#[derive(Default)]
struct Account {
    packets: [u64; 2],
    bytes: [u64; 2],
}

impl Account {
    fn book(&mut self, side: usize, len: Bytes) {
        self.packets[side] += 1;
        self.bytes[side] += len.get();
    }

    /// Settles `drops` and compares with what `queue` says it holds.
    fn balance(&mut self, queue: &Boxed, drops: &mut Drops<Probe>) {
        drops
            .drain()
            .for_each(|(packet, _)| self.book(1, packet.len()));
        let (born, Backlog { packets, bytes }) = (drops.births(), queue.backlog());
        assert_eq!(
            self.packets[0] + born.packets,
            self.packets[1] + packets as u64
        );
        assert_eq!(
            self.bytes[0] + born.bytes.get(),
            self.bytes[1] + bytes.get()
        );
    }
}

/// The sum of the classes' backlogs in the report.
fn reported(report: &Report) -> usize {
    report
        .classes
        .iter()
        .filter_map(|class| class.common)
        .map(|common| common.backlog.packets)
        .sum()
}

fn live(which: usize, leaf: &str, events: &[Event]) {
    let (mut queue, mut drops, mut now) =
        (parent(which, leaf), Drops::new(), Instant::from_secs(1));
    let mut account = Account::default();
    let dequeue = |queue: &mut Boxed, drops: &mut Drops<Probe>, account: &mut Account, now| {
        let packet = queue.dequeue(now, drops);
        match &packet {
            Some(packet) => account.book(1, packet.len()),
            None => assert!(
                queue.ready_at().is_none_or(|later| later > now),
                "{leaf}: no spinning"
            ),
        }
        account.balance(queue, drops);
        packet.is_some()
    };
    for event in events {
        match *event {
            Event::Enqueue {
                mark,
                flow,
                len,
                segments,
                priority,
            } => {
                let packet = Probe::new(0)
                    .marked(mark)
                    .flow(flow)
                    .sized(len)
                    .of_segments(segments)
                    .with_priority(priority);
                account.book(0, packet.len());
                queue.enqueue(packet, now, &mut drops);
            }
            Event::Dequeue => drop(dequeue(&mut queue, &mut drops, &mut account, now)),
            Event::Advance(nanos) => now += Duration::from_nanos(nanos),
            Event::StepBack(nanos) => now = now - Duration::from_nanos(nanos),
            Event::ChangeBelow(minor, limit) => {
                let words = format!(
                    "limit {}",
                    u32::from(limit) * if leaf.starts_with("red") { 4000 } else { 1 }
                );
                // Not every tree has that class.
                let _ = queue.change(
                    Target::Below(ClassId::new(1, minor)),
                    &mut Words::new(&words),
                    now,
                    &mut drops,
                );
            }
        }
        account.balance(&queue, &mut drops);
        if which > 0 && matches!(event, Event::Dequeue) {
            assert_eq!(reported(&queue.report()), queue.backlog().packets, "{leaf}");
        }
    }
    let mut failures = 0;
    while let Some(at) = queue.ready_at() {
        now = now.max(at);
        failures = if dequeue(&mut queue, &mut drops, &mut account, now) {
            0
        } else {
            failures + 1
        };
        assert!(failures < 1000, "{leaf}: everything comes out");
    }
    assert_eq!(queue.backlog(), Backlog::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_parents_account_is_exact(which in 0..5usize, events in vec(event(), 0..200)) {
        for leaf in LEAVES {
            live(which, leaf, &events);
        }
    }
}
