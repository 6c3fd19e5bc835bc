use super::*;
use crate::Medium;
use crate::{Bytes, Credit, Frame, HeapFrame, Item, Owner, Packet, SegmentId, SocketId};
use alloc::vec;
use alloc::vec::Vec;
use core::num::{NonZeroU16, NonZeroU32};

const HEADERS: usize = 66;

/// A TCP packet with a timestamp option, FIN and PSH, from sequence number 2³² − 1000.
fn whole(payload: usize, ipv6: bool, tagged: bool) -> Vec<u8> {
    let network = if tagged { 18 } else { 14 };
    let mut frame = vec![0; 12];
    if tagged {
        frame.extend([0x81, 0, 0, 42]);
    }
    frame.extend(if ipv6 { [0x86, 0xdd] } else { [8, 0] });
    if ipv6 {
        frame.extend([0x60, 0x20, 0, 7, 0, 0, 6, 64]);
        frame.extend((0..32).map(|byte| byte * 7));
    } else {
        frame.extend([
            0x45, 0b10, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 7, 0, 1, 10, 7, 0, 2,
        ]);
    }
    assert_eq!(frame.len(), network + if ipv6 { 40 } else { 20 });
    frame.extend([0x13, 0x88, 0x9c, 0x40]);
    frame.extend((u32::MAX - 999).to_be_bytes());
    frame.extend([1, 2, 3, 4, 0x80, 0x10 | 0x08 | 0x01, 1, 0, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]);
    frame.extend((0..payload).map(|byte| (byte % 251) as u8));
    frame
}

/// Panics unless IP length and all checksums are right. Returns sequence number, flags and payload.
fn check(frame: &[u8]) -> (u32, u8, &[u8]) {
    let headers = Layout::of(frame, Medium::Ethernet.network_offset(frame)).expect("TCP");
    let Layout {
        network,
        transport,
        payload,
        ipv6,
        ..
    } = headers;
    let field = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    if ipv6 {
        assert_eq!(field(network + 4), frame.len() - network - IPV6_HEADER);
    } else {
        assert_eq!(field(network + 2), frame.len() - network);
        assert_eq!(sum(&frame[network..transport]), 0xffff);
    }
    assert_eq!(
        fold(
            headers.pseudo_sum(frame, frame.len() - transport)
                + u64::from(sum(&frame[transport..]))
        ),
        0xffff
    );
    let tcp = &frame[transport..];
    (
        u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
        tcp[FLAGS],
        &frame[payload..],
    )
}

/// Cuts a packet and checks each segment, and that together they are the stream.
fn cut(payload: usize, segments: u16, (ipv6, tagged): (bool, bool)) {
    let whole = whole(payload, ipv6, tagged);
    let network = Medium::Ethernet.network_offset(&whole);
    let segmentation = Segmentation::new(&whole, network, segments).expect("divisible");
    let (mut stream, mut next) = (Vec::new(), u32::MAX - 999);
    let mut out = [0; 2048];
    for index in 0..segmentation.count() {
        let len = segmentation.write(index, &mut out).expect("fits");
        assert_eq!(len, segmentation.len_of(index));
        let (seq, flags, payload) = check(&out[..len]);
        assert_eq!(seq, next, "segment {index}");
        let last = index + 1 == usize::from(segments);
        assert_eq!(
            flags,
            if last { 0x19 } else { 0x10 },
            "FIN and PSH are the last one's"
        );
        next = next.wrapping_add(payload.len() as u32);
        stream.extend_from_slice(payload);
    }
    assert_eq!(stream, whole[segmentation.header_len()..]);
    assert_eq!(segmentation.write(segmentation.count(), &mut out), None);
}

const KINDS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

#[test]
fn every_segment_is_a_frame_of_its_own_and_together_they_are_the_stream() {
    for kind in KINDS {
        for (payload, segments) in [(3000, 3), (2999, 3), (1448, 1), (65_160, 45), (2, 2)] {
            cut(payload, segments, kind);
        }
    }
}

/// Every short packet in any number of segments, of which the last may be shorter.
#[test]
fn every_short_packet_is_cut() {
    for kind in KINDS {
        for (payload, segments) in (1..=40_usize)
            .flat_map(|payload| (1..=payload).map(move |segments| (payload, segments)))
        {
            let size = payload.div_ceil(segments);
            if payload.div_ceil(size) == segments {
                cut(payload, segments as u16, kind);
            }
        }
    }
}

