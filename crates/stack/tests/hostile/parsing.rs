//! Frames that contradict themselves are counted and dropped; odd options neither stop the host nor
//! corrupt what is said.

use std::net::Ipv4Addr;

use tautline_base::Bytes;
use tautline_stack::{CloseReason, Recv, TcpConfig};

use crate::pair::address;
use crate::peer::*;

/// Frames dropped so far: malformed, wrong checksum, not for us.
fn dropped(peer: &Peer) -> (u64, u64, u64) {
    let stats = peer.pair.hosts[HOST].stats();
    (stats.malformed, stats.bad_checksum, stats.not_for_us)
}

#[test]
fn headers_that_lie_are_malformed() {
    // Where, what, and what it pretends. The checksums are right.
    let lies: [(usize, u8, &str); 9] = [
        (14, 0x65, "IP version 6 under the EtherType of version 4"),
        (14, 0x44, "an IP header of 16 bytes"),
        (14, 0x4f, "an IP header of 60 bytes in a packet of 45"),
        (16, 0x40, "a total length far beyond the frame"),
        (17, 19, "a total length below the header"),
        (17, 39, "a total length that cuts the TCP header"),
        (46, 0x40, "a TCP header of 16 bytes"),
        (46, 0x00, "a TCP header of no bytes"),
        (46, 0xf0, "a TCP header of 60 bytes in a segment of 25"),
    ];
    for (at, value, what) in lies {
        let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
        let mut frame = peer.data(0, b"hello").to_frame();
        frame[at] = value;
        seal(&mut frame);
        let before = dropped(&peer);
        assert_eq!(peer.send_frame(&frame), [], "{what}");
        let after = dropped(&peer);
        assert_eq!(
            after.0 + after.1,
            before.0 + before.1 + 1,
            "{what}: {after:?}"
        );
        peer.still_works_at(0);
    }
}

/// Every value of every byte of the headers, with checksums that are right and without.
#[test]
fn a_frame_is_refused_for_one_reason_or_accepted() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    let frame = peer.data(0, b"hello").to_frame();
    let (mut refused, mut count) = (0, 0);
    for at in 0..54 {
        for value in 0..=u8::MAX {
            for sealed in [false, true] {
                let mut frame = frame.clone();
                frame[at] = value;
                if sealed {
                    seal(&mut frame);
                }
                let before = peer.pair.hosts[HOST].stats();
                peer.send_frame(&frame);
                let after = peer.pair.hosts[HOST].stats();
                let more = after.refused() - before.refused();
                assert!(more <= 1, "byte {at} is {value}: {before:?}, {after:?}");
                assert_eq!(after.refused() + after.accepted(), after.frames_in);
                (refused, count) = (refused + more, count + 1);
            }
        }
    }
    assert!(refused > count / 2, "{refused} of {count}");
}

#[test]
fn a_frame_cut_anywhere_is_dropped() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    let frame = peer.data(0, b"hello").to_frame();
    for len in 0..frame.len() {
        assert_eq!(peer.send_frame(&frame[..len]), [], "{len} bytes");
    }
    assert_eq!(dropped(&peer).0, frame.len() as u64, "all of them counted");
    peer.still_works_at(0);
}

#[test]
fn bytes_after_the_packet_are_padding() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    let frame = [peer.data(0, b"hello").to_frame(), vec![0xff; 30]].concat();
    peer.send_frame(&frame);
    assert_eq!(peer.host_reads().0, b"hello");
}

#[test]
fn odd_options_never_stop_the_host() {
    let odd: [&[u8]; 9] = [
        &[5, 0, 0, 0],
        &[8, 0],
        &[254, 0],
        &[254, 1, 1, 1],
        &[8, 40, 0, 0],
        &[254, 255],
        &[5, 3, 0, 0],
        &[2],
        &[1, 1, 1, 254],
    ];
    for options in odd {
        let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
        let segment = Segment {
            options: options.to_vec(),
            ..peer.data(0, b"odd")
        };
        assert!(peer.send(&segment).len() <= 1, "{options:?}");
        // Kept or dropped, but whole.
        let (read, _) = peer.host_reads();
        assert!(read.is_empty() || read == b"odd", "{options:?}: {read:?}");
        peer.still_works_at(read.len() as u32);
    }
}

