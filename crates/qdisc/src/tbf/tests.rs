//! Worked examples, the envelope, and the ways packets that do not fit take.

use core::time::Duration;

use super::*;
use crate::bfifo::{self, Bfifo};
use crate::codel::{self, Codel, Params};
use crate::ledger::Ledger;
use crate::testing::Edit;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;
use tautline_base::Rate;
use tautline_testkit::{Probe, ids};

type Queue = Tbf<Probe, Bfifo<Probe>>;

fn config(mbit: u64, burst: u64) -> Config {
    Config {
        rate: Rate::mbit(mbit),
        burst: Bytes::new(burst),
        ..Config::default()
    }
}

fn tbf(config: Config) -> Ledger<Queue> {
    let limit = config.limit();
    Ledger::new(Tbf::new(config, Bfifo::new(bfifo::Config { limit })).expect("valid"))
}

/// Everything that leaves when it is asked at the very moments it names, with those moments in
/// microseconds.
fn departures(
    queue: &mut Ledger<Queue>,
    drops: &mut Drops<Probe>,
    mut now: Instant,
) -> Vec<(u64, u32)> {
    let mut left = Vec::new();
    while let Some(at) = queue.ready_at() {
        now = now.max(at);
        if let Some(packet) = queue.dequeue(now, drops) {
            left.push((now.as_micros(), packet.id));
        } else {
            assert!(
                queue.ready_at().is_none_or(|later| later > now),
                "a later moment is named"
            );
        }
    }
    left
}

/// `net/sched/sch_tbf.c`, worked by hand: 1 Mbit/s, 5000 bytes, six packets of 1500; also what is
/// left in the bucket.
#[test]
fn six_packets_leave_when_the_bucket_allows() {
    let (mut queue, mut drops) = (
        tbf(Config {
            limit: Limit::Bytes(Bytes::new(9000)),
            ..config(1, 5000)
        }),
        Drops::new(),
    );
    let start = Instant::from_secs(1);
    for id in 0..6 {
        queue.enqueue(Probe::new(id).sized(1500), start, &mut drops);
    }
    for (millis, tokens) in [(0, 28), (0, 16), (0, 4), (8, 0), (20, 0), (32, 0)] {
        let at = start + Duration::from_millis(millis);
        if millis > 0 {
            assert!(
                queue
                    .dequeue(at - Duration::from_nanos(1), &mut drops)
                    .is_none()
            );
            assert_eq!(queue.ready_at(), Some(at));
        }
        queue
            .dequeue(at, &mut drops)
            .expect("the bucket holds enough");
        assert_eq!(queue.inner().lasting.tokens, tokens * 1_000_000);
    }
    assert_eq!(
        queue.inner().stats().overlimits,
        3,
        "one for each attempt that failed"
    );
}

/// At the peak rate one frame after the other, though the first bucket holds them all.
#[test]
fn the_peak_rate_spreads_a_burst() {
    let peak = Some(Peak {
        rate: Rate::mbit(4),
        mtu: Bytes::new(1514),
    });
    let (mut queue, mut drops) = (
        tbf(Config {
            peak,
            ..config(1, 5000)
        }),
        Drops::new(),
    );
    for id in 0..4 {
        queue.enqueue(Probe::new(id).sized(1500), Instant::ZERO, &mut drops);
    }
    // A bucket of 1514 bytes keeps 28 µs of the first frame's; the fourth waits for the first
    // bucket.
    assert_eq!(
        departures(&mut queue, &mut drops, Instant::ZERO),
        [(0, 0), (2_972, 1), (5_972, 2), (8_972, 3)]
    );
}