#[test]
fn what_holds_no_tcp_or_too_little_is_not_cut() {
    let tcp = whole(100, false, false);
    for len in 0..HEADERS {
        assert!(Segmentation::new(&tcp[..len], 14, 2).is_none(), "{len}");
    }
    assert!(Segmentation::new(&tcp[..HEADERS + 1], 14, 2).is_none());
    assert!(Segmentation::new(&tcp, 14, 0).is_none());
    assert!(Segmentation::new(&tcp, 14, u16::MAX).is_none());
    let mut icmp = tcp.clone();
    icmp[23] = 1;
    assert!(Segmentation::new(&icmp, 14, 2).is_none() && !leave_checksum(&mut icmp, 14));
    let mut short = [0; 60];
    assert_eq!(
        Segmentation::new(&tcp, 14, 2)
            .expect("TCP")
            .write(0, &mut short),
        None
    );
}

#[test]
fn a_fragment_and_what_is_not_ip_hold_no_tcp() {
    let tcp = whole(100, false, false);
    // More fragments, a later one, MPLS, a provider's tag.
    for (at, bytes) in [
        (20, [0x20, 0]),
        (20, [0, 1]),
        (12, [0x88, 0x47]),
        (12, [0x88, 0xa8]),
    ] {
        let mut frame = tcp.clone();
        frame[at..at + 2].copy_from_slice(&bytes);
        let before = frame.clone();
        complete(&mut frame, 14, false);
        assert!(Segmentation::new(&frame, 14, 2).is_none() && !leave_checksum(&mut frame, 14));
        assert_eq!(frame, before);
    }
}

/// A packet socket and a TAP interface deliver the padding of short Ethernet frames.
#[test]
fn padding_does_not_count_in_a_checksum() {
    for ((ipv6, tagged), padding) in KINDS
        .map(|kind| (kind, 0))
        .into_iter()
        .chain([((false, false), 0xa5)])
    {
        let network = if tagged { 18 } else { 14 };
        let mut frame = whole(3, ipv6, tagged);
        let len = frame.len();
        let (at, header) = if ipv6 { (4, IPV6_HEADER) } else { (2, 0) };
        let ip_len = (len - network - header) as u16;
        frame[network + at..][..2].copy_from_slice(&ip_len.to_be_bytes());
        let mut alone = frame.clone();
        complete(&mut alone, network, false);
        let headers = Layout::of(&alone, network).expect("TCP");
        let body = &alone[headers.transport..];
        let all = headers.pseudo_sum(&alone, body.len()) + u64::from(sum(body));
        assert_eq!(fold(all), 0xffff);
        frame.resize(len + 6, padding);
        let before = frame.clone();
        assert!(
            !leave_checksum(&mut frame, network),
            "a device would count it"
        );
        assert_eq!(frame, before);
        complete(&mut frame, network, false);
        assert_eq!(
            (&frame[..len], &frame[len..]),
            (&alone[..], &[padding; 6][..])
        );
    }
}

#[test]
fn segments_that_may_be_fragmented_have_identifications_of_their_own() {
    for (flags, step) in [(0x40, 0), (0, 1)] {
        let mut whole = whole(5000, false, false);
        whole[18..21].copy_from_slice(&[0xff, 0xfe, flags]);
        let cut = Segmentation::new(&whole, 14, 5).expect("TCP");
        let mut out = [0; 2048];
        let check_id = |index: u16, frame: &[u8]| {
            check(frame);
            let id = 0xfffe_u16.wrapping_add(step * index);
            assert_eq!(frame[18..20], id.to_be_bytes(), "segment {index}");
        };
        for index in 0..5 {
            let len = cut.write(index.into(), &mut out).expect("fits");
            check_id(index, &out[..len]);
        }
        let len = Segmentation::keep_last(&mut whole, &[], 14, 1000).expect("TCP");
        check_id(4, &whole[..len]);
    }
}

/// RFC 3168 §6.1.2: a sender responds once.
#[test]
fn only_the_first_segment_has_a_cwr_that_is_once() {
    let mut whole = whole(3000, true, false);
    whole[54 + FLAGS] |= CWR;
    let cut = Segmentation::new(&whole, 14, 3).expect("TCP");
    let flags = |cut: Segmentation<'_>| {
        [0, 1, 2].map(|index| {
            let mut out = [0; 2048];
            let len = cut.write(index, &mut out).expect("fits");
            check(&out[..len]).1
        })
    };
    assert_eq!(flags(cut), [0x90, 0x90, 0x99]);
    assert_eq!(flags(cut.with_cwr_once()), [0x90, 0x10, 0x19]);
}

