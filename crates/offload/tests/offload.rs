//! Packets cut and segments merged, compared with what went in.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::num::NonZeroU16;
use std::time::Duration;

use proptest::prelude::*;
use tautline_base::checksum::{fold, sum};
use tautline_base::{Deferred, Device, Frame, HeapFrame, Instant, Item, Medium, Packet, Pool, Tso};
use tautline_bql::{Dql, Port, Ring};
use tautline_offload::{Config, SoftwareOffload};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{Cidr, Event, Host, HostConfig, NoTrace, Recv, TcpConfig};
use tautline_testkit::{ACK, Ip, MemoryDevice, PSH, Segment, TCP, frame};

const NOW: Instant = Instant::ZERO;
/// As in every packet of TCP, which searches for the path's MTU (RFC 1191).
const DONT_FRAGMENT: u32 = 0x4000;

type Offloaded = SoftwareOffload<MemoryDevice>;

/// Over a ring of `ring` descriptors.
fn device(ring: usize) -> Offloaded {
    device_over(Medium::Ethernet, ring)
}

fn device_over(medium: Medium, ring: usize) -> Offloaded {
    let inner = MemoryDevice {
        medium,
        ring,
        ..MemoryDevice::default()
    };
    SoftwareOffload::new(inner, Pool::heap(ring, None), Config::default())
}

fn addresses(ipv6: bool) -> [IpAddr; 2] {
    [1, 2].map(|host| {
        if ipv6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into()
        } else {
            Ipv4Addr::new(192, 0, 2, host as u8).into()
        }
    })
}

/// An Ethernet frame with `segment`.
fn ethernet(ipv6: bool, segment: &Segment) -> Vec<u8> {
    let [source, destination] = addresses(ipv6);
    let ip = Ip {
        fragment: DONT_FRAGMENT,
        ..Ip::new(source, destination, TCP)
    };
    let packet = ip.packet(&segment.to_bytes());
    frame::ethernet([2; 6], [4; 6], ip.ethertype(), &packet)
}

/// A segment of flow `port` with `len` bytes that depend on their place in the stream.
fn segment(port: u16, seq: u32, len: usize, flags: u16) -> Segment {
    Segment {
        source_port: port,
        destination_port: 80,
        seq,
        ack: 77,
        flags,
        window: 4096,
        options: vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8],
        payload: (0..len)
            .map(|at| (seq as usize + at) as u8 ^ port as u8)
            .collect(),
        ..Segment::default()
    }
}

/// Sequence number of the first byte of a packet, so that numbers wrap in long ones.
const FIRST: u32 = u32::MAX - 5000;

/// A packet of `count` segments of `size` bytes; the last has `last`.
fn packet(ipv6: bool, count: u16, size: usize, last: usize) -> Packet<HeapFrame> {
    let payload = usize::from(count - 1) * size + last;
    let whole = ethernet(ipv6, &segment(1000, FIRST, payload, ACK | PSH));
    packet_of(&whole).with_segment_size(short(size))
}

fn short(size: usize) -> NonZeroU16 {
    NonZeroU16::new(size as u16).expect("a segment has payload")
}

/// A packet with these bytes.
fn packet_of(bytes: &[u8]) -> Packet<HeapFrame> {
    let mut frame = HeapFrame::with_len(Tso::MOST.frame_len());
    frame.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    Packet::new(frame, bytes.len() as u32)
}

/// The frames that single segments with the payload of [`packet`] have: RFC 9293's header for each, and
/// none of the code under test.
fn single_frames(ipv6: bool, count: u16, size: usize, last: usize) -> Vec<Vec<u8>> {
    let payload = usize::from(count - 1) * size + last;
    let starts = (0..payload).step_by(size);
    let frame = |at: usize| {
        let len = size.min(payload - at);
        let push = if at + len == payload { PSH } else { 0 };
        ethernet(
            ipv6,
            &segment(1000, FIRST.wrapping_add(at as u32), len, ACK | push),
        )
    };
    starts.map(frame).collect()
}