#[test]
fn the_tokens_are_those_in_the_bucket() {
    let (mut queue, mut drops) = (tbf(config(12, 9000)), Drops::new());
    let tokens = |queue: &Ledger<Queue>| queue.inner().tokens();
    assert_eq!(tokens(&queue), (Bytes::new(9000), None), "it begins full");
    queue.enqueue(
        Probe::new(1).sized(1500),
        Instant::from_millis(1),
        &mut drops,
    );
    assert!(queue.dequeue(Instant::from_millis(1), &mut drops).is_some());
    assert_eq!(
        tokens(&queue),
        (Bytes::new(7500), None),
        "one packet has left"
    );
}

#[test]
fn what_does_not_fit_is_split_or_dropped() {
    let (mut queue, mut drops) = (tbf(config(1, 2000)), Drops::new());
    queue.enqueue(Probe::new(0).sized(2001), Instant::ZERO, &mut drops);
    queue.enqueue(
        Probe::new(1).sized(3 * (54 + 1000)).of_segments(3),
        Instant::ZERO,
        &mut drops,
    );
    queue.enqueue(
        Probe::new(2).sized(3 * (54 + 3000)).of_segments(3),
        Instant::ZERO,
        &mut drops,
    );
    let reasons: Vec<(u32, DropReason)> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(reasons, [0, 2, 2, 2].map(|id| (id, DropReason::TooLong)));
    assert_eq!(
        queue.backlog(),
        Backlog {
            packets: 3,
            bytes: Bytes::new(3 * 1054)
        }
    );
    assert_eq!(drops.births().packets, 4);
    let Stats {
        too_long, split, ..
    } = *queue.inner().stats();
    assert_eq!((too_long, split), (4, 2));
    assert_eq!(queue.inner().tokens(), (Bytes::new(2000), None));
    assert_eq!(departures(&mut queue, &mut drops, Instant::ZERO).len(), 3);
}

/// The limit is what both rates would send within the latency, and a bucket of the slower.
#[test]
fn the_limit_follows_from_the_latency() {
    let config = Config {
        peak: Some(Peak {
            rate: Rate::mbit(2),
            mtu: Bytes::new(2000),
        }),
        limit: Limit::Latency(Duration::from_millis(70)),
        ..config(1, 5000)
    };
    assert_eq!(
        config.limit(),
        Bytes::new(8750 + 5000),
        "the peak rate would allow 17500 + 2000"
    );
    let slow = Config {
        peak: config.peak.map(|_| Peak {
            mtu: Bytes::new(20),
            rate: Rate::kbit(1001),
        }),
        ..config
    };
    assert_eq!(slow.limit(), Bytes::new(8758 + 20));
}

/// In Linux a packet that no longer fits would stop the queue forever.
#[test]
fn a_smaller_bucket_drops_what_no_longer_fits_and_goes_on() {
    let (mut queue, mut drops) = (tbf(config(1, 5000)), Drops::new());
    for (id, len) in [(0, 1000), (1, 4000), (2, 4000), (3, 1000)] {
        queue.enqueue(Probe::new(id).sized(len), Instant::ZERO, &mut drops);
    }
    queue
        .edit(Instant::ZERO, &mut drops, |config| {
            (config.burst, config.rate) = (Bytes::new(2000), Rate::mbit(2));
            config.limit = Limit::Bytes(Bytes::new(1000));
        })
        .expect("valid");
    assert_eq!(
        queue.inner().lasting.tokens,
        8_000_000,
        "the smaller bucket is full"
    );
    assert_eq!(
        departures(&mut queue, &mut drops, Instant::ZERO),
        [(0, 0), (0, 3)]
    );
    assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [1, 2]);
    let Stats {
        too_long, split, ..
    } = *queue.inner().stats();
    assert_eq!((too_long, split), (2, 0));
    assert_eq!(queue.inner().tokens(), (Bytes::ZERO, None));
}

