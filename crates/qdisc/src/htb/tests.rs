//! Worked examples, guarantees, sharing, borrowing, and trees that change while they run.

use super::class::{Mode, Node};
use super::*;
use crate::filter;
use crate::ledger::Ledger;
use crate::pfifo::{self, Pfifo};
use crate::tbf::{self, Tbf};
use crate::testing::{self, Edit};
use alloc::boxed::Box;
use proptest::collection::vec;
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;
use tautline_base::{Bytes, Rate};
use tautline_testkit::{Probe, ids};

type Queue = Htb<Probe, Box<dyn Qdisc<Probe>>>;

fn fifo() -> Box<dyn Qdisc<Probe>> {
    Box::new(Pfifo::new(pfifo::Config::default()))
}

fn class(minor: u16) -> ClassId {
    ClassId::new(1, minor)
}

/// Mark n goes to class 1:n; mark 0 to none.
fn by_mark(most: u16) -> Filters {
    testing::by_mark((1..=most).map(|minor| (minor.into(), class(minor))))
}

/// Classes given as number, parent (0: none) and parameters.
fn htb(config: Config, classes: &[(u16, u16, ClassConfig)]) -> Ledger<Queue> {
    let mut htb = Queue::new(1, config).expect("valid");
    for (minor, parent, config) in classes.iter().cloned() {
        htb.add_class(
            class(minor),
            (parent > 0).then_some(class(parent)),
            config,
            fifo(),
        )
        .expect("valid");
    }
    htb.set_filters(by_mark(16));
    Ledger::new(htb)
}

/// A class that borrows nothing.
fn own(rate: Rate) -> ClassConfig {
    ClassConfig {
        rate,
        ..ClassConfig::default()
    }
}

/// A class with these bursts at its rate and at its ceiling.
fn bursts(bytes: u64, config: ClassConfig) -> ClassConfig {
    let burst = Some(Bytes::new(bytes));
    ClassConfig {
        burst,
        cburst: burst,
        ..config
    }
}

fn fill(queue: &mut Ledger<Queue>, minor: u16, count: usize, len: u32) {
    for _ in 0..count {
        let packet = Probe::new(minor.into()).marked(minor.into()).sized(len);
        queue.enqueue(packet, Instant::ZERO, &mut Drops::new());
    }
}

/// The packets that leave until `end`, polled exactly when ready: the moments, the classes, the
/// bytes.
fn run(queue: &mut Ledger<Queue>, mut now: Instant, end: Instant) -> Vec<(Instant, u32, u64)> {
    let mut left = Vec::new();
    while let Some(at) = queue.ready_at() {
        now = now.max(at);
        if now >= end {
            break;
        }
        if let Some(packet) = queue.dequeue(now, &mut Drops::new()) {
            left.push((now, packet.id, packet.len().get()));
        } else {
            assert!(
                queue.ready_at().is_none_or(|later| later > now),
                "a later moment is named"
            );
        }
        check(&queue.inner().tree);
    }
    left
}

fn bytes_of(left: &[(Instant, u32, u64)], id: u32) -> u64 {
    left.iter()
        .filter(|(_, other, _)| *other == id)
        .map(|(.., len)| len)
        .sum()
}

/// Rows, feeds and waiting classes are what modes and activity say.
fn check(tree: &Tree) {
    for (at, class) in tree.classes.iter().enumerate() {
        for prio in 0..PRIORITIES {
            let active = class.activity >> prio & 1 == 1;
            let in_row = tree.rows[class.level][prio].contains(at);
            assert_eq!(in_row, active && class.mode == Mode::CanSend, "row of {at}");
            assert!(
                (0..DEPTH)
                    .all(|level| level == class.level || !tree.rows[level][prio].contains(at))
            );
            if let Some(parent) = class.parent {
                let Node::Inner(inner) = &tree.classes[parent].node else {
                    panic!("a parent has children")
                };
                assert_eq!(inner.children[class.place], at);
                assert_eq!(
                    inner.feeds[prio].contains(class.place),
                    active && class.mode == Mode::MayBorrow,
                    "feed of {at}"
                );
            }
            if let Node::Inner(inner) = &class.node {
                assert_eq!(active, !inner.feeds[prio].is_empty(), "activity of {at}");
            }
        }
        assert_eq!(tree.waiting.waits(at), class.mode != Mode::CanSend, "{at}");
    }
    for level in 0..DEPTH {
        for prio in 0..PRIORITIES {
            assert_eq!(
                tree.is_sendable(level, prio),
                !tree.rows[level][prio].is_empty()
            );
        }
    }
}