/// The payload is where the application has put it, and goes from there into the frames.
#[test]
fn a_payload_outside_the_frame_is_cut_from_there() {
    const HEADERS: usize = 14 + 20 + 32;
    let (mut device, whole) = (device(64), packet(false, 3, 1000, 700));
    assert!(device.gathers());
    let bytes = whole.bytes();
    let mut frame = HeapFrame::with_len(bytes.len());
    frame.bytes_mut()[..HEADERS].copy_from_slice(&bytes[..HEADERS]);
    let (first, second) = bytes[HEADERS..].split_at(1234);
    let payload = frame.fragments_mut().expect("a list");
    payload.push(first.to_vec().into());
    payload.push(second.to_vec().into());
    let gathered = Packet::new(frame, bytes.len() as u32)
        .with_segment_size(short(1000))
        .with_deferred(Deferred::Payload);
    device.put(gathered, NOW);
    let sent: Vec<_> = device.inner().sent.iter().cloned().collect();
    assert_eq!(sent, single_frames(false, 3, 1000, 700));
}

proptest! {
    /// Frames on the wire are those of single segments, in order, for a ring of any length. Every
    /// packet completes once, after its last frame.
    #[test]
    fn frames_on_the_wire_are_those_of_single_segments(
        packets in prop::collection::vec((any::<bool>(), 1u16..=40, 1usize..=1448, any::<prop::sample::Index>()), 1..12),
        ring in 1usize..100,
    ) {
        let mut device = device(ring);
        let packets = packets.iter().map(|(ipv6, count, size, last)| (*ipv6, *count, *size, 1 + last.index(*size)));
        let mut waiting: VecDeque<_> = packets.clone().map(|(ipv6, count, size, last)| packet(ipv6, count, size, last)).collect();
        let expected: Vec<_> = packets.flat_map(|(ipv6, count, size, last)| single_frames(ipv6, count, size, last)).collect();
        let (mut sizes, mut completed) = (Vec::new(), Vec::new());
        for packet in &waiting {
            sizes.push(packet.len());
        }
        let (mut done, mut rounds) = (Vec::new(), 0);
        while completed.len() < sizes.len() {
            while device.room() > 0 && let Some(packet) = waiting.pop_front() {
                device.put(packet, NOW);
            }
            device.doorbell(NOW);
            device.reap(NOW, &mut done);
            completed.extend(done.drain(..).map(|packet| packet.len()));
            rounds += 1;
            prop_assert!(rounds < 1000, "it stands still");
        }
        prop_assert_eq!(completed, sizes);
        prop_assert_eq!(device.in_flight(), 0);
        prop_assert_eq!(Vec::from(std::mem::take(&mut device.inner_mut().sent)), expected);
    }

    /// Packets that are cut and merged again are the packets that were sent, bit by bit, but for the TCP
    /// checksum: a merged packet is verified and has that of its first segment.
    #[test]
    fn cutting_and_merging_restores_the_packet(
        packets in prop::collection::vec((2u16..=40, 1usize..=1448, any::<prop::sample::Index>()), 1..8),
        ipv6: bool,
        over_ip: bool,
    ) {
        let (medium, link) = if over_ip { (Medium::Ip, 14) } else { (Medium::Ethernet, 0) };
        let (mut sender, mut receiver) = (device_over(medium, 512), device_over(medium, 512));
        let mut seq = FIRST;
        for (count, size, last) in packets {
            let payload = usize::from(count - 1) * size + 1 + last.index(size);
            let whole = ethernet(ipv6, &segment(1000, seq, payload, ACK | PSH));
            seq = seq.wrapping_add(payload as u32);
            let mut whole = whole[link..].to_vec();
            let packet = packet_of(&whole).with_medium(medium).with_segment_size(short(size));
            prop_assert_eq!(packet.segments(), count);
            let segment_size = Some(short(size));
            sender.put(packet, NOW);
            let mut frames = std::mem::take(&mut sender.inner_mut().sent);
            let mut done = Vec::new();
            sender.reap(NOW, &mut done);
            receiver.inner_mut().arrived.append(&mut frames);
            let received = receiver.receive(NOW).expect("frames arrived");
            let mut merged = received.bytes().to_vec();
            prop_assert_eq!(received.offload.segment_size, segment_size);
            receiver.recycle(received.frame);
            prop_assert!(receiver.receive(NOW).is_none(), "one packet");
            let transport = (if ipv6 { 54 } else { 34 }) - link;
            for bytes in [&mut whole, &mut merged] {
                bytes[transport + 16..transport + 18].fill(0);
            }
            prop_assert_eq!(whole, merged);
        }
    }

    /// Frames that are cut anywhere and overwritten anywhere: nothing panics, nothing is read past
    /// its end, every byte of a frame that is not merged arrives.
    #[test]
    fn hostile_frames_pass(
        frames in prop::collection::vec(
            (any::<bool>(), 0usize..2000, any::<prop::sample::Index>(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)),
            1..20,
        ),
        medium in prop::sample::select(vec![Medium::Ethernet, Medium::Ip]),
    ) {
        let mut device = device_over(medium, 8);
        let mut seq = 1;
        let mut sent = 0;
        for (ipv6, len, cut, changes) in frames {
            let mut frame = ethernet(ipv6, &segment(5, seq, len, ACK));
            seq += len as u32;
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            frame.truncate(1 + cut.index(frame.len() + 200).min(frame.len() - 1));
            let bare = frame.split_off(frame.len().min(if medium == Medium::Ip { 14 } else { 0 }));
            sent += 1;
            device.inner_mut().arrived.push_back(bare);
        }
        let mut received = 0;
        while let Some(frame) = device.receive(NOW) {
            received += 1;
            device.recycle(frame.frame);
        }
        prop_assert!((1..=sent).contains(&received));
    }

    /// Segments of several flows, some out of order, some damaged, in any batches: each flow's bytes
    /// arrive as they came, in the order in which they came, damaged ones unmerged and unverified.
    #[test]
    fn merging_changes_no_byte_and_no_order(
        steps in prop::collection::vec((0u16..3, any::<bool>(), 1usize..1449, 0u8..20), 1..300),
        batch in 1usize..100,
    ) {
        let mut device = device(64);
        let mut next = BTreeMap::new();
        let mut came: BTreeMap<u16, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
        let mut got = came.clone();
        let (mut damaged, mut unverified, mut frames) = (0, 0, 0);
        for (flow, full, len, event) in steps {
            let ipv6 = flow == 2;
            let seq = next.entry(flow).or_insert(u32::MAX - 20_000);
            let flags = if event == 0 { ACK | PSH } else { ACK };
            // A hole before the segment.
            *seq = seq.wrapping_add(if event == 1 { 1448 } else { 0 });
            let segment = segment(flow, *seq, if full { 1448 } else { len }, flags);
            *seq = seq.wrapping_add(segment.payload.len() as u32);
            let mut bytes = ethernet(ipv6, &segment);
            if event == 2 {
                *bytes.last_mut().expect("payload") ^= 1;
                damaged += 1;
            }
            let payload = bytes[bytes.len() - segment.payload.len()..].to_vec();
            came.entry(flow).or_default().push((segment.seq, payload));
            // Ethernet's padding.
            bytes.resize(bytes.len().max(60), 0);
            device.inner_mut().arrived.push_back(bytes);
            frames += 1;
            if frames % batch == 0 {
                unverified += drain(&mut device, &mut got);
            }
        }
        unverified += drain(&mut device, &mut got);
        prop_assert_eq!(unverified, damaged);
        prop_assert_eq!(came, got);
    }
}