/// The bytes stay, not the time that they take: 1250 of them at any rate.
#[test]
fn a_change_of_rate_neither_adds_nor_takes_bytes() {
    let config = |mbit, peak_mbit| Config {
        rate: Rate::mbit(mbit),
        burst: Bytes::new(12_500),
        peak: Some(Peak {
            rate: Rate::mbit(peak_mbit),
            mtu: Bytes::new(12_500),
        }),
        ..Config::default()
    };
    let (mut queue, mut drops) = (tbf(config(1, 2)), Drops::new());
    queue.enqueue(Probe::new(0).sized(11_250), Instant::ZERO, &mut drops);
    assert!(queue.dequeue(Instant::ZERO, &mut drops).is_some());
    let left = (Bytes::new(1250), Some(Bytes::new(1250)));
    assert_eq!(queue.inner().tokens(), left);
    for (rate, peak) in [(1000, 2000), (1, 4), (100, 200), (1, 2)] {
        queue
            .inner_mut()
            .reconfigure(config(rate, peak))
            .expect("valid");
        assert_eq!(queue.inner().tokens(), left, "{rate} Mbit/s");
    }
    let small = Config {
        burst: Bytes::new(2000),
        ..config(1, 2)
    };
    queue.inner_mut().reconfigure(small).expect("valid");
    assert_eq!(queue.inner().tokens(), left);
}

/// A large packet that was queued before the bucket became smaller leaves as segments, in its place;
/// segments that a second change makes too long are dropped.
#[test]
fn a_smaller_bucket_cuts_what_can_be_cut() {
    let (mut queue, mut drops) = (tbf(config(1, 9000)), Drops::new());
    let now = Instant::from_secs(1);
    queue.enqueue(
        Probe::new(0).sized(4 * 1500).of_segments(4),
        now,
        &mut drops,
    );
    for id in 1..3 {
        queue.enqueue(Probe::new(id).sized(700), now, &mut drops);
    }
    let burst = |queue: &mut Ledger<Queue>, drops: &mut Drops<Probe>, bytes| {
        queue
            .edit(now, drops, |config| config.burst = Bytes::new(bytes))
            .expect("valid");
    };
    burst(&mut queue, &mut drops, 2000);
    let later = |millis| now + Duration::from_millis(millis);
    let first = queue.dequeue(now, &mut drops).expect("a full bucket");
    assert_eq!((first.id, first.len()), (0, Bytes::new(1500)));
    assert!(drops.is_empty());
    assert_eq!(drops.births().packets, 3);
    assert_eq!(queue.backlog().packets, 3 + 2);
    // The bucket has 500 of the next 1500 bytes, and a byte takes 8 µs.
    assert!(queue.dequeue(now, &mut drops).is_none());
    assert_eq!(queue.ready_at(), Some(later(8)));
    let second = queue.dequeue(later(8), &mut drops).map(|packet| packet.id);
    assert_eq!(second, Some(0));
    queue
        .edit(now, &mut drops, |config| {
            config.frame = Bytes::new(1000);
            config.burst = Bytes::new(1000);
        })
        .expect("valid");
    let left = departures(&mut queue, &mut drops, later(1000));
    assert_eq!(left.iter().map(|left| left.1).collect::<Vec<_>>(), [1, 2]);
    let dropped: Vec<(u32, DropReason)> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(dropped, [(0, DropReason::TooLong); 2]);
    let Stats {
        too_long, split, ..
    } = *queue.inner().stats();
    assert_eq!((too_long, split), (2, 1));
}

/// After a step back of an hour the second packet leaves when the bucket holds it, as without the
/// step: what had flowed in before stays.
#[test]
fn a_clock_that_steps_back_does_not_close_the_shaper() {
    let (hour, half) = (Duration::from_secs(3600), Duration::from_millis(6));
    for step in [Duration::ZERO, hour] {
        let (mut queue, mut drops) = (tbf(config(1, 1514)), Drops::new());
        let now = Instant::ZERO + hour + hour;
        for id in 0..2 {
            queue.enqueue(Probe::new(id).sized(1514), now, &mut drops);
        }
        assert!(queue.dequeue(now, &mut drops).is_some(), "a full bucket");
        assert!(queue.dequeue(now + half, &mut drops).is_none());
        assert!(queue.dequeue(now + half - step, &mut drops).is_none());
        let opens = now + Duration::from_micros(12_112) - step;
        assert_eq!(queue.ready_at(), Some(opens), "{step:?}");
        assert!(queue.dequeue(opens, &mut drops).is_some());
    }
}

