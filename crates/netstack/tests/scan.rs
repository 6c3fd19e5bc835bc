//! Port scans of a stack that stands for every address: 65 535 ports of 1 000 addresses, by a peer that
//! never answers. Memory stays within a bound, and later clients are served.
//!
//! A scan takes every port `p` of address `a` for which `p + a` is divisible by [`STRIDE`]: each address
//! by a 997th of its ports, and each port of some address. `SCAN_STRIDE=1` takes all of them, 65 535 000
//! packets a scan: `SCAN_STRIDE=1 cargo test --release -p tautline-netstack --test scan -- --nocapture`.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use futures_util::FutureExt;
use tautline_netstack::device::PacketIo;
use tautline_netstack::{Netstack, UdpSessions};
use tautline_stack::Limits;
use tautline_testkit::{Ip, RST, SYN, Segment, TCP};
use tokio::io::AsyncWriteExt;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

const UDP: u8 = 17;
const ADDRESSES: u32 = 1000;
/// A prime below the number of addresses.
const STRIDE: u32 = 997;
/// Packets that arrive before the application has its turn.
const BURST: usize = 64;
/// Bytes that a stack and its application take more than before the scan, at most. Of 3.3 million packets
/// (a stride of 20, release build) 1 000 sessions take 2.5 MB, 1 024 SYNs in the listener's queue 0.8 MB,
/// 800 SYNs that wait and 512 connections closed before they are open 5.4 MB: by the rate of the scan, some
/// have not sent their reset yet, and tables double.
const MOST: u64 = 8 << 20;
/// Requests and sessions that the application holds before it answers the oldest.
const HELD: usize = 200;
const SESSIONS: usize = 1000;
const LIMIT: Duration = Duration::from_secs(30);

/// The kind of a scan's packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Probe {
    Syn,
    Datagram,
}

/// The address and port that a scan takes after the given ones. Port 0 stands for none yet.
fn next_place((address, port): (u32, u32), stride: u32) -> Option<(u32, u32)> {
    let next = match port {
        0 => stride - address % stride,
        port => port + stride,
    };
    if address >= ADDRESSES {
        None
    } else if next > u16::MAX.into() {
        next_place((address + 1, 0), stride)
    } else {
        Some((address, next))
    }
}

/// A packet to the given number of an address, in both families in turn.
fn packet(probe: Probe, (address, port): (u32, u32)) -> Vec<u8> {
    let ends: [IpAddr; 2] = if address.is_multiple_of(2) {
        let to = Ipv4Addr::from_bits(0xc612_0000 + address);
        [Ipv4Addr::new(10, 7, 0, 1).into(), to.into()]
    } else {
        let network = |first| Ipv6Addr::new(first, 0xdb8, 0, 0, 0, 0, 0, address as u16).into();
        [network(0xfd07), network(0x2001)]
    };
    let (source_port, destination_port) = (4000, port as u16);
    let (protocol, payload) = match probe {
        Probe::Syn => {
            let segment = Segment {
                source_port,
                destination_port,
                flags: SYN,
                window: 1000,
                options: vec![2, 4, 5, 180, 4, 2, 3, 3, 7],
                ..Segment::default()
            };
            (TCP, segment.to_bytes())
        }
        Probe::Datagram => {
            let words = [source_port, destination_port, 12, 0].map(u16::to_be_bytes);
            (UDP, [&words.concat()[..], b"scan"].concat())
        }
    };
    Ip::new(ends[0], ends[1], protocol).packet(&payload)
}

/// The last destination: no scan takes it, for its address is beyond.
fn last() -> SocketAddr {
    let ip = Ipv4Addr::from_bits(0xc612_0000 + ADDRESSES);
    (ip, 443).into()
}

/// The packets that the stack sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    syn_acks: u64,
    resets: u64,
    datagrams: u64,
    others: u64,
}

/// The far end of the device.
#[derive(Default)]
struct Far {
    arriving: VecDeque<Vec<u8>>,
    answers: Answers,
    waker: Option<Waker>,
}

#[derive(Clone, Default)]
struct Device(Arc<Mutex<Far>>);