/// A segment continues a packet only if nothing but length, identification, sequence number, PSH and
/// checksums differs: every bit of the headers of the second of two segments is inverted in turn, under
/// correct and under wrong checksums.
#[test]
fn a_changed_header_bit_ends_the_packet() {
    for ipv6 in [false, true] {
        let frames = [0, 1].map(|place| ethernet(ipv6, &segment(7, 1 + 100 * place, 100, ACK)));
        let header = frames[1].len() - 100;
        let network = 14;
        let transport = if ipv6 { 54 } else { 34 };
        for (at, bit) in (0..header).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            for repaired in [false, true] {
                let mut device = device(64);
                let mut second = frames[1].clone();
                second[at] ^= 1 << bit;
                if repaired {
                    repair(&mut second, network, transport, ipv6);
                }
                let is_identification = !ipv6 && (network + 4..network + 6).contains(&at);
                let is_psh = at == transport + 13 && bit == 3;
                let may_vary = repaired && (is_identification || is_psh);
                // A repaired checksum is the original one.
                let unchanged = second == frames[1];
                device
                    .inner_mut()
                    .arrived
                    .extend([frames[0].clone(), second]);
                let first = device.receive(NOW).expect("two frames arrived");
                let is_merged = first.offload.segment_size.is_some();
                assert_eq!(is_merged, may_vary || unchanged, "byte {at}, bit {bit}");
                device.recycle(first.frame);
            }
        }
    }
}

