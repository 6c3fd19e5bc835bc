//! Packets of several segments through a bridge, beside the segments themselves.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use tautline_base::{Device, Frame, HeapFrame, Instant, Medium, Offload, Packet, Received, Tso};
use tautline_bql::LimitKind;
use tautline_qdisc::{FqCodel, Pfifo, Stats, fq_codel, pfifo};
use tautline_rt::bridge::{Bridge, Side};
use tautline_tc::DynQdisc;
use tautline_testkit::{ACK, Ip, MemoryDevice, PSH, Segment, TCP, frame};

const NOW: Instant = Instant::ZERO;
/// Payload of each segment but the last, and of all.
const SIZE: usize = 1000;
const PAYLOAD: usize = 4 * SIZE + 300;
/// As in every packet of TCP, which searches for the path's MTU (RFC 1191).
const DONT_FRAGMENT: u32 = 0x4000;
/// Congestion window reduced, a flag of TCP.
const CWR: u16 = 0x80;

/// A device of ordinary frames on which packets arrive with their receive offload.
#[derive(Default)]
struct Merging {
    wire: MemoryDevice,
    medium: Medium,
    offloads: VecDeque<Offload>,
    /// It accepts no frames of other devices.
    is_closed: bool,
    /// Addresses of the frames that were received and sent.
    received: Vec<usize>,
    sent: Vec<usize>,
}

impl Device for Merging {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.wire.mtu()
    }

    fn medium(&self) -> Medium {
        self.medium
    }

    fn tso(&self) -> Option<Tso> {
        self.wire.tso()
    }

    fn completes(&self) -> bool {
        self.wire.completes()
    }

    fn accepts(&self, _frame: &HeapFrame) -> bool {
        !self.is_closed
    }

    fn room(&self) -> usize {
        self.wire.room()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, now: Instant) {
        self.sent.push(packet.frame().bytes().as_ptr() as usize);
        self.wire.put(packet, now);
    }

    fn doorbell(&mut self, now: Instant) {
        self.wire.doorbell(now);
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        self.wire.reap(now, done);
    }

    fn in_flight(&self) -> usize {
        self.wire.in_flight()
    }

    fn receive(&mut self, now: Instant) -> Option<Received<HeapFrame>> {
        let received = self.wire.receive(now)?;
        let offload = self.offloads.pop_front().unwrap_or_default();
        let address = received.frame.bytes().as_ptr() as usize;
        self.received.push(address);
        Some(Received {
            offload,
            ..received
        })
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.wire.recycle(frame);
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        self.wire.reset(lost);
    }
}

type Queue = Box<dyn DynQdisc<Packet<HeapFrame>>>;

fn side(frames: usize, frame_len: usize) -> Side<Merging> {
    let queue: Queue = Box::new(Pfifo::new(pfifo::Config::default()));
    side_of(Merging::default(), queue, frames, frame_len)
}

fn side_of(device: Merging, queue: Queue, frames: usize, frame_len: usize) -> Side<Merging> {
    Side::new(
        device,
        (0..frames)
            .map(|_| HeapFrame::with_len(frame_len))
            .collect(),
        Stats::new(queue),
        LimitKind::Unlimited.build().expect("it has no parameter"),
    )
}

/// A valid frame with the `len` payload bytes of a stream from byte `from`.
fn segment(addresses: [IpAddr; 2], from: usize, len: usize, flags: u16) -> Vec<u8> {
    let ip = Ip {
        fragment: DONT_FRAGMENT,
        ..Ip::new(addresses[0], addresses[1], TCP)
    };
    let segment = Segment {
        source_port: 1000,
        destination_port: 80,
        seq: (u32::MAX - 1500).wrapping_add(from as u32),
        ack: 77,
        flags,
        window: 4096,
        payload: (from..from + len).map(|at| (at * 7) as u8).collect(),
        ..Segment::default()
    };
    frame::ethernet(
        [2; 6],
        [4; 6],
        ip.ethertype(),
        &ip.packet(&segment.to_bytes()),
    )
}

fn both_families() -> [[IpAddr; 2]; 2] {
    [
        [1, 2].map(|host| Ipv4Addr::new(192, 0, 2, host).into()),
        [1, 2].map(|host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into()),
    ]
}

/// `frame` without its TCP checksum, as the kernel hands over what never left the machine.
fn unfinished(mut frame: Vec<u8>, addresses: [IpAddr; 2]) -> Vec<u8> {
    let transport = if addresses[0].is_ipv4() { 34 } else { 54 };
    frame[transport + 16..transport + 18].fill(0xaa);
    frame
}

fn arrive(side: &mut Side<Merging>, frame: Vec<u8>, segment_size: Option<usize>) {
    let device = side.port_mut().ring_mut().device_mut();
    device.wire.arrived.push_back(frame);
    device.offloads.push_back(Offload {
        checksum_known: true,
        segment_size: segment_size.and_then(|size| NonZeroU16::new(size as u16)),
        ..Offload::default()
    });
}

