use alloc::vec;

use super::*;
use crate::frame::HeapFrame;
use crate::headers::IPV4;

/// Sum of all 16-bit words of a header; 0xffff when the checksum is right.
fn folded_sum(header: &[u8]) -> u16 {
    let mut sum: u32 = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn ipv4_packet(tos: u8) -> Packet<HeapFrame> {
    let mut frame = HeapFrame::new();
    let bytes = frame.bytes_mut();
    bytes[12..14].copy_from_slice(&IPV4.to_be_bytes());
    let header = [
        0x45, tos, 0, 40, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 7, 0, 1, 10, 7, 0, 2,
    ];
    bytes[14..34].copy_from_slice(&header);
    let checksum = !folded_sum(&header);
    bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    Packet::new(frame, 54).with_tos(tos, 0)
}

#[test]
fn marking_keeps_the_ipv4_checksum_right_for_every_tos() {
    for tos in 0..=255u8 {
        let mut packet = ipv4_packet(tos);
        let marked = packet.set_ce();
        assert_eq!(marked, tos & 3 != 0, "Not-ECT never gains CE");
        packet.finish();
        assert_eq!(packet.bytes()[15], if marked { tos | 3 } else { tos });
        assert_eq!(folded_sum(&packet.bytes()[14..34]), 0xffff, "tos {tos:#x}");
    }
}

#[test]
fn a_duplicate_has_the_bytes_but_no_owner_and_corruption_flips_one_bit() {
    let original = ipv4_packet(0xb8).with_hashes(7, 8, 9);
    let mut copy = original.duplicate().expect("heap memory");
    assert_eq!(
        (copy.bytes(), copy.flow_hash(), copy.tos()),
        (original.bytes(), 7, 0xb8)
    );
    assert!(copy.owner().is_none());
    assert!(copy.dismantle().1.credit.is_none());
    copy = original.duplicate().expect("heap memory");
    assert!(copy.corrupt(8 * 54 + 8 * 14));
    let flipped = original
        .bytes()
        .iter()
        .zip(copy.bytes())
        .map(|(a, b)| (a ^ b).count_ones())
        .sum::<u32>();
    assert_eq!((flipped, original.bytes()[14] ^ copy.bytes()[14]), (1, 1));
    assert!(!Packet::new((), 1514).corrupt(0) && !Packet::new(HeapFrame::new(), 0).corrupt(3));
}

/// A packet of three segments whose payload is in the buffer of its frame, or in two fragments.
fn of_three_segments(is_outside: bool) -> Packet<HeapFrame> {
    let payload: Vec<u8> = (0..3000).map(|at| (at % 251) as u8).collect();
    let mut frame = HeapFrame::with_len(54 + 3000);
    let bytes = frame.bytes_mut();
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    (bytes[23], bytes[46]) = (6, 0x50);
    let deferred = if is_outside {
        let parts = payload.chunks(1701).map(|part| part.to_vec().into());
        frame.fragments_mut().expect("a list").extend(parts);
        Deferred::Payload
    } else {
        bytes[54..].copy_from_slice(&payload);
        Deferred::Nothing
    };
    Packet::new(frame, 3054)
        .with_segments(3)
        .with_deferred(deferred)
}

/// Reads and changes of the bytes find the payload in the buffer.
#[test]
fn a_payload_outside_the_frame_is_gathered() {
    let (inside, mut outside) = (of_three_segments(false), of_three_segments(true));
    let parts = |packet: &Packet<HeapFrame>| packet.slices().map(<[u8]>::len).collect::<Vec<_>>();
    assert_eq!(
        (parts(&inside), parts(&outside)),
        (vec![3054], vec![54, 1701, 1299])
    );
    assert_eq!(
        outside.slices().collect::<Vec<_>>().concat(),
        inside.bytes()
    );
    assert_eq!(Item::len(&outside), Item::len(&inside));
    // Not the bytes that an earlier packet left behind them.
    assert_eq!(outside.headers(), &inside.bytes()[..54]);

    let segment = |packet: &Packet<HeapFrame>, index| {
        let mut segment = vec![0; 2048];
        let whole = packet.segmentation().expect("it holds TCP");
        assert_eq!((whole.count(), whole.size()), (3, 1000));
        let len = whole.write(index, &mut segment).expect("room");
        segment.truncate(len);
        segment
    };
    (0..3).for_each(|index| assert_eq!(segment(&outside, index), segment(&inside, index)));

    let mut copy = Item::duplicate(&outside).expect("it is on the heap");
    copy.leave_checksum();
    assert_eq!(
        (copy.bytes(), copy.deferred()),
        (inside.bytes(), Deferred::Nothing)
    );
    assert!(Item::corrupt(&mut outside, 0));
    assert_eq!(parts(&outside), [3054]);
    assert_eq!(outside.bytes()[1..], inside.bytes()[1..]);

    let segments = |packet: Packet<HeapFrame>| {
        let mut segments = Vec::new();
        let cut = packet.split(&mut |segment| segments.push(segment.bytes().to_vec()));
        assert!(cut.is_ok());
        segments
    };
    let cut = segments(of_three_segments(true));
    assert_eq!(cut.len(), 3);
    assert_eq!(cut, segments(inside));

    let frame = of_three_segments(true).frame;
    let mut pool = crate::Pool::heap(1, Some(crate::Tso::MOST));
    pool.put_back(frame);
    assert!(
        pool.take()
            .is_some_and(|frame| frame.fragments().is_empty())
    );
}

/// One flipped bit must never be hidden by a checksum that is written later.
#[test]
fn a_packet_is_complete_before_it_is_damaged() {
    let tcp = |deferred| {
        let mut packet = ipv4_packet(0);
        packet.frame.bytes_mut()[46] = 0x50;
        Packet { len: 154, ..packet }
            .with_tos(0, 9)
            .with_deferred(deferred)
    };
    let mut whole = tcp(Deferred::Checksum);
    assert_eq!(
        (whole.deferred(), whole.priority()),
        (Deferred::Checksum, 9)
    );
    whole.complete();
    for deferred in [Deferred::Checksum, Deferred::Zeros] {
        let mut damaged = tcp(deferred);
        damaged.frame.bytes_mut()[100] = if deferred == Deferred::Zeros { 0x55 } else { 0 };
        assert!(damaged.corrupt(8 * 120));
        let flipped = whole
            .bytes()
            .iter()
            .zip(damaged.bytes())
            .map(|(a, b)| (a ^ b).count_ones())
            .sum::<u32>();
        assert_eq!(
            (flipped, damaged.deferred(), damaged.priority()),
            (1, Deferred::Nothing, 9)
        );
    }
}

#[test]
fn a_mark_goes_behind_the_tag_in_both_families() {
    let plain = ipv4_packet(0b10);
    let mut frame = HeapFrame::new();
    let bytes = frame.bytes_mut();
    bytes[12..18].copy_from_slice(&[0x81, 0, 0, 42, 8, 0]);
    bytes[18..38].copy_from_slice(&plain.bytes()[14..34]);
    let mut tagged = Packet::new(frame, 58).with_tos(0b10, 0);
    assert_eq!((plain.network_offset(), tagged.network_offset()), (14, 18));
    assert!(tagged.set_ce());
    tagged.finish();
    assert_eq!(
        (tagged.bytes()[19], folded_sum(&tagged.bytes()[18..38])),
        (0b11, 0xffff)
    );
    let mut frame = HeapFrame::new();
    frame.bytes_mut()[12..20].copy_from_slice(&[0x81, 0, 0, 42, 0x86, 0xdd, 0x60, 0x21]);
    let mut tagged = Packet::new(frame, 80).with_tos(0b10, 0);
    assert!(tagged.set_ce());
    tagged.finish();
    assert_eq!(tagged.bytes()[18..20], [0x60, 0x31]);
}

#[test]
fn a_mark_is_written_into_an_ip_packet_without_a_link_header() {
    let ethernet = ipv4_packet(0b10);
    let mut frame = HeapFrame::new();
    frame.bytes_mut()[..20].copy_from_slice(&ethernet.bytes()[14..34]);
    let mut bare = Packet::new(frame, 20)
        .with_medium(Medium::Ip)
        .with_tos(0b10, 7)
        .with_deferred(Deferred::Checksum);
    bare.complete();
    assert_eq!(
        (bare.network_offset(), bare.priority(), bare.deferred()),
        (0, 7, Deferred::Nothing)
    );
    assert!(bare.set_ce());
    bare.finish();
    assert_eq!(
        (bare.bytes()[1], folded_sum(bare.bytes())),
        (0b11, u16::MAX)
    );
}

/// A packet that knows its TOS byte and cannot change it.
struct Fixed(u8);

impl Item for Fixed {
    fn len(&self) -> Bytes {
        Bytes::new(100)
    }

    fn enqueued(&self) -> Instant {
        Instant::ZERO
    }

    fn set_enqueued(&mut self, _now: Instant) {}

    fn flow_hash(&self) -> u64 {
        0
    }

    fn tos(&self) -> u8 {
        self.0
    }
}

/// Else an AQM takes it for marked and drops nothing, and the queue grows.
#[test]
fn a_packet_whose_tos_cannot_be_set_does_not_count_as_marked() {
    assert_eq!(
        [0b00, 0b01, 0b10, 0b11].map(|tos| Fixed(tos).set_ce()),
        [false, false, false, true]
    );
}

#[test]
fn truncated_frames_are_left_alone() {
    for len in 0..34 {
        let mut packet = Packet::new(HeapFrame::new(), len);
        packet.set_tos(0xb8);
        packet.finish();
    }
    Packet::new((), 1514).finish();
}
