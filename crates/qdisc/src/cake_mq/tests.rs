//! cake_mq: the common rate among active queues.

use super::*;
use crate::ledger::Ledger;
use tautline_base::Bytes;
use tautline_testkit::Probe;

const RATE: Rate = Rate::mbit(80);
const LEN: u32 = 1000;

/// One queue at `bandwidth`.
fn at(bandwidth: Bandwidth) -> Config {
    Config {
        cake: cake::Config {
            bandwidth,
            ..cake::Config::default()
        },
        ..Config::default()
    }
}

/// Four queues, chosen by mark, at 80 Mbit/s: 10 packets a millisecond.
fn shaped() -> CakeMq<Probe, ByFlow<Probe>> {
    let by_mark: ByFlow<Probe> = |packet, _| packet.mark() as usize;
    let config = Config {
        queues: 4,
        cake: cake::Config {
            bandwidth: Bandwidth::Shaped(RATE),
            memory_limit: Some(Bytes::mib(64)),
            perturbation: Some(1),
            ..cake::Config::default()
        },
        ..Config::default()
    };
    CakeMq::choosing(1, config, by_mark).expect("valid")
}

/// Packets that leave each queue from `from` on for `time`, which a device takes as soon as they
/// may leave; `busy` queues always have some.
fn served(
    root: &mut Ledger<CakeMq<Probe, ByFlow<Probe>>>,
    busy: &[u32],
    from: Instant,
    time: Duration,
) -> [u32; 4] {
    let (mut sent, mut drops, mut id) = ([0; 4], Drops::new(), 0);
    let mut now = from;
    while now < from + time {
        for &queue in busy {
            while root.backlog_of(queue as usize).packets < 10 {
                let packet = Probe::new(id).marked(queue).sized(LEN);
                root.enqueue(packet, now, &mut drops);
                id += 1;
            }
        }
        for (queue, sent) in sent.iter_mut().enumerate() {
            while root.dequeue_from(queue, now, &mut drops).is_some() {
                *sent += 1;
            }
        }
        now += Duration::from_micros(10);
    }
    sent
}

#[test]
fn a_queue_alone_has_the_whole_rate() {
    let mut root = Ledger::new(shaped());
    let sent = served(
        &mut root,
        &[2],
        Instant::from_secs(1),
        Duration::from_secs(1),
    );
    assert!((9990..=10_010).contains(&sent[2]), "{sent:?}");
    assert_eq!(root.inner().active(2), Some(1));
}

/// After an hour's step back the shapers go on, and the queues still know each other.
#[test]
fn a_clock_that_steps_back_stops_nothing() {
    let mut root = Ledger::new(shaped());
    let (second, hour) = (Duration::from_secs(1), Instant::from_secs(3600));
    served(&mut root, &[0, 1], hour, second);
    let sent = served(&mut root, &[0, 1, 3], Instant::from_secs(1), second);
    assert!(
        (9_960..=10_060).contains(&sent.iter().sum::<u32>()),
        "{sent:?}"
    );
    for queue in [0, 1, 3] {
        assert_eq!(root.inner().active(queue), Some(3), "{sent:?}");
    }
    // Two of them end.
    let sent = served(&mut root, &[3], Instant::from_secs(2), second);
    assert!((9_900..=10_060).contains(&sent[3]), "{sent:?}");
    assert_eq!(root.inner().active(3), Some(1));
}

#[test]
fn busy_queues_share_the_rate() {
    let mut root = Ledger::new(shaped());
    let (second, now) = (Duration::from_secs(1), Instant::from_secs(1));
    let sent = served(&mut root, &[0, 1, 3], now, second);
    assert!(sent.iter().sum::<u32>() <= 10_040, "{sent:?}");
    for queue in [0, 1, 3] {
        assert!((3320..=3350).contains(&sent[queue]), "{sent:?}");
        assert_eq!(root.inner().active(queue), Some(3));
    }
    // The best-effort tin's threshold is the rate of its queue: a third, and the whole where nothing was sent.
    let thresholds: Vec<_> = root
        .inner()
        .classes()
        .map(|(_, cake, _)| cake.tins().map(|tin| tin.threshold).max())
        .collect();
    let third = Some(Rate::bytes_per_sec(RATE.as_bytes_per_sec() / 3));
    assert_eq!(thresholds, [third, third, Some(RATE), third]);
    // Two fall idle: within a few counts the third has the whole.
    let sent = served(&mut root, &[1], now + second, second);
    assert!(sent[1] > 9900, "{sent:?}");
}

