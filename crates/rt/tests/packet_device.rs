//! Packet sockets on an untouched veth pair, in namespaces of their own. Without root each test
//! prints why it is skipped.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use allocation_counter::measure;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tautline_base::segmentation::leave_checksum;
use tautline_base::{Deferred, Device, Frame, HeapFrame, Instant, MAX_FRAGMENTS, Packet, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{Pfifo, pfifo};
use tautline_rt::blocking::{TcpListener, TcpStream};
use tautline_rt::handle::Config as HandleConfig;
use tautline_rt::packet_device::{Config, Failure, OpenError, PacketDevice, Take};
use tautline_rt::{Clock, HostThread, Idle, StackHandle};
use tautline_stack::{Cidr, Event, Host, HostConfig, NoTrace, Recv, TcpConfig};
use tautline_testkit::{ACK, Ip, Segment, TCP};

const BYTES: usize = 4 << 20;
const SEGMENTS: u64 = BYTES as u64 / 1448;
const PORT: u16 = 5001;
const NOW: Instant = Instant::ZERO;

/// Two namespaces joined by a veth pair with the kernel's defaults, removed when dropped.
struct Pair {
    name: String,
}

fn ip(arguments: &str) -> bool {
    Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .is_ok_and(|status| status.success())
}

impl Pair {
    /// The pair, with the kernels at 10.77.0.101 and .102, fd77::101 and ::102; `None` without root.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let pair = Self {
            name: format!("tl-pk-{}-{number}", std::process::id()),
        };
        let [left, right] = [0, 1].map(|side| pair.namespace(side));
        let made = ip(&format!("netns add {left}"))
            && ip(&format!("netns add {right}"))
            && ip(&format!(
                "-n {left} link add v0 type veth peer name v1 netns {right}"
            ));
        assert!(made, "root can make namespaces");
        for side in [0, 1] {
            let ns = pair.namespace(side);
            let host = side + 101;
            assert!(ip(&format!(
                "-n {ns} addr add 10.77.0.{host}/24 dev v{side}"
            )));
            assert!(ip(&format!(
                "-n {ns} addr add fd77::{host}/64 dev v{side} nodad"
            )));
            assert!(ip(&format!("-n {ns} link set v{side} up")));
        }
        Some(pair)
    }

    fn namespace(&self, side: usize) -> String {
        format!("{}-{side}", self.name)
    }

    /// Runs `work` on a thread inside a namespace.
    fn inside<T: Send>(&self, side: usize, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.namespace(side));
        let namespace = File::open(path).expect("the namespace exists");
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter");
                work()
            });
            worker.join().expect("no panic")
        })
    }

    fn open(&self, side: usize, take: Take) -> Result<PacketDevice, OpenError> {
        let config = Config {
            take,
            ..Config::new(format!("v{side}"))
        };
        self.inside(side, || PacketDevice::open(&config))
    }

    /// A host of ours at one end, 10.77.0.1 and fd77::1 at the left, 2 at the right.
    fn host(&self, side: usize) -> (HostThread, StackHandle) {
        let own = [
            format!("10.77.0.{}", side + 1),
            format!("fd77::{}", side + 1),
        ]
        .map(|address| address.parse::<IpAddr>().expect("an address"));
        let device = self
            .open(side, Take::Addresses(own.to_vec()))
            .expect("it is up");
        HostThread::spawn(HandleConfig::default(), Idle::Sleep, move || {
            let pool = Pool::heap(512, device.tso());
            let config = HostConfig::new(device.mac(), side as u64)
                .address(Cidr::new(own[0], 24))
                .address(Cidr::new(own[1], 64));
            let port = Port::new(
                Pfifo::new(pfifo::Config::default()),
                Ring::new(device, Dql::default()),
            );
            Ok(Host::new(config, port, pool, NoTrace))
        })
        .expect("a thread")
    }

    /// Packets that the kernel counts at one end: received and sent.
    fn packets(&self, side: usize) -> [u64; 2] {
        ["rx_packets", "tx_packets"].map(|counter| {
            let output = Command::new("ip")
                .args(["netns", "exec", &self.namespace(side), "cat"])
                .arg(format!("/sys/class/net/v{side}/statistics/{counter}"))
                .output()
                .expect("a counter");
            let text = String::from_utf8_lossy(&output.stdout);
            text.trim().parse().expect("a number")
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for side in [0, 1] {
            ip(&format!("netns delete {}", self.namespace(side)));
        }
    }
}

fn data() -> Vec<u8> {
    (0..BYTES as u32)
        .map(|at| (at ^ (at >> 9) ^ (at >> 17)) as u8)
        .collect()
}

/// Reads to the end, then sends the same back.
fn echo(mut stream: impl Read + Write) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("to the end");
    stream.write_all(&all).expect("written");
}