/// Writes the checksums that the headers of `frame`, as they are, ask for.
fn repair(frame: &mut [u8], network: usize, transport: usize, ipv6: bool) {
    if !ipv6 {
        frame[network + 10..network + 12].fill(0);
        let checksum = !sum(&frame[network..transport]);
        frame[network + 10..network + 12].copy_from_slice(&checksum.to_be_bytes());
    }
    frame[transport + 16..transport + 18].fill(0);
    let addresses = if ipv6 { network + 8 } else { network + 12 };
    let pseudo = u64::from(sum(&frame[addresses..transport])) + u64::from(TCP);
    let body = &frame[transport..];
    let checksum = !fold(pseudo + u64::from(sum(body)) + body.len() as u64);
    frame[transport + 16..transport + 18].copy_from_slice(&checksum.to_be_bytes());
}

/// Takes everything that has arrived apart again. Returns the number of unverified packets.
fn drain(device: &mut Offloaded, got: &mut BTreeMap<u16, Vec<(u32, Vec<u8>)>>) -> usize {
    let mut unverified = 0;
    while let Some(received) = device.receive(NOW) {
        let bytes = received.bytes();
        let ipv6 = bytes[12..14] == [0x86, 0xdd];
        let transport = if ipv6 { 54 } else { 34 };
        let length = usize::from(u16::from_be_bytes(if ipv6 {
            [bytes[18], bytes[19]]
        } else {
            [bytes[16], bytes[17]]
        }));
        let end = length + if ipv6 { 54 } else { 14 };
        let whole = Segment::from_bytes(&bytes[transport..end], 0);
        let size = received
            .offload
            .segment_size
            .map_or(whole.payload.len(), |size| usize::from(size.get()));
        if !received.offload.checksum_known {
            unverified += 1;
            assert_eq!(
                received.offload.segment_size, None,
                "a damaged segment is merged with none"
            );
        }
        let mut seq = whole.seq;
        for payload in whole.payload.chunks(size) {
            got.entry(whole.source_port)
                .or_default()
                .push((seq, payload.to_vec()));
            seq = seq.wrapping_add(payload.len() as u32);
        }
        device.recycle(received.frame);
    }
    unverified
}

/// Effect: segments of three flows that arrive in turns become one packet a flow; without merging
/// each is its own.
#[test]
fn interleaved_flows_are_merged_each() {
    for (gro, packets) in [(true, 3), (false, 120)] {
        let config = Config {
            gro,
            ..Config::default()
        };
        let mut device = SoftwareOffload::new(MemoryDevice::default(), Pool::heap(8, None), config);
        for index in 0..40 {
            for flow in 0..3 {
                let segment = segment(flow, index * 1000, 1000, ACK);
                device
                    .inner_mut()
                    .arrived
                    .push_back(ethernet(false, &segment));
            }
        }
        let mut received = 0;
        while let Some(packet) = device.receive(NOW) {
            received += 1;
            device.recycle(packet.frame);
        }
        assert_eq!(received, packets);
    }
}

