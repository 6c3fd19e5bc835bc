//! Cutting and merging allocate nothing per packet once the pools have been as full as they get.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use allocation_counter::measure;
use tautline_base::{Device, Frame, HeapFrame, Instant, Packet, Pool, Received, Tso};
use tautline_offload::{Config, SoftwareOffload};
use tautline_testkit::{ACK, Ip, PSH, Segment, TCP, frame};

const NOW: Instant = Instant::ZERO;
/// Shorter than a packet of 40 segments, so that its rest waits for completions.
const RING: usize = 24;
/// Payload of a segment, and segments of a packet.
const SIZE: usize = 1400;
const COUNT: u16 = 40;

/// A device that receives what it sends. All its buffers are allocated in advance.
struct Loopback {
    done: Vec<Packet<HeapFrame>>,
    arrived: VecDeque<Received<HeapFrame>>,
    spare: Vec<HeapFrame>,
}

impl Device for Loopback {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1500
    }

    fn room(&self) -> usize {
        RING - self.done.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        let bytes = packet.bytes();
        let mut frame = self.spare.pop().expect("as many as two packets need");
        frame.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.arrived
            .push_back(Received::new(frame, 0, bytes.len() as u32));
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        self.arrived.pop_front()
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.spare.push(frame);
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}

/// A packet of `COUNT` segments with valid checksums once it is cut.
fn packet() -> Packet<HeapFrame> {
    let ip = Ip::new(
        Ipv4Addr::new(192, 0, 2, 1),
        Ipv4Addr::new(192, 0, 2, 2),
        TCP,
    );
    let segment = Segment {
        source_port: 1000,
        destination_port: 80,
        flags: ACK | PSH,
        window: 4096,
        payload: vec![0x5a; SIZE * usize::from(COUNT)],
        ..Segment::default()
    };
    let bytes = frame::ethernet(
        [2; 6],
        [4; 6],
        ip.ethertype(),
        &ip.packet(&segment.to_bytes()),
    );
    let mut frame = HeapFrame::with_len(Tso::MOST.frame_len());
    frame.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
    Packet::new(frame, bytes.len() as u32).with_segments(COUNT)
}

/// Sends `packet` so many times and receives it; how many packets arrived.
fn rounds(
    device: &mut SoftwareOffload<Loopback>,
    packet: &mut Option<Packet<HeapFrame>>,
    done: &mut Vec<Packet<HeapFrame>>,
    count: usize,
) -> usize {
    let mut received = 0;
    for _ in 0..count {
        device.put(packet.take().expect("it came back"), NOW);
        device.doorbell(NOW);
        while device.in_flight() > 0 {
            device.reap(NOW, done);
        }
        *packet = done.pop();
        while let Some(arrived) = device.receive(NOW) {
            received += 1;
            device.recycle(arrived.frame);
        }
    }
    received
}

#[test]
fn cutting_and_merging_allocate_nothing_in_steady_state() {
    for (gro, arrivals) in [(true, 1), (false, usize::from(COUNT))] {
        let inner = Loopback {
            done: Vec::with_capacity(RING),
            arrived: VecDeque::with_capacity(2 * usize::from(COUNT)),
            spare: (0..2 * COUNT).map(|_| HeapFrame::new()).collect(),
        };
        let config = Config {
            gro,
            ..Config::default()
        };
        let mut device = SoftwareOffload::new(inner, Pool::heap(RING, None), config);
        let (mut packet, mut done) = (Some(packet()), Vec::with_capacity(RING));
        rounds(&mut device, &mut packet, &mut done, 10);
        let mut received = 0;
        let calls = measure(|| received = rounds(&mut device, &mut packet, &mut done, 1000));
        assert_eq!(calls.count_total, 0, "allocations, merging {gro}");
        assert_eq!(received, 1000 * arrivals, "merging {gro}");
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(
        measure(|| drop(std::hint::black_box(Box::new(1)))).count_total,
        1
    );
}
