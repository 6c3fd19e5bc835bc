use proptest::prelude::*;
use tautline_base::Rate;
use tautline_bql::LimitKind;
use tautline_stack::NoTrace;

use super::*;
use crate::Coalesce;
use crate::link::Link;

const BEST_EFFORT: u8 = 0;
/// Class selector 6.
const VOICE: u8 = 6 << 5;

/// A port at 1 Gbit/s with rings of `ring` descriptors.
fn port(queue: &str, waking: Waking, ring: usize) -> Result<Link, ConfigError> {
    let nic = LinkNicConfig {
        ring,
        coalesce: Coalesce::OFF,
        limit: LimitKind::Unlimited.into(),
        access_categories: Some(waking),
        ..LinkNicConfig::default()
    };
    let config = LinkConfig {
        rate: Rate::gbit(1),
        queue: queue.parse()?,
        nic: Some(nic),
        ..LinkConfig::default()
    };
    Link::new(config, Pcg32::new(7, 7))
}

/// An IPv4 frame of 1250 bytes, 10 µs at 1 Gbit/s.
fn frame(number: u8, tos: u8) -> Vec<u8> {
    let mut frame = vec![0; 1250];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, tos]);
    frame[1249] = number;
    frame
}

/// Lets the link run dry; returns (arrival in µs, TOS, number).
fn run(link: &mut Link) -> Vec<(u64, u8, u8)> {
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        link.advance(now, &mut NoTrace, |bytes| {
            arrived.push((now.as_micros(), bytes[15], bytes[1249]))
        });
    }
    assert_eq!(link.outstanding(), 0);
    arrived
}

/// Six frames of best effort, then three of voice, all at once: those that arrive, as letters.
fn order(queue: &str, waking: Waking, ring: usize) -> String {
    let mut link = port(queue, waking, ring).expect("valid");
    for n in 0..9 {
        let tos = if n < 6 { BEST_EFFORT } else { VOICE };
        link.enter(&frame(n, tos), Instant::ZERO, &mut NoTrace);
    }
    let arrived = run(&mut link);
    let times: Vec<_> = arrived.iter().map(|(at, ..)| *at).collect();
    assert_eq!(
        times,
        (1..=9).map(|n| 10 * n).collect::<Vec<_>>(),
        "the wire is never idle"
    );
    arrived
        .iter()
        .map(|(_, tos, _)| if *tos == VOICE { 'V' } else { 'b' })
        .collect()
}

#[test]
fn a_full_queue_stops_its_own_child_alone_or_every_child() {
    assert_eq!(order("mq queues 4", Waking::Child, 2), "bVVVbbbbb");
    // Whenever best effort has room, the root yields a packet of each.
    assert_eq!(order("mq queues 4", Waking::Root, 2), "bVbVbVbbb");
}

#[test]
fn a_qdisc_without_children_wakes_as_a_root() {
    // Voice waits until all of best effort is in the device, which then sends it first.
    assert_eq!(order("pfifo", Waking::Root, 2), "bbbbbVVVb");
    assert_eq!(
        order("pfifo", Waking::Root, 64),
        "bVVVbbbbb",
        "all are in the device, which sends voice first"
    );
}

#[test]
fn precedence_selects_the_queue() {
    let queues = [0, 1, 2, 3, 4, 5, 6, 7].map(|precedence: u8| {
        let packet = Packet::new(HeapFrame::new(), 1250).with_tos((precedence << 5) | 0b10, 0);
        by_precedence(&packet, QUEUES)
    });
    assert_eq!(queues, [2, 3, 3, 2, 1, 1, 0, 0]);
}

#[test]
fn each_queue_has_a_ring_of_its_own() {
    let mut link = port("mq queues 4", Waking::Child, 2).expect("valid");
    for n in 0..6 {
        link.enter(&frame(n, BEST_EFFORT), Instant::ZERO, &mut NoTrace);
    }
    let rings = link.rings();
    let in_flight: Vec<_> = rings.iter().map(|(ring, _)| ring.in_flight()).collect();
    assert_eq!((in_flight, link.backlog().packets), (vec![0, 0, 2, 0], 4));
    assert_eq!(rings[2].1.ring_full, 1);
}

#[test]
fn a_child_is_woken_only_where_there_is_one_for_each_queue() {
    for (queue, waking, expected) in [
        (
            "pfifo",
            Waking::Child,
            "not a qdisc without a child for each queue",
        ),
        ("mq queues 3", Waking::Child, "not mq queues 3"),
        ("mq queues 3", Waking::Root, "not mq queues 3"),
    ] {
        let refused = port(queue, waking, 2).expect_err("refused").to_string();
        assert!(
            refused.contains("access_categories") && refused.contains(expected),
            "{refused}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every frame arrives, and none overtakes another of its category.
    #[test]
    fn categories_keep_their_order(
        frames in prop::collection::vec((0..8u8, 0..30u64), 1..100),
        ring in 1..5usize,
        root: bool,
    ) {
        let waking = if root { Waking::Root } else { Waking::Child };
        let mut link = port("mq queues 4", waking, ring).expect("valid");
        let mut expected = [const { Vec::new() }; QUEUES];
        let mut arrived = [const { Vec::new() }; QUEUES];
        let mut deliver = |bytes: &[u8]| {
            arrived[QUEUE_OF_PRIORITY[usize::from(bytes[15] >> 5)]].push(bytes[1249]);
        };
        let mut now = Instant::ZERO;
        for (number, (precedence, gap)) in (0..).zip(frames) {
            now += Duration::from_micros(gap);
            while let Some(at) = link.next_event().filter(|at| *at <= now) {
                link.advance(at, &mut NoTrace, &mut deliver);
            }
            expected[QUEUE_OF_PRIORITY[usize::from(precedence)]].push(number);
            link.enter(&frame(number, precedence << 5), now, &mut NoTrace);
        }
        while let Some(at) = link.next_event() {
            link.advance(at, &mut NoTrace, &mut deliver);
        }
        prop_assert_eq!(link.outstanding(), 0);
        prop_assert_eq!(arrived, expected);
    }
}
