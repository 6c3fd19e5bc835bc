//! Tests of a NIC on a shared medium: grants, completions and their order.

use std::time::Duration;

use proptest::prelude::*;
use tautline_base::{Bytes, Device, HeapFrame, Instant, Packet, Pool};
use tautline_tc::Tree;

use crate::nic::{Coalesce, NicConfig, SimNic, TxStatus};

fn nic(config: NicConfig, driver: Option<&str>) -> SimNic {
    let mut nic = SimNic::new(config).expect("valid");
    let tree = driver.map(|words| words.parse::<Tree>().expect("valid"));
    nic.attach_to_medium(tree.map(|tree| tree.with_hash_key(0).build().expect("valid")));
    nic
}

fn quick() -> NicConfig {
    NicConfig {
        coalesce: Coalesce::OFF,
        ..NicConfig::default()
    }
}

fn pool(frames: usize) -> Pool<HeapFrame> {
    Pool::new((0..frames).map(|_| HeapFrame::new()).collect())
}

/// Puts one packet of each length, which is how they are told apart.
fn put(
    nic: &mut SimNic,
    pool: &mut Pool<HeapFrame>,
    lengths: impl IntoIterator<Item = u32>,
    now: Instant,
) {
    for len in lengths {
        nic.put(Packet::new(pool.take().expect("enough frames"), len), now);
    }
    nic.doorbell(now);
}

fn departed(nic: &mut SimNic, now: Instant) -> Vec<usize> {
    let mut lengths = Vec::new();
    nic.advance(now, |bytes, at| {
        assert_eq!(at, now);
        lengths.push(bytes.len());
    });
    lengths
}

fn reaped(nic: &mut SimNic, pool: &mut Pool<HeapFrame>, now: Instant) -> Vec<u32> {
    let mut done = Vec::new();
    nic.reap(now, &mut done);
    done.into_iter()
        .map(|packet| pool.settle(packet).len)
        .collect()
}

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

#[test]
fn frames_wait_for_a_grant_and_complete_when_it_is_concluded() {
    let (mut nic, mut pool) = (nic(quick(), None), pool(8));
    nic.put(Packet::new(pool.take().expect("free"), 60), ms(0));
    assert!(!nic.has_waiting(), "no doorbell yet");
    put(&mut nic, &mut pool, [61, 62, 63], ms(0));
    assert_eq!(
        (nic.waiting().packets, nic.waiting().bytes),
        (4, Bytes::new(246))
    );
    assert_eq!(
        (nic.next_event(), departed(&mut nic, ms(9))),
        (None, vec![]),
        "it has no line rate"
    );
    let mut asked = Vec::new();
    let taken = nic.grant(ms(10), 64, |len| {
        asked.push(len.get());
        asked.len() < 3
    });
    assert_eq!((taken, asked), (2, vec![60, 61, 62]));
    assert_eq!((nic.waiting().packets, nic.in_flight()), (2, 4));
    assert_eq!(
        reaped(&mut nic, &mut pool, ms(10)),
        [0; 0],
        "on the air they are not complete"
    );
    nic.conclude(ms(12), |_| TxStatus::Acknowledged);
    assert_eq!(
        (departed(&mut nic, ms(12)), nic.take_interrupt()),
        (vec![60, 61], true)
    );
    assert_eq!(reaped(&mut nic, &mut pool, ms(12)), [60, 61]);
    assert_eq!(nic.grant(ms(13), 64, |_| true), 2);
    nic.conclude(ms(14), |_| TxStatus::Acknowledged);
    assert_eq!(departed(&mut nic, ms(14)), [62, 63]);
    assert_eq!(reaped(&mut nic, &mut pool, ms(14)), [62, 63]);
    assert_eq!(
        (nic.outstanding(), pool.outstanding(), nic.stats().tx_frames),
        (0, 0, 4)
    );
}

