//! A peer's stream of tiny pieces, contradictory overlaps, false ends, probes and urgent data.

use std::time::Duration;

use tautline_base::Bytes;
use tautline_stack::{AckCompression, Recv, TcpConfig};

use crate::peer::*;

fn connected() -> Peer {
    Peer::connected(TcpConfig::default(), [mss(1460), sack_permitted()].concat())
}

fn text(range: std::ops::Range<u32>) -> Vec<u8> {
    range.map(|i| (i % 251) as u8).collect()
}

/// CVE-2018-5390. Which bytes were kept is the receiver's choice; the stream is whole in the end,
/// and every answer is one.
#[test]
fn every_second_byte_costs_little_and_loses_nothing() {
    let mut peer = connected();
    const BYTES: u32 = 8_000;
    for offset in (1..BYTES).step_by(2) {
        assert_eq!(
            peer.send(&peer.data(offset, &text(offset..offset + 1)))
                .len(),
            1
        );
    }
    assert_eq!(peer.host_reads().0, []);
    for offset in (0..BYTES).step_by(1000) {
        peer.send(&peer.data(offset, &text(offset..offset + 1000)));
    }
    assert_eq!(peer.host_reads(), (text(0..BYTES), Recv::Empty));
}

/// Issue 16.12: Linux's profile joins the acknowledgments of a flood beyond a hole, but for those of
/// the start of the connection and the first three of the hole: 44 into one where each segment
/// extends what is reported, two into one where each begins a block of its own. The last of them
/// leaves when 5 % of a round trip and the slack are over, and reports the flood's end.
#[test]
fn acknowledgments_of_a_flood_are_compressed() {
    const SEGMENTS: u32 = 400;
    // 16 at the start, three of the hole.
    const SINGLE: usize = 16 + 3;
    let acknowledgments = |ack_compression, apart: u32| {
        let config = TcpConfig {
            ack_compression,
            ..TcpConfig::default()
        };
        let mut peer = Peer::connected(config, [mss(1460), sack_permitted()].concat());
        let mut count = 0;
        for offset in (1..=SEGMENTS).map(|segment| apart * segment) {
            let segment = peer.data(1 + offset, &text(offset..offset + 1));
            peer.pair.inject(HOST, &segment.to_frame());
            count += peer.run_for(Duration::ZERO).len();
        }
        let last = peer.run_for(Duration::from_micros(1_100));
        let end = peer.at(apart * SEGMENTS + 2).to_be_bytes();
        for segment in &last {
            // Kind and length are cut off; the first block ends after eight bytes.
            let blocks = segment.option(5).expect("SACK blocks");
            assert_eq!(blocks[4..8], end);
        }
        (count, last.len())
    };
    let compression = Some(AckCompression::LINUX);
    for (apart, most) in [(1, 45), (2, 2)] {
        assert_eq!(acknowledgments(None, apart), (SEGMENTS as usize, 0));
        let (at_once, late) = acknowledgments(compression, apart);
        let few = (SEGMENTS as usize - SINGLE) / most;
        assert!((few..=few + SINGLE).contains(&at_once), "{at_once}");
        assert!(late <= 1);
    }
}

