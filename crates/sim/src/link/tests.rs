//! Tests of the link: timing, queueing, impairments, conservation.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant, Rate};
use tautline_qdisc::DropReason;

use super::{Buffer, Impairments, Link, LinkConfig, LinkEvent, LinkEventKind, LinkNicConfig};
use crate::{Coalesce, Probability};
use tautline_bql::LimitKind;
use tautline_stack::{NoTrace, Tracer};

fn link(config: LinkConfig) -> Link {
    Link::new(config, Pcg32::new(7, 7)).expect("valid")
}

/// An IPv4 frame of 1250 bytes, 10 µs at 1 Gbit/s, numbered in its last bytes.
fn frame(number: u32, tos: u8) -> Vec<u8> {
    let mut frame = vec![0; 1250];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, tos]);
    frame[1246..].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[1246..].try_into().expect("four bytes"))
}

/// Lets the link run dry; returns (arrival in µs, frame).
fn run(link: &mut Link, tracer: &mut impl Tracer<LinkEvent>) -> Vec<(u64, Vec<u8>)> {
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        link.advance(now, tracer, |bytes| {
            arrived.push((now.as_micros(), bytes.to_vec()))
        });
    }
    assert_eq!(link.outstanding(), 0);
    arrived
}

#[test]
fn a_frame_takes_its_serialisation_and_the_delay() {
    let config = LinkConfig {
        rate: Rate::gbit(1),
        delay: Duration::from_millis(5),
        ..LinkConfig::default()
    };
    let mut link = link(config);
    for n in 0..3 {
        link.enter(&frame(n, 0), Instant::from_micros(1), &mut NoTrace);
    }
    let arrivals: Vec<_> = run(&mut link, &mut NoTrace)
        .iter()
        .map(|(at, bytes)| (*at, number(bytes)))
        .collect();
    assert_eq!(arrivals, [(5_011, 0), (5_021, 1), (5_031, 2)]);
}

#[test]
fn a_full_buffer_drops_the_newcomer() {
    let queue = Buffer::TailDrop {
        packets: 2,
        bytes: Bytes::MAX,
    };
    let mut link = link(LinkConfig {
        rate: Rate::gbit(1),
        queue,
        ..LinkConfig::default()
    });
    for n in 0..5 {
        link.enter(&frame(n, 0), Instant::ZERO, &mut NoTrace);
    }
    let arrived: Vec<_> = run(&mut link, &mut NoTrace)
        .iter()
        .map(|(_, bytes)| number(bytes))
        .collect();
    assert_eq!(
        arrived,
        [0, 1, 2],
        "one in the serializer, two in the buffer"
    );
    assert_eq!(link.stats().dropped[DropReason::Overlimit.index()], 2);
    assert_eq!(
        (link.stats().backlog_peak, link.stats().bytes_peak),
        (2, Bytes::new(2500))
    );
}

#[test]
fn a_discipline_marks_ect_frames_and_the_checksum_follows() {
    let queue = "codel limit 1000 target 1ms interval 5ms ecn"
        .parse()
        .expect("valid");
    let mut link = link(LinkConfig {
        rate: Rate::mbit(10),
        queue,
        ..LinkConfig::default()
    });
    for n in 0..100 {
        link.enter(&frame(n, 0b10), Instant::ZERO, &mut NoTrace);
    }
    let arrived = run(&mut link, &mut NoTrace);
    let marked = arrived
        .iter()
        .filter(|(_, bytes)| bytes[15] == 0b11)
        .count() as u64;
    assert!(marked > 0, "100 ms of standing queue must be marked");
    assert_eq!((link.stats().marked, link.stats().drops()), (marked, 0));
    // The frames began with a zero checksum, so what marking folded in is the (complemented) change
    // itself.
    assert!(
        arrived
            .iter()
            .all(|(_, bytes)| (bytes[15] == 0b11) == (bytes[24..26] != [0, 0]))
    );
}