/// Without counting, four shapers would carry four times the rate.
#[test]
fn a_queue_that_never_counts_takes_the_whole() {
    let mut rare = shaped();
    let sync_time = Duration::from_secs(100);
    let config = Config {
        sync_time,
        ..rare.config().clone()
    };
    let now = Instant::from_secs(1);
    rare.reconfigure(config, now, &mut Drops::new())
        .expect("valid");
    let mut root = Ledger::new(rare);
    // Each counts once, when it is the only one with packets.
    for queue in 0..4 {
        served(&mut root, &[queue], now, Duration::from_millis(1));
    }
    let later = now + Duration::from_secs(1);
    let sent = served(&mut root, &[0, 1, 2, 3], later, Duration::from_secs(1));
    assert!(sent.iter().sum::<u32>() > 19_000, "{sent:?}");
}

#[test]
fn a_sparse_queue_counts_while_it_sends_between_counts() {
    let (mut root, mut drops) = (Ledger::new(shaped()), Drops::new());
    let start = Instant::from_secs(1);
    let probe = |id, queue| Probe::new(id).marked(queue).sized(LEN);
    root.enqueue(probe(0, 0), start, &mut drops);
    assert!(root.dequeue_from(0, start, &mut drops).is_some());
    let later = start + Duration::from_millis(1);
    (1..3).for_each(|id| root.enqueue(probe(id, 1), later, &mut drops));
    // Its first count: queue 0 has sent since the beginning, queue 1 is this one.
    assert!(root.dequeue_from(1, later, &mut drops).is_some());
    assert_eq!(root.inner().active(1), Some(2));
    let next = later + Duration::from_millis(1);
    assert!(root.dequeue_from(1, next, &mut drops).is_some());
    assert_eq!(
        root.inner().active(1),
        Some(1),
        "queue 0 has not sent since"
    );
}

#[test]
fn a_part_of_the_smallest_rate_is_a_limit() {
    let config = at(Bandwidth::Shaped(Rate::bytes_per_sec(1)));
    assert_eq!(config.part(2), Rate::bytes_per_sec(1));
}

#[test]
fn an_estimated_rate_cannot_be_shared() {
    let config = at(Bandwidth::AutorateIngress { start: RATE });
    let error = CakeMq::<Probe>::new(1, config.clone()).expect_err("refused");
    assert_eq!(error.parameter, "bandwidth");
    let (mut root, mut drops) = (shaped(), Drops::new());
    let before = root.config().clone();
    assert!(root.reconfigure(config, Instant::ZERO, &mut drops).is_err());
    let queues = Config {
        queues: 5,
        ..before.clone()
    };
    assert!(root.reconfigure(queues, Instant::ZERO, &mut drops).is_err());
    assert_eq!(*root.config(), before);
}

/// As the root of a device with one queue.
#[test]
fn the_root_serves_its_queues_in_turn() {
    let (mut root, mut drops) = (Ledger::new(shaped()), Drops::<Probe>::new());
    let start = Instant::from_secs(1);
    for id in 0..4000 {
        root.enqueue(Probe::new(id).marked(id % 2).sized(LEN), start, &mut drops);
    }
    let (mut now, mut sent) = (start, 0);
    while now < start + Duration::from_millis(100) {
        while root.dequeue(now, &mut drops).is_some() {
            sent += 1;
        }
        now = root.ready_at().expect("packets are left");
    }
    assert!((990..=1010).contains(&sent), "{sent} of 1000");
    assert!(drops.is_empty());
}
