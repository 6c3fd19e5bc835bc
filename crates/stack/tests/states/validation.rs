//! Checks of a segment in a synchronized state, in order (RFC 9293 §3.10.7.4, RFC 7323 §5.3).

use std::time::Duration;

use tautline_stack::{CloseReason, Recv, TcpConfig};

use crate::peer::*;

/// Longer than the host waits between two challenges.
const PAUSE: Duration = Duration::from_millis(600);

fn with_timestamps() -> Peer {
    let config = TcpConfig {
        nagle: false,
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(
        config,
        [mss(1000), sack_permitted(), timestamp(1, 0)].concat(),
    );
    let first = Segment {
        options: timestamp(1_000_000, 0),
        ..peer.data(0, b"0123456789")
    };
    peer.send(&first);
    assert_eq!(peer.host_reads().0, b"0123456789");
    peer.run_for(PAUSE);
    peer
}

/// A segment at offset 10 with this timestamp.
fn stamped(peer: &Peer, value: u32, segment: Segment) -> Segment {
    Segment {
        options: timestamp(value, 0),
        seq: peer.at(10),
        ..segment
    }
}

#[test]
fn paws_tolerates_one_tick_and_no_more() {
    for (value, taken) in [
        (1_000_000, true),
        (999_999, true),
        (999_998, false),
        (1_000_005 + (1 << 31), false),
    ] {
        let mut peer = with_timestamps();
        let answers = peer.send(&stamped(&peer, value, peer.data(10, b"x")));
        assert_eq!(peer.host_reads().0.len(), usize::from(taken), "{value}");
        assert_eq!(answers.len(), 1, "{value}: old or new, data is answered");
        // What is echoed never goes back.
        let echo = answers[0]
            .option(8)
            .map(|v| u32::from_be_bytes([v[4], v[5], v[6], v[7]]));
        assert_eq!(echo, Some(1_000_000), "{value}");
    }
}

/// The peer's clock may have wrapped: what was taken 2147 s ago protects no more (Linux; RFC 7323
/// §5.5 says 24 days).
#[test]
fn paws_forgets_what_is_stale() {
    for (age, taken) in [(2_100, false), (2_200, true)] {
        let mut peer = with_timestamps();
        peer.run_for(Duration::from_secs(age));
        peer.send(&stamped(&peer, 5, peer.data(10, b"x")));
        assert_eq!(peer.host_reads().0.len(), usize::from(taken), "{age} s");
    }
}

#[test]
fn an_overtaken_bare_acknowledgment_is_not_answered() {
    // A duplicate that says nothing new passes; one with another window, or far too old, is
    // challenged.
    for (late, window, answered) in [(100, WINDOW, 0), (100, WINDOW - 1, 1), (100_000, WINDOW, 1)] {
        let mut peer = with_timestamps();
        let answers = peer.send(&Segment {
            window,
            ..stamped(&peer, 1_000_000 - late, peer.ack())
        });
        assert_eq!(answers.len(), answered, "{late} ms late, window {window}");
    }
}

#[test]
fn resets_are_exempt_from_paws_and_syns_are_challenged() {
    let mut peer = with_timestamps();
    let answers = peer.send(&stamped(
        &peer,
        7,
        Segment {
            flags: SYN,
            ..peer.ack()
        },
    ));
    assert_eq!((answers.len(), peer.state()), (1, Some("ESTABLISHED")));
    peer.send(&stamped(
        &peer,
        7,
        Segment {
            flags: RST,
            ..peer.ack()
        },
    ));
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));
}

/// RFC 9293 table 6, with the leniency at the left edge that `fits_window` documents: length,
/// window, offset, and whether the segment is acceptable. Of an acceptable one the application sees
/// the part in the window.
#[test]
fn the_table_of_acceptability() {
    let table: [(usize, u64, u32, usize); 11] = [
        (0, 1_000, 0, 0),
        (0, 1_000, 999, 0),
        (5, 1_000, 0, 5),
        (5, 1_000, 0u32.wrapping_sub(3), 2),
        (5, 1_000, 0u32.wrapping_sub(5), 0),
        (5, 1_000, 0u32.wrapping_sub(6), 0),
        (2_000, 1_000, 0, 1_000),
        (2_000, 1_000, 0u32.wrapping_sub(1_000), 1_000),
        (5, 1_000, 1_000, 0),
        (5, 1_000, 1_001, 0),
        (5, 1_000, 1 << 31, 0),
    ];
    for (len, window, offset, taken) in table {
        let config = TcpConfig {
            receive_buffer: tautline_base::Bytes::new(window),
            ..TcpConfig::default()
        };
        let mut peer = Peer::connected(config, mss(1460));
        peer.send(&peer.data(0, &vec![6; window as usize]));
        peer.host_reads();
        peer.run_for(PAUSE);
        // Offsets below the next byte are what came before.
        peer.send(&peer.data(offset.wrapping_add(window as u32), &vec![7; len]));
        assert_eq!(
            peer.host_reads().0.len(),
            taken,
            "length {len}, window {window}, offset {}",
            offset as i32
        );
        assert_eq!(peer.state(), Some("ESTABLISHED"));
    }
}

