//! Goodput of our TCP over AF_XDP, plain and with packets of 64 KiB that software cuts and merges,
//! beside raw frames over AF_XDP, on the same veth pair, in the same run, at an MTU of 1500 and of
//! 9000 (packets of three chunks): one thread each side.
//!
//! The figures of merit are the ratios of the throughputs (criterion prints bytes on the wire per
//! second for all: a full segment counts as the 1514 or 9014 bytes it occupies). Needs root;
//! elsewhere it prints why it does nothing.

#[path = "../tests/net/mod.rs"]
mod net;

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant as Clock};

use criterion::{Criterion, Throughput};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tautline_base::{Device, Frame, Instant, Packet, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_offload::SoftwareOffload;
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{Cidr, Event, Host, HostConfig, NoTrace, Recv, TcpConfig};
use tautline_xdp_io::{UmemFrame, XdpDevice, interface_mac};

use net::{End, Pair, write_frame};

/// Frames in one measured iteration.
const FRAMES: u64 = 16 << 10;
/// Ethernet header; IPv4 header and TCP header with timestamps.
const LINK_HEADER: u64 = 14;
const HEADERS: u64 = 20 + 32;
const BURST: usize = 64;
/// Turns of the sender's loop before it looks how much is acknowledged.
const TURNS: usize = 8;
/// Frames for packets of several segments.
const LARGE_FRAMES: usize = 256;
const PORT: u16 = 5001;

type Stack<D> = Host<FqCodel<Packet<<D as Device>::Frame>>, D>;

fn main() {
    if let Some(reason) = net::blocked_by() {
        println!("goodput over AF_XDP skipped: {reason}");
        return;
    }
    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    for mtu in [1500, 9000] {
        compare(&mut criterion, mtu);
    }
}

fn compare(criterion: &mut Criterion, mtu: u64) {
    let pair = Pair::new(1);
    for end in [&pair.left, &pair.right] {
        end.ip(&["link", "set", &end.interface, "mtu", &mtu.to_string()]);
    }
    let mut group = criterion.benchmark_group(format!("af_xdp, MTU {mtu}"));
    group.throughput(Throughput::Bytes(FRAMES * (mtu + LINK_HEADER)));
    with_raw(&pair, mtu, |measure| {
        group.bench_function("raw frames", |bencher| bencher.iter_custom(&mut *measure));
    });
    let plain = |end: &End| {
        let (device, frames) = open(end);
        (device, Pool::new(frames))
    };
    with_tcp(
        &pair,
        mtu,
        plain,
        |device| device,
        |measure| {
            group.bench_function("tautline TCP", |bencher| bencher.iter_custom(&mut *measure));
        },
    );
    let large = |end: &End| {
        let (device, frames) = open(end);
        let device = SoftwareOffload::new(device, Pool::new(frames), Default::default());
        let pool = Pool::heap(LARGE_FRAMES, device.tso());
        (device, pool)
    };
    with_tcp(&pair, mtu, large, SoftwareOffload::inner, |measure| {
        group.bench_function("tautline TCP, cut and merged in software", |bencher| {
            bencher.iter_custom(&mut *measure);
        });
    });
    group.finish();
}

/// Runs `bench` with a function that sends so many iterations' worth of raw frames and waits until
/// that many have arrived.
fn with_raw(pair: &Pair, mtu: u64, bench: impl FnOnce(&mut dyn FnMut(u64) -> Duration)) {
    let len = (mtu + LINK_HEADER) as usize;
    let (mut device, mut frames) = open(&pair.left);
    let (sink, _transmit) = open(&pair.right);
    for frame in &mut frames {
        write_frame(frame.bytes_mut(), len, pair.right.address, 0);
    }
    let mut pool = Pool::new(frames);
    let mut done = Vec::new();
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| count(sink, &received, &stop));
        bench(&mut |iterations| {
            let start = clock();
            let target = received.load(Ordering::Relaxed) + iterations * FRAMES;
            while received.load(Ordering::Relaxed) < target {
                blast(&mut device, &mut pool, len, &mut done);
            }
            start.elapsed()
        });
        stop.store(true, Ordering::Relaxed);
    });
}

/// Counts frames until told to stop.
fn count(mut device: XdpDevice, received: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut count = 0;
        while let Some(frame) = device.receive(Instant::ZERO) {
            device.recycle(frame.frame);
            count += 1;
        }
        received.fetch_add(count, Ordering::Relaxed);
        if count == 0 {
            wait(&device, Duration::from_millis(1));
        }
    }
}