/// Datagrams, ICMP and ARP between the segments of a flow leave it whole: they belong to no held one
/// (Linux `inet_gro_receive` compares within a protocol). A fragment of TCP may, and ends all.
#[test]
fn only_what_may_hold_tcp_ends_the_packets_held() {
    let [udp, icmp, icmpv6, hop_by_hop] = [17, 1, 58, 0];
    let other = |ipv6, protocol, fragment| {
        let [source, destination] = addresses(ipv6);
        let ip = Ip {
            fragment,
            ..Ip::new(source, destination, protocol)
        };
        frame::ethernet([2; 6], [4; 6], ip.ethertype(), &ip.packet(&[0; 64]))
    };
    for (between, packets) in [
        (other(false, udp, DONT_FRAGMENT), 1),
        (other(true, udp, 0), 1),
        (other(false, icmp, 0), 1),
        (other(true, icmpv6, 0), 1),
        (frame::ethernet([2; 6], [4; 6], 0x0806, &[0; 46]), 1),
        (other(false, TCP, 0x2000), 10),
        (other(true, hop_by_hop, 0), 10),
    ] {
        let mut device = device(8);
        for index in 0..10 {
            let segment = segment(1, index * 1000, 1000, ACK);
            let arrived = &mut device.inner_mut().arrived;
            arrived.push_back(ethernet(false, &segment));
            arrived.push_back(between.clone());
        }
        let (mut of_flow, mut others) = (0, 0);
        while let Some(received) = device.receive(NOW) {
            if received.bytes() == between {
                others += 1;
            } else {
                of_flow += 1;
            }
            device.recycle(received.frame);
        }
        assert_eq!((of_flow, others), (packets, 10), "{between:02x?}");
    }
}

/// The sender has nothing further to send after PSH (Linux `tcp_gro_receive`), so its packet ends there: later segments
/// of the burst begin another.
#[test]
fn psh_ends_the_packet() {
    let mut device = device(8);
    for (place, flags) in [ACK, ACK | PSH, ACK, ACK].into_iter().enumerate() {
        let segment = segment(1, 1 + 100 * place as u32, 100, flags);
        device
            .inner_mut()
            .arrived
            .push_back(ethernet(false, &segment));
    }
    for _ in 0..2 {
        let received = device.receive(NOW).expect("two segments each");
        assert_eq!(received.bytes().len(), 14 + 20 + 32 + 200);
        device.recycle(received.frame);
    }
    assert!(device.receive(NOW).is_none());
}

/// Segments of a connection with AccECN carry a count of marks in three flags (RFC 9768 §3.2.2), those
/// that echo a mark ECE: they are merged as others are. Marked ones with such a count are not: their
/// receiver counts them one by one, and acknowledges before the count wraps.
#[test]
fn flags_of_ecn_that_agree_do_not_keep_segments_apart() {
    const ECE: u16 = 0x40;
    const CWR: u16 = 0x80;
    const AE: u16 = 0x100;
    let (not_marked, marked) = (2, 3);
    for (flags, ecn, packets) in [
        ([AE | ECE; 3], not_marked, 1),
        ([AE | CWR | ECE; 3], not_marked, 1),
        ([ECE; 3], not_marked, 1),
        ([CWR, 0, 0], not_marked, 2),
        ([0; 3], marked, 1),
        ([AE; 3], marked, 3),
        ([AE | ECE; 3], marked, 3),
    ] {
        for ipv6 in [false, true] {
            let mut device = device(8);
            for (place, flags) in (0..).zip(flags) {
                let segment = segment(1, 1 + 100 * place, 100, ACK | flags);
                let mut frame = ethernet(ipv6, &segment);
                if ipv6 {
                    frame[15] |= ecn << 4;
                } else {
                    frame[15] |= ecn;
                    repair(&mut frame, 14, 34, ipv6);
                }
                device.inner_mut().arrived.push_back(frame);
            }
            let mut received = 0;
            while let Some(packet) = device.receive(NOW) {
                received += 1;
                device.recycle(packet.frame);
            }
            assert_eq!(received, packets, "{flags:x?} {ecn} {ipv6}");
        }
    }
}