#[test]
fn a_flipped_bit_is_one_bit_of_the_ip_packet() {
    let impair = Impairments {
        corrupt: Probability::ALWAYS,
        ..Impairments::default()
    };
    let mut link = link(LinkConfig {
        impair,
        ..LinkConfig::default()
    });
    let mut hit = [false; 3];
    for _ in 0..200 {
        link.enter(&frame(1, 0), Instant::ZERO, &mut NoTrace);
        let (_, damaged) = run(&mut link, &mut NoTrace).pop().expect("not lost");
        let flips: Vec<_> = frame(1, 0)
            .iter()
            .zip(&damaged)
            .map(|(a, b)| (a ^ b).count_ones())
            .collect();
        assert_eq!(flips.iter().sum::<u32>(), 1);
        assert_eq!(
            flips[..14].iter().sum::<u32>(),
            0,
            "the FCS protects the Ethernet header"
        );
        let at = flips
            .iter()
            .position(|flips| *flips == 1)
            .expect("one flip");
        hit[at / 417] = true;
    }
    assert_eq!(hit, [true; 3], "every part of the frame is hit");
    link.enter(&[0xff; 42], Instant::ZERO, &mut NoTrace);
    assert_eq!(
        run(&mut link, &mut NoTrace)[0].1,
        [0xff; 42],
        "no IP packet, no flip"
    );
}

#[test]
fn a_held_back_frame_is_overtaken() {
    let half = Probability::percent(50.0).expect("valid");
    let impair = Impairments {
        reorder: half,
        reorder_delay: Duration::from_micros(35),
        ..Impairments::default()
    };
    let mut link = link(LinkConfig {
        rate: Rate::gbit(1),
        impair,
        ..LinkConfig::default()
    });
    for n in 0..50 {
        link.enter(&frame(n, 0), Instant::ZERO, &mut NoTrace);
    }
    for (at, bytes) in run(&mut link, &mut NoTrace) {
        let on_time = u64::from(number(&bytes) + 1) * 10;
        assert!(at == on_time || at == on_time + 35, "{at} {on_time}");
    }
    assert!((10..40).contains(&link.stats().held_back));
}

/// Counts events by what happened.
#[derive(Default)]
struct Count(HashMap<std::mem::Discriminant<LinkEventKind>, u64>);

impl Tracer<LinkEvent> for Count {
    fn record(&mut self, event: &LinkEvent, _frame: &[u8]) {
        *self
            .0
            .entry(std::mem::discriminant(&event.kind))
            .or_default() += 1;
    }
}

/// A router's way out at 1 Gbit/s: a ring of `ring`, an interrupt after `frames` completions or 1
/// ms.
fn routed(ring: usize, frames: u32, late: Duration, limit: LimitKind) -> Link {
    let coalesce = Coalesce {
        frames,
        time: Duration::from_millis(1),
    };
    let nic = Some(LinkNicConfig {
        ring,
        coalesce,
        late,
        limit: limit.into(),
        ..LinkNicConfig::default()
    });
    link(LinkConfig {
        rate: Rate::gbit(1),
        nic,
        ..LinkConfig::default()
    })
}

#[test]
fn a_ring_is_filled_at_once_and_again_when_completions_are_announced() {
    let mut link = routed(4, 3, Duration::ZERO, LimitKind::Unlimited);
    for n in 0..6 {
        link.enter(&frame(n, 0), Instant::ZERO, &mut NoTrace);
    }
    let ring = link.ring().expect("it has a NIC");
    assert_eq!(
        (ring.in_flight(), link.backlog().packets, link.outstanding()),
        (4, 2, 6)
    );
    // 10 µs each; the interrupt at 30 µs lets the fifth and sixth in while the fourth is on the
    // wire.
    let arrivals: Vec<_> = run(&mut link, &mut NoTrace)
        .iter()
        .map(|(at, bytes)| (*at, number(bytes)))
        .collect();
    assert_eq!(
        arrivals,
        [(10, 0), (20, 1), (30, 2), (40, 3), (50, 4), (60, 5)]
    );
}

#[test]
fn a_ring_runs_dry_while_nobody_hears_of_its_completions() {
    let mut link = routed(2, u32::MAX, Duration::ZERO, LimitKind::Unlimited);
    for n in 0..4 {
        link.enter(&frame(n, 0), Instant::ZERO, &mut NoTrace);
    }
    let arrivals: Vec<_> = run(&mut link, &mut NoTrace)
        .iter()
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(
        arrivals,
        [10, 20, 1020, 1030],
        "1 ms after the first completion"
    );
}