/// A device that cuts packets itself learns the size of the segments that were merged: the last is shorter.
#[test]
fn a_large_packet_leaves_a_device_that_cuts_as_its_segments() {
    for addresses in both_families() {
        let mut right = side(8, Tso::MOST.frame_len());
        right.port_mut().ring_mut().device_mut().wire.tso = Some(Tso::MOST);
        let mut bridge = Bridge::new(side(4, 2048), right, 1);
        let whole = segment(addresses, 0, PAYLOAD, ACK | PSH);
        arrive(&mut bridge.left, unfinished(whole, addresses), Some(SIZE));
        assert!(!bridge.turn(NOW));
        let sent = &bridge.right.port().ring().device().wire.sent;
        assert!(*sent == segments(addresses));
    }
}

/// The segments of a payload, each with its own headers.
fn segments(addresses: [IpAddr; 2]) -> Vec<Vec<u8>> {
    let segments = (0..PAYLOAD).step_by(SIZE);
    let segments = segments.map(|from| match PAYLOAD - from {
        rest if rest > SIZE => segment(addresses, from, SIZE, ACK),
        rest => segment(addresses, from, rest, ACK | PSH),
    });
    segments.collect()
}

#[test]
fn a_large_packet_leaves_a_device_of_ordinary_frames_as_its_segments() {
    for addresses in both_families() {
        let mut bridge = Bridge::new(side(4, 2048), side(8, 2048), 1);
        let whole = segment(addresses, 0, PAYLOAD, ACK | PSH);
        arrive(&mut bridge.left, unfinished(whole, addresses), Some(SIZE));
        assert!(!bridge.turn(NOW));
        let sent = &bridge.right.port().ring().device().wire.sent;
        assert!(*sent == segments(addresses));
        // The limit and the qdisc see frames of the wire, and every frame of the pool comes back.
        let _ = bridge.turn(NOW);
        assert_eq!(bridge.right.port().qdisc().stats().enqueued.packets, 5);
        assert_eq!(bridge.right.outstanding(), 0);
        let received = bridge.left.received();
        assert_eq!((received.frames, received.no_memory), (5, 0));
    }
}

/// A frame that a NIC has verified arrives with Ethernet's padding; its checksum is written anew.
#[test]
fn a_padded_frame_keeps_its_checksum() {
    for padding in [0, 0xa5] {
        let mut bridge = Bridge::new(side(4, 2048), side(8, 2048), 1);
        let [addresses, _] = both_families();
        let mut frame = segment(addresses, 0, 0, ACK);
        frame.resize(60, padding);
        arrive(&mut bridge.left, unfinished(frame.clone(), addresses), None);
        assert!(!bridge.turn(NOW));
        assert!(bridge.right.port().ring().device().wire.sent == [frame]);
    }
}

/// Linux's TCP responds to classic ECN in the first segment of a packet, of which its header says nothing.
#[test]
fn cwr_stays_in_the_first_segment() {
    for addresses in both_families() {
        for tso in [None, Some(Tso::MOST)] {
            let mut right = side(8, Tso::MOST.frame_len());
            right.port_mut().ring_mut().device_mut().wire.tso = tso;
            let mut bridge = Bridge::new(side(4, 2048), right, 1);
            let whole = segment(addresses, 0, 2 * SIZE, ACK | CWR);
            arrive(&mut bridge.left, unfinished(whole, addresses), Some(SIZE));
            let device = bridge.left.port_mut().ring_mut().device_mut();
            device.offloads[0].cwr_once = true;
            assert!(!bridge.turn(NOW));
            let expected = [
                segment(addresses, 0, SIZE, ACK | CWR),
                segment(addresses, SIZE, SIZE, ACK),
            ];
            assert!(bridge.right.port().ring().device().wire.sent == expected);
        }
    }
}

/// Without a link header the flow is that of the IP header all the same: the fourth packet, of a flow of
/// its own, passes two of the first flow.
#[test]
fn packets_without_a_link_header_have_flows() {
    let ip_side = || {
        let device = Merging {
            medium: Medium::Ip,
            ..Merging::default()
        };
        let config = fq_codel::Config {
            perturbation: Some(1),
            ..fq_codel::Config::default()
        };
        let queue: Queue = Box::new(FqCodel::new(config).expect("the default"));
        side_of(device, queue, 8, 2048)
    };
    let mut bridge = Bridge::new(ip_side(), ip_side(), 1);
    let [bulk, sparse] = both_families();
    for (addresses, from, len) in [
        (bulk, 0, 1400),
        (bulk, 1400, 1401),
        (bulk, 2801, 1402),
        (sparse, 0, 9),
    ] {
        arrive(
            &mut bridge.left,
            segment(addresses, from, len, ACK)[14..].to_vec(),
            None,
        );
    }
    assert!(!bridge.turn(NOW));
    let sent = &bridge.right.port().ring().device().wire.sent;
    let payloads: Vec<usize> = sent
        .iter()
        .map(|packet| packet.len() - if packet[0] >> 4 == 4 { 40 } else { 60 })
        .collect();
    assert_eq!(payloads, [1400, 1401, 9, 1402]);
}