/// `net/sched/sch_htb.c`, worked by hand: rate 1 Mbit/s, ceiling and parent 2 Mbit/s, bursts of
/// 1600 bytes, packets of 1000.
#[test]
fn the_worked_leaf_borrows_up_to_its_ceiling() {
    for config in [Config::default(), Config::linux()] {
        let link = bursts(1600, own(Rate::mbit(2)));
        let leaf = bursts(1600, ClassConfig::new(Rate::mbit(1), Rate::mbit(2)));
        let mut queue = htb(config, &[(1, 0, link), (2, 1, leaf)]);
        fill(&mut queue, 2, 6, 1000);
        let tokens = |queue: &Ledger<Queue>| queue.inner().tree.classes[1].tokens();
        let mut drops = Drops::new();
        assert_eq!(tokens(&queue), (12_800_000, 6_400_000));
        queue.dequeue(Instant::ZERO, &mut drops).expect("full");
        assert_eq!(tokens(&queue), (4_800_000, 2_400_000));
        queue
            .dequeue(Instant::ZERO, &mut drops)
            .expect("tokens are left");
        assert_eq!(tokens(&queue), (-3_200_000, -1_600_000));
        assert_eq!(queue.inner().tree.classes[1].mode, Mode::CannotSend);
        let micros: Vec<u64> = run(&mut queue, Instant::ZERO, Instant::from_secs(1))
            .iter()
            .map(|(at, ..)| at.as_micros())
            .collect();
        assert_eq!(micros, [1600, 5600, 9600, 13_600]);
        let classes: Vec<ClassStats> = queue.inner().classes().map(|(class, _)| class).collect();
        let [above, leaf] = &classes[..] else {
            panic!("two classes")
        };
        assert_eq!((leaf.lends, leaf.borrows, leaf.giants), (4, 2, 0));
        assert_eq!(
            above.lends, 2,
            "at 1.6 and 9.6 ms; its rate is half its ceiling"
        );
        assert_eq!(above.common.sent_packets, 6);
        assert_eq!(leaf.common.sent_bytes, Bytes::new(6000));
        assert!(
            queue.inner().overlimits() >= 6,
            "each packet took a class to its ceiling"
        );
    }
}

/// `net/sched/sch_htb.c`: quanta and bursts that are not given.
#[test]
fn defaults_are_those_of_tc() {
    for (rate, quantum, burst) in [
        (Rate::kbit(64), 1000, 1600),
        (Rate::mbit(1), 12_500, 1600),
        (Rate::mbit(100), 200_000, 1600),
        (Rate::gbit(10), 200_000, 1601),
    ] {
        let resolved = own(rate).resolved(&Config::default());
        assert_eq!(
            (resolved.quantum, resolved.burst),
            (Some(Bytes::new(quantum)), Some(Bytes::new(burst)))
        );
        assert_eq!(
            (resolved.ceil(), resolved.cburst),
            (resolved.rate, resolved.burst)
        );
    }
    let coarse = Config {
        hz: 100,
        ..Config::default()
    };
    assert_eq!(
        own(Rate::mbit(10)).resolved(&coarse).burst,
        Some(Bytes::new(14_100)),
        "as UML's tc shows"
    );
    let depth = |depth: Depth, mbit| depth.nanos(Bytes::new(1600), Rate::mbit(mbit));
    assert_eq!(
        (depth(Depth::Exact, 1), depth(Depth::Ticks, 1)),
        (12_800_000, 12_800_000)
    );
    // 4266.67 µs, cut to 66 656 ticks; 1.28 µs, cut to 15, or rounded down.
    assert_eq!(
        (depth(Depth::Exact, 3), depth(Depth::Ticks, 3)),
        (4_266_666, 4_265_984)
    );
    assert_eq!(
        (depth(Depth::Exact, 10_000), depth(Depth::Ticks, 10_000)),
        (1279, 960)
    );
}