/// Sends a stream from our stack to `remote`, which echoes it.
fn there_and_back(stack: &StackHandle, remote: SocketAddr) {
    let data = data();
    let mut stream = TcpStream::connect(stack, remote).expect("connected");
    stream.write_all(&data).expect("written");
    stream.shutdown(Shutdown::Write).expect("open");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("to the end");
    assert!(back == data, "what came back is not what was sent");
}

#[test]
fn the_kernel_takes_and_gives_packets_of_several_segments() {
    let Some(pair) = Pair::new() else { return };
    for theirs in ["10.77.0.102", "fd77::102"] {
        let listener = pair
            .inside(1, || std::net::TcpListener::bind((theirs, 0)))
            .expect("free");
        let remote = listener.local_addr().expect("bound");
        let (thread, stack) = pair.host(0);
        let before = pair.packets(1);
        thread::scope(|threads| {
            threads.spawn(|| echo(listener.accept().expect("accepted").0));
            there_and_back(&stack, remote);
        });
        let after = pair.packets(1);
        let [taken, given] = [0, 1].map(|way| after[way] - before[way]);
        println!("{theirs}: {SEGMENTS} segments each way in {taken} and {given} packets");
        assert!(taken < SEGMENTS && given < SEGMENTS);
        thread.stop().expect("ran to its end");
    }
}

#[test]
fn two_hosts_of_ours_exchange_packets_of_several_segments() {
    let Some(pair) = Pair::new() else { return };
    let ((left, client), (right, server)) = (pair.host(0), pair.host(1));
    let listener = TcpListener::bind(&server, PORT).expect("free");
    for address in ["10.77.0.2", "fd77::2"] {
        let remote = SocketAddr::new(address.parse().expect("an address"), PORT);
        thread::scope(|threads| {
            threads.spawn(|| echo(listener.accept().expect("accepted").0));
            there_and_back(&client, remote);
        });
    }
    let [received, sent] = pair.packets(0);
    println!("2 × {SEGMENTS} segments each way in {received} and {sent} packets");
    assert!(received < 2 * SEGMENTS && sent < 2 * SEGMENTS);
    left.stop().expect("ran to its end");
    right.stop().expect("ran to its end");
}

/// Switches TSO off at one end, as an XDP program at the other end does.
fn switch_off_tso(pair: &Pair, side: usize) {
    let (ns, interface) = (pair.namespace(side), format!("v{side}"));
    let off = [
        "netns", "exec", &ns, "ethtool", "-K", &interface, "tso", "off",
    ];
    let status = Command::new("ip").args(off).status();
    assert!(status.is_ok_and(|status| status.success()), "ethtool runs");
}

#[test]
fn packets_of_several_segments_are_cut_where_the_interface_has_no_tso() {
    let Some(pair) = Pair::new() else { return };
    switch_off_tso(&pair, 0);
    let listener = pair.inside(1, || std::net::TcpListener::bind(("10.77.0.102", 0)));
    let listener = listener.expect("free");
    let remote = listener.local_addr().expect("bound");
    let (thread, stack) = pair.host(0);
    let before = pair.packets(1);
    thread::scope(|threads| {
        threads.spawn(|| echo(listener.accept().expect("accepted").0));
        there_and_back(&stack, remote);
    });
    assert!(pair.packets(1)[0] - before[0] >= SEGMENTS);
    thread.stop().expect("ran to its end");
}