fn blast(
    device: &mut XdpDevice,
    pool: &mut Pool<UmemFrame>,
    len: usize,
    done: &mut Vec<Packet<UmemFrame>>,
) {
    for _ in 0..BURST.min(device.room()) {
        let Some(frame) = pool.take() else { break };
        device.put(Packet::new(frame, len as u32), Instant::ZERO);
    }
    device.doorbell(Instant::ZERO);
    device.reap(Instant::ZERO, done);
    for packet in done.drain(..) {
        let _ = pool.settle(packet);
    }
}

/// Runs `bench` with a function that sends so many iterations' worth of data over TCP and waits
/// until it is acknowledged.
fn with_tcp<D: Device + Send>(
    pair: &Pair,
    mtu: u64,
    open: impl Fn(&End) -> (D, Pool<D::Frame>),
    socket_of: fn(&D) -> &XdpDevice,
    bench: impl FnOnce(&mut dyn FnMut(u64) -> Duration),
) where
    D::Frame: Send,
{
    let [mut sender, mut receiver] =
        [(&pair.left, 1), (&pair.right, 2)].map(|(end, seed)| host(end, open(end), seed));
    receiver
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    let stop = AtomicBool::new(false);
    let epoch = clock();
    let now = || Instant::from_nanos(epoch.elapsed().as_nanos() as u64);
    let remote = SocketAddrV4::new(pair.right.address, PORT);
    let socket = sender
        .connect(remote, TcpConfig::default(), now())
        .expect("the address is good");
    let chunk = vec![0x5a; 64 << 10];
    // The SYN counts as acknowledged, too.
    let mut target = 1;
    std::thread::scope(|scope| {
        scope.spawn(|| serve(receiver, socket_of, &stop));
        bench(&mut |iterations| {
            let start = clock();
            // The pipe stays full from one measurement to the next: none ends in a wait for a delayed
            // acknowledgment.
            target += iterations * FRAMES * (mtu - HEADERS);
            while sender.info(socket).expect("open").bytes_acked < target {
                for _ in 0..TURNS {
                    let _ = sender.send(socket, &chunk).expect("open");
                    let _ = sender.receive(now());
                    let _ = sender.poll(now());
                    while sender.next_event().is_some() {}
                }
            }
            start.elapsed()
        });
        stop.store(true, Ordering::Relaxed);
    });
}

/// Reads everything that arrives.
fn serve<D: Device>(mut host: Stack<D>, socket_of: fn(&D) -> &XdpDevice, stop: &AtomicBool) {
    let epoch = clock();
    let mut buffer = vec![0; 256 << 10];
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::from_nanos(epoch.elapsed().as_nanos() as u64);
        let taken = host.receive(now);
        while let Some(event) = host.next_event() {
            if let Event::Readable(socket) = event {
                while let Ok(Recv::Data(_)) = host.recv(socket, &mut buffer) {}
            }
        }
        let wake = host.poll(now);
        if taken == 0 && wake.is_none_or(|wake| wake.at > now) {
            let until = wake.map_or(Duration::from_millis(1), |wake| wake.at - now);
            wait(
                socket_of(host.port().ring().device()),
                until.min(Duration::from_millis(1)),
            );
        }
    }
}

fn open(end: &End) -> (XdpDevice, Vec<UmemFrame>) {
    end.inside(|| XdpDevice::open(end.config()))
        .expect("the pair is ours")
}

fn host<D: Device>(end: &End, (device, pool): (D, Pool<D::Frame>), seed: u64) -> Stack<D> {
    let mac = end
        .inside(|| interface_mac(&end.interface))
        .expect("the interface exists");
    let config = HostConfig::new(mac, seed).address(Cidr::new(end.address, 24));
    let qdisc = FqCodel::new(fq_codel::Config::default()).expect("the default is valid");
    Host::new(
        config,
        Port::new(qdisc, Ring::new(device, Dql::default())),
        pool,
        NoTrace,
    )
}

fn wait(device: &XdpDevice, time: Duration) {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: time.subsec_nanos().into(),
    };
    let _ = poll(
        &mut [PollFd::from_borrowed_fd(device.poll_fd(), PollFlags::IN)],
        Some(&timeout),
    );
}

#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn clock() -> Clock {
    Clock::now()
}
