//! Cutting and merging allocate nothing per packet once the pools have been as full as they get, alone
//! and below two hosts, whose buffers are copied or owned and lent.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use allocation_counter::measure;
use tautline_base::{Device, Frame, HeapFrame, Instant, Packet, Pool, Received, SocketId, Tso};
use tautline_bql::{Dql, Port, Ring};
use tautline_offload::{Config, SoftwareOffload};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{Cidr, Event, Host, HostConfig, NoTrace, Recv, TcpConfig};
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

type Stack = Host<FqCodel<Packet<HeapFrame>>, SoftwareOffload<Loopback>>;

/// Two hosts that a cable joins: what the device of one has sent arrives at the other's.
struct Bulk {
    hosts: [Stack; 2],
    client: SocketId,
    server: SocketId,
    now: Instant,
    chunk: bytes::Bytes,
    is_owned: bool,
}

impl Bulk {
    const PORT: u16 = 5001;

    fn new(is_owned: bool) -> Self {
        let mut hosts = [1, 2].map(|number| {
            let inner = Loopback {
                done: Vec::with_capacity(RING),
                arrived: VecDeque::with_capacity(4 * RING),
                spare: (0..4 * RING).map(|_| HeapFrame::new()).collect(),
            };
            let device = SoftwareOffload::new(inner, Pool::heap(4 * RING, None), Config::default());
            let config = HostConfig::new([2, 0, 0, 0, 0, number], number.into())
                .address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24));
            let qdisc = FqCodel::new(fq_codel::Config::default()).expect("the default is valid");
            let pool = Pool::heap(64, device.tso());
            let ring = Ring::new(device, Dql::default());
            Host::new(config, Port::new(qdisc, ring), pool, NoTrace)
        });
        let now = Instant::from_secs(1);
        let config = TcpConfig::default();
        hosts[1].listen(Self::PORT, config.clone()).expect("free");
        let remote = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), Self::PORT);
        let client = hosts[0].connect(remote, config, now).expect("an address");
        let mut bulk = Self {
            hosts,
            client,
            server: client,
            now,
            chunk: vec![0x5a; 64 << 10].into(),
            is_owned,
        };
        bulk.server = loop {
            bulk.round();
            if let Some(Event::Accepted { socket, .. }) = bulk.hosts[1].next_event() {
                break socket;
            }
        };
        bulk
    }

    fn round(&mut self) {
        self.now += Duration::from_micros(50);
        for host in &mut self.hosts {
            while host.receive(self.now) > 0 {}
            let _ = host.poll(self.now);
        }
        let [a, b] = &mut self.hosts;
        let (a, b) = (a.device_mut().inner_mut(), b.device_mut().inner_mut());
        std::mem::swap(&mut a.arrived, &mut b.arrived);
        // A cable owns no buffers.
        while a.spare.len() < b.spare.len() {
            a.spare.extend(b.spare.pop());
        }
        while b.spare.len() < a.spare.len() {
            b.spare.extend(a.spare.pop());
        }
    }

    /// Lets so many bytes cross.
    fn run(&mut self, bytes: usize) {
        let mut buffer = [0; 64 << 10];
        let mut received = 0;
        while received < bytes {
            while let Ok(1..) = if self.is_owned {
                let socket = self.hosts[0].tcp(self.client);
                socket.and_then(|mut socket| socket.send_owned(&mut self.chunk.clone()))
            } else {
                self.hosts[0].send(self.client, &self.chunk)
            } {}
            self.round();
            while let Ok(Recv::Data(count)) = if self.is_owned {
                let socket = self.hosts[1].tcp(self.server);
                socket.and_then(|mut socket| socket.recv_with(<[u8]>::len))
            } else {
                self.hosts[1].recv(self.server, &mut buffer)
            } {
                received += count;
            }
            while self
                .hosts
                .iter_mut()
                .any(|host| host.next_event().is_some())
            {}
        }
    }
}

#[test]
fn hosts_over_it_allocate_nothing_in_steady_state() {
    for is_owned in [false, true] {
        let mut bulk = Bulk::new(is_owned);
        bulk.run(64 << 20);
        let births = bulk.hosts[0].stats().births;
        let calls = measure(|| bulk.run(32 << 20));
        assert_eq!(calls.count_total, 0, "allocations, owned {is_owned}");
        let births = bulk.hosts[0].stats().births - births;
        assert!(births < (32 << 20) / 1448 / 4, "{births} births: not large");
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(
        measure(|| drop(std::hint::black_box(Box::new(1)))).count_total,
        1
    );
}