#[test]
fn what_failed_goes_first_and_holds_back_what_follows() {
    let (mut nic, mut pool) = (nic(quick(), None), pool(8));
    put(&mut nic, &mut pool, 60..66, ms(0));
    assert_eq!(nic.grant(ms(1), 4, |_| true), 4);
    let mut number = 0;
    nic.conclude(ms(2), |tries| {
        number += 1;
        assert_eq!(tries, 1);
        if number == 2 {
            TxStatus::Retry
        } else {
            TxStatus::Acknowledged
        }
    });
    assert_eq!(
        departed(&mut nic, ms(2)),
        [60],
        "the receiver has 62 and 63, but not 61"
    );
    assert_eq!(nic.waiting().packets, 3);
    let mut asked = Vec::new();
    let taken = nic.grant(ms(3), 4, |len| {
        asked.push(len.get());
        true
    });
    assert_eq!(
        (taken, asked),
        (2, vec![61, 64]),
        "a window of four from 61 on"
    );
    nic.conclude(ms(4), |tries| {
        if tries == 2 {
            TxStatus::Dropped
        } else {
            TxStatus::Acknowledged
        }
    });
    assert_eq!(departed(&mut nic, ms(4)), [62, 63, 64], "61 is lost");
    assert_eq!(
        reaped(&mut nic, &mut pool, ms(4)),
        [60, 61, 62, 63, 64],
        "and completes all the same"
    );
}

#[test]
fn grants_are_concluded_in_their_order() {
    let (mut nic, mut pool) = (nic(quick(), None), pool(8));
    put(&mut nic, &mut pool, 60..64, ms(0));
    for _ in 0..2 {
        let mut left = 3;
        nic.grant(ms(1), 3, |_| {
            left -= 1;
            left > 0
        });
    }
    assert_eq!(
        (nic.waiting().packets, nic.can_send(3), nic.can_send(4)),
        (1, false, true)
    );
    nic.conclude(ms(2), |_| TxStatus::Acknowledged);
    assert_eq!(departed(&mut nic, ms(2)), [60, 61]);
    nic.conclude(ms(3), |_| TxStatus::Retry);
    nic.conclude(ms(3), |_| unreachable!("nothing is on the air"));
    assert_eq!(
        (departed(&mut nic, ms(3)), nic.waiting().packets),
        (vec![], 2)
    );
    assert_eq!(nic.grant(ms(4), 3, |_| true), 2);
    nic.conclude(ms(4), |_| TxStatus::Acknowledged);
    assert_eq!(departed(&mut nic, ms(4)), [62, 63]);
}

#[test]
fn a_discipline_in_the_driver_chooses_and_what_it_drops_completes() {
    let (mut nic, mut pool) = (nic(quick(), Some("prio")), pool(8));
    let urgent = |packet: Packet<HeapFrame>| packet.with_tos(0x10, 6);
    nic.put(Packet::new(pool.take().expect("free"), 60), ms(0));
    nic.put(urgent(Packet::new(pool.take().expect("free"), 61)), ms(0));
    nic.doorbell(ms(0));
    assert_eq!(nic.grant(ms(1), 64, |_| true), 2);
    nic.conclude(ms(2), |_| TxStatus::Acknowledged);
    assert_eq!(departed(&mut nic, ms(2)), [61, 60]);

    let mut short = self::nic(quick(), Some("pfifo limit 2"));
    put(&mut short, &mut pool, 60..65, ms(0));
    assert_eq!((short.waiting().packets, short.in_flight()), (2, 5));
    assert_eq!(reaped(&mut short, &mut pool, ms(0)), [62, 63, 64]);
    let mut lost = Vec::new();
    short.reset(&mut lost);
    assert_eq!((lost.len(), short.in_flight()), (2, 0));
    lost.into_iter()
        .for_each(|packet| drop(pool.settle(packet)));
}

#[test]
fn completions_are_moderated_as_ever() {
    let coalesce = Coalesce {
        frames: 8,
        time: Duration::from_micros(20),
    };
    let (mut nic, mut pool) = (
        nic(
            NicConfig {
                coalesce,
                ..NicConfig::default()
            },
            None,
        ),
        pool(10),
    );
    put(&mut nic, &mut pool, 60..70, ms(0));
    nic.grant(ms(1), 64, |_| true);
    nic.conclude(ms(2), |_| TxStatus::Acknowledged);
    assert_eq!(departed(&mut nic, ms(2)).len(), 10);
    assert_eq!(reaped(&mut nic, &mut pool, ms(2)).len(), 8);
    assert_eq!(nic.next_event(), Some(ms(2) + Duration::from_micros(20)));
}