/// A packet that is no longer one of TCP cannot be cut, and leaves whole, once; one of fewer bytes than
/// segments has a segment for each byte.
#[test]
fn a_packet_that_cannot_be_cut_leaves_whole() {
    let whole = ethernet(false, &segment(1, 1, 3, ACK | PSH));
    for (is_damaged, frames) in [(false, 3), (true, 1)] {
        let mut device = device(8);
        let mut packet = packet_of(&whole).with_segments(5);
        assert_eq!(packet.segments(), 3);
        assert!(
            !is_damaged || packet.corrupt(14 * 8),
            "no IP header of 16 bytes"
        );
        device.put(packet, NOW);
        device.doorbell(NOW);
        let mut done = Vec::new();
        device.reap(NOW, &mut done);
        assert_eq!((done.len(), device.in_flight()), (1, 0));
        assert_eq!(device.inner_mut().sent.len(), frames);
    }
}

/// A flow that never pauses keeps the host from its first packet for 256 frames, not for 64 packets.
#[test]
fn a_call_reads_a_bounded_number_of_frames() {
    const FRAMES: u32 = 2000;
    let mut device = device(8);
    for index in 0..FRAMES {
        let segment = segment(1, index * 1000, 1000, ACK);
        let frame = ethernet(false, &segment);
        device.inner_mut().arrived.push_back(frame);
    }
    let first = device.receive(NOW).expect("many");
    device.recycle(first.frame);
    assert_eq!(device.inner_mut().arrived.len(), FRAMES as usize - 256);
    let mut got = BTreeMap::new();
    drain(&mut device, &mut got);
    assert!(device.inner_mut().arrived.is_empty(), "the rest follows");
}

/// Frames below that are longer than merged packets may be, of a larger MTU or a hostile sender, get
/// frames of their own.
#[test]
fn frames_longer_than_merged_packets_pass_unmerged() {
    for ipv6 in [false, true] {
        let config = Config {
            gso: Tso {
                max_size: 4000,
                ..Tso::MOST
            },
            ..Config::default()
        };
        let mut device = SoftwareOffload::new(MemoryDevice::default(), Pool::heap(8, None), config);
        let lens = [3000, 3950, 8000, 100, 65_400, 9000, 3000];
        let sent: Vec<_> = lens
            .iter()
            .map(|len| ethernet(ipv6, &segment(9, 1, *len, ACK)))
            .collect();
        for _ in 0..2 {
            device.inner_mut().arrived.extend(sent.iter().cloned());
            for frame in &sent {
                let received = device.receive(NOW).expect("each arrives alone");
                assert_eq!(received.bytes(), frame);
                device.recycle(received.frame);
            }
            assert!(device.receive(NOW).is_none());
        }
    }
}

/// Acknowledgments without payload of one flow do not end the packet of another; those of the same
/// flow do, and follow it.
#[test]
fn bare_acknowledgments_end_their_own_flow_only() {
    let mut device = device(8);
    let arriving = [
        (1, 1, 100, ACK),
        (2, 1, 0, ACK),
        (1, 101, 100, ACK),
        (1, 201, 0, ACK),
        (1, 201, 100, ACK),
    ];
    for (port, seq, len, flags) in arriving {
        let frame = ethernet(false, &segment(port, seq, len, flags));
        device.inner_mut().arrived.push_back(frame);
    }
    let mut got = Vec::new();
    while let Some(received) = device.receive(NOW) {
        let bytes = received.bytes();
        let port = u16::from_be_bytes([bytes[34], bytes[35]]);
        got.push((port, bytes.len() - 14 - 20 - 32));
        device.recycle(received.frame);
    }
    assert_eq!(got, [(2, 0), (1, 200), (1, 0), (1, 100)]);
}

#[test]
fn a_reset_returns_whole_packets() {
    let mut device = device(4);
    device.inner_mut().stuck = true;
    device.put(packet(false, 10, 100, 100), NOW);
    assert_eq!((device.room(), device.in_flight()), (0, 1));
    let mut lost = Vec::new();
    device.reset(&mut lost);
    assert_eq!((lost.len(), lost[0].segments()), (1, 10));
    assert_eq!((device.room(), device.in_flight()), (1, 0));
}

