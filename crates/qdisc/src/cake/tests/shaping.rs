//! Rates, tins and their order, overhead, marks, `ingress`, `autorate-ingress`.

use super::*;

const LE: u8 = 1 << 2;
const EF: u8 = 46 << 2;

/// Three tins at a rate.
fn diffserv3(mbit: u64) -> Config {
    Config {
        bandwidth: Bandwidth::Shaped(Rate::mbit(mbit)),
        ..Config::default()
    }
}

/// Worked 1: a full frame takes 121.12 µs at 100 Mbit/s; framed for ATM it weighs 1749 bytes.
#[test]
fn packets_leave_at_the_rate() {
    let pppoe = Overhead {
        bytes: Some(40),
        framing: Framing::Atm,
        ..Overhead::default()
    };
    for (overhead, nanos) in [(Overhead::default(), 121_120), (pppoe, 139_920)] {
        let config = Config {
            overhead,
            ..shaped(100_000)
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        for id in 0..20 {
            queue.enqueue(Probe::new(id), ms(1000), &mut drops);
        }
        assert_eq!(queue.ready_at(), Some(Instant::ZERO.max(ms(1000))));
        let left = departures(&mut queue, ms(1000), ms(2000), &mut drops);
        for (step, (at, packet)) in (0..).zip(&left) {
            assert_eq!(
                (*at - ms(1000), packet.id),
                (Duration::from_nanos(nanos * u64::from(step)), step),
                "{overhead:?}"
            );
        }
        assert_eq!(left.len(), 20);
        queue.inner().verify();
    }
}

/// After a step back of an hour the link opens when the last packet before it would have let it.
#[test]
fn a_clock_that_steps_back_does_not_close_the_link() {
    let (mut queue, mut drops) = (cake(shaped(100_000)), Drops::new());
    let (hour, frame) = (ms(3_600_000), Duration::from_nanos(121_120));
    for id in 0..4 {
        queue.enqueue(Probe::new(id), hour, &mut drops);
    }
    assert!(queue.dequeue(hour, &mut drops).is_some());
    assert!(queue.dequeue(hour, &mut drops).is_none());
    assert!(queue.dequeue(ms(1000), &mut drops).is_none());
    assert_eq!(queue.ready_at(), Some(ms(1000) + frame));
    let left = departures(&mut queue, ms(1000), ms(1010), &mut drops);
    let at: Vec<Duration> = left.iter().map(|(at, _)| *at - ms(1000)).collect();
    assert_eq!(at, [frame, frame * 2, frame * 3]);
}

/// The bottleneck's rate is not measured over the time of a step back, which would be endless.
#[test]
fn a_clock_that_steps_back_is_no_fast_bottleneck() {
    let (mut queue, mut drops) = (cake(autorate(Rate::ZERO)), Drops::new());
    let mut arrive = |from: Instant, packets: u32| {
        let mut now = from;
        for id in 0..packets {
            now += Duration::from_nanos(if id % 2 == 0 { 505_600 } else { 705_600 });
            queue.enqueue(Probe::new(id), now, &mut drops);
            departures(&mut queue, now, now, &mut drops);
        }
        queue.inner().stats().capacity_estimate.as_bits_per_sec()
    };
    let before = arrive(ms(3_600_000), 10_000);
    let after = arrive(ms(1000), 1000);
    assert!(after < before * 11 / 10, "{before}, then {after}");
}

/// Effect: without the shaper everything leaves at once.
#[test]
fn without_a_rate_nothing_waits() {
    let (mut queue, mut drops) = (cake(Config::default()), Drops::new());
    for id in 0..20 {
        queue.enqueue(Probe::new(id), ms(1000), &mut drops);
    }
    assert_eq!(
        departures(&mut queue, ms(1000), ms(1000), &mut drops).len(),
        20
    );
    assert_eq!((queue.inner().rate(), queue.inner().overlimits), (None, 0));
}

/// A link that was busy for a minute without a limit and gets one keeps to it from then on: the time
/// before is no credit, neither of the link nor of a tin.
#[test]
fn a_limit_given_to_a_busy_link_holds_at_once() {
    let limited = Config {
        rtt: patient().rtt,
        ..diffserv3(100)
    };
    let unlimited = Config {
        bandwidth: Bandwidth::Unlimited,
        ..limited.clone()
    };
    let (mut queue, mut drops) = (cake(unlimited), Drops::new());
    let fill = |queue: &mut Ledger<Cake<Probe>>, now, drops: &mut Drops<Probe>| {
        queue.enqueue(Probe::new(0), now, drops);
        queue.enqueue(Probe::new(1).flow(1).tos(EF), now, drops);
    };
    fill(&mut queue, ms(0), &mut drops);
    for second in 1..=60 {
        fill(&mut queue, ms(1000 * second), &mut drops);
        let left = [0; 2].map(|_| queue.dequeue(ms(1000 * second), &mut drops));
        assert!(left.iter().all(Option::is_some), "it is never empty");
    }
    let now = ms(60_000);
    let change =
        |cake: &mut Cake<Probe>, drops: &mut Drops<Probe>| cake.reconfigure(limited, now, drops);
    let changed = queue.with_inner("reconfigure", now, &mut drops, change);
    changed.expect("valid");
    (0..500).for_each(|_| fill(&mut queue, now, &mut drops));
    let left = departures(&mut queue, now, now + Duration::from_millis(10), &mut drops);
    let urgent = left.iter().filter(|(_, packet)| packet.tos == EF).count();
    // 82.6 frames in 10 ms; a quarter of the link is the share of Voice.
    assert_eq!(left.len(), 83);
    assert!((20..=23).contains(&urgent), "{urgent}");
}

/// Packets of a removed tin come into one that was idle: the time it was idle is no credit.
#[test]
fn a_tin_that_takes_the_packets_of_another_keeps_to_its_share() {
    let eight = Config {
        tins: Tins::Diffserv8,
        rtt: patient().rtt,
        ..diffserv3(100)
    };
    let four = Config {
        tins: Tins::Diffserv4,
        ..eight.clone()
    };
    let (mut queue, mut drops) = (cake(eight), Drops::new());
    let now = ms(60_000);
    for id in 0..500 {
        queue.enqueue(Probe::new(id), now, &mut drops);
        queue.enqueue(Probe::new(id).flow(1).tos(EF), now, &mut drops);
    }
    let change =
        |cake: &mut Cake<Probe>, drops: &mut Drops<Probe>| cake.reconfigure(four, now, drops);
    let changed = queue.with_inner("reconfigure", now, &mut drops, change);
    changed.expect("valid");
    let left = departures(&mut queue, now, now + Duration::from_millis(10), &mut drops);
    let urgent = left.iter().filter(|(_, packet)| packet.tos == EF).count();
    // A quarter of the link is the share of Voice, half of it that of Video, to which the others
    // belong now.
    assert_eq!(left.len(), 83);
    assert!((20..=42).contains(&urgent), "{urgent}");
}

/// Worked 1: 100 Mbit/s in three tins.
#[test]
fn tins_have_their_share() {
    let queue = cake(diffserv3(100));
    for (tin, (name, rate, quantum)) in [
        ("Bulk", 6_250, 300),
        ("Best Effort", 100_000, 1514),
        ("Voice", 25_000, 762),
    ]
    .into_iter()
    .enumerate()
    {
        let stats = self::tin(&queue, tin);
        assert_eq!((stats.name, stats.quantum), (name, quantum));
        assert_eq!(stats.threshold, Rate::kbit(rate));
    }
    let stats = queue.inner().stats();
    assert_eq!(
        (stats.memory_limit, stats.capacity_estimate),
        (Bytes::new(5_000_000), Rate::mbit(100))
    );
    let TinStats {
        target,
        interval,
        quantum,
        ..
    } = tin(&cake(shaped(1000)), 0);
    assert_eq!(
        (target, interval),
        (
            Duration::from_micros(18_168),
            Duration::from_micros(113_168)
        )
    );
    assert_eq!(quantum, 300);
}

/// Voice goes first while it keeps to its share; bulk, below its own, before best effort; what is
/// above waits for the rest.
#[test]
fn the_most_urgent_tin_below_its_share_goes_first() {
    let (mut queue, mut drops) = (cake(diffserv3(10)), Drops::new());
    for id in 0..30 {
        for tos in [0, LE, EF] {
            queue.enqueue(
                Probe::new(id).flow(tos.into()).tos(tos),
                ms(1000),
                &mut drops,
            );
        }
    }
    let left = departures(&mut queue, ms(1000), ms(1000 + 36), &mut drops);
    let tos: Vec<u8> = left.iter().map(|(_, packet)| packet.tos).collect();
    assert_eq!(tos[..3], [EF, LE, 0]);
    let sent = |tos| left.iter().filter(|(_, packet)| packet.tos == tos).count();
    // 30 frames: a quarter and a sixteenth for the two, the rest for best effort.
    assert_eq!((left.len(), sent(EF), sent(LE), sent(0)), (30, 8, 2, 20));
    queue.inner().verify();
}

/// A lone tin uses the whole link, whatever its share.
#[test]
fn a_share_is_no_limit() {
    let (mut queue, mut drops) = (cake(diffserv3(10)), Drops::new());
    for id in 0..30 {
        queue.enqueue(Probe::new(id).tos(LE), ms(1000), &mut drops);
    }
    assert_eq!(
        departures(&mut queue, ms(1000), ms(1000 + 36), &mut drops).len(),
        30
    );
}

/// Without a shaper tins share by their quanta: 1024 : 64 : 256.
#[test]
fn tins_take_turns_without_a_rate() {
    let (mut queue, mut drops) = (cake(Config::default()), Drops::new());
    let mut sent = [0; 3];
    for id in 0..21_000 {
        for tos in [0, LE, EF] {
            queue.enqueue(
                Probe::new(id).flow(tos.into()).sized(100).tos(tos),
                ms(1000),
                &mut drops,
            );
        }
        let packet = queue.dequeue(ms(1000), &mut drops).expect("backlogged");
        sent[[0, LE, EF]
            .iter()
            .position(|&tos| tos == packet.tos)
            .expect("one of them")] += 1;
    }
    for (sent, share) in sent.into_iter().zip([16_000, 1_000, 4_000]) {
        assert!(
            f64::abs(f64::from(sent) / f64::from(share) - 1.0) < 0.02,
            "{sent} beside {share}"
        );
    }
}

/// A mark names a tin as they are shown; wash clears the code point and keeps ECN.
#[test]
fn marks_choose_the_tin_and_wash_clears_the_code_point() {
    for (mark, tin) in [
        (0x100, 0),
        (0x200, 1),
        (0x300, 2),
        (0x400, 2),
        (0, 2),
        (0x101, 0),
    ] {
        let (mut queue, mut drops) = (
            cake(Config {
                fwmark: 0xff00,
                wash: true,
                ..Config::default()
            }),
            Drops::new(),
        );
        queue.enqueue(Probe::new(0).marked(mark).tos(EF | 1), ms(1), &mut drops);
        assert_eq!(
            (0..3)
                .map(|at| self::tin(&queue, at).packets)
                .position(|count| count == 1),
            Some(tin),
            "{mark:#x}"
        );
        assert_eq!(
            queue.dequeue(ms(1), &mut drops).map(|packet| packet.tos),
            Some(1)
        );
    }
    let (mut queue, mut drops) = (
        cake(Config {
            fwmark: 0xff,
            ..best_effort()
        }),
        Drops::new(),
    );
    queue.enqueue(Probe::new(0).marked(1).tos(EF), ms(1), &mut drops);
    assert_eq!(
        queue.dequeue(ms(1), &mut drops).map(|packet| packet.tos),
        Some(EF)
    );
}

/// The clocks start anew when the queue has been empty, and count those who tried in vain.
#[test]
fn idle_time_is_not_saved_up() {
    let (mut queue, mut drops) = (cake(shaped(10_000)), Drops::new());
    queue.enqueue(Probe::new(0), ms(1000), &mut drops);
    assert!(queue.dequeue(ms(1000), &mut drops).is_some());
    queue.enqueue(Probe::new(1), ms(1001), &mut drops);
    assert_eq!(queue.inner().overlimits, 1, "arrived while closed");
    assert!(queue.dequeue(ms(1001), &mut drops).is_none());
    assert_eq!(
        (queue.inner().overlimits, queue.ready_at()),
        (2, Some(Instant::from_nanos(1_001_211_200)))
    );
    assert!(queue.dequeue(ms(1002), &mut drops).is_some());
    for id in 0..10 {
        queue.enqueue(Probe::new(id), ms(5000), &mut drops);
    }
    assert_eq!(
        departures(&mut queue, ms(5000), ms(5000), &mut drops).len(),
        1,
        "no burst"
    );
}

/// A packet of four segments is split; births are noted, so that the account balances.
#[test]
fn segments_are_split_unless_told_not_to() {
    for (split_gso, pieces) in [(true, 4), (false, 1)] {
        let config = Config {
            split_gso,
            ..Config::default()
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        queue.enqueue(
            Probe::new(0).sized(4 * (54 + 1460)).of_segments(4),
            ms(1),
            &mut drops,
        );
        assert_eq!(
            (queue.backlog().packets, tin(&queue, 1).packets),
            (pieces, pieces as u64)
        );
        assert_eq!(queue.backlog().bytes.get(), 4 * (54 + 1460));
        assert_eq!(tin(&queue, 1).max_len.get(), 4 * (54 + 1460));
        assert_eq!(
            departures(&mut queue, ms(1), ms(1), &mut drops).len(),
            pieces
        );
        queue.inner().verify();
    }
}

/// Behind the bottleneck drops have used it: what is delivered becomes less, but never less than
/// two thirds.
#[test]
fn ingress_charges_drops() {
    let delivered = |ingress| {
        let config = Config {
            ingress,
            ..shaped(10_000)
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        let (mut now, mut delivered) = (ms(1000), 0);
        for id in 0..30_000 {
            now += Duration::from_micros(800);
            queue.enqueue(Probe::new(id), now, &mut drops);
            delivered += departures(&mut queue, now, now, &mut drops).len();
        }
        // 24 s at 10 Mbit/s are 19 815 frames.
        delivered
    };
    let (egress, ingress) = (delivered(false), delivered(true));
    assert!((19_700..19_820).contains(&egress), "{egress}");
    assert!((13_200..egress - 300).contains(&ingress), "{ingress}");
}

/// One tin whose rate is estimated from `start` on.
fn autorate(start: Rate) -> Config {
    Config {
        bandwidth: Bandwidth::AutorateIngress { start },
        ..best_effort()
    }
}

/// The rate of a bottleneck ahead, 20 Mbit/s, is found and a sixteenth of it left free.
#[test]
fn the_rate_follows_what_arrives() {
    for profile in [Profile::Design, Profile::Linux] {
        let config = Config {
            profile,
            ..autorate(Rate::ZERO)
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        assert_eq!(queue.inner().rate(), None);
        let mut now = ms(1000);
        for id in 0..20_000 {
            now += Duration::from_nanos(if id % 2 == 0 { 505_600 } else { 705_600 });
            queue.enqueue(Probe::new(id), now, &mut drops);
            departures(&mut queue, now, now, &mut drops);
        }
        let rate = queue.inner().rate().expect("found").as_bits_per_sec();
        assert!(
            (18_000_000..20_500_000).contains(&rate),
            "{profile}: {rate}"
        );
        queue.inner().verify();
    }
}

/// A rate named beside `autorate-ingress` is where the search begins, also when it is named later.
#[test]
fn the_search_for_the_rate_begins_at_the_one_named() {
    let (mut queue, mut drops) = (cake(autorate(Rate::mbit(10))), Drops::new());
    assert_eq!(queue.inner().rate(), Some(Rate::mbit(10)));
    queue
        .edit(ms(1), &mut drops, |config| {
            config.bandwidth = autorate(Rate::mbit(30)).bandwidth;
        })
        .expect("valid");
    assert_eq!(queue.inner().rate(), Some(Rate::mbit(30)));
    queue
        .edit(ms(1), &mut drops, |config| {
            config.bandwidth = autorate(Rate::ZERO).bandwidth;
        })
        .expect("valid");
    assert_eq!(
        queue.inner().rate(),
        Some(Rate::mbit(30)),
        "kept where none is named"
    );
}

/// One queue of a slot's first episode: as designed it waits an interval, in Linux the second
/// packet is dropped.
#[test]
fn the_first_episode_is_patient_unless_linux_is_asked_for() {
    for (profile, first) in [(Profile::Design, 100), (Profile::Linux, 0)] {
        let config = Config {
            profile,
            ..shaped(12_112)
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        let mut signal = None;
        for step in 0..300 {
            for id in 0..2 {
                queue.enqueue(
                    Probe::new(2 * step + id),
                    ms(1000 + u64::from(step)),
                    &mut drops,
                );
            }
            queue.dequeue(ms(1000 + u64::from(step)), &mut drops);
            if !drops.is_empty() {
                signal = signal.or(Some(step));
            }
        }
        // The delay passes the target of 5 ms at 11 ms.
        let signal = signal.expect("some") - 11;
        assert!((first..first + 4).contains(&signal), "{profile}: {signal}");
    }
}