/// Rates that fit together are guaranteed, whatever the others want; what is over is shared by
/// quantum.
#[test]
fn rates_are_guaranteed_and_the_rest_is_shared_by_quantum() {
    let leaf = |rate, quantum| ClassConfig {
        quantum: Some(Bytes::new(quantum)),
        ..ClassConfig::new(Rate::mbit(rate), Rate::mbit(10))
    };
    let classes = [
        (1, 0, own(Rate::mbit(10))),
        (2, 1, leaf(1, 1500)),
        (3, 1, leaf(2, 1500)),
        (4, 1, leaf(3, 4500)),
    ];
    let mut queue = htb(Config::default(), &classes);
    for (minor, len) in [(2, 1500), (3, 1000), (4, 500)] {
        fill(&mut queue, minor, 900, len);
    }
    let left = run(&mut queue, Instant::ZERO, Instant::from_millis(300));
    let total = [2, 3, 4].map(|id| bytes_of(&left, id)).iter().sum::<u64>();
    assert!(
        (375_000..=380_000).contains(&total),
        "the link is full: {total}"
    );
    // 4 Mbit/s are over; 1500 : 1500 : 4500 makes 0.8, 0.8 and 2.4.
    for (id, mbit) in [(2, 1.8), (3, 2.8), (4, 5.4)] {
        let got = bytes_of(&left, id) as f64 * 8.0 / 300_000.0;
        assert!((got - mbit).abs() < 0.15, "class {id}: {got} Mbit/s");
    }
}

/// Lower numbers borrow first; the guarantee of the others stays.
#[test]
fn priorities_decide_who_borrows() {
    let leaf = |prio| ClassConfig {
        prio,
        ..ClassConfig::new(Rate::mbit(1), Rate::mbit(10))
    };
    let mut queue = htb(
        Config::default(),
        &[
            (1, 0, own(Rate::mbit(10))),
            (2, 1, leaf(1)),
            (3, 1, leaf(0)),
        ],
    );
    (2..4).for_each(|minor| fill(&mut queue, minor, 900, 1000));
    let left = run(&mut queue, Instant::ZERO, Instant::from_millis(300));
    let [first, second] = [3, 2].map(|id| bytes_of(&left, id) as f64 * 8.0 / 300_000.0);
    assert!(
        (first - 9.0).abs() < 0.1 && (second - 1.0).abs() < 0.1,
        "{first} {second}"
    );
}

/// A class borrows from its parent before it borrows from its grandparent, and never more than
/// these have.
#[test]
fn lenders_are_limited_themselves() {
    let leaf = || ClassConfig::new(Rate::kbit(500), Rate::mbit(10));
    let classes = [
        (1, 0, own(Rate::mbit(10))),
        (2, 1, ClassConfig::new(Rate::mbit(2), Rate::mbit(4))),
        (3, 2, leaf()),
        (4, 2, leaf()),
        (5, 1, ClassConfig::new(Rate::mbit(8), Rate::mbit(10))),
    ];
    let mut queue = htb(Config::default(), &classes);
    [3, 4, 5]
        .map(|minor| fill(&mut queue, minor, 900, 1000))
        .into_iter()
        .for_each(drop);
    let left = run(&mut queue, Instant::ZERO, Instant::from_millis(500));
    let mbit = |id| bytes_of(&left, id) as f64 * 8.0 / 500_000.0;
    assert!(
        (mbit(5) - 8.0).abs() < 0.1 && (mbit(3) - 1.0).abs() < 0.1 && (mbit(4) - 1.0).abs() < 0.1
    );
    let mut alone = htb(Config::default(), &classes);
    fill(&mut alone, 3, 900, 1000);
    let left = run(&mut alone, Instant::ZERO, Instant::from_millis(500));
    let mbit = bytes_of(&left, 3) as f64 * 8.0 / 500_000.0;
    assert!(
        (mbit - 4.0).abs() < 0.1,
        "the ceiling of its parent: {mbit}"
    );
}