#[test]
fn a_late_driver_answers_later_and_never_more_than_that() {
    let arrivals = |late| {
        let mut link = routed(1, 1, late, LimitKind::Unlimited);
        for n in 0..100 {
            link.enter(&frame(n, 0), Instant::ZERO, &mut NoTrace);
        }
        run(&mut link, &mut NoTrace)
            .iter()
            .map(|(at, _)| *at)
            .collect::<Vec<_>>()
    };
    let (prompt, late) = (
        arrivals(Duration::ZERO),
        arrivals(Duration::from_micros(50)),
    );
    assert_eq!(prompt, (1..=100).map(|n| n * 10).collect::<Vec<_>>());
    let gaps: Vec<_> = late.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (10..=61).contains(gap)), "{gaps:?}");
    assert!(
        gaps.iter().any(|gap| *gap < 20) && gaps.iter().any(|gap| *gap > 50),
        "{gaps:?}"
    );
}

#[test]
fn a_limit_holds_packets_back_though_the_ring_has_room() {
    let mut link = routed(64, 1, Duration::ZERO, LimitKind::default());
    for n in 0..50 {
        link.enter(&frame(n, 0), Instant::ZERO, &mut NoTrace);
    }
    let ring = link.ring().expect("it has a NIC");
    assert_eq!(
        (ring.in_flight(), link.backlog().packets),
        (1, 49),
        "a limit of zero lets one through"
    );
    assert_eq!(run(&mut link, &mut NoTrace).len(), 50);
}

/// Priority comes from the TOS byte, as where Linux forwards.
#[test]
fn a_router_sees_the_priority_of_a_frame() {
    let queue = "pfifo_fast".parse().expect("valid");
    let mut link = link(LinkConfig {
        rate: Rate::gbit(1),
        queue,
        ..LinkConfig::default()
    });
    for (n, tos) in [(0, 0), (1, 0), (2, 36 << 2)] {
        link.enter(&frame(n, tos), Instant::ZERO, &mut NoTrace);
    }
    let arrived: Vec<_> = run(&mut link, &mut NoTrace)
        .iter()
        .map(|(_, bytes)| number(bytes))
        .collect();
    assert_eq!(arrived, [0, 2, 1]);
}

proptest! {
    /// In + copies = arrived + lost + dropped, whatever goes wrong; and the tracer is notified of all of
    /// it.
    #[test]
    fn every_frame_is_accounted_for(percent in prop::array::uniform4(0.0..60.0f64), limit in 1..40usize, seed: u64) {
        let [loss, duplicate, corrupt, reorder] = percent.map(|p| Probability::percent(p).expect("in range"));
        let impair = Impairments { loss, duplicate, corrupt, reorder, reorder_delay: Duration::from_micros(77) };
        let queue = Buffer::TailDrop { packets: limit, bytes: Bytes::MAX };
        let delay = Duration::from_micros(50);
        let config = LinkConfig { rate: Rate::gbit(1), delay, queue, impair, ..LinkConfig::default() };
        let mut link = Link::new(config, Pcg32::new(seed, 1)).expect("valid");
        let mut count = Count::default();
        let mut arrived = 0;
        for n in 0..200u32 {
            let now = Instant::from_micros(u64::from(n / 7 * 60));
            while link.next_event().is_some_and(|at| at <= now) {
                let at = link.next_event().expect("just seen");
                link.advance(at, &mut count, |_| arrived += 1);
            }
            link.enter(&frame(n, 0), now, &mut count);
        }
        arrived += run(&mut link, &mut count).len() as u64;
        let stats = *link.stats();
        prop_assert_eq!(stats.arrived, arrived);
        prop_assert_eq!(stats.entered + stats.duplicated, stats.arrived + stats.lost + stats.drops());
        let heard = |what| count.0.get(&std::mem::discriminant(&what)).copied().unwrap_or(0);
        prop_assert_eq!(heard(LinkEventKind::Lost), stats.lost);
        prop_assert_eq!(heard(LinkEventKind::Dropped(DropReason::Overlimit)), stats.drops());
        prop_assert_eq!(heard(LinkEventKind::Corrupted { bit: 0 }), stats.corrupted);
        prop_assert_eq!(heard(LinkEventKind::HeldBack), stats.held_back);
        prop_assert_eq!(heard(LinkEventKind::Arrived), stats.arrived);
    }
}