/// Hop-by-hop and destination options (RFC 8200 §4.3, §4.6) are in each segment.
#[test]
fn options_of_ipv6_are_repeated() {
    let plain = whole(3000, true, false);
    let mut extended = plain.clone();
    extended[20] = HOP_BY_HOP;
    let options = [
        [DESTINATION, 0, 1, 4, 0, 0, 0, 0],
        [TCP, 1, 1, 12, 0, 0, 0, 0],
        [0; 8],
    ];
    extended.splice(54..54, options.concat());
    let cut = Segmentation::new(&extended, 14, 3).expect("TCP");
    assert_eq!(cut.header_len(), 14 + IPV6_HEADER + 24 + 32);
    let (mut stream, mut out) = (Vec::new(), [0; 2048]);
    for index in 0..3 {
        let len = cut.write(index, &mut out).expect("fits");
        let (seq, _, payload) = check(&out[..len]);
        assert_eq!(seq, (u32::MAX - 999).wrapping_add(1000 * index as u32));
        assert_eq!(out[54..78], *options.concat());
        stream.extend_from_slice(payload);
    }
    assert_eq!(stream, plain[86..]);
    for len in 0..cut.header_len() {
        assert!(Layout::of(&extended[..len], 14).is_none(), "{len}");
    }
    let mut mobile = extended.clone();
    mobile[56] = HOME_ADDRESS;
    assert!(Layout::of(&mobile, 14).is_none());
    // More than eight are an attack (RFC 8504 §5.3).
    let more = [HOP_BY_HOP, 0, 1, 4, 0, 0, 0, 0].repeat(EXTENSIONS);
    extended.splice(54..54, more);
    assert!(Layout::of(&extended, 14).is_none());
}

/// 2500 bytes that a program sent with `UDP_SEGMENT` of 1000.
#[test]
fn datagrams_that_were_sent_as_one_are_cut() {
    let mut whole = whole(0, false, false);
    whole[23] = UDP;
    whole.truncate(34);
    whole.extend([0x13, 0x88, 0x9c, 0x40, 0, 0, 0, 0]);
    whole.extend((0..2500).map(|byte| (byte % 251) as u8));
    let segmentation = Segmentation::of_size(&whole, 14, 1000).expect("UDP");
    assert_eq!(
        (
            segmentation.count(),
            segmentation.size(),
            segmentation.checksum_at()
        ),
        (3, 1000, (34, 6))
    );
    let (mut stream, mut out) = (Vec::new(), [0; 2048]);
    for (index, payload) in [(0, 1000), (1, 1000), (2, 500)] {
        let len = segmentation.write(index, &mut out).expect("fits");
        assert_eq!(
            (len, out[38..40].to_vec()),
            (42 + payload, ((8 + payload) as u16).to_be_bytes().to_vec())
        );
        let headers = Layout::of(&out[..len], 14).expect("UDP");
        assert_eq!(
            fold(headers.pseudo_sum(&out[..len], len - 34) + u64::from(sum(&out[34..len]))),
            0xffff
        );
        stream.extend_from_slice(&out[42..len]);
    }
    assert_eq!(stream, whole[42..]);
}

/// RFC 1071 §3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
#[test]
fn the_sum_is_that_of_the_rfc() {
    assert_eq!(
        sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
        0xddf2
    );
    assert_eq!(sum(&[0x12, 0x34, 0x56]), 0x1234 + 0x5600);
    let mut frame = whole(100, false, false);
    assert!(leave_checksum(&mut frame, 14));
    // 10.7.0.1, 10.7.0.2, TCP, 32 + 100 bytes.
    let expected = 0x0a07 + 1 + 0x0a07 + 2 + 6 + 132;
    assert_eq!(frame[50..52], (expected as u16).to_be_bytes());
}

