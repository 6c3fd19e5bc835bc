//! A peer that lies about what it has received, or plays with its window.

use std::time::Duration;

use tautline_base::Bytes;
use tautline_stack::{CloseReason, TcpConfig};

use crate::peer::*;

const MSS: u32 = 1000;

fn connected(options: Vec<u8>) -> Peer {
    let config = TcpConfig {
        pacing: tautline_stack::Pacing::Off,
        nagle: false,
        ..TcpConfig::default()
    };
    Peer::connected(config, [mss(MSS as u16), options].concat())
}

/// Offsets of the host's stream that carry payload in `segments`.
fn offsets(peer: &Peer, segments: &[Segment]) -> Vec<u32> {
    let carries = segments
        .iter()
        .filter(|segment| !segment.payload.is_empty());
    carries
        .map(|segment| segment.seq.wrapping_sub(peer.host_at(0)))
        .collect()
}

#[test]
fn sack_blocks_that_cannot_be_are_ignored() {
    for by in 0..4 {
        let mut peer = connected(sack_permitted());
        peer.host_writes(10_000);
        peer.send(&peer.acknowledges(MSS));
        let at = |offset: u32| peer.host_at(offset);
        let lies = match by {
            0 => vec![(at(0), at(MSS))],
            1 => vec![
                (at(20_000), at(21_000)),
                (at(1 << 30), at((1 << 30) + 1000)),
            ],
            2 => vec![(at(5_000), at(3_000)), (at(3_000), at(3_000))],
            _ => vec![
                (at(0u32.wrapping_sub(1 << 30)), at(9_000)),
                (at(2_000), at(1 << 31)),
            ],
        };
        let before = peer.info();
        let mut sent = Vec::new();
        for _ in 0..10 {
            let segment = Segment {
                options: sack(&lies),
                ..peer.acknowledges(MSS)
            };
            sent.extend(peer.send(&segment));
        }
        let after = peer.info();
        assert_eq!(
            offsets(&peer, &sent),
            [],
            "lie {by}: nothing is sent again, nothing more is let out"
        );
        assert_eq!(
            (after.in_flight, after.recovering),
            (before.in_flight, false),
            "lie {by}"
        );
        let rest = peer.send(&peer.acknowledges(10_000));
        assert!(rest.is_empty() && peer.info().in_flight == Bytes::ZERO);
    }
}

#[test]
fn overlapping_and_too_many_blocks_count_each_byte_once() {
    let mut peer = connected(sack_permitted());
    peer.host_writes(10_000);
    let at = |offset: u32| peer.host_at(offset);
    let blocks = [
        (at(8_000), at(9_000)),
        (at(7_000), at(9_000)),
        (at(8_000), at(10_000)),
        (at(7_500), at(8_500)),
    ];
    for _ in 0..5 {
        let segment = Segment {
            options: sack(&blocks),
            ..peer.acknowledges(0)
        };
        peer.send(&segment);
    }
    peer.send(&peer.acknowledges(10_000));
    let info = peer.info();
    assert_eq!((info.in_flight, info.bytes_acked), (Bytes::ZERO, 10_001));
}

/// A peer may throw away what it reported out of order (RFC 2018 §8): after a timeout all of it is
/// sent again.
#[test]
fn what_was_reported_and_thrown_away_is_sent_again() {
    let mut peer = connected(sack_permitted());
    let first = peer.host_writes(5_000);
    assert_eq!(offsets(&peer, &first), [0, 1000, 2000, 3000, 4000]);
    let block = (peer.host_at(0), peer.host_at(5_000));
    peer.send(&Segment {
        options: sack(&[(block.0.wrapping_add(1000), block.1)]),
        ..peer.acknowledges(0)
    });
    let mut acknowledged = 0;
    for _ in 0..200 {
        // From now on the peer takes segments in order only, and has none of those.
        for segment in peer.run_for(Duration::from_millis(100)) {
            if segment.seq == peer.host_at(acknowledged) {
                acknowledged += segment.payload.len() as u32;
            }
            peer.pair
                .inject(HOST, &peer.acknowledges(acknowledged).to_frame());
        }
    }
    assert_eq!(acknowledged, 5_000);
}

