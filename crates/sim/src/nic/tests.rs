//! Tests of the simulated NIC: serialization, moderation, conservation.

use std::time::Duration;

use proptest::prelude::*;
use tautline_base::{Bytes, Device, Frame, HeapFrame, Instant, Packet, Pool, Rate, Tso};

use super::{Coalesce, NicConfig, NicStats, SimNic};
use crate::{ConfigError, Schedule};

fn nic(coalesce: Coalesce) -> SimNic {
    // 1 Gbit/s without framing: 1250 bytes take exactly 10 µs.
    let config = NicConfig {
        framing: Bytes::ZERO,
        coalesce,
        ..NicConfig::default()
    };
    SimNic::new(config).expect("valid")
}

fn pool(frames: usize) -> Pool<HeapFrame> {
    Pool::new((0..frames).map(|_| HeapFrame::new()).collect())
}

fn put(nic: &mut SimNic, pool: &mut Pool<HeapFrame>, count: usize, now: Instant) {
    for _ in 0..count {
        nic.put(Packet::new(pool.take().expect("enough frames"), 1250), now);
    }
    nic.doorbell(now);
}

fn departures(nic: &mut SimNic, now: Instant) -> Vec<u64> {
    let mut times = Vec::new();
    nic.advance(now, |bytes, at| {
        assert_eq!(bytes.len(), 1250);
        times.push(at.as_micros());
    });
    times
}

fn reap(nic: &mut SimNic, pool: &mut Pool<HeapFrame>, now: Instant) -> usize {
    let mut done = Vec::new();
    nic.reap(now, &mut done);
    done.into_iter().map(|packet| pool.settle(packet)).count()
}

#[test]
fn packets_leave_at_line_rate_and_never_before_the_doorbell() {
    let (mut nic, mut pool) = (nic(Coalesce::OFF), pool(3));
    nic.put(Packet::new(pool.take().expect("free"), 1250), Instant::ZERO);
    assert_eq!(nic.next_event(), None, "no doorbell yet");
    put(&mut nic, &mut pool, 2, Instant::from_micros(5));
    assert_eq!(departures(&mut nic, Instant::from_micros(25)), [15, 25]);
    assert_eq!(nic.next_event(), Some(Instant::from_micros(35)));
    assert_eq!(reap(&mut nic, &mut pool, Instant::from_micros(25)), 2);
    assert_eq!(departures(&mut nic, Instant::from_micros(40)), [35]);
    assert_eq!(reap(&mut nic, &mut pool, Instant::from_micros(40)), 1);
    assert_eq!(
        (nic.outstanding(), pool.outstanding(), nic.ring_bytes()),
        (0, 0, Bytes::ZERO)
    );
}

/// Discarded frames keep neither the wire nor the opportunities of a trace after a reset.
#[test]
fn after_a_reset_the_wire_is_free() {
    let trace = "1\n2\n3\n4\n5\n".parse().expect("a trace");
    for schedule in [Schedule::Constant, Schedule::Trace(trace)] {
        let mut nic = SimNic::new(NicConfig {
            schedule,
            coalesce: Coalesce::OFF,
            rate: Rate::mbit(12),
            ..NicConfig::default()
        })
        .expect("valid");
        let mut pool = pool(200);
        put(&mut nic, &mut pool, 100, Instant::ZERO);
        let now = Instant::from_millis(10);
        departures(&mut nic, now);
        let mut lost = Vec::new();
        nic.reset(&mut lost);
        lost.into_iter()
            .for_each(|packet| drop(pool.settle(packet)));
        put(&mut nic, &mut pool, 1, now);
        let departs = nic.next_event().expect("it is being sent");
        assert!(departs <= now + Duration::from_millis(2), "{departs:?}");
    }
}

#[test]
fn completions_gather_until_enough_came_or_time_is_up() {
    let (mut nic, mut pool) = (
        nic(Coalesce {
            frames: 4,
            time: Duration::from_micros(25),
        }),
        pool(15),
    );
    put(&mut nic, &mut pool, 10, Instant::ZERO);
    // Departures every 10 µs. The first waits until 35 µs for its 25 µs; packets at 10, 20 and 30
    // µs come out together.
    departures(&mut nic, Instant::from_micros(34));
    assert_eq!(reap(&mut nic, &mut pool, Instant::from_micros(34)), 0);
    assert!(!nic.take_interrupt());
    assert_eq!(nic.next_event(), Some(Instant::from_micros(35)));
    departures(&mut nic, Instant::from_micros(35));
    assert!(nic.take_interrupt() && !nic.take_interrupt());
    assert_eq!(reap(&mut nic, &mut pool, Instant::from_micros(35)), 3);

    let mut eager = self::nic(Coalesce {
        frames: 4,
        time: Duration::from_secs(1),
    });
    put(&mut eager, &mut pool, 5, Instant::ZERO);
    departures(&mut eager, Instant::from_micros(39));
    assert_eq!(reap(&mut eager, &mut pool, Instant::from_micros(39)), 0);
    departures(&mut eager, Instant::from_micros(40));
    assert_eq!(
        reap(&mut eager, &mut pool, Instant::from_micros(40)),
        4,
        "the fourth completion interrupts"
    );
    assert_eq!(eager.next_event(), Some(Instant::from_micros(50)));
}

