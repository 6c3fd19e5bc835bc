//! A bulk transfer allocates nothing per packet in steady state, anywhere on the walk: two hosts
//! with pacing, TSQ, fq_codel and DQL over a 1 Gbit/s wire, their sockets written and read all
//! along, with and without losses.
#![expect(
    unsafe_code,
    reason = "a counting allocator must implement GlobalAlloc, an unsafe trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tautline_base::{Bytes, Device, Frame, HeapFrame, Instant, Packet, Pool, Received, SocketId};
use tautline_bql::{Dql, Limit, Port, Ring};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{
    Cidr, Event, Host, HostConfig, NoTrace, Recv, SocketError, TcpConfig, TcpInfo, UdpConfig,
    UdpRecv,
};

/// The system's allocator, counting the calls of each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    /// Set: keep the backtrace of the next call.
    static CURIOUS: Cell<bool> = const { Cell::new(false) };
    static CULPRIT: RefCell<Option<Backtrace>> = const { RefCell::new(None) };
}

fn count() {
    CALLS.set(CALLS.get() + 1);
    // Taking a backtrace allocates too, but is not curious any more.
    if CURIOUS.replace(false) {
        let backtrace = Backtrace::force_capture();
        CULPRIT.with(|culprit| *culprit.borrow_mut() = Some(backtrace));
    }
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
// Counting does not unwind: it touches const-initialized thread-local cells, and borrows one that
// nobody else holds while an allocation may happen.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`; `ptr` came from `System`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Virtual time between two rounds.
const ROUND: Duration = Duration::from_micros(100);
/// Full frames that 1 Gbit/s carries in a round.
const FRAMES_PER_ROUND: usize = 8;
/// Rounds a frame is on the wire.
const DELAY: usize = 5;
const RING: usize = 64;
const PORT: u16 = 5001;

/// A NIC with a line rate. All its buffers are allocated in advance.
struct Nic {
    ring: VecDeque<Packet<HeapFrame>>,
    done: Vec<Packet<HeapFrame>>,
    /// Transmitted in the rounds before; a frame arrives when its round comes out.
    wire: VecDeque<Vec<Received<HeapFrame>>>,
    arrived: VecDeque<Received<HeapFrame>>,
    spare: Vec<HeapFrame>,
    transmitted: usize,
    /// Every so many frames with payload, one is lost.
    loses_one_in: Option<usize>,
}

impl Nic {
    fn new(loses_one_in: Option<usize>) -> Self {
        let frames = FRAMES_PER_ROUND * (DELAY + 2);
        Self {
            ring: VecDeque::with_capacity(RING),
            done: Vec::with_capacity(RING),
            wire: (0..DELAY)
                .map(|_| Vec::with_capacity(FRAMES_PER_ROUND))
                .collect(),
            arrived: VecDeque::with_capacity(frames),
            spare: (0..frames).map(|_| HeapFrame::new()).collect(),
            transmitted: 0,
            loses_one_in,
        }
    }

    /// A round passes: what has been on the wire long enough arrives at `peer`, and the line takes
    /// more from the ring.
    fn round(&mut self, peer: &mut Self) {
        let mut leaving = self
            .wire
            .pop_front()
            .expect("the wire is as long as the delay");
        peer.arrived.extend(leaving.drain(..));
        for _ in 0..FRAMES_PER_ROUND {
            let Some(packet) = self.ring.pop_front() else {
                break;
            };
            let bytes = packet.bytes();
            self.transmitted += usize::from(bytes.len() > 1000);
            let lost = bytes.len() > 1000
                && self
                    .loses_one_in
                    .is_some_and(|n| self.transmitted.is_multiple_of(n));
            if !lost {
                let mut frame = self.spare.pop().expect("as many frames as the wire holds");
                frame.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
                leaving.push(Received::new(frame, 0, bytes.len() as u32));
            }
            self.done.push(packet);
        }
        self.wire.push_back(leaving);
    }
}

impl Device for Nic {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1500
    }

    fn room(&self) -> usize {
        RING - self.ring.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        self.ring.push_back(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.ring.len() + self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        self.arrived.pop_front()
    }

    fn recycle(&mut self, frame: HeapFrame) {
        // Both NICs have equally many spare frames; the flow's own direction needs them.
        self.spare.push(frame);
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.extend(self.ring.drain(..).chain(self.done.drain(..)));
    }
}

/// A connection between two hosts, its data flowing one way.
struct Bulk {
    hosts: [Host<FqCodel<Packet<HeapFrame>>, Nic>; 2],
    client: SocketId,
    server: SocketId,
    now: Instant,
    chunk: bytes::Bytes,
    /// Buffers are owned and lent, not copied.
    zero_copy: bool,
}

impl Bulk {
    fn new(loses_one_in: Option<usize>) -> Self {
        Self::to(address(1).into(), loses_one_in)
    }

    fn to(remote: IpAddr, loses_one_in: Option<usize>) -> Self {
        // What the bytes wait for is kept account of as well: not even that allocates.
        let (receive_buffer, send_buffer) = (Bytes::kib(512), Bytes::mib(1));
        let config = TcpConfig {
            receive_buffer,
            send_buffer,
            attribution: true,
            ..TcpConfig::default()
        };
        let mut hosts = [host(0, loses_one_in), host(1, None)];
        let now = Instant::from_secs(1);
        hosts[1]
            .listen(PORT, config.clone())
            .expect("the port is free");
        let client = hosts[0]
            .connect(SocketAddr::new(remote, PORT), config, now)
            .expect("the address is good");
        let mut bulk = Self {
            hosts,
            client,
            server: client,
            now,
            chunk: vec![0x5a; 64 << 10].into(),
            zero_copy: false,
        };
        bulk.server = loop {
            bulk.round();
            if let Some(Event::Accepted { socket, .. }) = bulk.hosts[1].next_event() {
                break socket;
            }
        };
        bulk
    }

    fn info(&self) -> TcpInfo {
        self.hosts[0]
            .info(self.client)
            .expect("the connection lives as long as the rig")
    }

    /// Lets `segments` segments cross.
    fn run(&mut self, segments: u64) {
        let end = self.info().segments_out + segments;
        let mut buffer = [0; 16 << 10];
        while self.info().segments_out < end {
            while self.send() == Ok(self.chunk.len()) {}
            self.round();
            while let Ok(Recv::Data(_)) = self.receive(&mut buffer) {}
            while self.hosts[0].next_event().is_some() || self.hosts[1].next_event().is_some() {}
        }
    }

    fn send(&mut self) -> Result<usize, SocketError> {
        if self.zero_copy {
            let mut chunk = self.chunk.clone();
            self.hosts[0].tcp(self.client)?.send_owned(&mut chunk)
        } else {
            self.hosts[0].send(self.client, &self.chunk)
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<Recv, SocketError> {
        if self.zero_copy {
            self.hosts[1].tcp(self.server)?.recv_with(<[u8]>::len)
        } else {
            self.hosts[1].recv(self.server, buffer)
        }
    }

    fn round(&mut self) {
        self.now += ROUND;
        let [a, b] = &mut self.hosts;
        let _ = a.poll(self.now);
        let _ = b.poll(self.now);
        a.device_mut().round(b.device_mut());
        b.device_mut().round(a.device_mut());
        while b.receive(self.now) > 0 {}
        while a.receive(self.now) > 0 {}
        // The receiver's NIC ends up with the sender's frames: they go back, as a cable owns no
        // buffers.
        let (ours, theirs) = (&mut a.device_mut().spare, &mut b.device_mut().spare);
        while ours.len() < theirs.len() {
            ours.extend(theirs.pop());
        }
        while theirs.len() < ours.len() {
            theirs.extend(ours.pop());
        }
    }
}

fn address(side: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 7, 0, 1 + side)
}

fn address_v6(side: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 1 + u16::from(side))
}

fn host(side: u8, loses_one_in: Option<usize>) -> Host<FqCodel<Packet<HeapFrame>>, Nic> {
    let config = HostConfig::new([2, 0, 0, 0, 0, 1 + side], u64::from(side))
        .address(Cidr::new(address(side), 24))
        .address(Cidr::new(address_v6(side), 64));
    let qdisc = FqCodel::new(fq_codel::Config::default()).expect("the default is valid");
    let port = Port::new(qdisc, Ring::new(Nic::new(loses_one_in), Dql::default()));
    let pool = Pool::new((0..1024).map(|_| HeapFrame::new()).collect());
    Host::new(config, port, pool, NoTrace)
}

/// The allocations of `segments` further segments after `warm_up` of them; the first one's
/// backtrace.
fn allocations(bulk: &mut Bulk, warm_up: u64, segments: u64) -> (usize, Option<Backtrace>) {
    bulk.run(warm_up);
    let before = CALLS.get();
    CURIOUS.set(true);
    bulk.run(segments);
    CURIOUS.set(false);
    let count = CALLS.get() - before;
    (count, CULPRIT.with(|culprit| culprit.borrow_mut().take()))
}

#[test]
fn a_bulk_transfer_allocates_nothing_in_steady_state() {
    let mut bulk = Bulk::new(None);
    let (count, culprit) = allocations(&mut bulk, 20_000, 20_000);
    if let Some(culprit) = culprit {
        panic!("{count} allocations in 20000 segments, the first at\n{culprit}");
    }
    let info = bulk.info();
    assert!(info.tsq_throttles > 100, "TSQ must be at work: {info:?}");
    assert_eq!(info.retransmits, 0, "{info:?}");
    assert!(
        bulk.hosts[0].port().ring().limit().limit() > Bytes::ZERO,
        "so must DQL"
    );
}

#[test]
fn nor_does_one_without_copies() {
    let mut bulk = Bulk::new(None);
    bulk.zero_copy = true;
    let (count, culprit) = allocations(&mut bulk, 20_000, 20_000);
    if let Some(culprit) = culprit {
        panic!("{count} allocations in 20000 segments, the first at\n{culprit}");
    }
}

#[test]
fn nor_does_one_over_ipv6() {
    let mut bulk = Bulk::to(address_v6(1).into(), None);
    let (count, culprit) = allocations(&mut bulk, 20_000, 20_000);
    if let Some(culprit) = culprit {
        panic!("{count} allocations in 20000 segments, the first at\n{culprit}");
    }
}

#[test]
fn nor_does_a_transfer_with_losses() {
    let mut bulk = Bulk::new(Some(997));
    let (count, culprit) = allocations(&mut bulk, 100_000, 20_000);
    let info = bulk.info();
    assert!(info.retransmits > 50, "{info:?}");
    if let Some(culprit) = culprit {
        panic!("{count} allocations in 20000 segments, the first at\n{culprit}");
    }
}

/// Datagrams as many as the line carries, for so many rounds; how many were read.
fn datagrams(bulk: &mut Bulk, near: SocketId, far: SocketId, rounds: usize) -> usize {
    let (to, mut buffer, mut read) = (SocketAddr::from((address(1), PORT)), [0; 2000], 0);
    for _ in 0..rounds {
        while bulk.hosts[0]
            .udp()
            .send_to(near, &bulk.chunk[..1400], Some(to))
            .is_ok()
        {}
        bulk.round();
        while let Ok(UdpRecv::Datagram(_)) = bulk.hosts[1].udp().recv_from(far, &mut buffer) {
            read += 1;
        }
        while bulk.hosts[0].next_event().is_some() || bulk.hosts[1].next_event().is_some() {}
    }
    read
}

#[test]
fn nor_do_datagrams() {
    let mut bulk = Bulk::new(None);
    let bind = |host: &mut Host<_, _>, port| {
        host.udp()
            .bind(
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
                UdpConfig::default(),
            )
            .expect("free")
    };
    let [a, b] = &mut bulk.hosts;
    let (near, far) = (bind(a, 0), bind(b, PORT));
    datagrams(&mut bulk, near, far, 1000);
    let before = CALLS.get();
    CURIOUS.set(true);
    let read = datagrams(&mut bulk, near, far, 1000);
    CURIOUS.set(false);
    let count = CALLS.get() - before;
    if let Some(culprit) = CULPRIT.with(|culprit| culprit.borrow_mut().take()) {
        panic!("{count} allocations for {read} datagrams, the first at\n{culprit}");
    }
    assert!(read > 7000, "the line was not full: {read}");
}

#[test]
fn the_counter_counts() {
    let before = CALLS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(CALLS.get() - before, 1);
}