#[test]
fn a_bridge_prints_what_waits_on_each_side() {
    let bridge = Bridge::new(side(4, 2048), side(8, 2048), 1);
    let text = format!("{bridge:?}");
    assert!(text.starts_with("Bridge { left: Side {"), "{text}");
    assert_eq!(text.matches("outstanding: 0").count(), 2, "{text}");
}

#[test]
fn frames_of_the_heap_move_to_the_other_side() {
    let mut bridge = Bridge::new(side(4, 2048), side(4, 2048), 1);
    for [source, destination] in both_families() {
        // More than the pools have frames, so that those that moved come around.
        for _ in 0..20 {
            let there = segment([source, destination], 0, SIZE, ACK);
            let back = segment([destination, source], 0, SIZE, ACK);
            arrive(&mut bridge.left, there, None);
            arrive(&mut bridge.right, back, None);
            assert!(!bridge.turn(NOW));
        }
    }
    let _ = bridge.turn(NOW);
    for (from, to) in [(&bridge.left, &bridge.right), (&bridge.right, &bridge.left)] {
        let [from_device, to_device] = [from, to].map(|side| side.port().ring().device());
        assert_eq!(to_device.sent, from_device.received, "not copied");
        assert_eq!((to_device.sent.len(), to.outstanding()), (40, 0));
        assert_eq!((from.received().frames, from.received().no_memory), (40, 0));
    }
}

/// Frames move only in exchange, so both devices must accept those of the other.
#[test]
fn packets_are_copied_if_one_device_does_not_accept_the_frames_of_the_other() {
    let [[source, destination], _] = both_families();
    for closed in [0, 1] {
        let mut bridge = Bridge::new(side(4, 2048), side(4, 2048), 1);
        for (index, side) in [&mut bridge.left, &mut bridge.right]
            .into_iter()
            .enumerate()
        {
            side.port_mut().ring_mut().device_mut().is_closed = index == closed;
        }
        let there = segment([source, destination], 0, SIZE, ACK);
        let back = segment([destination, source], 0, SIZE, ACK);
        arrive(&mut bridge.left, there.clone(), None);
        arrive(&mut bridge.right, back.clone(), None);
        assert!(!bridge.turn(NOW));
        let [left, right] = [&bridge.left, &bridge.right].map(|side| side.port().ring().device());
        assert_ne!(right.sent, left.received);
        assert_ne!(left.sent, right.received);
        assert!(right.wire.sent == [there] && left.wire.sent == [back]);
    }
}

#[test]
fn a_single_packet_without_its_checksum_gets_it() {
    for addresses in both_families() {
        let mut bridge = Bridge::new(side(4, 2048), side(4, 2048), 1);
        let whole = segment(addresses, 0, SIZE, ACK | PSH);
        arrive(&mut bridge.left, unfinished(whole.clone(), addresses), None);
        assert!(!bridge.turn(NOW));
        let sent = &bridge.right.port().ring().device().wire.sent;
        assert_eq!(Vec::from(sent.clone()), [whole]);
    }
}

#[test]
fn a_packet_longer_than_the_other_sides_frames_is_counted() {
    let [addresses, _] = both_families();
    let mut bridge = Bridge::new(side(4, 2048), side(4, 2048), 1);
    let whole = segment(addresses, 0, PAYLOAD, ACK);
    arrive(&mut bridge.left, whole, None);
    assert!(!bridge.turn(NOW));
    assert_eq!(bridge.left.received().too_long, 1);
    assert_eq!(bridge.right.outstanding(), 0);
    assert!(bridge.right.port().ring().device().wire.sent.is_empty());
}

#[test]
fn a_pool_grows_as_packets_need_frames_and_no_further() {
    let mut bridge = Bridge::new(side(4, 2048), side(1, 2048).growing_to(3), 1);
    for round in 1..=2 {
        for _ in 0..5 {
            arrive(&mut bridge.left, vec![0; 60], None);
        }
        let _more = bridge.turn(NOW);
        assert_eq!(bridge.left.received().no_memory, 2 * round);
        let sent = &mut bridge.right.port_mut().ring_mut().device_mut().wire.sent;
        assert_eq!(sent.drain(..).len(), 3);
        let _completed = bridge.turn(NOW);
        assert_eq!(bridge.right.outstanding(), 0);
    }
}