fn packet(payload: usize, segments: u16) -> Packet<HeapFrame> {
    let bytes = whole(payload, false, false);
    let mut frame = HeapFrame::with_len(bytes.len());
    frame.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
    let socket = SocketId {
        index: 1,
        generation: NonZeroU32::MIN,
    };
    let owner = Owner {
        socket,
        segment: Some(SegmentId(NonZeroU32::MIN.saturating_add(9))),
    };
    let credit = Credit::new(NonZeroU32::new(10_001).expect("not zero"));
    Packet::new(frame, bytes.len() as u32)
        .with_owner(owner, Some(credit))
        .with_tos(0b10, 3)
        .with_segments(segments)
}

#[test]
fn a_packet_of_several_segments_weighs_what_they_do_on_the_wire() {
    let packet = packet(4000, 4);
    assert_eq!(
        (packet.segments(), packet.len(), packet.header_len()),
        (4, Bytes::new(4 * 1066), Bytes::new(66))
    );
    assert_eq!(packet.bytes().len(), 4066);
    assert_eq!(packet.memory(), Bytes::new(4066), "no more than its frame");
    // What is no TCP stays one packet.
    assert_eq!(Packet::new((), 3000).with_segments(2).segments(), 1);
}

/// Segments that were merged are cut again where they met.
#[test]
fn a_packet_keeps_the_size_of_its_segments() {
    for (payload, size, lengths) in [
        (3000, 1448, &[1448, 1448, 104][..]),
        (2897, 1448, &[1448, 1448, 1]),
        (2896, 1448, &[1448, 1448]),
        (5, 2, &[2, 2, 1]),
        (1448, 1448, &[1448]),
        (7, 1448, &[7]),
    ] {
        let size = NonZeroU16::new(size).expect("not zero");
        let packet = packet(payload, 1).with_segment_size(size);
        let count = lengths.len();
        assert_eq!(
            (usize::from(packet.segments()), packet.bytes().len()),
            (count, 66 + payload)
        );
        assert_eq!(packet.len().get(), (66 * count + payload) as u64);
        let whole = packet.segmentation().expect("TCP");
        let cut: Vec<_> = (0..count).map(|index| whole.len_of(index) - 66).collect();
        assert_eq!((cut.as_slice(), whole.count()), (lengths, count));
        let mut split = Vec::new();
        let pieces = packet.split(&mut |piece| {
            let (_, _, payload) = check(piece.bytes());
            split.push(payload.len());
        });
        assert_eq!(pieces.is_ok(), count > 1);
        assert!(count == 1 || split == lengths);
    }
    // Equal parts may be fewer than were asked for; each has payload.
    let packet = packet(5, 4);
    let whole = packet.segmentation().expect("TCP");
    assert_eq!((packet.segments(), whole.count(), whole.size()), (3, 3, 2));
}

#[test]
fn pieces_share_the_credit_and_answer_for_their_own_segment() {
    let mut packet = packet(4000, 4);
    assert!(packet.set_ce());
    packet.finish();
    let mut pieces = Vec::new();
    assert!(packet.split(&mut |piece| pieces.push(piece)).is_ok());
    assert_eq!(
        pieces.iter().map(|piece| piece.len().get()).sum::<u64>(),
        4 * 1066,
        "no byte is born"
    );
    let (mut credit, mut stream) = (0, Vec::new());
    for (index, piece) in (0..).zip(pieces) {
        assert_eq!(
            (piece.segments(), piece.tos(), piece.priority()),
            (1, 0b11, 3)
        );
        let (seq, _, payload) = check(piece.bytes());
        assert_eq!(seq, (u32::MAX - 999).wrapping_add(1000 * index));
        stream.extend_from_slice(payload);
        assert_eq!(
            piece
                .owner()
                .and_then(|owner| owner.segment)
                .map(|segment| segment.0.get()),
            Some(10 + index)
        );
        let (frame, settled) = piece.dismantle();
        credit += settled.credit.map_or(0, |credit| credit.bytes());
        assert_eq!(
            frame.bytes().len() > HeapFrame::LEN,
            index == 3,
            "the last keeps the frame of the whole"
        );
    }
    assert_eq!(credit, 10_001);
    assert_eq!(stream, whole(4000, false, false)[66..]);
}

#[test]
fn one_segment_and_frames_without_memory_are_not_split() {
    assert!(packet(1000, 1).split(&mut |_| panic!("one piece")).is_err());
    assert!(
        Packet::new((), 4000)
            .with_segments(4)
            .split(&mut |_| panic!("no bytes"))
            .is_err()
    );
}