/// Savage 1999: an acknowledgment per byte must not open the window faster than one per segment.
#[test]
fn the_window_grows_by_bytes_and_not_by_acknowledgments() {
    let window_after = |steps: u32| {
        let mut peer = connected(Vec::new());
        peer.host_writes(200_000);
        for step in 1..=steps {
            peer.send(&peer.acknowledges(10 * MSS * step / steps));
        }
        peer.info().cwnd
    };
    let (honest, divided) = (window_after(10), window_after(2_000));
    assert!(
        divided <= honest,
        "{divided} for 2000 acknowledgments, {honest} for 10"
    );
}

#[test]
fn acknowledging_ahead_of_the_data_gains_nothing() {
    let mut peer = connected(Vec::new());
    peer.host_writes(200_000);
    let before = peer.info();
    for ahead in [1, MSS, 100_000, 1 << 30] {
        let sent = peer.send(&peer.acknowledges(before.in_flight.get() as u32 + ahead));
        assert_eq!(offsets(&peer, &sent), [], "{ahead} ahead");
        peer.run_for(Duration::from_millis(1));
    }
    let after = peer.info();
    assert_eq!(
        (after.bytes_acked, after.cwnd),
        (before.bytes_acked, before.cwnd)
    );
}

/// With SACK they say nothing. Without it each stands for a segment that arrived (RFC 3042, RFC
/// 5681 §3.2), but not for more than were outstanding.
#[test]
fn duplicate_acknowledgments_let_out_no_flood() {
    for (options, most) in [(Vec::new(), 10), (sack_permitted(), 2)] {
        let mut peer = connected(options);
        peer.host_writes(200_000);
        let before = peer.info().in_flight;
        let sent: Vec<_> = (0..200).flat_map(|_| peer.send(&peer.ack())).collect();
        let bytes: usize = sent.iter().map(|segment| segment.payload.len()).sum();
        assert!(
            bytes <= most * MSS as usize,
            "{bytes} bytes for 200 duplicates"
        );
        // A probe of the tail may be one more than the window allows.
        assert!(peer.info().in_flight <= before + Bytes::new(u64::from(MSS)));
    }
}

#[test]
fn a_window_that_shrinks_below_the_flight_does_no_harm() {
    let mut peer = connected(sack_permitted());
    let first = peer.host_writes(20_000);
    assert_eq!(first.len(), 10);
    for window in [5_000, 500, 1, 0] {
        let sent = peer.send(&Segment {
            window,
            ..peer.acknowledges(MSS)
        });
        assert_eq!(offsets(&peer, &sent), [], "window {window}");
    }
    // What is in flight is still acknowledged, and the rest follows when the window opens.
    peer.send(&Segment {
        window: 0,
        ..peer.acknowledges(10_000)
    });
    let sent = peer.send(&Segment {
        window: 20_000,
        ..peer.acknowledges(10_000)
    });
    assert_eq!(offsets(&peer, &sent).first(), Some(&10_000));
}

/// RFC 5681 §2: an acknowledgment that changes the window is no duplicate; a peer that reads
/// slowly sends many.
#[test]
fn window_updates_are_no_duplicates() {
    let mut peer = connected(Vec::new());
    peer.host_writes(10_000);
    for window in [20_000, 21_000, 22_000, 23_000, 24_000] {
        let sent = peer.send(&Segment {
            window,
            ..peer.acknowledges(MSS)
        });
        assert_eq!(offsets(&peer, &sent), [], "window {window}");
    }
    assert!(!peer.info().recovering);
}

#[test]
fn a_window_of_nothing_is_probed_for_ever_more_rarely() {
    let mut peer = connected(Vec::new());
    peer.send(&Segment {
        window: 0,
        ..peer.ack()
    });
    assert_eq!(peer.host_writes(5_000), []);
    let mut intervals = Vec::new();
    let mut silent = 0u64;
    for _ in 0..6_000 {
        let sent = peer.run_for(Duration::from_millis(100));
        silent += 1;
        if !sent.is_empty() {
            assert!(sent.len() == 1 && sent[0].payload.is_empty(), "{sent:?}");
            intervals.push(std::mem::take(&mut silent));
            peer.pair.inject(
                HOST,
                &Segment {
                    window: 0,
                    ..peer.ack()
                }
                .to_frame(),
            );
        }
    }
    assert!(
        (6..=15).contains(&intervals.len()),
        "{intervals:?} tenths of a second between probes in 10 minutes"
    );
    assert!(
        intervals.windows(2).all(|pair| pair[0] <= pair[1] + 1),
        "{intervals:?}"
    );
    let sent = peer.send(&Segment {
        window: 10_000,
        ..peer.ack()
    });
    assert_eq!(offsets(&peer, &sent), [0, 1000, 2000, 3000, 4000]);
}