/// RFC 9293 §3.2: an option of an impossible length is no reason to lose the segment, which its peer
/// would send again with the same one.
#[test]
fn an_option_of_a_wrong_length_costs_nothing_but_itself() {
    let wrong: [&[u8]; 8] = [
        &[5, 2],
        &[5, 3, 9],
        &[5, 11, 0, 0, 0, 1, 0, 0, 0, 2, 9],
        &[2, 3, 9],
        &[3, 4, 9, 9],
        &[4, 3, 9],
        &[8, 9, 0, 0, 0, 1, 0, 0, 0],
        &[1, 1, 1, 254],
    ];
    for options in wrong {
        let syn = [options, &mss(1000)].concat();
        let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
        peer.send(&Segment {
            options: options.to_vec(),
            ..peer.data(0, b"data")
        });
        assert_eq!(peer.host_reads().0, b"data", "{options:?}");
        assert_eq!(dropped(&peer).0, 0, "{options:?}");
        let expected = if options[0] == 1 { 536 } else { 1000 };
        let peer = Peer::connected(TcpConfig::default(), syn);
        assert_eq!(peer.info().mss, Bytes::new(expected), "{options:?}");
    }
}

#[test]
fn well_formed_options_are_read_past() {
    let fine: [Vec<u8>; 4] = [
        vec![1; 40],
        vec![0; 40],
        vec![254, 40],
        [vec![253, 4, 9, 9], vec![0, 77, 77, 77]].concat(),
    ];
    for mut options in fine {
        options.resize(40, 0);
        let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
        peer.send(&Segment {
            options: options.clone(),
            ..peer.data(0, b"fine")
        });
        assert_eq!(peer.host_reads().0, b"fine", "{options:?}");
    }
}

#[test]
fn repeated_options_in_a_syn_open_a_connection() {
    let repeated = [
        mss(1000),
        mss(700),
        scale(2),
        scale(3),
        sack_permitted(),
        sack_permitted(),
    ]
    .concat();
    let mut peer = Peer::connected(TcpConfig::default(), repeated);
    assert!(
        [1000, 700].contains(&peer.info().mss.get()),
        "one of the two"
    );
    peer.still_works_at(0);
}

#[test]
fn the_segment_size_has_a_default_and_a_floor() {
    // What the peer names, and the most the host then sends.
    for (named, expected) in [
        (None, 536),
        (Some(0), 64),
        (Some(1), 64),
        (Some(48), 64),
        (Some(1000), 1000),
        (Some(9000), 1460),
    ] {
        for by_host in [false, true] {
            let options = named.map_or(Vec::new(), mss);
            let config = TcpConfig {
                nagle: false,
                ..TcpConfig::default()
            };
            let mut peer = if by_host {
                Peer::connected_by_host(config, options)
            } else {
                Peer::connected(config, options)
            };
            assert_eq!(peer.info().mss, Bytes::new(expected), "MSS {named:?}");
            let sent = peer.host_writes(3000);
            let largest = sent
                .iter()
                .map(|segment| segment.payload.len() as u64)
                .max();
            assert_eq!(largest, Some(expected), "MSS {named:?}");
        }
    }
}

#[test]
fn a_window_scale_beyond_14_is_14() {
    for (named, used) in [(0, 0), (7, 7), (14, 14), (15, 14), (255, 14)] {
        let mut peer = Peer::connected(TcpConfig::default(), [mss(1000), scale(named)].concat());
        peer.send(&Segment {
            window: 3,
            ..peer.data(0, b"x")
        });
        assert_eq!(
            peer.info().peer_window,
            Bytes::new(3 << used),
            "scale {named}"
        );
    }
}

#[test]
fn agreed_timestamps_are_in_every_segment_or_it_is_dropped() {
    let mut peer = Peer::connected(TcpConfig::default(), [mss(1000), timestamp(1, 99)].concat());
    let bare = peer.data(0, b"without");
    peer.send(&bare);
    assert_eq!(peer.host_reads().0, b"", "a segment without its timestamp");
    // Zero is a value as any other, and may come back after the wrap.
    for (value, offset) in [(1, 0), (1 << 31, 1), (u32::MAX, 2), (0, 3), (5, 4)] {
        let segment = Segment {
            options: timestamp(value, 0),
            ..peer.data(offset, b"x")
        };
        peer.send(&segment);
        assert_eq!(peer.host_reads().0, b"x", "timestamp {value}");
    }
    // An old one is a duplicate from the past, and is answered.
    let old = Segment {
        options: timestamp(3, 0),
        ..peer.data(5, b"old")
    };
    let answers = peer.send(&old);
    assert_eq!((peer.host_reads().0, answers.len()), (Vec::new(), 1));
    // A reset needs none.
    peer.send(&Segment {
        flags: RST,
        seq: peer.at(5),
        ..peer.ack()
    });
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));
}