/// The segments of a packet that was cut are packets of the qdisc below, and end with it.
#[test]
fn a_replaced_child_takes_the_segments_along() {
    let mut queue = Tbf::new(config(1, 9000), Bfifo::new(bfifo::Config::default())).expect("valid");
    let mut drops = Drops::new();
    queue.enqueue(
        Probe::new(0).sized(2 * 1500).of_segments(2),
        Instant::ZERO,
        &mut drops,
    );
    queue.reconfigure(config(1, 2000)).expect("valid");
    assert!(queue.dequeue(Instant::ZERO, &mut drops).is_some());
    assert_eq!(queue.backlog().packets, 1);
    let child = Bfifo::new(bfifo::Config::default());
    queue
        .graft(ClassId::new(0, 1), child, &mut drops)
        .expect("its class");
    assert_eq!((drops.len(), queue.backlog()), (1, Backlog::default()));
    assert_eq!(queue.ready_at(), None);
}

#[test]
fn the_discipline_below_can_be_replaced_and_changed() {
    let config = Config {
        rate: Rate::mbit(1),
        burst: Bytes::new(2000),
        ..Config::default()
    };
    let codel = || {
        Codel::new(codel::Config {
            limit: 9,
            codel: Params::default(),
        })
        .expect("valid")
    };
    let mut queue = Tbf::new(config, codel()).expect("valid").with_handle(1);
    let mut drops = Drops::new();
    for id in 0..5 {
        queue.enqueue(Probe::new(id), Instant::ZERO, &mut drops);
    }
    queue
        .dequeue(Instant::ZERO, &mut drops)
        .expect("a full bucket");
    assert!(queue.dequeue(Instant::ZERO, &mut drops).is_none());
    let error = queue
        .graft(ClassId::new(1, 2), codel(), &mut drops)
        .expect_err("no such class");
    assert_eq!(error.parameter, "parent");
    queue
        .graft(ClassId::new(1, 1), codel(), &mut drops)
        .expect("its class");
    let dropped: Vec<(u32, DropReason)> = drops
        .drain()
        .map(|(packet, reason)| (packet.id, reason))
        .collect();
    assert_eq!(dropped, [1, 2, 3, 4].map(|id| (id, DropReason::Reset)));
    assert_eq!((queue.backlog().packets, queue.ready_at()), (0, None));
    let limit = codel::Config {
        limit: 1,
        codel: Params::default(),
    };
    let mut below = |class| {
        queue.with_child(class, &mut drops, |child, drops| {
            child.reconfigure(limit.clone(), drops)
        })
    };
    assert_eq!(below(ClassId::new(1, 1)), Some(Ok(())), "its class");
    assert_eq!(below(ClassId::new(2, 1)), None, "no such class");
    assert_eq!(queue.child().config().limit, 1);
}

/// Bursts of a given size leave at once with a large bucket, and spaced without: the mechanism does
/// it, not the test.
#[test]
fn the_bucket_is_what_delays() {
    let last = |burst| {
        let (mut queue, mut drops) = (tbf(config(10, burst)), Drops::new());
        (0..20).for_each(|id| queue.enqueue(Probe::new(id).sized(1000), Instant::ZERO, &mut drops));
        departures(&mut queue, &mut drops, Instant::ZERO)
            .last()
            .copied()
    };
    assert_eq!(
        (last(2000), last(20_000)),
        (Some((14_400, 19)), Some((0, 19)))
    );
}