/// Linux takes it: `htb_class_mode` asks the bucket of the ceiling first.
#[test]
fn a_ceiling_below_the_rate_holds() {
    for parent in [0, 1] {
        let classes = [
            (1, 0, own(Rate::mbit(10))),
            (2, parent, ClassConfig::new(Rate::mbit(6), Rate::mbit(2))),
        ];
        let mut queue = htb(Config::default(), &classes);
        fill(&mut queue, 2, 900, 1000);
        let left = run(&mut queue, Instant::ZERO, Instant::from_millis(500));
        let mbit = bytes_of(&left, 2) as f64 * 8.0 / 500_000.0;
        assert!((mbit - 2.0).abs() < 0.1, "below {parent}: {mbit}");
    }
}

#[test]
fn what_has_no_class_leaves_at_once_or_by_default() {
    let mut queue = htb(
        Config {
            direct_qlen: 2,
            ..Config::default()
        },
        &[(1, 0, own(Rate::kbit(8))), (2, 1, own(Rate::kbit(8)))],
    );
    let mut drops = Drops::new();
    for (id, mark) in [(0, 0), (1, 1), (2, 9)] {
        queue.enqueue(Probe::new(id).marked(mark), Instant::ZERO, &mut drops);
    }
    assert_eq!(
        drops
            .drain()
            .map(|(packet, reason)| (packet.id, reason))
            .collect::<Vec<_>>(),
        [(2, DropReason::Overlimit)]
    );
    fill(&mut queue, 2, 1, 9000);
    assert_eq!(queue.backlog().packets, 3);
    assert_eq!(queue.ready_at(), Some(Instant::ZERO));
    assert_eq!(
        ids(core::iter::from_fn(
            || queue.dequeue(Instant::ZERO, &mut drops)
        )),
        [0, 1, 2]
    );
    queue
        .edit(Instant::ZERO, &mut drops, |config| config.default = Some(2))
        .expect("valid");
    queue.enqueue(Probe::new(5).marked(9), Instant::ZERO, &mut drops);
    assert!(
        queue.dequeue(Instant::ZERO, &mut drops).is_none(),
        "its bucket is far below zero"
    );
    assert!(
        queue
            .ready_at()
            .is_some_and(|at| at > Instant::from_secs(5))
    );
    let giants: Vec<u64> = queue
        .inner()
        .classes()
        .map(|(class, _)| class.giants)
        .collect();
    assert_eq!((queue.inner().direct_packets(), giants[1]), (2, 1));
    let mut filters = Filters::default();
    filters
        .add(filter::Filter::new(
            filter::Matcher::All,
            Some(ClassId::new(1, 0)),
        ))
        .expect("new");
    queue.inner_mut().set_filters(filters);
    queue.enqueue(Probe::new(6), Instant::ZERO, &mut drops);
    assert_eq!(
        queue
            .dequeue(Instant::ZERO, &mut drops)
            .map(|packet| packet.id),
        Some(6),
        "1: is the direct way"
    );
}

#[test]
fn the_tree_is_at_most_eight_classes_deep() {
    let mut htb = Queue::new(1, Config::default()).expect("valid");
    let config = || ClassConfig::new(Rate::mbit(1), Rate::mbit(1));
    for minor in 1..=8 {
        htb.add_class(
            class(minor),
            (minor > 1).then(|| class(minor - 1)),
            config(),
            fifo(),
        )
        .expect("deep, not too deep");
    }
    let levels: Vec<usize> = htb.tree.classes.iter().map(|class| class.level).collect();
    assert_eq!(levels, [7, 6, 5, 4, 3, 2, 1, 0]);
    let error = htb
        .add_class(class(9), Some(class(8)), config(), fifo())
        .expect_err("too deep");
    assert_eq!(
        error.to_string(),
        "`parent` must be at most seven classes deep, not 1:8"
    );
    htb.set_filters(by_mark(8));
    let mut queue = Ledger::new(htb);
    fill(&mut queue, 8, 3, 1600);
    assert_eq!(
        run(&mut queue, Instant::ZERO, Instant::from_secs(1)).len(),
        3
    );
}