impl Device {
    fn with<T>(&self, use_it: impl FnOnce(&mut Far) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The stack receives `packets`.
    async fn deliver(&self, packets: impl Iterator<Item = Vec<u8>>) {
        let waker = self.with(|far| {
            far.arriving.extend(packets);
            far.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        while self.with(|far| !far.arriving.is_empty()) {
            yield_now().await;
        }
        yield_now().await;
    }

    fn answers(&self) -> Answers {
        self.with(|far| far.answers)
    }
}

impl PacketIo for Device {
    fn mtu(&self) -> usize {
        1500
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        self.with(|far| {
            let Some(packet) = far.arriving.pop_front() else {
                far.waker = Some(context.waker().clone());
                return Poll::Pending;
            };
            out[..packet.len()].copy_from_slice(&packet);
            Poll::Ready(Ok(packet.len()))
        })
    }

    fn poll_send(&mut self, _: &mut Context<'_>, packet: &[u8]) -> Poll<io::Result<()>> {
        let (protocol, payload) = match packet[0] >> 4 {
            4 => (packet[9], &packet[20..]),
            _ => (packet[6], &packet[40..]),
        };
        self.with(|far| {
            let counter = match protocol {
                TCP if u16::from(payload[13]) & RST != 0 => &mut far.answers.resets,
                TCP => &mut far.answers.syn_acks,
                UDP => &mut far.answers.datagrams,
                _ => &mut far.answers.others,
            };
            *counter += 1;
        });
        Poll::Ready(Ok(()))
    }
}

/// A runtime on this thread, whose allocations are counted, with a stack.
fn start(limits: Limits) -> (Runtime, Device, Netstack) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let (runtime, device) = (runtime.expect("a runtime"), Device::default());
    let entered = runtime.enter();
    let stack = Netstack::builder(device.clone()).limits(limits).build();
    drop(entered);
    (runtime, device, stack.expect("a runtime"))
}

/// Scans with `probe`; `turn` is the application's after each burst. Verifies the memory. Returns the
/// number of packets.
fn scan(runtime: &Runtime, device: &Device, probe: Probe, mut turn: impl AsyncFnMut()) -> usize {
    let stride = std::env::var("SCAN_STRIDE").map(|stride| stride.parse().expect("a number"));
    let stride = stride.unwrap_or(STRIDE);
    let (mut at, mut packets) = (Some((0, 0)), 0);
    // The second half takes about what the first did: tables double as they grow.
    let mut peaks = [0; 2];
    let mut held = 0;
    for (half, addresses) in [ADDRESSES / 2, ADDRESSES].into_iter().enumerate() {
        let measured = measure(|| {
            runtime.block_on(async {
                while let Some(from) = at.filter(|(address, _)| *address < addresses) {
                    let places = std::iter::successors(next_place(from, stride), |at| {
                        next_place(*at, stride)
                    });
                    let places: Vec<_> = places.take(BURST).collect();
                    packets += places.len();
                    at = places.last().copied().filter(|_| places.len() == BURST);
                    device
                        .deliver(places.into_iter().map(|at| packet(probe, at)))
                        .await;
                    turn().await;
                }
            });
        });
        peaks[half] = held + measured.bytes_max;
        held = held.saturating_add_signed(measured.bytes_current);
    }
    println!(
        "{packets} packets, at most {peaks:?} bytes in the halves of the scan, {held} after it"
    );
    assert!(
        packets as u32 >= ADDRESSES * (u32::from(u16::MAX) / stride),
        "{packets} packets"
    );
    assert!(peaks[0] <= MOST, "{} bytes", peaks[0]);
    assert!(
        peaks[1] <= peaks[0] + peaks[0] / 2,
        "{peaks:?} bytes: memory grows with the scan"
    );
    packets
}

/// The application accepts late, and soon drops the connection, since the peer does not answer. Each SYN
/// is answered.
#[test]
fn syns_that_are_accepted_late_take_bounded_memory() {
    let limits = Limits {
        requests: 4 * HELD,
        orphans: 512,
        ..Limits::default()
    };
    let (runtime, device, stack) = start(limits);
    let incoming = runtime.block_on(stack.tcp_incoming()).expect("the first");
    let (mut held, mut accepting) = (VecDeque::new(), VecDeque::new());
    let packets = scan(&runtime, &device, Probe::Syn, async || {
        while let Some(request) = incoming.next().now_or_never() {
            held.push_back(request.expect("the stack runs"));
        }
        while held.len() > HELD {
            let request = held.pop_front().expect("many are held");
            let mut accepted = Box::pin(request.accept());
            let open = accepted.as_mut().now_or_never();
            assert!(open.is_none(), "nobody answers");
            accepting.push_back(accepted);
        }
        accepting.drain(..accepting.len().saturating_sub(HELD));
    });
    // A SYN-ACK for each, and a reset once the application has dropped it.
    let (answers, least) = (device.answers(), packets as u64 - 2 * HELD as u64);
    assert!(answers.syn_acks >= least, "{answers:?}");
    runtime.block_on(async {
        held.clear();
        serves_a_syn(&device, &incoming).await;
    });
}

/// The application takes no SYN: no answer, and no memory beyond the queues.
#[test]
fn syns_that_nobody_takes_draw_no_answer_and_take_bounded_memory() {
    let (runtime, device, stack) = start(Limits::default());
    let incoming = runtime.block_on(stack.tcp_incoming()).expect("the first");
    scan(&runtime, &device, Probe::Syn, async || {});
    assert_eq!(device.answers(), Answers::default());
    runtime.block_on(serves_a_syn(&device, &incoming));
}

/// A SYN to [`last`] is handed out after all others, and answered.
async fn serves_a_syn(device: &Device, incoming: &tautline_netstack::TcpIncoming) {
    while let Ok(request) = timeout(Duration::from_millis(20), incoming.next()).await {
        drop(request);
    }
    let before = device.answers().syn_acks;
    let one = packet(Probe::Syn, (ADDRESSES, last().port().into()));
    device.deliver(std::iter::once(one)).await;
    let request = timeout(LIMIT, incoming.next()).await.expect("in time");
    let request = request.expect("the stack runs");
    assert_eq!(request.local_addr(), last());
    let accepted = timeout(Duration::from_millis(50), request.accept()).await;
    assert!(accepted.is_err(), "nobody acknowledged the SYN");
    assert!(device.answers().syn_acks > before);
}

/// The application takes each session and answers it late; sessions end with it.
#[test]
fn datagrams_that_are_answered_late_take_bounded_memory() {
    let (runtime, device, stack) = start(Limits::default());
    let incoming = runtime.block_on(stack.udp_incoming()).expect("the first");
    let entered = runtime.enter();
    let mut sessions = UdpSessions::new(incoming, LIMIT, SESSIONS);
    drop(entered);
    let mut held = VecDeque::new();
    scan(&runtime, &device, Probe::Datagram, async || {
        while let Some(session) = sessions.next().now_or_never() {
            held.push_back(session.expect("the stack runs"));
        }
        while held.len() > HELD {
            let session = held.pop_front();
            let mut session = session.expect("many are held");
            session.write_all(b"late").await.expect("the stack runs");
        }
    });
    let answers = device.answers();
    assert!(answers.datagrams > 0, "{answers:?}");
    held.clear();
    runtime.block_on(async {
        while let Some(session) = sessions.next().now_or_never() {
            drop(session);
        }
        let one = packet(Probe::Datagram, (ADDRESSES, last().port().into()));
        device.deliver(std::iter::once(one)).await;
        let session = timeout(LIMIT, sessions.next()).await.expect("in time");
        let session = session.expect("the stack runs");
        assert_eq!(session.destination_addr(), last());
    });
}

/// The application reads no datagram: no answer, and no memory beyond the socket's buffer.
#[test]
fn datagrams_that_nobody_reads_draw_no_answer_and_take_bounded_memory() {
    let (runtime, device, stack) = start(Limits::default());
    let incoming = runtime.block_on(stack.udp_incoming()).expect("the first");
    scan(&runtime, &device, Probe::Datagram, async || {});
    assert_eq!(device.answers(), Answers::default());
    runtime.block_on(async {
        let mut buffer = [0; 100];
        while let Some(received) = incoming.recv(&mut buffer).now_or_never() {
            received.expect("the stack runs");
            yield_now().await;
        }
        let one = packet(Probe::Datagram, (ADDRESSES, last().port().into()));
        device.deliver(std::iter::once(one)).await;
        let mut receiving = async || {
            loop {
                let (len, _, to) = incoming.recv(&mut buffer).await.expect("the stack runs");
                if to == last() {
                    return len;
                }
            }
        };
        let received = timeout(LIMIT, receiving()).await;
        assert_eq!(received.expect("in time"), 4);
    });
}