#[test]
fn a_full_receive_ring_drops_and_counts() {
    let mut nic = SimNic::new(NicConfig {
        rx_ring: 2,
        ..NicConfig::default()
    })
    .expect("valid");
    for byte in 0..3 {
        nic.arrive(&[byte; 60]);
    }
    nic.arrive(&[0; 1515]);
    assert_eq!(
        (
            nic.stats().rx_frames,
            nic.stats().rx_dropped,
            nic.outstanding()
        ),
        (2, 2, 2)
    );
    for byte in 0..2 {
        let received = nic.receive(Instant::ZERO).expect("two arrived");
        assert_eq!(received.bytes(), [byte; 60]);
        nic.recycle(received.frame);
    }
    assert!(nic.receive(Instant::ZERO).is_none());
    assert_eq!(nic.outstanding(), 0);
}

#[test]
fn bad_parameters_are_refused_by_name() {
    let base = NicConfig::default;
    let refused = [
        (
            "mtu",
            NicConfig {
                mtu: 2035,
                ..base()
            },
        ),
        ("mtu", NicConfig { mtu: 67, ..base() }),
        (
            "tx_ring",
            NicConfig {
                tx_ring: 0,
                ..base()
            },
        ),
        (
            "rx_ring",
            NicConfig {
                rx_ring: 0,
                ..base()
            },
        ),
        (
            "rate",
            NicConfig {
                rate: Rate::ZERO,
                ..base()
            },
        ),
        (
            "coalesce.frames",
            NicConfig {
                coalesce: Coalesce {
                    frames: 0,
                    time: Duration::ZERO,
                },
                ..base()
            },
        ),
    ];
    for (name, config) in refused {
        match SimNic::new(config) {
            Err(ConfigError::Range(error)) => assert_eq!(error.parameter, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put(usize),
    Advance(u64),
    Reap,
    Reset,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..8usize).prop_map(Op::Put),
        4 => (0..100u64).prop_map(Op::Advance),
        3 => Just(Op::Reap),
        1 => Just(Op::Reset),
    ]
}

proptest! {
    /// Each packet completes exactly once and in order, none faster than the line rate.
    #[test]
    fn every_packet_comes_back_once(ops in prop::collection::vec(op(), 1..200), frames in 1..6u32, micros in 0..50u64) {
        let coalesce = Coalesce { frames, time: Duration::from_micros(micros) };
        let config = NicConfig { tx_ring: 16, framing: Bytes::ZERO, coalesce, ..NicConfig::default() };
        let (mut nic, mut pool) = (SimNic::new(config).expect("valid"), pool(16));
        let (mut now, mut last) = (Instant::ZERO, Instant::ZERO);
        for op in ops {
            match op {
                Op::Put(count) => { let count = count.min(nic.room()); put(&mut nic, &mut pool, count, now) }
                Op::Advance(micros) => {
                    now += Duration::from_micros(micros);
                    nic.advance(now, |_, at| {
                        assert!(at <= now && at >= last + Duration::from_micros(10));
                        last = at;
                    });
                }
                Op::Reap => { reap(&mut nic, &mut pool, now); }
                Op::Reset => {
                    let mut lost = Vec::new();
                    nic.reset(&mut lost);
                    lost.into_iter().for_each(|packet| drop(pool.settle(packet)));
                    prop_assert_eq!((nic.in_flight(), pool.outstanding()), (0, 0));
                }
            }
            prop_assert_eq!(nic.in_flight(), pool.outstanding());
            prop_assert_eq!(nic.ring_bytes(), Bytes::new(1250) * nic.in_flight() as u64);
        }
        now += Duration::from_secs(1);
        nic.advance(now, |_, _| ());
        reap(&mut nic, &mut pool, now);
        prop_assert_eq!((nic.outstanding(), pool.outstanding()), (0, 0));
        prop_assert_eq!(nic.next_event(), None);
    }
}

/// Ethernet, IPv4 and TCP headers of 54 bytes, and 1196 of payload in each of `segments`: 1250
/// bytes on the wire.
fn whole(segments: u16) -> Packet<HeapFrame> {
    let len = 54 + 1196 * usize::from(segments);
    let mut frame = HeapFrame::with_len(len);
    let bytes = frame.bytes_mut();
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    (bytes[23], bytes[46]) = (6, 0x50);
    Packet::new(frame, len as u32).with_segments(segments)
}

#[test]
fn segments_leave_one_by_one_and_complete_together() {
    let config = NicConfig {
        framing: Bytes::ZERO,
        coalesce: Coalesce::OFF,
        tso: Some(Tso::MOST),
        ..NicConfig::default()
    };
    let mut nic = SimNic::new(config).expect("valid");
    nic.put(whole(3), Instant::ZERO);
    nic.put(whole(1), Instant::ZERO);
    assert_eq!(
        (nic.in_flight(), nic.ring_bytes()),
        (2, Bytes::new(4 * 1250))
    );
    nic.doorbell(Instant::ZERO);
    let mut done = Vec::new();
    for (micros, reaped) in [(10, 0), (20, 0), (30, 1), (40, 2)] {
        let now = Instant::from_micros(micros);
        assert_eq!(nic.next_event(), Some(now));
        assert_eq!(departures(&mut nic, now), [micros]);
        nic.reap(now, &mut done);
        assert_eq!(done.len(), reaped, "at {micros} µs");
    }
    let NicStats {
        tx_frames,
        tx_packets,
        tx_bytes,
        ..
    } = *nic.stats();
    assert_eq!((tx_frames, tx_packets, tx_bytes), (4, 2, 4 * 1250));
    assert_eq!((nic.outstanding(), nic.ring_bytes()), (0, Bytes::ZERO));
}