/// Both hosts in this thread, whose allocations are counted.
#[test]
fn a_transfer_allocates_nothing_in_steady_state() {
    let Some(pair) = Pair::new() else { return };
    let clock = Clock::start();
    let mut hosts = [0u8, 1].map(|side| {
        let own = IpAddr::from([10, 77, 0, side + 1]);
        let device = pair.open(side.into(), Take::Addresses(vec![own]));
        let device = device.expect("it is up");
        let config = HostConfig::new(device.mac(), side.into()).address(Cidr::new(own, 24));
        let pool = Pool::heap(64, device.tso());
        let qdisc = Pfifo::new(pfifo::Config::default());
        let port = Port::new(qdisc, Ring::new(device, Dql::default()));
        Host::new(config, port, pool, NoTrace)
    });
    let tcp = TcpConfig::default();
    hosts[1].listen(PORT, tcp.clone()).expect("free");
    let remote = SocketAddr::from(([10, 77, 0, 2], PORT));
    let client = hosts[0].connect(remote, tcp, clock.now()).expect("good");
    let (mut server, chunk, mut buffer) = (None, vec![0x5a; 64 << 10], vec![0; 64 << 10]);
    let mut run = |bytes: usize| {
        let mut received = 0;
        while received < bytes {
            while let Ok(1..) = hosts[0].send(client, &chunk) {}
            for host in &mut hosts {
                while host.receive(clock.now()) > 0 {}
                let _ = host.poll(clock.now());
            }
            while hosts[0].next_event().is_some() {}
            while let Some(event) = hosts[1].next_event() {
                if let Event::Accepted { socket, .. } = event {
                    server = Some(socket);
                }
            }
            let Some(server) = server else { continue };
            while let Ok(Recv::Data(count)) = hosts[1].recv(server, &mut buffer) {
                received += count;
            }
        }
        hosts[0].stats().births
    };
    let before = run(64 << 20);
    let mut after = 0;
    let calls = measure(|| after = run(32 << 20));
    assert_eq!(calls.count_total, 0, "allocations");
    let births = after - before;
    assert!(births < (32 << 20) / 1448 / 4, "{births} births: not large");
}

fn poll_for(device: &PacketDevice, flags: PollFlags) -> bool {
    let mut fds = [PollFd::new(device, PollFlags::IN)];
    let second = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&second)).expect("poll");
    fds[0].revents().intersects(flags)
}

#[test]
fn an_interface_that_goes_down_or_away_is_reported_once_and_for_all() {
    let Some(pair) = Pair::new() else { return };
    let trouble = PollFlags::ERR | PollFlags::HUP;
    assert!(matches!(pair.open(0, Take::Everything).map(|_| ()), Ok(())));
    let (mut down, mut removed) = (
        pair.open(0, Take::Everything).expect("it is up"),
        pair.open(1, Take::Everything).expect("it is up"),
    );
    assert_eq!((down.failure(), removed.failure()), (None, None));
    assert!(!down.is_gone() && !removed.is_gone());
    assert!(ip(&format!("-n {} link set v0 down", pair.namespace(0))));
    assert!(poll_for(&down, trouble));
    for _ in 0..3 {
        while let Some(received) = down.receive(NOW) {
            down.recycle(received.frame);
        }
        assert!(poll_for(&down, trouble), "it stays so");
        assert!(down.is_gone());
    }
    let failure = pair.inside(0, move || down.failure());
    assert_eq!(failure, Some(Failure::Down("v0".to_owned())));
    let refused = pair.open(0, Take::Everything).map(|_| ());
    assert!(
        matches!(&refused, Err(OpenError::Down { interface }) if interface == "v0"),
        "{refused:?}"
    );
    assert!(ip(&format!("-n {} link del v0", pair.namespace(0))));
    while let Some(received) = removed.receive(NOW) {
        removed.recycle(received.frame);
    }
    assert!(poll_for(&removed, trouble));
    assert_eq!(removed.failure(), Some(Failure::Removed("v1".to_owned())));
    assert!(removed.is_gone());
    let gone = pair.open(1, Take::Everything).map(|_| ());
    assert!(matches!(gone, Err(OpenError::NoSuchInterface { .. })));
}