proptest! {
    /// In any window (t, t + T] at most the burst and what the rate carries in T, with the longest
    /// packet's rounding; and the head leaves at the first moment allowed, one nanosecond earlier
    /// it does not.
    #[test]
    fn the_envelope_holds_and_is_used(
        kbit in 100..100_000u64, burst in 1514..9000u64, peak in 0..2u64, traffic in vec((0..20_000_000u64, 40..1515u32), 1..80),
    ) {
        let rate = Rate::kbit(kbit);
        let peak = (peak > 0).then_some(Peak { rate: Rate::kbit(3 * kbit), mtu: Bytes::new(1514) });
        let limit = Limit::Bytes(Bytes::MAX);
        let burst = Bytes::new(burst);
        let mut queue = tbf(Config { rate, burst, peak, limit, ..Config::default() });
        let (mut drops, mut now, mut sent) = (Drops::new(), Instant::ZERO, Vec::new());
        let mut serve = |queue: &mut Ledger<Queue>, now: Instant, until: Instant| {
            let mut at = now;
            while let Some(opens) = queue.ready_at() {
                at = at.max(opens);
                if at > until {
                    break;
                }
                if opens > now {
                    assert!(queue.dequeue(opens - Duration::from_nanos(1), &mut Drops::new()).is_none(), "not before");
                }
                if let Some(packet) = queue.dequeue(at, &mut Drops::new()) {
                    sent.push((at, packet.len()));
                } else {
                    assert!(queue.ready_at() > Some(at));
                }
            }
        };
        for (gap, len) in traffic {
            let next = now + Duration::from_nanos(gap);
            serve(&mut queue, now, next);
            now = next;
            queue.enqueue(Probe::new(0).sized(len), now, &mut drops);
        }
        serve(&mut queue, now, Instant::from_nanos(u64::MAX));
        prop_assert!(queue.backlog().is_empty());
        let bounds = [Some((rate, burst)), peak.map(|peak| (peak.rate, peak.mtu))];
        for (rate, burst) in bounds.into_iter().flatten() {
            for first in 0..sent.len() {
                let mut bytes = Bytes::ZERO;
                for &(at, len) in &sent[first..] {
                    bytes += len;
                    // Costs are rounded down: a byte of tolerance per packet covers it.
                    let rounding = Bytes::new(sent.len() as u64);
                    prop_assert!(bytes <= burst + rate * (at - sent[first].0) + rounding, "{bytes} by {at}");
                }
            }
        }
    }

    /// Clocks that stand, leap and step back, changes of all parameters: the account balances,
    /// everything comes out.
    #[test]
    fn nothing_stalls(events in vec((0..10u32, any::<u64>(), 0..64u32), 0..200)) {
        let (mut queue, mut drops, mut now) = (tbf(config(1, 3000)), Drops::new(), Instant::from_secs(1));
        for (what, number, shift) in events {
            let number = number >> shift;
            match what {
                0..5 => {
                    let packet = Probe::new(0).sized((number % 70_000) as u32).of_segments((number % 50) as u16 + 1);
                    queue.enqueue(packet, now, &mut drops);
                }
                5..7 => drop(queue.dequeue(now, &mut drops)),
                7 => now += Duration::from_nanos(number),
                8 => now = now - Duration::from_nanos(number),
                _ => {
                    let (rate, burst) = (8 + number % 1_000_000_000, 1514 + number % 100_000);
                    let (rate, burst) = (Rate::bits_per_sec(rate), Bytes::new(burst));
                    queue.edit(now, &mut drops, |config| (config.rate, config.burst) = (rate, burst)).expect("valid");
                }
            }
            if let Some(opens) = queue.ready_at() && opens > now {
                prop_assert!(queue.dequeue(now, &mut drops).is_none());
                prop_assert!(queue.ready_at() > Some(now));
            }
        }
        flush(&mut queue, &mut drops);
        prop_assert!(queue.backlog().is_empty());
        prop_assert_eq!(queue.ready_at(), None);
    }
}