/// RFC 9293 §3.8.6.2.1: a sender does not fill a window that opens by crumbs with crumbs.
#[test]
fn a_window_of_crumbs_is_not_answered_with_crumbs() {
    let mut peer = connected(Vec::new());
    let first = peer.host_writes(50_000);
    let flight = 1000 * first.len() as u32;
    let mut sizes = Vec::new();
    for crumb in 1..=200 {
        // The first part of the flight is acknowledged; the window's right edge creeps on by one
        // byte.
        let segment = Segment {
            window: (flight - MSS + crumb) as u16,
            ..peer.acknowledges(MSS)
        };
        sizes.extend(
            peer.send(&segment)
                .iter()
                .map(|segment| segment.payload.len()),
        );
    }
    assert!(sizes.iter().all(|size| *size >= 500), "{sizes:?}");
}

/// As long as the peer answers the probes the connection lives; when it has fallen silent it ends
/// within the retry limit.
#[test]
fn probes_to_a_peer_that_fell_silent_end() {
    for released in [false, true] {
        let config = TcpConfig {
            retries: 4,
            nagle: false,
            ..TcpConfig::default()
        };
        let mut peer = Peer::connected(config, mss(MSS as u16));
        peer.send(&Segment {
            window: 0,
            ..peer.ack()
        });
        peer.host_writes(5_000);
        if released {
            peer.pair.hosts[HOST].close(peer.socket, peer.pair.now);
        }
        let probes = peer.run_for(Duration::from_secs(300)).len();
        assert!((3..=8).contains(&probes), "{probes} probes");
        if released {
            assert_eq!(peer.pair.hosts[HOST].socket_count(), 1, "only the listener");
        } else {
            assert_eq!(peer.pair.closed(HOST), Some(CloseReason::TimedOut));
        }
        assert_eq!(peer.pair.hosts[HOST].outstanding(), 0);
    }
}

/// A peer's echoes prove nothing: segments sent once are timed by our clock, so no lie moves the
/// timeout.
#[test]
fn an_echo_that_lies_does_not_move_the_timeout() {
    let timeout_after = |echo: &dyn Fn(u32) -> u32| {
        let mut peer = connected([sack_permitted(), timestamp(1, 0)].concat());
        let sent = peer.host_writes(3_000);
        let value = sent[0]
            .option(8)
            .map(|v| u32::from_be_bytes([v[0], v[1], v[2], v[3]]))
            .expect("timestamps");
        peer.run_for(Duration::from_millis(20));
        peer.send(&Segment {
            options: timestamp(2, echo(value)),
            ..peer.acknowledges(3_000)
        });
        peer.info().rto
    };
    let honest = timeout_after(&|value| value);
    assert!(
        (Duration::from_millis(200)..Duration::from_millis(400)).contains(&honest),
        "{honest:?}"
    );
    for by in [
        1,
        1_000,
        1 << 20,
        1 << 31,
        0u32.wrapping_sub(1),
        0u32.wrapping_sub(100_000),
    ] {
        assert_eq!(
            timeout_after(&|value: u32| value.wrapping_add(by)),
            honest,
            "echo off by {}",
            by as i32
        );
    }
    assert_eq!(timeout_after(&|_| 0), honest);
}

/// RFC 9293 §3.8.6.1: the probe overrides a window too small for a segment, however often the peer
/// repeats it.
#[test]
fn a_window_of_one_byte_does_not_put_off_the_probe() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    let offers = |peer: &Peer, window| Segment {
        window,
        ..peer.ack()
    };
    peer.send(&offers(&peer, 0));
    peer.pair.hosts[HOST]
        .send(peer.socket, &[7; 3000])
        .expect("open");
    let is_probed = (0..60).any(|_| {
        let sent = peer.send(&offers(&peer, 1));
        !sent.is_empty() || !peer.run_for(Duration::from_millis(50)).is_empty()
    });
    assert!(is_probed);
}