/// An Ethernet frame of `len` bytes for everybody, of an experimental protocol (IEEE 802), whose
/// last bytes are `mark`.
fn frame(len: usize, mark: u32) -> HeapFrame {
    let mut frame = HeapFrame::new();
    let bytes = frame.bytes_mut();
    bytes[..6].fill(0xff);
    bytes[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    bytes[len - 4..len].copy_from_slice(&mark.to_be_bytes());
    frame
}

/// The payload is in as many fragments as a packet may have, of odd lengths.
#[test]
fn a_gathered_packet_crosses_as_a_copied_one() {
    let Some(pair) = Pair::new() else { return };
    let [mut from, mut to] = [0, 1].map(|side| pair.open(side, Take::Everything).expect("up"));
    assert!(from.gathers());
    let payload: Bytes = (0..3 * 1448).map(|at| (at % 251) as u8).collect();
    let segment = Segment {
        flags: ACK,
        payload: payload.to_vec(),
        ..Segment::default()
    };
    let ip = Ip::new([10, 77, 0, 201], [10, 77, 0, 202], TCP);
    let mut whole = ip.frame([0xff; 6], [2, 0, 0, 0, 0, 9], &segment.to_bytes());
    assert!(leave_checksum(&mut whole, 14));
    for is_gathered in [false, true] {
        let mut frame = HeapFrame::with_len(whole.len());
        let deferred = if is_gathered {
            frame.bytes_mut()[..54].copy_from_slice(&whole[..54]);
            let starts = (0..payload.len()).step_by(257);
            let parts = starts.map(|at| payload.slice(at..payload.len().min(at + 257)));
            frame.fragments_mut().expect("a list").extend(parts);
            assert_eq!(frame.fragments().len(), MAX_FRAGMENTS);
            Deferred::Payload
        } else {
            frame.bytes_mut().copy_from_slice(&whole);
            Deferred::Nothing
        };
        let packet = Packet::new(frame, whole.len() as u32).with_segments(3);
        from.put(packet.with_deferred(deferred), NOW);
        from.doorbell(NOW);
        let received = loop {
            assert!(poll_for(&to, PollFlags::IN), "a packet arrives");
            // The kernel sends packets of its own.
            match to.receive(NOW) {
                Some(received) if received.len as usize == whole.len() => break received,
                Some(other) => to.recycle(other.frame),
                None => {}
            }
        };
        assert!(received.bytes() == whole, "gathered: {is_gathered}");
        let size = received.offload.segment_size.map(u16::from);
        assert_eq!(size, Some(1448));
        to.recycle(received.frame);
    }
    assert_eq!(from.counters().refused, 0);
}

#[test]
fn frames_of_no_known_protocol_cross_unchanged() {
    let Some(pair) = Pair::new() else { return };
    let [mut from, mut to] = [0, 1].map(|side| pair.open(side, Take::Everything).expect("up"));
    let mut marks = Vec::new();
    for mark in 0..1000u32 {
        let len = 60 + mark as usize;
        from.put(Packet::new(frame(len, mark), len as u32), NOW);
        from.doorbell(NOW);
        let mut done = Vec::new();
        from.reap(NOW, &mut done);
        assert_eq!((done.len(), from.in_flight()), (1, 0), "the call completes");
        assert!(poll_for(&to, PollFlags::IN));
        while let Some(received) = to.receive(NOW) {
            let bytes = received.bytes();
            // The kernel sends neighbor solicitations of its own.
            if bytes[12..14] == [0x88, 0xb5] {
                assert_eq!(bytes, &frame(bytes.len(), mark).bytes()[..bytes.len()]);
                marks.push(mark);
            }
            to.recycle(received.frame);
        }
    }
    assert_eq!(marks.len(), 1000);
    assert!(
        from.receive(NOW).is_none_or(|own| own.bytes()[12] != 0x88),
        "not its own"
    );
}

/// The kernel moves the tag out of the frame (`skb_vlan_untag`), which would arrive as one of another network.
#[test]
fn frames_with_a_vlan_tag_are_counted_and_dropped() {
    let Some(pair) = Pair::new() else { return };
    let [mut from, mut to] = [0, 1].map(|side| pair.open(side, Take::Everything).expect("up"));
    assert!(from.gathers());
    let mut send = |is_tagged: bool| {
        let mut frame = frame(64, 7);
        if is_tagged {
            // VLAN 5 (IEEE 802.1Q).
            frame.bytes_mut()[12..18].copy_from_slice(&[0x81, 0, 0, 5, 0x88, 0xb5]);
        }
        from.put(Packet::new(frame, 64), NOW);
        from.doorbell(NOW);
        from.reap(NOW, &mut Vec::new());
    };
    let mut arrive = || {
        assert!(poll_for(&to, PollFlags::IN));
        let mut ours = 0;
        while let Some(received) = to.receive(NOW) {
            // The kernel sends neighbor solicitations of its own.
            ours += usize::from(received.bytes()[12..14] == [0x88, 0xb5]);
            to.recycle(received.frame);
        }
        (ours, to.tagged())
    };
    for number in 1..=3 {
        send(true);
        send(false);
        assert_eq!(arrive(), (1, number));
    }
    // Beyond those that count, nobody is woken for them.
    for _ in 3..1100 {
        send(true);
    }
    send(false);
    assert_eq!(arrive(), (1, 1024));
    send(true);
    send(false);
    assert_eq!(arrive(), (1, 1024));
}