#[test]
fn a_ring_that_was_full_starts_again_where_it_says() {
    let config = NicConfig {
        tx_ring: 8,
        restart: 5,
        ..quick()
    };
    let (mut nic, mut pool) = (nic(config, None), pool(8));
    put(&mut nic, &mut pool, 60..67, ms(0));
    assert_eq!(nic.room(), 1);
    put(&mut nic, &mut pool, [67], ms(0));
    let mut rooms = Vec::new();
    for round in 1..=5 {
        let mut first = true;
        nic.grant(ms(round), 64, |_| std::mem::take(&mut first));
        nic.conclude(ms(round), |_| TxStatus::Acknowledged);
        departed(&mut nic, ms(round));
        reaped(&mut nic, &mut pool, ms(round));
        rooms.push(nic.room());
    }
    assert_eq!(rooms, [0, 0, 0, 0, 5], "stopped until five are free");
}

#[test]
fn a_ring_in_bytes_is_full_when_another_frame_may_not_fit() {
    // 500 KB hold 330 frames of 1514 bytes.
    let config = NicConfig {
        tx_ring: 10_000,
        ring_bytes: Bytes::new(500_000),
        ..quick()
    };
    let (mut nic, mut pool) = (nic(config, None), pool(400));
    assert_eq!(nic.room(), 330);
    put(&mut nic, &mut pool, std::iter::repeat_n(1514, 330), ms(0));
    assert_eq!((nic.room(), nic.ring_bytes()), (0, Bytes::new(330 * 1514)));
    let refused = NicConfig {
        ring_bytes: Bytes::new(1513),
        ..NicConfig::default()
    };
    assert!(SimNic::new(refused).is_err());
    assert!(
        SimNic::new(NicConfig {
            restart: 257,
            ..NicConfig::default()
        })
        .is_err()
    );
    assert!(
        SimNic::new(NicConfig {
            restart: 0,
            ..NicConfig::default()
        })
        .is_err()
    );
}

proptest! {
    /// For any failures and sizes of aggregates: every packet completes once, those that arrive do
    /// so in order, and the backlog is right.
    #[test]
    fn nothing_is_lost_or_overtaken(
        steps in prop::collection::vec((0u32..6, 0usize..8, 1usize..8, any::<u64>()), 1..60),
    ) {
        let (mut nic, mut pool) = (nic(NicConfig { tx_ring: 64, ..quick() }, None), pool(64));
        let (mut next, mut arrived, mut completed, mut given_up) = (60u32, 59, 0u32, 0u32);
        for (round, (more, most, window, fates)) in steps.into_iter().chain([(0, 64, 64, 0); 12]).enumerate() {
            let now = ms(round as u64);
            let more = more.min(nic.room() as u32);
            put(&mut nic, &mut pool, next..next + more, now);
            next += more;
            let before = nic.waiting();
            let mut left = most;
            let taken = nic.grant(now, window, |_| { left = left.saturating_sub(1); left > 0 });
            prop_assert_eq!(nic.waiting().packets, before.packets - taken);
            prop_assert!(nic.waiting().bytes <= before.bytes);
            let mut fates = fates;
            nic.conclude(now, |tries| {
                fates = fates.rotate_right(1);
                match (fates & 1, tries) {
                    (0, _) => TxStatus::Acknowledged,
                    (_, 1..=2) => TxStatus::Retry,
                    _ => { given_up += 1; TxStatus::Dropped }
                }
            });
            for len in departed(&mut nic, now) {
                prop_assert!(len > arrived);
                arrived = len;
            }
            completed += reaped(&mut nic, &mut pool, now).len() as u32;
        }
        prop_assert_eq!((nic.in_flight(), nic.waiting().packets, pool.outstanding()), (0, 0, 0));
        prop_assert_eq!(completed, next - 60);
        prop_assert_eq!(nic.stats().tx_frames, u64::from(completed - given_up));
    }
}