#[test]
fn edits_that_make_no_sense_are_refused() {
    let mut queue = htb(
        Config::default(),
        &[(1, 0, own(Rate::mbit(1))), (2, 1, own(Rate::mbit(1)))],
    );
    fill(&mut queue, 2, 1, 100);
    let htb = queue.inner_mut();
    let mut drops = Drops::new();
    let config = || own(Rate::mbit(1));
    let no_quantum = ClassConfig {
        quantum: Some(Bytes::ZERO),
        ..config()
    };
    for (result, message) in [
        (
            htb.add_class(class(2), None, config(), fifo()),
            "`classid` must be a class that does not exist yet, not 1:2",
        ),
        (
            htb.add_class(class(3), Some(class(4)), config(), fifo()),
            "`parent` must be an existing class, not 1:4",
        ),
        (
            htb.add_class(class(3), Some(class(2)), config(), fifo()),
            "`parent` must be a class without packets of its own, not 1:2",
        ),
        (
            htb.add_class(class(3), None, ClassConfig::default(), fifo()),
            "`rate` must be at least 8bit, not 0bit",
        ),
        (
            htb.add_class(
                class(3),
                None,
                ClassConfig::new(Rate::mbit(2), Rate::ZERO),
                fifo(),
            ),
            "`ceil` must be at least 8bit, not 0bit",
        ),
        (
            htb.add_class(class(3), None, no_quantum, fifo()),
            "`quantum` must be at least 1b, not 0b",
        ),
        (
            htb.remove_class(class(1), &mut drops),
            "`classid` must be a class without classes below it, not 1:1",
        ),
        (
            htb.remove_class(class(7), &mut drops),
            "`classid` must be an existing class, not 1:7",
        ),
        (
            htb.graft(class(1), fifo(), &mut drops),
            "`parent` must be a class without classes below it, not 1:1",
        ),
        (
            htb.change_class_config(class(7), config(), Instant::ZERO),
            "`classid` must be an existing class, not 1:7",
        ),
    ] {
        assert_eq!(result.expect_err(message).to_string(), message);
    }
    assert_eq!(
        Queue::new(
            1,
            Config {
                r2q: 0,
                ..Config::default()
            }
        )
        .err()
        .map(|error| error.parameter),
        Some("r2q")
    );
    assert_eq!(
        (
            htb.children.len(),
            htb.tree.classes.len(),
            htb.backlog().packets
        ),
        (2, 2, 1)
    );
}

#[test]
fn a_class_that_goes_takes_its_packets_along() {
    let mut queue = htb(
        Config::default(),
        &[
            (1, 0, own(Rate::mbit(1))),
            (2, 1, own(Rate::mbit(1))),
            (3, 1, own(Rate::mbit(1))),
        ],
    );
    (2..4).for_each(|minor| fill(&mut queue, minor, 3, 1000));
    let mut drops = Drops::new();
    (0..3).for_each(|_| drop(queue.dequeue(Instant::ZERO, &mut drops)));
    let htb = queue.inner_mut();
    htb.remove_class(class(3), &mut drops).expect("a leaf");
    assert!(
        drops
            .drain()
            .all(|(packet, reason)| (packet.id, reason) == (3, DropReason::Reset))
    );
    check(&htb.tree);
    htb.graft(class(2), fifo(), &mut drops).expect("a leaf");
    assert_eq!((htb.backlog(), htb.ready_at()), (Backlog::default(), None));
    htb.remove_class(class(2), &mut drops).expect("a leaf");
    check(&htb.tree);
    assert!(htb.tree.classes[0].is_leaf() && htb.tree.classes[0].level == 0);
    let mut queue = Ledger::new(core::mem::replace(
        htb,
        Queue::new(1, Config::default()).expect("valid"),
    ));
    fill(&mut queue, 1, 2, 1000);
    assert_eq!(
        run(&mut queue, Instant::ZERO, Instant::from_secs(1)).len(),
        2,
        "its first discipline serves again"
    );
}

/// Gives the first class another rate, which is its ceiling where it has none.
fn set_rate(queue: &mut Ledger<Queue>, rate: Rate, now: Instant) {
    let htb = queue.inner_mut();
    let config = ClassConfig {
        rate,
        ..htb.class_config(class(1)).expect("exists").clone()
    };
    htb.change_class_config(class(1), config, now)
        .expect("valid");
}