/// A plain host and one with offload exchange 3 MiB each way; every frame has at most the MTU, and
/// offload saves most births.
#[test]
fn hosts_with_and_without_offload_exchange_the_same_bytes() {
    let births = [true, false].map(|offload| {
        let (births, longest) = if offload {
            transfer(device(128), |device| device.inner_mut())
        } else {
            transfer(MemoryDevice::default(), |device| device)
        };
        assert!(longest <= 1514, "{longest} bytes on the wire");
        births
    });
    let over_ip = device_over(Medium::Ip, 128);
    let (ip_births, longest) = transfer(over_ip, |device| device.inner_mut());
    assert!(longest <= 1500, "{longest} bytes over IP");
    for births_cut in [births[0], ip_births] {
        assert!(births_cut * 4 < births[1], "{births_cut} of {births:?}");
    }
}

const PORT: u16 = 5001;
const BYTES: usize = 3 << 20;

fn host<D: Device<Frame = HeapFrame>>(side: u8, device: D) -> Host<FqCodel<Packet<HeapFrame>>, D> {
    let config = HostConfig::new([2, 0, 0, 0, 0, side], u64::from(side))
        .address(Cidr::new(Ipv4Addr::new(10, 7, 0, side), 24));
    let qdisc = FqCodel::new(fq_codel::Config::default()).expect("the default is valid");
    let pool = Pool::heap(1024, device.tso());
    Host::new(
        config,
        Port::new(qdisc, Ring::new(device, Dql::default())),
        pool,
        NoTrace,
    )
}

/// Echoes through a plain host. Returns the births of the host over `device` and the longest frame.
fn transfer<D: Device<Frame = HeapFrame>>(
    device: D,
    inner: impl Fn(&mut D) -> &mut MemoryDevice,
) -> (u64, usize) {
    let plain = MemoryDevice {
        medium: device.medium(),
        ..MemoryDevice::default()
    };
    let (mut one, mut other) = (host(1, device), host(2, plain));
    let mut now = Instant::from_secs(1);
    other
        .listen(PORT, TcpConfig::default())
        .expect("a free port");
    let remote = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), PORT);
    let client = one
        .connect(remote, TcpConfig::default(), now)
        .expect("an address");
    let data: Vec<u8> = (0..BYTES).map(|at| ((at * at) >> 7) as u8).collect();
    let (mut server, mut echo, mut back) = (None, VecDeque::new(), Vec::new());
    let (mut sent, mut longest) = (0, 0);
    let mut buffer = vec![0; 64 << 10];
    while back.len() < BYTES {
        now += Duration::from_micros(50);
        assert!(now < Instant::from_secs(60), "it stands still");
        while one.receive(now) == 64 {}
        while other.receive(now) == 64 {}
        while one.next_event().is_some() {}
        while let Some(event) = other.next_event() {
            if let Event::Accepted { socket, .. } = event {
                server = Some(socket);
            }
        }
        sent += one.send(client, &data[sent..]).unwrap_or(0);
        while let Ok(Recv::Data(count)) = one.recv(client, &mut buffer) {
            back.extend_from_slice(&buffer[..count]);
        }
        if let Some(server) = server {
            while let Ok(Recv::Data(count)) = other.recv(server, &mut buffer) {
                echo.extend(&buffer[..count]);
            }
            let taken = other.send(server, echo.make_contiguous()).expect("open");
            echo.drain(..taken);
        }
        let _ = one.poll(now);
        let _ = other.poll(now);
        let near = inner(one.device_mut());
        longest = near.sent.iter().map(Vec::len).fold(longest, usize::max);
        other.device_mut().arrived.append(&mut near.sent);
        near.arrived.append(&mut other.device_mut().sent);
    }
    assert!(back == data, "the bytes that come back are those sent");
    (one.stats().births, longest)
}