/// All orders of five overlapping segments with different content: the first copy of a byte is the
/// one that is read.
#[test]
fn of_contradictory_copies_the_first_wins() {
    let pieces: [(usize, usize, u8); 5] = [
        (0, 4, b'a'),
        (2, 4, b'b'),
        (4, 5, b'c'),
        (1, 7, b'd'),
        (8, 4, b'e'),
    ];
    for order in permutations(5) {
        let mut peer = connected();
        let mut expected = [None; 12];
        for (start, len, content) in order.iter().map(|piece| pieces[*piece]) {
            peer.send(&peer.data(start as u32, &vec![content; len]));
            for byte in &mut expected[start..start + len] {
                byte.get_or_insert(content);
            }
        }
        let expected: Vec<u8> = expected
            .into_iter()
            .map(|byte| byte.expect("the pieces cover all"))
            .collect();
        assert_eq!(peer.host_reads().0, expected, "{order:?}");
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let with = |place| {
        shorter
            .iter()
            .map(move |p| [&p[..place], &[count - 1], &p[place..]].concat())
    };
    (0..count).flat_map(with).collect()
}

/// The peer's segments, in order: offset, payload, FIN.
type Script<'a> = &'a [(u32, &'a [u8], bool)];

/// The application reads `hello` and then the end, whatever else the peer sends.
#[test]
fn nothing_is_read_past_the_end() {
    let scripts: [(&str, Script<'_>); 9] = [
        ("in one segment", &[(0, b"hello", true)]),
        ("by itself", &[(0, b"hello", false), (5, b"", true)]),
        ("before the data", &[(5, b"", true), (0, b"hello", false)]),
        (
            "with out-of-order data",
            &[(2, b"llo", true), (0, b"he", false)],
        ),
        (
            "then data after it",
            &[
                (0, b"hello", true),
                (5, b"more", false),
                (6, b"more", false),
            ],
        ),
        (
            "data after it, first",
            &[(2, b"llo", true), (5, b"more", false), (0, b"he", false)],
        ),
        (
            "twice",
            &[(0, b"hello", true), (0, b"hello", true), (5, b"", true)],
        ),
        ("again and later", &[(0, b"hello", true), (5, b"mo", true)]),
        (
            "again and earlier",
            &[(0, b"hello", true), (0, b"hel", true), (4, b"", true)],
        ),
    ];
    for (what, script) in scripts {
        let mut peer = connected();
        for (offset, payload, fin) in script {
            let flags = if *fin { FIN | ACK } else { ACK };
            let segment = Segment {
                flags,
                ..peer.data(*offset, payload)
            };
            assert!(peer.send(&segment).len() <= 1, "{what}");
        }
        assert_eq!(
            peer.host_reads(),
            (b"hello".to_vec(), Recv::EndOfStream),
            "{what}"
        );
        assert_eq!(peer.state(), Some("CLOSE-WAIT"), "{what}");
    }
}

/// A FIN for a place that has been passed, or that the window does not reach, ends nothing.
#[test]
fn an_end_in_the_past_or_beyond_the_window_is_none() {
    let config = TcpConfig {
        receive_buffer: Bytes::new(3_000),
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1460));
    peer.send(&peer.data(0, b"0123456789"));
    assert_eq!(peer.host_reads().0, b"0123456789");
    for (offset, payload) in [
        (9, &b""[..]),
        (8, b"8"),
        (0, b"01234"),
        (3_011, b""),
        (3_005, b"0123456789"),
    ] {
        let segment = Segment {
            flags: FIN | ACK,
            ..peer.data(offset, payload)
        };
        peer.send(&segment);
        assert_eq!(peer.state(), Some("ESTABLISHED"), "a FIN at {offset}");
        assert_eq!(
            peer.host_reads(),
            (Vec::new(), Recv::Empty),
            "a FIN at {offset}"
        );
    }
    peer.still_works_at(10);
}

/// The window is a multiple of 2^scale, the buffer is not: the edge moves left by the rounding at
/// most (rounding up each time would let it creep to the right forever), what was promised is
/// accepted all the same, and what is kept is what fits the buffer.
#[test]
fn the_edge_moves_left_by_rounding_only_and_the_buffer_holds_what_fits() {
    for buffer in [70_001, 100_003, 262_143, 1_000_001] {
        let config = TcpConfig {
            receive_buffer: Bytes::new(buffer),
            receive_start: Bytes::new(buffer),
            ..TcpConfig::default()
        };
        let mut peer = Peer::connected(config, [mss(1460), scale(0)].concat());
        let shift = (0..15)
            .find(|shift| buffer >> shift <= 65_535)
            .expect("a small buffer");
        let mut edge = 0;
        for offset in (0..buffer as u32 + 20_000).step_by(1460) {
            for answer in &peer.send(&peer.data(offset, &text(offset..offset + 1460))) {
                let right =
                    answer.ack.wrapping_sub(peer.at(0)) + (u32::from(answer.window) << shift);
                assert!(
                    right + (1 << shift) > edge,
                    "buffer {buffer}: the edge moved from {edge} to {right}"
                );
                edge = edge.max(right);
            }
        }
        let kept = peer.host_reads().0;
        assert!(kept == text(0..kept.len() as u32), "buffer {buffer}");
        assert!(
            (kept.len() as u64).abs_diff(buffer) <= 1 << shift,
            "buffer {buffer}: {} bytes are kept",
            kept.len()
        );
    }
}

/// A window is advertised in units of 2^scale: the rounding must not let a peer in byte by byte.
#[test]
fn single_bytes_cannot_push_the_window_open() {
    let buffer = 70_001;
    let config = TcpConfig {
        receive_buffer: Bytes::new(buffer),
        receive_start: Bytes::new(buffer),
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, [mss(1460), scale(0)].concat());
    let mut next = 0;
    while next < 69_990 {
        let len = 1000.min(69_990 - next);
        peer.send(&peer.data(next, &text(next..next + len)));
        next += len;
    }
    for offset in next..next + 500 {
        peer.send(&peer.data(offset, &text(offset..offset + 1)));
        // Every byte is acknowledged, and the window advertised anew.
        peer.run_for(Duration::from_millis(50));
    }
    let kept = peer.host_reads().0.len() as u64;
    assert!(
        kept.abs_diff(buffer) <= 2,
        "{kept} bytes in a buffer of {buffer}"
    );
}

#[test]
fn a_probe_below_the_window_is_answered() {
    let config = TcpConfig {
        receive_buffer: Bytes::new(1_000),
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1460));
    peer.send(&peer.data(0, &text(0..1000)));
    peer.run_for(Duration::from_secs(1));
    // Without data one below what is acknowledged, as Linux probes; with one byte, as others do.
    for probe in [
        Segment {
            seq: peer.at(999),
            ..peer.ack()
        },
        peer.data(1000, b"x"),
    ] {
        let answers = peer.send(&probe);
        let [answer] = &answers[..] else {
            panic!("one answer, not {answers:?}")
        };
        assert_eq!((answer.ack, answer.window), (peer.at(1000), 0));
        peer.run_for(Duration::from_secs(1));
    }
    assert_eq!(peer.host_reads().0, text(0..1000));
}

#[test]
fn urgent_data_is_ordinary_data() {
    for urgent in [0, 1, 3, 5, 6, 1000, u16::MAX] {
        let mut peer = connected();
        let segment = Segment {
            flags: ACK | URG,
            urgent,
            ..peer.data(0, b"hello")
        };
        peer.send(&segment);
        assert_eq!(peer.host_reads().0, b"hello", "pointer {urgent}");
    }
}