#[test]
fn data_into_a_closed_window_is_answered_and_a_bare_fin_taken() {
    let config = TcpConfig {
        receive_buffer: tautline_base::Bytes::new(1_000),
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1460));
    peer.send(&peer.data(0, &[1; 1_000]));
    let answers = peer.send(&peer.data(1_000, b"more"));
    assert_eq!(
        answers
            .iter()
            .map(|answer| (answer.ack, answer.window))
            .collect::<Vec<_>>(),
        [(peer.at(1_000), 0)]
    );
    let answers = peer.send(&Segment {
        flags: FIN | ACK,
        ..peer.data(1_000, b"")
    });
    assert_eq!(
        answers.last().map(|answer| answer.ack),
        Some(peer.at(1_001))
    );
    assert_eq!(
        (peer.state(), peer.host_reads().0.len()),
        (Some("CLOSE-WAIT"), 1_000)
    );
}

/// The number that resets besides the next one: the end of the highest SACK block we sent. Just
/// before the end of the peer's FIN is outside the window (RFC 5961 §3.2).
#[test]
fn where_else_a_reset_counts() {
    let mut peer = Peer::connected(TcpConfig::default(), [mss(1000), sack_permitted()].concat());
    peer.send(&peer.data(100, &[1; 50]));
    peer.send(&peer.data(300, &[1; 50]));
    peer.send(&Segment {
        flags: RST,
        seq: peer.at(150),
        ..peer.ack()
    });
    assert_eq!(
        peer.state(),
        Some("ESTABLISHED"),
        "the end of a lower block"
    );
    peer.send(&Segment {
        flags: RST,
        seq: peer.at(350),
        ..peer.ack()
    });
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));

    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    peer.send(&Segment {
        flags: RST,
        seq: peer.at(u32::MAX),
        ..peer.ack()
    });
    assert_eq!(
        peer.state(),
        Some("ESTABLISHED"),
        "before the FIN there is no such number"
    );
    peer.send(&Segment {
        flags: FIN | ACK,
        ..peer.ack()
    });
    peer.send(&Segment {
        flags: RST,
        seq: peer.at(0),
        ..peer.ack()
    });
    assert_eq!(peer.state(), Some("CLOSE-WAIT"), "nor after it");
}

/// RFC 5961 §5.2: not older than the largest window, and never older than what was acknowledged at
/// all.
#[test]
fn acknowledgments_are_believed_within_a_window_below() {
    let config = TcpConfig {
        nagle: false,
        pacing: tautline_stack::Pacing::Off,
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1000));
    peer.host_writes(5_000);
    peer.send(&peer.acknowledges(5_000));
    peer.run_for(PAUSE);
    let mut offset = 0;
    for (ack, taken) in [
        (0, true),
        (4_999, true),
        (u32::MAX, false),
        (0u32.wrapping_sub(40_000), false),
        (5_001, false),
    ] {
        let segment = Segment {
            ack: peer.host_at(ack),
            ..peer.data(offset, b"x")
        };
        peer.send(&segment);
        assert_eq!(
            peer.host_reads(),
            (vec![b'x'; usize::from(taken)], Recv::Empty),
            "ack {ack}"
        );
        offset += u32::from(taken);
        peer.run_for(PAUSE);
    }
}

#[test]
fn a_segment_without_ack_reset_or_syn_is_dropped() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    for flags in [0, PSH, FIN, URG] {
        assert_eq!(
            peer.send(&Segment {
                flags,
                ..peer.data(0, b"x")
            }),
            []
        );
        assert_eq!(peer.host_reads(), (Vec::new(), Recv::Empty));
    }
    peer.still_works_at(0);
}

/// However few acknowledgments one arrival may cause: reads come without any.
#[test]
fn every_read_that_doubles_the_window_is_told() {
    let config = TcpConfig {
        receive_buffer: tautline_base::Bytes::new(8_000),
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, mss(1000));
    for segment in 0..8 {
        peer.send(&peer.data(segment * 1000, &[1; 1000]));
    }
    for (read, window) in [(2_000, 2_000), (2_000, 4_000), (4_000, 8_000)] {
        let mut buffer = vec![0; read];
        let host = &mut peer.pair.hosts[HOST];
        assert_eq!(host.recv(peer.socket, &mut buffer), Ok(Recv::Data(read)));
        let answers = peer.run_for(Duration::from_millis(1));
        let windows: Vec<_> = answers.iter().map(|answer| answer.window).collect();
        assert_eq!(windows, [window]);
    }
}