/// A class made faster owes the same bytes, so less time. In Linux it owes the same time.
#[test]
fn a_change_is_felt_at_once() {
    for (config, millis) in [(Config::default(), 74), (Config::linux(), 7400)] {
        let mut queue = htb(config, &[(1, 0, bursts(1600, own(Rate::kbit(8))))]);
        fill(&mut queue, 1, 3, 4500);
        let mut drops = Drops::new();
        queue.dequeue(Instant::ZERO, &mut drops).expect("full");
        assert!(queue.dequeue(Instant::ZERO, &mut drops).is_none());
        assert_eq!(queue.ready_at(), Some(Instant::from_millis(2900)));
        set_rate(&mut queue, Rate::mbit(8), Instant::ZERO);
        check(&queue.inner().tree);
        queue.dequeue(Instant::ZERO, &mut drops);
        let opens = queue.ready_at().expect("queued").as_nanos();
        let debt = if millis == 74 {
            2_900_000
        } else {
            2_900_000_000
        };
        assert_eq!(opens, debt);
    }
}

/// A change neither fills nor empties the buckets: 5000 bytes stay 5000 bytes, and what was spent
/// is not earned twice.
#[test]
fn a_change_leaves_the_buckets_as_full_as_they_are() {
    for config in [Config::default(), Config::linux()] {
        let (mut queue, mut drops) = (
            htb(config, &[(1, 0, bursts(5000, own(Rate::mbit(1))))]),
            Drops::new(),
        );
        let change = |queue: &mut Ledger<Queue>, now| {
            set_rate(queue, Rate::mbit(2), now);
            queue.inner().tree.classes[0].tokens()
        };
        assert_eq!(
            change(&mut queue, Instant::ZERO),
            (20_000_000, 20_000_000),
            "5000 bytes at 2 Mbit/s"
        );
        fill(&mut queue, 1, 4, 2500);
        let late = Instant::from_secs(10);
        assert_eq!(
            ids(core::iter::from_fn(|| queue.dequeue(late, &mut drops))),
            [1; 3]
        );
        assert_eq!(
            change(&mut queue, late),
            (-10_000_000, -10_000_000),
            "2500 bytes too many have left"
        );
        assert!(queue.dequeue(late, &mut drops).is_none());
        assert_eq!(queue.ready_at(), Some(late + Duration::from_millis(10)));
    }
}

#[test]
fn a_leaf_that_holds_back_is_passed_over() {
    let (mut queue, mut drops) = (
        htb(
            Config::default(),
            &[(1, 0, own(Rate::mbit(10))), (2, 0, own(Rate::mbit(10)))],
        ),
        Drops::new(),
    );
    let config = tbf::Config {
        rate: Rate::mbit(1),
        burst: Bytes::new(1514),
        ..tbf::Config::default()
    };
    let shaped = Tbf::new(config, fifo()).expect("valid").with_handle(10);
    queue
        .inner_mut()
        .graft(class(1), Box::new(shaped), &mut drops)
        .expect("exists");
    fill(&mut queue, 1, 2, 1514);
    fill(&mut queue, 2, 2, 500);
    assert_eq!(
        ids(core::iter::from_fn(
            || queue.dequeue(Instant::ZERO, &mut drops)
        )),
        [1, 2, 2]
    );
    assert_eq!(queue.ready_at(), Some(Instant::from_micros(1514 * 8)));
    assert_eq!(
        queue
            .dequeue(Instant::from_micros(1514 * 8), &mut drops)
            .map(|packet| packet.id),
        Some(1)
    );
    assert_eq!(queue.ready_at(), None);
}

/// A leaf that never gives what it holds, whatever moment it names.
#[derive(Debug)]
struct Stuck(Backlog, Option<Instant>);

impl Qdisc<Probe> for Stuck {
    fn enqueue(&mut self, packet: Probe, _now: Instant, _drops: &mut Drops<Probe>) {
        self.0.add(packet.len());
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops<Probe>) -> Option<Probe> {
        None
    }

    fn ready_at(&self) -> Option<Instant> {
        self.1
    }

    fn backlog(&self) -> Backlog {
        self.0
    }
}