#[test]
fn timestamps_that_were_not_agreed_on_are_ignored() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1460));
    for (offset, value) in [7, 3, 9].into_iter().enumerate() {
        let segment = Segment {
            options: timestamp(value, 0),
            ..peer.data(offset as u32, b"x")
        };
        let answers = peer.send(&segment);
        assert!(
            answers.iter().all(|answer| answer.option(8).is_none()),
            "{answers:?}"
        );
        assert_eq!(peer.host_reads().0, b"x");
    }
    let sent = peer.host_writes(4000);
    assert!(
        sent.iter()
            .all(|segment| segment.option(8).is_none() && segment.payload.len() <= 1460),
        "{sent:?}"
    );
    peer.still_works_at(3);
}

#[test]
fn wrong_checksums_are_counted_and_dropped() {
    let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
    let good = peer.data(0, b"hello").to_frame();
    let right = u16::from_be_bytes([good[50], good[51]]);
    assert!(
        right != 0 && right != u16::MAX,
        "the two forms of zero would be equal"
    );
    // A checksum that a NIC with offload was to finish.
    let partial = !checksum(&[&pseudo_header(&good[26..34], TCP, good.len() - 34)]);
    for wrong in [right ^ 1, right ^ 0x8000, 0, u16::MAX, partial] {
        let mut frame = good.clone();
        frame[50..52].copy_from_slice(&wrong.to_be_bytes());
        let before = dropped(&peer).1;
        assert_eq!(peer.send_frame(&frame), []);
        assert_eq!(dropped(&peer).1, before + 1, "TCP checksum {wrong:#x}");
    }
    for at in 14..34 {
        let mut frame = good.clone();
        frame[at] ^= 0x10;
        assert_eq!(peer.send_frame(&frame), [], "IP header byte {at}");
    }
    assert_eq!(peer.host_reads(), (Vec::new(), Recv::Empty));
    peer.still_works_at(0);
}

#[test]
fn senders_that_cannot_be_answered_are_not() {
    let nobody = [
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv4Addr::new(239, 255, 255, 250),
        address(HOST),
    ];
    for source in nobody {
        for flags in [SYN, SYN | ACK, ACK, FIN | ACK] {
            let mut peer = Peer::stranger(TcpConfig::default());
            let segment = Segment {
                flags,
                ..peer.ack()
            };
            assert_eq!(
                peer.send_frame(&from_address(source, &segment)),
                [],
                "{source}, flags {flags:#x}"
            );
            assert_eq!(
                peer.pair.carried, 0,
                "{source}, flags {flags:#x}: not even an ARP request"
            );
            assert_eq!(peer.pair.hosts[HOST].socket_count(), 1, "only the listener");
        }
    }
}

#[test]
fn a_segment_without_a_port_or_from_itself_is_dropped() {
    let peer = Peer::stranger(TcpConfig::default());
    let syn = Segment {
        flags: SYN,
        ..peer.ack()
    };
    let portless = Segment {
        source_port: 0,
        ..syn.clone()
    }
    .to_frame();
    let to_port_zero = Segment {
        destination_port: 0,
        ..syn.clone()
    }
    .to_frame();
    let land = from_address(
        address(HOST),
        &Segment {
            source_port: syn.destination_port,
            ..syn
        },
    );
    for frame in [portless, to_port_zero, land] {
        let mut peer = Peer::stranger(TcpConfig::default());
        assert_eq!(peer.send_frame(&frame), []);
        assert_eq!(
            (peer.pair.carried, peer.pair.hosts[HOST].socket_count()),
            (0, 1)
        );
    }
}

#[test]
fn contradictory_flags_change_nothing() {
    for flags in [
        0,
        SYN | FIN,
        SYN | RST,
        SYN | FIN | ACK,
        FIN | RST | ACK,
        0xff,
        FIN,
        PSH | URG,
    ] {
        let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
        let segment = Segment {
            flags,
            seq: peer.at(7),
            ..peer.ack()
        };
        assert!(peer.send(&segment).len() <= 1, "flags {flags:#x}");
        peer.still_works_at(0);
    }
}

#[test]
fn fragments_are_refused_silently() {
    // More fragments follow; the middle; the last.
    for (high, low) in [(0x20, 0x00), (0x20, 0x10), (0x00, 0x10)] {
        let mut peer = Peer::connected(TcpConfig::default(), mss(1000));
        let mut frame = peer.data(0, b"hello").to_frame();
        (frame[20], frame[21]) = (high, low);
        seal(&mut frame);
        let refused = |peer: &Peer| {
            let stats = peer.pair.hosts[HOST].stats();
            (stats.fragments, stats.refused())
        };
        let (fragments, all) = refused(&peer);
        assert_eq!(peer.send_frame(&frame), []);
        assert_eq!(refused(&peer), (fragments + 1, all + 1));
        peer.still_works_at(0);
    }
}