/// It is asked again later, in five seconds at the latest (`net/sched/sch_htb.c`), never at once.
#[test]
fn a_leaf_that_gives_nothing_is_not_asked_without_end() {
    let now = Instant::from_secs(9);
    for (named, later) in [
        (None, Duration::from_secs(5)),
        (Some(Instant::ZERO), Duration::from_nanos(1)),
        (Some(now), Duration::from_nanos(1)),
        (Some(now + Duration::from_secs(2)), Duration::from_secs(2)),
    ] {
        let mut htb = Htb::new(1, Config::default()).expect("valid");
        htb.add_class(
            class(1),
            None,
            own(Rate::mbit(1)),
            Stuck(Backlog::default(), named),
        )
        .expect("valid");
        htb.set_filters(by_mark(1));
        htb.enqueue(Probe::new(1).marked(1), now, &mut Drops::new());
        assert!(htb.dequeue(now, &mut Drops::new()).is_none());
        assert_eq!(htb.ready_at(), Some(now + later), "{named:?}");
    }
}

/// One of the trees that the properties are about: classes 1 to 8, parents lower than children.
fn tree() -> impl Strategy<Value = Vec<(u16, u16, ClassConfig)>> {
    vec(
        (0..100u16, 1..2000u64, 0..2000u64, 0..4u8, 0..3000u64),
        1..9,
    )
    .prop_map(|classes| {
        let config = |(rate, more, prio, quantum)| ClassConfig {
            prio,
            quantum: Some(Bytes::new(1 + quantum)),
            ..ClassConfig::new(Rate::kbit(rate), Rate::kbit(rate + more))
        };
        (1..)
            .zip(classes)
            .map(|(minor, (parent, rate, more, prio, quantum))| {
                (minor, parent % minor, config((rate, more, prio, quantum)))
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Random trees, traffic, clocks and edits: the account balances, lines and waits are right,
    /// all comes out in bounded steps.
    #[test]
    fn nothing_stalls_or_is_lost(tree in tree(), events in vec((0..14u8, any::<u64>(), 0..64u32), 0..150)) {
        let (mut queue, mut drops, mut now) = (htb(Config::default(), &tree), Drops::new(), Instant::from_secs(1));
        for (event, number, shift) in events {
            let minor = (number % 11) as u16;
            match event {
                0..5 => {
                    let len = [0, 40, 1514, 65_535, u32::MAX][(number / 11 % 5) as usize];
                    queue.enqueue(Probe::new(0).marked(minor.into()).sized(len), now, &mut drops);
                }
                5..9 => drop(queue.dequeue(now, &mut drops)),
                9 => now += Duration::from_nanos(number >> shift),
                10 => now = now - Duration::from_nanos(number >> shift),
                11 => {
                    if let Some(config) = queue.inner().class_config(class(minor)).cloned() {
                        let (rate, prio) = (Rate::kbit(1 + number % 8999), (number % 8) as u8);
                        let config = ClassConfig { rate, ceil: Some(Rate::mbit(9)), prio, ..config };
                        drop(queue.with_inner("change_class_config", now, &mut drops, |htb, _| htb.change_class_config(class(minor), config, now)));
                    }
                }
                12 => {
                    let mut inner = core::mem::replace(queue.inner_mut(), Queue::new(1, Config::default()).expect("valid"));
                    drop(inner.remove_class(class(minor), &mut drops));
                    crate::flush::flush(&mut inner, &mut drops);
                    prop_assert_eq!(inner.backlog(), Backlog::default());
                    queue = Ledger::new(inner);
                }
                _ => {
                    let parent = (number / 11 % 11) as u16;
                    let config = ClassConfig::new(Rate::kbit(100), Rate::kbit(200));
                    drop(queue.inner_mut().add_class(class(minor), (parent > 0).then(|| class(parent)), config, fifo()));
                }
            }
            check(&queue.inner().tree);
            if let Some(at) = queue.ready_at() && at > now {
                prop_assert!(queue.dequeue(now, &mut drops).is_none());
                prop_assert!(queue.ready_at() > Some(now));
            }
        }
        let mut steps = 0;
        while let Some(at) = queue.ready_at() {
            now = now.max(at);
            drop(queue.dequeue(now, &mut drops));
            steps += 1;
            prop_assert!(steps < 100_000, "at {now} {at}");
        }
        prop_assert_eq!(queue.backlog(), Backlog::default());
    }

    /// No leaf exceeds its ceiling, no leaf without a parent its rate, by more than its burst and a
    /// packet; parents count what their children sent.
    #[test]
    fn ceilings_hold(tree in tree(), traffic in vec((1..9u16, 40..1600u32), 50..300)) {
        let mut queue = htb(Config::default(), &tree);
        let leaves: Vec<u16> =
            (1..).zip(&queue.inner().tree.classes).filter(|(_, class)| class.is_leaf()).map(|(minor, _)| minor).collect();
        for (number, len) in traffic {
            fill(&mut queue, leaves[usize::from(number) % leaves.len()], 1, len);
        }
        let left = run(&mut queue, Instant::ZERO, Instant::from_secs(20));
        for (minor, parent, config) in tree.iter().filter(|(minor, ..)| leaves.contains(minor)) {
            let rate = if *parent == 0 { config.rate } else { config.ceil() };
            let sent: Vec<_> = left.iter().filter(|(_, id, _)| *id == u32::from(*minor)).collect();
            for first in 0..sent.len() {
                let mut bytes = 0;
                for (at, _, len) in &sent[first..] {
                    bytes += len;
                    let allowed = (rate * (*at - sent[first].0)).get() + 1600 + 1600 + sent.len() as u64;
                    prop_assert!(bytes <= allowed, "class {minor}: {bytes} of {allowed}");
                }
            }
        }
        for (minor, (stats, _)) in (1..).zip(queue.inner().classes()) {
            let is_below = |mut at: u16| {
                while at > minor {
                    at = tree[usize::from(at) - 1].1;
                }
                at == minor
            };
            let sent: u64 = left.iter().filter(|(_, id, _)| is_below(*id as u16)).map(|(.., len)| len).sum();
            prop_assert_eq!(stats.common.sent_bytes.get(), sent);
        }
    }
}

/// A class of empty packets has its turn like any other, not forever.
#[test]
fn empty_packets_end_their_turn() {
    let small = || ClassConfig {
        quantum: Some(Bytes::new(10)),
        ..own(Rate::gbit(1))
    };
    let mut queue = htb(Config::default(), &[(1, 0, small()), (2, 0, small())]);
    fill(&mut queue, 1, 100, 0);
    fill(&mut queue, 2, 100, 0);
    let left = run(&mut queue, Instant::ZERO, Instant::from_secs(1));
    assert!((15..=25).contains(&left[..40].iter().filter(|(_, id, _)| *id == 2).count()));
}

/// The fill of a bucket is converted to the new rate without wrapping round, whatever the rates.
#[test]
fn a_full_bucket_stays_one_at_a_far_lower_rate() {
    let full = |rate| bursts(16 << 30, own(rate));
    let mut queue = htb(Config::default(), &[(1, 0, full(Rate::gbit(100)))]);
    queue
        .inner_mut()
        .change_class_config(class(1), full(Rate::bits_per_sec(8)), Instant::ZERO)
        .expect("valid");
    fill(&mut queue, 1, 1, 1000);
    assert!(queue.dequeue(Instant::ZERO, &mut Drops::new()).is_some());
}

/// The statistics show the quantum in use; a new `r2q` waits for the class to be changed.
#[test]
fn the_statistics_show_what_is_in_force() {
    let mut queue = htb(Config::default(), &[(1, 0, own(Rate::mbit(1)))]);
    let shown = |queue: &Ledger<Queue>| {
        let class = queue.inner().classes().next();
        class.map(|(class, _)| class.config)
    };
    let before = shown(&queue);
    queue
        .inner_mut()
        .reconfigure(Config {
            r2q: 1,
            hz: 100,
            ..Config::default()
        })
        .expect("valid");
    assert_eq!(shown(&queue), before);
    queue
        .inner_mut()
        .change_class_config(class(1), own(Rate::mbit(1)), Instant::ZERO)
        .expect("valid");
    assert_ne!(shown(&queue), before);
}
